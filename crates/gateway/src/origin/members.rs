//! The members of a site: who they are, where they are, and which of them asks the origin for a file.
//!
//! Members greet each other about once a second, over the port of their nodes but in TCP. A greeting proves the key,
//! shows the certificate, and tells other members and the pauses that origins have requested. For each file all members
//! order each other by a hash of their keys and the file's address (rendezvous hashing): the first one asks the origin.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
    time::{Instant, timeout},
};
use tributary::{
    LocalApi,
    config::{PeerAddress, SiteConfig},
    time_of_day,
};
use tributary_content::PublicKey;
use tributary_trust::{Certificate, Identity};

use super::{
    Origins,
    discovery::Discovery,
    wire::{Answer, Hello, Line, Question, Wish},
};

/// Maximum members, and addresses where members may be.
const MEMBERS_MAX: usize = 256;
/// Questions that are answered at a time; others wait.
const QUESTIONS_MAX: usize = 1_024;
/// How often members of a small site greet each other; in larger ones less often.
const GREETING_INTERVAL: Duration = Duration::from_secs(1);
const SMALL_SITE: usize = 16;
/// Time between lookups of members' host names.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(5);
/// How long an address that only other members name is tried, and a member remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// Greetings without an answer after which a member is gone.
const GREETINGS_MISSED: u32 = 5;
/// How long a member that does not answer is left alone, and one that sent wrong bytes. If it has stopped, it is gone by
/// then: no second client waits for it.
const PAUSE: Duration = Duration::from_secs(5);
const PAUSE_OF_LIARS: Duration = Duration::from_secs(60);

/// A member, and its address.
pub(super) type Place = (PublicKey, SocketAddr);

/// A site, as this gateway sees it.
pub(crate) struct Site {
    api: Arc<LocalApi>,
    config: SiteConfig,
    port: u16,
    state: Mutex<State>,
    /// Wakes the greeter.
    due: Notify,
}
#[derive(Default)]
struct State {
    members: BTreeMap<PublicKey, Member>,
    /// The addresses of those that announce themselves on the segment, by the names of their services.
    found: BTreeMap<String, Vec<SocketAddr>>,
    /// Possible addresses of members, with the time of the last hint at each.
    places: BTreeMap<SocketAddr, Instant>,
    urgent: BTreeSet<SocketAddr>,
    /// Whether there is news for all.
    has_news: bool,
    /// This gateway in its network, by its files; read again at each turn.
    identity: Option<Identity>,
}
/// A gateway that may join.
struct Member {
    label: String,
    address: SocketAddr,
    /// When it greeted, and when it answered a greeting last.
    heard: Instant,
    seen: Option<Instant>,
    shunned_until: Instant,
}

