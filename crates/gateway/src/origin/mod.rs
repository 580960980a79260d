//! Files of web servers, fetched on a miss and kept for all clients and neighbours.
//!
//! ```text
//!  request ─► target ─► shelf ──fresh──────────────────────────────────► answer ─► client
//!                         │ stale, or nothing                              ▲
//!                         ▼                                                │ as it arrives
//!                       flight (one for all clients) ─► site, neighbours ─► body ┤
//!                                                    └► upstream ─────────► body ┘─► shelf ─► published
//! ```
//! In a site only the first member of a file's order asks the origin, and the others ask it: see [`asking`].
//! Requests with credentials are answered by copies that were fetched without, or else by the origin alone.
mod answering;
mod asking;
mod copy;
mod discovery;
mod filling;
pub(crate) mod members;
mod neighbours;
mod policy;
mod shelf;
mod upstream;
mod wire;

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{HeaderMap, Method, Request, Response, header};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tributary::{ApiError, ErrorKind, LocalApi, spawn, uplink_of};
use tributary_content::PublicKey;
use tributary_net::{disk::ObjectCache, wall_clock};
use tributary_web::{Url, exchange::Exchange, header::HeaderValue};

use self::{
    copy::{Copy, Head, Verified, field_of, texts},
    filling::Source,
    members::Site,
    policy::Control,
    shelf::Shelf,
    upstream::Upstream,
};
use crate::{
    body::Content,
    config::{GatewayConfig, OriginKind},
    folder,
    metrics::http::HttpMeter,
    place,
    sessions::Failure,
};

/// Bodies below this size arrive without an eviction before.
const SMALL_BYTES: u64 = 1 << 20;
/// Bodies that are read at a time; others wait.
const FILLS_MAX: usize = 64;
/// Fields of a request that an origin gets.
const FORWARDED: [&str; 4] = ["accept", "accept-language", "user-agent", "git-protocol"];
/// Fields that name a user.
const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

/// The origins of a gateway.
pub(crate) struct Origins {
    api: Arc<LocalApi>,
    upstreams: Vec<Arc<Upstream>>,
    shelf: Arc<Shelf>,
    flights: Mutex<HashMap<String, Flight>>,
    /// Bytes of the bodies that arrive.
    reserved: AtomicU64,
    /// The number of the next body: each has its own file.
    bodies: AtomicU64,
    /// Limits the bodies that are read at a time.
    fills: Semaphore,
    /// Published copies: their origins, and the digests of their bodies.
    published: Mutex<HashMap<String, (usize, String)>>,
    /// The gateways that fetch each file once together.
    site: Option<Arc<Site>>,
    /// The members that read a large file which arrives here, by its key: each further one reads from the last one.
    readers: Mutex<HashMap<String, Vec<PublicKey>>>,
    meter: Arc<HttpMeter>,
}

/// How a request to the origin ends, for all who wait for it.
type Flight = watch::Receiver<Option<Result<Landed, Failure>>>;

/// The file that a request means.
pub(crate) struct Target {
    origin: usize,
    rest: String,
    query: Option<String>,
}

impl Target {
    /// Whether it stays below the address of the origin.
    fn is_plain(&self) -> bool {
        let is_trick = |part: &str| folder::decode(part).is_none_or(|part| matches!(&part[..], b"." | b".."));
        !self.rest.split('/').any(is_trick)
    }
}

/// A request to an origin.
#[derive(Clone)]
struct Ask {
    origin: usize,
    upstream: Arc<Upstream>,
    urls: Vec<Url>,
    path: String,
    query: Option<String>,
    method: Method,
    fields: HeaderMap,
    /// The hash of method and address.
    key: String,
    /// The hash of the address alone, which names the file for all methods.
    file: String,
    /// Whether only the origin is left to ask: for another member, or because no member has an answer.
    is_for_member: bool,
}

