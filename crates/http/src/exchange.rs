//! The messages between the two proxies, and the frames in the streams that the messages carry.
//!
//! An exchange is a request and its response, or a tunnel. It has a stream of bytes in each direction, and both streams
//! work alike. A stream is cut into segments numbered from 0; each travels in a separate message, and messages have no
//! order. The receiver of a stream grants the sender a limit in bytes, as `MAX_STREAM_DATA` does in QUIC (RFC 9000
//! §4.1), and raises it as its reader reads.
//!
//! ```text
//! message   0         1      2       3              19                115              123
//!           | version | kind | flags | exchange id  | credential      | number         | payload
//!                                      16             96                8
//!
//! kind      number                                payload                             flags
//! Open      bytes that the response may have      segment 0 of the request's stream   1: it is the last one
//! Segment   of the segment                        bytes of the stream                 1: it is the last one
//! Credit    bytes that the stream may have        -                                   2: no more are wanted
//! Reset     status for the browser, or 0          reason, UTF-8                       -
//!
//! stream    | type 1 | length 4 | payload | type 1 | length 4 | payload | ...
//! ```
//! The browser's side chooses the id at random, so that it cannot be guessed. A credential names the device that signed
//! the message. The web server's side accepts the parts of an exchange only from the device that opened it, and the
//! browser's side only from the device that received its request.
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tributary::Credential;
use tributary_content::Name;

/// Version of messages and frames. The first one had JSON heads and no version.
pub const VERSION: u8 = 2;
/// Bytes of a message before its payload.
pub const HEADER_BYTES: usize = 3 + 16 + Credential::BYTES + 8;
/// Maximum bytes of a stream in one segment.
pub const SEGMENT_BYTES: usize = 64 << 10;
/// Maximum bytes of the first line and all fields of a message, on either side and in between. nginx accepts 32 KiB and
/// Apache 800 KiB by default; cookies of 100 kB occur.
pub const HEAD_BYTES_MAX: usize = 128 << 10;
/// Maximum fields of a message. Apache accepts 100 by default; answers with some hundred `Set-Cookie` occur.
pub const FIELDS_MAX: usize = 512;
/// The overhead of an encoded head over HTTP's longest: six bytes a field, minus its colon and line end.
const HEAD_FRAME_BYTES_MAX: usize = HEAD_BYTES_MAX + 8 * FIELDS_MAX;
/// Maximum bytes of the reason in a reset; the rest is cut off.
const REASON_BYTES_MAX: usize = 1_024;

/// Names an exchange.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExchangeId(pub [u8; 16]);

/// What a message is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Begins an exchange.
    Open {
        /// Bytes that the response's stream may have at first.
        limit: u64,
        /// Whether the request's stream ends here.
        is_last: bool,
        /// The first segment of the request's stream.
        bytes: Bytes,
    },
    /// A part of a stream.
    Segment {
        /// Counts from 0 in each stream.
        number: u64,
        /// Whether the stream ends here.
        is_last: bool,
        /// Bytes of the stream.
        bytes: Bytes,
    },
    /// What the stream towards the sender of this message may have.
    Credit {
        /// Bytes from its beginning.
        limit: u64,
        /// Whether the receiver wants no more of the stream.
        stop: bool,
    },
    /// The exchange has failed.
    Reset {
        /// Status for the browser if the response has not started; 0 leaves it to the browser's side.
        status: u16,
        /// Why, for people.
        reason: String,
    },
}

/// A message between the proxies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The exchange.
    pub id: ExchangeId,
    /// The device that signs the message.
    pub credential: Credential,
    /// The rest.
    pub kind: Kind,
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, flags, number, payload): (u8, u8, u64, &[u8]) = match &self.kind {
            Kind::Open { limit, is_last, bytes } => (1, u8::from(*is_last), *limit, bytes),
            Kind::Segment { number, is_last, bytes } => (2, u8::from(*is_last), *number, bytes),
            Kind::Credit { limit, stop } => (3, u8::from(*stop) << 1, *limit, &[]),
            Kind::Reset { status, reason } => {
                (4, 0, u64::from(*status), reason.as_bytes().get(..REASON_BYTES_MAX).unwrap_or(reason.as_bytes()))
            }
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend_from_slice(&[VERSION, kind, flags]);
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.credential.to_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }
    /// Reads a message; `None` if the bytes are not a message of this version.
    pub fn decode(bytes: &Bytes) -> Option<Message> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let mut rest = bytes.clone();
        let (version, kind, flags) = (rest.get_u8(), rest.get_u8(), rest.get_u8());
        let (mut id, mut credential) = ([0; 16], [0; Credential::BYTES]);
        rest.copy_to_slice(&mut id);
        rest.copy_to_slice(&mut credential);
        let number = rest.get_u64();
        let (is_last, stop) = (flags & 1 != 0, flags & 2 != 0);
        if version != VERSION || rest.len() > SEGMENT_BYTES {
            return None;
        }
        let kind = match kind {
            1 => Kind::Open { limit: number, is_last, bytes: rest },
            2 => Kind::Segment { number, is_last, bytes: rest },
            3 => Kind::Credit { limit: number, stop },
            4 => {
                let reason = String::from_utf8_lossy(&rest[..rest.len().min(REASON_BYTES_MAX)]).into_owned();
                Kind::Reset { status: u16::try_from(number).ok()?, reason }
            }
            _ => return None,
        };
        Some(Message { id: ExchangeId(id), credential: Credential::from_bytes(&credential), kind })
    }
}

