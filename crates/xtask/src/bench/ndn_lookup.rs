//! The forwarding decision of an NDN forwarder, in this process: as the router makes it, as the acceleration base could
//! make it at best, by hash and by a trie of components, at 10, 10³ and 10⁶ prefixes; and the cost of reading and
//! writing a packet.
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher},
    hint::black_box,
    time::Instant,
};

use tributary_content::Name;
use tributary_core::{FaceId, Random};
use tributary_ndn::{
    ids::Nonce,
    router::{
        fab::Fab,
        fib::{Fib, FibIndex, NextHop},
        hash::{NameHasher, Prefixes},
    },
    wire::{Data, Interest, LpPacket, NameView, PathTag, SignKey},
};

use super::{Context, Findings};
use crate::{Outcome, harness::figure::Figure};

/// Look-ups or packets per timed batch.
const BATCH: usize = 100_000;
/// Flows that take turns: few, more, almost as many as the acceleration base holds, and enough that it never hits.
const FLOWS: [usize; 4] = [64, 1_000, 4_000, BATCH];
/// Flows used alternately where prefixes are as long as names.
const FLOWS_OF_LONG: usize = 1_000;
/// Flows that the acceleration base holds: the default of a node.
const BASE_FLOWS: usize = 4_096;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    let rounds = context.arguments.rounds();
    for count in [10u64, 1_000, 1_000_000] {
        let mut table = Table::new(count)?;
        for flows in FLOWS {
            let names = table.names(flows)?;
            findings.figures.extend(compared(
                table.ways(),
                rounds,
                &names,
                &format!("{count} prefixes, {flows} flows"),
            )?);
            if flows == FLOWS[0] && count == 1_000 {
                findings.figures.extend(compared(table.hashes(), rounds, &names, "no table")?);
            }
        }
        table.add_long()?;
        let names = table.names(FLOWS_OF_LONG)?;
        let what = format!("{count} prefixes and three as long as names, {FLOWS_OF_LONG} flows");
        findings.figures.extend(compared(table.ways(), rounds, &names, &what)?);
    }
    for (what, run) in [
        ("reading an Interest", read_interest as fn() -> f64),
        ("writing an Interest", write_interest),
        ("reading a Data of 8,000 bytes", read_data),
        ("writing a Data of 8,000 bytes, unsigned", write_data),
        ("the same with its SHA-256", write_signed_data),
        ("reading a link packet with a tag", read_link),
        ("writing the head of a link packet with a tag", write_link),
    ] {
        let values = (0..rounds).map(|_| run()).collect();
        findings.figures.push(Figure::new(what, "ns/packet", values));
    }
    findings.notes.push(format!(
        "a look-up goes from the name to the first next hop; the router's, the hash's and the marked ones include the \
         hash of the whole name, which the PIT needs; the two other ways of the base try no prefix as long as the \
         name; batches of {BATCH} names, looked up once before; the base holds {BASE_FLOWS} flows, so with {BATCH} \
         flows in turn it never hits",
    ));
    Ok(findings)
}

/// A method of looking up or hashing names, and its title.
type Way<'a, T> = (&'static str, Box<dyn FnMut(NameView<'_>) -> T + 'a>);

fn way<'a, T>(title: &'static str, way: impl FnMut(NameView<'_>) -> T + 'a) -> Way<'a, T> {
    (title, Box::new(way))
}

/// Times the methods alternately, and compares the first with each of the others.
fn compared<T: PartialEq>(
    mut ways: Vec<Way<'_, T>>,
    rounds: usize,
    names: &[Name],
    what: &str,
) -> Outcome<Vec<Figure>> {
    let known: Vec<T> = names.iter().map(|name| ways[0].1(name.into())).collect();
    for (title, way) in &mut ways[1..] {
        if names.iter().zip(&known).any(|(name, known)| way(name.into()) != *known) {
            return Err(format!("{title} gives a different result, {what}").into());
        }
    }
    let mut values = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for ((_, way), values) in ways.iter_mut().zip(&mut values) {
            values.push(nanoseconds(|| {
                for name in names {
                    black_box(way(name.into()));
                }
            }));
        }
    }
    let ours = &values[0];
    let rival = ways.iter().zip(&values).skip(1);
    let first = ways[0].0;
    Ok(rival
        .map(|((title, _), values)| {
            Figure::new(format!("{first}, {what}"), "ns", ours.clone()).rival(*title, values.clone())
        })
        .collect())
}

struct Table {
    hasher: NameHasher,
    fib: Fib,
    trie: Trie,
    prefixes: Vec<Name>,
}

