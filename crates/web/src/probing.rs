//! The mirrors' descriptions of a file, before anything is fetched.
use reqwest::{Client, Url};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};
use tributary_core::Time;
use tributary_net::Clock;

use crate::{
    client::{Lanes, Shared},
    download::{Control, MIRRORS_MAX, REPORT_INTERVAL, Update, WebError},
    request::{Answer, Ask, Head, Refusal, request},
};

/// Attempts to get the head of a file from a user's mirror before it counts as absent. One from an untrusted source
/// gets a single attempt: it may not want requests.
const PROBES_MAX: u32 = 4;

/// A mirror's description.
pub(crate) struct Probed {
    pub(crate) head: Head,
    /// The unread rest of the answer over the first uplink. The probe of a single mirror requests the whole file, because some
    /// addresses work only once.
    pub(crate) held: Option<Answer>,
    /// How long the head of the answer took over each uplink, if it has arrived, by the uplink's first place in the
    /// lanes.
    pub(crate) times: BTreeMap<usize, Duration>,
}

/// The range that a probe requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// By its first byte.
    FirstByte,
    /// By all of it, in a range if possible.
    FromStart,
    /// By all of it, without a range.
    Whole,
}

/// Probes a mirror. If the server refuses the range, fails at it or omits the file's size, a second request without a range
/// follows.
async fn probe(client: &Client, shared: &Shared, url: &Url, how: Probe) -> Result<Answer, Refusal> {
    let first = match how {
        Probe::FirstByte => Ask::Bytes(0..1),
        Probe::FromStart => Ask::FromStart,
        Probe::Whole => Ask::Whole,
    };
    let answer = request(client, shared, url, &first).await;
    let is_final = match &answer {
        Ok(answer) => answer.head.size.is_some(),
        Err(refusal) => matches!(refusal, Refusal::Again { .. }),
    };
    // A publisher's mirror gets one request only.
    if is_final || first == Ask::Whole || !shared.origin.is_trusted() {
        return answer;
    }
    let delivers_ranges = answer.as_ref().is_ok_and(|answer| answer.head.ranges);
    match request(client, shared, url, &Ask::Whole).await {
        Ok(mut whole) => {
            whole.head.ranges = delivers_ranges && whole.head.size.is_some();
            Ok(whole)
        }
        Err(Refusal::Failed(_)) if answer.is_err() => answer,
        refused => refused,
    }
}

/// Queries every mirror over all uplinks; several times, since networks come and go. `how` is the form of the request
/// to each mirror.
pub(crate) async fn probe_all(
    mirrors: &[Url],
    how: &dyn Fn(&Url) -> Probe,
    patience: Duration,
    lanes: &Lanes,
    shared: &Arc<Shared>,
    report: &mut dyn FnMut(Update) -> Control,
) -> Result<Vec<Result<Probed, Refusal>>, WebError> {
    let firsts: Vec<usize> = lanes.firsts().collect();
    let attempts = if shared.origin.is_trusted() { PROBES_MAX } else { 1 };
    let (done, mut answers) = mpsc::channel(MIRRORS_MAX);
    for (at, url) in mirrors.iter().enumerate() {
        for lane in &firsts {
            let (client, how) = (lanes.clients[at][*lane].clone(), how(url));
            let (url, shared, done, lane) = (url.clone(), Arc::clone(shared), done.clone(), *lane);
            tokio::spawn(async move {
                let mut answer = Err(Refusal::Refused("it was not asked".into()));
                for attempt in 0..attempts {
                    answer = probe(&client, &shared, &url, how).await;
                    let wait = match &answer {
                        Err(Refusal::Again { wait, .. }) => *wait,
                        Err(Refusal::Failed(_)) => None,
                        _ => break,
                    };
                    if attempt + 1 < attempts {
                        tokio::time::sleep(wait.unwrap_or(Duration::from_millis(300) * (1 << attempt))).await;
                    }
                }
                let _ = done.send((at, lane, answer)).await;
            });
        }
    }
    drop(done);
    let mut probed: Vec<ProbedMirror> = mirrors.iter().map(|_| ProbedMirror::default()).collect();
    let clock = Clock::new();
    let begun = clock.now();
    let mut first_at = None;
    let mut reported_at = begun;
    loop {
        match tokio::time::timeout(LOOK_INTERVAL, answers.recv()).await {
            Ok(Some((at, lane, answer))) => {
                if answer.is_ok() {
                    first_at.get_or_insert_with(|| clock.now());
                }
                probed[at].answers.insert(lane, (answer, clock.now()));
            }
            Ok(None) => break,
            Err(_) => {}
        }
        let now = clock.now();
        if now.since(reported_at) >= REPORT_INTERVAL {
            reported_at = now;
            if report(Update::Report(Box::default(), Time::ZERO)).is_break() {
                return Err(WebError::Stopped);
            }
        }
        // A mirror that does not answer must not hold up those that do.
        let is_over = first_at.is_some_and(|at| now.since(at) >= PROBE_SLACK.max(at.since(begun) * 4));
        let is_complete = probed.iter().all(|mirror| mirror.is_settled(now, firsts.len()));
        if is_complete || is_over || now.since(begun) >= patience {
            break;
        }
    }
    Ok(probed.into_iter().map(ProbedMirror::judge).collect())
}

