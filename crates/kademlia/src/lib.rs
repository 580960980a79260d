//! A Kademlia swarm as an outside store of signed records: the peer behind
//! [`Engine`](tributary_transport::engine::Engine), over libp2p.
//!
//! ```text
//!   resolver ──Request──► work ──Get, Put of a set──► peer ◄──libp2p──► other peers
//!            ◄──Answer───   │                           │
//!                           └ records: what this resolver └ store: what this peer keeps for all of them, each record
//!                             has put and says again        verified before it is kept
//! ```
//! Kademlia has neither transactions, leases, ranges nor watches:
//! - **Put**: all who are to keep a record are asked for it, versions compared, and then the record is put there. Each of
//!   them refuses what is forged or older than what it has. It is acknowledged when half of them have it.
//! - **Lease**: a record is kept for as long as its lease lasts, by the clock of whoever keeps it. Who has put it says it
//!   again when half of that is over and the lease has been renewed.
//! - **List**: records of a group, such as a place, are a set under one key; a long one is split ([`shard`]). Lists of
//!   what is in no group are of what this resolver has put: other resolvers answer for the rest.
//! - **Changes** of groups that are watched: by reading them every few seconds.
//!
//! | what | module |
//! |---|---|
//! | requests of the resolver | [`work`] |
//! | what this resolver has put, and what of watched groups is known | [`records`] |
//! | connections, peers, queries | [`peer`] |
//! | what this peer keeps for others | [`store`] |
//! | sets of records, as they are sent and merged | [`set`] |
//! | keys of the swarm | [`shard`] |
//!
//! What is not signed cannot be put; peers can lose, hold back or repeat records, and never make one.
mod peer;
mod records;
mod set;
mod shard;
mod store;
#[cfg(test)]
mod testing;
mod work;

use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use tributary_transport::engine::{Answer, Engine, Priority, Request, Rules};

use self::{
    peer::{Listeners, Peer},
    work::{Asked, Work},
};

/// How long a read, and a put, may take before they are answered; a resolver waits for 1.2 s for both.
pub(crate) const READ_TIME_MAX: Duration = Duration::from_millis(500);
pub(crate) const WRITE_TIME_MAX: Duration = Duration::from_millis(500);
/// How long after its start a peer that knows where others are waits for them: no answer is better than that nothing is
/// there.
const JOIN_TIME: Duration = Duration::from_secs(3);
/// Answers that wait for the node before nothing more is asked in the background.
const ANSWERS_MAX: usize = 65_536;
/// How often it is looked whether there is room for answers again.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// Who a peer is, and where it finds others.
#[derive(Clone)]
pub struct KademliaOptions {
    /// Where it listens for other peers, with TCP.
    pub listen: Vec<SocketAddr>,
    /// Peers to begin with, as `host:port`. None: it waits for others to come.
    pub peers: Vec<String>,
    /// What the name of the swarm's protocol begins with: peers with different ones do not speak to each other. A slash is
    /// its first character and its last.
    pub prefix: String,
    /// From which the key follows that its id is made of.
    pub secret: [u8; 32],
    /// Records that it keeps for the swarm at most, and so many of its resolver.
    pub records_max: usize,
    /// Bytes of those that it keeps for the swarm at most.
    pub bytes_max: usize,
}

impl KademliaOptions {
    /// Until when a peer that starts now waits for others before it answers without them.
    fn joins_until(&self) -> Instant {
        let waits = if self.peers.is_empty() { Duration::ZERO } else { JOIN_TIME };
        Instant::now() + waits
    }
}

impl fmt::Debug for KademliaOptions {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KademliaOptions")
            .field("listen", &self.listen)
            .field("peers", &self.peers)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Why a peer cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum KademliaError {
    /// Its address.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// As the system says.
        reason: String,
    },
    /// Its prefix.
    #[error("'{0}' is no beginning of a protocol's name")]
    Prefix(String),
    /// Its key.
    #[error("cannot make its key: {0}")]
    Key(String),
    /// The system.
    #[error("cannot start a thread: {0}")]
    System(std::io::Error),
}

