//! macOS and the BSDs, beside what is portable.
use std::{io, num::NonZeroU32, os::fd::AsFd};

use nix::{net::if_::if_nametoindex, unistd::getpeereid};
use socket2::{Domain, Socket};

pub(crate) use super::portable::{
    BUFFER_LIMITS, BUFFER_SHARE, Wake, allocate, codepoint, force_receive_buffer, force_send_buffer, forgo_timestamps,
    punch_hole, read_cached_at, segmentation, sharpen_timers, uptime, wait,
};
pub use super::portable::{limit_unacknowledged, open_folder_beneath};

/// Restricts a socket to a network device.
pub(crate) fn bind_device(socket: &Socket, device: &str) -> io::Result<()> {
    let index = NonZeroU32::new(if_nametoindex(device)?);
    match socket.local_addr()?.domain() {
        Domain::IPV6 => socket.bind_device_by_index_v6(index),
        _ => socket.bind_device_by_index_v4(index),
    }
}
/// The user at the other end of a Unix socket.
pub(crate) fn peer_uid(socket: &impl AsFd) -> Option<u32> {
    Some(getpeereid(socket).ok()?.0.as_raw())
}
