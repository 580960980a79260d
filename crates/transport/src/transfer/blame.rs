//! Verifies complete units, and finds the faulty node behind one that fails.
//!
//! Wrong bytes incriminate a *path*: the packets that it delivered differ from verified ones. One path does not show
//! whether its source or a node on the way altered them. So the path is closed immediately, and elimination finds the
//! culprit: nodes that carry verified bytes over other paths are cleared, and the one left is named. A source is
//! distrusted only if no other node can be responsible.
use super::*;

/// A node is cleared once it has carried this many times the verified bytes that the bad path had carried before it
/// failed: a node that alters bytes would hardly have passed that number unchanged.
const CLEARING_FACTOR: u64 = 8;
/// The minimum that a bad path is assumed to have carried.
const CARRIED_MIN: u64 = 256 << 10;
/// Maximum packets requested again to heal a cache that holds wrong ones.
const HEAL_PACKETS_MAX: usize = 4096;

/// The finding that bytes of a path from its source were wrong.
#[derive(Clone, Debug)]
pub(super) struct Altered {
    what: String,
    /// Verified bytes that the path had carried until then.
    carried: u64,
    /// Whether the culprit is named.
    settled: bool,
}

/// Who may have changed bytes on a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Party {
    Source(SourceId),
    Forwarder(String),
    /// A node between them that is not in the path's label.
    Unknown,
}

impl Transfer {
    pub(super) fn verify(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        match running.verify(unit) {
            Verdict::Waits => {}
            Verdict::Good => self.on_good(now, unit),
            Verdict::Bad => self.on_bad(now, unit),
        }
    }
    fn on_good(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        let Some(assembly) = running.units.remove(&unit) else { return };
        running.suspects.remove(&unit);
        let (first, _) = running.layout.packets(unit);
        let culprits = assembly.culprits();
        match unit {
            Unit::Tree => {
                let Some(tree) = running.writer.verified_tree(assembly.bytes()) else { return };
                if let Err(error) = running.writer.put_tree(tree) {
                    return self.fail(now, error.to_string());
                }
                self.take_written(now);
                self.blame_all(now, first, culprits);
                let Some(running) = &mut self.running else { return };
                let waiting: Vec<Unit> =
                    running.units.iter().filter(|(_, unit)| unit.is_complete()).map(|(unit, _)| *unit).collect();
                for unit in waiting {
                    self.verify(now, unit);
                }
            }
            Unit::Chunk(index) => {
                let shares: Vec<(Origin, usize)> = assembly.shares().collect();
                if let Err(error) = running.writer.put_chunk(index, assembly.into_buffer()) {
                    return self.fail(now, error.to_string());
                }
                for (origin, bytes) in shares {
                    if origin.cache.is_some() {
                        self.record.cached_bytes += bytes as u64;
                        continue;
                    }
                    let Some(path) = self.paths.get_mut(&origin.path) else { continue };
                    path.verified_bytes += bytes as u64;
                    if let Some(source) = self.sources.get_mut(path.source) {
                        source.bytes += bytes as u64;
                    }
                }
                self.take_written(now);
                self.blame_all(now, first, culprits);
                self.judge(now);
                self.finish_if_complete(now);
            }
        }
    }
    /// Blames the origins whose packets of the unit that starts at packet `first` differ from the verified ones.
    fn blame_all(&mut self, now: Time, first: u32, culprits: BTreeMap<Origin, Vec<u32>>) {
        for (origin, slots) in culprits {
            let packets = slots.into_iter().map(|slot| first + slot).collect();
            self.blame(now, origin, "sent bytes that failed verification", packets);
        }
    }
    /// A unit failed. With a single contributor the faulty one is known; else the unit is fetched again over one path,
    /// past all caches, and the difference shows it.
    fn on_bad(&mut self, now: Time, unit: Unit) {
        let Some(running) = &mut self.running else { return };
        let Some(assembly) = running.units.get_mut(&unit) else { return };
        let (first, end) = running.layout.packets(unit);
        let from_here = assembly.discard(|origin| origin == Origin::HERE);
        if !from_here.is_empty() {
            // The publisher's list of pieces does not fit its chunks.
            from_here.into_iter().for_each(|slot| _ = running.make_idle(first + slot));
            return;
        }
        let contributors: Vec<Origin> = assembly.contributors().into_iter().collect();
        if let [culprit] = contributors[..] {
            assembly.discard(|_| true);
            running.restart(unit);
            let what = match unit {
                Unit::Tree => "sent a hash list that failed verification".into(),
                Unit::Chunk(index) => format!("sent chunk {index} with bytes that failed verification"),
            };
            return self.blame(now, culprit, &what, (first..end).collect());
        }
        assembly.set_aside();
        running.take_out(first, end);
        let mut idle = RangeSet::new();
        idle.insert(first, end);
        // The path that contributed least is the least likely culprit.
        let share = |id: &PathId| contributors.iter().filter(|origin| origin.path == *id).count();
        let next = self.live_paths(now).into_iter().min_by_key(|id| (share(id), *id));
        let Some(running) = &mut self.running else { return };
        let is_of_several_paths = contributors.iter().any(|origin| origin.path != contributors[0].path);
        let is_continued = !(is_of_several_paths && running.suspects.contains_key(&unit));
        running.suspects.insert(unit, Suspect { path: next.unwrap_or_default(), idle, is_continued });
        self.move_suspects(now);
    }
    /// Acts on wrong `packets` from `origin`.
    pub(super) fn blame(&mut self, now: Time, origin: Origin, what: &str, packets: Vec<u32>) {
        if !origin.is_sure {
            return;
        }
        let Some(cache) = origin.cache else { return self.on_altered(now, origin.path, what) };
        let Some(path) = self.paths.get_mut(&origin.path) else { return };
        // The source's answer replaces the wrong packet in every cache on the way.
        path.to_heal.extend(packets);
        path.to_heal.truncate(HEAL_PACKETS_MAX);
        if path.caches == CacheUse::Bypassed {
            return;
        }
        path.caches = CacheUse::Bypassed;
        // A window filled by this node's own cache would leave at once.
        path.flow.iter_mut().for_each(|flow| flow.forget_caches(now));
        let reason = format!("{what} (on path {}, bypassed from now on)", path.offer.label);
        self.record.push(TransferEvent::CacheDistrusted { node: NodeId(u64::from(cache)), reason });
        if let Some(running) = &mut self.running {
            running.discard(|other| other.path == origin.path && other.cache.is_some());
        }
    }

