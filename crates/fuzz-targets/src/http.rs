//! What the two HTTP proxies send each other.
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use tributary_http::exchange::{CreditHead, RequestHead, ResponseHead, SegmentHead, pack, unpack};

/// Heads and bodies survive being written and read.
pub fn http_exchange(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    again::<RequestHead>(&bytes);
    again::<SegmentHead>(&bytes);
    again::<CreditHead>(&bytes);
}

fn again<H: Serialize + DeserializeOwned + PartialEq + Debug>(bytes: &Bytes) {
    let Some((head, body)) = unpack::<H>(bytes) else { return };
    let packed = Bytes::from(pack(&head, &body));
    assert!(bytes.ends_with(&body), "the body is the end of what came");
    assert_eq!(unpack::<H>(&packed), Some((head, body)));
    assert_eq!(unpack::<H>(&packed.slice(..3)), None);
}

/// Valid inputs to start from.
pub fn seeds() -> Vec<crate::seeds::Seed> {
    let headers = vec![("host".to_string(), b"www.example.org".to_vec())];
    let request = RequestHead {
        id: 7,
        reply_to: "guid".into(),
        method: "GET".into(),
        target: "/index.html?x=1".into(),
        headers: headers.clone(),
    };
    let segment = SegmentHead {
        id: 7,
        number: 0,
        is_last: true,
        reply_to: Some("guid".into()),
        response: Some(ResponseHead { status: 200, headers }),
        failure: None,
    };
    let credit = CreditHead { id: 7, taken: 3, gone: false };
    let seeds =
        [("request", pack(&request, b"body")), ("segment", pack(&segment, b"content")), ("credit", pack(&credit, b""))];
    seeds.into_iter().map(|(label, bytes)| ("http_exchange", format!("seed-{label}"), bytes)).collect()
}
