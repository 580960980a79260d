//! State that exists once the object is chosen: its store, its idle packets (requested by no path), its units in
//! transit.
use super::*;

/// The state after the choice of the object.
pub(super) struct Running {
    pub(super) writer: ObjectWriter,
    pub(super) layout: Layout,
    /// Idle packets; the hash list's are separate because they go first.
    pub(super) idle_tree: RangeSet,
    pub(super) idle: RangeSet,
    pub(super) units: BTreeMap<Unit, Assembly>,
    /// Local bytes of chunks that were not requested yet.
    pub(super) parts: BTreeMap<u32, ChunkPart>,
    /// Units that failed verification, each with the one path that fetches it again.
    pub(super) suspects: BTreeMap<Unit, Suspect>,
    /// Maximum unfinished units; chunks that wait for the disk count against it like incomplete ones.
    pub(super) units_max: usize,
    /// The number of chunks waiting for the disk at which the transfer starts no new chunk.
    pub(super) storing_max: usize,
    /// Chunks that one source delivers alone until one of their packets is lost.
    pub(super) owners: BTreeMap<Unit, SourceId>,
    /// Sources that are still fetching the object themselves.
    pub(super) partials: Partials,
    /// The chunk last requested from a complete source while partial sources existed.
    pub(super) rare_at: Option<u32>,
    /// Whether nothing is left to request because the store's readers want nothing more now.
    pub(super) is_held_up: bool,
    /// Whether it was cut into packets before there was any path.
    pub(super) is_cut_by_guess: bool,
}

