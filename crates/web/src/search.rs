//! Which file is wanted, when mirrors have different ones.
//!
//! ```text
//!   probe the mirrors ──► candidates: their sizes ──► the best one ──► fetch it ──┬─ its checksum fits, or none is known ──► done
//!        ▲                                                                        │
//!        └──── the next candidate, the decoded bytes, or all of it as one stream ◄┘
//! ```
//! A checksum or the hashes of pieces identify the file. Without them the majority of the mirrors does: by the size, then by
//! bytes at a few places. The order of the mirrors only decides between candidates of equal weight.
use reqwest::Url;
use std::{collections::BTreeMap, mem, time::Duration};
use tokio::time::timeout;
use tributary_core::event::TransferReport;
use tributary_net::Clock;
use tributary_transport::limit::TokenBucket;

use crate::{
    client::{Lanes, Shared},
    download::{Control, End, Fetch, LIMIT_BURST, MIRRORS_MAX, Outcome, REPORT_INTERVAL, Update, Wanted, WebError},
    habits::{Habit, Habits},
    probing::{Probe, Probed, probe_all, sample_all},
    request::{Ask, Head, Refusal, request, shown},
    spool::Spool,
};

/// Maximum attempts to fetch a file.
const ATTEMPTS_MAX: u32 = 8;
/// Maximum attempts to fetch a file that changes, or whose mirrors are mixed; the later half fetch it as one stream.
const CHANGES_MAX: u32 = 4;
/// Maximum mirrors taken from the fields of an answer (RFC 6249).
const ADVERTISED_MAX: usize = 8;

/// A mirror, and either its answer or the reason why it does not serve the chosen file.
pub(crate) struct Candidate {
    pub(crate) url: Url,
    pub(crate) answer: Result<Probed, Refusal>,
    pub(crate) habit: Habit,
}

/// What the attempts so far have shown.
pub(crate) struct Search {
    wanted: Wanted,
    habits: Habits,
    /// Sizes of files that are not the wanted one; `None` is one of unknown size.
    refuted: Vec<Option<u64>>,
    /// The sizes that mirrors sent in this attempt.
    offered: Vec<Option<u64>>,
    /// The candidate of this attempt.
    chosen: Option<u64>,
    /// All of the file, if it arrived as one stream or was decoded.
    spool: Option<Spool>,
    changes: u32,
    /// Whether several servers answer for one URL, so that one of them may have other bytes.
    is_mixed: bool,
}

