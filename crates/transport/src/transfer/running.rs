//! State that exists once the object is chosen: its store, its idle packets (requested by no path), its units in
//! transit.
use super::*;

/// What exists once the object is chosen.
pub(super) struct Running {
    pub(super) writer: ObjectWriter,
    pub(super) layout: Layout,
    /// Idle packets, hash list and chunks apart because the hash list goes first.
    pub(super) idle_tree: RangeSet,
    pub(super) idle: RangeSet,
    pub(super) units: BTreeMap<Unit, Assembly>,
    /// Units that failed verification, each with the one path that fetches it again.
    pub(super) suspects: BTreeMap<Unit, Suspect>,
    /// Units that are not stored yet at most; chunks on their way to the disk take the room of those that are not complete.
    pub(super) units_max: usize,
    /// The number of chunks on their way to the disk at which the transfer begins no new chunk.
    pub(super) storing_max: usize,
    /// Chunks that one source delivers alone as long as none of their packets is lost.
    pub(super) owners: BTreeMap<Unit, SourceId>,
    /// What sources have that are still fetching the object themselves.
    pub(super) partial: BTreeMap<SourceId, Partial>,
    /// Whether nothing is left to request because the store's readers want nothing more at the moment.
    pub(super) is_held_up: bool,
    /// Whether it was cut into packets before there was any path.
    pub(super) is_cut_by_guess: bool,
}

pub(super) struct Suspect {
    pub(super) path: PathId,
    pub(super) idle: RangeSet,
    /// Whether the next path continues with this one's packets when it closes, instead of restarting the unit. Every
    /// second try may: one path at a time shows which is faulty, but a unit that takes longer than any path lasts would
    /// never be complete.
    pub(super) is_continued: bool,
}

/// What a source has said it has, while it fetches the object itself. Such a source is asked for that, and now and then for
/// one more chunk, which shows whether it has got further.
#[derive(Default)]
pub(super) struct Partial {
    /// Its chunks, if it lists them.
    pub(super) held: Option<Vec<Range<u32>>>,
    /// Chunks that it does not have.
    pub(super) lacking: BTreeSet<u32>,
    /// When it may be asked for something else.
    pub(super) ask_at: Time,
    /// How long it is left alone after a refusal.
    pause: Duration,
    /// What it was asked for since, without refusing it.
    pub(super) tried: Option<Unit>,
    /// How often it has refused a chunk that it had listed, since it last delivered one.
    broken_promises: u32,
}
impl Partial {
    /// Takes note of a refusal; `held` replaces the list, if there is one.
    fn refuse(&mut self, chunk: Option<u32>, held: Option<Vec<Range<u32>>>) {
        let lists = |held: &Vec<Range<u32>>, chunk: u32| held.iter().any(|range| range.contains(&chunk));
        if chunk.is_some_and(|chunk| self.held.as_ref().is_some_and(|held| lists(held, chunk))) {
            self.broken_promises += 1;
        }
        if held.is_some() {
            // The list is newer than what was said of single chunks.
            self.lacking.clear();
            self.held = held;
        }
        self.lacking.extend(chunk);
    }
    fn has(&self, unit: Unit) -> bool {
        let Some(ChunkIndex(index)) = Layout::chunk_of(unit) else { return true };
        let is_held = |held: &Vec<Range<u32>>| held.iter().any(|range| range.contains(&index));
        self.tried == Some(unit) || !self.lacking.contains(&index) && self.held.as_ref().is_none_or(is_held)
    }
}

pub(super) enum Put {
    Kept,
    Duplicate,
    Completed(Unit),
}

pub(super) enum Verdict {
    Good,
    Bad,
    /// A chunk that is complete before the hash list is.
    Waits,
}

