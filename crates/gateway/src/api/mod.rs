//! The API of a node over HTTP: the requests and answers of its control socket, as REST.
//!
//! ```text
//!  GET /api/v1/transfers ──► guard ──► table: which request ──► ask: its fields ──► the node
//!                              │                                                      │
//!                            401, 403 …          one object, a list, a stream ◄───────┘
//! ```
//! | part | module |
//! |---|---|
//! | access control | `guard` |
//! | the request and the answer of each route | `table` |
//! | the fields of a request | `ask` |
//! | the node's events, for many clients | `hub` |
//! | answers that many clients share | `snapshots` |
//! | files that are sent to be published | `uploads` |
//! | the schemas of requests | `schema` |
mod ask;
pub(crate) mod guard;
mod hub;
#[cfg(test)]
mod openapi_tests;
mod schema;
mod snapshots;
mod table;
mod uploads;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Method, Request as HttpRequest, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tributary::{Api, ApiError, ErrorKind, Flow, LocalApi, Notice, Request, spawn};

use self::{
    guard::{Connection, Guard},
    hub::Hub,
    snapshots::Snapshots,
    table::{Answers, ROUTES, Route},
    uploads::Uploads,
};
use crate::{
    body::{Content, answer_of},
    config::GatewayConfig,
    dashboard,
    metrics::{
        self, Format, Reading,
        http::{HttpCounts, HttpMeter},
        ledger::Ledger,
    },
};

/// The prefix of all paths of the API.
pub(crate) const ROOT: &str = "/api/v1";
/// The description of all of it by OpenAPI 3.1. `openapi_tests` makes it, of the table of routes.
const OPENAPI: &str = include_str!("../../pages/openapi.json");
/// Where metrics are; the default path of Prometheus.
const METRICS: &str = "/metrics";
/// Where files are sent to be published, below [`ROOT`].
pub(crate) const UPLOADS: &str = "/uploads";
/// Requests that the node works on at a time; others wait for their turn.
const REQUESTS_MAX: usize = 16;
/// Long requests, such as a fetch that is followed, at a time.
const LONG_REQUESTS_MAX: usize = 64;
/// How long a request waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a stream that wait for a client: then the request waits for it.
const LINES_WAITING_MAX: usize = 64;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Object,
    Api,
    Events,
    Metrics,
    Dashboard,
}
impl Kind {
    /// Its name in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Api => "api",
            Kind::Events => "events",
            Kind::Metrics => "metrics",
            Kind::Dashboard => "dashboard",
        }
    }
}

/// The API of a node.
pub(crate) struct Service {
    api: Arc<LocalApi>,
    guard: Guard,
    hub: Arc<Hub>,
    snapshots: Snapshots,
    uploads: Arc<Uploads>,
    ledger: Arc<Mutex<Ledger>>,
    /// What the listener counts.
    pub(crate) meter: Arc<HttpMeter>,
    turns: Semaphore,
    long_turns: Arc<Semaphore>,
    body_bytes_max: usize,
    body_patience: Duration,
    ended: Arc<AtomicBool>,
}