pub(super) struct Suspect {
    pub(super) path: PathId,
    pub(super) idle: RangeSet,
    /// Whether the next path continues with this one's packets when it closes, instead of restarting the unit. Every
    /// second try may: one path at a time shows which is faulty, but a unit that outlasts every path would never be
    /// complete.
    pub(super) is_continued: bool,
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
    /// Whether the fetch waits for readers: they have every chunk that they want now, or its end has yet to be noticed.
    pub(super) fn awaits_reader(&self) -> bool {
        self.is_held_up || self.writer.wanted().is_some() && self.writer.has_all_wanted()
    }
    /// Updates the chunks that the store's readers want. Incomplete chunks that are no longer wanted are dropped from
    /// memory, unless the rest of them is in flight already.
    pub(super) fn refresh_wishes(&mut self) {
        if self.writer.wanted().is_none() {
            return;
        }
        if self.writer.refresh_wishes() {
            self.parts.extend(self.writer.take_parts().into_iter().map(|part| (part.index, part)));
        }
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
    /// Begins a chunk with the packets whose bytes are all local. False if no packet is local, or every one: stores take
    /// over complete chunks themselves, so these bytes would fail verification.
    fn begin_with(&mut self, part: &ChunkPart) -> bool {
        let unit = Unit::Chunk(part.index);
        let (first, end) = self.layout.packets(unit);
        let is_here = |packet: &u32| {
            let place = self.layout.locate(*packet).map(|(_, offset, len)| offset..offset + len);
            let covers = |here: &Range<u32>, of: &Range<u32>| here.start <= of.start && of.end <= here.end;
            place.is_some_and(|place| part.here.iter().any(|here| covers(here, &place)))
        };
        let here: Vec<u32> = (first..end).filter(is_here).collect();
        if here.is_empty() || here.len() == (end - first) as usize {
            return false;
        }
        for packet in here {
            let Some((_, offset, len)) = self.layout.locate(packet) else { continue };
            let (at, until) = (offset as usize, (offset + len) as usize);
            self.take_out(packet, packet + 1);
            self.assembly(unit).put(at, &part.bytes[at..until], Origin::HERE);
        }
        true
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
    /// Makes a packet idle again; false if it has arrived already.
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
    /// Takes a packet out of the idle ones, because the answer to an earlier request for it is awaited again; false if
    /// it was not idle. Packets of a suspect unit stay idle: only answers over the path now assigned to the unit count.
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
    /// The next wanted idle packets of chunks that `pick` is for and `fits`, most urgent first: first number and number after
    /// the last.
    fn next_idle(&self, pick: Pick, fits: impl Fn(Unit) -> bool) -> Option<(u32, u32)> {
        let all = 0..self.layout.chunks();
        let windows = self.writer.wanted().map_or(core::slice::from_ref(&all), |wanted| &wanted.windows);
        windows.iter().find_map(|window| self.next_in(window, pick, &fits))
    }
    /// The first idle packets of a window of chunks that `pick` is for and `fits`.
    fn next_in(&self, window: &Range<u32>, pick: Pick, fits: impl Fn(Unit) -> bool) -> Option<(u32, u32)> {
        let (mut from, end) = self.packets_of(window);
        loop {
            let (first, stop) = self.idle.range_from(from).filter(|(first, _)| *first < end)?;
            let (unit, ..) = self.layout.locate(first)?;
            let ChunkIndex(index) = Layout::chunk_of(unit)?;
            let (start, after) = self.partials.run(pick, index).filter(|(start, _)| *start < window.end)?;
            if start > index {
                from = self.layout.packets(Unit::Chunk(start)).0;
            } else if fits(unit) {
                return Some((first, stop.min(self.packets_of(&(start..after)).1).min(end)));
            } else {
                from = self.layout.packets(unit).1;
            }
        }
    }
    /// The next idle packets for a source: of chunks that no partial source has, if it has more than those, and else of
    /// any that it has. Rare chunks are spread first, because only this source can.
    fn next_for(&self, source: SourceId, fits: impl Fn(Unit) -> bool) -> Option<(u32, u32)> {
        let is_complete = self.partials.knows_rare() && !self.partials.sources.contains_key(&source);
        let rare = if is_complete { self.next_rare(&fits) } else { None };
        rare.or_else(|| self.next_idle(Pick::Of(source), fits))
    }
    /// The next idle packets of chunks that no partial source has: of an incomplete one, else of those that no complete
    /// source has given, of the one after the last or of a random one. Receivers start at different chunks. When they reach chunks that the others have,
    /// they would all continue with the same chunk, and each would take it from its only source.
    fn next_rare(&self, fits: impl Fn(Unit) -> bool) -> Option<(u32, u32)> {
        let wanted = self.writer.wanted();
        if wanted.is_some_and(|wanted| wanted.may_change) {
            // A reader sets the order.
            return self.next_idle(Pick::Rare, fits);
        }
        let is_rare = |unit: &&Unit| {
            let index = Layout::chunk_of(**unit).map(|ChunkIndex(index)| index);
            index.is_some_and(|index| !self.partials.covered.contains(index))
        };
        let begun = self.next_begun_of(self.units.keys().filter(is_rare), &fits);
        // Its start differs from receiver to receiver.
        let own = wanted.and_then(|wanted| wanted.windows.first()).map_or(0, |window| window.start);
        let at = self.rare_at.map_or(own, |last| last.saturating_add(1));
        let chunks = self.layout.chunks();
        let drawn = || (Random::new(u64::from(own), self.idle.len()).bits() % u64::from(chunks.max(1))) as u32;
        let is_of_use = |unit| is_wanted(&self.writer, unit) && fits(unit);
        let by_chance = |pick| self.next_in(&(drawn()..chunks), pick, is_of_use);
        let any = |pick| by_chance(pick).or_else(|| self.next_idle(pick, &fits));
        let behind = || self.next_in(&(at..at.saturating_add(1)), Pick::New, is_of_use);
        begun.or_else(behind).or_else(|| any(Pick::New)).or_else(|| any(Pick::Rare))
    }
    /// The next idle packets for a source in chunks that are incomplete.
    fn next_begun(&self, source: SourceId) -> Option<(u32, u32)> {
        self.next_begun_of(self.units.keys(), |unit| self.partials.has(source, unit))
    }
    fn next_begun_of<'a>(
        &self,
        mut units: impl Iterator<Item = &'a Unit>,
        fits: impl Fn(Unit) -> bool,
    ) -> Option<(u32, u32)> {
        units.find_map(|unit| {
            let (first, end) = self.layout.packets(*unit);
            let (next, stop) = self.idle.range_from(first).filter(|(next, _)| *next < end)?;
            (fits(*unit) && is_wanted(&self.writer, *unit)).then_some((next, stop.min(end)))
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
    /// Drops the packets of `unwanted` origins from unverified units, and makes them idle again. A suspect unit is
    /// cleared together with the packets that caused the suspicion.
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
    /// Up to `max` idle packets, most urgent first and then ascending, hash list first; without units that would exceed
    /// the assembly, or that the store does not want.
    ///
    /// With an `owner`, the remainder of its assigned chunks goes first, then unassigned chunks, then any: a source
    /// reads and hashes whole chunks, so this way it does so only for its assigned ones. (Paper §III-C: ascending,
    /// whichever source is next.)
    pub(super) fn take_idle(&mut self, max: u32, mut owner: Option<SourceId>, source: SourceId) -> Ranges {
        let mut ranges = Ranges::new();
        let mut left = max;
        let mut only_begun = false;
        self.is_held_up = false;
        self.refresh_wishes();
        while left > 0 && ranges.len() < REQUEST_RANGES_MAX {
            let tree = !self.idle_tree.is_empty();
            let next = match owner {
                _ if tree => self.idle_tree.first_range(),
                _ if only_begun => self.next_begun(source),
                Some(owner) => self.next_of(owner),
                None => self.next_for(source, |_| true),
            };
            let Some((first, end)) = next else {
                self.is_held_up =
                    ranges.is_empty() && !self.idle.is_empty() && !self.partials.sources.contains_key(&source);
                break;
            };
            let Some((unit, ..)) = self.layout.locate(first) else { break };
            let is_full =
                self.units.len() + self.writer.storing() >= self.units_max || self.writer.storing() >= self.storing_max;
            if !tree && !self.units.contains_key(&unit) && is_full {
                // Where sources hold different parts, the first useful chunk need not be an incomplete one.
                if owner.take().is_some()
                    || !self.partials.sources.is_empty() && !core::mem::replace(&mut only_begun, true)
                {
                    continue;
                }
                break;
            }
            if let Unit::Chunk(index) = unit
                && let Some(part) = self.parts.remove(&index)
                && self.begin_with(&part)
            {
                continue;
            }
            let end = end.min(self.layout.packets(unit).1).min(first + left);
            self.take_out(first, end);
            self.assembly(unit);
            if let (Unit::Chunk(index), false) =
                (unit, !self.partials.knows_rare() || self.partials.sources.contains_key(&source))
            {
                self.rare_at = Some(index);
            }
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
            self.idle.range_from(first).filter(|(next, _)| *next < end && self.partials.has(owner, *unit))
        });
        // Each step passes an assigned chunk, and those are few.
        let is_free = |unit| !self.owners.contains_key(&unit);
        own.or_else(|| self.next_for(owner, is_free)).or_else(|| self.next_for(owner, |_| true))
    }
    /// Payload of the idle packets that partial sources have.
    pub(super) fn covered_bytes(&self) -> u64 {
        let runs = self.partials.covered.iter().map(|(first, end)| self.packets_of(&(first..end)));
        let packets: u64 = runs.map(|(first, end)| self.idle.len_between(first, end)).sum();
        packets * u64::from(self.layout.packet_bytes())
    }
    /// A packet to poll a partial source that has nothing useful, over a path of this rate: the answer lists its
    /// holdings by now. Empty if it is too early for that.
    pub(super) fn poll(&mut self, now: Time, source: SourceId, rate: Option<Rate>) -> Ranges {
        if !self.partials.poll(now, source, rate) {
            return Ranges::new();
        }
        // Any missing packet: if the source has it by now, it is of use.
        let from = (self.partials.draw() % u64::from(self.layout.chunks().max(1))) as u32;
        let (from, _) = self.layout.packets(Unit::Chunk(from));
        let is_of_use = |packet: &u32| self.wants(*packet);
        let drawn = self.idle.range_from(from).map(|(packet, _)| packet).filter(is_of_use);
        drawn.map_or_else(|| self.probe(), |packet| Ranges::from([(packet, 1)]))
    }
    /// Up to `max` packets that may be requested over `path` only.
    pub(super) fn take_suspect(&mut self, path: PathId, max: u32) -> Option<Ranges> {
        let suspect = self.suspects.values_mut().find(|suspect| suspect.path == path && !suspect.idle.is_empty())?;
        let (first, end) = suspect.idle.first_range()?;
        let end = end.min(first + max);
        suspect.idle.remove(first, end);
        Some(Ranges::from([(first, (end - first) as u8)]))
    }
    /// One useful packet, without claiming it, to probe a silent path with.
    pub(super) fn probe(&self) -> Ranges {
        let idle = self.idle_tree.first_range().or_else(|| self.next_idle(Pick::Any, |_| true)).map(|(first, _)| first);
        let open = || {
            self.units.keys().find_map(|unit| {
                let (first, end) = self.layout.packets(*unit);
                (first..end).find(|packet| self.misses(*packet))
            })
        };
        idle.or_else(open).map(|packet| Ranges::from([(packet, 1)])).unwrap_or_default()
    }
}

/// Whether the store wants a unit.
fn is_wanted(writer: &ObjectWriter, unit: Unit) -> bool {
    Layout::chunk_of(unit).is_none_or(|index| writer.is_wanted(index.0))
}
