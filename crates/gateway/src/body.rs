//! Bodies: parts of an object, as they arrive.
use std::{
    collections::VecDeque,
    future::Future,
    io,
    ops::Range,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    body::{Body, Frame, SizeHint},
    header,
};
use tokio::{sync::mpsc, task::JoinHandle, time::Sleep};
use tributary_net::disk::CacheReader;

use crate::sessions::Use;

/// Bytes that are read from the cache at a time: large enough to make a thread's turn cheap in comparison.
const READ_BYTES: u64 = 1 << 20;

/// A part of a body.
#[derive(Debug)]
pub(crate) enum Part {
    /// These bytes.
    Text(Bytes),
    /// A range of the object.
    Object(Range<u64>),
}

/// A body.
pub(crate) struct Content {
    parts: VecDeque<Part>,
    left: u64,
    source: Option<Source>,
    /// A body of unknown length, in place of all other parts.
    stream: Option<mpsc::Receiver<Bytes>>,
    /// A body that arrives from elsewhere, in place of all other parts.
    arriving: Option<mpsc::Receiver<io::Result<Bytes>>>,
}

struct Source {
    reader: CacheReader,
    /// Keeps the session.
    _session: Use,
    read_ahead: u64,
    patience: Duration,
    /// A read of the cache.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Content {
    pub(crate) fn text(text: impl Into<Bytes>) -> Content {
        let text = text.into();
        Content { left: text.len() as u64, parts: VecDeque::from([Part::Text(text)]), source: None, ..Content::empty() }
    }
    pub(crate) fn empty() -> Content {
        Content { parts: VecDeque::new(), left: 0, source: None, stream: None, arriving: None }
    }
    /// The bytes from a channel, until that ends.
    pub(crate) fn stream(stream: mpsc::Receiver<Bytes>) -> Content {
        Content { stream: Some(stream), ..Content::empty() }
    }
    /// The bytes from a channel, until that ends or fails; `length` of them, if known.
    pub(crate) fn arriving(pieces: mpsc::Receiver<io::Result<Bytes>>, length: Option<u64>) -> Content {
        Content { left: length.unwrap_or(u64::MAX), arriving: Some(pieces), ..Content::empty() }
    }
    /// Parts of the object of a session.
    pub(crate) fn parts(parts: Vec<Part>, session: Use, read_ahead: u64, patience: Duration) -> Content {
        let left = parts.iter().map(|part| match part {
            Part::Text(text) => text.len() as u64,
            Part::Object(range) => range.end - range.start,
        });
        let left = left.sum();
        let reader = session.object.reader();
        let source = Source { reader, _session: session, read_ahead, patience, reading: None, waiting: None };
        Content { parts: parts.into(), left, source: Some(source), ..Content::empty() }
    }
    /// Waits until the first byte of the object has arrived.
    pub(crate) async fn first_byte(&mut self) -> Result<(), io::Error> {
        let first = self.parts.iter().find_map(|part| match part {
            Part::Object(range) => Some(range.clone()),
            Part::Text(_) => None,
        });
        let (Some(range), Some(source)) = (first, &mut self.source) else { return Ok(()) };
        std::future::poll_fn(|context| source.poll_here(context, &range)).await.map(|_| ())
    }
}

/// A whole answer.
pub(crate) fn answer_of(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Content> {
    let content = Content::text(text);
    let answer = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    let answer = answer.header(header::CONTENT_LENGTH, content.left).body(content);
    answer.expect("a type and a number are legal")
}
/// An answer without a body.
pub(crate) fn empty_answer(status: StatusCode) -> Response<Content> {
    let mut response = Response::new(Content::empty());
    *response.status_mut() = status;
    response
}

impl Source {
    /// Waits for the first byte of a range; returns the end of the bytes that have arrived without a gap.
    fn poll_here(&mut self, context: &mut Context<'_>, range: &Range<u64>) -> Poll<io::Result<u64>> {
        self.reader.want(range.start, range.end.min(range.start.saturating_add(self.read_ahead)));
        let here = self.reader.poll_here(context, range.start, range.end.min(range.start + READ_BYTES));
        match here {
            Poll::Ready(here) => {
                self.waiting = None;
                Poll::Ready(here.map_err(io::Error::other))
            }
            Poll::Pending => {
                let patience = self.patience;
                let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                ready!(waiting.as_mut().poll(context));
                let reason = format!("no source has sent byte {} within {patience:?}", range.start);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
            }
        }
    }
    fn poll_read(&mut self, context: &mut Context<'_>, range: &Range<u64>) -> Poll<io::Result<Bytes>> {
        if self.reading.is_none() {
            let end = ready!(self.poll_here(context, range))?;
            self.reading = Some(self.begin(range.start, end));
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let read = ready!(Pin::new(reading).poll(context)).map_err(io::Error::other);
        self.reading = None;
        let bytes = read??;
        // The next bytes are read while these are sent.
        let next = range.start + bytes.len() as u64..range.end;
        if next.start < next.end
            && let Poll::Ready(Ok(end)) = self.poll_here(context, &next)
        {
            self.reading = Some(self.begin(next.start, end));
        }
        Poll::Ready(Ok(bytes))
    }
    fn begin(&self, from: u64, end: u64) -> JoinHandle<io::Result<Bytes>> {
        let object = self.reader.object().clone();
        tokio::task::spawn_blocking(move || object.read(from..end))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if let Some(stream) = &mut this.stream {
            return stream.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))));
        }
        if let Some(arriving) = &mut this.arriving {
            let piece = ready!(arriving.poll_recv(context));
            let length = piece.as_ref().map_or(0, |piece| piece.as_ref().map_or(0, |bytes| bytes.len() as u64));
            this.left = this.left.saturating_sub(length);
            return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
        }
        loop {
            let bytes = match (this.parts.front_mut(), &mut this.source) {
                (None, _) => return Poll::Ready(None),
                (Some(Part::Text(text)), _) => {
                    let text = std::mem::take(text);
                    this.parts.pop_front();
                    text
                }
                (Some(Part::Object(range)), Some(source)) if range.start < range.end => {
                    let bytes = ready!(source.poll_read(context, range))?;
                    range.start += bytes.len() as u64;
                    bytes
                }
                (Some(Part::Object(_)), _) => {
                    this.parts.pop_front();
                    continue;
                }
            };
            if !bytes.is_empty() {
                this.left -= bytes.len() as u64;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
    }
    fn is_end_stream(&self) -> bool {
        self.left == 0 && self.stream.is_none()
    }
    fn size_hint(&self) -> SizeHint {
        let is_unknown = self.arriving.is_some() && self.left > u64::MAX / 2;
        if self.stream.is_some() || is_unknown {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.left)
    }
}