impl Service {
    /// # Errors
    /// [`ApiError`] if the token is unusable or a thread cannot be started.
    pub(crate) fn start(
        api: &Arc<LocalApi>,
        config: &GatewayConfig,
        ended: &Arc<AtomicBool>,
    ) -> Result<Service, ApiError> {
        let ledger = Arc::default();
        let uploads = Arc::new(Uploads::new(&api.config().state_dir, config.upload_bytes_max));
        uploads.remove_parts();
        uploads.sweep(api);
        Ok(Service {
            guard: Guard::new(config.listen, config.token_file.as_deref())?,
            hub: Hub::start(api, &ledger, ended)?,
            ledger,
            uploads,
            meter: Arc::default(),
            snapshots: Snapshots::default(),
            turns: Semaphore::new(REQUESTS_MAX),
            long_turns: Arc::new(Semaphore::new(LONG_REQUESTS_MAX)),
            body_bytes_max: api.config().limits.control_line_bytes,
            body_patience: config.head_timeout,
            ended: Arc::clone(ended),
            api: Arc::clone(api),
        })
    }
    /// Whether a path is one of the API, the metrics or the dashboard, and not a name.
    pub(crate) fn claims(path: &str) -> bool {
        let is_api = path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_api || path == METRICS || dashboard::claims(path)
    }
    /// Answers a request whose path the API claims; `objects` are open in the gateway.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: HttpRequest<Incoming>,
        connection: &Connection,
        objects: usize,
    ) -> (Kind, Response<Content>) {
        let path = request.uri().path();
        if dashboard::claims(path) {
            return (Kind::Dashboard, dashboard::answer(request.method(), path));
        }
        let kind = match path {
            METRICS => Kind::Metrics,
            path if path.ends_with("/events") => Kind::Events,
            _ => Kind::Api,
        };
        let mut response = match self.guard.check(request.method(), request.headers(), connection).await {
            Ok(()) => {
                let answered = match kind {
                    Kind::Metrics => self.metrics(&request, objects).await,
                    _ => self.respond(request).await,
                };
                answered.unwrap_or_else(|error| error_answer(&error))
            }
            Err(refusal) => {
                let mut response = error_answer(&refusal.error());
                *response.status_mut() = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::FORBIDDEN);
                if refusal == guard::Refusal::Token {
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                }
                response
            }
        };
        // Answers are for this moment and this client.
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-frame-options", "DENY"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        (kind, response)
    }

    /// The metrics of the node and of the listener.
    async fn metrics(&self, request: &HttpRequest<Incoming>, objects: usize) -> Result<Response<Content>, ApiError> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let error = ApiError::usage(format!("{METRICS} takes GET"));
            let mut response = error_answer(&error);
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(response);
        }
        let of = |ask: Request| async move { self.snapshots.of(&ask, || self.ask(ask.clone())).await };
        let status = of(Request::Status).await?;
        let [Notice::Status(status)] = &status[..] else { return Err(gone()) };
        // The events' state of a transfer may be newer than a shared answer.
        let transfers = self.ask(Request::Transfers { transfer: None }).await?;
        let views: Vec<_> = transfers
            .iter()
            .filter_map(|notice| match notice {
                Notice::Progress(view) => Some(view),
                _ => None,
            })
            .collect();
        let totals = self.ledger.lock().take_all(&views);
        // Families without a store answer with an error.
        let store = of(Request::Store).await.ok();
        let store = store.as_deref().and_then(|notices| match notices {
            [Notice::Store(store)] => Some(store),
            _ => None,
        });
        let (streams, events_missed) = self.hub.counts();
        let http = HttpCounts { objects, streams, events_missed, ..self.meter.counts() };
        let accept = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Format::of(accept.unwrap_or_default());
        let text = metrics::written(&Reading { status, store, totals: &totals, http: &http }, format);
        let mut response = json(text.into());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        Ok(response)
    }
    /// Publishes the file in the body.
    async fn upload(&self, request: HttpRequest<Incoming>) -> Result<Response<Content>, ApiError> {
        let query = request.uri().query().unwrap_or_default().to_string();
        let upload = self.uploads.receive(request.into_body()).await?;
        let published = async {
            let put = ask::upload(&query, &upload.path)?;
            self.ask(put).await
        };
        let published = published.await;
        self.snapshots.forget();
        drop(upload);
        self.sweep_uploads().await;
        one_answer(Answers::One("published"), &published?)
    }
    async fn sweep_uploads(&self) {
        let this = (Arc::clone(&self.api), Arc::clone(&self.uploads));
        let _ = tokio::task::spawn_blocking(move || this.1.sweep(&this.0)).await;
    }

    async fn respond(self: &Arc<Self>, request: HttpRequest<Incoming>) -> Result<Response<Content>, ApiError> {
        let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default().to_string();
        let method = match request.method() {
            &Method::HEAD => Method::GET,
            method => method.clone(),
        };
        if method == Method::GET && path == "/openapi.json" {
            return Ok(json(OPENAPI.into()));
        }
        if method == Method::POST && path == UPLOADS {
            return self.upload(request).await;
        }
        let matching: Vec<(&Route, Vec<(&'static str, &str)>)> =
            ROUTES.iter().filter_map(|route| Some((route, route.fields(&path)?))).collect();
        let Some((route, fields)) = matching.iter().find(|(route, _)| route.method == method) else {
            return Ok(no_such_route(&path, &matching));
        };
        let query = request.uri().query().unwrap_or_default().to_string();
        let wants_events = request
            .headers()
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
        let last = request.headers().get("last-event-id").and_then(|last| last.to_str().ok()).map(String::from);
        let body = self.body(request).await?;
        let ask = ask::request(route, fields, &query, &body)?;
        match route.answers {
            Answers::Watch => Ok(stream(self.hub.listen(last.as_deref())?, "text/event-stream")),
            Answers::Stream(_) => self.stream(ask, wants_events).await,
            Answers::One(_) | Answers::PartOfStatus(_) | Answers::Many(_) => {
                let notices = match method == Method::GET {
                    true => self.snapshots.of(&ask, || self.ask(ask.clone())).await?,
                    false => {
                        let is_removal = matches!(ask, Request::Remove { .. });
                        let answered = self.ask(ask).await;
                        self.snapshots.forget();
                        if is_removal {
                            self.sweep_uploads().await;
                        }
                        answered?.into()
                    }
                };
                one_answer(route.answers, &notices)
            }
        }
    }
    /// The body of a request, if it is short enough and arrives in time.
    async fn body(&self, request: HttpRequest<Incoming>) -> Result<Bytes, ApiError> {
        let body_bytes_max = self.body_bytes_max;
        let read = Limited::new(request.into_body(), body_bytes_max).collect();
        match tokio::time::timeout(self.body_patience, read).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(ApiError::usage(format!("the body has more than {body_bytes_max} bytes"))
                    .with_hint("raise 'control_line_size' in [limits]"))
            }
            Ok(Err(error)) => Err(ApiError::usage(format!("the body cannot be read: {error}"))),
            Err(_) => Err(ApiError::usage("the body did not come in time")),
        }
    }
    /// Has the node carry out a request that has one answer or a few.
    async fn ask(&self, ask: Request) -> Result<Vec<Notice>, ApiError> {
        let turn = tokio::time::timeout(TURN_PATIENCE, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| too_many(REQUESTS_MAX))?.map_err(|_| gone())?;
        let (api, ended) = (Arc::clone(&self.api), Arc::clone(&self.ended));
        let work = move || {
            ask.check_disk()?;
            match api.begin(&ask, &ended) {
                Some(begun) => Ok(vec![begun?]),
                None => api.answers(ask),
            }
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| gone())?
    }
    /// Makes the node execute a request with successive answers, and forwards each at once. A failure before the first
    /// one fails the request; later failures are the last object of the stream.
    async fn stream(&self, ask: Request, wants_events: bool) -> Result<Response<Content>, ApiError> {
        let turn = Arc::clone(&self.long_turns).try_acquire_owned().map_err(|_| too_many(LONG_REQUESTS_MAX))?;
        let (sender, mut lines) = mpsc::channel::<Result<Notice, ApiError>>(LINES_WAITING_MAX);
        let (api, ended) = (Arc::clone(&self.api), Arc::clone(&self.ended));
        let work = move || {
            let _turn = turn;
            let accepted = ask.check_disk().and_then(|()| {
                api.ask(ask, None, &mut |notice| match sender.blocking_send(Ok(notice)) {
                    Ok(()) if !ended.load(Ordering::SeqCst) => Flow::Continue,
                    // The client has disconnected, or the node ends.
                    Ok(()) | Err(_) => Flow::Stop,
                })
            });
            if let Err(error) = accepted {
                let _ = sender.blocking_send(Err(error));
            }
        };
        spawn("request", work)?;
        let first = lines.recv().await.ok_or_else(gone)??;
        let (written, bytes) = mpsc::channel(1);
        let write = move |notice: &Notice| {
            let line = notice.to_line();
            match wants_events {
                true => hub::event(None, hub::name(&line), &line),
                false => Bytes::from(line + "\n"),
            }
        };
        tokio::spawn(async move {
            let mut next = Some(Ok(first));
            while let Some(line) = next {
                let notice = line.unwrap_or_else(|error| Notice::from(&error));
                if written.send(write(&notice)).await.is_err() {
                    return;
                }
                next = lines.recv().await;
            }
        });
        Ok(stream(bytes, if wants_events { "text/event-stream" } else { "application/x-ndjson" }))
    }
}

