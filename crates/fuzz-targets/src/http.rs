//! What the two HTTP proxies send each other.
use bytes::{Bytes, BytesMut};
use tributary::Credential;
use tributary_http::exchange::{ExchangeId, Frame, Frames, Kind, Message, RequestHead, ResponseHead};

/// Messages and frames survive being read and written, and frames do not depend on how their stream is cut.
pub fn http_exchange(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(message) = Message::decode(&bytes) {
        assert_eq!(Message::decode(&message.encode().into()), Some(message));
    }
    let (mut complete, mut cut) = ((Frames::default(), Vec::new()), (Frames::default(), Vec::new()));
    let outcome = complete.0.take(bytes.clone(), &mut complete.1);
    let mut pieces = (0..bytes.len()).map(|at| bytes.slice(at..=at));
    let in_pieces = pieces.try_for_each(|piece| cut.0.take(piece, &mut cut.1));
    assert_eq!(outcome, in_pieces);
    let (complete_frames, cut_frames) = (joined(&complete.1), joined(&cut.1));
    assert_eq!(complete_frames, cut_frames);
    let mut stream = BytesMut::new();
    complete_frames.iter().for_each(|frame| frame.encode(&mut stream));
    let (mut again, mut out) = (Frames::default(), Vec::new());
    assert_eq!(again.take(stream.freeze(), &mut out), Ok(()));
    assert!(again.is_complete());
    assert_eq!(joined(&out), complete_frames);
}

/// Joins consecutive pieces of a body: where a body is cut has no meaning.
fn joined(frames: &[Frame]) -> Vec<Frame> {
    let mut out: Vec<Frame> = Vec::new();
    for frame in frames {
        match (out.last_mut(), frame) {
            (Some(Frame::Data(before)), Frame::Data(bytes)) => *before = [&before[..], bytes].concat().into(),
            _ => out.push(frame.clone()),
        }
    }
    out
}

/// Valid inputs to start from.
pub fn seeds() -> Vec<crate::seeds::Seed> {
    let fields = vec![("host".to_string(), Bytes::from_static(b"www.example.org"))];
    let (method, target) = ("GET".to_string(), "/index.html?x=1".to_string());
    let mut stream = BytesMut::new();
    for frame in [
        Frame::Request(RequestHead { method, target, fields: fields.clone() }),
        Frame::Interim(ResponseHead { status: 103, reason: None, fields: Vec::new() }),
        Frame::Response(ResponseHead { status: 299, reason: Some(Bytes::from_static(b"Own")), fields: fields.clone() }),
        Frame::Data(Bytes::from_static(b"some bytes of a body")),
        Frame::Trailers(fields),
    ] {
        frame.encode(&mut stream);
    }
    let stream = stream.freeze();
    let message = |kind| {
        let credential = Credential::from_bytes(&[7; Credential::BYTES]);
        Message { id: ExchangeId([9; 16]), credential, kind }.encode()
    };
    let seeds = [
        ("open", message(Kind::Open { limit: 1 << 20, is_last: true, bytes: stream.clone() })),
        ("segment", message(Kind::Segment { number: 7, is_last: false, bytes: stream.clone() })),
        ("credit", message(Kind::Credit { limit: 65_536, stop: true })),
        ("reset", message(Kind::Reset { status: 503, reason: "too many".into() })),
        ("stream", stream.to_vec()),
    ];
    seeds.into_iter().map(|(label, bytes)| ("http_exchange", format!("seed-{label}"), bytes)).collect()
}
