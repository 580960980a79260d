//! The paths of one fetch: found by probes, used by choice, dropped when they fail. PTP §4 C.
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use tributary_core::{Duration, FaceId, NodeId, PathId, Random, Rate, Time};

use super::selection::{self, Candidate, Link, PathSelection};
use crate::{config::PathConfig, router::labels::LABEL_BYTES};

/// Maximum known paths; beyond that the ones unused for longest are dropped.
const PATHS_MAX: usize = 256;
/// How long a path that failed is left alone, unless a probe brings its tag again; as long again each time that its tag
/// cannot be followed.
const FAILED_PAUSE: Duration = Duration::from_secs(10);
/// Maximum doublings of the pause.
const DOUBLINGS_MAX: u32 = 6;
/// How long a path in use is silent before another one replaces it. A path already counts as silent when an answer
/// takes longer than a timeout, as when another path starts and fills a shared link's queue: full queues take seconds
/// on slow links. While no path in use delivers, one is replaced as soon as its answers cannot be merely late.
const SILENCE: Duration = Duration::from_secs(3);

/// The part of a change interval in which new paths fill their windows; their rates are measured afterwards.
const SETTLING: f64 = 0.3;

/// The labels of a path, as a probe brought them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tag {
    Labels(Vec<u8>),
    Bits(Vec<u8>),
}

impl Default for Tag {
    fn default() -> Tag {
        Tag::Labels(Vec::new())
    }
}

impl Tag {
    /// Its labels; in a bit string only their routers know where one ends.
    fn labels(&self) -> &[[u8; LABEL_BYTES]] {
        match self {
            Tag::Labels(labels) => labels.as_chunks().0,
            Tag::Bits(_) => &[],
        }
    }
    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        let (Tag::Labels(bytes) | Tag::Bits(bytes)) = self;
        bytes.len()
    }
    /// Routers that it names, if its labels show them.
    pub(super) fn hops(&self) -> usize {
        match self {
            Tag::Labels(labels) => labels.len() / LABEL_BYTES,
            Tag::Bits(bits) => bits.len(),
        }
    }
}

#[derive(Default)]
pub(super) struct KnownPath {
    pub(super) tag: Tag,
    /// The rates of its links, where routers state them.
    rates: Vec<Option<Rate>>,
    pub(super) source: NodeId,
    /// The face on which it leaves this node, if known.
    pub(super) face: Option<FaceId>,
    pub(super) in_use: bool,
    /// Smoothed round-trip time of the probes and its mean deviation.
    pub(super) rtt: Duration,
    deviation: Duration,
    seen: Time,
    /// The transfer refuses it: its source is faulty or offers another version, or a node on the way is faulty.
    refused: bool,
    /// The silence that the transfer reports, if any.
    silent: Option<Silent>,
    failed: Option<Time>,
    /// Times that its tag could not be followed since a probe brought it.
    dead_ends: u32,
    /// Its bytes when measuring started, and in the last change interval since then.
    bytes_before: u64,
    rate: Option<Rate>,
}

/// That a path is silent.
#[derive(Clone, Copy)]
struct Silent {
    since: Time,
    /// When an answer to an earlier request can be late no more.
    surely_at: Time,
}

/// What a probe found.
pub(super) struct Way {
    pub(super) tag: Tag,
    /// The rates of its links, where routers state them.
    pub(super) rates: Vec<Option<Rate>>,
    pub(super) source: NodeId,
    /// The face on which it leaves this node, if known.
    pub(super) face: Option<FaceId>,
    pub(super) rtt: Duration,
}

/// Bytes of a fetch so far.
#[derive(Default)]
pub(super) struct Traffic {
    /// Of Interests with their tags.
    pub(super) interests: u64,
    pub(super) data: u64,
    /// Bytes of content in the Data.
    pub(super) content: u64,
}

