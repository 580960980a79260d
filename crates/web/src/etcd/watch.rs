//! All changes below the prefix, each once and in order, from member to member.
//!
//! A watch continues at another member behind the last revision that it has reported. If the cluster has compacted that
//! away, or is another one, restored from a copy, it starts again and reports the restart. A member that is cut off
//! from the others keeps the connection and reports nothing: so the client puts a heartbeat below the prefix every two
//! seconds, and leaves a member that does not report one that the cluster has acknowledged. Each reported heartbeat
//! shows that earlier changes have been reported too ([`Answer::Current`]). A cluster that is full takes no heartbeats:
//! then a read at the watched member shows that it is in touch with the others.
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::Response;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tributary_directory::engine::{Answer, Change, Lease};

use super::{
    Inbox,
    calls::{Cluster, is_of_token},
    wire::{self, WatchLine, WatchReply, base64},
};

/// Time between two heartbeats, and after one that failed; how long the watch may be behind an acknowledged one, and how long the key stays.
const HEARTBEAT: Duration = Duration::from_secs(2);
const HEARTBEAT_AGAIN: Duration = Duration::from_millis(500);
const BEHIND_MAX: Duration = Duration::from_secs(3);
const HEARTBEAT_LEASE_SECONDS: u32 = 60;
/// The pause before another member is tried.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the client reports that the watch is up to date.
const CURRENT_EACH: Duration = Duration::from_millis(500);
/// Maximum time for a member's first answer.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum bytes of a line.
const LINE_BYTES_MAX: usize = 64 << 20;

/// How far a watch is.
#[derive(Default)]
struct Progress {
    /// The revision from which it continues; `None` starts again.
    next: Option<u64>,
    cluster: u64,
}

/// Why a watch at a member ended.
enum End {
    /// Another member is tried.
    Member,
    /// The next changes can no longer be determined.
    Lost,
}

/// Watches until it is aborted.
pub(super) async fn run(cluster: Arc<Cluster>, inbox: Arc<Inbox>) {
    let mut progress = Progress::default();
    let mut member = cluster.current();
    let pulse = Arc::new(Pulse::default());
    let key = {
        let mut random = [0; 8];
        let _ = ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random);
        u64::from_be_bytes(random)
    };
    // It ends with this function.
    let mut heart = JoinSet::new();
    heart.spawn(beat(Arc::clone(&cluster), key, Arc::clone(&pulse), Arc::clone(&inbox)));
    loop {
        let end = watch(&cluster, &inbox, member, &mut progress, &pulse).await;
        pulse.watched.store(NONE, Ordering::Relaxed);
        match end {
            Ok(End::Lost) => progress.next = None,
            Ok(End::Member) | Err(()) => {
                cluster.leave(member);
                member = match cluster.current() {
                    same if same == member => cluster.after(member),
                    other => other,
                };
            }
        }
        sleep(PAUSE).await;
    }
}

/// No member.
const NONE: usize = usize::MAX;

/// What heartbeats have shown.
struct Pulse {
    /// The revision of the last one that the cluster has acknowledged.
    acknowledged: AtomicU64,
    /// It was not higher than the one before: the cluster has lost reported changes.
    went_back: AtomicBool,
    /// The number of the watched member, or [`NONE`].
    watched: AtomicUsize,
}
impl Default for Pulse {
    fn default() -> Pulse {
        Pulse { acknowledged: AtomicU64::new(0), went_back: AtomicBool::new(false), watched: AtomicUsize::new(NONE) }
    }
}

async fn beat(cluster: Arc<Cluster>, number: u64, pulse: Arc<Pulse>, inbox: Arc<Inbox>) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let key = cluster.key(format!("h/{number:016x}").as_bytes());
    let lease = Lease { id: number, seconds: HEARTBEAT_LEASE_SECONDS };
    loop {
        ticks.tick().await;
        let body = wire::put(&key, b"", cluster.lease(lease.id));
        match cluster.with_lease("kv/put", &body, lease).await {
            Ok(reply) => {
                let revision = reply.header.revision;
                let before = pulse.acknowledged.swap(revision, Ordering::Relaxed);
                pulse.went_back.fetch_or(revision <= before, Ordering::Relaxed);
            }
            Err(error) if error.is_full() => {
                let member = pulse.watched.load(Ordering::Relaxed);
                // A member that answers this is in contact with a majority.
                let read = json!({ "key": base64(&key), "limit": "1" });
                let is_in_touch = member != NONE && cluster.call_at(member, "kv/range", &read).await;
                if is_in_touch && pulse.watched.load(Ordering::Relaxed) == member {
                    inbox.push([Answer::Current]);
                }
            }
            // An election lasts a second or two; the watch should count as current soon after it.
            Err(_) => ticks.reset_after(HEARTBEAT_AGAIN),
        }
        // A put under an existing lease does not renew it.
        let _ = cluster.call("lease/keepalive", &json!({ "ID": cluster.lease(lease.id).to_string() }), 1).await;
    }
}

