//! The packets and messages of the PSI family.
use std::fmt::Debug;
use tributary_content::Name;
use tributary_psi::{
    capability::KEYS_MAX,
    wire::{
        ADJACENCIES_MAX, BEACON_LABELS_MAX, BUCKETS, Beacon, ControlBody, ControlPacket, DIGEST_RECORDS_MAX,
        DataHeader, EntryValue, FID_BYTES_MAX, FRAGMENTS_MAX, Fid, Header, Hello, LABEL_BYTES_MAX, LinkState,
        MAC_BYTES, MANIFEST_BYTES_MAX, Message, OVERTAKEN_MAX, Offer, Operation, PATH_LABEL_BYTES_MAX, PATHS_MAX,
        PUBLISHERS_MAX, PathRequest, REQUEST_PACKETS_MAX, REQUEST_RANGES_MAX, RESOLVERS_MAX, Request, Routes,
        SHARED_LINKS_MAX, TTL_MAX, WITHDRAWN_MAX, Wire, WireError, list_fid, seal, unseal,
    },
};

use crate::input::Input;

/// A parsed packet re-emits byte for byte behind any content of the buffer, and parses to the same again.
fn round_trip<'a, T: PartialEq + Debug>(
    data: &'a [u8],
    decode: impl Fn(&'a [u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Option<T> {
    match decode(data) {
        Ok(value) => {
            let mut out = b"before".to_vec();
            encode(&value, &mut out);
            assert_eq!(&out[..6], b"before");
            assert_eq!(&out[6..], data, "what parses re-emits");
            assert_eq!(decode(data).as_ref(), Ok(&value), "reading is repeatable");
            Some(value)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.reason().is_empty());
            None
        }
    }
}
/// The same for packets with their own length field: one byte less or more makes them invalid.
fn exact<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, WireError>,
    encode: impl Fn(&T, &mut Vec<u8>),
) -> Option<T> {
    let value = round_trip(data, &decode, encode)?;
    assert!(decode(&data[..data.len() - 1]).is_err(), "one byte less is no packet");
    assert_eq!(decode(&[data, &[0]].concat()), Err(WireError::Trailing { extra: 1 }));
    Some(value)
}
fn check_fid(fid: &Fid) {
    assert!(fid.bytes().len() <= FID_BYTES_MAX && fid.bytes().len().is_multiple_of(2));
    assert_eq!(fid.is_none(), fid.bytes().is_empty());
    let mut bytes = Vec::new();
    fid.encode(&mut bytes);
    assert_eq!(bytes.len(), fid.encoded_len());
    assert_eq!(Fid::decode(&bytes).as_ref(), Ok(fid));
    assert_eq!(Fid::new(fid.kind(), fid.salt(), fid.bytes()), *fid);
}

/// The common header re-emits the bytes that it read, keeps hop and length limits, and does not look behind itself.
pub fn header(data: &[u8]) {
    let Ok(header) = Header::decode(data) else {
        return assert!(!matches!(Header::decode(data), Err(WireError::Trailing { .. })));
    };
    let len = header.len();
    assert!(header.ttl <= TTL_MAX && len <= data.len());
    let again = round_trip(&data[..len], Header::decode, Header::encode);
    assert_eq!(again, Some(header.clone()));
    for cut in 0..len {
        assert!(Header::decode(&data[..cut]).is_err(), "cut at {cut}");
    }
    check_fid(&header.fid);
}

/// An FID re-emits the bytes read, and every truncation of it is refused.
pub fn fid(data: &[u8]) {
    let Ok(fid) = Fid::decode(data) else { return };
    let len = fid.encoded_len();
    assert_eq!(round_trip(&data[..len], Fid::decode, Fid::encode), Some(fid));
    for cut in 0..len {
        assert!(Fid::decode(&data[..cut]).is_err(), "cut at {cut}");
    }
    check_fid(&fid);
}

/// A request re-emits byte for byte and never names more packets than one request may.
pub fn request(data: &[u8]) {
    let Some(request) = exact(data, Request::decode, Request::encode) else { return };
    check_fid(&request.forward);
    assert!(request.packet_bytes > 0);
    assert!((1..=REQUEST_RANGES_MAX).contains(&request.ranges.len()));
    let packets: usize = request.ranges.iter().map(|(_, count)| usize::from(*count)).sum();
    assert!((request.ranges.len()..=REQUEST_PACKETS_MAX).contains(&packets));
    for (first, count) in request.ranges {
        assert!(count > 0 && first.checked_add(count.into()).is_some());
    }
}

