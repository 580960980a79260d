//! What a node reports to the topology managers about its links, and when.
use super::*;

/// Link states without news take at most this fraction (1/`LINK_STATE_PARTS`) of their departure link.
const LINK_STATE_PARTS: u32 = 60;

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
                .or(state.pace.rate())
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
        if differs(current.capacity_kbps, advertised.capacity_kbps, 0) {
            // The first windows of fetches go by it.
            self.schedule_link_state(now + LINK_STATE_DEBOUNCE);
        }
        if differs(current.rtt_us, advertised.rtt_us, 1000)
            || differs(current.used_kbps, advertised.used_kbps, (current.capacity_kbps / 20).max(100))
        {
            let interval = self.link_state_interval(LINK_STATE_METRIC_INTERVAL);
            self.schedule_link_state((self.link_state_sent + interval).max(now));
        }
    }
    /// The time between two link states, which are acknowledged, on the slowest link to a manager: `base`, or as long
    /// as that link requires.
    fn link_state_interval(&self, base: Duration) -> Duration {
        let ways = self.managers.values().filter_map(|manager| manager.best);
        let faces = ways.filter_map(|face| self.faces.get(&face));
        let bytes = self.link_state_bytes();
        let interval = |state: &Face| state.pace.interval(base, bytes, LINK_STATE_PARTS);
        faces.map(interval).max().unwrap_or(base)
    }
    /// About as many bytes as a link state has on the wire.
    fn link_state_bytes(&self) -> usize {
        const FIXED_BYTES: usize = 180;
        const ADJACENCY_BYTES: usize = 36;
        FIXED_BYTES + ADJACENCY_BYTES * self.faces.values().filter(|state| state.up).count()
    }
    pub(super) fn schedule_link_state(&mut self, due: Time) {
        self.link_state_due = Some(self.link_state_due.map_or(due, |earlier| earlier.min(due)));
    }
    /// When the next link-state message is due; never without a manager.
    pub(super) fn link_state_time(&self) -> Option<Time> {
        if self.managers.is_empty() {
            return None;
        }
        let refresh = self.link_state_sent + self.link_state_refresh;
        Some(self.link_state_due.map_or(refresh, |due| due.min(refresh)))
    }
    pub(super) fn check_link_state(&mut self, now: Time) {
        if self.link_state_time().is_none_or(|due| due > now) {
            return;
        }
        self.link_state_due = None;
        self.link_state_sent = now;
        // Managers go by the rhythm of the last ones: it slows down step by step.
        let refresh = self.link_state_interval(LINK_STATE_REFRESH);
        self.link_state_refresh = refresh.min(self.link_state_refresh * 2);
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
