//! One gateway with an origin against one nginx with `proxy_cache`: cache misses and cache hits.
use std::{io::sink, net::SocketAddr, time::Instant};

use super::{
    Context, Findings,
    site::{self, LARGE, Origin, SMALL, read},
};
use crate::{
    Outcome,
    harness::{figure::Figure, interrupt, targets, tools},
};

/// Small files. The first request of each is a miss.
const MISSES: usize = 10_000;
/// Requests of each client that hit small files.
const HITS: usize = 2_000;
/// Clients at once.
const CLIENTS: usize = 32;
/// Maximum rate of the origin in bytes a second: no limit in practice.
const RATE: u64 = 4_000_000_000;

/// Of one round, each measured in turn.
struct Round {
    /// Milliseconds of a request that is missed.
    miss_ms: f64,
    /// Small files a second to one client, and to all.
    hits: [f64; 2],
    /// Bytes of the large file a second to one client, and to all.
    rates: [f64; 2],
}

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let Some(nginx) = tools::find("nginx") else {
        return Ok(Findings { notes: vec![tools::missing("nginx", "both")], ..Findings::default() });
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..context.arguments.rounds() {
        interrupt::check()?;
        let origin = Origin::start(RATE)?;
        let address = site::free_address()?;
        let _gateway = site::gateway(context, &origin, address, &format!("gateway-{round}"), "")?;
        ours.push(measure(address)?);
        let (_process, address) = site::proxy_cache(context, &nginx, &origin, round)?;
        theirs.push(measure(address)?);
    }
    let mut findings = Findings::default();
    let mut add = |what: &str, unit, value: fn(&Round) -> f64, target| {
        let of = |rounds: &[Round]| rounds.iter().map(value).collect();
        findings.figures.push(Figure::new(what, unit, of(&ours)).rival("nginx", of(&theirs)).judged(target));
    };
    add("a small file that is missed", "ms", |round| round.miss_ms, targets::COPY_MISS);
    add("small files from the cache, one client", "per second", |round| round.hits[0], targets::COPY_HIT);
    add("the same, 32 clients", "per second", |round| round.hits[1], targets::COPY_HIT);
    add("a large file from the cache, one client", "B/s", |round| round.rates[0], targets::COPY_HIT);
    add("the same, 32 clients", "B/s", |round| round.rates[1], targets::COPY_HIT);
    findings.notes.push(format!("{MISSES} files of {SMALL} bytes one after the other, and one of {} MiB", LARGE >> 20));
    Ok(findings)
}

fn measure(address: SocketAddr) -> Outcome<Round> {
    let begun = Instant::now();
    read(address, (0..MISSES).map(|file| format!("/small/{file}")), &mut sink())?;
    let miss_ms = begun.elapsed().as_secs_f64() * 1_000.0 / MISSES as f64;
    read(address, ["/large".to_string()], &mut sink())?;
    let (mut hits, mut rates) = ([0.0; 2], [0.0; 2]);
    for (of, clients) in [1, CLIENTS].into_iter().enumerate() {
        let addresses = vec![address; clients];
        let begun = Instant::now();
        site::at_once(&addresses, |address| {
            read(address, (0..HITS).map(|request| format!("/small/{}", request * 7_919 % MISSES)), &mut sink())
        })?;
        hits[of] = (clients * HITS) as f64 / begun.elapsed().as_secs_f64();
        let (files, begun) = (64 / clients, Instant::now());
        site::at_once(&addresses, |address| read(address, vec!["/large".to_string(); files], &mut sink()))?;
        rates[of] = (clients * files) as f64 * LARGE as f64 / begun.elapsed().as_secs_f64();
    }
    Ok(Round { miss_ms, hits, rates })
}
