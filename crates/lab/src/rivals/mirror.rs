//! The server: every mirror has the same file and serves any requested range.
use std::collections::{BTreeMap, VecDeque};

use tributary_core::{Time, event::Event};

use super::{
    content::Content,
    host::Application,
    stack::{ConnectionId, ConnectionState, Stack},
};

/// A server of one file. A request is a [`Range`]; the answer is the bytes of the range and nothing else.
///
/// A connection may carry any number of requests; answers come in their order. HTTP would add some 500 bytes a
/// request, which are spared here in favour of the rivals.
#[derive(Debug)]
pub struct Mirror {
    content: Content,
    sessions: BTreeMap<ConnectionId, Session>,
    served_bytes: u64,
    connections: u32,
}

/// The unsent part of one connection's answer.
#[derive(Debug, Default)]
struct Session {
    request: Vec<u8>,
    ranges: VecDeque<Range>,
    /// The bytes being written, of which the first `sent` have been sent.
    prepared: Vec<u8>,
    sent: usize,
}

impl Mirror {
    /// A mirror of `content`.
    pub fn new(content: Content) -> Self {
        Mirror { content, sessions: BTreeMap::new(), served_bytes: 0, connections: 0 }
    }
    /// Bytes that were handed to the transport, in all connections.
    pub fn served_bytes(&self) -> u64 {
        self.served_bytes
    }
    /// Connections that were opened to it.
    pub fn connections(&self) -> u32 {
        self.connections
    }
}

impl Application for Mirror {
    fn run(&mut self, now: Time, stack: &mut dyn Stack) {
        while let Some(connection) = stack.poll_accept() {
            self.connections += 1;
            self.sessions.insert(connection, Session::default());
        }
        let (content, served_bytes) = (self.content, &mut self.served_bytes);
        self.sessions.retain(|connection, session| {
            stack.read(*connection, &mut |bytes| session.on_bytes(bytes, content.bytes));
            while let Some(bytes) = session.prepared(&content) {
                let written = stack.write(*connection, bytes);
                if written == 0 {
                    break;
                }
                session.sent += written;
                *served_bytes += written as u64;
            }
            let is_closed = stack.state(*connection) == ConnectionState::Closed;
            if is_closed {
                stack.abort(now, *connection);
            }
            !is_closed
        });
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

impl Session {
    /// The bytes to be sent next; `None` without a request.
    fn prepared(&mut self, content: &Content) -> Option<&[u8]> {
        if self.sent == self.prepared.len() {
            let range = self.ranges.front_mut()?;
            self.prepared.resize(range.bytes.min(WRITE_BYTES as u64) as usize, 0);
            self.sent = 0;
            content.fill(range.offset, &mut self.prepared);
            range.offset += self.prepared.len() as u64;
            range.bytes -= self.prepared.len() as u64;
            if range.bytes == 0 {
                self.ranges.pop_front();
            }
        }
        Some(&self.prepared[self.sent..])
    }
    /// Takes the bytes of requests. Requests beyond the end of the file or for too much at once are ignored.
    fn on_bytes(&mut self, bytes: &[u8], file_bytes: u64) {
        self.request.extend_from_slice(bytes);
        let (requests, rest) = self.request.as_chunks::<REQUEST_BYTES>();
        let ranges = requests.iter().map(Range::from_bytes);
        let known = ranges.filter(|range| range.offset.checked_add(range.bytes).is_some_and(|end| end <= file_bytes));
        let room = RANGES_MAX.saturating_sub(self.ranges.len());
        self.ranges.extend(known.filter(|range| range.bytes > 0).take(room));
        self.request = rest.to_vec();
    }
}

/// A part of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Where it starts.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
}

impl Range {
    /// The request for this range.
    pub fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut request = [0; REQUEST_BYTES];
        request[..8].copy_from_slice(&self.offset.to_be_bytes());
        request[8..].copy_from_slice(&self.bytes.to_be_bytes());
        request
    }
    fn from_bytes(request: &[u8; REQUEST_BYTES]) -> Self {
        let (offset, bytes) = request.split_at(8);
        let number = |part: &[u8]| part.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Range { offset: number(offset), bytes: number(bytes) }
    }
}

/// Bytes of a request: offset and length, eight bytes each, most significant first.
pub const REQUEST_BYTES: usize = 16;
/// Requests of one connection that may wait for their answer.
const RANGES_MAX: usize = 64;
/// Bytes generated at once.
const WRITE_BYTES: usize = 16 << 10;
