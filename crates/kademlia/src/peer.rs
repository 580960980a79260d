//! This peer in the swarm: its connections, whom it knows, and the two questions that it asks others.
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use libp2p_connection_limits::{Behaviour as Limits, ConnectionLimits};
use libp2p_core::{Multiaddr, Transport, multiaddr::Protocol, upgrade::Version};
use libp2p_identify::{Behaviour as Identify, Config as IdentifyConfig, Event as IdentifyEvent};
use libp2p_identity::{Keypair, PeerId};
use libp2p_kad::{
    Behaviour as Kad, Config as KadConfig, Event as KadEvent, GetRecordOk, Mode, PutRecordError, PutRecordPhase,
    QueryId, QueryInfo, QueryResult, Quorum, Record, RecordKey,
};
use libp2p_swarm::{NetworkBehaviour, StreamProtocol, Swarm, SwarmEvent, dial_opts::DialOpts};
use tokio::{
    net::lookup_host,
    sync::{mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tributary_transport::engine::{Answer, Peers, Rules};

use crate::{Inbox, KademliaError, KademliaOptions, WRITE_TIME_MAX, store::Store};

/// Peers that keep each record.
pub(crate) const COPIES: usize = 20;
/// Peers of a lookup that are asked at the same time. More than libp2p's 3: all of the last [`COPIES`] are waited for.
const PARALLEL: usize = 10;
/// How long a connection may take until streams can be opened.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a peer may take for an answer, and a lookup for all of its peers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(3);
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a message: a set, and the addresses of twenty peers.
const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// How long a connection stays when nobody uses it: so short that a swarm of thousands does not fill the table of files,
/// so long that those who are asked often are asked in one round trip.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// Connections at most, and those of one peer.
const CONNECTIONS_MAX: u32 = 1_024;
const CONNECTIONS_OF_PEER_MAX: u32 = 4;
/// Addresses of a peer that are believed.
const ADDRESSES_MAX: usize = 8;
/// Peers that answered once and do not now; some of them are dialled every few seconds, so that the two parts of a swarm
/// that was split find each other.
const LOST_MAX: usize = 256;
const LOST_TRIES: usize = 4;
/// How often it is looked after connections.
const CARE_EACH: Duration = Duration::from_secs(5);
/// How often it is looked for peers even if nobody asks for records: whoever has gone is noticed.
const LOOK_EACH: Duration = Duration::from_secs(15);
/// How often the state is told, and what has ended removed.
const TELL_EACH: Duration = Duration::from_secs(2);
/// How often it is looked whether a put is due to be answered.
const TICK: Duration = Duration::from_millis(20);

/// What the peer is asked by its resolver.
pub(crate) enum Command {
    /// Reads a set at all who keep it.
    Get { key: Vec<u8>, found: mpsc::UnboundedSender<Found> },
    /// Puts a set at all who are to keep it.
    Put { key: Vec<u8>, value: Vec<u8>, done: oneshot::Sender<Copies> },
}

/// What was read.
pub(crate) enum Found {
    /// A set, as one of those who keep it has it.
    Set(Vec<u8>),
    /// All of them have been asked.
    All,
}

/// How many peers have acknowledged a put, and how many have to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    pub(crate) made: usize,
    pub(crate) needed: usize,
}

/// What a peer does with others.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p_swarm::derive_prelude")]
struct Behaviour {
    limits: Limits,
    identify: Identify,
    kad: Kad<Store>,
}

/// Where the peer listens, as soon as it does.
pub(crate) type Listeners = Arc<Mutex<Vec<SocketAddr>>>;

pub(crate) struct Peer {
    swarm: Swarm<Behaviour>,
    protocol: StreamProtocol,
    /// Those of the config, and who answered there.
    first: Vec<(String, Option<PeerId>)>,
    lost: VecDeque<(PeerId, Vec<Multiaddr>)>,
    addresses: BTreeMap<PeerId, Vec<Multiaddr>>,
    gets: HashMap<QueryId, mpsc::UnboundedSender<Found>>,
    puts: HashMap<QueryId, oneshot::Sender<Copies>>,
    /// When puts are answered at the latest, in the order in which they were asked.
    due: VecDeque<(Instant, QueryId)>,
    /// Addresses of names in the config.
    resolved: (mpsc::UnboundedSender<SocketAddr>, mpsc::UnboundedReceiver<SocketAddr>),
    listeners: Listeners,
    count: watch::Sender<usize>,
    /// Until when it does not say that it is alone: it expects others.
    joins_until: Instant,
    inbox: Arc<Inbox>,
}

impl Peer {
    /// A peer that listens. Called in the runtime that is to run it.
    pub(crate) fn new(
        options: &KademliaOptions,
        rules: Arc<dyn Rules>,
        listeners: Listeners,
        count: watch::Sender<usize>,
        inbox: Arc<Inbox>,
    ) -> Result<Peer, KademliaError> {
        let keypair =
            Keypair::ed25519_from_bytes(options.secret).map_err(|error| KademliaError::Key(error.to_string()))?;
        let protocol = StreamProtocol::try_from_owned(format!("{}kad/1", options.prefix))
            .map_err(|_| KademliaError::Prefix(options.prefix.clone()))?;
        let noise = libp2p_noise::Config::new(&keypair).map_err(|error| KademliaError::Key(error.to_string()))?;
        let transport = libp2p_tcp::tokio::Transport::new(libp2p_tcp::Config::default())
            .upgrade(Version::V1Lazy)
            .authenticate(noise)
            .multiplex(libp2p_yamux::Config::default())
            .timeout(CONNECT_TIME_MAX)
            .boxed();
        let id = keypair.public().to_peer_id();
        let store = Store::new(id, rules, options.records_max, options.bytes_max);
        let behaviour = behaviour(&keypair, &protocol, store);
        let config = libp2p_swarm::Config::with_tokio_executor().with_idle_connection_timeout(IDLE_TIME_MAX);
        let mut swarm = Swarm::new(transport, behaviour, id, config);
        for address in &options.listen {
            swarm
                .listen_on(multiaddr(*address))
                .map_err(|error| KademliaError::Listen { address: *address, reason: error.to_string() })?;
        }
        Ok(Peer {
            swarm,
            protocol,
            first: options.peers.iter().map(|peer| (peer.clone(), None)).collect(),
            lost: VecDeque::new(),
            addresses: BTreeMap::new(),
            gets: HashMap::new(),
            puts: HashMap::new(),
            due: VecDeque::new(),
            resolved: mpsc::unbounded_channel(),
            listeners,
            count,
            joins_until: options.joins_until(),
            inbox,
        })
    }
    /// Carries out what is asked until nobody can ask any more.
    pub(crate) async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Command>) {
        let every = |period| {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut tick, mut tell, mut care, mut look) =
            (every(TICK), every(TELL_EACH), every(CARE_EACH), every(LOOK_EACH));
        loop {
            tokio::select! {
                command = asked.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => self.on_event(event),
                _ = tick.tick(), if !self.due.is_empty() => self.answer_due(),
                _ = tell.tick() => self.tell(),
                _ = care.tick() => self.care(),
                Some(address) = self.resolved.1.recv() => self.dial(address),
                _ = look.tick() => {
                    self.swarm.behaviour_mut().kad.get_closest_peers(PeerId::random());
                }
            }
        }
    }

    // What is asked.

    fn on_command(&mut self, command: Command) {
        let kad = &mut self.swarm.behaviour_mut().kad;
        match command {
            Command::Get { key, found } => {
                let id = kad.get_record(RecordKey::from(key));
                self.gets.insert(id, found);
            }
            Command::Put { key, value, done } => {
                kad.store_mut().is_publishing = true;
                let put = kad.put_record(Record::new(RecordKey::from(key), value), Quorum::All);
                kad.store_mut().is_publishing = false;
                match put {
                    Ok(id) => {
                        self.puts.insert(id, done);
                        self.due.push_back((Instant::now() + WRITE_TIME_MAX, id));
                    }
                    Err(_) => drop(done),
                }
            }
        }
    }
    /// How many copies have to be made: half of those who are to keep a record, as far as they are known.
    fn needed(&mut self) -> usize {
        self.known().min(COPIES).div_ceil(2)
    }
    fn known(&mut self) -> usize {
        self.swarm.behaviour_mut().kad.kbuckets().map(|bucket| bucket.num_entries()).sum()
    }
    /// Answers puts that have taken long enough; they go on nevertheless.
    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some((_, id)) = self.due.front().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_front();
            if !self.puts.contains_key(&id) {
                continue;
            }
            let made = match self.swarm.behaviour().kad.query(&id).as_ref().map(|query| query.info()) {
                Some(QueryInfo::PutRecord { phase: PutRecordPhase::PutRecord { success, .. }, .. }) => success.len(),
                _ => 0,
            };
            self.on_put(id, made);
        }
    }
    fn on_put(&mut self, id: QueryId, made: usize) {
        let needed = self.needed();
        if let Some(done) = self.puts.remove(&id) {
            let _ = done.send(Copies { made, needed });
        }
    }

    // What happens.

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Kad(KadEvent::OutboundQueryProgressed {
                id, result, step, ..
            })) => {
                self.on_progress(id, result, step.last);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Kad(KadEvent::RoutingUpdated {
                peer, addresses, old_peer, ..
            })) => {
                if let Some(old) = old_peer {
                    self.addresses.remove(&old);
                }
                self.addresses.insert(peer, addresses.into_vec());
                self.lost.retain(|(lost, _)| *lost != peer);
                self.tell_count();
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(IdentifyEvent::Received { peer_id, info, .. }))
                if info.protocols.contains(&self.protocol) =>
            {
                for address in info.listen_addrs.into_iter().take(ADDRESSES_MAX) {
                    self.swarm.behaviour_mut().kad.add_address(&peer_id, address);
                }
            }
            SwarmEvent::ConnectionEstablished { peer_id, endpoint, .. } => {
                let dialled = socket(endpoint.get_remote_address()).map(|address| address.to_string());
                let first = self
                    .first
                    .iter_mut()
                    .find(|(address, _)| endpoint.is_dialer() && Some(address) == dialled.as_ref());
                if let Some((_, answers)) = first {
                    *answers = Some(peer_id);
                }
            }
            // Whoever cannot be reached is not told to others, and not waited for.
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), .. } if !self.swarm.is_connected(&peer) => {
                self.lose(peer);
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
                listeners.extend(socket(&address));
            }
            _ => {}
        }
    }
    fn on_progress(&mut self, id: QueryId, result: QueryResult, is_last: bool) {
        match result {
            QueryResult::GetRecord(result) => {
                if let Some(found) = self.gets.get(&id) {
                    if let Ok(GetRecordOk::FoundRecord(there)) = result {
                        let _ = found.send(Found::Set(there.record.value));
                    }
                    if is_last {
                        let _ = found.send(Found::All);
                        self.gets.remove(&id);
                    }
                }
            }
            QueryResult::PutRecord(result) => {
                let made = match result {
                    Ok(_) => COPIES,
                    Err(PutRecordError::QuorumFailed { success, .. } | PutRecordError::Timeout { success, .. }) => {
                        success.len()
                    }
                };
                self.on_put(id, made);
            }
            _ => {}
        }
    }
    fn lose(&mut self, peer: PeerId) {
        let was_known = self.swarm.behaviour_mut().kad.remove_peer(&peer).is_some();
        if let Some(addresses) = self.addresses.remove(&peer) {
            self.lost.push_back((peer, addresses));
            if self.lost.len() > LOST_MAX {
                self.lost.pop_front();
            }
        }
        if was_known {
            self.tell_count();
        }
    }

    // What is done now and then.

    fn tell_count(&mut self) {
        let count = self.known();
        self.count.send_if_modified(|known| core::mem::replace(known, count) != count);
    }
    fn tell(&mut self) {
        self.tell_count();
        let count = u32::try_from(*self.count.borrow()).unwrap_or(u32::MAX);
        if count == 0 && Instant::now() < self.joins_until {
            return self.inbox.push([Answer::Current]);
        }
        let store = self.swarm.behaviour_mut().kad.store_mut();
        store.expire(Instant::now());
        let (records, bytes) = store.size();
        let forged = core::mem::take(&mut store.forged) + self.inbox.take_forged();
        let refused = core::mem::take(&mut store.refused);
        let peers = Peers { count, records: records as u64, bytes: bytes as u64, forged, refused };
        self.inbox.push([Answer::Peers(peers), Answer::Current]);
    }
    /// Dials whoever of the config is not there, and some of those who were.
    fn care(&mut self) {
        let is_there = |answers: &Option<PeerId>| {
            answers.is_some_and(|peer| self.swarm.is_connected(&peer) || self.addresses.contains_key(&peer))
        };
        let away: Vec<String> =
            self.first.iter().filter(|(_, answers)| !is_there(answers)).map(|(address, _)| address.clone()).collect();
        for address in away {
            match address.parse() {
                Ok(address) => self.dial(address),
                Err(_) => {
                    let resolved = self.resolved.0.clone();
                    tokio::spawn(async move {
                        let found = timeout(CARE_EACH, lookup_host(address)).await;
                        for address in found.into_iter().flatten().flatten().take(ADDRESSES_MAX) {
                            let _ = resolved.send(address);
                        }
                    });
                }
            }
        }
        for _ in 0..LOST_TRIES.min(self.lost.len()) {
            let Some((peer, addresses)) = self.lost.pop_front() else { break };
            let _ = self.swarm.dial(DialOpts::peer_id(peer).addresses(addresses.clone()).build());
            self.lost.push_back((peer, addresses));
        }
    }
    fn dial(&mut self, address: SocketAddr) {
        let _ = self.swarm.dial(DialOpts::unknown_peer_id().address(multiaddr(address)).build());
    }
}