/// A trie of components, as the textbook has it.
struct Trie {
    children: HashMap<Box<[u8]>, Trie, ComponentHasher>,
    face: Option<FaceId>,
}

/// Hashes components as names are hashed.
#[derive(Clone, Copy)]
struct ComponentHasher {
    hasher: NameHasher,
    hash: u64,
}

impl BuildHasher for ComponentHasher {
    type Hasher = ComponentHasher;

    fn build_hasher(&self) -> ComponentHasher {
        *self
    }
}

impl Hasher for ComponentHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.hasher.join(self.hash, bytes);
    }
    /// Nothing: a component holds its length, and its hash has it.
    fn write_usize(&mut self, _: usize) {}
    fn finish(&self) -> u64 {
        self.hash
    }
}

impl Trie {
    fn new(hasher: NameHasher) -> Trie {
        Trie { children: HashMap::with_hasher(ComponentHasher { hasher, hash: 0 }), face: None }
    }
    fn insert(&mut self, prefix: &Name, face: FaceId) {
        let (mut at, mut start) = (self, 0);
        for component in NameView::from(prefix).components() {
            let hasher = at.children.hasher().hasher;
            let key = &prefix.as_tlv()[start..component.end];
            start = component.end;
            at = at.children.entry(key.into()).or_insert_with(|| Trie::new(hasher));
        }
        at.face = Some(face);
    }
    fn look_up(&self, name: NameView<'_>) -> Option<FaceId> {
        let (mut at, mut found, mut start) = (self, self.face, 0);
        for component in name.components() {
            let Some(next) = at.children.get(&name.as_tlv()[start..component.end]) else { break };
            (at, start) = (next, component.end);
            found = at.face.or(found);
        }
        found
    }
}

impl Table {
    /// Prefixes of three to five components, as sites, groups and collections have them.
    fn new(count: u64) -> Outcome<Table> {
        let mut random = Random::new(1, count);
        let hasher = NameHasher::new([random.bits(), random.bits()]);
        let mut table = Table { hasher, fib: Fib::new(hasher, 1 << 21), trie: Trie::new(hasher), prefixes: Vec::new() };
        for number in 0..count {
            let mut prefix: Name = format!("/net/site-{}/group-{number}", number % 1009).parse()?;
            for _ in 0..random.below(3) {
                prefix = prefix.child(format!("part-{}", random.below(50)).as_bytes())?;
            }
            table.add(&prefix, FaceId(number as u32));
            table.prefixes.push(prefix);
        }
        Ok(table)
    }
    /// Prefixes with as many components as names have, so that any name may be one.
    fn add_long(&mut self) -> Outcome {
        for prefix in ["/net/long/1/2/3/4", "/net/long/1/2/3/4/5", "/net/long/1/2/3/4/5/6"] {
            self.add(&prefix.parse()?, FaceId(7));
        }
        Ok(())
    }
    fn add(&mut self, prefix: &Name, face: FaceId) {
        self.fib.set(prefix, &[NextHop { face, cost: 0 }], 0);
        self.trie.insert(prefix, face);
    }
    /// Names of segments of `flows` objects in turn.
    fn names(&self, flows: usize) -> Outcome<Vec<Name>> {
        let name = |at: usize| {
            let flow = at % flows;
            let prefix = &self.prefixes[flow * 7919 % self.prefixes.len()];
            let object = prefix.child(format!("file-{flow}").as_bytes())?.typed_child(54, &[1])?;
            Ok(object.typed_child(50, &(at as u32 / flows as u32).to_be_bytes())?)
        };
        (0..BATCH).map(name).collect()
    }
    fn face(&self, found: Option<FibIndex>) -> Option<FaceId> {
        Some(self.fib.entry(found?).next_hops[0].face)
    }
    /// Lookups in a table that does not know the flow.
    fn flow_is_unknown(&self, name: NameView<'_>) -> Option<FibIndex> {
        let prefixes = self.hasher.prefixes(name);
        self.fib.longest_match_from(&prefixes, name.as_tlv(), prefixes.depth() - 1)
    }
    /// The hash and the length of the name's flow, and the hash of the whole name, in one pass that keeps no others.
    fn flow_and_total(&self, name: NameView<'_>) -> (u64, usize, u64) {
        let (mut total, mut flow, mut end, mut start) = (0, 0, 0, 0);
        for component in name.components() {
            (flow, end) = (total, start);
            total = self.hasher.join(total, &name.as_tlv()[start..component.end]);
            start = component.end;
        }
        (flow, end, total)
    }
    /// The lookup methods; the first is the router's.
    fn ways(&self) -> Vec<Way<'_, Option<FaceId>>> {
        let bases = || Fab::new(BASE_FLOWS);
        let (mut router, mut saving, mut best) = (bases(), bases(), bases());
        let generation = self.fib.generation;
        let known = move |base: &mut Fab, name: NameView<'_>, hash: u64, flow: &[u8]| {
            self.face(base.lookup(hash, flow, generation).unwrap_or_else(|| {
                let found = self.flow_is_unknown(name);
                base.insert(hash, flow, found);
                found
            }))
        };
        vec![
            way("router", move |name| {
                let mut prefixes = Prefixes::default();
                self.hasher.fill(&mut prefixes, name);
                self.face(router.longest_match(&self.fib, name, &prefixes))
            }),
            way("base, hash of flow and whole", move |name| {
                let (hash, end, total) = self.flow_and_total(name);
                black_box(total);
                known(&mut saving, name, hash, &name.as_tlv()[..end])
            }),
            way("base at best, hash of flow only", move |name| {
                let flow = name.parent().as_tlv();
                known(&mut best, name, self.hasher.join(0, flow), flow)
            }),
            way("hash", move |name| {
                let mut prefixes = Prefixes::default();
                self.hasher.fill(&mut prefixes, name);
                self.face(self.fib.longest_match(&prefixes, name.as_tlv()))
            }),
            way("trie, hash of whole", move |name| {
                black_box(self.hasher.name(name));
                self.trie.look_up(name)
            }),
            way("trie", move |name| self.trie.look_up(name)),
        ]
    }
    /// The hashing methods.
    fn hashes(&self) -> Vec<Way<'_, ()>> {
        let mut room = Prefixes::default();
        vec![
            way("hashes of all prefixes", move |name| {
                black_box(self.hasher.prefixes(name));
            }),
            way("the same, into room that is kept", move |name| {
                self.hasher.fill(&mut room, name);
                black_box(&room);
            }),
            way("of flow and whole", move |name| {
                black_box(self.flow_and_total(name));
            }),
            way("of whole", move |name| {
                black_box(self.hasher.name(name));
            }),
            way("of flow, at once", move |name| {
                black_box(self.hasher.join(0, name.parent().as_tlv()));
            }),
            way("of nothing, components read", move |name| {
                black_box(name.parent());
            }),
        ]
    }
}