/// How a flight ended.
#[derive(Clone)]
enum Landed {
    /// With a copy, and its source.
    Copy(Copy, &'static str),
    /// With an answer for one client only: the first one that takes it.
    Own(Arc<Mutex<Option<Exchange>>>),
}

impl Landed {
    fn own(exchange: Exchange) -> Landed {
        Landed::Own(Arc::new(Mutex::new(Some(exchange))))
    }
}

impl Origins {
    /// Opens the copies of earlier runs, and publishes them; `None` without origins and a site.
    pub(crate) fn start(
        api: &Arc<LocalApi>,
        config: &GatewayConfig,
        cache: &ObjectCache,
        site: Option<Site>,
        meter: Arc<HttpMeter>,
    ) -> Result<Option<Arc<Origins>>, ApiError> {
        if config.origins.is_empty() && site.is_none() {
            return Ok(None);
        }
        let failed = |error| ApiError::io("open the copies in", config.cache.display(), &error);
        let shelf = Arc::new(Shelf::open(&config.cache, cache.clone()).map_err(failed)?);
        let mut uplinks: Vec<_> = api.config().faces.iter().map(uplink_of).collect();
        uplinks.dedup();
        let of = |origin: &crate::config::HttpOrigin| Upstream::new(origin.clone(), uplinks.clone()).map(Arc::new);
        let upstreams: Result<Vec<_>, Failure> = config.origins.iter().map(of).collect();
        let upstreams = upstreams.map_err(|failure| ApiError::new(ErrorKind::Usage, failure.reason))?;
        let origins = Arc::new(Origins {
            api: Arc::clone(api),
            upstreams,
            shelf,
            flights: Mutex::default(),
            reserved: AtomicU64::new(0),
            bodies: AtomicU64::new(0),
            fills: Semaphore::new(FILLS_MAX),
            published: Mutex::default(),
            site: site.map(Arc::new),
            readers: Mutex::default(),
            meter,
        });
        let earlier = Arc::clone(&origins);
        spawn("origin", move || {
            for (key, head) in earlier.shelf.complete() {
                let is_of = |upstream: &Arc<Upstream>| head.url.starts_with(upstream.config.urls[0].as_str());
                let origin = earlier.upstreams.iter().position(is_of);
                origin.into_iter().for_each(|origin| earlier.publish(origin, &key, &head));
            }
        })?;
        Ok(Some(origins))
    }
    fn publish(&self, origin: usize, key: &str, head: &Head) {
        if let (Some(digest), 200) = (&head.digest, head.status) {
            self.published.lock().insert(key.into(), (origin, digest.clone()));
            neighbours::publish(&self.api, &self.upstreams[origin].config, &self.shelf, key, head);
        }
    }
    /// Withdraws copies whose bodies were evicted.
    pub(crate) fn tidy(&self) {
        let is_gone = |_: &String, (_, digest): &mut (usize, String)| !self.shelf.body_path(digest).exists();
        let gone: Vec<_> = self.published.lock().extract_if(is_gone).collect();
        for (key, (origin, digest)) in gone {
            let is_other = self.published.lock().values().any(|(_, other)| *other == digest);
            let digest = Some(digest.as_str()).filter(|_| !is_other);
            neighbours::withdraw(&self.api, &self.upstreams[origin].config, &self.shelf, &key, digest);
        }
    }

    /// The file that a request means, if it is below an origin. Of several the one with the longest path counts, and one
    /// that names the host.
    pub(crate) fn target<B>(&self, request: &Request<B>, config: &GatewayConfig) -> Option<Result<Target, Failure>> {
        let host = place::host(request).ok()??;
        let is_own = place::is_own(request, config);
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let registry = query.split('&').find_map(|field| field.strip_prefix("ns=")).and_then(folder::decode);
        let fits = |upstream: &Upstream| {
            let origin = &upstream.config;
            let rest = path.strip_prefix(&origin.path)?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            let is_named = origin.host.as_ref().is_some_and(|named| {
                let is_registry = registry.as_ref().is_some_and(|of| of.eq_ignore_ascii_case(named.as_bytes()));
                named.eq_ignore_ascii_case(&host) || is_own && origin.kind == OriginKind::Oci && is_registry
            });
            let is_meant = is_named || is_own && origin.host.is_none();
            (is_below && is_meant).then_some((is_named, origin.path.len()))
        };
        let all = self.upstreams.iter().enumerate().filter_map(|(at, upstream)| Some((fits(upstream)?, at)));
        let (_, origin) = all.max_by_key(|(rank, at)| (*rank, std::cmp::Reverse(*at)))?;
        let rest = path[self.upstreams[origin].config.path.len()..].to_string();
        let fields: Vec<&str> = query.split('&').filter(|field| !field.is_empty()).collect();
        let fields = fields.into_iter().filter(|field| registry.is_none() || !field.starts_with("ns="));
        let query = Some(fields.collect::<Vec<_>>().join("&")).filter(|query| !query.is_empty());
        let target = Target { origin, rest, query };
        let refused = || Failure::new(400, "a path with . or .. is not passed on");
        Some(if target.is_plain() { Ok(target) } else { Err(refused()) })
    }

