//! Sources that are still fetching the object themselves: their holdings, and when to poll them again.
//!
//! ```text
//!   a listed chunk is delivered ──┐
//!   a chunk is not there yet ─────┼──► Holdings ──► Partials: get requests for listed chunks only
//!   a poll, if nothing of it ─────┘                 complete sources: first for what no partial one has
//! ```
//! Holdings are learnt from a source's answers, so that the source keeps no state for requesters. A request for a
//! missing chunk costs one small answer and does not count against the path. Complete sources are not listed here.
use super::*;

/// What a source has of a part of an object that it is still fetching.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Holdings {
    /// The chunks that the report covers; it leaves others open.
    pub window: Range<u32>,
    /// The chunks of the window that it has, ascending.
    pub held: Vec<Range<u32>>,
}

/// The shortest time between two polls of one source; two round trips if that is more.
const POLL_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Maximum doublings of the pause after polls without news.
const POLL_DOUBLINGS_MAX: u32 = 3;
/// The shortest time between polls of any two sources: some 200 bytes each.
const POLL_SPACING_MIN: Duration = Duration::from_millis(5);
/// Polls take at most a fortieth of a path's rate.
const POLL_SHARE_BYTES: u64 = 40 * 200;
/// How often a source may withdraw a chunk that it had listed. A few times that is chance: answers overtake each other, and a
/// chunk may be dropped that failed its check.
const BROKEN_PROMISES_MAX: u32 = 32;

/// All sources of a fetch that have reported holding a part.
#[derive(Default)]
pub(super) struct Partials {
    pub(super) sources: BTreeMap<SourceId, Partial>,
    /// The chunks that at least one of them has.
    pub(super) covered: RangeSet,
    /// The chunks that complete sources have given to others.
    given: BTreeMap<SourceId, RangeSet>,
    /// Those that at least one partial source has, or a complete one has given: they spread without the complete ones.
    spread: RangeSet,
    /// When one of them may be polled.
    poll_at: Time,
    /// Polls so far; the number selects the chunk to poll for.
    polls: u64,
}

pub(super) struct Partial {
    held: RangeSet,
    poll_at: Time,
    pause: Duration,
    /// Polls since it last reported a new chunk.
    idle_polls: u32,
    /// Whether it gave a chunk that it had not listed, and has sent no list since: it may be complete by now.
    has_outgrown: bool,
    /// How often it has withdrawn a chunk that it had listed, since it last delivered one.
    broken_promises: u32,
}

/// Selects chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    /// Any.
    Any,
    /// Chunks that a source has listed.
    Of(SourceId),
    /// Those that no partial source has.
    Rare,
    /// Those that, besides, no complete source has given yet.
    New,
}

