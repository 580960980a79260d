//! What the policies of faces and the demands of a fetch make of its paths.
use super::*;
use crate::policy::Faces;

impl Transfer {
    /// Takes the policies of the node's faces, if they have changed.
    pub fn note_rules(&mut self, now: Time, faces: &Faces) {
        if self.rules_version != faces.version {
            (self.rules, self.rules_version) = (faces.rules(), faces.version);
            self.apply_rules(now);
        }
    }
    /// Closes paths that the policy now excludes, and opens those that it allows again.
    pub(super) fn apply_rules(&mut self, now: Time) {
        let bars = |path: &Path| self.rules.bars(path.offer.face, &self.demands);
        let left_out = self.paths.iter().filter(|(_, path)| path.closed.is_none() || path.is_left_out);
        let left_out: Vec<_> = left_out.filter_map(|(id, path)| Some((*id, bars(path)?))).collect();
        let is_back = |path: &&Path| path.is_left_out && path.is_offered && bars(path).is_none();
        let back = self.paths.values().filter(is_back);
        let back = back.filter(|path| self.sources.get(path.source).is_some_and(|source| source.is_usable()));
        let back: Vec<_> = back.map(|path| (path.source, path.offer.clone())).collect();
        left_out.into_iter().for_each(|(id, reason)| self.leave_out(id, reason));
        if back.is_empty() {
            return;
        }
        let offered = self.paths.values().filter(|path| path.is_offered);
        let offered: Vec<_> = offered.map(|path| (path.source, path.offer.clone())).collect();
        back.into_iter().for_each(|(source, offer)| self.add_path(now, source, offer, &offered));
        self.couple(now);
    }
    /// Closes a path because of its face. Its packets go to other paths.
    pub(super) fn leave_out(&mut self, id: PathId, reason: String) {
        self.close_path(id, reason.clone());
        if let Some(path) = self.paths.get_mut(&id) {
            // Another rule may be the reason by now.
            (path.is_left_out, path.held, path.closed) = (true, None, Some(reason));
        }
    }
    /// Why no path may be used, if that is because of their faces alone.
    pub(super) fn why_all_are_left_out(&self) -> Option<String> {
        let mut offered = self.paths.values().filter(|path| path.is_offered).peekable();
        offered.peek()?;
        let reasons: Option<BTreeSet<&str>> =
            offered.map(|path| path.closed.as_deref().filter(|_| path.is_left_out)).collect();
        reasons.map(|reasons| reasons.into_iter().collect::<Vec<_>>().join("; "))
    }
    /// The next request, from the cheapest paths with open windows.
    pub(super) fn request_by_rank(&mut self, now: Time, faces: &Faces) -> Option<PacketRequest> {
        self.hold_paths(now, faces);
        let ranks: BTreeSet<Rank> = self.paths.values().map(|path| self.rules.rank(path.offer.face)).collect();
        ranks.into_iter().find_map(|rank| self.request_in_turn(now, Some(rank)))
    }
    /// Determines which paths may be used at `now`. A held path sends no requests, except that a silent one is still
    /// probed.
    fn hold_paths(&mut self, now: Time, faces: &Faces) {
        let is_backup = |path: &Path| self.rules.rank(path.offer.face).is_backup;
        let answers = |path: &Path| path.flow.as_ref().is_some_and(|flow| flow.silent_since().is_none());
        let has_other = self.paths.values().any(|path| !is_backup(path) && answers(path));
        let mut held_until = None;
        for path in self.paths.values_mut() {
            let Some(flow) = &mut path.flow else { continue };
            let backup = (has_other && self.rules.rank(path.offer.face).is_backup).then_some(Held::Backup);
            let by_face = path.offer.face.and_then(|face| faces.held(now, face, self.demands.priority));
            path.held = backup.or(by_face.map(|(held, _)| held));
            if path.held.is_some() {
                flow.on_starved();
            }
            if let (None, Some((_, until))) = (backup, by_face) {
                held_until = earlier(held_until, Some(until));
            }
        }
        self.held_until = held_until;
    }
    /// Whether a path may send requests now: it has this rank, and is not held, or is silent and probed.
    pub(super) fn is_due(&self, id: PathId, rank: Option<Rank>) -> bool {
        let Some(rank) = rank else { return true };
        let Some(path) = self.paths.get(&id) else { return false };
        let is_silent = || path.flow.as_ref().is_some_and(|flow| flow.silent_since().is_some());
        self.rules.rank(path.offer.face) == rank && (path.held.is_none() || is_silent())
    }
    /// Counts a request for its face.
    pub(super) fn note_request(&mut self, now: Time, id: PathId, bytes: u64, faces: &mut Faces) {
        let Some(path) = self.paths.get(&id).filter(|_| !faces.is_plain()) else { return };
        let (Some(face), Some(flow)) = (path.offer.face, &path.flow) else { return };
        let fills = (!flow.is_starved()).then(|| flow.rtt.smoothed().unwrap_or_default());
        faces.on_request(now, face, bytes, self.demands.priority, fills);
    }
}
