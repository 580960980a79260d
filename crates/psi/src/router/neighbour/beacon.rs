//! The flood of beacons, by which every node learns a route to each topology manager and one back.
use super::*;

pub(super) struct Manager {
    pub(super) beacon: Beacon,
    pub(super) retired: Option<u64>,
    pub(super) heard: Time,
    /// Routes by face of arrival: sequence, to the manager, from it. The face that was first is `best`.
    pub(super) routes: BTreeMap<FaceId, Learnt>,
    pub(super) best: Option<FaceId>,
    /// Whether it is on this node.
    pub(super) own: bool,
    /// The interval of its beacons.
    pub(super) cadence: Cadence,
}

/// Beacons of one manager take at most this fraction (1/`BEACON_PARTS`) of a link.
const BEACON_PARTS: u32 = 100;
/// The time between them from which it grows.
const BEACON_INTERVAL_FIRST: Duration = Duration::from_millis(500);
/// Tolerated missed beacons of a manager with longer intervals than usual.
const BEACON_MISSES: u32 = 5;

impl Manager {
    /// Silence after which it is forgotten.
    pub(super) fn timeout(&self) -> Duration {
        self.cadence.interval(MANAGER_TIMEOUT / BEACON_MISSES) * BEACON_MISSES
    }
    /// The last beacon on the best path, and that path; `None` if no path is left.
    pub(super) fn latest(&self) -> Option<(Beacon, Option<FaceId>)> {
        let Some(best) = self.best else {
            return self.own.then(|| (self.beacon.clone(), None));
        };
        let learnt = self.routes.get(&best)?;
        let mut beacon = self.beacon.clone();
        beacon.sequence = learnt.sequence;
        beacon.to_manager = learnt.to.iter().skip(1).copied().collect();
        beacon.from_manager = learnt.from.split_last()?.1.into();
        Some((beacon, Some(best)))
    }
    /// A face is down: of the other paths the newest is the best.
    pub(super) fn forget_way(&mut self, face: FaceId) {
        self.routes.remove(&face);
        if self.best == Some(face) {
            self.best = self.routes.iter().max_by_key(|(_, learnt)| learnt.sequence).map(|(face, _)| *face);
        }
    }
}

pub(super) struct Learnt {
    sequence: u32,
    to: Vec<ListLabel>,
    from: Vec<ListLabel>,
}

