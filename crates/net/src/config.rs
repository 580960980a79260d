//! Settings of a driver: faces, listeners, limits.
use std::{net::SocketAddr, sync::Arc};

use tributary_core::{
    Duration, Ecn, FaceId,
    link::{LinkConfig, Loss},
};

use crate::bell::Bell;
use crate::stream::{Framing, StreamAddress, StreamFaceConfig};

tributary_core::declared! {
    /// All settings of a driver. The default has no face and no listener.
    #[derive(Clone, Debug)]
    pub struct DriverConfig {
        /// Faces with known peers.
        pub faces: Vec<FaceConfig> = Vec::new(),
        /// Sockets on which each unknown peer gets a face.
        pub listen: Vec<ListenConfig> = Vec::new(),
        /// Streams to known peers.
        pub stream_faces: Vec<StreamFaceConfig> = Vec::new(),
        /// Addresses at which streams are accepted; port zero lets the kernel choose. Each stream gets a face.
        pub stream_listen: Vec<StreamAddress> = Vec::new(),
        /// Who may connect to the Unix sockets of [`DriverConfig::stream_listen`].
        pub unix_access: UnixAccess = UnixAccess::default(),
        /// Origins of web pages, such as `https://example.org`, that may open a WebSocket; other pages get 403.
        /// Programs other than browsers send no origin and are always allowed (RFC 6455 §10.2). Default: none.
        pub web_origins: Vec<String> = Vec::new(),
        /// Where packets end in a stream; streams need it.
        pub framing: Option<Arc<dyn Framing>> = None,
        /// Name of the thread, as `top -H` and `perf` show it; the kernel keeps 15 characters.
        pub thread_name: String = "node".into(),
        /// Receive buffer requested from the kernel for each socket. Default 8 MiB.
        pub receive_buffer_bytes: usize = 8 << 20,
        /// Send buffer requested from the kernel for each socket. Default 8 MiB.
        pub send_buffer_bytes: usize = 8 << 20,
        /// Maximum bytes that wait for each socket while the kernel accepts no more; further packets are dropped and
        /// counted. Default 4 MiB.
        pub backlog_bytes_max: usize = 4 << 20,
        /// Maximum dynamic faces, over all listeners. A further peer replaces one that was heard only for a moment, or
        /// has been silent for ten seconds; without such a peer its datagrams are dropped and counted. Default 1,024.
        pub faces_max: usize = 1_024,
        /// Silence after which a dynamic face is forgotten. Default 60 s.
        pub face_idle: Duration = Duration::from_secs(60),
        /// Number of the first dynamic face; static faces are numbered below. Default 65,536.
        pub dynamic_face_first: u32 = 65_536,
        /// Minimum time between two wake-ups for emulated links: faster links send several datagrams at once, up to
        /// this much late. Rates stay exact. Default 100 µs; zero wakes up for each datagram.
        pub shaping_quantum: Duration = Duration::from_micros(100),
        /// How outgoing datagrams ask queues to mark them instead of dropping them. Default: [`Ecn::Classic`].
        pub ecn: Ecn = Ecn::default(),
        /// Seed of the random choices of links on faces.
        pub seed: u64 = 0,
        /// Rung by the node's storage on other threads: the driver then lets the node take the answers.
        pub bell: Bell = Bell::default(),
    }
}

tributary_core::declared! {
    /// Who may connect to a Unix socket.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct UnixAccess {
        /// Mode of the socket's file. Default: 0600.
        pub mode: u32 = 0o600,
        /// Number of its group; `None` as the system has it.
        pub group: Option<u32> = None,
    }
}

tributary_core::declared! {
    /// A face with a known peer.
    #[derive(Clone, Debug)]
    pub struct FaceConfig {
        /// Its number in the node.
        pub id: FaceId = id,
        /// Where its socket is bound; `None` lets the kernel choose. Faces and listeners with the same address and
        /// device share one socket.
        pub local: Option<SocketAddr> = None,
        /// The destination and source of its datagrams.
        pub peer: SocketAddr = peer,
        /// Network device that the socket is bound to: with several uplinks, the one to use. Needs privileges.
        pub device: Option<String> = None,
        /// Emulated link that outgoing datagrams pass before the socket; `None` sends at once. The peer emulates
        /// the other direction.
        pub link: Option<LinkConfig> = None,
        /// Loss of incoming datagrams before the node sees them.
        pub ingress_loss: Loss = Loss::None,
        /// Longest datagram that is sent; longer ones are dropped and counted. Default 1,472.
        pub mtu: u32 = MTU,
    }
    /// A face to `peer` on a socket that the kernel chooses, without an emulated link.
    pub fn new(id: FaceId, peer: SocketAddr) {}
}

tributary_core::declared! {
    /// A socket on which an unknown peer gets a new face, numbered from [`DriverConfig::dynamic_face_first`] on.
    #[derive(Clone, Debug)]
    pub struct ListenConfig {
        /// Where it is bound; port zero lets the kernel choose. An IPv6 address receives no IPv4 datagrams.
        pub local: SocketAddr = local,
        /// Network device that the socket is bound to. Needs privileges.
        pub device: Option<String> = None,
        /// Emulated link of every new face.
        pub link: Option<LinkConfig> = None,
        /// MTU of every new face. Default 1,472.
        pub mtu: u32 = MTU,
    }
    /// A listener without emulated links.
    pub fn new(local: SocketAddr) {}
}

/// The longest UDP payload that crosses an Ethernet in one IPv4 packet.
const MTU: u32 = 1_472;
