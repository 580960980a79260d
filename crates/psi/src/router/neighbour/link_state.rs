//! What a node reports to the topology managers about its links, and when.
use super::*;

impl Neighbour {
    fn adjacency(&self, face: FaceId) -> Option<Adjacency> {
        let state = self.faces.get(&face).filter(|state| state.up)?;
        let peer = state.peer.as_ref()?;
        Some(Adjacency {
            face,
            neighbour: peer.node,
            neighbour_face: peer.face,
            rtt_us: peer.rtt.map_or(0, |rtt| u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1)),
            capacity_kbps: state
                .options
                .rate
                .map_or(0, |rate| u32::try_from(rate.bits_per_second() / 1000).unwrap_or(u32::MAX).max(1)),
            used_kbps: state.used_kbps,
            mtu: state.mtu,
        })
    }
    /// Reports a changed round-trip time or load if it differs by a quarter from the last report.
    pub(super) fn on_metric(&mut self, now: Time, face: FaceId) {
        let Some(current) = self.adjacency(face) else { return };
        let Some(advertised) = self.faces.get(&face).and_then(|state| state.advertised) else { return };
        let differs = |a: u32, b: u32, least: u32| a.abs_diff(b) > (a.max(b) / 4).max(least);
        if differs(current.rtt_us, advertised.rtt_us, 1000)
            || differs(current.used_kbps, advertised.used_kbps, (current.capacity_kbps / 20).max(100))
        {
            self.schedule_link_state((self.link_state_sent + self.config.link_state_metric_interval).max(now));
        }
    }
    pub(super) fn schedule_link_state(&mut self, due: Time) {
        self.link_state_due = Some(self.link_state_due.map_or(due, |earlier| earlier.min(due)));
    }
    /// When the next link-state message is due; never while nobody wants it.
    pub(super) fn link_state_time(&self) -> Option<Time> {
        if self.managers.is_empty() {
            return None;
        }
        let refresh = self.link_state_sent + self.config.link_state_refresh;
        Some(self.link_state_due.map_or(refresh, |due| due.min(refresh)))
    }
    pub(super) fn check_link_state(&mut self, now: Time) {
        if self.link_state_time().is_none_or(|due| due > now) {
            return;
        }
        self.link_state_due = None;
        self.link_state_sent = now;
        self.sequence += 1;
        let faces: Vec<FaceId> = self.faces.keys().copied().collect();
        let mut adjacencies = Vec::new();
        for face in faces {
            let adjacency = self.adjacency(face);
            if let Some(state) = self.faces.get_mut(&face) {
                state.advertised = adjacency;
            }
            adjacencies.extend(adjacency);
        }
        adjacencies.truncate(ADJACENCIES_MAX);
        self.link_state_ready = Some(LinkState {
            node: self.config.node,
            boot: self.config.boot,
            sequence: self.sequence,
            term: self.term,
            roles: self.config.roles,
            label: self.config.label.clone(),
            secret: self.config.secret,
            location: self.config.location,
            adjacencies,
        });
    }
}
