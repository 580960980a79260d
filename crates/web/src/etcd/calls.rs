//! Requests to whichever member of the cluster answers.
use std::{
    collections::HashSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{Client, Response, Url, header};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tributary_directory::engine::{Answer, Entry, If, Lease, Request};

use super::{
    EtcdOptions,
    wire::{self, Failure, Reply, base64, value_of},
};
use crate::request::failure;

/// How long a connection may take.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_millis(400);
/// How long a member may take for a request, plus for each record of an answer; then the next member gets it.
const MEMBER_TIME_MAX: Duration = Duration::from_millis(500);
const RECORD_TIME_MAX: Duration = Duration::from_millis(1);
/// How long a member may take to check a password, which is slow on purpose.
const PASSWORD_TIME_MAX: Duration = Duration::from_secs(3);
/// How many members are tried before a request has failed.
const TRIES: u32 = 3;
/// How often the same record is put under another lease, while others change it.
const RACES_MAX: u32 = 3;
/// Maximum bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Leases that are remembered as made.
const LEASES_MAX: usize = 1 << 20;

/// Codes of gRPC.
const INVALID_ARGUMENT: i64 = 3;
const NOT_FOUND: i64 = 5;
const RESOURCE_EXHAUSTED: i64 = 8;
const UNAUTHENTICATED: i64 = 16;
/// Codes of members that cannot answer: cancelled, unknown, deadline exceeded, internal, unavailable.
const ASK_ANOTHER: [i64; 5] = [1, 2, 4, 13, 14];

/// Why a request failed, according to etcd or the network.
#[derive(Debug)]
pub(super) struct CallError {
    code: i64,
    pub(super) reason: String,
}
impl CallError {
    fn of_network(reason: String) -> CallError {
        CallError { code: 14, reason }
    }
    /// Whether the cluster is full: the quota of a member is used up, which raises an alarm in all of them. The same
    /// code reports too many requests.
    pub(super) fn is_full(&self) -> bool {
        self.code == RESOURCE_EXHAUSTED && self.reason.contains("space exceeded")
    }
    fn is_of_token(&self) -> bool {
        is_of_token(self.code, &self.reason)
    }
}

/// Whether a new token may help. Members answer with a special code after other clients have changed users or roles,
/// and after a restart, when they do not know the token.
pub(super) fn is_of_token(code: i64, reason: &str) -> bool {
    let is_old = ["revision of auth store is old", "user name is empty"].iter().any(|text| reason.contains(text));
    code == UNAUTHENTICATED || code == INVALID_ARGUMENT && is_old
}

tributary_core::declared! {
    /// A cluster and its known state.
    pub(super) struct Cluster {
        client: Client = client,
        endpoints: Vec<Url> = options.endpoints.clone(),
        /// The member that answered last.
        current: AtomicUsize = AtomicUsize::new(0),
        pub(super) prefix: Vec<u8> = options.prefix.clone().into_bytes(),
        user: Option<(String, String)> = options.user.clone(),
        token: tokio::sync::Mutex<Option<String>> = tokio::sync::Mutex::default(),
        granted: Mutex<HashSet<u64>> = Mutex::default(),
        /// Held while a lease is created: the first puts of a device all want the same one.
        granting: tokio::sync::Mutex<()> = tokio::sync::Mutex::default(),
    }
    pub(super) fn new(client: Client, options: &EtcdOptions) {}
}

impl Cluster {
    /// The first key behind the keys with the prefix.
    pub(super) fn prefix_end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                return end;
            }
        }
        vec![0]
    }
    pub(super) fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }
    /// A lease belongs to one prefix: other networks in the same cluster have others.
    pub(super) fn lease(&self, id: u64) -> u64 {
        Lease::of("tributary 2026 etcd leases", &[&self.prefix, &id.to_be_bytes()], 0).id
    }
    /// The number of the member in use.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.endpoints.len().max(1)
    }
    /// The number of the member behind this one.
    pub(super) fn after(&self, member: usize) -> usize {
        (member + 1) % self.endpoints.len().max(1)
    }
    /// Switches to the next member, unless that was done already.
    pub(super) fn leave(&self, member: usize) {
        let next = (member + 1) % self.endpoints.len().max(1);
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Carries out a node's request.
    pub(super) async fn carry_out(&self, request: Request) -> Answer {
        let (id, done) = match request {
            Request::Put { id, entry, when, lease } => (id, self.put(id, &entry, when, lease).await),
            Request::Renew { id, lease } => (id, self.renew(id, lease).await),
            Request::List { id, from, to, count, at } => {
                let mut body = json!({
                    "key": base64(&self.key(&from)), "range_end": base64(&self.key(&to)), "limit": count.to_string(),
                });
                if let Some(at) = at {
                    body["revision"] = at.to_string().into();
                }
                let listed = self.call("kv/range", &body, count).await;
                let prefix = self.prefix.len();
                let answer = listed.map(|reply| Answer::Listed {
                    id,
                    entries: reply.kvs.iter().map(|kv| kv.entry(prefix)).collect(),
                    more: reply.more,
                    revision: at.unwrap_or(reply.header.revision),
                });
                (id, answer)
            }
            Request::Get { id, keys } => (id, self.get(id, &keys).await),
        };
        done.unwrap_or_else(|error| Answer::Failed { id, is_full: error.is_full(), reason: error.reason })
    }
    /// Reads several keys as they were at one moment.
    async fn get(&self, id: u64, keys: &[Vec<u8>]) -> Result<Answer, CallError> {
        let reads: Vec<Value> =
            keys.iter().map(|key| json!({ "request_range": { "key": base64(&self.key(key)) } })).collect();
        let reply = self.call("kv/txn", &json!({ "success": reads }), keys.len() as u32).await?;
        let revision = reply.header.revision;
        let ranges = reply.responses.into_iter().filter_map(|response| response.response_range);
        let entries = ranges.flat_map(|range| range.kvs).map(|kv| kv.entry(self.prefix.len())).collect();
        Ok(Answer::Listed { id, entries, more: false, revision })
    }
    async fn put(&self, id: u64, entry: &Entry, when: If, lease: Lease) -> Result<Answer, CallError> {
        let (key, value, number) = (self.key(&entry.key), value_of(entry), self.lease(lease.id));
        let body = match when {
            If::Always => {
                let body = wire::put(&key, &value, number);
                return self.with_lease("kv/put", &body, lease).await.map(|_| Answer::Stored { id, is_new: true });
            }
            If::Below(below) => wire::put_below(&key, &value, below, number),
            If::Unchanged(revision) => wire::put_at(&key, &value, revision, number),
        };
        let mut reply = self.with_lease("kv/txn", &body, lease).await?;
        for race in 0.. {
            let Some(there) = reply.refused() else { return Ok(Answer::Stored { id, is_new: true }) };
            let Some(there) = there.kvs.into_iter().next() else {
                return Ok(Answer::Stale { id, entry: None, revision: there.header.revision });
            };
            let revision = there.mod_revision;
            if there.value != value {
                return Ok(Answer::Stale { id, entry: Some(there.entry(self.prefix.len())), revision });
            }
            // The client that wins each time stores the same record.
            if there.lease == number || race == RACES_MAX {
                return Ok(Answer::Stored { id, is_new: false });
            }
            // The same record must continue with the renewed lease.
            let body = wire::put_at(&key, &value, revision, number);
            reply = self.with_lease("kv/txn", &body, lease).await?;
            if reply.succeeded {
                break;
            }
        }
        Ok(Answer::Stored { id, is_new: false })
    }
    /// A request that puts something under a lease, which is made if it does not exist.
    pub(super) async fn with_lease(&self, path: &str, body: &Value, lease: Lease) -> Result<Reply, CallError> {
        let number = self.lease(lease.id);
        if !self.is_made(number) {
            // Without a majority each of them is slow; the others do not wait for that.
            let _one = timeout(MEMBER_TIME_MAX, self.granting.lock()).await;
            if !self.is_made(number) {
                self.grant(number, lease.seconds).await?;
            }
        }
        match self.call(path, body, 1).await {
            Err(error) if error.code == NOT_FOUND => {
                self.grant(number, lease.seconds).await?;
                self.call(path, body, 1).await
            }
            other => other,
        }
    }
    fn is_made(&self, number: u64) -> bool {
        self.granted.lock().contains(&number)
    }
    async fn grant(&self, number: u64, seconds: u32) -> Result<(), CallError> {
        let body = json!({ "ID": number.to_string(), "TTL": seconds.to_string() });
        match self.call("lease/grant", &body, 1).await {
            Err(error) if !error.reason.contains("already exists") => return Err(error),
            _ => {}
        }
        let mut granted = self.granted.lock();
        if granted.len() >= LEASES_MAX {
            granted.clear();
        }
        granted.insert(number);
        Ok(())
    }
    async fn renew(&self, id: u64, lease: Lease) -> Result<Answer, CallError> {
        let number = self.lease(lease.id);
        let reply = self.call("lease/keepalive", &json!({ "ID": number.to_string() }), 1).await?;
        let Some(result) = reply.result else {
            let reason = reply.error.as_ref().map(Failure::text).filter(|text| !text.is_empty());
            return Err(CallError::of_network(reason.unwrap_or("an answer to a renewal makes no sense").into()));
        };
        let left = result.ttl.parse().unwrap_or(0u64);
        if left == 0 {
            self.granted.lock().remove(&number);
        }
        Ok(Answer::Renewed { id, is_alive: left > 0 })
    }

    /// Asks one member after the other. `records` may be in the answer.
    pub(super) async fn call(&self, path: &str, body: &Value, records: u32) -> Result<Reply, CallError> {
        let patience = MEMBER_TIME_MAX + RECORD_TIME_MAX * records;
        let mut until = Instant::now() + patience * TRIES;
        let mut is_renewed = false;
        let mut last = CallError::of_network("it does not answer in time".into());
        for _ in 0..TRIES.max(self.endpoints.len() as u32) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let member = self.current();
            let begun = Instant::now();
            let token = timeout(PASSWORD_TIME_MAX, self.token(member)).await;
            // The check of a password is not the request's time.
            until += begun.elapsed();
            let sent = token.as_ref().ok().and_then(|token| token.as_ref().ok()).cloned().flatten();
            let token_answer = match token {
                Ok(Ok(token)) => timeout(patience.min(left), self.call_one(member, path, body, token.as_deref())).await,
                Ok(Err(error)) => Ok(Err(error)),
                Err(late) => Err(late),
            };
            match token_answer {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if error.is_of_token() && self.user.is_some() && !is_renewed => {
                    is_renewed = true;
                    self.forget_token(sent.as_deref()).await;
                    last = error;
                    continue;
                }
                Ok(Err(error)) if !ASK_ANOTHER.contains(&error.code) => return Err(error),
                Ok(Err(error)) => {
                    last = error;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(_) => {
                    let endpoint = self.endpoints.get(member).map(crate::shown).unwrap_or_default();
                    last = CallError::of_network(format!("{endpoint} does not answer in time"));
                }
            }
            self.leave(member);
        }
        Err(last)
    }
    async fn call_one(&self, member: usize, path: &str, body: &Value, token: Option<&str>) -> Result<Reply, CallError> {
        let response = self.send(member, path, body, token).await?;
        let bytes = read_all(response).await?;
        // A stream has one answer a line; only the first one counts.
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice(if path.ends_with("keepalive") { first } else { &bytes })
            .map_err(|error| CallError::of_network(format!("an answer makes no sense: {error}")))
    }
    /// Whether this member, and no other, carries out the request.
    pub(super) async fn call_at(&self, member: usize, path: &str, body: &Value) -> bool {
        let Ok(Ok(token)) = timeout(PASSWORD_TIME_MAX, self.token(member)).await else { return false };
        matches!(timeout(MEMBER_TIME_MAX, self.call_one(member, path, body, token.as_deref())).await, Ok(Ok(_)))
    }
    /// Sends a request to a member; returns its answer if it is a valid one.
    pub(super) async fn post(
        &self,
        member: usize,
        path: &str,
        body: &Value,
    ) -> Result<(Response, Option<String>), CallError> {
        let token = self.token(member).await?;
        match self.send(member, path, body, token.as_deref()).await {
            Err(error) if error.is_of_token() => {
                self.forget_token(token.as_deref()).await;
                Err(error)
            }
            sent => sent.map(|response| (response, token)),
        }
    }
    async fn send(&self, member: usize, path: &str, body: &Value, token: Option<&str>) -> Result<Response, CallError> {
        let endpoint = self.endpoints.get(member).ok_or_else(|| CallError::of_network("no endpoint".into()))?;
        let url = endpoint.join(&format!("/v3/{path}")).map_err(|error| CallError::of_network(error.to_string()))?;
        let mut request = self.client.post(url).header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let response = request.send().await.map_err(|error| {
            let reason = failure(&error).reason();
            CallError::of_network(format!("{}: {reason}", crate::shown(endpoint)))
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let refusal: Failure = serde_json::from_slice(&read_all(response).await?).unwrap_or_default();
        let reason = match refusal.text() {
            "" => format!("{}: {status}", crate::shown(endpoint)),
            text => text.to_owned(),
        };
        // Servers before or in place of etcd answer without a code.
        Err(CallError { code: if refusal.code() == 0 { 14 } else { refusal.code() }, reason })
    }
    /// The credential of the client; `None` for a cluster without users.
    async fn token(&self, member: usize) -> Result<Option<String>, CallError> {
        let Some((name, password)) = &self.user else { return Ok(None) };
        let mut token = self.token.lock().await;
        if token.is_none() {
            let body = json!({ "name": name, "password": password });
            let response = self.send(member, "auth/authenticate", &body, None).await?;
            let reply: Reply = serde_json::from_slice(&read_all(response).await?)
                .map_err(|error| CallError::of_network(format!("an answer makes no sense: {error}")))?;
            *token = Some(reply.token);
        }
        Ok(token.clone())
    }
    /// The next request fetches a new token, unless that was done after `sent`.
    pub(super) async fn forget_token(&self, sent: Option<&str>) {
        self.token.lock().await.take_if(|token| Some(token.as_str()) == sent);
    }
}

async fn read_all(mut response: Response) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(more)) if bytes.len() + more.len() <= ANSWER_BYTES_MAX => bytes.extend_from_slice(&more),
            Ok(Some(_)) => {
                return Err(CallError::of_network(format!("an answer has more than {ANSWER_BYTES_MAX} bytes")));
            }
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(CallError::of_network(error.to_string())),
        }
    }
}
