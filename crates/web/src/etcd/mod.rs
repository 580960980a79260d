//! An etcd cluster as an outside store of names: the client behind [`Engine`].
//!
//! It uses the JSON gateway of etcd 3.4 to 3.6 (`/v3/kv/txn` and its siblings) over the HTTP client that this crate has
//! anyway: the gRPC client would bring tonic, prost and a compiler for protocol files with it, for the same five
//! requests.
//!
//! | part | module |
//! |---|---|
//! | requests to whichever member answers: limits of time, tokens, leases | [`calls`] |
//! | all changes below a prefix, from member to member | [`watch`] |
//! | requests and answers | [`wire`] |
mod calls;
mod watch;
mod wire;

use std::{collections::VecDeque, path::PathBuf, sync::Arc, thread::JoinHandle, time::Duration};

use parking_lot::Mutex;
use reqwest::{Client, Url};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tributary_directory::engine::{Answer, Engine, Priority, Request};

use self::calls::Cluster;
use crate::{
    client::{ClientOptions, tls},
    download::WebError,
};

/// Questions in progress at the same time.
const REQUESTS_MAX: usize = 256;
/// Background requests at a time; their pages take the time of one thread.
const BACKGROUND_MAX: usize = 4;
/// Answers queued for the node at which reading of changes and background requests pause.
const ANSWERS_MAX: usize = 65_536;
/// How often the client checks whether the queue of answers has drained.
const ROOM_LOOK: Duration = Duration::from_millis(5);

/// The address of a cluster, and the client's credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Its members, as clients reach them.
    pub endpoints: Vec<Url>,
    /// The prefix of all keys.
    pub prefix: String,
    /// A user of its role-based access control, and the password.
    pub user: Option<(String, String)>,
    /// Certificates to trust in addition to the system's, in PEM.
    pub ca_certificates: Vec<PathBuf>,
    /// A client certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl EtcdOptions {
    /// Options of a cluster without passwords and certificates.
    pub fn new(endpoints: Vec<Url>, prefix: &str) -> EtcdOptions {
        EtcdOptions { endpoints, prefix: prefix.into(), user: None, ca_certificates: Vec::new(), certificate: None }
    }
    /// Checks that the files that they name can be used.
    ///
    /// # Errors
    /// [`WebError`] names the first option that cannot be used, and the reason.
    pub fn check(&self) -> Result<(), WebError> {
        self.client().map(drop)
    }
    fn client(&self) -> Result<Client, WebError> {
        let options = ClientOptions { ca_certificates: self.ca_certificates.clone(), ..ClientOptions::default() };
        let mut tls = tls(&options, self.certificate.as_ref())?;
        // Over HTTP/2 all requests to a member share a connection, and none would notice its loss for long.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(calls::CONNECT_TIME_MAX)
            .pool_max_idle_per_host(REQUESTS_MAX)
            .tcp_nodelay(true)
            .user_agent(concat!("tributary/", env!("CARGO_PKG_VERSION")))
            .build();
        client.map_err(|error| WebError::Usage(format!("cannot make connections to etcd: {error}")))
    }
}

/// Answers for the node.
struct Inbox {
    queues: Mutex<Queues>,
    ring: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Queues {
    questions: VecDeque<Answer>,
    /// Changes, and answers to background requests.
    others: VecDeque<Answer>,
}

impl Inbox {
    /// Takes answers to background requests, and notices.
    fn push(&self, answers: impl IntoIterator<Item = Answer>) {
        self.queues.lock().others.extend(answers);
        (self.ring)();
    }
    /// Takes the answer to a question.
    fn push_first(&self, answer: Answer) {
        self.queues.lock().questions.push_back(answer);
        (self.ring)();
    }
    fn pop(&self) -> Option<Answer> {
        let mut queues = self.queues.lock();
        queues.questions.pop_front().or_else(|| queues.others.pop_front())
    }
    /// Waits until the node has taken enough.
    async fn has_room(&self) {
        while self.queues.lock().others.len() >= ANSWERS_MAX {
            tokio::time::sleep(ROOM_LOOK).await;
        }
    }
}

/// A client with its thread, which ends with it.
pub struct Etcd {
    questions: mpsc::UnboundedSender<Request>,
    background: mpsc::UnboundedSender<Request>,
    stop: Option<oneshot::Sender<()>>,
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl Etcd {
    /// Starts a client. `ring` is called from its thread when an answer waits. Unreachable members are no error: it
    /// keeps trying.
    ///
    /// # Errors
    /// [`WebError`] if the files that the options name cannot be used, or the system has no thread.
    pub fn start(options: &EtcdOptions, ring: impl Fn() + Send + Sync + 'static) -> Result<Etcd, WebError> {
        let failed = |error: std::io::Error| WebError::System(format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let cluster = Arc::new(Cluster::new(options.client()?, options));
        let inbox = Arc::new(Inbox { queues: Mutex::default(), ring: Box::new(ring) });
        let (questions, requests) = mpsc::unbounded_channel();
        let (background, background_requests) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let to = Arc::clone(&inbox);
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    // Unanswered requests have no receiver any longer.
                    _ = stopped => {}
                    () = serve(cluster, requests, background_requests, to) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("etcd".into()).spawn(work).map_err(failed)?;
        Ok(Etcd { questions, background, stop: Some(stop), inbox, thread: Some(thread) })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Engine for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
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
}

type Requests = mpsc::UnboundedReceiver<Request>;

/// Carries out requests until no sender is left.
async fn serve(cluster: Arc<Cluster>, requests: Requests, background_requests: Requests, inbox: Arc<Inbox>) {
    // Whatever ends first, the others end with it.
    tokio::select! {
        () = watch::run(Arc::clone(&cluster), Arc::clone(&inbox)) => {}
        () = carry_out(&cluster, requests, Priority::Question, &inbox) => {}
        () = carry_out(&cluster, background_requests, Priority::Background, &inbox) => {}
    }
}

async fn carry_out(cluster: &Arc<Cluster>, mut requests: Requests, priority: Priority, inbox: &Arc<Inbox>) {
    let is_question = priority == Priority::Question;
    let room = Arc::new(Semaphore::new(if is_question { REQUESTS_MAX } else { BACKGROUND_MAX }));
    while let Some(request) = requests.recv().await {
        if !is_question {
            inbox.has_room().await;
        }
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let (cluster, inbox) = (Arc::clone(cluster), Arc::clone(inbox));
        tokio::spawn(async move {
            let answer = cluster.carry_out(request).await;
            drop(permit);
            match is_question {
                true => inbox.push_first(answer),
                false => inbox.push([answer]),
            }
        });
    }
}
