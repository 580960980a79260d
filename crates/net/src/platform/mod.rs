//! What operating systems do differently. No other module asks which one it is compiled for.
//!
//! `linux` has the fast way of each function, for Linux and for Android, which has the same kernel. `portable` has the
//! way that every Unix offers, or a refusal that callers treat like that of an old kernel; `bsd` adds what macOS and
//! the BSDs can do. The tests run both ways on Linux.
//!
//! | function | Linux | elsewhere |
//! |---|---|---|
//! | [`Wake`] | eventfd | pair of sockets |
//! | [`wait`] | `ppoll`, nanoseconds | `poll`, rounded up to milliseconds |
//! | [`sharpen_timers`] | timer slack of 1 ns | nothing |
//! | [`segmentation`] | `UDP_SEGMENT` | none: one datagram per call |
//! | [`codepoint`] | `IP_TOS`, `IPV6_TCLASS` | none: datagrams carry no ECN codepoint |
//! | [`forgo_timestamps`] | `SO_TIMESTAMPNS` off | nothing |
//! | [`force_receive_buffer`], [`force_send_buffer`] | `SO_RCVBUFFORCE`, `SO_SNDBUFFORCE` | refused |
//! | [`bind_device`] | `SO_BINDTODEVICE` | `IP_BOUND_IF` |
//! | [`limit_unacknowledged`] | `TCP_USER_TIMEOUT` | nothing: keep-alive probes end a silent connection |
//! | [`peer_uid`] | `SO_PEERCRED` | `getpeereid` |
//! | [`read_cached_at`] | `preadv2` with `RWF_NOWAIT` | refused: another thread reads |
//! | [`allocate`], [`punch_hole`] | `fallocate` | refused: files grow as they are written, zeros are written |
//! | [`open_folder_beneath`] | `openat2` | refused: opened step by step |
//! | [`uptime`] | `CLOCK_BOOTTIME` | unknown: each process counts as one boot |
//!
//! Locks, sparse writes, renames without replacement, addresses of interfaces and notices to a service manager need
//! nothing here: the standard library and the crates in use offer them on every Unix.

#[cfg(any(test, not(any(target_os = "linux", target_os = "android"))))]
#[cfg_attr(test, allow(unreachable_pub, reason = "on Linux only tests reach it"))]
mod portable;
#[cfg_attr(any(target_os = "linux", target_os = "android"), path = "linux.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "bsd.rs")]
mod system;
#[cfg(test)]
mod tests;

pub(crate) use system::{
    BUFFER_LIMITS, BUFFER_SHARE, Wake, allocate, bind_device, codepoint, force_receive_buffer, force_send_buffer,
    forgo_timestamps, peer_uid, punch_hole, read_cached_at, segmentation, sharpen_timers, uptime, wait,
};
pub use system::{limit_unacknowledged, open_folder_beneath};