impl Partials {
    /// Whether complete sources should give rare chunks first.
    pub(super) fn knows_rare(&self) -> bool {
        !self.sources.is_empty() || !self.given.is_empty()
    }
    /// Whether a source has a unit: complete sources have all, partial ones those that they have listed.
    pub(super) fn has(&self, source: SourceId, unit: Unit) -> bool {
        let Some(ChunkIndex(index)) = Layout::chunk_of(unit) else { return true };
        self.sources.get(&source).is_none_or(|partial| partial.held.contains(index))
    }
    /// The first chunks from `index` on that match `pick`; they may start later.
    pub(super) fn run(&self, pick: Pick, index: u32) -> Option<(u32, u32)> {
        let all = Some((index, u32::MAX));
        match pick {
            Pick::Any => all,
            Pick::Of(source) => self.sources.get(&source).map_or(all, |partial| partial.held.range_from(index)),
            Pick::Rare | Pick::New => {
                let spread = if pick == Pick::Rare { &self.covered } else { &self.spread };
                let first = match spread.range_from(index) {
                    Some((first, end)) if first == index => end,
                    _ => index,
                };
                let end = spread.range_from(first).map_or(u32::MAX, |(next, _)| next);
                Some((first, end))
            }
        }
    }
    /// A complete source reports which chunks it has given. It replaces what the source reported of that window before.
    pub(super) fn note_given(&mut self, source: SourceId, given: &Holdings) {
        // It was partial until now, if it is listed.
        self.sources.remove(&source);
        let chunks = self.given.entry(source).or_default();
        chunks.remove(given.window.start, given.window.end);
        given.held.iter().for_each(|range| chunks.insert(range.start, range.end));
        self.cover();
    }
    /// A source reports its holdings, in answer to a request for chunk `requested`, `round_trip` away. False if it has
    /// withdrawn listed chunks too often: then it is of no use.
    pub(super) fn note(
        &mut self,
        now: Time,
        source: SourceId,
        requested: Option<u32>,
        holdings: &Holdings,
        round_trip: Duration,
    ) -> bool {
        let pause = POLL_PAUSE_MIN.max(round_trip * 2);
        let partial = self.sources.entry(source).or_insert_with(|| Partial {
            held: RangeSet::new(),
            poll_at: now + pause,
            pause,
            idle_polls: 0,
            has_outgrown: false,
            broken_promises: 0,
        });
        let had = requested.is_some_and(|requested| partial.held.contains(requested));
        let (before, window) = (partial.held.len(), &holdings.window);
        let former: Vec<(u32, u32)> =
            partial.held.iter().filter(|(first, end)| *first < window.end && *end > window.start).collect();
        partial.held.remove(window.start, window.end);
        if let Some(requested) = requested.filter(|requested| !window.contains(requested)) {
            partial.held.remove(requested, requested + 1);
        }
        for range in &holdings.held {
            partial.held.insert(range.start.max(window.start), range.end.min(window.end));
        }
        partial.pause = pause;
        partial.has_outgrown = false;
        if had && requested.is_some_and(|requested| !partial.held.contains(requested)) {
            partial.broken_promises += 1;
        }
        let is_useful = partial.broken_promises < BROKEN_PROMISES_MAX;
        if partial.held.len() > before {
            partial.idle_polls = 0;
            partial.poll_at = partial.poll_at.min(now + pause);
        }
        if former.iter().any(|&(first, end)| partial.held.len_between(first, end) < u64::from(end - first)) {
            // Another source may hold the chunks that it withdraws.
            self.cover();
        } else {
            for (first, end) in partial.held.iter() {
                self.covered.insert(first, end);
                self.spread.insert(first, end);
            }
        }
        is_useful
    }
    /// A source has delivered a packet of a chunk.
    pub(super) fn on_packet(&mut self, source: SourceId, index: u32) {
        let Some(partial) = self.sources.get_mut(&source) else { return };
        if !partial.held.contains(index) {
            partial.held.insert(index, index + 1);
            partial.has_outgrown = true;
            self.covered.insert(index, index + 1);
            self.spread.insert(index, index + 1);
        }
    }
    /// A source has delivered the last packet of a chunk.
    pub(super) fn on_delivery(&mut self, source: SourceId) {
        self.sources.entry(source).and_modify(|partial| partial.broken_promises = 0);
    }
    /// Forgets a source: it is used no more, or has all.
    pub(super) fn remove(&mut self, source: SourceId) {
        if self.given.remove(&source).is_some() | self.sources.remove(&source).is_some() {
            self.cover();
        }
    }
    /// Whether to poll a source without useful chunks for one that it lacked, over a path of this rate. It stops being
    /// partial if it gave a chunk that it had not listed and has sent no list since.
    pub(super) fn poll(&mut self, now: Time, source: SourceId, rate: Option<Rate>) -> bool {
        let Some(partial) = self.sources.get_mut(&source).filter(|partial| partial.poll_at <= now) else {
            return false;
        };
        if partial.has_outgrown {
            self.remove(source);
            return false;
        }
        if self.poll_at > now {
            return false;
        }
        let spacing = rate.map_or(Duration::ZERO, |rate| rate.time_for(POLL_SHARE_BYTES));
        self.poll_at = now + spacing.clamp(POLL_SPACING_MIN, Duration::from_secs(1));
        self.polls += 1;
        partial.poll_at = now + partial.pause * (1 << partial.idle_polls);
        partial.idle_polls = (partial.idle_polls + 1).min(POLL_DOUBLINGS_MAX);
        true
    }
    /// A number that differs from poll to poll.
    pub(super) fn draw(&self) -> u64 {
        Random::new(self.polls, self.sources.len() as u64).bits()
    }
    /// When, after `now`, one of them may be polled. One whose time is past was skipped for another reason, and must
    /// not hide later ones.
    pub(super) fn next_poll(&self, now: Time) -> Option<Time> {
        let times = self.sources.values().map(|partial| partial.poll_at.max(self.poll_at));
        times.filter(|at| *at > now).min()
    }
    fn cover(&mut self) {
        self.covered = RangeSet::new();
        for (first, end) in self.sources.values().flat_map(|partial| partial.held.iter()) {
            self.covered.insert(first, end);
        }
        self.spread = self.covered.clone();
        for (first, end) in self.given.values().flat_map(RangeSet::iter) {
            self.spread.insert(first, end);
        }
    }
}