/// A data header consists of a fixed number of bytes and re-emits them.
pub fn data_header(data: &[u8]) {
    match data.get(..DataHeader::BYTES) {
        None => assert!(DataHeader::decode(data).is_err()),
        Some(bytes) => {
            let header = round_trip(bytes, DataHeader::decode, DataHeader::encode);
            assert_eq!(header, DataHeader::decode(data).ok());
            assert!(header.is_some());
        }
    }
}

/// A hello re-emits byte for byte, its padding included.
pub fn hello(data: &[u8]) {
    let Some(hello) = exact(data, Hello::decode, Hello::encode) else { return };
    assert!(hello.label.len() <= LABEL_BYTES_MAX && usize::from(hello.padding_bytes) <= data.len());
}

/// A beacon re-emits byte for byte, and its routes fit an FID.
pub fn beacon(data: &[u8]) {
    let Some(beacon) = exact(data, Beacon::decode, Beacon::encode) else { return };
    assert!(beacon.label.len() <= LABEL_BYTES_MAX);
    for route in [&beacon.to_manager, &beacon.from_manager] {
        assert!(route.len() <= BEACON_LABELS_MAX);
        let label_bytes = if route.len() * 4 <= FID_BYTES_MAX { 4 } else { 2 };
        assert_eq!(list_fid(route).bytes().len(), route.len() * label_bytes);
    }
}

/// A control packet re-emits byte for byte, names nodes, and a fragment's index is below its count.
pub fn control_packet(data: &[u8]) {
    let packet = round_trip(data, ControlPacket::decode, |packet, out| packet.encode(out));
    let Some(packet) = packet else { return };
    assert!(packet.from.0 != 0 && packet.to.0 != 0);
    match packet.body {
        ControlBody::Fragment { index, count, reply, payload } => {
            assert!(index < count && usize::from(count) <= FRAGMENTS_MAX && payload.len() <= data.len());
            check_fid(&reply);
        }
        ControlBody::Introduction { credential } => assert!(credential.len() <= data.len()),
        ControlBody::Ack { .. } => {
            exact(data, |bytes| ControlPacket::decode(bytes).map(|_| ()), |(), out| out.extend_from_slice(data));
        }
    }
}

/// Every control message re-emits byte for byte and keeps the limits of its kind.
pub fn message(data: &[u8]) {
    let Some(message) = exact(data, Message::decode, Message::encode) else { return };
    let check_component = |tlv: &Vec<u8>| {
        assert_eq!(Name::from_tlv(tlv.clone()).map(|name| name.len()), Ok(1), "one component");
    };
    match message {
        Message::LinkState(state) => check_link_state(&state),
        Message::Routes(routes) => check_routes(&routes),
        Message::PathRequest(request) => check_path_request(&request),
        Message::Overtaken(overtaken) => assert!(overtaken.entries.len() <= OVERTAKEN_MAX),
        Message::Offer(offer) => check_offer(&offer),
        Message::Request(request) => check_operation(&request.operation),
        Message::Forward(forward) => check_operation(&forward.inner.operation),
        Message::ScopeNotice(notice) => notice.children.iter().for_each(|(tlv, _)| check_component(tlv)),
        Message::Relay(relay) => relay.notice.children.iter().for_each(|(tlv, _)| check_component(tlv)),
        Message::Replicate(replicate) => {
            for entry in replicate.records.iter().flat_map(|record| &record.entries) {
                if let Some(EntryValue::Publisher { label, manifest, .. }) = &entry.value {
                    assert!(label.len() <= LABEL_BYTES_MAX && manifest.len() <= MANIFEST_BYTES_MAX);
                }
            }
        }
        Message::Digest(digest) => assert!(digest.records.len() <= DIGEST_RECORDS_MAX),
        Message::Renewal(renewal) => {
            assert!(renewal.holdings.windows(2).all(|pair| pair[0].bucket < pair[1].bucket));
            assert!(renewal.holdings.iter().all(|holding| holding.bucket < BUCKETS));
        }
        Message::Renewed(renewed) => assert!(renewed.missing.windows(2).all(|pair| pair[0] < pair[1])),
        Message::Many(all) => assert!(!all.iter().any(|message| matches!(message, Message::Many(_)))),
        Message::Reply(_) | Message::Refused(_) | Message::Sync { .. } | Message::Ready { .. } => {}
    }
}
fn check_operation(operation: &Operation) {
    match operation {
        Operation::Publish { label, manifest, .. } => {
            assert!(label.len() <= LABEL_BYTES_MAX && manifest.len() <= MANIFEST_BYTES_MAX);
        }
        Operation::Subscribe { k, .. } => assert!((1..=PATHS_MAX).contains(&usize::from(*k))),
        Operation::SetChild { component, .. } => {
            assert_eq!(Name::from_tlv(component.clone()).map(|name| name.len()), Ok(1));
        }
        Operation::Unpublish
        | Operation::PublishScope { .. }
        | Operation::UnpublishScope
        | Operation::Unsubscribe { .. }
        | Operation::SubscribeScope { .. }
        | Operation::UnsubscribeScope => {}
    }
}

