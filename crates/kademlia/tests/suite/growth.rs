//! How lookups grow, in a model of the routing tables: ids of 64 bits, buckets of 20 filled at random, and the lookup as
//! libp2p does it. Latencies, failures and the time of connections are not in it.
use std::collections::{BTreeMap, BTreeSet};

const BUCKET: usize = 20;
const PARALLEL: usize = 10;

/// A stream of numbers that is the same on every machine (splitmix64).
struct Numbers(u64);
impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The peers that each one knows: of each distance up to [`BUCKET`].
fn tables(ids: &[u64], numbers: &mut Numbers) -> Vec<Vec<u64>> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let table = |own: &u64| {
        let mut known = Vec::new();
        for bit in 0..64u32 {
            // All ids that have the first bits in common with the own one, and not the next.
            let (width, flipped) = (63 - bit, own ^ (1 << (63 - bit)));
            let first = flipped >> width << width;
            let from = sorted.partition_point(|id| *id < first);
            let to = sorted.partition_point(|id| *id <= first | ((1u64 << width) - 1));
            let there = &sorted[from..to];
            if there.len() <= BUCKET {
                known.extend(there);
                continue;
            }
            let mut chosen = BTreeSet::new();
            while chosen.len() < BUCKET {
                chosen.insert(there[(numbers.next() % there.len() as u64) as usize]);
            }
            known.extend(chosen);
        }
        known
    };
    ids.iter().map(table).collect()
}

/// A lookup: rounds until the closest were asked, messages, and whether they were found.
fn look_up(target: u64, from: usize, tables: &[Vec<u64>], places: &BTreeMap<u64, usize>) -> (u32, u32, Vec<u64>) {
    let closest = |known: &[u64]| {
        let mut known = known.to_vec();
        known.sort_unstable_by_key(|id| id ^ target);
        known.truncate(BUCKET);
        known
    };
    let mut seen: BTreeMap<u64, u64> = closest(&tables[from]).into_iter().map(|id| (id ^ target, id)).collect();
    let (mut asked, mut rounds, mut messages) = (BTreeSet::new(), 0, 0);
    loop {
        let next: Vec<u64> =
            seen.values().take(BUCKET).filter(|id| !asked.contains(*id)).take(PARALLEL).copied().collect();
        if next.is_empty() {
            return (rounds, messages, seen.values().take(BUCKET).copied().collect());
        }
        rounds += 1;
        for id in next {
            messages += 1;
            asked.insert(id);
            seen.extend(closest(&tables[places[&id]]).into_iter().map(|id| (id ^ target, id)));
        }
    }
}

#[test]
fn lookups_grow_with_the_logarithm_of_the_swarm() {
    const LOOKUPS: u32 = 200;
    let (mut numbers, mut rows) = (Numbers(1), Vec::new());
    for size in [100usize, 1_000, 10_000] {
        let ids: Vec<u64> = (0..size).map(|_| numbers.next()).collect();
        let places: BTreeMap<u64, usize> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let tables = tables(&ids, &mut numbers);
        let (mut rounds, mut messages, mut right) = (0, 0, 0);
        for _ in 0..LOOKUPS {
            let (target, from) = (numbers.next(), (numbers.next() % size as u64) as usize);
            let (more, sent, found) = look_up(target, from, &tables, &places);
            (rounds, messages) = (rounds + more, messages + sent);
            let mut all = ids.clone();
            all.sort_unstable_by_key(|id| id ^ target);
            right += found.iter().zip(&all).filter(|(one, other)| one == other).count();
        }
        let mean = |sum: u32| f64::from(sum) / f64::from(LOOKUPS);
        let known = tables.iter().map(Vec::len).sum::<usize>() as f64 / size as f64;
        let share = right as f64 / f64::from(LOOKUPS) / BUCKET as f64;
        println!(
            "{size:>6} peers: {:.1} rounds, {:.1} messages a lookup, {known:.0} peers known, {:.1} % of the closest found",
            mean(rounds),
            mean(messages),
            share * 100.0
        );
        assert!(share > 0.99, "{share}");
        rows.push((size as f64, mean(rounds), mean(messages)));
    }
    let exponent = |of: fn(&(f64, f64, f64)) -> f64| {
        let (first, last) = (&rows[0], &rows[rows.len() - 1]);
        (of(last) / of(first)).ln() / (last.0 / first.0).ln()
    };
    let (of_rounds, of_messages) = (exponent(|row| row.1), exponent(|row| row.2));
    println!("exponents from 100 to 10000 peers: rounds {of_rounds:.3}, messages {of_messages:.3}");
    assert!(of_rounds < 0.2 && of_messages < 0.2, "a logarithm grows more slowly than any power");
}