impl Running {
    /// Whether the fetch waits for readers: they have all that they want at the moment, or its end has yet to be noticed.
    pub(super) fn awaits_reader(&self) -> bool {
        self.is_held_up || self.writer.wanted().is_some() && self.writer.has_all_wanted()
    }
    /// Takes notice of what the store's readers want now. Incomplete chunks that are not wanted any more give up their
    /// room, unless the rest of them is in flight already.
    pub(super) fn refresh_wishes(&mut self) {
        if self.writer.wanted().is_none() {
            return;
        }
        self.writer.refresh_wishes();
        let (writer, layout, idle, suspects) = (&self.writer, &self.layout, &self.idle, &self.suspects);
        let is_given_up = |unit: &Unit| {
            let (first, end) = layout.packets(*unit);
            let has_idle = idle.range_from(first).is_some_and(|(next, _)| next < end);
            has_idle && !suspects.contains_key(unit) && !is_wanted(writer, *unit)
        };
        let given_up: Vec<Unit> = self.units.keys().copied().filter(is_given_up).collect();
        for unit in given_up {
            self.units.remove(&unit);
            self.owners.remove(&unit);
            let (first, end) = self.layout.packets(unit);
            self.idle.insert(first, end);
        }
    }
    /// Releases the store and all unverified packets.
    pub(super) fn close(&mut self) {
        self.units.clear();
        self.writer.close();
    }
    pub(super) fn put(&mut self, packet: u32, payload: &[u8], origin: Origin) -> Put {
        let Some((unit, offset, _)) = self.layout.locate(packet) else { return Put::Duplicate };
        if self.is_stored(unit) || !self.units.contains_key(&unit) && !is_wanted(&self.writer, unit) {
            return Put::Duplicate;
        }
        if let Some(suspect) = self.suspects.get_mut(&unit) {
            if suspect.path != origin.path {
                return Put::Duplicate;
            }
            suspect.idle.remove(packet, packet + 1);
        } else {
            // It may be idle although it arrived: declared lost too early, or requested by a probe.
            self.take_out(packet, packet + 1);
        }
        let assembly = self.assembly(unit);
        if assembly.is_complete() || !assembly.put(offset as usize, payload, origin) {
            return Put::Duplicate;
        }
        if assembly.is_complete() { Put::Completed(unit) } else { Put::Kept }
    }
    pub(super) fn assembly(&mut self, unit: Unit) -> &mut Assembly {
        let (writer, layout) = (&mut self.writer, &self.layout);
        self.units.entry(unit).or_insert_with(|| {
            Assembly::new(writer.buffer(), layout.unit_bytes(unit) as usize, usize::from(layout.packet_bytes()))
        })
    }
    pub(super) fn is_stored(&self, unit: Unit) -> bool {
        match unit {
            Unit::Tree => self.writer.has_tree(),
            Unit::Chunk(index) => self.writer.is_verified(index),
        }
    }
    /// Whether a packet has not arrived yet.
    pub(super) fn misses(&self, packet: u32) -> bool {
        self.layout.locate(packet).is_some_and(|(unit, offset, _)| {
            let missing = |assembly: &Assembly| !assembly.has(offset as usize);
            !self.is_stored(unit) && self.units.get(&unit).is_none_or(missing)
        })
    }
    /// Whether a packet is of use from anyone.
    pub(super) fn wants(&self, packet: u32) -> bool {
        let is_open = |unit: Unit| !self.suspects.contains_key(&unit) && is_wanted(&self.writer, unit);
        self.misses(packet) && self.layout.locate(packet).is_some_and(|(unit, ..)| is_open(unit))
    }
    /// Chunks of an earlier fetch do not match the hash list: they are requested again.
    pub(super) fn on_dropped(&mut self, chunks: &[u32]) {
        for index in chunks {
            let (first, end) = self.layout.packets(Unit::Chunk(*index));
            self.idle.insert(first, end);
        }
    }
    pub(super) fn verify(&self, unit: Unit) -> Verdict {
        // Blame for one unit may have removed packets from others that were complete until then.
        let complete = self.units.get(&unit).filter(|assembly| assembly.is_complete());
        let Some(assembly) = complete else { return Verdict::Waits };
        let good = match unit {
            Unit::Tree => Some(self.writer.verified_tree(assembly.bytes()).is_some()),
            Unit::Chunk(index) => self.writer.verify_chunk(index, assembly.bytes()),
        };
        match good {
            Some(true) => Verdict::Good,
            Some(false) => Verdict::Bad,
            None => Verdict::Waits,
        }
    }
    /// Makes a packet idle again; false if it is of no use any more.
    pub(super) fn make_idle(&mut self, packet: u32) -> bool {
        let Some((unit, ..)) = self.layout.locate(packet).filter(|_| self.misses(packet)) else { return false };
        // Any source may deliver a lost packet.
        self.owners.remove(&unit);
        match self.suspects.get_mut(&unit) {
            Some(suspect) => suspect.idle.insert(packet, packet + 1),
            None => self.idle_of(unit).insert(packet, packet + 1),
        }
        true
    }
    /// Takes a packet out of the idle ones, because the answer to an earlier request for it is awaited again; false if it
    /// was not idle. Those of a suspect unit stay idle: only answers over the path that it is requested by now count.
    pub(super) fn reclaim(&mut self, packet: u32) -> bool {
        let Some((unit, ..)) = self.layout.locate(packet) else { return false };
        if self.suspects.contains_key(&unit) {
            return false;
        }
        let idle = self.idle_of(unit);
        let is_idle = idle.len_between(packet, packet + 1) > 0;
        idle.remove(packet, packet + 1);
        is_idle
    }
    /// Payload of the idle packets that are wanted.
    pub(super) fn idle_bytes(&self) -> u64 {
        let idle = match self.writer.wanted() {
            None => self.idle.len(),
            Some(wanted) => {
                let windows = wanted.windows.iter().map(|window| self.packets_of(window));
                windows.map(|(first, end)| self.idle.len_between(first, end)).sum()
            }
        };
        (idle + self.idle_tree.len()) * u64::from(self.layout.packet_bytes())
    }
    /// The packets of a window of chunks, as first number and number after the last.
    fn packets_of(&self, window: &Range<u32>) -> (u32, u32) {
        let end = window.end.min(self.layout.chunks());
        if window.start >= end {
            return (0, 0);
        }
        (self.layout.packets(Unit::Chunk(window.start)).0, self.layout.packets(Unit::Chunk(end - 1)).1)
    }
    /// The next wanted idle packets that `fits`, most urgent first: first number and number after the last.
    fn next_idle(&self, fits: impl Fn(Unit) -> bool) -> Option<(u32, u32)> {
        let all = 0..self.layout.chunks();
        let windows = self.writer.wanted().map_or(core::slice::from_ref(&all), |wanted| &wanted.windows);
        windows.iter().find_map(|window| {
            let (mut from, end) = self.packets_of(window);
            loop {
                let (first, stop) = self.idle.range_from(from).filter(|(first, _)| *first < end)?;
                let (unit, ..) = self.layout.locate(first)?;
                if fits(unit) {
                    return Some((first, stop.min(end)));
                }
                from = self.layout.packets(unit).1;
            }
        })
    }
    pub(super) fn idle_of(&mut self, unit: Unit) -> &mut RangeSet {
        if unit == Unit::Tree { &mut self.idle_tree } else { &mut self.idle }
    }
    pub(super) fn take_out(&mut self, first: u32, end: u32) {
        let set = if first >= TREE_PACKET_FIRST { &mut self.idle_tree } else { &mut self.idle };
        if set.first_range().is_some_and(|(lowest, _)| lowest < end) {
            set.remove(first, end);
        }
    }
    /// Makes all packets of a unit idle.
    pub(super) fn restart(&mut self, unit: Unit) {
        let (first, end) = self.layout.packets(unit);
        match self.suspects.get_mut(&unit) {
            Some(suspect) => suspect.idle.insert(first, end),
            None => self.idle_of(unit).insert(first, end),
        }
    }
    /// Drops what `unwanted` origins sent of unverified units, and makes it idle again. A suspect unit is cleared
    /// together with the packets that caused the suspicion.
    pub(super) fn discard(&mut self, unwanted: impl Fn(Origin) -> bool) {
        let units: Vec<Unit> = self.units.keys().copied().collect();
        for unit in units {
            let Some(assembly) = self.units.get_mut(&unit) else { continue };
            let suspected = assembly.failed.as_ref();
            let relieved =
                suspected.is_some_and(|(_, origins)| origins.iter().flatten().any(|origin| unwanted(*origin)));
            if relieved {
                assembly.take_back();
                self.suspects.remove(&unit);
            }
            let (first, _) = self.layout.packets(unit);
            let slots = assembly.discard(&unwanted);
            for slot in slots {
                self.make_idle(first + slot);
            }
        }
    }
    /// Up to `max` idle packets, most urgent first and then ascending, hash list first; none of units that would exceed
    /// the assembly, or that the store does not want.
    ///
    /// With an `owner`, what is left of its own chunks goes first, then chunks that nobody owns, then any: sources read
    /// and hash whole chunks, and so each does that for its own ones only. (Paper §III-C: ascending, whoever is asked.)
    pub(super) fn take_idle(&mut self, max: u32, mut owner: Option<SourceId>, (from, now): (SourceId, Time)) -> Ranges {
        let mut ranges = Ranges::new();
        let mut left = max;
        self.is_held_up = false;
        self.refresh_wishes();
        while left > 0 && ranges.len() < REQUEST_RANGES_MAX {
            let tree = !self.idle_tree.is_empty();
            let next = match owner {
                _ if tree => self.idle_tree.first_range(),
                Some(owner) => self.next_of(owner),
                None => self.next_idle(|unit| self.has(from, unit)),
            };
            let next = next.or_else(|| self.next_try(from, now));
            let Some((first, end)) = next else {
                self.is_held_up = ranges.is_empty() && !self.idle.is_empty() && !self.partial.contains_key(&from);
                break;
            };
            let Some((unit, ..)) = self.layout.locate(first) else { break };
            let is_full =
                self.units.len() + self.writer.storing() >= self.units_max || self.writer.storing() >= self.storing_max;
            if !tree && !self.units.contains_key(&unit) && is_full {
                if owner.take().is_some() {
                    continue;
                }
                break;
            }
            let end = end.min(self.layout.packets(unit).1).min(first + left);
            self.take_out(first, end);
            self.assembly(unit);
            if let Some(owner) = owner.filter(|_| !tree) {
                self.owners.entry(unit).or_insert(owner);
            }
            left -= end - first;
            match ranges.last_mut() {
                Some((start, count)) if *start + u32::from(*count) == first => *count += (end - first) as u8,
                _ => ranges.push((first, (end - first) as u8)),
            }
        }
        ranges
    }
    /// The next idle packets for a source that owns chunks.
    fn next_of(&mut self, owner: SourceId) -> Option<(u32, u32)> {
        let units = &self.units;
        self.owners.retain(|unit, _| units.contains_key(unit));
        let own = self.owners.iter().filter(|(_, other)| **other == owner).find_map(|(unit, _)| {
            let (first, end) = self.layout.packets(*unit);
            self.idle.range_from(first).filter(|(next, _)| *next < end && self.has(owner, *unit))
        });
        // Each step passes a chunk that somebody owns, and those are few.
        let is_free = |unit| !self.owners.contains_key(&unit) && self.has(owner, unit);
        own.or_else(|| self.next_idle(is_free)).or_else(|| self.next_idle(|unit| self.has(owner, unit)))
    }
    /// Whether a source has a unit, as far as it has said.
    pub(super) fn has(&self, source: SourceId, unit: Unit) -> bool {
        self.partial.get(&source).is_none_or(|partial| partial.has(unit))
    }
    /// What a source that lacked everything else is asked for, to see whether it has it by now.
    fn next_try(&mut self, source: SourceId, now: Time) -> Option<(u32, u32)> {
        let partial = self.partial.get(&source).filter(|partial| partial.ask_at <= now)?;
        if partial.tried.is_some() {
            // It has not refused what it was asked for: what it said is out of date.
            self.partial.remove(&source);
            return self.next_idle(|_| true);
        }
        let next = self.next_idle(|_| true)?;
        let (unit, ..) = self.layout.locate(next.0)?;
        let partial = self.partial.get_mut(&source)?;
        (partial.tried, partial.ask_at) = (Some(unit), now + partial.pause);
        Some(next)
    }
    /// A source lacks a chunk, of which it was asked for `packets`, `round_trip` away; `held` is what it has, if it says so. False if it has
    /// refused too often what it had listed: then it is of no use.
    pub(super) fn on_not_yet(
        &mut self,
        now: Time,
        source: SourceId,
        unit: Unit,
        held: Option<Vec<Range<u32>>>,
        (packets, round_trip): (&[u32], Duration),
    ) -> bool {
        let partial = self.partial.entry(source).or_default();
        partial.refuse(Layout::chunk_of(unit).map(|ChunkIndex(index)| index), held);
        partial.pause = NOT_YET_PAUSE.max(round_trip * 2);
        (partial.tried, partial.ask_at) = (None, now + partial.pause);
        let is_useful = partial.broken_promises < BROKEN_PROMISES_MAX;
        for packet in packets {
            self.make_idle(*packet);
        }
        is_useful
    }
    /// A source has delivered the last packet of a unit.
    pub(super) fn on_delivery(&mut self, source: SourceId) {
        self.partial.entry(source).and_modify(|partial| partial.broken_promises = 0);
    }
    /// When, after `now`, a source may be asked for something that it has not had so far.
    pub(super) fn next_try_at(&self, now: Time) -> Option<Time> {
        if self.idle.is_empty() {
            return None;
        }
        next_after(self.partial.values(), now)
    }
    /// Up to `max` packets that may be asked for over `path` only.
    pub(super) fn take_suspect(&mut self, path: PathId, max: u32) -> Option<Ranges> {
        let suspect = self.suspects.values_mut().find(|suspect| suspect.path == path && !suspect.idle.is_empty())?;
        let (first, end) = suspect.idle.first_range()?;
        let end = end.min(first + max);
        suspect.idle.remove(first, end);
        Some(Ranges::from([(first, (end - first) as u8)]))
    }
    /// One packet that is of use, without claiming it: what a silent path is probed with.
    pub(super) fn probe(&self) -> Ranges {
        let idle = self.idle_tree.first_range().or_else(|| self.next_idle(|_| true)).map(|(first, _)| first);
        let open = || {
            self.units.keys().find_map(|unit| {
                let (first, end) = self.layout.packets(*unit);
                (first..end).find(|packet| self.misses(*packet))
            })
        };
        idle.or_else(open).map(|packet| Ranges::from([(packet, 1)])).unwrap_or_default()
    }
}