impl Site {
    pub(crate) fn new(api: &Arc<LocalApi>, config: &SiteConfig, port: u16) -> Site {
        let state = Mutex::new(State { identity: api.identity(), ..State::default() });
        Site { api: Arc::clone(api), config: config.clone(), port, state, due: Notify::new() }
    }
    pub(super) fn key(&self) -> PublicKey {
        self.api.publisher()
    }
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }
    /// A gateway announces these addresses on the segment; without any it has left.
    pub(super) fn found(&self, name: String, addresses: Vec<SocketAddr>) {
        let mut state = self.state.lock();
        let is_room = state.found.len() < MEMBERS_MAX || state.found.contains_key(&name);
        if addresses.is_empty() {
            state.found.remove(&name);
        } else if is_room {
            state.places.extend(addresses.iter().map(|address| (*address, Instant::now())));
            state.found.insert(name, addresses);
            self.due.notify_one();
        }
    }
    /// The members before this one in the order of a file, and those after it.
    pub(super) fn order(&self, file: &str) -> (Vec<Place>, Vec<Place>) {
        order(self.live(), &self.api.publisher(), file)
    }
    /// The members that answer and are not shunned.
    fn live(&self) -> Vec<Place> {
        self.present(Instant::now())
    }
    /// The members that answer, without those that are shunned at that time.
    fn present(&self, at: Instant) -> Vec<Place> {
        let (now, most) = (Instant::now(), self.interval() * GREETINGS_MISSED);
        let state = self.state.lock();
        let is_live = |member: &Member| {
            member.seen.is_some_and(|seen| now.duration_since(seen) < most) && member.shunned_until <= at
        };
        let live = state.members.iter().filter(|(_, member)| is_live(member));
        live.map(|(key, member)| (*key, member.address)).collect()
    }
    fn interval(&self) -> Duration {
        GREETING_INTERVAL * (self.state.lock().members.len() / SMALL_SITE) as u32 + GREETING_INTERVAL
    }
    /// The address of a live member.
    pub(super) fn address(&self, key: &PublicKey) -> Option<SocketAddr> {
        self.live().into_iter().find(|(of, _)| of == key).map(|(_, address)| address)
    }
    /// Whether the holder of a key has joined.
    fn has_joined(&self, key: &PublicKey) -> bool {
        self.state.lock().members.contains_key(key)
    }
    /// Leaves a member alone that did not answer, or that lied.
    pub(super) fn shun(&self, key: &PublicKey, is_liar: bool, reason: &str) {
        if let Some(member) = self.state.lock().members.get_mut(key) {
            member.shunned_until = Instant::now() + if is_liar { PAUSE_OF_LIARS } else { PAUSE };
            match is_liar {
                true => tracing::warn!(
                    "the member '{}' ({key}) of the site is not asked for a minute: {reason}",
                    member.label
                ),
                false => tracing::debug!("the member '{}' of the site: {reason}", member.label),
            }
        }
    }
    /// Has all members ask for news.
    pub(super) fn spread(&self) {
        self.state.lock().has_news = true;
        self.due.notify_one();
    }
    pub(super) fn question(&self, wish: Wish) -> Question {
        Question { site: self.config.name.clone(), wish }
    }

    fn hello(&self, origins: &Origins, is_urgent: bool) -> Hello {
        Hello {
            label: self.api.config().label.clone(),
            port: self.port,
            certificate: self.certificate(),
            members: self.live().into_iter().map(|(_, address)| address).collect(),
            pauses: origins.upstreams.iter().flat_map(|upstream| upstream.requested_pauses()).collect(),
            is_urgent,
        }
    }
    /// Notes a greeting; false if its sender may not join. `answered` is whether it answers a greeting to that address.
    fn welcome(&self, key: &PublicKey, hello: &Hello, address: SocketAddr, answered: bool) -> bool {
        let is_invited = self.config.peers.iter().any(|peer| peer.key == Some(*key));
        let is_open = self.config.access == tributary_trust::Access::Open;
        // Revocations count in an open site too, if its network has an authority.
        if !(is_invited || is_open && self.api.config().network.is_none() || self.is_admitted(key, hello)) {
            if answered {
                self.state.lock().members.remove(key);
            }
            tracing::debug!("'{}' ({key}) at {address} may not join the site", hello.label);
            return false;
        }
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_room = state.members.len() < MEMBERS_MAX || state.members.contains_key(key);
        if is_room {
            let new = || Member { label: hello.label.clone(), address, heard: now, seen: None, shunned_until: now };
            let member = state.members.entry(*key).or_insert_with(new);
            member.heard = now;
            if answered {
                if member.seen.is_none() {
                    tracing::info!("'{}' ({key}) at {address} is in the site", hello.label);
                }
                (member.seen, member.address) = (Some(now), address);
            }
        }
        let told = hello.members.iter().filter(|_| answered).copied();
        for place in told.chain([address]) {
            if state.places.len() < MEMBERS_MAX && !state.places.contains_key(&place) {
                state.places.insert(place, now);
                self.due.notify_one();
            }
        }
        if hello.is_urgent && !answered && state.urgent.len() < MEMBERS_MAX {
            state.urgent.insert(address);
            self.due.notify_one();
        }
        is_room
    }
    /// The text of this gateway's certificate.
    fn certificate(&self) -> Option<String> {
        self.state.lock().identity.as_ref().and_then(Identity::certificate).map(Certificate::to_text)
    }
    /// Whether the authority of this gateway's network has admitted the holder of a key.
    fn is_admitted(&self, key: &PublicKey, hello: &Hello) -> bool {
        let certificate = hello.certificate.as_deref().and_then(|text| Certificate::from_text(text).ok());
        let state = self.state.lock();
        let network = state.identity.as_ref().map(Identity::network);
        network.is_some_and(|network| network.admit(key, "", certificate.as_ref(), time_of_day()).is_ok())
    }
    async fn greet(self: Arc<Site>, origins: Arc<Origins>, address: SocketAddr, is_urgent: bool) {
        let question = self.question(Wish::Hello(self.hello(&origins, is_urgent)));
        match Line::ask(&self.api, address, &question).await {
            Ok((line, Answer::Hello(hello))) if line.key != self.api.publisher() => {
                if self.welcome(&line.key, &hello, address, true) {
                    self.state.lock().places.insert(address, Instant::now());
                    hello.pauses.iter().for_each(|(url, seconds)| origins.pause(url, *seconds));
                }
            }
            Ok(_) => {}
            Err(reason) => tracing::debug!("no member of the site at {address}: {reason}"),
        }
    }
    /// The addresses of members in the config, and of those that announce themselves. Blocks.
    fn configured(&self) -> Vec<SocketAddr> {
        let of = |address: &PeerAddress| match address {
            PeerAddress::Datagrams(address) => vec![*address],
            PeerAddress::Named(named) => named.look_up().unwrap_or_default(),
            PeerAddress::Stream(_) => Vec::new(),
        };
        let mut all: Vec<_> = self.config.peers.iter().flat_map(|peer| of(&peer.address)).collect();
        all.extend(self.state.lock().found.values().flatten());
        all
    }
    /// The addresses to greet now, and whether there is news for all.
    fn take_due(&self, is_turn: bool) -> (Vec<SocketAddr>, bool) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let now = Instant::now();
        state.places.retain(|_, since| now.duration_since(*since) < MEMORY);
        state.members.retain(|_, member| {
            now.duration_since(member.heard) < MEMORY
                || member.seen.is_some_and(|seen| now.duration_since(seen) < MEMORY)
        });
        let urgent = std::mem::take(&mut state.urgent);
        let has_news = std::mem::take(&mut state.has_news);
        let seen = |address: &SocketAddr| state.members.values().any(|of| of.address == *address && of.seen.is_some());
        // New places are greeted at once.
        let is_due = |address: &SocketAddr| is_turn || has_news || urgent.contains(address) || !seen(address);
        (state.places.keys().filter(|address| is_due(address)).copied().collect(), has_news)
    }
}