tributary_core::declared! {
    pub(super) struct Paths {
        config: PathConfig = config,
        selection: Box<dyn PathSelection> = selection,
        known: BTreeMap<PathId, KnownPath> = BTreeMap::new(),
        next: u16 = 0,
        changed_at: Time = now,
        /// Since when the paths' rates are measured; `None` while they fill their windows.
        measured_since: Option<Time> = None,
        /// When the next silent path is replaced.
        replacement_at: Option<Time> = None,
    }
    pub(super) fn new(now: Time, config: PathConfig) {
        let selection = selection::by_name(&config.selection);
    }
}

impl Paths {
    /// Takes a probe's result. Returns whether the paths in use changed.
    pub(super) fn on_probe(&mut self, now: Time, found: Way, random: &mut Random) -> bool {
        let Way { tag, rates, source, face, rtt } = found;
        if let Some((_, path)) = self.known.iter_mut().find(|(_, path)| path.tag == tag) {
            let error = path.rtt.abs_diff(rtt);
            path.deviation = (path.deviation * 3 + error) / 4;
            path.rtt = (path.rtt * 7 + rtt) / 8;
            path.rates = rates;
            path.seen = now;
            (path.failed, path.dead_ends) = (None, 0);
            return self.fill(random) | self.replace_silent(now, random);
        }
        if self.known.len() >= PATHS_MAX {
            let idle = self.known.iter().filter(|(_, path)| !path.in_use);
            let Some(oldest) = idle.min_by_key(|(_, path)| path.seen).map(|(id, _)| *id) else { return false };
            self.known.remove(&oldest);
        }
        self.next = self.next.wrapping_add(1).max(1);
        let new = KnownPath { tag, rates, source, face, rtt, deviation: rtt / 2, seen: now, ..KnownPath::default() };
        self.known.insert(PathId(self.next), new);
        self.fill(random) | self.replace_silent(now, random)
    }
    /// Whether two paths are known to leave this node on different faces.
    pub(super) fn leave_apart(&self, one: PathId, other: PathId) -> bool {
        let first = |id: PathId| self.known.get(&id).and_then(|path| path.tag.labels().first());
        first(one).zip(first(other)).is_some_and(|(one, other)| one != other)
    }
    /// Whether all forwarders on a path mark Data from a cache or in answer to another Interest: each has stated the
    /// rate of the Data's departure link, if it knows one, and a forwarder without support for tags forwards none.
    pub(super) fn is_flagged(&self, id: PathId) -> bool {
        let flags = |path: &KnownPath| match &path.tag {
            Tag::Labels(_) => path.rates.len() == path.hops(),
            Tag::Bits(_) => false,
        };
        self.known.get(&id).is_some_and(flags)
    }
    /// From `now` on no Data arrives over a path in use, where answers may be late by `lateness`; `None` when Data
    /// arrives again.
    pub(super) fn set_silent(&mut self, now: Time, id: PathId, lateness: Option<Duration>) {
        if let Some(path) = self.known.get_mut(&id) {
            let silent = |lateness| Silent { since: now, surely_at: now + lateness };
            path.silent = lateness.map(|lateness| path.silent.unwrap_or(silent(lateness)));
            // One that was not due before may be now.
            self.replacement_at = self.dues().min().map(|due| due.max(now));
        }
    }
    /// Whether no path in use delivers.
    pub(super) fn is_silent(&self) -> bool {
        self.in_use().all(|(_, path)| path.silent.is_some())
    }
    /// When silent paths in use are replaced.
    fn dues(&self) -> impl Iterator<Item = Time> {
        let is_silent = self.is_silent();
        self.in_use().filter_map(move |(_, path)| path.gives_way_at(is_silent))
    }
    /// Replaces paths that have been silent for [`SILENCE`] if there are others, and one of them earlier if no path
    /// delivers anything; true if the paths in use changed.
    fn replace_silent(&mut self, now: Time, random: &mut Random) -> bool {
        let due = |paths: &Paths, is_silent: bool| -> Vec<PathId> {
            let is_due = |path: &KnownPath| path.gives_way_at(is_silent).is_some_and(|due| due <= now);
            paths.in_use().filter(|(_, path)| is_due(path)).map(|(id, _)| id).collect()
        };
        let since = |id: &PathId| self.known.get(id).and_then(|path| path.silent).map(|silent| silent.since);
        let first = if self.is_silent() { due(self, true).into_iter().min_by_key(since) } else { None };
        let mut changed = first.is_some_and(|id| self.give_way(now, id, random));
        for id in due(self, false) {
            changed |= self.give_way(now, id, random);
        }
        self.replacement_at = self.dues().filter(|due| *due > now).min();
        changed
    }
    /// A path failed: its tag could not be followed. Another replaces it at once. Returns whether the paths in use
    /// changed.
    pub(super) fn on_failed(&mut self, now: Time, id: PathId, random: &mut Random) -> bool {
        let Some(path) = self.known.get_mut(&id) else { return false };
        path.failed = Some(now);
        path.dead_ends += 1;
        let was = core::mem::replace(&mut path.in_use, false);
        self.fill(random) || was
    }
    /// Stops using paths that the transfer refuses; returns whether the paths in use changed.
    pub(super) fn refuse(&mut self, refused: &[PathId], random: &mut Random) -> bool {
        let mut changed = false;
        for id in refused {
            let Some(path) = self.known.get_mut(id) else { continue };
            path.refused = true;
            changed |= core::mem::replace(&mut path.in_use, false);
        }
        self.fill(random) || changed
    }
    /// The same for all paths to these sources.
    pub(super) fn refuse_sources(&mut self, sources: &[NodeId], random: &mut Random) {
        let paths = self.known.iter().filter(|(_, path)| sources.contains(&path.source));
        let paths: Vec<PathId> = paths.map(|(id, _)| *id).collect();
        self.refuse(&paths, random);
    }
    /// A source offers something new: its paths may be of use again.
    pub(super) fn forgive(&mut self, source: NodeId) {
        self.known.values_mut().filter(|path| path.source == source).for_each(|path| path.refused = false);
    }
    /// Paths that were refused may be of use again; whether the paths in use changed.
    pub(super) fn reconsider(&mut self, is_bad: impl Fn(PathId) -> bool, random: &mut Random) -> bool {
        for (_, path) in self.known.iter_mut().filter(|(id, _)| !is_bad(**id)) {
            path.refused = false;
        }
        self.fill(random)
    }
    /// Replaces a silent path if there is another one; true if the paths in use changed.
    fn give_way(&mut self, now: Time, id: PathId, random: &mut Random) -> bool {
        let Some(path) = self.known.get_mut(&id) else { return false };
        let before = (path.failed, path.in_use);
        (path.failed, path.in_use) = (Some(now), false);
        let is_replaced = self.fill(random);
        if let Some(path) = self.known.get_mut(&id).filter(|_| !is_replaced) {
            (path.failed, path.in_use) = before;
        }
        is_replaced
    }
    /// Replaces silent paths. Starts to measure, and changes the paths in use, once per change interval; `bytes_of` is
    /// the content that each has delivered. True if they changed.
    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        bytes_of: impl Fn(PathId) -> u64,
        traffic: &Traffic,
        random: &mut Random,
    ) -> bool {
        let relieved = self.replacement_at.is_some_and(|due| due <= now) && self.replace_silent(now, random);
        if self.next_change() > now {
            return relieved;
        }
        let Some(since) = self.measured_since.take() else {
            self.measured_since = Some(now);
            self.known.iter_mut().for_each(|(id, path)| path.bytes_before = bytes_of(*id));
            return relieved;
        };
        self.changed_at = now;
        for (id, path) in self.known.iter_mut().filter(|(_, path)| path.in_use) {
            let bytes = bytes_of(*id).saturating_sub(path.bytes_before) as f64 * traffic.data as f64;
            path.rate = Rate::over((bytes / traffic.content.max(1) as f64) as u64, now.since(since));
        }
        let candidates = self.candidates(now, |_| true);
        let asking = traffic.interests as f64 / traffic.data.max(1) as f64;
        let chosen = self.selection.change(&candidates, asking, self.config.in_use_max, random);
        let mut changed = relieved;
        for (id, path) in &mut self.known {
            let use_it = chosen.contains(id);
            changed |= path.in_use != use_it;
            path.in_use = use_it;
        }
        changed
    }
    /// When its next timer is due.
    pub(super) fn poll_timeout(&self) -> Time {
        self.replacement_at.map_or(self.next_change(), |relief| relief.min(self.next_change()))
    }
    fn next_change(&self) -> Time {
        let settling = self.config.change_interval.mul_f64(SETTLING);
        match self.measured_since {
            None => self.changed_at + settling,
            Some(since) => since + (self.config.change_interval - settling),
        }
    }
    fn fill(&mut self, random: &mut Random) -> bool {
        let mut changed = false;
        while self.in_use().count() < self.config.in_use_max {
            let known = self.candidates(Time::ZERO, |path| path.in_use || path.failed.is_none());
            let Some(chosen) = self.selection.fill(&known, random) else { break };
            let Some(path) = self.known.get_mut(&chosen) else { break };
            path.in_use = true;
            changed = true;
        }
        changed
    }
    /// The rates of links, as stated by the newest probe with their label, over any path.
    fn rates(&self) -> BTreeMap<Label, Rate> {
        let mut newest: BTreeMap<Label, (Time, Option<Rate>)> = BTreeMap::new();
        for path in self.known.values() {
            for (label, rate) in path.tag.labels().iter().zip(&path.rates) {
                let reported = newest.entry(*label).or_insert((path.seen, *rate));
                *reported = if path.seen >= reported.0 { (path.seen, *rate) } else { *reported };
            }
        }
        newest.into_iter().filter_map(|(label, (_, rate))| Some((label, rate?))).collect()
    }
    fn candidates(&self, now: Time, which: impl Fn(&KnownPath) -> bool) -> Vec<Candidate> {
        let nodes = self.nodes();
        let hops = Hops::of(&nodes, self.known.values().map(|path| &path.tag));
        let rates = self.rates();
        let working = self.known.iter().filter(|(_, path)| path.works(now) && which(path));
        working
            .map(|(id, path)| Candidate {
                path: *id,
                in_use: path.in_use,
                rate: path.rate.filter(|_| path.in_use).unwrap_or_default(),
                rate_known: path.rate,
                hops: path.hops(),
                rtt: path.rtt,
                rtt_deviation: path.deviation,
                links: path.links(&nodes, &hops, &rates),
            })
            .collect()
    }
    pub(super) fn in_use(&self) -> impl Iterator<Item = (PathId, &KnownPath)> {
        self.known.iter().filter(|(_, path)| path.in_use).map(|(id, path)| (*id, path))
    }
    /// Paths in use, and refused ones for which `also` holds.
    pub(super) fn reported(&self, also: impl Fn(PathId) -> bool) -> impl Iterator<Item = (PathId, &KnownPath)> {
        let is_reported = move |(id, path): &(&PathId, &KnownPath)| path.in_use || path.refused && also(**id);
        self.known.iter().filter(is_reported).map(|(id, path)| (*id, path))
    }
    /// The nodes on all known paths.
    pub(super) fn nodes(&self) -> Nodes {
        Nodes::of(self.known.values().map(|path| &path.tag))
    }
    pub(super) fn tag(&self, id: PathId) -> Option<&Tag> {
        self.known.get(&id).map(|path| &path.tag)
    }
    /// The lowest known rate of a path's links.
    pub(super) fn narrowest(&self, id: PathId) -> Option<Rate> {
        self.known.get(&id)?.rates.iter().flatten().min().copied()
    }
    pub(super) fn source(&self, id: PathId) -> Option<NodeId> {
        self.known.get(&id).map(|path| path.source)
    }
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