    /// Wrong bytes arrived on a path without a cache's mark: it is closed for good.
    pub(super) fn on_altered(&mut self, now: Time, id: PathId, what: &str) {
        let Some(path) = self.paths.get_mut(&id).filter(|path| path.altered.is_none()) else { return };
        path.altered = Some(Altered { what: what.into(), carried: path.verified_bytes, settled: false });
        let reason = format!("{what}: {} changed them", Self::parties_in_words(&self.sources, &suspects(path)));
        self.close_path(id, reason);
        if let Some(running) = &mut self.running {
            running.discard(|origin| origin.path == id && origin.cache.is_none());
        }
        self.judge(now);
        self.close_unreachable(now);
        self.move_suspects(now);
    }
    /// Names the culprit as soon as only one node can be responsible.
    fn judge(&mut self, now: Time) {
        for id in self.unsettled() {
            let Some((Party::Source(source), what)) = self.verdict(id) else { continue };
            self.settle(id);
            self.distrust(now, source, Evidence::Bytes, what);
        }
        for id in self.unsettled() {
            let Some((Party::Forwarder(label), what)) = self.verdict(id) else { continue };
            self.settle(id);
            self.convict(now, &label, &what);
        }
    }
    fn unsettled(&self) -> Vec<PathId> {
        let is_open = |path: &Path| path.altered.as_ref().is_some_and(|altered| !altered.settled);
        self.paths.iter().filter(|(_, path)| is_open(path)).map(|(id, _)| *id).collect()
    }
    fn settle(&mut self, id: PathId) {
        if let Some(altered) = self.paths.get_mut(&id).and_then(|path| path.altered.as_mut()) {
            altered.settled = true;
        }
    }
    /// The only node that can have altered the bytes of path `id`, if there is just one, and the alteration.
    fn verdict(&self, id: PathId) -> Option<(Party, String)> {
        let bad = self.paths.get(&id)?;
        let altered = bad.altered.as_ref()?;
        let source = Party::Source(bad.source);
        // What only this source's bad paths have in common.
        let of_source = self.paths.values().filter(|path| path.source == bad.source && path.altered.is_some());
        let mut common = suspects(bad);
        let mut count = 0;
        for path in of_source {
            let rest = suspects(path);
            common.retain(|party| rest.contains(party));
            count += 1;
        }
        if common == [source.clone()] {
            let how = if count > 1 { format!(" over {count} ways that meet only at it") } else { String::new() };
            return Some((source, format!("{}{how}", altered.what)));
        }
        let enough = altered.carried.max(CARRIED_MIN) * CLEARING_FACTOR;
        let cleared = |party: &Party| {
            let good = self.paths.values().filter(|path| path.altered.is_none() && suspects(path).contains(party));
            *party != Party::Unknown && good.map(|path| path.verified_bytes).sum::<u64>() >= enough
        };
        let mut left = suspects(bad);
        left.retain(|party| !cleared(party));
        match &left[..] {
            [Party::Source(_)] => {
                Some((source, format!("{}; the nodes between carry other bytes unchanged", altered.what)))
            }
            [Party::Forwarder(label)] => Some((
                Party::Forwarder(label.clone()),
                format!(
                    "packets over {} failed verification, and it is the only one there that could",
                    bad.offer.label
                ),
            )),
            _ => None,
        }
    }
    /// Avoids all paths through a node that changes bytes.
    fn convict(&mut self, now: Time, label: &str, reason: &str) {
        if !self.convicted.insert(label.into()) {
            return;
        }
        self.record.push(TransferEvent::ForwarderDistrusted { label: label.into(), reason: reason.into() });
        let party = Party::Forwarder(label.into());
        let through: Vec<PathId> =
            self.paths.iter().filter(|(_, path)| suspects(path).contains(&party)).map(|(id, _)| *id).collect();
        for id in through {
            self.close_path(id, passes(label));
            if let Some(path) = self.paths.get_mut(&id) {
                path.closed = Some(passes(label));
            }
        }
        self.close_unreachable(now);
    }
    /// Why a path may not be opened, judged by its own record and the nodes on it.
    pub(super) fn is_barred(&self, offer: &PathOffer) -> Option<String> {
        if let Some(path) = self.paths.get(&offer.path).filter(|path| path.altered.is_some()) {
            return path.closed.clone();
        }
        nodes_between(&offer.label).find(|label| self.convicted.contains(*label)).map(passes)
    }
    /// Closes sources to which the network has barred paths only; with the last one the fetch ends.
    pub(super) fn close_unreachable(&mut self, now: Time) {
        let mut closed = Vec::new();
        for (id, source) in self.sources.iter() {
            let mut paths = self.paths.values().filter(|path| path.source == id && path.is_offered).peekable();
            if paths.peek().is_none() || !source.is_usable() {
                continue;
            }
            let barred: Option<Vec<String>> = paths
                .map(|path| self.is_barred(&path.offer).map(|reason| format!("{}: {reason}", path.offer.label)))
                .collect();
            closed.extend(barred.map(|reasons| (id, format!("no path to it can be trusted ({})", reasons.join("; ")))));
        }
        for (id, reason) in closed {
            self.close_source(id, reason);
        }
        self.end_if_hopeless(now);
    }
    fn parties_in_words(sources: &Sources<()>, parties: &[Party]) -> String {
        let word = |party: &Party| match party {
            Party::Source(id) => sources.get(*id).map_or_else(String::new, |source| format!("'{}'", source.label)),
            Party::Forwarder(label) => format!("'{label}'"),
            Party::Unknown => "a node between".into(),
        };
        parties.iter().map(word).collect::<Vec<_>>().join(" or ")
    }

