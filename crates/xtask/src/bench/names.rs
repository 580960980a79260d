//! Names that a resolver keeps in an etcd cluster of three members on this machine, compared with the embedded engine
//! in memory: the rate of puts and lookups, and the delay until a watch at another resolver reports a change.
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

use tributary_content::{MemoryObject, ObjectReader, SigningKey};
use tributary_core::{Random, Time};
use tributary_mf::{
    NameMessage, NameRecord, Readers, RecordBody, Statement,
    ids::{Guid, NetworkAddress},
    resolver::{Asker, Records, Replica, Stored},
    wire::Refusal,
};
use tributary_testkit::etcd::EtcdCluster;
use tributary_web::{
    Url,
    etcd::{Etcd, EtcdOptions},
};

use super::{Context, Findings};
use crate::{
    Outcome,
    harness::{figure::Figure, interrupt, rounds::median, tools},
    note,
};

/// Maximum records of a product's replica by default.
const RECORDS_MAX: usize = 1_000_000;
/// Questions that are open at the same time; a client has as many open puts.
const WINDOW: usize = 64;
/// Records that are signed before they are put.
const SIGNED: u64 = 10_000;
/// Lookups per timed batch, and changes of a watched name.
const LOOKUPS: usize = 5_000;
const CHANGES: usize = 200;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes that etcd may take for 10⁶ names.
const QUOTA: u64 = 8 << 30;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    if tools::find("etcd").is_none() {
        return Err(tools::missing("etcd", "of names in it").into());
    }
    let mut count = 10_000;
    while count <= context.arguments.records {
        interrupt::check()?;
        note(&format!("  {count} names"));
        at(context, count, &mut findings)?;
        count *= 10;
    }
    findings.notes.push(format!(
        "three members of etcd on loopback, on this machine's disk and processors; {WINDOW} questions open at a time; each \
         name is one record of {} bytes under one device; the embedded engine is one replica in memory, without a disk; \
         the client of etcd verifies each record that it reads, a replica each that it takes",
        record(&SigningKey::from_secret(&[1; 32]), 0, 1)?.encode().len()
    ));
    Ok(findings)
}

fn at(context: &mut Context<'_>, count: u64, findings: &mut Findings) -> Outcome {
    let folder = tempfile::tempdir_in(context.stage.path("."))?;
    let more = ["--quota-backend-bytes".to_string(), QUOTA.to_string()];
    let cluster = EtcdCluster::with(3, folder.path(), "http", &more);
    let key = SigningKey::from_secret(&[1; 32]);
    let mut embedded = Resolver::embedded();
    let (mut one, mut other) = (Resolver::etcd(&cluster, 1)?, Resolver::etcd(&cluster, 2)?);
    one.begin()?;
    other.begin()?;
    let mut times = [embedded.fill(&key, count)?, one.fill(&key, count)?];
    let rate = |seconds: &mut f64, questions: f64| vec![questions / *seconds];
    let [ours, theirs] = times.each_mut().map(|seconds| rate(seconds, count as f64));
    findings.figures.push(Figure::new(format!("{count} names put, etcd"), "1/s", theirs).rival("embedded", ours));
    let (mut lookups, mut notified) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..context.arguments.rounds() {
        interrupt::check()?;
        lookups[0].push(embedded.look_up(count, round as u64)?);
        lookups[1].push(other.look_up(count, round as u64)?);
        let version = 10 + (round * CHANGES) as u64;
        notified[0].push(watched(&mut embedded, None, &key, version)?);
        notified[1].push(watched(&mut one, Some(&mut other), &key, version)?);
    }
    let [ours, theirs] = lookups;
    findings
        .figures
        .push(Figure::new(format!("lookups among {count} names, etcd"), "1/s", theirs).rival("embedded", ours));
    let [ours, theirs] = notified;
    findings.figures.push(
        Figure::new(format!("from a put to who watches at another resolver, {count} names, etcd"), "ms", theirs)
            .rival("embedded, the same resolver", ours),
    );
    Ok(())
}

/// A record of the name with this number.
fn record(key: &SigningKey, number: u64, version: u64) -> Outcome<NameRecord> {
    let object = MemoryObject::new(format!("/bench/{number}").parse()?, vec![7; 16], key)?;
    let body = RecordBody::Content(object.manifest().encode());
    let (key_of, label) = (key.public(), "bench".to_string());
    let statement =
        Statement { key: key_of, version, lifetime_ms: 600_000, ends: None, label, body, readers: Readers::All };
    Ok(NameRecord::sign(statement, key)?)
}
fn place(number: u64) -> Outcome<Guid> {
    Ok(Guid::of_name(&format!("/bench/{number}").parse()?))
}

/// A resolver's records, and its client.
struct Resolver {
    records: Box<dyn Records>,
    bell: Option<mpsc::Receiver<()>>,
    clock: Instant,
    asker: Asker,
}

