//! The forwarding decision of an NDN forwarder, in this process: the acceleration base, longest prefix match by hash, and
//! a trie of components, at 10, 10³ and 10⁶ prefixes; and what reading and writing a packet costs.
use std::{collections::HashMap, hint::black_box, time::Instant};

use tributary_content::Name;
use tributary_core::{FaceId, Random};
use tributary_ndn::{
    ids::Nonce,
    router::{
        fab::Fab,
        fib::{Fib, NextHop},
        hash::NameHasher,
    },
    wire::{Data, Interest, LpPacket, NameView, PathTag, SignKey},
};

use super::{Context, Findings};
use crate::{Outcome, harness::figure::Figure};

/// Look-ups, or packets, that are timed at once.
const BATCH: usize = 100_000;
/// Flows that take turns.
const FLOWS: usize = 64;
/// Flows that the acceleration base holds: the default of a node.
const BASE_FLOWS: usize = 4_096;

/// Runs it.
pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    for count in [10u64, 1_000, 1_000_000] {
        let table = Table::new(count)?;
        for flows in [FLOWS, BATCH] {
            let names = table.names(flows)?;
            let rounds = 0..context.arguments.rounds();
            let (mut base, mut hash, mut trie) = (Vec::new(), Vec::new(), Vec::new());
            for _ in rounds {
                base.push(table.by_base(&names));
                hash.push(table.by_hash(&names));
                trie.push(table.by_trie(&names));
            }
            let figure =
                |what: &str, values| Figure::new(format!("{what}, {count} prefixes, {flows} flows"), "ns", values);
            findings
                .figures
                .push(figure("acceleration base", base.clone()).beside("longest prefix match by hash", hash.clone()));
            findings.figures.push(figure("acceleration base", base).beside("trie of components", trie));
        }
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
        let values = (0..context.arguments.rounds()).map(|_| run()).collect();
        findings.figures.push(Figure::new(what, "ns/packet", values));
    }
    findings.notes.push(format!(
        "look-ups include hashing the name's prefixes, which the forwarder needs anyway; batches of {BATCH}; the base holds \
         {BASE_FLOWS} flows, so with {BATCH} flows in turn it never hits",
    ));
    Ok(findings)
}

struct Table {
    hasher: NameHasher,
    fib: Fib,
    trie: Trie,
    prefixes: Vec<Name>,
}

/// A trie of components, as the textbook has it.
#[derive(Default)]
struct Trie {
    children: HashMap<Box<[u8]>, Trie>,
    face: Option<FaceId>,
}

impl Trie {
    fn insert(&mut self, prefix: &Name, face: FaceId) {
        let mut at = self;
        for component in prefix.components() {
            at = at.children.entry(component.into()).or_default();
        }
        at.face = Some(face);
    }
    fn look_up(&self, name: NameView<'_>) -> Option<FaceId> {
        let (mut at, mut found) = (self, self.face);
        for component in name.components() {
            let Some(next) = at.children.get(component.value) else { break };
            at = next;
            found = at.face.or(found);
        }
        found
    }
}

impl Table {
    /// Prefixes of two to five components, as sites, groups and collections have them.
    fn new(count: u64) -> Outcome<Table> {
        let mut random = Random::new(1, count);
        let hasher = NameHasher::new([random.bits(), random.bits()]);
        let mut table = Table { hasher, fib: Fib::new(hasher, 1 << 21), trie: Trie::default(), prefixes: Vec::new() };
        for number in 0..count {
            let mut prefix: Name = format!("/net/site-{}/group-{number}", number % 1009).parse()?;
            for _ in 0..random.below(3) {
                prefix = prefix.child(format!("part-{}", random.below(50)).as_bytes())?;
            }
            let face = FaceId(number as u32);
            table.fib.set(&prefix, &[NextHop { face, cost: 0 }], 0);
            table.trie.insert(&prefix, face);
            table.prefixes.push(prefix);
        }
        Ok(table)
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
    fn by_base(&self, names: &[Name]) -> f64 {
        let mut base = Fab::new(BASE_FLOWS);
        nanoseconds(|| {
            for name in names {
                let view = NameView::from(name);
                let Some(hashes) = self.hasher.prefixes(view) else { continue };
                let depth = hashes.depth() - 1;
                let (hash, end) = hashes.at(depth);
                let flow = &name.as_tlv()[..end];
                let found = base.lookup(hash, flow, 1).unwrap_or_else(|| {
                    let found = self.fib.longest_match_from(&hashes, name.as_tlv(), depth);
                    base.insert(hash, flow, found);
                    found
                });
                black_box(found);
            }
        })
    }
    fn by_hash(&self, names: &[Name]) -> f64 {
        nanoseconds(|| {
            for name in names {
                let Some(hashes) = self.hasher.prefixes(NameView::from(name)) else { continue };
                black_box(self.fib.longest_match(&hashes, name.as_tlv()));
            }
        })
    }
    fn by_trie(&self, names: &[Name]) -> f64 {
        nanoseconds(|| {
            for name in names {
                black_box(self.trie.look_up(NameView::from(name)));
            }
        })
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
