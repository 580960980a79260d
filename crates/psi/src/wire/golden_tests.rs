//! Bodies written by hand are decoded to what their file says, and encoded to the same bytes.
use alloc::{string::String, vec::Vec};

use tributary_testkit::golden;

use super::*;

extern crate std;

#[test]
fn golden_bodies_say_what_is_told_and_come_back() {
    let bodies = golden::parse(include_str!("../../tests/golden/packets.txt")).unwrap();
    let differences = bodies.iter().filter_map(|body| match body.name.split(':').next() {
        Some("hello") => body.difference_or_end(Hello::decode, Hello::encode),
        Some("beacon") => body.difference_or_end(Beacon::decode, Beacon::encode),
        Some("link state") => body.difference_or_end(LinkState::decode, LinkState::encode),
        // Older managers send no keys of resolvers, so routes may end before these.
        Some("routes") if body.name.ends_with("a key") => body.difference(Routes::decode, Routes::encode),
        Some("routes") => body.difference_or_end(Routes::decode, Routes::encode),
        Some("path request") => body.difference_or_end(PathRequest::decode, PathRequest::encode),
        Some("overtaken") => body.difference_or_end(Overtaken::decode, Overtaken::encode),
        Some("offer") => body.difference_or_end(Offer::decode, Offer::encode),
        Some("message") => body.difference_or_end(Message::decode, |message, out| message.encode(out)),
        // A fragment is as long as its packet.
        Some("control") => body.difference(ControlPacket::decode, |packet, out| packet.encode(out)),
        kind => panic!("{kind:?} is no kind of body"),
    });
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
