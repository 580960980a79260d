//! A fetch's report about its paths, and the coupling of its sub-flows.
use super::*;

impl Transfer {
    // Coupling and reports.

    pub(super) fn couple(&mut self, now: Time) {
        self.coupled_at = now;
        if self.config.coupling == Coupling::Uncoupled {
            return;
        }
        let member = |path: &Path, flow: &Flow| {
            let packet_bytes = f64::from(path.offer.packet_bytes_max.max(1));
            let rtt = flow.rtt.smoothed().map_or(0.1, |rtt| rtt.as_secs_f64().max(1e-6));
            let loss_interval = flow.loss_interval() as f64 / packet_bytes;
            Member { window: (flow.window() as f64 / packet_bytes).max(0.1), rtt, loss_interval }
        };
        let flows: Vec<(PathId, Vec<u16>, Member)> = self
            .paths
            .iter()
            .filter_map(|(id, path)| {
                let flow = path.flow.as_ref().filter(|flow| flow.silent_since().is_none())?;
                Some((*id, path.offer.groups(), member(path, flow)))
            })
            .collect();
        for (id, groups, own) in &flows {
            let sharing =
                flows.iter().filter(|(other, shared, _)| other == id || shared.iter().any(|g| groups.contains(g)));
            let group: Vec<Member> = sharing.map(|(.., member)| *member).collect();
            let growth =
                if groups.is_empty() { Growth::ALONE } else { coupling::growth(self.config.coupling, *own, &group) };
            if let Some(flow) = self.paths.get_mut(id).and_then(|path| path.flow.as_mut()) {
                flow.controller.set_growth(growth);
            }
        }
        let groups: Vec<&[u16]> = flows.iter().map(|(_, groups, _)| &groups[..]).collect();
        let mut models = core::mem::take(&mut self.group_models);
        for together in coupling::components(&groups) {
            let ids: Vec<PathId> = together.iter().map(|index| flows[*index].0).collect();
            if ids.len() < 2 {
                ids.iter().for_each(|id| self.join(*id, GroupPart::default()));
                continue;
            }
            let slowest = together.iter().map(|index| flows[*index].2.rtt).max_by(f64::total_cmp);
            let round_trip = slowest.map_or(Duration::ZERO, Duration::from_secs_f64);
            let of = |id: &PathId| self.paths.get(id).and_then(|path| path.flow.as_ref());
            let settled = ids.iter().all(|id| of(id).is_some_and(|flow| flow.controller.probe_turn().is_some()));
            // The longest path leads, so that a step lasts a round trip for each of them. Its own queue makes no path
            // longer: a sub-flow in a queue has no news for the others.
            let leader = ids.iter().copied().max_by_key(|id| of(id).and_then(|flow| flow.rtt.minimum()));
            let own_turn = leader.and_then(|id| of(&id)?.controller.probe_turn());
            // A sub-flow whose queue suddenly vanishes probes at once, and the others with it.
            let begun = ids.iter().filter_map(|id| of(id)?.controller.probe_turn()).filter(|turn| turn.step == 0);
            let turn =
                own_turn.map(|own| begun.fold(own, |last, turn| if turn.since > last.since { turn } else { last }));
            // The remaining members of a group share the measurements of all its members.
            let is_left = |all: &&Vec<PathId>| ids.iter().all(|id| all.contains(id));
            let known = models.keys().find(is_left).cloned().and_then(|all| models.remove(&all));
            let mut model = known.unwrap_or_default();
            // A sub-flow without packets to request must not claim the rate that it remembers from the others.
            let own_of = |all: bool| -> f64 {
                ids.iter()
                    .filter_map(of)
                    .filter(|flow| all || !flow.is_starved())
                    .map(|flow| flow.controller.own_rate())
                    .sum()
            };
            let (own, own_in_use) = (own_of(true), own_of(false));
            let (mut scales, mut short) = ([1.0; 2], None);
            if settled {
                let delivered = ids.iter().filter_map(of).map(|flow| flow.delivered).sum();
                let starved = ids.iter().filter_map(of).any(Flow::is_starved);
                model.on_delivered(now, delivered, starved, round_trip);
                short = (model.is_short() && !starved).then_some(now);
                scales = [own, own_in_use].map(|own| model.scale(own));
            }
            let yielded_at = ids.iter().filter_map(|id| of(id)?.controller.yielded_at()).max();
            for id in &ids {
                let turn = turn.filter(|_| leader != Some(*id) || turn != own_turn);
                let flow = self.paths.get(id).and_then(|path| path.flow.as_ref());
                let rate = flow.map_or(0.0, |flow| flow.controller.own_rate());
                let (own, scale) =
                    if flow.is_some_and(Flow::is_starved) { (own, scales[0]) } else { (own_in_use, scales[1]) };
                let times = if rate > 0.0 { own / rate } else { ids.len() as f64 };
                self.join(*id, GroupPart { turn, short, scale, times, yielded_at });
            }
            self.group_models.insert(ids, model);
        }
    }
    fn join(&mut self, id: PathId, part: GroupPart) {
        if let Some(flow) = self.paths.get_mut(&id).and_then(|path| path.flow.as_mut()) {
            flow.controller.join(part);
        }
    }
    pub(super) fn path_report(&self, now: Time, id: PathId, path: &Path) -> PathReport {
        let flow = path.flow.as_ref();
        let (state, reason) = match (&path.closed, flow) {
            (Some(reason), _) => (PathState::Closed, reason.clone()),
            (None, None) => (PathState::Idle, "not opened yet".into()),
            (None, Some(flow)) if path.held == Some(Held::Backup) && flow.silent_since().is_none() => {
                (PathState::Idle, Held::Backup.to_string())
            }
            (None, Some(flow)) => match flow.silent_since() {
                Some(since) => {
                    (PathState::Silent, format!("no answer for {:.1} s; probed", now.since(since).as_secs_f64()))
                }
                None if self.record.is_ended() => (PathState::Done, String::new()),
                None if !flow.ever_answered => (PathState::Active, "waits for the first answer".into()),
                None => {
                    (PathState::Active, path.held.map_or_else(|| self.activity(now, flow), |held| held.to_string()))
                }
            },
        };
        PathReport {
            path: id,
            source: path.source,
            label: path.offer.label.clone(),
            face: path.offer.face,
            hops: path.offer.hops,
            groups: path.offer.groups(),
            state,
            reason,
            bytes: path.bytes,
            cached_bytes: path.cached_bytes,
            requested_packets: flow.map_or(0, |flow| flow.requested_packets),
            lost_packets: flow.map_or(0, |flow| flow.lost_packets),
            in_flight_bytes: flow.map_or(0, |flow| flow.in_flight),
            window_bytes: flow.map_or(0, Flow::window),
            rate: flow.map_or_else(Rate::default, |flow| flow.meter.rate(now)),
            rtt: flow.and_then(|flow| flow.rtt.smoothed()),
            rtt_min: flow.and_then(|flow| flow.rtt.minimum()),
        }
    }
    pub(super) fn activity(&self, now: Time, flow: &Flow) -> String {
        if let Some(rate) = self.limit.rate().filter(|_| self.limit.ready_at() > now) {
            return format!("limited to {rate} by request");
        }
        match flow.room(now) {
            0 => flow.controller.phase().into(),
            _ => format!("everything is requested ({})", flow.controller.phase()),
        }
    }
}