impl KnownPath {
    /// When another path replaces it; `is_silent` means that no path delivers.
    fn gives_way_at(&self, is_silent: bool) -> Option<Time> {
        let after_a_while = |silent: Silent| silent.since + SILENCE;
        self.silent.map(|silent| match is_silent {
            true => silent.surely_at.min(after_a_while(silent)),
            false => after_a_while(silent),
        })
    }
    fn works(&self, now: Time) -> bool {
        let pause = FAILED_PAUSE * (1 << self.dead_ends.saturating_sub(1).min(DOUBLINGS_MAX));
        !self.refused && self.failed.is_none_or(|failed| failed + pause <= now)
    }
    /// Its links, with their rates from `rates`.
    fn links(&self, nodes: &Nodes, hops: &Hops, rates: &BTreeMap<Label, Rate>) -> Vec<Link> {
        let labels = self.tag.labels();
        let mut from = None;
        let link = |label: &Label| {
            let to = nodes.behind(*label);
            let before = from.replace(to);
            Link {
                label: *label,
                rate: rates.get(label).copied(),
                reverse: before.and_then(|from| hops.label(to, from)),
            }
        };
        labels.iter().map(link).collect()
    }
    /// Routers on it, as its tag shows.
    pub(super) fn hops(&self) -> usize {
        self.tag.hops()
    }
    /// The nodes on it, with `>` between.
    pub(super) fn label(&self, receiver: &str, source: &str, nodes: &Nodes) -> String {
        let mut text = String::from(receiver);
        let between = self.tag.labels();
        for label in between.iter().take(between.len().saturating_sub(1)) {
            text.push('>');
            write_labels(&nodes.behind(*label), &mut text);
        }
        text + ">" + source
    }
}

