//! An etcd cluster as an outside store of names: the client behind [`Engine`].
//!
//! It speaks the JSON gateway of etcd 3.4 to 3.6 (`/v3/kv/txn` and its siblings) over the HTTP client that is here
//! anyway: the gRPC client would bring tonic, prost and a compiler for protocol files with it, for the same five requests.
//!
//! | what | module |
//! |---|---|
//! | requests to whichever member answers: limits of time, tokens, leases | [`calls`] |
//! | all changes below a prefix, from member to member | [`watch`] |
//! | what is written and read | [`wire`] |
mod calls;
mod watch;
mod wire;

use std::{
    collections::VecDeque,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use reqwest::{Client, Url};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tributary_transport::engine::{Answer, Engine, Request};

use self::calls::Cluster;
use crate::{
    client::{ClientOptions, tls_with},
    download::WebError,
};

/// Requests that are under way at the same time.
const REQUESTS_MAX: usize = 256;
/// Answers that wait for the node before changes are no longer read.
const ANSWERS_MAX: usize = 65_536;

/// Where a cluster is, and who asks it.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Its members, as clients reach them.
    pub endpoints: Vec<Url>,
    /// What the keys begin with.
    pub prefix: String,
    /// A user of its role-based access control, and the password.
    pub user: Option<(String, String)>,
    /// Certificates to trust beside those of the system, in PEM.
    pub ca_certificates: Vec<PathBuf>,
    /// A certificate that proves who asks, and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl fmt::Debug for EtcdOptions {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints: Vec<&str> = self.endpoints.iter().map(Url::as_str).collect();
        let user = self.user.as_ref().map(|(user, _)| user);
        f.debug_struct("EtcdOptions")
            .field("endpoints", &endpoints)
            .field("prefix", &self.prefix)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

impl EtcdOptions {
    /// Those of a cluster without passwords and certificates.
    pub fn new(endpoints: Vec<Url>, prefix: &str) -> EtcdOptions {
        EtcdOptions { endpoints, prefix: prefix.into(), user: None, ca_certificates: Vec::new(), certificate: None }
    }
    /// Checks that the files that they name can be used.
    ///
    /// # Errors
    /// [`WebError`] says which cannot, and why.
    pub fn check(&self) -> Result<(), WebError> {
        self.client().map(drop)
    }
    fn client(&self) -> Result<Client, WebError> {
        let options = ClientOptions { ca_certificates: self.ca_certificates.clone(), ..ClientOptions::default() };
        let mut tls = tls_with(&options, self.certificate.as_ref())?;
        // Over HTTP/2 all requests to a member share a connection, whose loss none of them would notice for long.
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
        client.map_err(|error| WebError::usage(format!("cannot make connections to etcd: {error}")))
    }
}

/// What has come for the node.
struct Inbox {
    answers: Mutex<VecDeque<Answer>>,
    ring: Box<dyn Fn() + Send + Sync>,
}

impl Inbox {
    fn push(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
        (self.ring)();
    }
    fn is_full(&self) -> bool {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).len() >= ANSWERS_MAX
    }
}

/// A client with a thread of its own, which ends with it.
pub struct Etcd {
    requests: mpsc::UnboundedSender<Request>,
    stop: Option<oneshot::Sender<()>>,
    inbox: Arc<Inbox>,
    thread: Option<JoinHandle<()>>,
}

impl Etcd {
    /// Starts a client. `ring` is called from its thread when there is an answer. That no member can be reached is no error:
    /// it goes on trying.
    ///
    /// # Errors
    /// [`WebError`] if the files that the options name cannot be used, or the system has no thread.
    pub fn start(options: &EtcdOptions, ring: impl Fn() + Send + Sync + 'static) -> Result<Etcd, WebError> {
        let failed = |error: std::io::Error| WebError::System(format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let cluster = Arc::new(Cluster::new(options.client()?, options));
        let inbox = Arc::new(Inbox { answers: Mutex::default(), ring: Box::new(ring) });
        let (requests, asked) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let to = Arc::clone(&inbox);
        let work = move || {
            runtime.block_on(async {
                tokio::select! {
                    // What is asked and not answered yet nobody waits for any more.
                    _ = stopped => {}
                    () = serve(cluster, asked, to) => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("etcd".into()).spawn(work).map_err(failed)?;
        Ok(Etcd { requests, stop: Some(stop), inbox, thread: Some(thread) })
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
    fn ask(&mut self, request: Request) {
        let _ = self.requests.send(request);
    }
    fn poll(&mut self) -> Option<Answer> {
        self.inbox.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Carries out what is asked until nobody can ask any more.
async fn serve(cluster: Arc<Cluster>, mut asked: mpsc::UnboundedReceiver<Request>, inbox: Arc<Inbox>) {
    let watching = tokio::spawn(watch::run(Arc::clone(&cluster), Arc::clone(&inbox)));
    let room = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Some(request) = asked.recv().await {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let (cluster, inbox) = (Arc::clone(&cluster), Arc::clone(&inbox));
        tokio::spawn(async move {
            let answer = cluster.carry_out(request).await;
            drop(permit);
            inbox.push([answer]);
        });
    }
    watching.abort();
}
