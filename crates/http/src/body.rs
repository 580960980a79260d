//! Bodies of HTTP messages, out of and into the streams of an exchange.
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame as BodyFrame};
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tributary_core::Duration;

use crate::{
    exchange::{Frame, SEGMENT_BYTES},
    fields::{into_headers, trailers},
    stream::{Broken, Inlet, Last, Outlet},
};

/// A body of any kind.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How long a piece of a body waits for more while others are in flight, so that they travel together.
const GATHER: Duration = Duration::from_millis(10);

/// No bytes.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
/// These bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

type Next = Pin<Box<dyn Future<Output = (Inlet, Result<Option<Frame>, Broken>)> + Send>>;

/// The bytes that arrive in a stream, as a body.
pub(crate) struct InletBody {
    next: Option<Next>,
    /// Set when it has been read to its end.
    is_read: Arc<AtomicBool>,
}
impl InletBody {
    /// The rest of a stream; the flag is set when it has been read to its end.
    pub(crate) fn new(inlet: Inlet, is_read: Arc<AtomicBool>) -> InletBody {
        InletBody { next: Some(InletBody::read(inlet)), is_read }
    }
    fn read(mut inlet: Inlet) -> Next {
        Box::pin(async move {
            let frame = inlet.next().await;
            (inlet, frame)
        })
    }
}
impl HttpBody for InletBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, io::Error>>> {
        loop {
            let Some(next) = &mut self.next else { return Poll::Ready(None) };
            let (inlet, frame) = std::task::ready!(next.as_mut().poll(context));
            self.next = None;
            let frame = match frame {
                Ok(Some(Frame::Data(bytes))) if bytes.is_empty() => None,
                Ok(Some(Frame::Data(bytes))) => Some(BodyFrame::data(bytes)),
                Ok(Some(Frame::Trailers(fields))) => into_headers(&fields).map(BodyFrame::trailers),
                Ok(Some(_)) => {
                    let wrong = io::Error::new(io::ErrorKind::InvalidData, "a head within a body");
                    return Poll::Ready(Some(Err(wrong)));
                }
                Ok(None) => {
                    self.is_read.store(true, Ordering::SeqCst);
                    return Poll::Ready(None);
                }
                Err(broken) => return Poll::Ready(Some(Err(broken.into()))),
            };
            self.next = Some(InletBody::read(inlet));
            if let Some(frame) = frame {
                return Poll::Ready(Some(Ok(frame)));
            }
        }
    }
}

/// Why a body did not get into its stream.
pub(crate) enum Unsent {
    /// The stream is broken.
    Stream(Broken),
    /// The body broke off.
    Body(String),
    /// No bytes of the body have arrived for too long.
    Idle(Duration),
}

/// Sends a body and its trailers to the end, piece by piece as it arrives, with pauses of at most `idle`.
pub(crate) async fn send<B>(body: &mut B, outlet: &mut Outlet, idle: Duration) -> Result<u64, Unsent>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    let mut bytes = 0;
    loop {
        let gathers = outlet.buffered() > 0;
        let wait = match gathers {
            true if outlet.is_idle() || outlet.buffered() >= SEGMENT_BYTES => Duration::ZERO,
            true => GATHER,
            false => idle,
        };
        let next = tokio::select! {
            biased;
            broken = outlet.broken() => return Err(Unsent::Stream(broken)),
            next = tokio::time::timeout(wait, body.frame()), if outlet.buffered() < SEGMENT_BYTES => next,
            () = std::future::ready(()), if outlet.buffered() >= SEGMENT_BYTES => {
                outlet.flush(Last::No).await.map_err(Unsent::Stream)?;
                continue;
            }
        };
        match next {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    bytes += data.len() as u64;
                    outlet.push(&Frame::Data(data));
                }
                Err(frame) => {
                    if let Ok(fields) = frame.into_trailers() {
                        outlet.push(&Frame::Trailers(trailers(&fields)));
                    }
                }
            },
            Ok(Some(Err(error))) => return Err(Unsent::Body(source_of(&error))),
            Ok(None) => return outlet.flush(Last::Yes).await.map(|()| bytes).map_err(Unsent::Stream),
            Err(_) if gathers => outlet.flush(Last::No).await.map_err(Unsent::Stream)?,
            Err(_) => return Err(Unsent::Idle(idle)),
        }
    }
}

/// The root cause of an error.
pub(crate) fn source_of(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(next) = deepest.source() {
        deepest = next;
    }
    deepest.to_string()
}