/// Splits members into those that come before `own` in the order of a file, the first one first, and those after it.
fn order(mut before: Vec<Place>, own: &PublicKey, file: &str) -> (Vec<Place>, Vec<Place>) {
    let score = |key: &PublicKey| *blake3::hash(&[file.as_bytes(), &key.0].concat()).as_bytes();
    before.sort_by_cached_key(|(key, _)| std::cmp::Reverse(score(key)));
    let after = before.split_off(before.partition_point(|(key, _)| score(key) > score(own)));
    (before, after)
}

/// Greets members for as long as the gateway runs.
pub(crate) async fn greet_all(origins: Arc<Origins>, own: SocketAddr) {
    let Some(site) = origins.site.clone() else { return };
    let discovery = site.config.discovery.then(|| Discovery::start(&site, own)).transpose();
    // Members from the config need no multicast.
    let _discovery = discovery.inspect_err(|error| tracing::warn!("gateways of the segment are not found: {error}"));
    let mut met = Vec::new();
    let (mut looked_up, mut turn) = (None::<Instant>, Instant::now());
    loop {
        if looked_up.is_none_or(|at| at.elapsed() >= LOOKUP_INTERVAL) {
            let of = Arc::clone(&site);
            looked_up = Some(Instant::now());
            let found = tokio::task::spawn_blocking(move || of.configured());
            // A slow name server must not keep members from being greeted.
            let (site, found) = (Arc::clone(&site), timeout(LOOKUP_INTERVAL, found));
            tokio::spawn(async move {
                let now = Instant::now();
                let found = found.await.ok().and_then(Result::ok).unwrap_or_default();
                site.state.lock().places.extend(found.into_iter().map(|address| (address, now)));
                site.due.notify_one();
            });
        }
        let is_turn = turn <= Instant::now();
        if is_turn {
            turn = Instant::now() + site.interval();
        }
        let (due, is_urgent) = site.take_due(is_turn);
        // One that is shunned for a moment keeps its face.
        let live = site.present(Instant::now() + PAUSE_OF_LIARS);
        origins.meter.set_members(live.len());
        if live != met || is_turn {
            let (api, nodes) = (Arc::clone(&site.api), live.clone());
            met = live;
            let renewed = tokio::task::spawn_blocking(move || (api.keep_faces(&nodes), api.identity())).await;
            if let Ok((kept, identity)) = renewed {
                site.state.lock().identity = identity;
                let _ = kept.inspect_err(|error| {
                    tracing::debug!("the node gets no faces to the site: {}", error.message);
                });
            }
        }
        for address in due {
            tokio::spawn(Arc::clone(&site).greet(Arc::clone(&origins), address, is_urgent));
        }
        let _ = timeout(turn.saturating_duration_since(Instant::now()), site.due.notified()).await;
        // News come together.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
/// Answers the questions of members for as long as the gateway runs.
pub(crate) async fn answer_all(origins: Arc<Origins>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(QUESTIONS_MAX));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let origins = Arc::clone(&origins);
                tokio::spawn(async move {
                    if let Err(reason) = answer(&origins, stream, peer).await {
                        tracing::debug!("a question of {peer} ends: {reason}");
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!("cannot accept a member's connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}
async fn answer(origins: &Arc<Origins>, stream: TcpStream, peer: SocketAddr) -> Result<(), String> {
    let Some(site) = &origins.site else { return Ok(()) };
    let (mut line, question) = Line::answerer(&site.api, stream).await?;
    let is_ours = question.site == site.config.name;
    let answer = match question.wish {
        Wish::Hello(hello) if is_ours => {
            let address = SocketAddr::new(peer.ip(), hello.port);
            let is_other = line.key != site.api.publisher();
            let is_welcome = is_other && site.welcome(&line.key, &hello, address, false);
            // An outsider learns the key, and no more.
            if is_welcome || !is_other { Answer::Hello(site.hello(origins, false)) } else { Answer::None }
        }
        Wish::File(wish) if is_ours && site.has_joined(&line.key) => return origins.answer_file(&mut line, wish).await,
        Wish::Hello(_) | Wish::File(_) => Answer::None,
    };
    line.answer(&site.api, &answer).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The member that requests a file from the origin, by the order that `seen_by` computes.
    fn first(all: &[PublicKey], seen_by: PublicKey, file: &str) -> PublicKey {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let others = all.iter().filter(|key| **key != seen_by).map(|key| (*key, address)).collect();
        order(others, &seen_by, file).0.first().map_or(seen_by, |(key, _)| *key)
    }

    #[test]
    fn all_members_order_each_other_alike_and_one_that_leaves_moves_only_its_own_files() {
        let all: Vec<PublicKey> = (0..10).map(|number| PublicKey([number; 32])).collect();
        let leaves = all[9];
        let mut moved = 0;
        for file in (0..1_000).map(|number| format!("file {number}")) {
            let asks = first(&all, all[0], &file);
            assert!(all.iter().all(|key| first(&all, *key, &file) == asks), "{file}");
            match asks == leaves {
                true => moved += 1,
                false => assert_eq!(first(&all[..9], all[0], &file), asks, "{file}"),
            }
        }
        assert!((60..140).contains(&moved), "{moved}");
    }
}