    /// Moves suspect units whose path is gone to another path; ends the fetch if no path is left.
    pub(super) fn move_suspects(&mut self, now: Time) {
        let live = self.live_paths(now);
        let Some(running) = &mut self.running else { return };
        let stranded: Vec<Unit> = running
            .suspects
            .iter()
            .filter(|(_, suspect)| !live.contains(&suspect.path))
            .map(|(unit, _)| *unit)
            .collect();
        let Some(next) = live.first() else { return self.end_if_hopeless(now) };
        for unit in stranded {
            let (first, _) = running.layout.packets(unit);
            let is_continued = running.suspects.get(&unit).is_some_and(|suspect| suspect.is_continued);
            let assembly = running.assembly(unit);
            if !is_continued {
                assembly.discard(|_| true);
            }
            let mut idle = RangeSet::new();
            assembly.missing_slots().for_each(|slot| idle.insert(first + slot, first + slot + 1));
            running.suspects.insert(unit, Suspect { path: *next, idle, is_continued: true });
        }
    }
    /// Open paths that have not been silent for long; all open paths if every one has been.
    fn live_paths(&self, now: Time) -> Vec<PathId> {
        let with = |wanted: &dyn Fn(&Flow) -> bool| -> Vec<PathId> {
            let live = self.paths.iter().filter(|(_, path)| path.flow.as_ref().is_some_and(wanted));
            live.map(|(id, _)| *id).collect()
        };
        let answering = with(&|flow| flow.silent_since().is_none_or(|since| now.since(since) < SUSPECT_PATIENCE));
        if answering.is_empty() { with(&|_| true) } else { answering }
    }
}

fn passes(label: &str) -> String {
    format!("passes '{label}', which changed bytes")
}
/// The nodes between receiver and source that a path's label names.
fn nodes_between(label: &str) -> impl Iterator<Item = &str> {
    let count = label.split('>').count();
    label.split('>').enumerate().filter(move |(index, _)| (1..count.saturating_sub(1)).contains(index)).map(|(_, l)| l)
}
/// Who may have changed bytes on a path: its source and all nodes between.
fn suspects(path: &Path) -> Vec<Party> {
    let mut parties: Vec<Party> =
        nodes_between(&path.offer.label).map(|label| Party::Forwarder(label.into())).collect();
    if parties.is_empty() && path.offer.hops > 1 {
        parties.push(Party::Unknown);
    }
    parties.push(Party::Source(path.source));
    parties
}