impl Neighbour {
    pub(super) fn on_beacon(&mut self, now: Time, face: FaceId, beacon: Beacon) -> Result<(), &'static str> {
        if !self.is_up(face) {
            return Err("beacon over a face that is not up");
        }
        if beacon.node == self.config.node {
            return Ok(());
        }
        if beacon.to_manager.len() >= BEACON_LABELS_MAX || beacon.from_manager.len() >= BEACON_LABELS_MAX {
            return Err("beacon came too far");
        }
        // A copy that passed this node before offers no new path.
        let own = self.faces.keys().any(|face| beacon.from_manager.contains(&self.key.list(Port::Face(*face))));
        if own {
            return Ok(());
        }
        let known = self.managers.get(&beacon.node);
        if known.is_none() && self.managers.len() >= self.config.managers_max {
            return Err("too many topology managers");
        }
        let restarted = known.is_none_or(|manager| manager.beacon.boot != beacon.boot);
        let retired = match known {
            Some(manager) if restarted => Some(manager.beacon.boot),
            Some(manager) => manager.retired,
            None => None,
        };
        let changed = restarted
            || known.is_some_and(|known| (known.beacon.state, known.beacon.term) != (beacon.state, beacon.term));
        let learnt = Learnt {
            sequence: beacon.sequence,
            to: [&[self.key.list(Port::Face(face))], &beacon.to_manager[..]].concat(),
            from: [&beacon.from_manager[..], &[self.key.list(Port::Local)]].concat(),
        };
        if let Some(manager) = self.managers.get_mut(&beacon.node) {
            if manager.retired == Some(beacon.boot) {
                return Ok(());
            }
            if !restarted && beacon.sequence <= manager.beacon.sequence {
                if beacon.sequence == manager.beacon.sequence {
                    manager.routes.insert(face, learnt);
                }
                return Ok(());
            }
        }
        if changed && beacon.state == ManagerState::Active {
            self.events.push_back(Event::Note(format!(
                "topology manager {} is active, term {}",
                beacon.label,
                successions(beacon.term)
            )));
        }
        self.see_term(beacon.term);
        self.pass_on_beacon(now, face, &beacon);
        self.beacons.push_back(beacon.clone());
        let node = beacon.node;
        let manager = self.managers.entry(node).or_insert_with(|| Manager {
            beacon: beacon.clone(),
            retired,
            heard: now,
            routes: BTreeMap::new(),
            best: None,
            own: false,
            cadence: Cadence::default(),
        });
        if restarted {
            manager.routes.clear();
        }
        manager.retired = retired;
        manager.heard = now;
        manager.cadence.on_message(now);
        // Over a slow link only some of the beacons arrive.
        let skipped = beacon.sequence.saturating_sub(manager.beacon.sequence).max(1);
        manager.best = Some(face);
        manager.routes.insert(face, learnt);
        // Routes that the last beacons did not confirm may have ended.
        let kept = skipped.saturating_mul(2);
        manager.routes.retain(|_, learnt| learnt.sequence.saturating_add(kept) >= beacon.sequence);
        manager.beacon = beacon;
        if restarted {
            self.schedule_link_state(now);
        }
        Ok(())
    }
    pub(super) fn remember_own(&mut self, now: Time, beacon: Beacon) {
        self.see_term(beacon.term);
        let new = !self.managers.contains_key(&beacon.node);
        self.managers.insert(
            beacon.node,
            Manager {
                beacon,
                retired: None,
                heard: now,
                routes: BTreeMap::new(),
                best: None,
                own: true,
                cadence: Cadence::default(),
            },
        );
        if new {
            self.schedule_link_state(now);
        }
    }
    /// Forwards a beacon from `arrived` over all other faces.
    fn pass_on_beacon(&mut self, now: Time, arrived: FaceId, beacon: &Beacon) {
        // Neighbours drop beacons that non-routers pass on.
        if self.trust.as_ref().is_some_and(|trust| !trust.is_router()) {
            return;
        }
        let others = self.faces.iter().filter(|(other, state)| state.up && **other != arrived);
        for other in others.map(|(face, _)| *face).collect::<Vec<_>>() {
            self.send_beacon(now, other, beacon, Some(arrived));
        }
    }
    /// Forwards a beacon over `face`. `arrived` is its arrival face; `None` if it is this node's own.
    pub(super) fn send_beacon(&mut self, now: Time, face: FaceId, beacon: &Beacon, arrived: Option<FaceId>) {
        let mut beacon = beacon.clone();
        if let Some(arrived) = arrived {
            beacon.to_manager.insert(0, self.key.list(Port::Face(arrived)));
        } else if beacon.node != self.config.node {
            return;
        }
        beacon.from_manager.push(self.key.list(Port::Face(face)));
        if beacon.to_manager.len() >= BEACON_LABELS_MAX || beacon.from_manager.len() >= BEACON_LABELS_MAX {
            return;
        }
        let mut packet = Vec::new();
        Header { packet_type: PacketType::Beacon, flags: 0, ttl: 1, fid: Fid::NONE }.encode(&mut packet);
        let start = packet.len();
        match &mut self.trust {
            Some(trust) => {
                if !trust.write(&beacon, arrived.is_none(), now, &mut packet) {
                    return;
                }
            }
            None => beacon.encode(&mut packet),
        }
        seal(&OPEN_KEY, &mut packet, start);
        if self.is_beacon_due(now, face, &beacon, packet.len()) {
            self.packets.push_back((face, packet));
        }
    }
    /// Whether to send a beacon of `bytes` over `face` now: always if it carries news, otherwise as often as the link
    /// can bear.
    fn is_beacon_due(&mut self, now: Time, face: FaceId, beacon: &Beacon, bytes: usize) -> bool {
        let Some(state) = self.faces.get_mut(&face) else { return false };
        let target = state.pace.interval(Duration::ZERO, bytes, BEACON_PARTS);
        let what = (beacon.boot, beacon.term, beacon.state);
        let (known, ramp) = state.beacons.entry(beacon.node).or_insert((what, Ramp::default()));
        if core::mem::replace(known, what) == what && !ramp.is_due(now) {
            return false;
        }
        ramp.on_sent(now, BEACON_INTERVAL_FIRST.min(target), target);
        while state.beacons.len() > self.config.managers_max {
            state.beacons.pop_first();
        }
        true
    }
    pub(super) fn manager_info<'a>(&self, node: NodeId, manager: &'a Manager) -> Option<ManagerInfo<'a>> {
        let (to, back) = if node == self.config.node {
            let local = list_fid(&[self.key.list(Port::Local)]);
            (local, local)
        } else {
            let learnt = manager.routes.get(&manager.best?)?;
            (list_fid(&learnt.to), list_fid(&learnt.from))
        };
        let key = self.trust.as_ref().and_then(|trust| Some(trust.proofs.get(&node)?.grant.key));
        Some(ManagerInfo { beacon: &manager.beacon, to, back, key })
    }
    pub(super) fn forget_silent_managers(&mut self, now: Time) {
        let own = self.config.node;
        let events = &mut self.events;
        self.managers.retain(|node, manager| {
            let keep = manager.heard + manager.timeout() > now || *node == own;
            if !keep {
                events.push_back(Event::Note(format!("topology manager {} is silent", manager.beacon.label)));
            }
            keep
        });
    }
}
