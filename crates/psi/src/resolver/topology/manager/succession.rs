//! Which of several topology managers rules.
use super::*;

/// Another topology manager.
pub(super) struct Rival {
    pub(super) beacon: Beacon,
    pub(super) heard: Time,
    cadence: Cadence,
}

/// Missed beacons after which a manager with longer beacon intervals than usual, as over slow links, counts as dead.
const BEACONS_MISSED: u32 = 5;

impl Rival {
    /// Silence after which it counts as dead.
    pub(super) fn silence(&self) -> Duration {
        (self.cadence.interval(Duration::ZERO) * BEACONS_MISSED).max(MANAGER_SILENCE)
    }
}

impl TopologyManager {
    /// Takes another manager's beacon.
    pub fn handle_beacon(&mut self, now: Time, beacon: &Beacon) {
        if beacon.node == self.config.node {
            return;
        }
        let ours = (self.term, self.config.priority, self.config.node);
        let outdoes = (beacon.term, beacon.priority, beacon.node) > ours;
        match (self.state, beacon.state) {
            (ManagerState::Active, ManagerState::Active) if outdoes => {
                self.state = ManagerState::Standby;
                self.messages.clear();
                self.note(format!(
                    "topology manager {} steps down: {} is active with term {}",
                    self.config.label,
                    beacon.label,
                    successions(beacon.term)
                ));
                self.beacon_due = now;
            }
            // By a rare coincidence it ruled in this very term, and nodes may have taken its routes.
            (ManagerState::Active, _) if beacon.term == self.term => {
                self.reign(now, term_after(self.term, self.config.boot));
            }
            (ManagerState::Standby, _) | (ManagerState::Active, _) => {}
        }
        let mut cadence = self.rivals.get(&beacon.node).map(|rival| rival.cadence).unwrap_or_default();
        cadence.on_message(now);
        let rival = Rival { beacon: beacon.clone(), heard: now, cadence };
        if beacon.state == ManagerState::Active {
            self.last_active = Some((now, rival.silence()));
        }
        self.rivals.insert(beacon.node, rival);
        self.handle_timeout(now);
    }
    /// Takes routes from another manager: they carry the capability keys, which this one keeps using when it takes
    /// over.
    pub fn handle_routes(&mut self, routes: &Routes) {
        let rules = self.state == ManagerState::Active && routes.term <= self.term;
        if routes.manager != self.config.node && !rules {
            self.ring.adopt(&routes.keys);
        }
    }
    /// When a standby may take over without a beacon until then.
    pub(super) fn succession_time(&self, started: Time) -> Time {
        let listened = started + STARTUP_WAIT;
        let leaderless = self.last_active.map_or(listened, |(heard, silence)| (heard + silence).max(listened));
        // Each better standby that answers gets one period for it: it may have heard the active manager later.
        let period = self.last_active.map_or(MANAGER_SILENCE, |(_, silence)| silence);
        let ours = (self.config.priority, self.config.node);
        let better = self.rivals.values().filter(|rival| (rival.beacon.priority, rival.beacon.node) > ours);
        leaderless + better.map(|rival| rival.silence().max(period)).sum::<Duration>()
    }
    pub(super) fn check_succession(&mut self, now: Time, started: Time) {
        if self.state == ManagerState::Standby && self.succession_time(started) <= now {
            let seen = self.rivals.values().map(|rival| rival.beacon.term).max().unwrap_or(0);
            let term = term_after(self.term.max(seen).max(self.domain.term), self.config.boot);
            self.state = ManagerState::Active;
            self.rotation_due = now + CAPABILITY_ROTATION;
            self.note(format!("topology manager {} takes over, term {}", self.config.label, successions(term)));
            if self.change != Change::None {
                drop(self.on_topology());
            }
            self.reign(now, term);
        }
    }
    /// Starts a term: every node gets everything again.
    pub(super) fn reign(&mut self, now: Time, term: u32) {
        self.term = term;
        self.builder.set_bitmap_epoch((successions(term) ^ term) as u8);
        self.builder.on_graph(&self.graph, &BTreeSet::new());
        self.sent_routes.clear();
        for transfer in self.transfers.values_mut() {
            // The sequence continues, so that offers are newer even if the term cannot grow further.
            transfer.last_offered = None;
        }
        self.dirty.extend(self.transfers.keys());
        self.beacon_due = now;
        self.send_beacon(now);
        self.announce_routes(RoutesDue::All);
    }
    pub(super) fn send_beacon(&mut self, now: Time) {
        self.beacon_due = now + BEACON_INTERVAL;
        self.beacon_sequence += 1;
        self.beacons.push_back(Beacon {
            node: self.config.node,
            boot: self.config.boot,
            sequence: self.beacon_sequence,
            term: self.term,
            state: self.state,
            priority: self.config.priority,
            capability_epoch: self.ring.current().epoch,
            label: self.config.label.clone(),
            to_manager: Vec::new(),
            from_manager: Vec::new(),
        });
    }
}
