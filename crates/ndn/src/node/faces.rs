//! The faces of a node: described, opened, announced by packets.
use super::*;

/// How long a face that only packets told of is kept while nothing comes by it.
pub(super) const UNSOLICITED_FACE_TIMEOUT: Duration = Duration::from_secs(60);

impl NdnNode {
    /// Attaches a face with everything that can be said of one.
    pub fn add_face_with(&mut self, face: FaceId, profile: FaceProfile) -> bool {
        self.unsolicited.remove(face);
        self.router.add_face(face, profile)
    }
    /// A face to another machine that finds out how large a datagram its link carries, if it is no stream, and does what
    /// the settings say of it.
    pub(super) fn described(&self, face: FaceId, options: FaceOptions) -> FaceProfile {
        let service = self.config.link_services.get(&face).unwrap_or(&self.config.link_service);
        FaceProfile { finds_mtu: true, ..FaceProfile::from(options) }.with_service(*service)
    }
    /// What a stream is like that has been opened: as it was if it was there before, also by command.
    pub(super) fn opened(&self, face: FaceId, options: FaceOptions, scope: FaceScope, uri: String) -> FaceProfile {
        let known = self.router.faces().find(|(id, ..)| *id == face).map(|(_, _, profile, _)| profile.clone());
        let signals = scope == FaceScope::NonLocal || self.config.link_services.contains_key(&face);
        let made = || if signals { self.described(face, options) } else { FaceProfile::from(options) };
        FaceProfile { scope, uri, ..known.unwrap_or_else(made) }
    }
    /// What follows when a face is there: its routes, and what is registered at it.
    pub(super) fn on_face_up(&mut self, now: Time, face: FaceId) {
        for route in self.config.routes.iter().filter(|route| route.face == face) {
            self.router.add_route(&route.prefix, face, route.cost);
        }
        self.registrations.on_face_up(now, face);
        // A stream tells by itself when its neighbour starts anew. It is asked once, which tells it what this node is.
        if self.registrations.registers_at(face) && self.router.mtu(face).is_none() {
            self.router.probe_boot(face, 0);
        }
    }
    /// Gives up faces that only packets told of and by which nothing has come for long.
    pub(super) fn close_unsolicited_faces(&mut self, now: Time) {
        for face in self.unsolicited.expired(now) {
            self.unsolicited.remove(face);
            // Somebody may have said by `faces/update` that it stays.
            if !self.router.faces().any(|(id, _, profile, _)| id == face && profile.is_persistent) {
                self.router.remove_face(now, face);
            }
        }
    }
}

/// Whether a datagram is an Interest or a link packet: nothing else makes a face.
pub(super) fn is_packet(datagram: &Datagram) -> bool {
    let bytes = datagram.to_vec();
    Interest::decode(&bytes).is_ok() || LpPacket::decode(&bytes).is_ok()
}