/// Watches at one member.
async fn watch(
    cluster: &Cluster,
    inbox: &Inbox,
    member: usize,
    progress: &mut Progress,
    pulse: &Pulse,
) -> Result<End, ()> {
    let (mut response, token) = begin(cluster, member, progress).await?;
    let mut line = Vec::new();
    let (mut fragments, mut fragment_bytes) = (Vec::new(), 0);
    let revision_before = |progress: &Progress| progress.next.map_or(0, |next| next - 1);
    let (mut is_begun, mut seen, mut current_at) = (false, revision_before(progress), None::<Instant>);
    let mut behind: Option<(u64, Instant)> = None;
    let mut ticks = interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            chunk = response.chunk() => {
                let Ok(Some(chunk)) = chunk else { return Ok(End::Member) };
                let mut rest = &chunk[..];
                while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                    line.extend_from_slice(&rest[..=at]);
                    rest = &rest[at + 1..];
                    let message = core::mem::take(&mut line);
                    let Ok(parsed) = serde_json::from_slice::<WatchLine>(&message) else { return Ok(End::Member) };
                    if let Some(error) = parsed.error {
                        if is_of_token(error.code(), error.text()) || error.text().contains("auth") {
                            cluster.forget_token(token.as_deref()).await;
                        }
                        return Ok(End::Member);
                    }
                    let Some(mut reply) = parsed.result else { continue };
                    if reply.fragment {
                        // Further changes of these revisions follow.
                        fragment_bytes += message.len();
                        if fragment_bytes > LINE_BYTES_MAX {
                            return Ok(End::Lost);
                        }
                        fragments.append(&mut reply.events);
                        continue;
                    }
                    fragment_bytes = 0;
                    reply.events.splice(..0, fragments.drain(..));
                    if let Some(end) = take(cluster, inbox, &reply, progress, &mut is_begun) {
                        return Ok(end);
                    }
                    if is_begun {
                        pulse.watched.store(member, Ordering::Relaxed);
                    }
                    let reported_revision = revision_before(progress);
                    // Any change does, if it is no older than our last heartbeat.
                    let is_current = reported_revision > seen && reported_revision >= pulse.acknowledged.load(Ordering::Relaxed);
                    if is_current && current_at.is_none_or(|at| at.elapsed() >= CURRENT_EACH) {
                        current_at = Some(Instant::now());
                        inbox.push([Answer::Current]);
                    }
                    seen = seen.max(reported_revision);
                }
                line.extend_from_slice(rest);
                if line.len() > LINE_BYTES_MAX {
                    return Ok(End::Lost);
                }
                inbox.has_room().await;
            }
            _ = ticks.tick() => {
                if pulse.went_back.swap(false, Ordering::Relaxed) {
                    return Ok(End::Lost);
                }
                let wanted = pulse.acknowledged.load(Ordering::Relaxed);
                if wanted <= seen {
                    behind = None;
                    continue;
                }
                let (mark, since) = *behind.get_or_insert((wanted, Instant::now()));
                if mark <= seen {
                    behind = Some((wanted, Instant::now()));
                } else if since.elapsed() > BEHIND_MAX {
                    return Ok(End::Member);
                }
            }
        }
    }
}

async fn begin(cluster: &Cluster, member: usize, progress: &Progress) -> Result<(Response, Option<String>), ()> {
    let mut create = json!({
        "key": base64(&cluster.prefix), "range_end": base64(&cluster.prefix_end()), "prev_kv": true,
        "fragment": true,
    });
    if let Some(next) = progress.next {
        create["start_revision"] = next.to_string().into();
    }
    let body = json!({ "create_request": create });
    match timeout(BEGIN_TIME_MAX, cluster.post(member, "watch", &body)).await {
        Ok(Ok(begun)) => Ok(begun),
        _ => Err(()),
    }
}

/// Takes a line of the watch; returns why it ends, if it does.
fn take(
    cluster: &Cluster,
    inbox: &Inbox,
    reply: &WatchReply,
    progress: &mut Progress,
    is_begun: &mut bool,
) -> Option<End> {
    if reply.canceled {
        if reply.cancel_reason.contains("auth") || reply.cancel_reason.contains("permission") {
            return Some(End::Member);
        }
        return Some(if reply.compact_revision > 0 { End::Lost } else { End::Member });
    }
    if reply.created {
        let known = core::mem::replace(&mut progress.cluster, reply.header.cluster_id);
        let now = reply.header.revision;
        match progress.next {
            // Another cluster. A member that lags behind another one's reports catches up, or heartbeats show the
            // cause.
            Some(_) if known != progress.cluster => return Some(End::Lost),
            Some(_) => {}
            None => {
                progress.next = Some(now + 1);
                inbox.push([Answer::Restarted { revision: now }]);
            }
        }
        *is_begun = true;
    }
    if !*is_begun {
        return None;
    }
    let prefix = cluster.prefix.len();
    let is_new = |event: &&wire::Event| event.kv.mod_revision >= progress.next.unwrap_or(0);
    let changes: Vec<Answer> = reply
        .events
        .iter()
        .filter(is_new)
        .map(|event| {
            let key = event.kv.key.clone().split_off(prefix.min(event.kv.key.len()));
            let (after, before) = (event.after(prefix), event.before(prefix));
            Change { revision: event.kv.mod_revision, key, after, before }
        })
        .filter(|change| !change.key.starts_with(b"h/"))
        .map(Answer::Changed)
        .collect();
    if let Some(last) = reply.events.iter().map(|event| event.kv.mod_revision).max() {
        progress.next = Some(progress.next.unwrap_or(0).max(last + 1));
    }
    if !changes.is_empty() {
        inbox.push(changes);
    }
    None
}