/// Bytes compared at each place, and the number of places.
const SAMPLE_BYTES: u64 = 4_096;
const SAMPLES: u64 = 3;

/// Hashes bytes at a few places of the file that each of these mirrors has, by their numbers, URLs and lanes. Mirrors that
/// take long are left out.
pub(crate) async fn sample_all(
    mirrors: &[(usize, &Url, usize)],
    size: u64,
    lanes: &Lanes,
    shared: &Arc<Shared>,
) -> BTreeMap<usize, blake3::Hash> {
    let mut sampled = BTreeMap::new();
    if mirrors.len() < 2 || size == 0 {
        return sampled;
    }
    let mut tasks = JoinSet::new();
    for (at, url, lane) in mirrors {
        let (at, url, client, shared) = (*at, (*url).clone(), lanes.clients[*at][*lane].clone(), Arc::clone(shared));
        tasks.spawn(async move {
            let mut hasher = blake3::Hasher::new();
            for place in 1..=SAMPLES {
                let first = size.saturating_sub(SAMPLE_BYTES) / SAMPLES * place;
                let mut left = SAMPLE_BYTES.min(size - first);
                let mut answer = request(&client, &shared, &url, &Ask::Bytes(first..first + left)).await.ok()?;
                if answer.at != first {
                    return None;
                }
                while left > 0 {
                    let bytes = answer.read().await.ok()??;
                    let length = left.min(bytes.len() as u64);
                    hasher.update(&bytes[..length as usize]);
                    left -= length;
                }
            }
            Some((at, hasher.finalize()))
        });
    }
    let all = async {
        while let Some(joined) = tasks.join_next().await {
            sampled.extend(joined.ok().flatten());
        }
    };
    let _ = tokio::time::timeout(PROBE_SLACK, all).await;
    sampled
}

/// The answers of a mirror by uplink.
#[derive(Default)]
struct ProbedMirror {
    answers: BTreeMap<usize, (Result<Answer, Refusal>, Time)>,
}
impl ProbedMirror {
    /// Whether nothing better is worth waiting for. The first uplink decides, since the network behind another one may
    /// answer in the server's place, such as one that requires a login; but the first may be down.
    fn is_settled(&self, now: Time, uplinks: usize) -> bool {
        let of_first = self.answers.get(&0).is_some_and(|(answer, _)| answer.is_ok());
        let of_any = self.answers.values().any(|(answer, at)| answer.is_ok() && now.since(*at) >= UPLINK_SLACK);
        of_first || of_any || self.answers.len() == uplinks
    }
    fn judge(mut self) -> Result<Probed, Refusal> {
        let times =
            self.answers.iter().filter_map(|(lane, (answer, _))| Some((*lane, answer.as_ref().ok()?.head.time)));
        let times = times.collect();
        let best = self.answers.iter().find(|(_, (answer, _))| answer.is_ok()).or(self.answers.iter().next());
        let lane = best.map(|(lane, _)| *lane);
        let Some((answer, _)) = lane.and_then(|lane| self.answers.remove(&lane)) else {
            return Err(Refusal::Again { reason: "it has not answered yet".into(), wait: None });
        };
        answer.map(|answer| Probed { head: answer.head.clone(), held: Some(answer).filter(|_| lane == Some(0)), times })
    }
}

/// How often the time is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// Minimum time for the other mirrors once one has answered.
const PROBE_SLACK: Duration = Duration::from_secs(2);
/// Time for the first uplink once another one has delivered an answer.
const UPLINK_SLACK: Duration = Duration::from_millis(500);