/// What has come for the node.
pub(crate) struct Inbox {
    queues: Mutex<Queues>,
    ring: Box<dyn Fn() + Send + Sync>,
    /// Records that were read and that nobody had signed.
    forged: AtomicU64,
}

#[derive(Default)]
struct Queues {
    /// Answers to questions.
    questions: VecDeque<Answer>,
    /// Changes, and what was asked in the background.
    others: VecDeque<Answer>,
}

impl Inbox {
    /// Takes what was asked in the background, or was not asked.
    pub(crate) fn push(&self, answers: impl IntoIterator<Item = Answer>) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).others.extend(answers);
        (self.ring)();
    }
    /// Takes the answer to a question.
    pub(crate) fn push_first(&self, answer: Answer) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).questions.push_back(answer);
        (self.ring)();
    }
    fn pop(&self) -> Option<Answer> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.questions.pop_front().or_else(|| queues.others.pop_front())
    }
    /// Waits until the node has taken enough.
    pub(crate) async fn has_room(&self) {
        while self.queues.lock().unwrap_or_else(PoisonError::into_inner).others.len() >= ANSWERS_MAX {
            tokio::time::sleep(ROOM_LOOK).await;
        }
    }
    pub(crate) fn count_forged(&self, count: u64) {
        self.forged.fetch_add(count, Ordering::Relaxed);
    }
    pub(crate) fn take_forged(&self) -> u64 {
        self.forged.swap(0, Ordering::Relaxed)
    }
}

/// A peer with a thread of its own, which ends with it.
pub struct Kademlia {
    questions: mpsc::UnboundedSender<Asked>,
    background: mpsc::UnboundedSender<Asked>,
    stop: Option<oneshot::Sender<()>>,
    inbox: Arc<Inbox>,
    work: Arc<Work>,
    listeners: Listeners,
    thread: Option<JoinHandle<()>>,
}

impl Kademlia {
    /// Starts a peer that keeps what `rules` accept. `ring` is called from its thread when there is an answer. That no
    /// other peer can be reached is no error: it goes on trying.
    ///
    /// # Errors
    /// [`KademliaError`] if it cannot listen, or the system has no thread.
    pub fn start(
        options: &KademliaOptions,
        rules: Arc<dyn Rules>,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> Result<Kademlia, KademliaError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(KademliaError::System)?;
        let inbox = Arc::new(Inbox { queues: Mutex::default(), ring: Box::new(ring), forged: AtomicU64::new(0) });
        let listeners = Listeners::default();
        let (count, counted) = watch::channel(0);
        let peer = {
            let _guard = runtime.enter();
            Peer::new(options, Arc::clone(&rules), Arc::clone(&listeners), count, Arc::clone(&inbox))?
        };
        let (commands, commanded) = mpsc::unbounded_channel();
        let work = {
            let _guard = runtime.enter();
            Arc::new(Work::new(options, rules, commands, counted, Arc::clone(&inbox)))
        };
        let (questions, asked) = mpsc::unbounded_channel();
        let (background, asked_later) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let worker = Arc::clone(&work);
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    // What is asked and not answered yet nobody waits for any more.
                    _ = stopped => {}
                    () = peer.run(commanded) => {}
                    () = work::run(worker, asked, asked_later) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("kademlia".into()).spawn(run).map_err(KademliaError::System)?;
        Ok(Kademlia { questions, background, stop: Some(stop), inbox, work, listeners, thread: Some(thread) })
    }
    /// Where it listens; none before it does.
    pub fn listeners(&self) -> Vec<SocketAddr> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Kademlia {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Engine for Kademlia {
    fn name(&self) -> &'static str {
        "kademlia"
    }
    fn ask(&mut self, request: Request, priority: Priority) {
        let _ = match priority {
            Priority::Question => self.questions.send(request),
            Priority::Background => self.background.send(request),
        };
    }
    fn poll(&mut self) -> Option<Answer> {
        self.inbox.pop()
    }
    fn watch(&mut self, group: &[u8], is_watched: bool) {
        self.work.watch(group, is_watched);
    }
}
