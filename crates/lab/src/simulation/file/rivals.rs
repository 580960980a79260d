//! Downloads of other transports, as a scenario names them.
use tributary_core::Time;

/// A download with a rival transport next to ours, on the same links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RivalSpec {
    /// Its name, unique among guests and nodes.
    pub name: String,
    /// One of [`RIVALS`].
    pub kind: String,
    /// The label of the node that serves.
    pub from: String,
    /// The label of the node that downloads.
    pub to: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Connections at a time, 1 to 64; one asks for the whole file at once, several ask for pieces.
    pub connections: u32,
    /// Start time.
    pub start: Time,
}

/// The kinds of rivals that a scenario may name.
pub const RIVALS: [&str; 5] = ["tcp-reno", "tcp-cubic", "quic-newreno", "quic-cubic", "quic-bbr"];
