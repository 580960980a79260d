//! Receive buffers that return when their last slice is dropped.
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// A pool of buffers of [`BUFFER_BYTES`].
///
/// A buffer is lent as [`Bytes`], and the pool keeps one reference to it. Once that is the only one left, the buffer is
/// used again, without clearing and without the allocator.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    lent: VecDeque<Bytes>,
    /// Buffers ever allocated.
    pub(crate) allocated: u64,
}

/// Enough for the largest result of one receive call: a batch of GRO'd datagrams.
pub(crate) const BUFFER_BYTES: usize = 65_536;
/// Buffers remembered while they are lent; older ones go back to the allocator when they are dropped.
const LENT_MAX: usize = 256;
/// How many of the oldest and of the newest lent buffers are checked for reuse.
const LOOK_AT: usize = 4;
/// Shorter datagrams are copied out instead of holding a complete buffer.
const COPY_BELOW: usize = 16_384;

impl BufferPool {
    /// A buffer with all its bytes initialised.
    pub(crate) fn take(&mut self) -> BytesMut {
        let len = self.lent.len();
        // Newest first: its memory is most likely still in the cache.
        let newest = (len.saturating_sub(LOOK_AT)..len).rev();
        let oldest = 0..LOOK_AT.min(len);
        let free = newest.chain(oldest).find(|index| self.lent[*index].is_unique());
        if let Some(buffer) = free.and_then(|index| self.lent.remove(index))
            && let Ok(buffer) = buffer.try_into_mut()
        {
            return buffer;
        }
        self.allocated += 1;
        BytesMut::zeroed(BUFFER_BYTES)
    }
    /// The first `len` bytes of `buffer` for sharing; returns the buffer at once if they were copied.
    pub(crate) fn lend(&mut self, buffer: BytesMut, len: usize) -> (Bytes, Option<BytesMut>) {
        if len < COPY_BELOW {
            return (Bytes::copy_from_slice(&buffer[..len]), Some(buffer));
        }
        let filled = buffer.freeze();
        let part = filled.slice(..len);
        if self.lent.len() == LENT_MAX {
            self.lent.pop_front();
        }
        self.lent.push_back(filled);
        (part, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_last_slice_is_dropped() {
        let mut pool = BufferPool::default();
        let mut buffer = pool.take();
        buffer[0] = 42;
        let address = buffer.as_ptr();
        let (lent, back) = pool.lend(buffer, 60_000);
        assert!(back.is_none());
        let slice = lent.slice(..1);
        drop(lent);
        assert_ne!(pool.take().as_ptr(), address);
        drop(slice);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len(), again[0]), (address, BUFFER_BYTES, 42));
        assert_eq!(pool.allocated, 2);
    }

    #[test]
    fn short_content_does_not_hold_a_buffer() {
        let mut pool = BufferPool::default();
        let buffer = pool.take();
        let (short, back) = pool.lend(buffer, 100);
        assert_eq!((short.len(), back.map(|buffer| buffer.len())), (100, Some(BUFFER_BYTES)));
    }
}
