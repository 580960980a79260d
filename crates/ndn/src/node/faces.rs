//! The faces of a node: described, opened, announced by packets.
use super::*;

/// How long an unsolicited face is kept while no packet arrives on it.
pub(super) const UNSOLICITED_FACE_TIMEOUT: Duration = Duration::from_secs(60);

impl NdnNode {
    /// Adds a face with a complete profile.
    pub fn add_face_with(&mut self, face: FaceId, profile: FaceProfile) -> bool {
        self.unsolicited.remove(face);
        self.router.add_face(face, profile)
    }
    /// The profile of a face to another machine: it discovers the MTU of its link unless it is a stream, and has the
    /// link service of the settings.
    pub(super) fn described(&self, face: FaceId, options: FaceOptions) -> FaceProfile {
        let service = self.router.config.link_services.get(&face).unwrap_or(&self.router.config.link_service);
        FaceProfile { finds_mtu: true, ..FaceProfile::from(options) }.with_service(*service)
    }
    /// The profile of an opened stream: its former one if known, which a command may have set.
    pub(super) fn opened(
        &self,
        face: FaceId,
        options: FaceOptions,
        scope: FaceScope,
        addresses: FaceAddresses,
    ) -> FaceProfile {
        let known = self.router.faces().find(|(id, ..)| *id == face).map(|(_, _, profile, _)| profile.clone());
        let signals = scope == FaceScope::NonLocal || self.router.config.link_services.contains_key(&face);
        let made = || if signals { self.described(face, options) } else { FaceProfile::from(options) };
        let FaceAddresses { peer: uri, local: local_uri } = addresses;
        FaceProfile { scope, uri, local_uri, ..known.unwrap_or_else(made) }
    }
    /// Adds the routes of a face that is up, and registers prefixes there.
    pub(super) fn on_face_up(&mut self, now: Time, face: FaceId) {
        let routes = self.router.config.routes.clone();
        for route in routes.iter().filter(|route| route.face == face) {
            self.router.add_route(&route.prefix, face, route.cost);
        }
        self.registrations.on_face_up(now, face);
        // A stream closes when its neighbour restarts. One probe tells the neighbour that this node is a forwarder of
        // ours.
        if self.registrations.neighbours.contains_key(&face) && self.router.mtu(face).is_none() {
            self.router.probe_boot(face, 0);
        }
        self.register_due(now);
    }
    /// Closes unsolicited faces on which no packet has arrived for long.
    pub(super) fn close_unsolicited_faces(&mut self, now: Time) {
        for face in self.unsolicited.expired(now, |_| false) {
            self.unsolicited.remove(face);
            // `faces/update` may have made it persistent.
            if !self
                .router
                .faces()
                .any(|(id, _, profile, _)| id == face && profile.persistency != FacePersistency::OnDemand)
            {
                self.router.remove_face(now, face);
            }
        }
    }
}

/// Whether a datagram is an Interest or a link packet: nothing else opens an unsolicited face.
pub(super) fn is_packet(datagram: &Datagram) -> bool {
    let bytes = datagram.to_vec();
    Interest::decode(&bytes).is_ok() || LpPacket::decode(&bytes).is_ok()
}