impl Transfer {
    /// The source at the end of a path has the whole object, and tells which chunks it has given, in answer to request
    /// `number`.
    pub fn handle_given(&mut self, path: PathId, number: u16, given: &Holdings) {
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return };
        let Some(known) = self.paths.get(&path) else { return };
        let chunks = running.layout.chunks();
        let is_valid = given.window.start < chunks && given.window.end <= chunks.saturating_add(8);
        if is_valid && known.flow.as_ref().is_some_and(|flow| flow.is_recent(number)) {
            running.partials.note_given(known.source, given);
        }
    }
    /// The source at the end of a path is still fetching the object itself, and lists its holdings in answer to request
    /// `number`, which named `packet`. A chunk that it lacks is neither lost nor a reason for distrust: it is requested
    /// from other sources, and this one gets requests for its holdings. The answer does not count as progress of the
    /// object.
    pub fn handle_holdings(&mut self, now: Time, path: PathId, number: u16, packet: u32, holdings: &Holdings) {
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return };
        let Some(known) = self.paths.get_mut(&path) else { return };
        let (source, Some(flow)) = (known.source, known.flow.as_mut()) else { return };
        let Some((unit, ..)) = running.layout.locate(packet).filter(|_| flow.is_recent(number)) else { return };
        let requested = Layout::chunk_of(unit).map(|ChunkIndex(index)| index);
        let is_useful = running.partials.note(now, source, requested, holdings, flow.round_trip());
        let was_silent = flow.silent_since().is_some();
        let lacks =
            |packet| running.layout.locate(packet).is_some_and(|(unit, ..)| !running.partials.has(source, unit));
        let lacking = flow.on_not_yet(now, number, lacks);
        if was_silent && flow.silent_since().is_none() {
            self.record.push(known.report_active(path));
        }
        let of_suspect = |packet: &LostPacket| {
            let unit = running.layout.locate(packet.packet).map(|(unit, ..)| unit);
            unit.and_then(|unit| running.suspects.get(&unit)).is_some_and(|suspect| suspect.path == path)
        };
        let is_suspect = lacking.iter().any(of_suspect);
        // Packets awaited on another path are in flight.
        for packet in lacking.iter().filter(|packet| !packet.covered) {
            running.make_idle(packet.packet);
        }
        if is_suspect {
            // Units that failed verification are fetched over one path at a time, and must not wait there.
            self.close_path(path, "its source is still fetching what failed verification".into());
        }
        if !is_useful {
            self.close_source(source, "it refuses chunks that it has listed".into());
            self.move_suspects(now);
            return self.end_if_hopeless(now);
        }
        self.on_batch_end(now, Some(path));
        self.move_suspects(now);
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges are what this is about")]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);
    fn holdings_in(window: Range<u32>, held: &[Range<u32>]) -> Holdings {
        Holdings { window, held: held.to_vec() }
    }
    fn has(partials: &Partials, source: u16) -> Vec<u32> {
        (0..20).filter(|index| partials.has(SourceId(source), Unit::Chunk(*index))).collect()
    }

    #[test]
    fn what_a_source_says_replaces_what_is_known_of_that_window_and_of_nothing_else() {
        let mut partials = Partials::default();
        assert!(
            has(&partials, 1).len() == 20 && partials.sources.is_empty(),
            "who has said nothing is taken to have all"
        );
        assert!(partials.note(Time::ZERO, SourceId(1), Some(4), &holdings_in(0..10, &[0..2, 8..10]), ROUND_TRIP));
        assert!(partials.note(Time::ZERO, SourceId(1), Some(12), &holdings_in(10..20, &[11..12]), ROUND_TRIP));
        assert_eq!(has(&partials, 1), [0, 1, 8, 9, 11]);
        assert!(partials.note(Time::ZERO, SourceId(2), Some(9), &holdings_in(8..12, &[10..14]), ROUND_TRIP));
        assert_eq!(has(&partials, 2), [10, 11], "it says nothing of what is outside");
        assert_eq!(partials.run(Pick::Of(SourceId(1)), 2), Some((8, 10)));
        assert_eq!(partials.run(Pick::Of(SourceId(3)), 2), Some((2, u32::MAX)));
        assert_eq!(partials.run(Pick::Rare, 0), Some((2, 8)));
        assert_eq!(partials.run(Pick::Rare, 9), Some((12, u32::MAX)));
        partials.remove(SourceId(1));
        assert_eq!(partials.run(Pick::Rare, 0), Some((0, 10)));
        // A list that does not cover the requested chunk means that the source lacks it.
        partials.note(Time::ZERO, SourceId(2), Some(11), &Holdings::default(), ROUND_TRIP);
        assert_eq!(has(&partials, 2), [10]);
    }

    #[test]
    fn what_a_complete_source_has_given_is_not_new_and_still_rare() {
        let mut partials = Partials::default();
        assert!(!partials.knows_rare());
        partials.note(Time::ZERO, SourceId(1), Some(4), &holdings_in(0..20, &[0..2]), ROUND_TRIP);
        partials.note_given(SourceId(2), &holdings_in(0..20, &[2..6]));
        assert_eq!(
            (partials.run(Pick::New, 0), partials.run(Pick::Rare, 0)),
            (Some((6, u32::MAX)), Some((2, u32::MAX)))
        );
        // It starts again once it has given all. A list says nothing of chunks outside its window.
        partials.note_given(SourceId(2), &holdings_in(20..40, &[20..40]));
        partials.note_given(SourceId(2), &holdings_in(0..20, &[8..9]));
        assert_eq!((partials.run(Pick::New, 0), partials.run(Pick::New, 9)), (Some((2, 8)), Some((9, 20))));
        partials.remove(SourceId(2));
        assert_eq!(partials.run(Pick::New, 0), Some((2, u32::MAX)));
        // A partial source that gives lists of this kind has become complete.
        partials.note_given(SourceId(1), &holdings_in(0..20, &[]));
        assert!(has(&partials, 1).len() == 20 && partials.run(Pick::Rare, 0) == Some((0, u32::MAX)));
    }

    #[test]
    fn who_withdraws_what_it_had_listed_is_of_no_use_in_the_end() {
        let mut partials = Partials::default();
        let lie = |partials: &mut Partials| {
            partials.note(Time::ZERO, SourceId(1), None, &holdings_in(0..10, &[0..5]), ROUND_TRIP);
            partials.note(Time::ZERO, SourceId(1), Some(3), &holdings_in(0..10, &[0..3]), ROUND_TRIP)
        };
        assert!((1..BROKEN_PROMISES_MAX).all(|_| lie(&mut partials)));
        partials.on_delivery(SourceId(1));
        assert!((1..BROKEN_PROMISES_MAX).all(|_| lie(&mut partials)));
        assert!(!lie(&mut partials));
    }

    #[test]
    fn polls_become_rarer_while_nothing_new_is_told_and_a_source_of_which_all_comes_is_polled_no_more() {
        let mut partials = Partials::default();
        let at = |ms| Time::from_millis(ms);
        partials.note(Time::ZERO, SourceId(1), Some(0), &holdings_in(0..10, &[]), ROUND_TRIP);
        assert_eq!(partials.next_poll(Time::ZERO), Some(at(200)));
        let mut polled = Vec::new();
        for ms in 0..5_000 {
            if partials.poll(at(ms), SourceId(1), None) {
                polled.push(ms);
                partials.note(at(ms), SourceId(1), Some(0), &holdings_in(0..10, &[]), ROUND_TRIP);
            }
        }
        assert_eq!(polled, [200, 400, 800, 1_600, 3_200, 4_800]);
        partials.note(at(5_000), SourceId(1), Some(0), &holdings_in(0..10, &[5..6]), ROUND_TRIP);
        assert_eq!(partials.next_poll(at(5_000)), Some(at(5_200)), "it gets further");
        partials.on_packet(SourceId(1), 7);
        assert!(!partials.poll(at(60_000), SourceId(1), None), "it gave what it had not listed, and says no more");
        assert!(partials.sources.is_empty());
    }
}