/// How long a source that lacks everything else is not asked again, at least: two round trips, so that what it was asked for
/// can come or be refused before.
const NOT_YET_PAUSE: Duration = Duration::from_millis(150);
/// How often a source may refuse a chunk that it had listed. A few times that is chance: answers overtake each other, and a
/// chunk may be dropped that failed its check.
const BROKEN_PROMISES_MAX: u32 = 32;

/// When the first of these sources may be asked after `now`. One whose time is past was left alone for another reason, and
/// must not hide those that come.
fn next_after<'a>(sources: impl Iterator<Item = &'a Partial>, now: Time) -> Option<Time> {
    sources.map(|partial| partial.ask_at).filter(|at| *at > now).min()
}

/// Whether the store wants a unit.
fn is_wanted(writer: &ObjectWriter, unit: Unit) -> bool {
    Layout::chunk_of(unit).is_none_or(|index| writer.is_wanted(index.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_whose_time_is_past_hides_none_that_may_be_asked_later() {
        let at = |ms| Partial { ask_at: Time::from_millis(ms), ..Partial::default() };
        let sources = [at(10), at(300), at(200)];
        assert_eq!(next_after(sources.iter(), Time::from_millis(100)), Some(Time::from_millis(200)));
        assert_eq!(next_after(sources.iter(), Time::from_millis(300)), None);
    }

    #[test]
    fn refusals_of_what_a_source_had_listed_are_counted_whatever_it_lists_next() {
        let mut source = Partial::default();
        let list = |first: u32| Some(core::iter::once(first..first + 2).collect());
        source.refuse(Some(0), list(0));
        assert_eq!(source.broken_promises, 0, "it had said nothing yet");
        source.refuse(Some(9), list(0));
        assert_eq!(source.broken_promises, 0, "it had not listed that");
        source.refuse(Some(1), list(4));
        source.refuse(Some(5), list(5));
        assert_eq!(source.broken_promises, 2);
        assert!(!source.has(Unit::Chunk(5)) && source.has(Unit::Chunk(6)));
    }
}