    /// Answers a request.
    pub(crate) async fn answer<B>(
        self: &Arc<Self>,
        target: Target,
        request: &Request<B>,
    ) -> Result<Response<Content>, Failure> {
        let method = request.method().clone();
        if method != Method::GET && method != Method::HEAD {
            return Err(Failure::new(405, "an origin is passed on GET and HEAD only"));
        }
        let ask = self.ask_for(target, method, request.headers())?;
        let landed = self.choose(&ask, self.copy_for(&ask), request.headers()).await;
        self.meter.landed(match &landed {
            Ok(Landed::Copy(_, how)) if how.ends_with("site") => "site",
            Ok(Landed::Copy(_, how)) if how.ends_with("neighbour") => "neighbour",
            Ok(Landed::Copy(_, how)) if how.starts_with("hit") => "disk",
            Ok(_) => "origin",
            Err(_) => "nowhere",
        });
        let landed = landed?;
        answering::respond(landed, request, &ask.upstream.config)
    }
    fn ask_for(&self, target: Target, method: Method, request: &HeaderMap) -> Result<Ask, Failure> {
        let Target { origin, rest: path, query } = target;
        let upstream = Arc::clone(&self.upstreams[origin]);
        let urls = upstream.addresses(&path, query.as_deref());
        let urls = urls.ok_or_else(|| Failure::new(400, "the path makes no address at the origin"))?;
        let mut fields = chosen(request, &FORWARDED);
        // One form of each file serves all clients, and the digest of a protocol counts for that form.
        fields.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let key = |method| key_of(method, &upstream.config.name, &urls[0]);
        let (file, key) = (key(&Method::GET), key(&method));
        Ok(Ask { origin, upstream, urls, path, query, method, fields, key, file, is_for_member: false })
    }
    fn copy_for(&self, ask: &Ask) -> Option<Copy> {
        let of_head = || self.shelf.find(&ask.key, &ask.fields).filter(|_| ask.method == Method::HEAD);
        self.shelf.find_whole(&ask.file, &ask.fields).or_else(of_head)
    }
    /// Takes over a pause that a server requested of another member.
    fn pause(&self, url: &str, seconds: u64) {
        self.upstreams.iter().for_each(|upstream| upstream.pause_too(url, seconds));
    }
    /// The copy or answer for a request.
    async fn choose(self: &Arc<Self>, ask: &Ask, copy: Option<Copy>, request: &HeaderMap) -> Result<Landed, Failure> {
        let wish = Control::of(request);
        let credentials = chosen(request, &CREDENTIALS);
        let Some(copy) = copy else {
            if wish.only_if_cached {
                return Err(Failure::new(504, "there is no copy"));
            }
            return self.fetch(ask, None, credentials, request).await;
        };
        let (head, stale_for) = (&copy.head, copy.head.staleness());
        let is_young = wish.max_age.is_none_or(|most| head.age().is_some_and(|age| age.as_secs() <= most));
        let is_asked_anew = wish.no_cache || !is_young;
        if head.is_fresh() && !is_asked_anew || wish.only_if_cached {
            return Ok(Landed::Copy(copy, "hit"));
        }
        let control = Control::of(&head.map());
        let while_revalidate = Duration::from_secs(control.while_revalidate.unwrap_or(0));
        if !is_asked_anew && !stale_for.is_zero() && stale_for <= while_revalidate {
            let (origins, ask, prior) = (Arc::clone(self), ask.clone(), copy.clone());
            tokio::spawn(async move { drop(origins.obtain(&ask, Some(prior)).await) });
            return Ok(Landed::Copy(copy, "hit; detail=stale-while-revalidate"));
        }
        match self.fetch(ask, Some(copy.clone()), credentials, request).await {
            Err(failure) if failure.status >= 500 => {
                let most = ask.upstream.config.stale.max(Duration::from_secs(control.if_error.unwrap_or(0)));
                let is_forbidden = control.must_revalidate || control.no_cache || stale_for > most;
                if is_forbidden && !head.is_fresh() {
                    return Err(failure);
                }
                tracing::debug!("'{}' is served from a copy: {}", head.url, failure.reason);
                Ok(Landed::Copy(copy, "hit; detail=origin-away"))
            }
            fetched => fetched,
        }
    }
    /// Asks the origin, or neighbours first. With credentials the answer is for one client, unless it says otherwise.
    async fn fetch(
        self: &Arc<Self>,
        ask: &Ask,
        prior: Option<Copy>,
        credentials: HeaderMap,
        request: &HeaderMap,
    ) -> Result<Landed, Failure> {
        // The hub and registries serve most files to everybody, and clients send their token with each request.
        let is_public_first = credentials.is_empty() || ask.upstream.config.kind != OriginKind::Web;
        if is_public_first {
            match self.obtain(ask, prior).await? {
                Landed::Copy(copy, how)
                    if copy.head.fits(&ask.fields) && (credentials.is_empty() || copy.head.status == 200) =>
                {
                    return Ok(Landed::Copy(copy, how));
                }
                Landed::Own(exchange) if credentials.is_empty() => {
                    if let Some(exchange) = exchange.lock().take() {
                        return Ok(Landed::own(exchange));
                    }
                }
                Landed::Copy(..) | Landed::Own(_) => {}
            }
        }
        let mut fields = ask.fields.clone();
        fields.extend(credentials);
        let is_range = request.contains_key(header::RANGE);
        if is_range {
            fields.extend(chosen(request, &["range", "if-range"]));
        }
        let ask = Ask { fields, ..ask.clone() };
        let exchange = self.ask(&ask).await?;
        Ok(if is_range { Landed::own(exchange) } else { self.land(&ask, exchange) })
    }
    async fn ask(&self, ask: &Ask) -> Result<Exchange, Failure> {
        let before = ask.upstream.refusals();
        let answer = ask.upstream.ask(&ask.method, &ask.urls, &ask.fields).await;
        if ask.upstream.refusals() != before {
            self.site.iter().for_each(|site| site.spread());
        }
        answer.map_err(|failure| match ask.upstream.left() {
            Some(left) => Failure { retry_after: Some(left), ..failure },
            None => failure,
        })
    }
    /// One request to the site, or to the origin, for all clients that want the same.
    fn obtain<'a>(
        self: &'a Arc<Self>,
        ask: &'a Ask,
        prior: Option<Copy>,
    ) -> Pin<Box<dyn Future<Output = Result<Landed, Failure>> + Send + 'a>> {
        Box::pin(self.obtain_by_flight(ask, prior))
    }
    async fn obtain_by_flight(self: &Arc<Self>, ask: &Ask, prior: Option<Copy>) -> Result<Landed, Failure> {
        // Two members that each take the other one for the first must not wait for each other's flights.
        let is_of_site = self.site.is_some() && !ask.is_for_member;
        let id = format!("{}{}", ask.flight(), if is_of_site { "-site" } else { "" });
        let mut flight = {
            let mut flights = self.flights.lock();
            // Another flight may have ended since the first look.
            let landed = match ask.method {
                Method::HEAD => self.shelf.find(&ask.key, &ask.fields),
                _ => self.shelf.find_whole(&ask.key, &ask.fields),
            };
            if let Some(copy) = landed.filter(|copy| copy.head.is_fresh() && prior.is_none()) {
                return Ok(Landed::Copy(copy, "hit"));
            }
            match flights.get(&id) {
                Some(flight) => flight.clone(),
                None => {
                    let (tell, flight) = watch::channel(None);
                    flights.insert(id.clone(), flight.clone());
                    let (origins, ask) = (Arc::clone(self), ask.clone());
                    // A client that goes away must not end it for the others.
                    tokio::spawn(async move {
                        let landed = origins.fly(&ask, prior).await;
                        origins.flights.lock().remove(&id);
                        tell.send_replace(Some(landed));
                    });
                    flight
                }
            }
        };
        let landed = flight.wait_for(Option::is_some).await.map(|landed| landed.clone());
        landed.ok().flatten().unwrap_or_else(|| Err(Failure::new(503, "the gateway ends")))
    }
    async fn fly(self: &Arc<Self>, ask: &Ask, prior: Option<Copy>) -> Result<Landed, Failure> {
        let config = &ask.upstream.config;
        let is_anew = prior.as_ref().is_some_and(|prior| prior.head.is_fresh());
        if self.site.is_some() && !ask.is_for_member {
            return match self.ask_site(ask, is_anew).await {
                Some(landed) => landed,
                None => self.obtain(&Ask { is_for_member: true, ..ask.clone() }, prior).await,
            };
        }
        let is_miss = prior.is_none() && ask.method == Method::GET;
        if is_miss && let Some(landed) = self.ask_next(ask).await {
            return Ok(landed);
        }
        // In a site an outsider's copy would count as much as a member's.
        if is_miss
            && self.site.is_none()
            && let Some(head) = neighbours::find(&self.api, config, &ask.key, ask.urls[0].as_str()).await
            && head.fits(&ask.fields)
            && let Some(copy) = self.adopt(ask, head)
        {
            return Ok(Landed::Copy(copy, "fwd=miss; detail=neighbour"));
        }
        let mut fields = ask.fields.clone();
        for (name, condition) in [("etag", header::IF_NONE_MATCH), ("last-modified", header::IF_MODIFIED_SINCE)] {
            let value = prior.as_ref().and_then(|prior| HeaderValue::from_str(prior.head.field(name)?).ok());
            value.into_iter().for_each(|value| drop(fields.insert(condition.clone(), value)));
        }
        let exchange = self.ask(&Ask { fields, ..ask.clone() }).await?;
        match prior {
            Some(prior) if exchange.status == 304 => {
                let head = self.renewed(ask, &prior.head, &exchange);
                let copy = Copy { head, body: prior.body.filter(|_| prior.head.digest.is_none()) };
                self.shelf.keep(&ask.key, copy.clone());
                self.publish(ask.origin, &ask.key, &copy.head);
                let body = copy.body.clone().or_else(|| self.shelf.body(&copy));
                Ok(Landed::Copy(Copy { body, ..copy }, "fwd=stale; fwd-status=304"))
            }
            Some(_) if exchange.status >= 500 => {
                Err(Failure::new(502, format!("the origin answers status {}", exchange.status)))
            }
            _ => Ok(self.land(ask, exchange)),
        }
    }
    /// A head that the origin has confirmed (RFC 9111 §3.2).
    fn renewed(&self, ask: &Ask, prior: &Head, exchange: &Exchange) -> Head {
        let mut fields = prior.map();
        let newer = policy::passed(&exchange.hops, &exchange.fields);
        newer.keys().for_each(|name| drop(fields.remove(name)));
        fields.extend(newer);
        Head {
            fields: texts(&fields),
            at: wall_clock().as_secs(),
            lifetime: lifetime_of(ask, prior.status, exchange, &fields).as_secs(),
            ..prior.clone()
        }
    }
    /// Keeps an answer for all clients if it may be kept, and begins to read its body.
    fn land(self: &Arc<Self>, ask: &Ask, exchange: Exchange) -> Landed {
        let is_private = ask.is_private();
        let status = exchange.status;
        let are_shared = exchange.hops.iter().all(|(_, hop)| policy::may_share(200, hop, is_private));
        if !are_shared || !policy::may_share(status, &exchange.fields, is_private) {
            return Landed::own(exchange);
        }
        let fields = policy::passed(&exchange.hops, &exchange.fields);
        let of_fields = policy::digest_of_fields(ask.upstream.config.kind, &fields);
        let proof = policy::digest_of_path(&ask.path).or(of_fields).filter(|_| status == 200);
        let length = exchange.fields.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut vary = policy::varied(&exchange.fields);
        // Registries choose the form of a manifest by `Accept`, without `Vary`.
        if ask.upstream.config.kind == OriginKind::Oci
            && (status != 200 || policy::fixed(OriginKind::Oci, &ask.path).is_none())
        {
            vary.push("accept".into());
        }
        let vary = vary.into_iter().map(|name| {
            let value = field_of(&ask.fields, &name);
            (name, value)
        });
        let is_rewritten = status == 200 && ask.upstream.rewrites(&fields);
        let length = length.filter(|_| !is_rewritten);
        let head = Head {
            url: ask.urls[0].to_string(),
            vary: vary.collect(),
            status,
            size: length,
            digest: None,
            at: wall_clock().as_secs(),
            lifetime: lifetime_of(ask, status, &exchange, &fields).as_secs(),
            verified: if proof.is_some() { Verified::Digest } else { Verified::Origin },
            fields: texts(&fields),
        };
        if ask.method == Method::HEAD {
            let copy = Copy { head, body: None };
            self.shelf.keep(&ask.key, copy.clone());
            return Landed::Copy(copy, "fwd=miss");
        }
        if let Some(copy) = self.shelved(ask, &head, proof.as_deref()) {
            return Landed::Copy(copy, "fwd=miss; detail=same-digest");
        }
        if length.is_some_and(|length| !self.reserve(length)) {
            tracing::warn!("'{}' is not kept: it does not fit in the cache; see 'cache_size' in [http]", head.url);
            return Landed::own(exchange);
        }
        let large = ask.upstream.large(&head).filter(|_| ask.upstream.is_manifold() && !ask.is_private());
        let source = large.map_or(Source::Answer(Box::new(exchange)), Source::Mirrors);
        Landed::Copy(self.fill(ask, head, proof, source), "fwd=miss; stored")
    }
    /// A copy of a body that is on the disk already, under another address or from before.
    fn shelved(&self, ask: &Ask, head: &Head, digest: Option<&str>) -> Option<Copy> {
        let digest = digest?.to_string();
        let copy = Copy { head: Head { digest: Some(digest), ..head.clone() }, body: None };
        let body = self.shelf.body(&copy)?;
        let head = Head { size: Some(body.len()), ..copy.head };
        self.shelf.keep(&ask.key, Copy { head: head.clone(), body: None });
        self.publish(ask.origin, &ask.key, &head);
        Some(Copy { head, body: Some(body) })
    }
    /// Makes room for a body besides those that arrive; [`Origins::fill`] gives it back.
    fn reserve(&self, bytes: u64) -> bool {
        let others = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        // A look at the whole folder would cost more than a small file; the next sweep makes up for it.
        let is_room = bytes < SMALL_BYTES || self.shelf.cache.make_room(others.saturating_add(bytes));
        if bytes >= SMALL_BYTES {
            // Publications keep their files open, and so the space.
            self.tidy();
        }
        if !is_room {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_room
    }
    /// Takes the copy of a neighbour.
    fn adopt(self: &Arc<Self>, ask: &Ask, head: Head) -> Option<Copy> {
        let of_fields = policy::digest_of_fields(ask.upstream.config.kind, &head.map());
        let proof = policy::digest_of_path(&ask.path).or(of_fields);
        if proof.is_some() && proof != head.digest {
            return None;
        }
        let verified = if proof.is_some() { Verified::Digest } else { Verified::Publisher };
        let head = Head { verified, ..head };
        let digest = head.digest.clone();
        self.shelved(ask, &head, digest.as_deref()).or_else(|| {
            let is_room = self.reserve(head.size?);
            is_room.then(|| self.fill(ask, Head { digest: None, ..head }, digest, Source::Neighbour))
        })
    }
}

