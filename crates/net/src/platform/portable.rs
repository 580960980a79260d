//! What every Unix offers.
use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

use nix::{
    poll::{PollFd, PollTimeout, poll},
    sys::socket::ControlMessage,
};
use rustix::fs::OFlags;
use socket2::{SockRef, Socket};

/// Socket buffers are reported as they were requested.
pub(crate) const BUFFER_SHARE: usize = 1;
/// Settings that limit the buffers for receiving and sending.
pub(crate) const BUFFER_LIMITS: [&str; 2] = ["kern.ipc.maxsockbuf"; 2];

/// Wakes a thread that waits for sockets.
#[derive(Debug)]
pub(crate) struct Wake {
    near: UnixStream,
    far: UnixStream,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        far.set_nonblocking(true)?;
        Ok(Wake { near, far })
    }
    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // It fails only if earlier calls fill the buffer, and then the thread is awake already.
        let _ = (&self.far).write(&[1]);
    }
    /// Makes it unreadable until the next call of [`Wake::ring`].
    pub(crate) fn clear(&self) {
        let mut calls = [0; 256];
        while (&self.near).read(&mut calls).is_ok_and(|count| count == calls.len()) {}
    }
}
impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.near.as_fd()
    }
}

/// Waits until a descriptor is ready or the time has passed; returns how many are. `None` waits without an end.
pub(crate) fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> nix::Result<i32> {
    // Rounded up: rounded down, the thread would spin for the last millisecond.
    let millis = |time: Duration| time.as_nanos().div_ceil(1_000_000);
    poll(fds, timeout.map_or(PollTimeout::NONE, |time| PollTimeout::try_from(millis(time)).unwrap_or(PollTimeout::MAX)))
}
pub(crate) fn sharpen_timers() {}

pub(crate) fn segmentation(_: &u16) -> Option<ControlMessage<'_>> {
    None
}
pub(crate) fn codepoint<'a>(_: bool, _: &'a u8, _: &'a i32) -> Option<ControlMessage<'a>> {
    None
}
pub(crate) fn forgo_timestamps(_: &Socket) {}
pub(crate) fn force_receive_buffer(_: &Socket, _: usize) -> bool {
    false
}
pub(crate) fn force_send_buffer(_: &Socket, _: usize) -> bool {
    false
}
/// Would end a connection whose peer acknowledges nothing for this long; keep-alive probes do that here, for an idle one.
///
/// # Errors
/// None.
pub fn limit_unacknowledged(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
    Ok(())
}

pub(crate) fn read_cached_at(_: &impl AsFd, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
pub(crate) fn allocate(_: &impl AsFd, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
pub(crate) fn punch_hole(_: &impl AsFd, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
/// Opens a folder beneath another in one step, over no link on the way; `None` where the system cannot.
///
/// # Errors
/// None.
pub fn open_folder_beneath(_: &OwnedFd, _: &Path, _: OFlags) -> Option<rustix::io::Result<OwnedFd>> {
    None
}
pub(crate) fn uptime() -> Option<Duration> {
    None
}
