//! Every role of the family, alone and together, under the conformance suite.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]
use tributary_content::{MemoryObject, MemoryOpener, SigningKey};
use tributary_core::{Duration, FaceId, Rate, Time};
use tributary_mf::{Config, MfNode};
use tributary_testkit::{
    conformance::{Conformance, run},
    trust::{self, Part},
};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

fn faces(node: &mut MfNode, now: Time) {
    for face in 0..4 {
        node.add_face(now, FaceId(face), FaceOptions { mtu: 1472, rate: Some(Rate::from_mbps(10)) });
    }
}
fn publish(node: &mut MfNode, now: Time) {
    faces(node, now);
    let name = "/conformance/object".parse().unwrap();
    let object = MemoryObject::new(name, vec![5; 300_000], &SigningKey::from_secret(&[3; 32])).unwrap();
    node.publish(now, Box::new(object));
    node.accept(Box::new(MemoryOpener::new()));
}
fn fetch(node: &mut MfNode, now: Time) {
    faces(node, now);
    node.watch(now, &"/conformance".parse().unwrap());
    node.fetch(
        now,
        Fetch {
            name: "/conformance/object".parse().unwrap(),
            opener: Box::new(MemoryOpener::new()),
            rate_limit: None,
            paths_per_source: 4,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(30)),
        },
    );
}
fn everything(node: &mut MfNode, now: Time) {
    publish(node, now);
    fetch(node, now);
}

fn examine(label: &'static str, set: fn(&mut Config), kick: fn(&mut MfNode, Time)) {
    let make = move || {
        let mut config = Config::new(label, 7);
        set(&mut config);
        MfNode::new(config)
    };
    run(make, &Conformance { kick: Some(kick), ..Conformance::default() });
}

#[test]
fn a_router_conforms() {
    examine("router", |config| config.router = true, faces);
}
#[test]
fn a_resolver_conforms() {
    examine("resolver", |config| (config.router, config.resolver) = (true, true), faces);
}
#[test]
fn a_sender_conforms() {
    examine("sender", |_| {}, publish);
}
#[test]
fn a_receiver_conforms() {
    examine("receiver", |_| {}, fetch);
}
#[test]
fn all_roles_in_one_node_conform() {
    examine("everything", |config| (config.router, config.resolver) = (true, true), everything);
}

#[test]
fn it_believes_whom_all_families_believe() {
    trust::run(
        |part, label, seed| {
            let mut config = Config::new(label, seed);
            (config.router, config.resolver) = (part == Part::Router, part == Part::Router);
            MfNode::new(config)
        },
        |_, _, _| {},
    );
}
