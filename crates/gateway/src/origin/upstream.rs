//! The server of an origin and its mirrors: their order, the pauses that they request, and large files.
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{HeaderMap, Method, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use tributary_core::event::TransferEvent;
use tributary_net::disk::Existing;
use tributary_web::{
    Checksum, ClientOptions, Origin as Namer, Update, Uplink, Url, Wanted,
    checksum::Algorithm,
    download::Control,
    exchange::{Exchange, Exchanger, Refusal},
    header::HeaderValue,
};

use super::{
    copy::{Body, Head},
    filling::LARGE_BYTES,
};
use crate::{
    config::{HttpOrigin, OriginKind},
    sessions::Failure,
};

/// The pause after a failed connection, and after a busy answer that requests none.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that an origin may request.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Tokens that are remembered.
const TOKENS_MAX: usize = 256;
/// How long a large file may come from no mirror at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// An origin of the config, with the state of its servers.
pub(crate) struct Upstream {
    pub(crate) config: HttpOrigin,
    options: ClientOptions,
    exchanger: Exchanger,
    /// Until when each server gets no request, and whether it has said so to this gateway.
    paused: Mutex<Vec<Option<(Instant, bool)>>>,
    /// How often a server has requested a pause of this gateway.
    refusals: AtomicUsize,
    /// A token for everybody, by the scope of its challenge.
    tokens: Mutex<HashMap<String, HeaderValue>>,
}

impl Upstream {
    pub(crate) fn new(config: HttpOrigin, uplinks: Vec<Uplink>) -> Result<Upstream, Failure> {
        let named = config.urls.iter().filter_map(|url| url.host_str().map(String::from));
        let hosts = named.chain(config.hosts.iter().cloned()).collect();
        let options = ClientOptions { uplinks, origin: Namer::Operator, hosts, ..ClientOptions::default() };
        let exchanger = Exchanger::new(&options).map_err(|error| Failure::new(500, error.to_string()))?;
        let paused = Mutex::new(vec![None; config.urls.len()]);
        Ok(Upstream { config, options, exchanger, paused, refusals: AtomicUsize::new(0), tokens: Mutex::default() })
    }
    /// The address of a file on each server.
    pub(crate) fn addresses(&self, rest: &str, query: Option<&str>) -> Option<Vec<Url>> {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let address = |base: &Url| format!("{}{rest}{query}", base.as_str().trim_end_matches('/')).parse().ok();
        self.config.urls.iter().map(address).collect()
    }
    /// Asks the servers in turn until one answers. A busy one gets no request of any client until its pause is over.
    pub(crate) async fn ask(&self, method: &Method, urls: &[Url], fields: &HeaderMap) -> Result<Exchange, Failure> {
        let mut last = Failure::new(503, "the origin is busy");
        for (at, url) in urls.iter().enumerate() {
            let paused = self.paused.lock().get(at).copied().flatten();
            if paused.is_some_and(|(until, _)| until > Instant::now()) {
                continue;
            }
            match self.ask_one(method, url, fields).await {
                Ok(answer) if matches!(answer.status, 429 | 502..=504) => {
                    let pause = answer.pause().unwrap_or(PAUSE).min(PAUSE_MAX);
                    self.pause(at, pause, true);
                    last = Failure::new(503, format!("the origin answers status {}", answer.status));
                }
                // Mirrors may lack what the first server has, and the other way round.
                Ok(answer) if answer.status >= 404 && at + 1 < urls.len() => {
                    last = Failure::new(502, format!("the origin answers status {}", answer.status));
                }
                Ok(answer) => return Ok(answer),
                Err(refusal) => {
                    // A refused redirect concerns one file, and not the server.
                    if matches!(refusal, Refusal::Again { .. }) {
                        self.pause(at, PAUSE, false);
                    }
                    last = Failure::new(502, refusal.reason());
                }
            }
        }
        Err(last)
    }
    /// How often a server has requested a pause of this gateway.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::Relaxed)
    }
    fn pause(&self, at: usize, pause: Duration, is_requested: bool) {
        self.refusals.fetch_add(is_requested.into(), Ordering::Relaxed);
        if let Some(paused) = self.paused.lock().get_mut(at) {
            *paused = Some((Instant::now() + pause, is_requested));
        }
    }
    /// Takes over a pause that a server requested of another gateway. A longer pause of this gateway stays.
    pub(crate) fn pause_too(&self, url: &str, seconds: u64) {
        let pause = Duration::from_secs(seconds).min(PAUSE_MAX);
        for at in (0..self.config.urls.len()).filter(|at| self.config.urls[*at].as_str() == url) {
            let until = self.paused.lock().get(at).copied().flatten().map(|(until, _)| until);
            if until.is_none_or(|until| until < Instant::now() + pause) {
                self.pause(at, pause, false);
            }
        }
    }
    /// The servers that requested a pause of this gateway, and the whole seconds that are left.
    pub(crate) fn requested_pauses(&self) -> Vec<(String, u64)> {
        let paused = self.paused.lock();
        let requested = paused.iter().zip(&self.config.urls).filter_map(|(paused, url)| {
            let (until, _) = paused.filter(|(_, is_requested)| *is_requested)?;
            Some((url.to_string(), until.saturating_duration_since(Instant::now()).as_secs()))
        });
        requested.filter(|(_, left)| *left > 0).collect()
    }
    /// The time until a server may get a request again.
    pub(crate) fn left(&self) -> Option<Duration> {
        let now = Instant::now();
        let left = |paused: &Option<(Instant, bool)>| {
            paused.map_or(Duration::ZERO, |(until, _)| until.saturating_duration_since(now))
        };
        self.paused.lock().iter().map(left).min().filter(|left| !left.is_zero())
    }
    async fn ask_one(&self, method: &Method, url: &Url, fields: &HeaderMap) -> Result<Exchange, Refusal> {
        let is_tokened = self.config.kind == OriginKind::Oci && !fields.contains_key(header::AUTHORIZATION);
        let scope = url.path().rsplit_once('/').and_then(|(front, _)| front.rsplit_once('/')).map_or("", |(of, _)| of);
        let mut with_token = fields.clone();
        if is_tokened && let Some(token) = self.tokens.lock().get(scope) {
            with_token.insert(header::AUTHORIZATION, token.clone());
        }
        let answer = self.exchanger.ask(method, url, &with_token).await?;
        let challenge = answer.fields.get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let challenge = challenge.filter(|_| is_tokened && answer.status == 401).map(String::from);
        let Some(challenge) = challenge else { return Ok(answer) };
        let token = self.exchanger.token(&challenge).await;
        let token = token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
        let Some(token) = token else { return Ok(answer) };
        // Clients choose the scopes.
        if self.tokens.lock().len() >= TOKENS_MAX {
            self.tokens.lock().clear();
        }
        self.tokens.lock().insert(scope.into(), token.clone());
        with_token.insert(header::AUTHORIZATION, token);
        self.exchanger.ask(method, url, &with_token).await
    }
    /// Whether addresses in an answer with these fields are replaced.
    pub(crate) fn rewrites(&self, fields: &HeaderMap) -> bool {
        let kind = fields.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_text = kind.starts_with("text/") || kind.contains("json") || kind.contains("xml");
        !self.config.replace.is_empty() && is_text && !fields.contains_key(header::CONTENT_ENCODING)
    }
    /// A text with the addresses replaced, if it is UTF-8.
    pub(crate) fn rewritten(&self, text: Vec<u8>) -> Vec<u8> {
        let replaced = |text: String, (from, to): &(String, String)| text.replace(from, to);
        String::from_utf8(text).map_or_else(
            |error| error.into_bytes(),
            |text| self.config.replace.iter().fold(text, replaced).into_bytes(),
        )
    }
    /// Whether there are several ways to its files.
    pub(crate) fn is_manifold(&self) -> bool {
        self.config.urls.len() > 1 || self.options.uplinks.len() > 1
    }
    /// The size of a file with these fields, if it is large and comes without a token, so that several connections can
    /// fetch it.
    pub(crate) fn large(&self, head: &Head) -> Option<u64> {
        let is_plain = head.field("content-encoding").is_none() && self.tokens.lock().is_empty();
        head.size.filter(|size| *size >= LARGE_BYTES && is_plain && head.status == 200)
    }
    /// Fetches a file of known size to `output` from all servers over all uplinks. Blocks.
    pub(crate) fn fetch_all(
        &self,
        mirrors: Vec<Url>,
        size: u64,
        proof: Option<&str>,
        output: &Path,
        body: &Arc<Body>,
    ) -> Result<(), String> {
        let checksum = proof.map(|proof| Checksum::parse(Algorithm::Sha256, proof)).transpose()?;
        let wanted = Wanted {
            mirrors,
            output: output.into(),
            size: Some(size),
            checksum,
            pieces: None,
            existing: Existing::Anything,
            state_dir: None,
            rate_limit: None,
            patience: PATIENCE,
            client: self.options.clone(),
        };
        let (mut refused, mut folder) = (None, None);
        let ended = tributary_web::fetch(&wanted, &mut |update| {
            match update {
                Update::Opened { part, size, chunk_size, held } => {
                    refused = body.begin_chunks(&part, size, chunk_size, held).err();
                    folder = part.parent().map(Path::to_path_buf);
                }
                Update::Event(TransferEvent::ChunkStored { index, .. }) => body.on_chunk(index),
                Update::Event(_) | Update::Report(..) => {}
            }
            if refused.is_some() { Control::Break(()) } else { Control::Continue(()) }
        });
        // The file of an address that fails for ever would fill the disk; the folder is the part's alone.
        if let Some(folder) = folder.filter(|of| ended.is_err() && Some(of.as_path()) != output.parent()) {
            let _ = std::fs::remove_dir_all(folder);
        }
        match refused {
            Some(error) => Err(error.to_string()),
            None => ended.map(drop).map_err(|error| error.to_string()),
        }
    }
}
