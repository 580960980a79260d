//! Interim responses (1xx) to browsers. A proxy forwards them (RFC 9110 §15.2), and hyper's server writes only `100
//! Continue`: they are written between two messages of a connection, while hyper has nothing to write.
use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tributary_core::Duration;

/// Where the interim responses of one connection wait to be written.
#[derive(Default)]
pub(crate) struct Interims(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    /// How often hyper has flushed everything.
    flushes: u64,
    waiting: VecDeque<Bytes>,
    waker: Option<Waker>,
}

/// A moment of a connection: output queued by hyper before it may still be unwritten.
#[derive(Clone, Copy)]
pub(crate) struct Moment(u64);

impl Interims {
    /// When the answer to a request starts.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.0.lock().flushes)
    }
    /// Writes an interim response to a request without an answer; its handling started at `since`. The response is
    /// dropped if it would split a message in writing.
    pub(crate) fn write(&self, since: Moment, response: Bytes) {
        let mut queue = self.0.lock();
        if queue.flushes > since.0 {
            queue.waiting.push_back(response);
            queue.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// The connection of a browser. It closes if the browser reads nothing for too long.
pub(crate) struct BrowserIo<S> {
    stream: S,
    interims: Arc<Interims>,
    /// Whether hyper has nothing to write.
    is_between: bool,
    writing: Bytes,
    patience: Duration,
    stalled: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl<S: AsyncWrite + Unpin> BrowserIo<S> {
    /// `patience` is how long the browser may take nothing.
    pub(crate) fn new(stream: S, interims: Arc<Interims>, patience: Duration) -> BrowserIo<S> {
        BrowserIo { stream, interims, is_between: true, writing: Bytes::new(), patience, stalled: None }
    }
    fn write_interims(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.writing.is_empty() {
                if !self.is_between {
                    return Poll::Ready(Ok(()));
                }
                match self.interims.0.lock().waiting.pop_front() {
                    Some(next) => self.writing = next,
                    None => return Poll::Ready(Ok(())),
                }
            }
            let piece = self.writing.clone();
            let written = Pin::new(&mut self.stream).poll_write(context, &piece);
            match self.watch(context, written) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(length)) => self.writing.advance(length),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
    /// Called before hyper writes.
    fn before_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.write_interims(context))?;
        if !self.is_between {
            // Waiting interim responses are too late: these bytes may be the final response.
            self.interims.0.lock().waiting.clear();
        }
        self.is_between = false;
        Poll::Ready(Ok(()))
    }
    /// Ends a connection that makes no progress.
    fn watch(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        std::task::ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, format!("it has taken nothing for {patience:?}"))))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BrowserIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}
impl<S: AsyncWrite + Unpin> AsyncWrite for BrowserIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        std::task::ready!(self.before_write(context))?;
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.before_write(context))?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, written)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_between = true;
        {
            let mut queue = self.interims.0.lock();
            queue.flushes += 1;
            queue.waker = Some(context.waker().clone());
        }
        std::task::ready!(self.write_interims(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn run(write: impl AsyncFnOnce(&mut BrowserIo<Vec<u8>>, &Interims)) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let interims = Arc::new(Interims::default());
            let mut io = BrowserIo::new(Vec::new(), Arc::clone(&interims), Duration::from_secs(1));
            write(&mut io, &interims).await;
            String::from_utf8(io.stream).expect("text")
        })
    }

    #[test]
    fn an_interim_response_is_written_between_two_messages_and_in_none() {
        let hint = || Bytes::from_static(b"[103]");
        let written = run(async |io, interims| {
            io.write_all(b"first ").await.expect("written");
            let second = interims.now();
            interims.write(second, hint()); // The first response may not have been written.
            io.write_all(b"response, ").await.expect("written");
            io.flush().await.expect("flushed");
            interims.write(second, hint());
            io.write_all(b" second ").await.expect("written");
            interims.write(second, hint()); // The second request is being answered.
            io.write_all(b"response").await.expect("written");
            io.flush().await.expect("flushed");
        });
        assert_eq!(written, "first response, [103] second response");
    }

    #[test]
    fn an_interim_response_does_not_wait_for_the_final_one() {
        let written = run(async |io, interims| {
            let moment = interims.now();
            io.flush().await.expect("flushed");
            interims.write(moment, Bytes::from_static(b"[103]"));
            io.flush().await.expect("flushed");
        });
        assert_eq!(written, "[103]");
    }
}
