//! The driver's view of every role of every family.
use core::net::SocketAddr;

use crate::{Datagram, DatagramBatch, FaceId, Time, TimerId, Transmit, TransmitBuf, event::Event};

/// A protocol state machine.
///
/// Order of calls: after any `handle_*` (or a command of the concrete type), a driver calls `poll_transmit` and
/// `poll_event` until both return `None`, then `poll_timeout`. [`pump()`](crate::pump()) does this, and nothing else
/// should. `now` never decreases from one call to the next.
pub trait Node {
    /// Takes one packet that arrived on `face`. Illegal bytes are counted, reported as an event, and dropped.
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram);
    /// Takes packets that arrived on `face` together, in order, with the effect of [`Node::handle_datagram`] for each;
    /// a node with much traffic decides once for all of them.
    fn handle_batch(&mut self, now: Time, face: FaceId, batch: DatagramBatch) {
        for index in 0..batch.count() {
            self.handle_datagram(now, face, batch.datagram(index));
        }
    }
    /// Serves the timers that are due at `now`. Calling it early does no harm.
    fn handle_timeout(&mut self, now: Time);
    /// Decides about a datagram from an address without a face, before anything is kept of it. The default admits everybody.
    fn handle_stranger(&mut self, _now: Time, _from: SocketAddr, _datagram: &[u8]) -> Stranger {
        Stranger::Admitted
    }
    /// Fills the empty batch `out` with packets for one face; `None` when there is nothing to send.
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit>;
    /// When to call [`Node::handle_timeout`] next, and why; `None` for "not before something arrives".
    fn poll_timeout(&self) -> Option<(Time, TimerId)>;
    /// The next event to report.
    fn poll_event(&mut self) -> Option<Event>;
    /// Takes note of a face that the driver opened or closed without a request: a stream was accepted or broke, or a
    /// peer was silent for long. The default ignores it.
    fn handle_face(&mut self, _now: Time, _face: FaceId, _change: FaceChange) {}
    /// Injected storage that works on another thread has answered: the node takes the answers. Does nothing by default.
    /// Storage that answers at once, as in a simulation, does not need it.
    fn handle_storage(&mut self, _now: Time) {}
    /// A request to a driver with sockets: a face to open or close. Polled after events; a driver answers each
    /// [`FaceRequest::Open`] by [`Node::handle_face_answer`]. The default makes no requests.
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        None
    }
    /// Takes the answer to a request to open a face: its number, or why it was refused. A stream's far end may not be
    /// connected yet; [`FaceChange::Opened`] follows when it is.
    fn handle_face_answer(&mut self, _now: Time, _request: u64, _answer: Result<(FaceId, FaceAddresses), FaceRefusal>) {
    }
    /// Takes the addresses, as URIs, at which the driver accepts faces. Does nothing by default.
    fn handle_channels(&mut self, _channels: alloc::vec::Vec<alloc::string::String>) {}
}

/// What becomes of a datagram from an address without a face.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stranger {
    /// The address gets a face, and the node the datagram.
    Admitted,
    /// The address gets this answer and no face.
    Answered(alloc::vec::Vec<u8>),
    /// It gets nothing.
    Dropped,
}

/// A node's request to its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaceRequest {
    /// A face to an address.
    Open {
        /// The node's number for the request.
        request: u64,
        /// The address, such as `udp4://192.0.2.1:6363` or `tcp://192.0.2.1:6363`.
        uri: alloc::string::String,
        /// Bytes of the largest datagram that it should carry; `None` for the default.
        mtu: Option<u32>,
    },
    /// The node no longer needs a face.
    Close {
        /// The face.
        face: FaceId,
    },
    /// The addresses of a face: the driver answers by [`FaceChange::Located`].
    Locate {
        /// The face.
        face: FaceId,
    },
    /// The neighbour of a face has proven that it is now at the address of another one.
    Move {
        /// The face, which gets that address.
        face: FaceId,
        /// The other one, which is closed.
        to: FaceId,
    },
}

/// Why a driver opens no face.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaceRefusal {
    /// A face to this address already exists.
    Exists(FaceId),
    /// The driver cannot open faces to this address; the reason.
    Address(alloc::string::String),
    /// The system refuses, and why.
    System(alloc::string::String),
}

/// Whether a face carries packets that no neighbour has proven to have sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FaceProtection {
    /// None: it waits until the neighbour has proven its key.
    #[default]
    Required,
    /// The far end decides: after it has started a session, unprotected packets are dropped.
    Optional,
    /// The same, and this end tries to start a session: for neighbours that may not support it. An attacker who can
    /// drop packets on the way can prevent that.
    Preferred,
    /// All: packets pass as they are.
    Off,
}

/// What became of a face without the node's doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaceChange {
    /// Packets can be sent and will arrive.
    Opened {
        /// Bytes of the largest packet that it carries.
        mtu: u32,
        /// The neighbour's kind and place.
        place: PeerPlace,
        /// The addresses of its ends.
        addresses: FaceAddresses,
    },
    /// A face over datagrams has these addresses now. One that the node does not have is none of its concern.
    Located(FaceAddresses),
    /// It is gone; its number may be used again.
    Closed,
}

/// The addresses of both ends of a face as URIs, such as `udp4://192.0.2.1:6363`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FaceAddresses {
    /// Of the far end.
    pub peer: alloc::string::String,
    /// Of the near end.
    pub local: alloc::string::String,
}

/// Where the far end of a face is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerPlace {
    /// On this machine, of the user that this process runs as or of root, as the system vouches.
    ThisMachine,
    /// On this machine, of another user.
    OtherUser,
    /// Anywhere.
    Elsewhere,
}

impl<N: Node + ?Sized> Node for alloc::boxed::Box<N> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        (**self).handle_datagram(now, face, datagram);
    }
    fn handle_batch(&mut self, now: Time, face: FaceId, batch: DatagramBatch) {
        (**self).handle_batch(now, face, batch);
    }
    fn handle_timeout(&mut self, now: Time) {
        (**self).handle_timeout(now);
    }
    fn handle_stranger(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Stranger {
        (**self).handle_stranger(now, from, datagram)
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        (**self).poll_transmit(now, out)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        (**self).poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        (**self).poll_event()
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        (**self).handle_face(now, face, change);
    }
    fn handle_storage(&mut self, now: Time) {
        (**self).handle_storage(now);
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        (**self).poll_face_request()
    }
    fn handle_face_answer(&mut self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>) {
        (**self).handle_face_answer(now, request, answer);
    }
    fn handle_channels(&mut self, channels: alloc::vec::Vec<alloc::string::String>) {
        (**self).handle_channels(channels);
    }
}