type Label = [u8; LABEL_BYTES];

/// Which labels lead to the same node. A label names a face of one router; it leads to the router of the next label, so
/// all labels followed by the same label lead to one router. A node is identified by the least of the labels that lead
/// to it.
pub(super) struct Nodes(BTreeMap<Label, Label>);

impl Nodes {
    fn of<'a>(tags: impl Iterator<Item = &'a Tag>) -> Nodes {
        let mut nodes = Nodes(BTreeMap::new());
        // For each label one that leads to its router.
        let mut before: BTreeMap<Label, Label> = BTreeMap::new();
        for tag in tags {
            let labels = tag.labels();
            for (label, next) in labels.iter().zip(labels.iter().skip(1)) {
                let known = *before.entry(*next).or_insert(*label);
                nodes.join(*label, known);
            }
        }
        nodes
    }
    fn join(&mut self, one: Label, other: Label) {
        let (one, other) = (self.behind(one), self.behind(other));
        if one != other {
            self.0.insert(one.max(other), one.min(other));
        }
    }
    /// What the node is called that a label leads to.
    fn behind(&self, label: Label) -> Label {
        let mut name = label;
        while let Some(lesser) = self.0.get(&name) {
            name = *lesser;
        }
        name
    }
}

/// The label of the link from one node to another.
struct Hops(BTreeMap<(Label, Label), Option<Label>>);

