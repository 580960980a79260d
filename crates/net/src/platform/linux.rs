//! Linux and Android.
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use nix::{
    poll::{PollFd, ppoll},
    sys::{
        eventfd::{EfdFlags, EventFd},
        socket::{ControlMessage, getsockopt, setsockopt, sockopt},
    },
    time::{ClockId, clock_gettime},
};
use rustix::fs::{FallocateFlags, Mode, OFlags, ResolveFlags};
use socket2::{SockRef, Socket};

/// The kernel books twice the size of a socket buffer for its own administration, and reports that figure.
pub(crate) const BUFFER_SHARE: usize = 2;
/// Settings that limit the buffers for receiving and sending.
pub(crate) const BUFFER_LIMITS: [&str; 2] = ["net.core.rmem_max", "net.core.wmem_max"];

/// Wakes a thread that waits for sockets.
#[derive(Debug)]
pub(crate) struct Wake(EventFd);

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Wake(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }
    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // It fails only if 2^64 - 2 calls are unread, and then the thread is awake already.
        let _ = self.0.write(1);
    }
    /// Makes it unreadable until the next call of [`Wake::ring`].
    pub(crate) fn clear(&self) {
        let _ = self.0.read();
    }
}
impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until a descriptor is ready or the time has passed; returns how many are. `None` waits without an end.
pub(crate) fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> nix::Result<i32> {
    ppoll(fds, timeout.map(Into::into), None)
}
/// Timers of this thread are due when they are due, not 50 µs later.
pub(crate) fn sharpen_timers() {
    // Android's C library has no such call.
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_timerslack(1) {
        tracing::debug!(%error, "timer slack stays as it is");
    }
}

/// The message that lets the kernel cut a run into datagrams of `segment` bytes.
pub(crate) fn segmentation(segment: &u16) -> Option<ControlMessage<'_>> {
    Some(ControlMessage::UdpGsoSegments(segment))
}
/// The message that gives a datagram these ECN bits, as the two families of addresses want them.
pub(crate) fn codepoint<'a>(is_ipv4: bool, bits: &'a u8, class: &'a i32) -> Option<ControlMessage<'a>> {
    Some(if is_ipv4 { ControlMessage::Ipv4Tos(bits) } else { ControlMessage::Ipv6TClass(class) })
}
/// Arrival timestamps are not used, and the kernel would take one for each packet.
pub(crate) fn forgo_timestamps(socket: &Socket) {
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &false);
}
/// Sets the size beyond the limit, which needs privileges; returns whether it could.
pub(crate) fn force_receive_buffer(socket: &Socket, bytes: usize) -> bool {
    setsockopt(socket, sockopt::RcvBufForce, &bytes).is_ok()
}
/// The same for sending.
pub(crate) fn force_send_buffer(socket: &Socket, bytes: usize) -> bool {
    setsockopt(socket, sockopt::SndBufForce, &bytes).is_ok()
}
/// Restricts a socket to a network device.
pub(crate) fn bind_device(socket: &Socket, device: &str) -> io::Result<()> {
    socket.bind_device(Some(device.as_bytes()))
}
/// Ends a connection whose peer acknowledges nothing for this long.
///
/// # Errors
/// If it is no TCP socket.
pub fn limit_unacknowledged(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(timeout))
}
/// The user at the other end of a Unix socket.
pub(crate) fn peer_uid(socket: &impl AsFd) -> Option<u32> {
    Some(getsockopt(&socket.as_fd(), sockopt::PeerCredentials).ok()?.uid())
}

/// Reads bytes that are in memory. Fails rather than waits for a disk; file systems that cannot distinguish fail always.
#[cfg(target_os = "linux")]
pub(crate) fn read_cached_at(file: &impl AsFd, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv2(file, &mut [io::IoSliceMut::new(buffer)], offset, rustix::io::ReadWriteFlags::NOWAIT)?)
}
// Android's C library has no such call.
#[cfg(target_os = "android")]
pub(crate) fn read_cached_at(_: &impl AsFd, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
/// Reserves space on the disk for a part of a file.
pub(crate) fn allocate(file: &impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length)?)
}
/// Returns the space of a part of a file, which then reads as zeros.
pub(crate) fn punch_hole(file: &impl AsFd, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, length)?)
}
/// Opens a folder beneath another in one step, over no link on the way; `None` where the system cannot (Linux 5.6).
///
/// # Errors
/// The system's error.
pub fn open_folder_beneath(folder: &OwnedFd, below: &Path, how: OFlags) -> Option<rustix::io::Result<OwnedFd>> {
    use rustix::io::Errno;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(folder, below, how, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => None,
        opened => Some(opened),
    }
}
/// Time since the machine was booted, suspended or not.
pub(crate) fn uptime() -> Option<Duration> {
    clock_gettime(ClockId::CLOCK_BOOTTIME).ok().map(Into::into)
}