fn one_answer(answers: Answers, notices: &[Notice]) -> Result<Response<Content>, ApiError> {
    let lines = |notices: &[Notice]| notices.iter().map(Notice::to_line).collect::<Vec<_>>().join(",");
    let body = match (answers, notices) {
        (Answers::Many(_), notices) => format!("[{}]", lines(notices)),
        (Answers::PartOfStatus(field), [Notice::Status(status)]) => {
            let status = serde_json::to_value(status).map_err(|_| gone())?;
            tributary_core::printable::escape_json(status[field].to_string())
        }
        (_, [.., last]) => last.to_line(),
        (_, []) => return Err(gone()),
    };
    Ok(json(body.into()))
}
fn json(body: Bytes) -> Response<Content> {
    answer_of(StatusCode::OK, "application/json", body)
}
fn stream(lines: mpsc::Receiver<Bytes>, kind: &'static str) -> Response<Content> {
    let mut response = Response::new(Content::stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
fn no_such_route(path: &str, matching: &[(&Route, Vec<(&'static str, &str)>)]) -> Response<Content> {
    let allowed: Vec<&str> = matching.iter().map(|(route, _)| route.method.as_str()).collect();
    let (status, message) = match allowed.is_empty() {
        true => (StatusCode::NOT_FOUND, format!("there is no '{ROOT}{path}'")),
        false => (StatusCode::METHOD_NOT_ALLOWED, format!("'{ROOT}{path}' takes {}", allowed.join(", "))),
    };
    let hint = format!("GET {ROOT}/openapi.json describes all of it");
    let mut response = error_answer(&ApiError::usage(message).with_hint(hint));
    *response.status_mut() = status;
    if let (false, Ok(allowed)) = (allowed.is_empty(), HeaderValue::from_str(&allowed.join(", "))) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}
fn error_answer(error: &ApiError) -> Response<Content> {
    let mut response = json(Notice::from(error).to_line().into());
    *response.status_mut() = status_of(error.kind);
    if *response.status_mut() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
fn status_of(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Rejected => StatusCode::FORBIDDEN,
        ErrorKind::Usage | ErrorKind::Protocol => StatusCode::BAD_REQUEST,
        ErrorKind::Cancelled => StatusCode::CONFLICT,
        ErrorKind::Incomplete => StatusCode::BAD_GATEWAY,
        ErrorKind::InUse | ErrorKind::Gone => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Io => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
fn too_many(limit: usize) -> ApiError {
    ApiError::new(ErrorKind::InUse, format!("{limit} requests are carried out already")).with_hint("try again later")
}
fn gone() -> ApiError {
    ApiError::new(ErrorKind::Gone, "the node has ended")
}