/// A link-state message re-emits byte for byte and keeps its limits.
pub fn link_state(data: &[u8]) {
    exact(data, LinkState::decode, LinkState::encode).iter().for_each(check_link_state);
}
fn check_link_state(state: &LinkState) {
    assert!(state.label.len() <= LABEL_BYTES_MAX && state.adjacencies.len() <= ADJACENCIES_MAX);
}

/// A routes message re-emits byte for byte and keeps its limits.
pub fn routes(data: &[u8]) {
    exact(data, Routes::decode, Routes::encode).iter().for_each(check_routes);
}
fn check_routes(routes: &Routes) {
    assert!(routes.resolvers.len() <= RESOLVERS_MAX && routes.keys.len() <= KEYS_MAX);
    assert!(routes.bitmap.faces.len() <= ADJACENCIES_MAX);
    for resolver in &routes.resolvers {
        assert!(resolver.label.len() <= LABEL_BYTES_MAX);
        check_fid(&resolver.to);
        check_fid(&resolver.back);
    }
}

/// A path request re-emits byte for byte and keeps its limits.
pub fn path_request(data: &[u8]) {
    exact(data, PathRequest::decode, PathRequest::encode).iter().for_each(check_path_request);
}
fn check_path_request(request: &PathRequest) {
    assert!(usize::from(request.paths) <= PATHS_MAX && request.publishers.len() <= PUBLISHERS_MAX);
    assert!(request.withdrawn.len() <= WITHDRAWN_MAX);
    assert!(request.item.components().len() <= Name::COMPONENTS_MAX);
    for publisher in &request.publishers {
        assert!(publisher.label.len() <= LABEL_BYTES_MAX && publisher.manifest.len() <= MANIFEST_BYTES_MAX);
    }
}

/// An offer re-emits byte for byte and keeps its limits.
pub fn offer(data: &[u8]) {
    exact(data, Offer::decode, Offer::encode).iter().for_each(check_offer);
}
fn check_offer(offer: &Offer) {
    assert!(offer.index == 0 || offer.index < offer.count);
    assert!(offer.source_label.len() <= LABEL_BYTES_MAX && offer.manifest.len() <= MANIFEST_BYTES_MAX);
    assert!(offer.paths.len() <= PATHS_MAX);
    for path in &offer.paths {
        assert!(path.shared_links.len() <= SHARED_LINKS_MAX && path.label.len() <= PATH_LABEL_BYTES_MAX);
        check_fid(&path.reverse);
        check_fid(&path.forward);
    }
}

/// A sealed packet unseals with the same key, and neither with another key nor with a changed bit nor shortened; other
/// packets do not unseal.
pub fn sealed(data: &[u8]) {
    let mut input = Input::new(data);
    let mut key = [0; 32];
    key[0] = input.u8();
    let (start, bit) = (usize::from(input.u8()), usize::from(input.u16()));
    let body = input.bytes(usize::MAX);
    let start = start.min(body.len());
    assert!(unseal(&key, body).is_err(), "nobody guesses eight bytes");
    let mut packet = body.to_vec();
    seal(&key, &mut packet, start);
    assert_eq!(packet.len(), body.len() + MAC_BYTES);
    assert_eq!(packet[..body.len()], *body);
    assert_eq!(unseal(&key, &packet[start..]), Ok(&body[start..]));
    assert!(unseal(&key, &packet[start..packet.len() - 1]).is_err());
    let bit = start * 8 + bit % ((packet.len() - start) * 8);
    packet[bit / 8] ^= 1 << (bit % 8);
    assert!(unseal(&key, &packet[start..]).is_err());
    packet[bit / 8] ^= 1 << (bit % 8);
    key[31] ^= 1;
    assert!(unseal(&key, &packet[start..]).is_err());
}
