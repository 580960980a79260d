//! Rivals and cross traffic: protocol machines that share links and queues with the endpoints of a family.
//!
//! ```text
//!   0        1        2        3        4
//!   ┌────────┬────────┬────────┬────────┬──────────────
//!   │ 0xff   │ links  │ number of the   │ the guest's
//!   │        │ passed │ route           │ own bytes …
//!   └────────┴────────┴─────────────────┴──────────────
//! ```
//! No family's packets start with 0xff.
use std::{fmt, sync::Arc};
use tributary_content::Name;
use tributary_core::{Datagram, FaceId, Node, Rate, Time, TransferId, event::TransferReport};

/// A protocol machine that is no endpoint of a family.
///
/// Its faces lead to other guests, one each; it need not know how. It answers few questions, so that it fits into the same tables as a family's transfers.
pub trait Guest: Node {
    /// Starts the fetch of `name`. `None` (the default) if it does not fetch.
    ///
    /// `Event::Transfer` with `Completed` or `Failed` and this number reports its end.
    fn fetch(&mut self, now: Time, name: &Name) -> Option<TransferId> {
        let _ = (now, name);
        None
    }
    /// The account of a fetch, with one path per connection.
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        let _ = (now, transfer);
        None
    }
    /// Whether the payload of a finished fetch was correct; `None` if it was not compared.
    fn is_verified(&self, transfer: TransferId) -> Option<bool> {
        let _ = transfer;
        None
    }
}

/// Creates a guest for its place. It may be called more than once: for each run, and when its node restarts.
#[derive(Clone)]
pub struct GuestFactory(Arc<Make>);

type Make = dyn Fn(&Seat) -> Box<dyn Guest> + Send + Sync;

impl GuestFactory {
    /// A factory that calls `make`.
    pub fn new<G: Guest + 'static>(make: impl Fn(&Seat) -> G + Send + Sync + 'static) -> Self {
        GuestFactory(Arc::new(move |seat| Box::new(make(seat))))
    }
    /// Makes one.
    pub fn make(&self, seat: &Seat) -> Box<dyn Guest> {
        (self.0)(seat)
    }
}
impl fmt::Debug for GuestFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuestFactory")
    }
}

/// The place that a guest is made for.
#[derive(Clone, PartialEq, Debug)]
pub struct Seat {
    /// Its name.
    pub name: String,
    /// Its seed; differs from guest to guest and from start to start.
    pub seed: u64,
    /// Its faces.
    pub faces: Vec<SeatFace>,
}

/// A face of a [`Seat`].
#[derive(Clone, PartialEq, Debug)]
pub struct SeatFace {
    /// Its number.
    pub face: FaceId,
    /// The guest at the other end.
    pub peer: String,
    /// The longest datagram that gets through, in bytes.
    pub mtu: u32,
    /// The rate of the narrowest link on the path there; `None` if no link has a limit.
    pub rate: Option<Rate>,
}

/// The first byte of every packet between guests.
pub const GUEST_MARK: u8 = 0xff;
/// Bytes in front of every packet between guests; they count against rates and queues.
pub const GUEST_HEADER_BYTES: usize = 4;

/// The path from one guest to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// The face to leave by at each node, the sender's first.
    pub(super) faces: Vec<FaceId>,
    /// Which guest of the last node gets the packet.
    pub(super) guest: usize,
    /// On which of its faces.
    pub(super) face: FaceId,
}

/// The header of a packet that has passed `links` links.
pub(super) fn header(links: u8, route: u16) -> [u8; GUEST_HEADER_BYTES] {
    let [high, low] = route.to_be_bytes();
    [GUEST_MARK, links, high, low]
}
/// Links passed and route of a packet between guests; `None` for other packets.
pub(super) fn parse(datagram: &Datagram) -> Option<(u8, u16)> {
    match datagram.header_bytes() {
        [GUEST_MARK, links, high, low, ..] => Some((*links, u16::from_be_bytes([*high, *low]))),
        _ => None,
    }
}
/// Prepends a header to a guest's packet. Its body is shared unless it already has a header.
pub(super) fn wrap(datagram: Datagram, route: u16) -> Datagram {
    Datagram::new(&header(0, route), datagram.into_bytes())
}
