//! What the mirrors say of a file, before anything is fetched.
use reqwest::{Client, Url};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tributary_core::Time;
use tributary_net::Clock;

use crate::{
    client::Shared,
    download::{Control, MIRRORS_MAX, REPORT_INTERVAL, Update, WebError},
    request::{Head, Refusal, probe},
};

/// Times that a mirror is asked for the head of a file before it counts as absent.
const PROBES_MAX: u32 = 4;

/// Asks every mirror over its first uplink that works; a few times, since networks come and go.
pub(crate) async fn probe_all(
    mirrors: &[Url],
    patience: Duration,
    clients: &[Vec<Client>],
    shared: &Arc<Shared>,
    tell: &mut dyn FnMut(Update) -> Control,
) -> Result<Vec<Result<Head, Refusal>>, WebError> {
    let (done, mut answers) = mpsc::channel(MIRRORS_MAX);
    for (at, (url, clients)) in mirrors.iter().zip(clients).enumerate() {
        let (url, clients, shared, done) = (url.clone(), clients.clone(), Arc::clone(shared), done.clone());
        tokio::spawn(async move {
            let mut answer = Err(Refusal::Refused("it was not asked".into()));
            for attempt in 0..PROBES_MAX {
                let client = &clients[attempt as usize % clients.len()];
                answer = probe(client, &shared, &url).await;
                let Err(Refusal::Again { wait, .. }) = &answer else { break };
                if attempt + 1 < PROBES_MAX {
                    tokio::time::sleep(wait.unwrap_or(Duration::from_millis(300) * (1 << attempt))).await;
                }
            }
            let _ = done.send((at, answer)).await;
        });
    }
    drop(done);
    let none = || Err(Refusal::Again { reason: "it has not answered yet".into(), wait: None });
    let mut heads: Vec<Result<Head, Refusal>> = mirrors.iter().map(|_| none()).collect();
    let clock = Clock::new();
    let begun = clock.now();
    let mut first_at = None;
    loop {
        match tokio::time::timeout(REPORT_INTERVAL, answers.recv()).await {
            Ok(Some((at, answer))) => {
                if answer.is_ok() {
                    first_at.get_or_insert_with(|| clock.now());
                }
                heads[at] = answer;
            }
            Ok(None) => return Ok(heads),
            Err(_) => {
                if tell(Update::Report(Box::default(), Time::ZERO)) == Control::Stop {
                    return Err(WebError::Stopped);
                }
            }
        }
        // A mirror that does not answer must not hold up those that do.
        let is_over = first_at.is_some_and(|at| clock.now().since(at) >= PROBE_SLACK.max(at.since(begun) * 4));
        if is_over || clock.now().since(begun) >= patience {
            return Ok(heads);
        }
    }
}
/// How long the others have once a mirror has answered, at least.
const PROBE_SLACK: Duration = Duration::from_secs(2);
