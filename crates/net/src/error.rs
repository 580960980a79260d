//! Errors between a driver and its owner. Events in the network are no errors.
use std::{io, net::SocketAddr};

use tributary_core::FaceId;

use crate::stream::StreamAddress;

/// A driver that could not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The address is taken.
    #[error(
        "cannot bind {local}: address already in use; hint: find who has it with `ss -ulpn 'sport = :{}'`, or choose another port",
        local.port()
    )]
    AddressInUse {
        /// The address.
        local: SocketAddr,
    },
    /// The address is not one of this machine's.
    #[error("cannot bind {local}: no interface has this address; hint: list them with `ip addr`")]
    AddressNotAvailable {
        /// The address.
        local: SocketAddr,
    },
    /// The device does not exist, or binding to it is not permitted.
    #[error(
        "cannot bind {local} to device '{device}': {source}; hint: list devices with `ip link`; binding to one may need root"
    )]
    Device {
        /// The address.
        local: SocketAddr,
        /// The device.
        device: String,
        /// The system's error.
        source: io::Error,
    },
    /// A socket could not be made, for any other reason.
    #[error("cannot {operation} on {local}: {source}")]
    Socket {
        /// The operation.
        operation: &'static str,
        /// The address.
        local: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A stream socket could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Stream {
        /// The address.
        address: StreamAddress,
        /// The system's error.
        source: io::Error,
    },
    /// Streams are configured without a framing.
    #[error("there are streams, but no framing for them")]
    NoFraming,
    /// Two faces have the same number.
    #[error("{face} is configured twice; hint: give each face its own number")]
    DuplicateFace {
        /// The number.
        face: FaceId,
    },
    /// A face has a number that belongs to dynamic ones.
    #[error("{face} is in the range of dynamic faces; hint: number static faces below {first}")]
    ReservedFace {
        /// The number.
        face: FaceId,
        /// The first dynamic number.
        first: u32,
    },
    /// Two faces could not be distinguished by arriving packets.
    #[error(
        "{face} and {other} have the same peer {peer} on the same socket; hint: give one of them another local address"
    )]
    DuplicatePeer {
        /// The second face.
        face: FaceId,
        /// The first face.
        other: FaceId,
        /// Their peer.
        peer: SocketAddr,
    },
    /// There is no such face.
    #[error("there is no {face}")]
    UnknownFace {
        /// The number.
        face: FaceId,
    },
    /// The face has no emulated link that could change.
    #[error("{face} has no emulated link")]
    NoLink {
        /// The number.
        face: FaceId,
    },
    /// The thread could not be started.
    #[error("cannot start the thread of a driver: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// The driver has been stopped.
    #[error("the driver has been stopped")]
    Stopped,
    /// The node panicked.
    #[error("the node panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}