/// A header or trailer field: its name in lower case, and its value.
pub type Field = (String, Bytes);

/// A request without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: String,
    /// Path and query, `*`, or the host and port of a tunnel.
    pub target: String,
    /// Fields that concern more than one connection. `upgrade` among them asks for another protocol.
    pub fields: Vec<Field>,
}

/// A response, final or interim (1xx), without its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The reason phrase, where it is not the usual one of the status.
    pub reason: Option<Bytes>,
    /// Fields that concern more than one connection.
    pub fields: Vec<Field>,
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Begins the stream of a request.
    Request(RequestHead),
    /// Begins the stream of a response, after any interim ones.
    Response(ResponseHead),
    /// An interim response.
    Interim(ResponseHead),
    /// Bytes of a body or of a tunnel.
    Data(Bytes),
    /// Fields after a body.
    Trailers(Vec<Field>),
}

impl Frame {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut BytesMut) {
        if let Frame::Data(bytes) = self {
            out.put_u8(4);
            out.put_u32(bytes.len() as u32);
            return out.extend_from_slice(bytes);
        }
        let mut payload = BytesMut::new();
        let kind = match self {
            Frame::Request(head) => {
                put_text(&mut payload, head.method.as_bytes());
                put_text(&mut payload, head.target.as_bytes());
                put_fields(&mut payload, &head.fields);
                1
            }
            Frame::Response(head) | Frame::Interim(head) => {
                payload.put_u16(head.status);
                payload.put_u8(u8::from(head.reason.is_some()));
                put_text(&mut payload, head.reason.as_deref().unwrap_or_default());
                put_fields(&mut payload, &head.fields);
                if matches!(self, Frame::Response(_)) { 2 } else { 3 }
            }
            Frame::Data(_) => return,
            Frame::Trailers(fields) => {
                put_fields(&mut payload, fields);
                5
            }
        };
        out.put_u8(kind);
        out.put_u32(payload.len() as u32);
        out.extend_from_slice(&payload);
    }
    /// Whether the head exceeds the limits on fields and bytes.
    pub fn is_too_large(&self) -> bool {
        let (line, fields) = match self {
            Frame::Request(head) => (head.method.len() + head.target.len(), &head.fields),
            Frame::Response(head) | Frame::Interim(head) => (head.reason.as_ref().map_or(0, Bytes::len), &head.fields),
            Frame::Trailers(fields) => (0, fields),
            Frame::Data(_) => return false,
        };
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        fields.len() > FIELDS_MAX || line + bytes > HEAD_BYTES_MAX
    }
}
fn put_text(out: &mut BytesMut, text: &[u8]) {
    out.put_u32(text.len() as u32);
    out.extend_from_slice(text);
}
fn put_fields(out: &mut BytesMut, fields: &[Field]) {
    out.put_u16(fields.len() as u16);
    for (name, value) in fields {
        put_text(out, name.as_bytes());
        put_text(out, value);
    }
}
fn text(payload: &mut Bytes) -> Option<Bytes> {
    let length = payload.try_get_u32().ok()? as usize;
    (length <= payload.len()).then(|| payload.split_to(length))
}
fn string(payload: &mut Bytes) -> Option<String> {
    String::from_utf8(text(payload)?.to_vec()).ok()
}
fn fields(payload: &mut Bytes) -> Option<Vec<Field>> {
    let count = usize::from(payload.try_get_u16().ok()?);
    if count > FIELDS_MAX {
        return None;
    }
    (0..count).map(|_| Some((string(payload)?, text(payload)?))).collect()
}

