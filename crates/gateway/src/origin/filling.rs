//! Filling a body: from a neighbour, from one answer of the origin, or from all its mirrors.
use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use hyper::header;
use tokio::sync::mpsc;
use tributary_web::{exchange::Exchange, header::HeaderValue};

use super::{
    Ask, Origins, chosen,
    copy::{Body, Copy, Filler, Head, digest_of},
    neighbours,
    wire::Line,
};

/// Files from this size on come from all mirrors over all uplinks.
pub(super) const LARGE_BYTES: u64 = 8 << 20;
/// Pieces that wait for the disk.
const PIECES_WAITING_MAX: usize = 16;
/// Maximum bytes of a text whose addresses are replaced.
const TEXT_BYTES_MAX: usize = 32 << 20;
/// Requests for the rest of a body that was cut.
const RESUMES_MAX: u32 = 4;

/// Where a body comes from.
pub(super) enum Source {
    Neighbour,
    Answer(Box<Exchange>),
    /// All mirrors, over all uplinks; the file has this size.
    Mirrors(u64),
    Member(Box<Line>),
}
/// What sends the bytes in order.
enum Flow {
    Origin(Box<Exchange>),
    Member(Box<Line>),
}

/// Passes bytes on to the disk's thread.
pub(super) struct Pipe {
    pieces: mpsc::Sender<Bytes>,
    sent: Arc<AtomicU64>,
}
impl Pipe {
    /// A pipe, and its other end.
    pub(super) fn new() -> (Pipe, mpsc::Receiver<Bytes>) {
        let (pieces, arrived) = mpsc::channel(PIECES_WAITING_MAX);
        (Pipe { pieces, sent: Arc::default() }, arrived)
    }
}
impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        self.pieces.blocking_send(piece).map_err(|_| io::ErrorKind::BrokenPipe)?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Origins {
    /// Begins to read a body, and returns the copy for clients.
    pub(super) fn fill(self: &Arc<Self>, ask: &Ask, head: Head, proof: Option<String>, source: Source) -> Copy {
        let body = Body::arriving(proof.is_some());
        let copy = Copy { head, body: Some(Arc::clone(&body)) };
        self.shelf.keep(&ask.key, copy.clone());
        let (origins, ask, head) = (Arc::clone(self), ask.clone(), copy.head.clone());
        let stem = format!("{}-{}", ask.flight(), self.bodies.fetch_add(1, Ordering::Relaxed));
        tokio::spawn(async move {
            // Members that wait for each other's turns would wait for ever.
            let _turn = match source {
                Source::Member(_) => None,
                _ => origins.fills.acquire().await.ok(),
            };
            let proof = proof.as_deref();
            body.is_from_origin.store(matches!(source, Source::Answer(_) | Source::Mirrors(_)), Ordering::Relaxed);
            let filled = match source {
                Source::Mirrors(size) => origins.fill_from_all(&ask, &stem, size, proof, &body).await,
                source => origins.fill_in_order((&ask, &stem), &head, proof, source, &body).await,
            };
            origins.reserved.fetch_sub(head.size.unwrap_or(0), Ordering::Relaxed);
            match filled {
                Ok(digest) => {
                    let head = Head { digest: Some(digest), size: Some(body.len()), ..head };
                    origins.shelf.keep(&ask.key, Copy { head: head.clone(), body: None });
                    body.end(Ok(()));
                    origins.publish(ask.origin, &ask.key, &head);
                }
                Err(reason) => {
                    tracing::warn!("'{}' is not kept: {reason}", head.url);
                    body.end(Err(reason));
                    let _ = std::fs::remove_file(origins.shelf.work_path(&stem, "arriving"));
                    origins.shelf.drop_failed(&ask.key);
                }
            }
            origins.readers.lock().remove(&ask.key);
        });
        copy
    }
    /// Fetches from all mirrors over all uplinks.
    async fn fill_from_all(
        &self,
        ask: &Ask,
        stem: &str,
        size: u64,
        proof: Option<&str>,
        body: &Arc<Body>,
    ) -> Result<String, String> {
        let path = self.shelf.work_path(stem, "part");
        let (upstream, urls, body) = (Arc::clone(&ask.upstream), ask.urls.clone(), Arc::clone(body));
        let (shelf, proof) = (Arc::clone(&self.shelf), proof.map(String::from));
        let work = move || {
            upstream.fetch_all(urls, size, proof.as_deref(), &path, &body)?;
            let digest = match proof {
                Some(proof) => proof,
                None => digest_of(&path).map_err(|error| error.to_string())?,
            };
            shelf.place(&path, &digest, &body)?;
            Ok(digest)
        };
        self.meter.fetched("origin", size);
        tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
    }
    /// Reads a body from its beginning on. If a source is cut, the origin sends the rest.
    async fn fill_in_order(
        self: &Arc<Self>,
        (ask, stem): (&Ask, &str),
        head: &Head,
        proof: Option<&str>,
        source: Source,
        body: &Arc<Body>,
    ) -> Result<String, String> {
        let path = self.shelf.work_path(stem, "arriving");
        let filler = Filler::new(Arc::clone(body), &path, self.shelf.cache.clone());
        let filler = filler.map_err(|error| error.to_string())?;
        let (pipe, mut arrived) = Pipe::new();
        let (pieces, sent) = (pipe.pieces.clone(), Arc::clone(&pipe.sent));
        let writing = tokio::task::spawn_blocking(move || {
            let mut filler = filler;
            while let Some(piece) = arrived.blocking_recv() {
                filler.write_all(&piece)?;
            }
            Ok::<_, io::Error>(filler)
        });
        if let (Source::Neighbour, Some(digest)) = (&source, proof) {
            self.read_neighbour(ask, digest, pipe).await;
            self.meter.fetched("neighbour", sent.load(Ordering::Relaxed));
        } else {
            drop(pipe);
        }
        let mut source = match source {
            Source::Answer(exchange) => Some(Flow::Origin(exchange)),
            Source::Member(line) => Some(Flow::Member(line)),
            Source::Neighbour | Source::Mirrors(_) => None,
        };
        let (mut is_whole, mut members) = (false, Vec::new());
        for _ in 0..=RESUMES_MAX {
            let at = sent.load(Ordering::Relaxed);
            is_whole = head.size.is_some_and(|size| at >= size);
            if source.is_none() && !is_whole {
                source = self.rest(ask, head, at, body).await;
            }
            let Some(flow) = source.take().filter(|_| !is_whole) else { break };
            is_whole = match flow {
                Flow::Origin(exchange) if ask.upstream.rewrites(&head.map()) => {
                    let text = exchange.whole(TEXT_BYTES_MAX).await?.ok_or_else(|| {
                        format!("a text with addresses to replace has more than {TEXT_BYTES_MAX} bytes")
                    })?;
                    self.meter.fetched("origin", text.len() as u64);
                    let _ = pieces.send(ask.upstream.rewritten(text).into()).await;
                    true
                }
                flow => {
                    let from = match &flow {
                        Flow::Member(line) => {
                            members.push(line.key);
                            "site"
                        }
                        Flow::Origin(_) => "origin",
                    };
                    let is_whole = pump(flow, &pieces, &sent).await;
                    self.meter.fetched(from, sent.load(Ordering::Relaxed) - at);
                    is_whole
                }
            };
            if is_whole {
                break;
            }
        }
        drop(pieces);
        let filler = writing.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        if !is_whole {
            return Err(format!("it was cut after {} bytes", filler.at));
        }
        let digest = filler.finish(head.size, proof).inspect_err(|reason| {
            // A member that was cut off sends nothing wrong, but too little.
            self.site.iter().for_each(|site| members.iter().for_each(|key| site.shun(key, true, reason)));
        })?;
        self.shelf.place(&path, &digest, body)?;
        Ok(digest)
    }
    async fn read_neighbour(&self, ask: &Ask, digest: &str, pipe: Pipe) {
        let Some(name) = neighbours::name_of(&ask.upstream.config, "sha256", digest) else { return };
        let api = Arc::clone(&self.api);
        let read = tokio::task::spawn_blocking(move || neighbours::read(&api, &name, Box::new(pipe)));
        let _ = read.await;
    }
    /// The bytes from `at` on, of another member or of the origin.
    async fn rest(self: &Arc<Self>, ask: &Ask, head: &Head, at: u64, body: &Body) -> Option<Flow> {
        if let Some(line) = self.ask_holders(ask, head, at).await {
            return Some(Flow::Member(Box::new(line)));
        }
        // Of a text with replaced addresses the origin has no such byte.
        if at > 0 && ask.upstream.rewrites(&head.map()) {
            return None;
        }
        let mut fields = ask.fields.clone();
        if at > 0 {
            fields.insert(header::RANGE, HeaderValue::from_str(&format!("bytes={at}-")).ok()?);
            let validator = head.field("etag").filter(|tag| tag.starts_with('"'));
            if let Some(validator) = validator.or(head.field("last-modified")) {
                fields.insert(header::IF_RANGE, HeaderValue::from_str(validator).ok()?);
            }
        }
        // Those who wait for a member that reads from the origin need not ask it.
        body.is_from_origin.store(true, Ordering::Relaxed);
        let answer = self.ask(&Ask { fields, ..ask.clone() }).await;
        let range = answer.as_ref().map(|answer| chosen(&answer.fields, &["content-range"])).unwrap_or_default();
        let range = range.get(header::CONTENT_RANGE).and_then(|range| range.to_str().ok());
        let is_rest = |status| match at {
            0 => status == head.status,
            at => status == 206 && range.is_some_and(|range| range.starts_with(&format!("bytes {at}-"))),
        };
        let answer = answer.ok().filter(|answer| is_rest(answer.status));
        body.is_from_origin.store(answer.is_some(), Ordering::Relaxed);
        answer.map(|answer| Flow::Origin(Box::new(answer)))
    }
}

/// Reads bytes to their end; false if they were cut.
async fn pump(mut flow: Flow, pieces: &mpsc::Sender<Bytes>, sent: &AtomicU64) -> bool {
    loop {
        let read = match &mut flow {
            Flow::Origin(exchange) => exchange.read().await,
            Flow::Member(line) => line.read().await,
        };
        match read {
            Ok(Some(bytes)) => {
                let length = bytes.len() as u64;
                if pieces.send(bytes).await.is_err() {
                    return true;
                }
                sent.fetch_add(length, Ordering::Relaxed);
            }
            Ok(None) => return true,
            Err(error) => {
                tracing::debug!("an answer was cut: {error}");
                return false;
            }
        }
    }
}
