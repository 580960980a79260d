//! What the mirrors say of a file, before anything is fetched.
use reqwest::Url;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tributary_core::Time;
use tributary_net::Clock;

use crate::{
    client::{Lanes, Shared},
    download::{Control, MIRRORS_MAX, REPORT_INTERVAL, Update, WebError},
    request::{Head, Refusal, probe},
};

/// Times that a mirror which a person names is asked for the head of a file before it counts as absent. One that a stranger
/// names is asked once: nobody here knows that it wants to be asked.
const PROBES_MAX: u32 = 4;

/// What a mirror says.
pub(crate) struct Probed {
    pub(crate) head: Result<Head, Refusal>,
    /// How long the head of the answer took over each uplink, if it has come, by the uplink's first place in the lanes.
    pub(crate) times: BTreeMap<usize, Duration>,
}

/// Asks every mirror over all uplinks; a few times, since networks come and go.
pub(crate) async fn probe_all(
    mirrors: &[Url],
    patience: Duration,
    lanes: &Lanes,
    shared: &Arc<Shared>,
    report: &mut dyn FnMut(Update) -> Control,
) -> Result<Vec<Probed>, WebError> {
    let firsts: Vec<usize> = lanes.firsts().collect();
    let attempts = if shared.origin.is_trusted() { PROBES_MAX } else { 1 };
    let (done, mut answers) = mpsc::channel(MIRRORS_MAX);
    for (at, url) in mirrors.iter().enumerate() {
        for lane in &firsts {
            let (url, client) = (url.clone(), lanes.clients[at][*lane].clone());
            let (shared, done, lane) = (Arc::clone(shared), done.clone(), *lane);
            tokio::spawn(async move {
                let mut answer = Err(Refusal::Refused("it was not asked".into()));
                for attempt in 0..attempts {
                    answer = probe(&client, &shared, &url).await;
                    let Err(Refusal::Again { wait, .. }) = &answer else { break };
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
            if report(Update::Report(Box::default(), Time::ZERO)) == Control::Stop {
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

/// The answers of a mirror by the uplinks over which they came.
#[derive(Default)]
struct ProbedMirror {
    answers: BTreeMap<usize, (Result<Head, Refusal>, Time)>,
}
impl ProbedMirror {
    /// Whether nothing better is worth waiting for. The first uplink has the word, since the network behind another one
    /// may answer in the server's place, such as one that wants a login first; but it may be away.
    fn is_settled(&self, now: Time, uplinks: usize) -> bool {
        let of_first = self.answers.get(&0).is_some_and(|(answer, _)| answer.is_ok());
        let of_any = self.answers.values().any(|(answer, at)| answer.is_ok() && now.since(*at) >= UPLINK_SLACK);
        of_first || of_any || self.answers.len() == uplinks
    }
    fn judge(mut self) -> Probed {
        let times = self.answers.iter().filter_map(|(lane, (answer, _))| Some((*lane, answer.as_ref().ok()?.time)));
        let times = times.collect();
        let best = self.answers.iter().find(|(_, (answer, _))| answer.is_ok()).or(self.answers.iter().next());
        let head = match best.map(|(lane, _)| *lane).and_then(|lane| self.answers.remove(&lane)) {
            Some((answer, _)) => answer,
            None => Err(Refusal::Again { reason: "it has not answered yet".into(), wait: None }),
        };
        Probed { head, times }
    }
}

/// How often the time is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// How long the other mirrors have once one has answered, at least.
const PROBE_SLACK: Duration = Duration::from_secs(2);
/// How long the first uplink has once another one has brought an answer.
const UPLINK_SLACK: Duration = Duration::from_millis(500);