/// Reads frames out of the bytes of a stream.
#[derive(Default)]
pub struct Frames {
    /// Bytes of the stream that are no whole frame yet.
    rest: BytesMut,
    /// Bytes left in the current frame of the body.
    data_left: usize,
}

impl Frames {
    /// Takes the next bytes of the stream, and returns the frames that are now complete. Of a body it returns the bytes
    /// present.
    ///
    /// # Errors
    /// If the bytes are no frames.
    pub fn take(&mut self, mut bytes: Bytes, out: &mut Vec<Frame>) -> Result<(), &'static str> {
        const WRONG: &str = "the other proxy sends an invalid HTTP message";
        loop {
            if self.data_left > 0 {
                let piece = match self.rest.is_empty() {
                    true => bytes.split_to(self.data_left.min(bytes.len())),
                    false => self.rest.split_to(self.data_left.min(self.rest.len())).freeze(),
                };
                if piece.is_empty() {
                    return Ok(());
                }
                self.data_left -= piece.len();
                out.push(Frame::Data(piece));
                continue;
            }
            if self.rest.is_empty() && bytes.len() > 5 && bytes[0] == 4 {
                // A body passes unchanged and uncopied.
                bytes.advance(1);
                self.data_left = bytes.get_u32() as usize;
                continue;
            }
            self.rest.extend_from_slice(&std::mem::take(&mut bytes));
            let Some((head, payload)) = self.rest.split_first_chunk::<5>() else { return Ok(()) };
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let kind = head[0];
            if kind == 4 {
                self.rest.advance(5);
                self.data_left = length;
                continue;
            }
            if length > HEAD_FRAME_BYTES_MAX {
                return Err(WRONG);
            }
            if payload.len() < length {
                return Ok(());
            }
            self.rest.advance(5);
            let mut payload = self.rest.split_to(length).freeze();
            out.push(head_frame(kind, &mut payload).ok_or(WRONG)?);
        }
    }
    /// Whether the stream may end here.
    pub fn is_complete(&self) -> bool {
        self.rest.is_empty() && self.data_left == 0
    }
}
fn head_frame(kind: u8, payload: &mut Bytes) -> Option<Frame> {
    match kind {
        1 => {
            let (method, target) = (string(payload)?, string(payload)?);
            Some(Frame::Request(RequestHead { method, target, fields: fields(payload)? }))
        }
        2 | 3 => {
            let (status, has_reason) = (payload.try_get_u16().ok()?, payload.try_get_u8().ok()? != 0);
            let reason = text(payload)?;
            let head = ResponseHead { status, reason: has_reason.then_some(reason), fields: fields(payload)? };
            Some(if kind == 2 { Frame::Response(head) } else { Frame::Interim(head) })
        }
        5 => Some(Frame::Trailers(fields(payload)?)),
        _ => None,
    }
}