impl Hops {
    fn of<'a>(nodes: &Nodes, tags: impl Iterator<Item = &'a Tag>) -> Hops {
        let mut hops = BTreeMap::new();
        for tag in tags {
            for pair in tag.labels().windows(2) {
                let (from, label) = (nodes.behind(pair[0]), pair[1]);
                let known = hops.entry((from, nodes.behind(label))).or_insert(Some(label));
                // With several links between them, labels cannot be assigned to links.
                *known = known.filter(|known| *known == label);
            }
        }
        Hops(hops)
    }
    fn label(&self, from: Label, to: Label) -> Option<Label> {
        self.0.get(&(from, to)).copied().flatten()
    }
}

/// Appends labels as hexadecimal digits, with `>` between.
pub(super) fn write_labels(labels: &[u8], text: &mut String) {
    use core::fmt::Write;
    for (index, label) in labels.chunks(LABEL_BYTES).enumerate() {
        if index > 0 {
            text.push('>');
        }
        label.iter().for_each(|byte| {
            let _ = write!(text, "{byte:02x}");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(in_use_max: usize) -> (Paths, Random) {
        (
            Paths::new(Time::ZERO, PathConfig { in_use_max, selection: "bandwidth".into(), ..PathConfig::default() }),
            Random::new(1, 1),
        )
    }
    const TRAFFIC: Traffic = Traffic { interests: 0, data: 1, content: 1 };

    fn found(tag: Tag) -> Way {
        Way { tag, rates: Vec::new(), source: NodeId(1), face: None, rtt: Duration::from_millis(10) }
    }
    fn probe(paths: &mut Paths, random: &mut Random, label: u8) -> bool {
        let tag = Tag::Labels(alloc::vec![label; 4]);
        paths.on_probe(Time::from_millis(1), found(tag), random)
    }
    fn in_use(paths: &Paths) -> Vec<u16> {
        paths.in_use().map(|(id, _)| id.0).collect()
    }

    #[test]
    fn paths_are_used_up_to_the_limit_and_a_failed_one_is_replaced_at_once() {
        let (mut paths, mut random) = paths(2);
        assert!(probe(&mut paths, &mut random, 1) && probe(&mut paths, &mut random, 2));
        assert!(!probe(&mut paths, &mut random, 3) && !probe(&mut paths, &mut random, 1));
        assert_eq!((in_use(&paths), paths.len()), (alloc::vec![1, 2], 3));
        assert!(paths.give_way(Time::from_millis(5), PathId(1), &mut random));
        assert_eq!(in_use(&paths), [2, 3]);
        assert!(!paths.give_way(Time::from_millis(6), PathId(2), &mut random), "path 3 is in use, path 1 has failed");
        assert!(
            !paths.give_way(Time::from_millis(60_000), PathId(2), &mut random),
            "and no probe has shown that it works again"
        );
        assert_eq!(in_use(&paths), [2, 3]);
        assert!(paths.on_failed(Time::from_millis(6), PathId(2), &mut random));
        assert_eq!(in_use(&paths), [3]);
        assert!(probe(&mut paths, &mut random, 2), "a probe shows that it works again");
        assert_eq!(in_use(&paths), [2, 3]);
    }

    #[test]
    fn a_path_whose_tag_leads_nowhere_is_tried_again_ever_more_rarely_until_a_probe_brings_it() {
        let (mut paths, mut random) = paths(2);
        probe(&mut paths, &mut random, 1);
        let works = |paths: &Paths, now: Time| paths.candidates(now, |_| true).len() == 1;
        let mut now = Time::ZERO;
        for pause in [10, 20, 40] {
            paths.on_failed(now, PathId(1), &mut random);
            now += Duration::from_secs(pause);
            assert!(!works(&paths, now - Duration::from_millis(1)) && works(&paths, now), "after {pause} s");
        }
        assert!(probe(&mut paths, &mut random, 1));
        paths.on_failed(now, PathId(1), &mut random);
        assert!(works(&paths, now + FAILED_PAUSE), "it begins anew");
    }

    #[test]
    fn a_silent_path_gives_way_after_a_while_and_one_that_answers_again_stays() {
        let (mut paths, mut random) = paths(2);
        (1..=2).for_each(|label| {
            probe(&mut paths, &mut random, label);
        });
        let silent_at = Time::from_millis(500);
        (1..=2).for_each(|id| paths.set_silent(silent_at, PathId(id), Some(SILENCE)));
        paths.set_silent(Time::from_millis(900), PathId(2), Some(SILENCE));
        paths.set_silent(Time::from_millis(2_000), PathId(1), None);
        let due = silent_at + SILENCE;
        assert!(!probe(&mut paths, &mut random, 3), "not yet");
        assert_eq!(paths.poll_timeout(), Time::from_millis(3_000).min(due), "measuring begins");
        assert!(!paths.handle_timeout(Time::from_millis(3_000), |_| 0, &TRAFFIC, &mut random));
        assert_eq!(paths.poll_timeout(), due, "since it fell silent first");
        assert!(paths.handle_timeout(due, |_| 0, &TRAFFIC, &mut random));
        assert_eq!(in_use(&paths), [1, 3]);

        paths.set_silent(Time::from_millis(4_000), PathId(3), Some(SILENCE));
        let due = Time::from_millis(4_000) + SILENCE;
        assert_eq!(paths.poll_timeout(), due);
        assert!(!paths.handle_timeout(due, |_| 0, &TRAFFIC, &mut random), "there is no other");
        assert!(paths.poll_timeout() > due);
        assert!(paths.on_probe(due, found(Tag::Labels(alloc::vec![4; 4])), &mut random), "as soon as one is found");
        assert_eq!(in_use(&paths), [1, 4]);
    }

    #[test]
    fn while_nothing_comes_at_all_one_path_after_the_other_gives_way_when_answers_can_be_late_no_more() {
        let (mut paths, mut random) = paths(2);
        (1..=4).for_each(|label| {
            probe(&mut paths, &mut random, label);
        });
        let at = Time::from_millis;
        let mut go = |paths: &mut Paths, millis| paths.handle_timeout(at(millis), |_| 0, &TRAFFIC, &mut random);
        let late = Some(Duration::from_millis(200));
        paths.set_silent(at(100), PathId(1), late);
        assert!(paths.poll_timeout() > at(3_000 - 1), "path 2 brings something");
        paths.set_silent(at(200), PathId(2), late);
        assert_eq!(paths.poll_timeout(), at(300));
        assert!(!go(&mut paths, 299) && go(&mut paths, 300));
        assert_eq!(in_use(&paths), [2, 3], "one of them, which may bring something now");
        assert!(paths.poll_timeout() > at(3_000 - 1) && !go(&mut paths, 1_000));
        paths.set_silent(at(1_000), PathId(3), late);
        assert!(go(&mut paths, 1_000), "path 2 has been silent for longer than that");
        assert_eq!(in_use(&paths), [3, 4]);
        paths.set_silent(at(1_300), PathId(4), late);
        assert!(!go(&mut paths, 1_300), "there is no other");
        assert_eq!(paths.poll_timeout(), at(1_500));
        assert!(!go(&mut paths, 1_500));
        assert!(paths.poll_timeout() > at(1_500), "and it does not ask again until one is found");
        assert!(paths.on_probe(at(1_600), found(Tag::Labels(alloc::vec![5; 4])), &mut random));
        assert_eq!(in_use(&paths), [4, 5]);
    }

    #[test]
    fn once_in_an_interval_the_slowest_gives_way() {
        let (mut paths, mut random) = paths(2);
        (1..=3).for_each(|label| {
            probe(&mut paths, &mut random, label);
        });
        // Path 1's initial bytes do not count.
        let bytes =
            |after: bool| move |id: PathId| [50_000, 100][usize::from(id.0 > 1)] + u64::from(after && id.0 > 1) * 900;
        let mut at = |ms, bytes: &dyn Fn(PathId) -> u64| {
            paths.handle_timeout(Time::from_millis(ms), bytes, &TRAFFIC, &mut random)
        };
        assert!(!at(2_999, &bytes(false)) && !at(3_000, &bytes(false)) && !at(9_999, &bytes(true)));
        assert!(at(10_000, &bytes(true)));
        // Path 3 brings nothing; path 1 gets its turn again.
        let later = |id: PathId| bytes(true)(id) + if id.0 == 2 { 900 } else { 0 };
        assert!(!at(13_000, &bytes(true)) && at(20_000, &later));
        assert_eq!(in_use(&paths), [1, 2]);
    }

    #[test]
    fn labels_that_the_same_label_follows_lead_to_one_node() {
        let (mut paths, mut random) = paths(9);
        let [near, other, far, last, end] = [[9u8, 0, 0, 1], [9, 0, 0, 2], [7, 0, 0, 3], [5, 0, 0, 4], [1, 0, 0, 5]];
        for tag in [&[near, far, last][..], &[other, far, last], &[other, end], &[end]] {
            let tag = Tag::Labels(tag.concat());
            paths.on_probe(Time::from_millis(1), found(tag), &mut random);
        }
        let nodes = paths.nodes();
        let labels: Vec<String> = paths.known.values().map(|path| path.label("phone", "shop", &nodes)).collect();
        let by_far = "phone>09000001>07000003>shop";
        assert_eq!(labels, [by_far, by_far, "phone>09000001>shop", "phone>shop"]);
    }

    #[test]
    fn a_link_has_the_rate_that_was_told_and_the_label_of_its_way_back_if_there_is_one() {
        let (mut paths, mut random) = paths(9);
        // Two neighbouring routers, 7 and 5, each with a path to a producer, 1 and 2.
        let [to_7, to_5] = [[9u8, 0, 0, 7], [9, 0, 0, 5]];
        let [from_7, from_5, end_1, end_2] = [[7u8, 0, 0, 5], [5, 0, 0, 7], [7, 0, 0, 1], [5, 0, 0, 2]];
        let rate = |mbps| Some(Rate::from_mbps(mbps));
        for (labels, rates) in [
            ([to_7, end_1].concat(), alloc::vec![rate(1), rate(2)]),
            ([to_7, from_7, end_2].concat(), alloc::vec![rate(1), None]),
            ([to_5, from_5, end_1].concat(), Vec::new()),
            ([to_5, end_2].concat(), alloc::vec![rate(9); 9]),
        ] {
            paths.on_probe(Time::from_millis(1), Way { rates, ..found(Tag::Labels(labels)) }, &mut random);
        }
        let links: Vec<Vec<(Option<Rate>, Option<Label>)>> = paths
            .candidates(Time::from_millis(1), |_| true)
            .iter()
            .map(|path| path.links.iter().map(|link| (link.rate, link.reverse)).collect())
            .collect();
        assert_eq!(links[0], [(rate(1), None), (rate(2), None)]);
        assert_eq!(links[1], [(rate(1), None), (None, Some(from_5)), (rate(9), None)], "what another path was told");
        assert_eq!(links[2], [(rate(9), None), (None, Some(from_7)), (rate(2), None)]);
        assert_eq!(links[3], [(rate(9), None), (rate(9), None)], "there are no more rates than links");
        // The last statement counts, over any path; also that the rate is unknown now.
        for (millis, labels, reported) in [(2, [to_5, end_2], rate(3)), (3, [to_7, end_1], None)] {
            let again = Way { rates: alloc::vec![reported], ..found(Tag::Labels(labels.concat())) };
            paths.on_probe(Time::from_millis(millis), again, &mut random);
        }
        let known = paths.candidates(Time::from_millis(3), |_| true);
        let first: Vec<Option<Rate>> = known.iter().map(|path| path.links[0].rate).collect();
        assert_eq!(first, [None, None, rate(3), rate(3)]);
    }

    #[test]
    fn a_path_that_is_refused_is_not_used_again_though_it_may_be_told_of() {
        let (mut paths, mut random) = paths(1);
        (1..=2).for_each(|label| {
            probe(&mut paths, &mut random, label);
        });
        assert!(paths.refuse(&[PathId(1)], &mut random));
        assert!(!probe(&mut paths, &mut random, 1), "a probe does not bring it back");
        let reported = |paths: &Paths, also| paths.reported(|_| also).map(|(id, _)| id.0).collect::<Vec<_>>();
        assert_eq!((reported(&paths, false), reported(&paths, true)), (alloc::vec![2], alloc::vec![1, 2]));
    }

    #[test]
    fn many_tags_take_bounded_room() {
        let (mut paths, mut random) = paths(4);
        for label in 0..2000u32 {
            let tag = Tag::Labels(label.to_be_bytes().to_vec());
            paths.on_probe(Time::from_millis(u64::from(label)), found(tag), &mut random);
        }
        assert_eq!((paths.len(), in_use(&paths)), (PATHS_MAX, alloc::vec![1, 2, 3, 4]));
    }
}
