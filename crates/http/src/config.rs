//! Limits and timeouts of both proxies.
use tributary_core::Duration;

use crate::exchange::{HEAD_BYTES_MAX, SEGMENT_BYTES};

/// Maximum bytes of a stream that its receiver keeps while others use the shared memory.
pub const WINDOW_BYTES_MIN: usize = 2 * SEGMENT_BYTES;
/// The largest window: enough for 300 Mbit/s at a round trip of 100 ms.
pub const WINDOW_BYTES_MAX: usize = 64 * SEGMENT_BYTES;

tributary_core::declared! {
    /// The limits of a proxy.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Limits {
        /// On the browser's side: connections of browsers; more wait until one ends. On the web server's side: requests
        /// and tunnels; more are answered with 503. Default: 256.
        pub connections: usize = 256,
        /// Bytes of bodies in memory, beyond [`CONNECTION_BYTES_MAX`] for each connection; fast streams draw on them.
        /// Default: 64 MiB.
        pub memory_bytes: u64 = 64 << 20,
    }
}

/// Maximum bytes of a connection without a share of [`Limits::memory_bytes`]: two heads, a window of either stream, and
/// hyper's input and output buffers.
pub const CONNECTION_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX + 2 * WINDOW_BYTES_MIN + 2 * HEAD_BYTES_MAX;

tributary_core::declared! {
    /// How long a proxy waits.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Timeouts {
        /// For all of a request's head, and for the next request on a connection that is kept. Default: 30 s.
        pub head: Duration = Duration::from_secs(30),
        /// For the head of a response, once the request has been sent. Default: 60 s.
        pub answer: Duration = Duration::from_secs(60),
        /// For the next bytes of a request's body. Default: 60 s.
        pub body: Duration = Duration::from_secs(60),
        /// Timeout for the next bytes of a response or of a tunnel, either way, and for a browser that reads nothing.
        /// Event streams and WebSockets are silent for minutes. Default: 15 min.
        pub idle: Duration = Duration::from_secs(15 * 60),
        /// Grace for running requests when the proxy shuts down. Default: 5 s.
        pub end: Duration = Duration::from_secs(5),
    }
}

/// How long a browser that has sent `Expect: 100-continue` waits for the web server before its body is accepted anyway
/// (RFC 9110 §10.1.1 lets a client send its body after a timeout; curl waits one second).
pub(crate) const CONTINUE_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum interim responses (1xx) to one request.
pub const INTERIMS_MAX: usize = 16;
/// Fields that the two proxies may add to a message.
pub(crate) const FIELDS_ADDED: usize = 8;
/// Bytes that the kernel may buffer in each direction of a TCP connection. By default it keeps up to 10 MB for each.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 256 << 10;
/// Silent connections are probed after this time, so that vanished peers are detected.
pub(crate) const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
