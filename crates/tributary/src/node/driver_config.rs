//! What the driver of a node is given: sockets, faces, streams.
use std::net::SocketAddr;
use tributary_core::{FaceId, FaceProtection, link::LinkConfig};
use tributary_net::{DriverConfig, FaceConfig, ListenConfig, StreamFaceConfig};
use tributary_transport::{FaceOptions, FaceSecurity};

use crate::config::{FaceConfig as PeerConfig, NodeConfig, Security, face_id};

/// The faces over UDP with their numbers, including those whose addresses are still to be resolved.
pub(super) fn datagram_faces(config: &NodeConfig) -> impl Iterator<Item = (FaceId, &PeerConfig)> {
    let numbered = config.faces.iter().enumerate().map(|(index, face)| (face_id(index), face));
    numbered.filter(|(_, face)| !face.peer.is_stream())
}
/// A UDP face in the form of the node's driver, which listens at these addresses.
pub(super) fn datagram_face(listen: &[SocketAddr], id: FaceId, face: &PeerConfig, peer: SocketAddr) -> FaceConfig {
    FaceConfig {
        local: face.source(listen, peer),
        device: face.device.clone(),
        link: face.egress.as_ref().map(|link| LinkConfig { mtu: face.mtu, ..link.clone() }),
        mtu: face.mtu,
        ..FaceConfig::new(id, peer)
    }
}

/// A node's options of a face.
pub(super) fn options(face: &PeerConfig) -> FaceOptions {
    FaceOptions { mtu: face.mtu, rate: face.rate.or_else(|| face.egress.as_ref()?.rate) }
}

/// How a face is protected.
pub(super) fn security(face: &PeerConfig) -> FaceSecurity {
    let protection = match face.security {
        Security::None => FaceProtection::Off,
        _ if face.peer.is_stream() => FaceProtection::Off,
        Security::Preferred => FaceProtection::Preferred,
        Security::Encrypted | Security::Authenticated => FaceProtection::Required,
    };
    FaceSecurity { protection, peer_key: face.peer_key, endpoints: face.peer.endpoints() }
}

/// The driver of a node.
pub(super) fn driver_config(config: &NodeConfig, seed: u64) -> DriverConfig {
    let addressed = datagram_faces(config).filter_map(|(id, face)| Some((id, face, face.peer.datagrams()?)));
    let faces = addressed.map(|(id, face, peer)| datagram_face(&config.listen, id, face, peer));
    let streams = config.faces.iter().enumerate().filter_map(|(index, face)| {
        let peer = face.peer.stream()?.clone();
        Some(StreamFaceConfig { id: face_id(index), peer })
    });
    DriverConfig {
        faces: faces.collect(),
        stream_faces: streams.collect(),
        stream_listen: config.listen_streams.clone(),
        unix_access: config.unix_access,
        web_origins: config.web_origins.clone(),
        ecn: config.ecn,
        framing: config.family().framing(),
        listen: config.listen.iter().map(|address| ListenConfig::new(*address)).collect(),
        thread_name: config.label.chars().take(15).collect(),
        seed,
        ..DriverConfig::default()
    }
}