fn segment() -> Name {
    "/net/site-7/group-7/file-7/v=1795324062482734/seg=1000".parse().expect("a name")
}
fn interest(name: &Name) -> Interest<'_> {
    Interest { nonce: Some(Nonce([1, 2, 3, 4])), lifetime_millis: Some(2_000), ..Interest::new(NameView::from(name)) }
}
fn read_interest() -> f64 {
    let (name, mut interests) = (segment(), Vec::new());
    interests.push(interest(&name).encode());
    repeated(|| drop(black_box(Interest::decode(black_box(&interests[0])))))
}
fn write_interest() -> f64 {
    let name = segment();
    repeated(|| drop(black_box(interest(black_box(&name)).encode())))
}
fn read_data() -> f64 {
    let name = segment();
    let packet = Data::new(NameView::from(&name), &[7; 8_000]).sign(&SignKey::Digest);
    repeated(|| drop(black_box(Data::decode(black_box(&packet)))))
}
fn write_data() -> f64 {
    write_data_signed_by(&SignKey::Null)
}
fn write_signed_data() -> f64 {
    write_data_signed_by(&SignKey::Digest)
}
fn write_data_signed_by(key: &SignKey) -> f64 {
    let name = segment();
    repeated(|| drop(black_box(Data::new(NameView::from(&name), black_box(&[7; 8_000])).sign(key))))
}
const TAG: [u8; 16] = [5; 16];
fn link(fragment: &[u8]) -> LpPacket<'_> {
    LpPacket { pit_token: Some(&[7; 6]), tag: PathTag::parse(&TAG).ok(), probe: true, ..LpPacket::around(fragment) }
}
fn read_link() -> f64 {
    let packet = link(&[7; 1_400]).encode();
    repeated(|| drop(black_box(LpPacket::decode(black_box(&packet)))))
}
fn write_link() -> f64 {
    let mut head = Vec::with_capacity(64);
    repeated(|| {
        head.clear();
        link(black_box(&[7; 1_400])).encode_head(Some(1_400), &mut head);
        black_box(&head);
    })
}

fn repeated(mut run: impl FnMut()) -> f64 {
    nanoseconds(|| (0..BATCH).for_each(|_| run()))
}
/// Nanoseconds for each of a batch.
fn nanoseconds(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9 / BATCH as f64
}
