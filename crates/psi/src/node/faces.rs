//! The faces of a node: attached, announced by packets, measured.
use super::*;

/// How long an unsolicited face is kept while its neighbour does not answer hellos.
pub(super) const UNSOLICITED_FACE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two measurements of the load of links.
const USED_INTERVAL: Duration = Duration::from_secs(1);

impl PsiNode {
    pub(super) fn attach(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        if self.router.add_face(face, options) && self.neighbour.add_face(now, face, options) {
            self.faces.insert(face, options);
        }
        self.control_due = self.next_control_deadline();
    }
    /// Adds an unsolicited face. Returns false at the limit.
    pub(super) fn meet(&mut self, now: Time, face: FaceId) -> bool {
        // A neighbour that has sent an authentic hello is about to answer.
        if let Some(surplus) = self.unsolicited.surplus(|face| self.neighbour.hears(face)) {
            self.detach(now, surplus);
        }
        if !self.neighbour.add_unsolicited(now, face, FACE_DEFAULT) {
            return false;
        }
        self.faces.insert(face, FACE_DEFAULT);
        self.unsolicited.add(now, face);
        self.control_due = self.next_control_deadline();
        true
    }
    /// A neighbour answers, or has stopped to answer: the router uses the face accordingly.
    pub(super) fn on_face(&mut self, now: Time, face: FaceId, up: bool) {
        if up && self.unsolicited.on_answer(now, face) {
            self.router.add_face(face, FACE_DEFAULT);
        }
        self.router.set_face_up(face, up);
    }
    /// Passes the neighbour protocol the load of each link, for paths by residual capacity.
    pub(super) fn measure_use(&mut self, now: Time) {
        self.used_due = now + USED_INTERVAL;
        self.close_unsolicited_faces(now);
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        for face in faces {
            let sent = self.router.face_stats(face).map_or(0, |stats| stats.sent_bytes);
            if let Some((since, before)) = self.used.insert(face, (now, sent)) {
                let rate = Rate::over(sent.saturating_sub(before), now.since(since)).unwrap_or_default();
                self.neighbour.set_used(now, face, u32::try_from(rate.bits_per_second() / 1000).unwrap_or(u32::MAX));
            }
        }
    }
    /// Closes unsolicited faces whose neighbour does not answer.
    pub(super) fn close_unsolicited_faces(&mut self, now: Time) {
        for face in self.unsolicited.expired(now, |face| self.neighbour.is_up(face)) {
            self.detach(now, face);
        }
    }
    pub(super) fn detach(&mut self, now: Time, face: FaceId) {
        self.faces.remove(&face);
        self.unsolicited.remove(face);
        self.used.remove(&face);
        self.neighbour.remove_face(now, face);
        self.router.remove_face(face);
    }
}
