//! A browser: loads a page over some parallel connections, one object at a time on each, as HTTP/1.1 does.
use std::{collections::VecDeque, sync::Arc};

use tributary_core::{Time, event::Event};

use super::{
    content::Content,
    downloader::SourceAddress,
    host::Application,
    mirror::Range,
    stack::{ConnectionId, ConnectionState, Stack},
};
use crate::page::{Page, PageLoad};

/// The maximum number of connections that browsers open to one server.
pub const CONNECTIONS_MAX: usize = 6;

/// A page load. The objects of the page are parts of one [`Content`], one behind the other.
#[derive(Debug)]
pub struct Browser {
    load: PageLoad,
    content: Content,
    source: SourceAddress,
    start: Time,
    has_started: bool,
    /// Where each object is; by its number in the page.
    ranges: Vec<(usize, Range)>,
    waiting: VecDeque<usize>,
    lanes: Vec<Lane>,
}

/// One connection.
#[derive(Debug)]
struct Lane {
    connection: ConnectionId,
    /// The object being received, and its missing part.
    requested: Option<(usize, Range)>,
    unwritten: Vec<u8>,
}

/// The content that a server of `page` must have.
pub fn content_of(page: &Page, seed: u64) -> Content {
    Content { seed, bytes: page.objects().map(|(_, bytes)| bytes.max(1)).sum() }
}

impl Browser {
    /// A load of `page` from `source`, which serves [`content_of`] it, from `start` on.
    pub fn new(page: &Arc<Page>, content: Content, source: SourceAddress, start: Time) -> Self {
        let mut offset = 0;
        let ranges = page.objects().map(|(object, bytes)| {
            let range = Range { offset, bytes: bytes.max(1) };
            offset += range.bytes;
            (object, range)
        });
        Browser {
            ranges: ranges.collect(),
            load: PageLoad::new(Arc::clone(page)),
            content,
            source,
            start,
            has_started: false,
            waiting: VecDeque::new(),
            lanes: Vec::new(),
        }
    }
    /// When the last byte of the last object arrived.
    pub fn ended(&self) -> Option<Time> {
        self.load.ended()
    }

    fn receive(&mut self, now: Time, stack: &mut dyn Stack) {
        let (content, load) = (self.content, &mut self.load);
        for lane in &mut self.lanes {
            let requested = &mut lane.requested;
            stack.read(lane.connection, &mut |bytes| {
                let Some((object, left)) = requested else { return };
                let take = bytes.len().min(usize::try_from(left.bytes).unwrap_or(usize::MAX));
                assert!(content.agrees(left.offset, &bytes[..take]), "a transport changed bytes");
                left.offset += take as u64;
                left.bytes -= take as u64;
                load.on_first_bytes(now, *object);
                if left.bytes == 0 {
                    load.on_object(now, *object);
                    *requested = None;
                }
            });
        }
        // Ranges that were pending when a connection was closed are requested again.
        let waiting = &mut self.waiting;
        self.lanes.retain(|lane| {
            let is_closed = stack.state(lane.connection) == ConnectionState::Closed;
            if is_closed {
                stack.abort(now, lane.connection);
                waiting.extend(lane.requested.map(|(object, _)| object));
            }
            !is_closed
        });
    }
    fn request(&mut self, now: Time, stack: &mut dyn Stack) {
        while let Some(object) = self.load.poll_fetch() {
            self.waiting.push_back(object);
        }
        let idle = self.lanes.iter().filter(|lane| lane.requested.is_none()).count();
        let room = CONNECTIONS_MAX - self.lanes.len();
        for _ in 0..self.waiting.len().saturating_sub(idle).min(room) {
            let connection = stack.connect(now, self.source.local, self.source.remote);
            self.lanes.push(Lane { connection, requested: None, unwritten: Vec::new() });
        }
        for lane in &mut self.lanes {
            if stack.state(lane.connection) != ConnectionState::Open {
                continue;
            }
            if lane.requested.is_none()
                && let Some(object) = self.waiting.pop_front()
                && let Some((_, range)) = self.ranges.iter().find(|(of, _)| *of == object)
            {
                lane.unwritten.extend_from_slice(&range.to_bytes());
                lane.requested = Some((object, *range));
            }
            if !lane.unwritten.is_empty() {
                let written = stack.write(lane.connection, &lane.unwritten);
                lane.unwritten.drain(..written);
            }
        }
    }
}

impl Application for Browser {
    fn run(&mut self, now: Time, stack: &mut dyn Stack) {
        if now < self.start || self.ended().is_some() {
            return;
        }
        if !std::mem::replace(&mut self.has_started, true) {
            self.load.start(now);
        }
        self.load.handle_timeout(now);
        self.receive(now, stack);
        self.request(now, stack);
        if self.ended().is_some() {
            for lane in self.lanes.drain(..) {
                stack.abort(now, lane.connection);
            }
        }
    }
    fn poll_timeout(&self) -> Option<Time> {
        match (self.has_started, self.ended()) {
            (false, _) => Some(self.start),
            (true, None) => self.load.poll_timeout(),
            (true, Some(_)) => None,
        }
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}