impl Resolver {
    fn embedded() -> Resolver {
        Resolver::new(Box::new(Replica::new(RECORDS_MAX)), None)
    }
    fn etcd(cluster: &EtcdCluster, seed: u64) -> Outcome<Resolver> {
        let endpoints = cluster.endpoints().iter().map(|endpoint| Url::parse(endpoint)).collect::<Result<_, _>>()?;
        let (ring, bell) = mpsc::channel();
        let engine = Etcd::start(&EtcdOptions::new(endpoints, "/bench/"), move || {
            let _ = ring.send(());
        })?;
        Ok(Resolver::new(Box::new(Stored::new(Box::new(engine), 10_000_000, seed)), Some(bell)))
    }
    fn new(records: Box<dyn Records>, bell: Option<mpsc::Receiver<()>>) -> Resolver {
        let asker = Asker { guid: Guid::NONE, address: NetworkAddress(1) };
        Resolver { records, bell, clock: Instant::now(), asker }
    }
    fn now(&self) -> Time {
        Time::ZERO + self.clock.elapsed()
    }
    fn ask(&mut self, message: NameMessage) {
        let now = self.now();
        self.records.handle(now, self.asker, message);
    }
    /// Its next message, if one is due soon.
    fn poll(&mut self) -> Option<NameMessage> {
        let now = self.now();
        self.records.settle(now);
        if let Some((_, message)) = self.records.poll_message() {
            return Some(message);
        }
        let bell = self.bell.as_ref()?;
        let _ = bell.recv_timeout(Duration::from_millis(5));
        while bell.try_recv().is_ok() {}
        None
    }
    /// Waits until it knows the members.
    fn begin(&mut self) -> Outcome {
        let begun = Instant::now();
        loop {
            self.ask(NameMessage::Lookup { request: 1, place: place(0)? });
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {
                if let Some(NameMessage::Found { .. }) = self.poll() {
                    return Ok(());
                }
            }
            if begun.elapsed() > PATIENCE {
                return Err("the resolver does not begin".into());
            }
        }
    }
    /// Sends `count` requests, some at a time; returns the seconds until all are answered.
    fn drive(&mut self, count: u64, mut question: impl FnMut(u64) -> Outcome<NameMessage>) -> Outcome<f64> {
        let (begun, mut sent, mut answered, mut last) = (Instant::now(), 0, 0, Instant::now());
        while answered < count {
            while sent < count && sent - answered < WINDOW as u64 {
                let message = question(sent)?;
                self.ask(message);
                sent += 1;
            }
            match self.poll() {
                Some(NameMessage::Done { .. }) => answered += 1,
                Some(NameMessage::Found { records, .. }) if !records.is_empty() => answered += 1,
                // On a busy machine a member may be late; a device also repeats its requests.
                Some(NameMessage::Refused { request, refusal: Refusal::Engine }) => {
                    let message = question(u64::from(request))?;
                    self.ask(message);
                    continue;
                }
                Some(other) => return Err(format!("the answer to a question is {other:?}").into()),
                None if last.elapsed() > PATIENCE => return Err("a question is not answered".into()),
                None => continue,
            }
            last = Instant::now();
        }
        Ok(begun.elapsed().as_secs_f64())
    }
    fn fill(&mut self, key: &SigningKey, count: u64) -> Outcome<f64> {
        // Signing is the device's work, not the resolver's: a part of the records is signed, then the clock runs.
        let mut seconds = 0.0;
        for first in (0..count).step_by(SIGNED as usize) {
            let part = SIGNED.min(count - first);
            let records = (first..first + part).map(|number| Ok(record(key, number, 1)?.encode()));
            let records = records.collect::<Outcome<Vec<_>>>()?;
            seconds += self.drive(part, |number| {
                let record = records[number as usize].clone();
                Ok(NameMessage::Put { request: number as u32, place: place(first + number)?, record })
            })?;
        }
        Ok(seconds)
    }
    /// Lookups per second, of names at random.
    fn look_up(&mut self, count: u64, seed: u64) -> Outcome<f64> {
        let mut random = Random::new(seed, 1);
        let seconds = self.drive(LOOKUPS as u64, |number| {
            Ok(NameMessage::Lookup { request: number as u32, place: place(random.below(count))? })
        })?;
        Ok(LOOKUPS as f64 / seconds)
    }
}

/// The median time, in milliseconds, from a put at one resolver until another one, or the same, reports it.
fn watched(one: &mut Resolver, mut other: Option<&mut Resolver>, key: &SigningKey, version: u64) -> Outcome<f64> {
    let watch = NameMessage::Watch { request: version as u32, place: place(0)?, lease_ms: 3_600_000, known: 0 };
    let watcher = other.as_deref_mut().unwrap_or(one);
    watcher.ask(watch);
    let begun = Instant::now();
    while !matches!(watcher.poll(), Some(NameMessage::Found { .. } | NameMessage::Done { .. })) {
        if begun.elapsed() > PATIENCE {
            return Err("a watch is not answered".into());
        }
    }
    let mut times = Vec::new();
    for number in 0..CHANGES as u64 {
        let record = record(key, 0, version + number)?.encode();
        let begun = Instant::now();
        one.ask(NameMessage::Put { request: 1, place: place(0)?, record });
        let mut is_notified = false;
        while !is_notified {
            // The notified resolver has a separate thread in a network; here both take turns.
            let notified = other.as_deref_mut().unwrap_or(one).poll();
            is_notified = matches!(notified, Some(NameMessage::Notify { .. }));
            if begun.elapsed() > PATIENCE {
                return Err("a change is not reported".into());
            }
        }
        times.push(begun.elapsed().as_secs_f64() * 1_000.0);
        // The put is answered too.
        let until = Instant::now() + PATIENCE;
        while !matches!(one.poll(), Some(NameMessage::Done { .. })) && Instant::now() < until && other.is_some() {}
    }
    Ok(median(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_engine_answers_what_the_benchmark_asks() {
        let key = SigningKey::from_secret(&[1; 32]);
        let mut embedded = Resolver::new(Box::new(Replica::new(RECORDS_MAX)), None);
        assert!(embedded.fill(&key, 100).unwrap() >= 0.0);
        assert!(embedded.look_up(100, 1).unwrap() > 0.0);
        assert!(watched(&mut embedded, None, &key, 10).unwrap() >= 0.0);
    }
}