/// The name that the web server of a host is attached to: `/http/HOST`, without the port if it is the usual one and
/// without the dot that may end a full name (RFC 3986 §3.2.2).
///
/// `None` if the host cannot be a part of a name.
pub fn name_of_host(authority: &str, usual_port: u16) -> Option<Name> {
    let authority = authority.to_ascii_lowercase();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => (host, port),
        _ => (authority.as_str(), ""),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_usual = port.is_empty() || port.parse() == Ok(usual_port);
    let label = if is_usual { host.to_string() } else { format!("{host}:{port}") };
    let root: Name = "/http".parse().ok()?;
    (!host.is_empty()).then(|| root.child(label.as_bytes()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind) -> Message {
        let mut credential = [7; Credential::BYTES];
        credential[0] = 1;
        Message { id: ExchangeId([9; 16]), credential: Credential::from_bytes(&credential), kind }
    }
    fn frames() -> Vec<Frame> {
        let fields = vec![("set-cookie".to_string(), Bytes::from_static(b"\xe4=1")), ("x".to_string(), Bytes::new())];
        vec![
            Frame::Request(RequestHead { method: "GET".into(), target: "/a?b".into(), fields: fields.clone() }),
            Frame::Interim(ResponseHead { status: 103, reason: None, fields: Vec::new() }),
            Frame::Response(ResponseHead { status: 299, reason: Some(Bytes::new()), fields: fields.clone() }),
            Frame::Data(Bytes::from_static(b"some bytes of a body")),
            Frame::Trailers(fields),
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written_and_no_others() {
        let bytes = Bytes::from_static(b"payload");
        for kind in [
            Kind::Open { limit: 1 << 20, is_last: true, bytes: bytes.clone() },
            Kind::Segment { number: 7, is_last: false, bytes },
            Kind::Credit { limit: u64::MAX, stop: true },
            Kind::Reset { status: 503, reason: "too many".into() },
        ] {
            let message = message(kind);
            let encoded = Bytes::from(message.encode());
            assert_eq!(Message::decode(&encoded), Some(message));
            for cut in 0..HEADER_BYTES {
                assert_eq!(Message::decode(&encoded.slice(..cut)), None, "cut at {cut}");
            }
            let other = [&[VERSION + 1], &encoded[1..]].concat();
            assert_eq!(Message::decode(&other.into()), None, "another version");
        }
        let long = vec![0; SEGMENT_BYTES + 1].into();
        let too_long = message(Kind::Segment { number: 0, is_last: true, bytes: long });
        assert_eq!(Message::decode(&too_long.encode().into()), None);
    }

    #[test]
    fn frames_come_out_of_a_stream_however_it_is_cut() {
        let mut stream = BytesMut::new();
        frames().iter().for_each(|frame| frame.encode(&mut stream));
        let stream = stream.freeze();
        for size in [1, 2, 5, 7, 64, stream.len()] {
            let (mut reader, mut out) = (Frames::default(), Vec::new());
            for at in (0..stream.len()).step_by(size) {
                reader.take(stream.slice(at..stream.len().min(at + size)), &mut out).expect("frames");
            }
            assert!(reader.is_complete());
            let mut joined: Vec<Frame> = Vec::new();
            for frame in out {
                match (joined.last_mut(), frame) {
                    (Some(Frame::Data(before)), Frame::Data(piece)) => *before = [&before[..], &piece].concat().into(),
                    (_, frame) => joined.push(frame),
                }
            }
            assert_eq!(joined, frames(), "cut into {size} bytes");
        }
    }

    #[test]
    fn bytes_that_are_no_frames_are_refused_and_a_cut_stream_is_not_whole() {
        let refused = |bytes: &[u8]| Frames::default().take(Bytes::copy_from_slice(bytes), &mut Vec::new()).is_err();
        assert!(refused(&[9, 0, 0, 0, 0]), "no such type");
        assert!(refused(&[1, 0xff, 0xff, 0xff, 0xff]), "longer than a head may be");
        assert!(refused(&[5, 0, 0, 0, 2, 0xff, 0xff]), "more fields than there may be");
        assert!(refused(&[2, 0, 0, 0, 3, 0, 200, 0]), "ends early");
        let mut frames = Frames::default();
        frames.take(Bytes::from_static(&[4, 0, 0, 0, 9, 1]), &mut Vec::new()).expect("it may go on");
        assert!(!frames.is_complete());
    }

    #[test]
    fn changed_bytes_are_read_or_refused_and_never_panic() {
        let mut stream = BytesMut::new();
        frames().iter().for_each(|frame| frame.encode(&mut stream));
        let message = message(Kind::Segment { number: 7, is_last: false, bytes: stream.clone().freeze() }).encode();
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let mut bytes = message.clone();
            for _ in 0..=next(4) {
                let at = next(bytes.len());
                bytes[at] = next(256) as u8;
            }
            bytes.truncate(next(bytes.len()) + 1);
            let _ = Message::decode(&Bytes::copy_from_slice(&bytes));
            let (mut reader, mut out) = (Frames::default(), Vec::new());
            let stream = bytes.get(HEADER_BYTES..).unwrap_or(&bytes);
            let cut = next(stream.len() + 1);
            for part in [&stream[..cut], &stream[cut..]] {
                if reader.take(Bytes::copy_from_slice(part), &mut out).is_err() {
                    break;
                }
            }
            let read: usize = out.iter().map(|frame| if let Frame::Data(data) = frame { data.len() } else { 0 }).sum();
            assert!(read <= stream.len());
        }
    }

    #[test]
    fn a_host_has_one_name_whatever_its_case_usual_port_and_final_dot() {
        let name = |host| name_of_host(host, 80).map(|name| name.to_string());
        for host in ["example.org", "Example.org:80", "example.org.", "EXAMPLE.ORG.:80", "example.org:"] {
            assert_eq!(name(host), Some("/http/example.org".into()), "{host}");
        }
        assert_eq!(name("example.org.:8080"), Some("/http/example.org%3A8080".into()));
        assert_eq!(name("[::1]"), name("[::1]:80"));
        assert_ne!(name("[::1]:8080"), name("[::1]"));
        assert_eq!((name(""), name("."), name(":80")), (None, None, None));
        assert_eq!(name_of_host("example.org:443", 443), name_of_host("example.org", 80));
    }
}
