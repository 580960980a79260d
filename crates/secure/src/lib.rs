//! Faces with proven neighbours: a layer between a node and its driver, without input or output.
//!
//! ```text
//!   driver (sockets or simulator)  ⇄  Secured<N>  ⇄  N, a node of any family
//!                                        │
//!                                        ├─ layer    per face: handshake, sessions, what waits
//!                                        ├─ noise    Noise XX: who is at the other end
//!                                        ├─ session  keys, packet numbers, replay window
//!                                        ├─ cookie   proof of address before any state
//!                                        └─ wire     packets
//! ```
//! - A face's two ends shake hands by Noise XX (revision 34). XX rather than IK: a node need not know its neighbours' keys
//!   beforehand; each presents what proves that it may be there, and [`Admission`] decides. A neighbour's key may still be
//!   required.
//! - Before an address has returned a cookie, a node stores nothing about it and answers with no more bytes than it
//!   received.
//! - Each packet under a session is sealed with AES-128-GCM under its own number and opened once; [`OVERHEAD`] bytes more on
//!   the wire. With [`Protection::Authenticated`] it is readable and cannot be changed.
//! - Keys live for two minutes or four million packets; the next ones are agreed on while these are used, which end after
//!   three minutes in any case.
//! - Only a handshake under the same key replaces a session in use. Another key may replace it after [`HELD_FOR`] of silence,
//!   if [`Admission`] agrees.
//! - A neighbour whose address changes, as behind a NAT that was started again, keeps its face once it has answered from the
//!   new one.
//!
//! Time, bytes and entropy are arguments: the same layer runs in the simulator.
#![no_std]
extern crate alloc;

mod cookie;
mod layer;
mod node;
mod noise;
mod replay;
mod session;
mod wire;

use alloc::{boxed::Box, string::String, vec::Vec};
use tributary_core::{Duration, FaceId, FaceProtection, PeerKey, Time};

pub use node::Secured;
pub use wire::NOTICE_BYTES_MAX;

/// Bytes that protection adds to a packet.
pub const OVERHEAD: u32 = wire::DATA_OVERHEAD as u32;
/// The longest credential that a node presents, in bytes.
pub const PRESENTED_BYTES_MAX: usize = wire::PRESENTED_BYTES_MAX - 1;

/// How long a face must be silent before a handshake under another key may replace its session. An attacker on the
/// path can begin one; a neighbour that restarts under another key waits that long.
pub const HELD_FOR: Duration = Duration::from_secs(20);

/// Fills a buffer with unpredictable bytes; in a simulation, with bytes derived from its seed.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// How a node protects its faces.
#[derive(Clone)]
pub struct Config {
    /// Its static secret key (X25519).
    pub secret: [u8; 32],
    /// The certificate or label that it presents to neighbours, at most [`PRESENTED_BYTES_MAX`] bytes; their
    /// [`Admission`] reads it.
    pub presented: Vec<u8>,
    /// How packets are protected; the stricter wish of both ends holds.
    pub protection: Protection,
    /// Policy of faces without their own.
    pub policy: FaceProtection,
}

/// How packets are protected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Protection {
    /// They are readable on the path but cannot be changed.
    Authenticated,
    /// They cannot be read either.
    #[default]
    Encrypted,
}

/// Who a neighbour is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its key, which identifies it whatever its address is.
    pub key: PeerKey,
    /// Its name, for people.
    pub label: String,
}

/// Decides who may be a neighbour.
pub trait Admission: Send {
    /// Decides about the holder of the static key `key`, which has presented `presented` on `face`. The handshake has
    /// proven possession of the key; this function checks that `presented` belongs to it.
    ///
    /// # Errors
    /// [`Refusal`] states why it may not be a neighbour.
    fn admit(&mut self, now: Time, face: FaceId, key: &[u8; 32], presented: &[u8]) -> Result<Peer, Refusal>;
}

/// Why a node may not be a neighbour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason; the layer sends it to the refused neighbour.
    pub reason: String,
    /// What the owner of this node can do about it; the neighbour does not see it.
    pub remedy: Option<String>,
}
impl<T: Into<String>> From<T> for Refusal {
    fn from(reason: T) -> Refusal {
        Refusal { reason: reason.into(), remedy: None }
    }
}

/// Tells the node about the neighbour on a face: before its first packet, and with `None` when its session has ended.
pub type OnPeer<N> = Box<dyn FnMut(&mut N, Time, FaceId, Option<&Peer>) + Send>;

/// The static public key of a secret one (X25519).
pub fn public_key(secret: &[u8; 32]) -> [u8; 32] {
    noise::public_key(secret)
}

/// What the layer has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Handshakes that this node started.
    pub initiated: u64,
    /// Sessions established.
    pub established: u64,
    /// Neighbours that were refused, or that refused this node.
    pub refused: u64,
    /// Cookies sent to addresses that had not proven themselves.
    pub cookies: u64,
    /// Handshakes that were not answered because there were too many at once.
    pub postponed: u64,
    /// Packets without protection on a face that requires it.
    pub unprotected: u64,
    /// Packets that fail authentication.
    pub forged: u64,
    /// Replayed packets.
    pub replayed: u64,
    /// Packets of unknown sessions.
    pub strays: u64,
    /// Packets of the node dropped because too many waited for a session.
    pub waited_in_vain: u64,
    /// Neighbours that changed their address.
    pub moves: u64,
}

/// Compares secrets in a time that does not depend on where they differ.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | a ^ b) == 0
}