fn behaviour(keypair: &Keypair, protocol: &StreamProtocol, store: Store) -> Behaviour {
    let mut config = KadConfig::new(protocol.clone());
    config
        .set_replication_factor(NonZeroUsize::new(COPIES).unwrap_or(NonZeroUsize::MIN))
        .set_parallelism(NonZeroUsize::new(PARALLEL).unwrap_or(NonZeroUsize::MIN))
        .set_query_timeout(LOOKUP_TIME_MAX)
        .set_substreams_timeout(ANSWER_TIME_MAX)
        .set_max_packet_size(MESSAGE_BYTES_MAX)
        // Sets say themselves when their records end, and whoever has put one says it again.
        .set_record_ttl(None)
        .set_replication_interval(None)
        .set_publication_interval(None)
        .set_provider_publication_interval(None);
    let mut kad = Kad::with_config(keypair.public().to_peer_id(), store, config);
    // It is told who it is by whoever dials it; whether strangers can reach it is for those to find out.
    kad.set_mode(Some(Mode::Server));
    let identify = IdentifyConfig::new(protocol.to_string(), keypair.public())
        .with_agent_version(concat!("tributary/", env!("CARGO_PKG_VERSION")).into());
    let limits = ConnectionLimits::default()
        .with_max_established(Some(CONNECTIONS_MAX))
        .with_max_established_per_peer(Some(CONNECTIONS_OF_PEER_MAX))
        .with_max_pending_incoming(Some(CONNECTIONS_MAX / 4));
    Behaviour { limits: Limits::new(limits), identify: Identify::new(identify), kad }
}

fn multiaddr(address: SocketAddr) -> Multiaddr {
    Multiaddr::from(address.ip()).with(Protocol::Tcp(address.port()))
}
fn socket(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip: IpAddr = match parts.next()? {
        Protocol::Ip4(ip) => ip.into(),
        Protocol::Ip6(ip) => ip.into(),
        _ => return None,
    };
    match parts.next()? {
        Protocol::Tcp(port) => Some(SocketAddr::new(ip, port)),
        _ => None,
    }
}