impl Search {
    pub(crate) async fn run(
        wanted: &Wanted,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<Outcome, WebError> {
        let mut search = Search {
            wanted: wanted.clone(),
            habits: Habits::load(wanted.state_dir.as_deref()),
            refuted: Vec::new(),
            offered: Vec::new(),
            chosen: None,
            spool: None,
            changes: 0,
            is_mixed: false,
        };
        let mut attempts = 1;
        loop {
            let end = match search.attempt(on_update).await {
                Ok(outcome) => return Ok(outcome),
                Err(end) => end,
            };
            attempts += 1;
            match search.learn(end) {
                Ok(()) if attempts <= ATTEMPTS_MAX => {}
                Ok(()) => return Err(WebError::Incomplete("the mirrors' files change all the time".into())),
                Err(error) => return Err(error),
            }
        }
    }
    /// Decides whether another attempt is worth it.
    fn learn(&mut self, end: End) -> Result<(), WebError> {
        let is_proven = self.wanted.checksum.is_some() || self.wanted.pieces.is_some();
        let error = match end {
            End::Mismatch { decoded: Some(decoded), .. } => {
                self.spool = Some(decoded);
                return Ok(());
            }
            End::Mismatch { error, servers, .. } => {
                self.is_mixed |= servers > self.wanted.mirrors.len();
                if self.is_mixed && self.changes < CHANGES_MAX {
                    self.changes = (self.changes + 1).max(CHANGES_MAX / 2);
                    return Ok(());
                }
                error
            }
            End::Changed(_) if self.changes < CHANGES_MAX => {
                self.changes += 1;
                return Ok(());
            }
            End::Changed(error) | End::Failed(error) => error,
        };
        self.refuted.push(self.chosen);
        let is_left = self.offered.iter().any(|size| !self.refuted.contains(size));
        let may_help = matches!(error, WebError::Incomplete(_) | WebError::Mismatch(_) | WebError::NotFound(_));
        if is_proven && is_left && may_help && self.wanted.size.is_none() { Ok(()) } else { Err(error) }
    }
    async fn attempt(&mut self, on_update: &mut dyn FnMut(Update) -> Control) -> Result<Outcome, End> {
        let mut wanted = self.wanted.clone();
        let shared = Shared::new(&wanted.client)?;
        let lanes = Lanes::new(&wanted.mirrors, &wanted.client)?;
        let is_stream = self.changes >= CHANGES_MAX / 2;
        let is_alone = wanted.mirrors.len() == 1 && lanes.firsts().count() == 1;
        let how = |url: &Url| match is_stream || self.habits.of(url).is_stream {
            true => Probe::Whole,
            false if is_alone => Probe::FromStart,
            false => Probe::FirstByte,
        };
        let mut probed = probe_all(&wanted.mirrors, &how, wanted.patience, &lanes, &shared, on_update).await?;
        if self.take_advertised(&probed) {
            return Box::pin(self.attempt(on_update)).await;
        }
        wanted.checksum = self.wanted.checksum.clone();
        for (at, mirror) in probed.iter_mut().flatten().enumerate() {
            // The answer of one mirror is the file; the next one may be of another version.
            mirror.held.take_if(|_| !(is_alone || is_stream && at == 0));
            mirror.head.ranges &= !is_stream;
        }
        let clock = Clock::new();
        let spool = mem::take(&mut self.spool);
        let decoded = spool.as_ref().map(|spool| spool.size);
        self.chosen = self.choose(&probed);
        let (spool, size) = match (spool, self.chosen) {
            (Some(spool), _) => {
                let size = spool.size;
                (Some(spool), size)
            }
            (None, Some(size)) => (None, size),
            (None, None) if probed.iter().all(Result::is_err) => (None, 0),
            (None, None) => {
                let spool = self.read_stream(&mut probed, &lanes, &shared, clock, on_update).await?;
                let size = spool.size;
                (Some(spool), size)
            }
        };
        let mut mirrors = self.candidates(&wanted, probed, size, decoded.is_some());
        let is_proven = wanted.checksum.is_some() || wanted.pieces.is_some();
        if !is_proven && spool.is_none() {
            let able: Vec<(usize, &Url, usize)> = mirrors
                .iter()
                .enumerate()
                .filter_map(|(at, mirror)| {
                    let probed = mirror.answer.as_ref().ok().filter(|probed| probed.head.ranges)?;
                    Some((at, &mirror.url, *probed.times.keys().next()?))
                })
                .collect();
            let odd = odd_ones(&sample_all(&able, size, &lanes, &shared).await);
            for at in odd {
                let reason = "has another file of this size: its bytes differ from most mirrors'".into();
                mirrors[at].answer = Err(Refusal::Faulty(reason));
            }
        }
        let mut fetch = Fetch::open(&wanted, clock, size, mirrors, on_update)?;
        let ended = fetch.complete(&lanes, &shared, spool.as_ref(), on_update).await;
        if ended.is_ok() {
            self.habits.learn(fetch.habits());
        }
        ended
    }
    /// Adds the mirrors and the checksum named by answers (RFC 6249). True if there are new mirrors.
    fn take_advertised(&mut self, probed: &[Result<Probed, Refusal>]) -> bool {
        let heads = || probed.iter().flatten().map(|probed| &probed.head);
        if !self.wanted.client.origin.is_trusted() || self.wanted.pieces.is_some() {
            return false;
        }
        let stated = heads().find_map(|head| head.advertised.checksum.clone());
        let Some(checksum) = self.wanted.checksum.clone().or(stated) else { return false };
        // Only a checksum shows that they have the same file.
        let before = self.wanted.mirrors.len();
        for mirror in heads().flat_map(|head| &head.advertised.mirrors).take(ADVERTISED_MAX) {
            if self.wanted.mirrors.len() < MIRRORS_MAX && !self.wanted.mirrors.contains(&mirror.url) {
                self.wanted.mirrors.push(mirror.url.clone());
            }
        }
        self.wanted.checksum = Some(checksum);
        self.wanted.mirrors.len() > before
    }
    /// The known size, or the size that most mirrors state; mirrors with ranges win a tie.
    fn choose(&mut self, probed: &[Result<Probed, Refusal>]) -> Option<u64> {
        let heads = || probed.iter().flatten().map(|probed| &probed.head);
        self.offered = heads().map(|head| head.size).collect();
        let mut weights: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        for (head, size) in heads().filter_map(|head| Some((head, head.size?))) {
            let weight = weights.entry(size).or_default();
            *weight = (weight.0 + 1, weight.1 || head.ranges);
        }
        let sizes = self.offered.iter().rev().flatten().filter(|size| !self.refuted.contains(&Some(**size)));
        self.wanted.size.or_else(|| sizes.max_by_key(|size| weights[*size]).copied())
    }
    fn candidates(
        &self,
        wanted: &Wanted,
        probed: Vec<Result<Probed, Refusal>>,
        size: u64,
        is_decoded: bool,
    ) -> Vec<Candidate> {
        let with_reason = |has: u64| {
            let what = if wanted.size.is_some() { "the file has" } else { "most mirrors, or the first one, have" };
            Refusal::Faulty(format!("has another file, of {has} bytes: {what} {size}"))
        };
        let judged = |(url, probed): (&Url, Result<Probed, Refusal>)| {
            let answer = probed.and_then(|probed| match probed.head.size {
                Some(has) if has != size && !is_decoded => Err(with_reason(has)),
                _ => Ok(probed),
            });
            Candidate { url: url.clone(), answer, habit: self.habits.of(url) }
        };
        wanted.mirrors.iter().zip(probed).map(judged).collect()
    }
    /// Reads a file of unknown length from the first mirror that has one.
    async fn read_stream(
        &self,
        probed: &mut [Result<Probed, Refusal>],
        lanes: &Lanes,
        shared: &Shared,
        clock: Clock,
        on_update: &mut dyn FnMut(Update) -> Control,
    ) -> Result<Spool, WebError> {
        let name = shown(&self.wanted.mirrors[0]);
        let mut limit = TokenBucket::new(self.wanted.rate_limit, LIMIT_BURST);
        let mut why = "no mirror answers".to_string();
        let is_left = |head: &Head| !self.refuted.contains(&head.size);
        for attempt in 0..CHANGES_MAX {
            for (at, mirror) in probed.iter_mut().enumerate() {
                let Some(mirror) = mirror.as_mut().ok().filter(|mirror| is_left(&mirror.head)) else { continue };
                let lane = mirror.times.keys().next().copied().unwrap_or_default();
                let opened = match mirror.held.take() {
                    Some(held) => Ok(held),
                    None => request(&lanes.clients[at][lane], shared, &self.wanted.mirrors[at], &Ask::Whole).await,
                };
                let mut spool = Spool::beside(&self.wanted.output)?;
                let mut reported = clock.now();
                let read = async {
                    let mut answer = opened.map_err(Ok)?;
                    loop {
                        let silent = || Refusal::Again { reason: "it stalls".into(), wait: None };
                        let read = timeout(self.wanted.patience, answer.read()).await;
                        let Some(bytes) = read.map_err(|_| Ok(silent()))?.map_err(Ok)? else { return Ok(()) };
                        spool.write(&bytes).map_err(Err)?;
                        let now = clock.now();
                        limit.on_pass(now, bytes.len() as u64);
                        tokio::time::sleep(limit.ready_at().since(now)).await;
                        if now.since(reported) >= REPORT_INTERVAL {
                            reported = now;
                            let report = TransferReport { stored_bytes: spool.size, ..TransferReport::default() };
                            if on_update(Update::Report(Box::new(report), now)).is_break() {
                                return Err(Err(WebError::Stopped));
                            }
                        }
                    }
                };
                let read: Result<(), Result<Refusal, WebError>> = read.await;
                match read {
                    Ok(()) => return Ok(spool),
                    Err(Err(error)) => return Err(error),
                    Err(Ok(refusal)) => why = refusal.reason(),
                }
            }
            tokio::time::sleep(Duration::from_millis(300) * (1 << attempt)).await;
        }
        Err(WebError::Incomplete(format!("cannot fetch '{name}': {why}, and no server reports the length of the file")))
    }
}

/// Those whose sample differs from the most frequent one; the first one decides between two equally frequent ones.
fn odd_ones(samples: &BTreeMap<usize, blake3::Hash>) -> Vec<usize> {
    let count = |hash: &blake3::Hash| samples.values().filter(|other| *other == hash).count();
    let usual = samples.values().rev().max_by_key(|hash| count(hash)).copied();
    samples.iter().filter(|(_, hash)| Some(**hash) != usual).map(|(at, _)| *at).collect()
}
