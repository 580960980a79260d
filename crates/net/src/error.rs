//! Errors between a driver and its owner. Events in the network are no errors.
use std::{io, net::SocketAddr};

use tributary_core::FaceId;

use crate::stream::StreamAddress;

/// A driver that could not start, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// What the system or the config does not permit, with the reason.
    #[error("{0}")]
    Refused(String),
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
