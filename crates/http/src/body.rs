//! Bodies of HTTP messages, out of and into the streams of an exchange.
use bytes::Bytes;
use futures_util::stream::try_unfold;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame as BodyFrame};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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

/// The rest of a stream as a body; the flag is set when it has been read to its end.
pub(crate) fn of_inlet(inlet: Inlet, is_read: Arc<AtomicBool>) -> Body {
    let next = move |mut inlet: Inlet| {
        let is_read = Arc::clone(&is_read);
        async move {
            loop {
                let frame = match inlet.next().await? {
                    Some(Frame::Data(bytes)) => (!bytes.is_empty()).then(|| BodyFrame::data(bytes)),
                    Some(Frame::Trailers(fields)) => into_headers(&fields).map(BodyFrame::trailers),
                    Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "a head within a body")),
                    None => {
                        is_read.store(true, Ordering::SeqCst);
                        return Ok(None);
                    }
                };
                if let Some(frame) = frame {
                    return Ok(Some((frame, inlet)));
                }
            }
        }
    };
    StreamBody::new(try_unfold(inlet, next)).boxed_unsync()
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
        let gathers = !outlet.buffer.is_empty();
        let wait = match gathers {
            true if outlet.is_idle() || outlet.buffer.len() >= SEGMENT_BYTES => Duration::ZERO,
            true => GATHER,
            false => idle,
        };
        let next = tokio::select! {
            biased;
            broken = outlet.broken() => return Err(Unsent::Stream(broken)),
            next = tokio::time::timeout(wait, body.frame()), if outlet.buffer.len() < SEGMENT_BYTES => next,
            () = std::future::ready(()), if outlet.buffer.len() >= SEGMENT_BYTES => {
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