impl Ask {
    fn is_private(&self) -> bool {
        CREDENTIALS.iter().any(|name| self.fields.contains_key(*name))
    }
    /// What tells requests to the origin apart.
    fn flight(&self) -> String {
        format!("{}-{}", self.key, blake3::hash(field_of(&self.fields, "accept").as_bytes()).to_hex().split_at(8).0)
    }
}
/// How long an answer is fresh: as long as each redirect that led to it.
fn lifetime_of(ask: &Ask, status: u16, exchange: &Exchange, fields: &HeaderMap) -> Duration {
    let (config, now) = (&ask.upstream.config, wall_clock());
    if let Some(life) = policy::fixed(config.kind, &ask.path).filter(|_| status == 200) {
        return life;
    }
    let of = |status, fields: &HeaderMap| policy::lifetime(status, fields, now, config.fresh);
    let hops = exchange.hops.iter().map(|(status, hop)| of(*status, hop));
    // A 304 may leave out unchanged fields; its own age counts.
    let mut last = fields.clone();
    last.extend(chosen(&exchange.fields, &["age"]));
    hops.chain([of(status, &last)]).min().unwrap_or_default()
}
/// The hash of an origin, a method and an address.
fn key_of(method: &Method, name: &tributary_content::Name, url: &Url) -> String {
    blake3::hash(format!("{method} {name} {url}").as_bytes()).to_hex().split_at(40).0.into()
}
/// Some of the fields.
fn chosen(fields: &HeaderMap, names: &[&'static str]) -> HeaderMap {
    let mut chosen = HeaderMap::new();
    for name in names {
        fields.get_all(*name).iter().for_each(|value| _ = chosen.append(*name, value.clone()));
    }
    chosen
}
