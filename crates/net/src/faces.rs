//! Faces by number and by address.
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use nix::errno::Errno;
use rustc_hash::FxBuildHasher;
use slab::Slab;
use tributary_core::{
    Duration, FaceAddresses, FaceId, Random, Time,
    link::{Link, Loss, LossProcess},
};

use crate::{
    batch::Batch,
    config::{DriverConfig, FaceConfig, ListenConfig},
    ecn::EcnState,
    error::DriverError,
    socket::{Route, UdpPort},
    stats::FaceStats,
    stream::address::face_uri,
};

/// One face of the node.
pub(crate) struct Face {
    pub(crate) id: FaceId,
    pub(crate) port: usize,
    pub(crate) peer: SocketAddr,
    /// Its peer, and our address that the peer knows.
    pub(crate) route: Route,
    /// The local address that distinguishes it from other faces to the same peer; static faces take datagrams at any.
    local_address: Option<IpAddr>,
    pub(crate) mtu: usize,
    pub(crate) link: Option<Link>,
    pub(crate) ingress_loss: Option<(LossProcess, Random)>,
    pub(crate) ecn: EcnState,
    /// Datagrams collected for the next send call.
    pub(crate) batch: Batch,
    /// Whether `batch` is on the list of those to send.
    pub(crate) is_dirty: bool,
    since: Time,
    pub(crate) last_heard: Time,
    refusal: Option<Refusal>,
    in_datagrams: u64,
    in_bytes: u64,
    out_datagrams: u64,
    out_bytes: u64,
}

/// Why the kernel does not send to a peer.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    error: Errno,
    /// When it was last refused.
    at: Time,
    /// When that was last logged.
    logged: Time,
}

/// A persistent refusal is logged again after this time, so that later readers of the log find it.
const REFUSAL_REPEAT: Duration = Duration::from_secs(60);
/// A static face whose peer has been silent for this long lets the routing table choose its source address again: the
/// machine may have moved to another network.
const SOURCE_PATIENCE: Duration = Duration::from_secs(2);
/// A peer heard again this long after its first datagram has no forged address, or one that costs its forger something.
const ESTABLISHED_AFTER: Duration = Duration::from_millis(200);
/// How long an established peer may be silent before another may take its place.
const ESTABLISHED_PATIENCE: Duration = Duration::from_secs(10);
/// Fraction of the dynamic faces that are evicted together when the table is full: a search for victims takes longer
/// than adding a face.
const EVICTED_PART: usize = 64;

impl Face {
    fn is_established(&self) -> bool {
        self.last_heard.since(self.since) >= ESTABLISHED_AFTER
    }
    /// Counts datagrams that arrived at our address `local_address`; answers come from there.
    pub(crate) fn count_in(&mut self, now: Time, datagrams: usize, bytes: usize, local_address: Option<IpAddr>) {
        self.last_heard = now;
        self.route.source = local_address;
        self.in_datagrams += datagrams as u64;
        self.in_bytes += bytes as u64;
    }
    pub(crate) fn count_out(&mut self, bytes: usize) {
        self.out_datagrams += 1;
        self.out_bytes += bytes as u64;
    }
    /// Forgets the address at which a static face was last addressed, once that is long ago.
    pub(crate) fn refresh_source(&mut self, now: Time) {
        if self.route.source.is_some() && self.local_address.is_none() && now.since(self.last_heard) >= SOURCE_PATIENCE
        {
            self.route.source = None;
        }
    }
    /// Notes that the kernel refused to send. Returns whether that is worth a line in the log.
    pub(crate) fn on_refused(&mut self, now: Time, error: Errno) -> bool {
        let known = self.refusal.filter(|refusal| refusal.error == error);
        let is_news = known.is_none_or(|refusal| now.since(refusal.logged) >= REFUSAL_REPEAT);
        let logged = if is_news { now } else { known.map_or(now, |refusal| refusal.logged) };
        self.refusal = Some(Refusal { error, at: now, logged });
        is_news
    }
}

/// All faces and sockets of a driver.
#[derive(Default)]
pub(crate) struct Faces {
    pub(crate) ports: Vec<UdpPort>,
    ports_by_key: HashMap<(SocketAddr, Option<String>), usize>,
    /// For each port how it treats unknown peers.
    listeners: Vec<Option<ListenConfig>>,
    slots: Slab<Face>,
    by_id: HashMap<FaceId, usize, FxBuildHasher>,
    /// By socket, peer, and our address where the socket has all of them.
    by_peer: HashMap<(usize, SocketAddr, Option<IpAddr>), usize, FxBuildHasher>,
    dynamic_faces: usize,
    dynamic_next: u32,
    /// Peers whose faces were left, and until when nothing of them is heard.
    left: HashMap<SocketAddr, Time, FxBuildHasher>,
    /// Places of faces with an emulated link, so that other faces cost nothing.
    pub(crate) shaped: Vec<usize>,
    pub(crate) config: DriverConfig,
}

impl Faces {
    /// Opens all sockets of `config`. Returns the ports of its listeners, in order, along with the faces.
    pub(crate) fn open(mut config: DriverConfig) -> Result<(Self, Vec<usize>), DriverError> {
        let (statics, listen) = (std::mem::take(&mut config.faces), std::mem::take(&mut config.listen));
        let mut faces = Faces { dynamic_next: config.dynamic_face_first, config, ..Faces::default() };
        let mut listen_ports = Vec::new();
        for listener in listen {
            let port = faces.port(listener.local, listener.device.clone())?;
            faces.listeners[port] = Some(listener);
            listen_ports.push(port);
        }
        for face in statics {
            faces.add(face, Time::ZERO)?;
        }
        Ok((faces, listen_ports))
    }
    fn port(&mut self, local: SocketAddr, device: Option<String>) -> Result<usize, DriverError> {
        if let Some(port) = self.ports_by_key.get(&(local, device.clone())) {
            return Ok(*port);
        }
        let port = UdpPort::open(local, device.as_deref(), &self.config)?;
        self.ports.push(port);
        self.listeners.push(None);
        self.ports_by_key.insert((local, device), self.ports.len() - 1);
        Ok(self.ports.len() - 1)
    }
    /// Adds a static face.
    pub(crate) fn add(&mut self, config: FaceConfig, now: Time) -> Result<(), DriverError> {
        let (id, peer) = (config.id, config.peer);
        if id.0 >= self.config.dynamic_face_first {
            let first = self.config.dynamic_face_first;
            let why = format!("{id} is in the range of dynamic faces; hint: number static faces below {first}");
            return Err(DriverError::Refused(why));
        }
        if self.by_id.contains_key(&id) {
            return Err(DriverError::DuplicateFace { face: id });
        }
        let port = self.port(config.local.unwrap_or(UdpPort::any_local(peer)), config.device)?;
        if let Some(place) = self.by_peer.get(&(port, peer, None)).copied()
            && let Some(other) = self.slots.get(place)
            && other.id.0 < self.config.dynamic_face_first
        {
            return Err(DriverError::DuplicatePeer { face: id, other: other.id, peer });
        }
        self.left.remove(&peer);
        // The dynamic faces of the peer, one for each of our addresses, become this one.
        let is_same = |face: &&Face| face.port == port && face.peer == peer;
        let dynamic: Vec<_> = self.iter().filter(is_same).map(|face| (face.id, face.peer)).collect();
        self.forget(&dynamic);
        let random = |stream| Random::new(self.config.seed, u64::from(id.0) << 1 | stream);
        let link = config.link.map(|link| Link::new(link, random(0)));
        let ingress_loss =
            (config.ingress_loss != Loss::None).then(|| (LossProcess::new(config.ingress_loss), random(1)));
        self.insert(id, port, (peer, None), config.mtu, link, ingress_loss, now);
        Ok(())
    }
    #[expect(clippy::too_many_arguments, reason = "the one place where a face is put together")]
    fn insert(
        &mut self,
        id: FaceId,
        port: usize,
        (peer, local_address): (SocketAddr, Option<IpAddr>),
        mtu: u32,
        link: Option<Link>,
        ingress_loss: Option<(LossProcess, Random)>,
        now: Time,
    ) -> usize {
        let is_shaped = link.is_some();
        let place = self.slots.insert(Face {
            id,
            port,
            peer,
            route: Route { source: local_address, ..Route::new(peer) },
            local_address,
            mtu: mtu as usize,
            link,
            ingress_loss,
            ecn: EcnState::new(self.config.ecn),
            batch: Batch::default(),
            is_dirty: false,
            since: now,
            last_heard: now,
            refusal: None,
            in_datagrams: 0,
            in_bytes: 0,
            out_datagrams: 0,
            out_bytes: 0,
        });
        if is_shaped {
            self.shaped.push(place);
        }
        self.by_id.insert(id, place);
        self.by_peer.insert((port, peer, local_address), place);
        place
    }
    /// Removes a face.
    pub(crate) fn remove(&mut self, id: FaceId) -> Result<(), DriverError> {
        let place = self.place(id).ok_or(DriverError::UnknownFace { face: id })?;
        self.remove_place(place);
        Ok(())
    }
    /// Removes a face and ignores its peer for twice the idle time of a dynamic face: otherwise the peer would continue
    /// to send, and get a dynamic face, as long as anything answers.
    pub(crate) fn leave(&mut self, id: FaceId, now: Time) -> Result<(), DriverError> {
        let place = self.place(id).ok_or(DriverError::UnknownFace { face: id })?;
        self.left.retain(|_, until| *until > now);
        if let Some(face) = self.slots.get(place) {
            self.left.insert(face.peer, now + self.config.face_idle * 2);
        }
        self.remove_place(place);
        Ok(())
    }
    /// Moves the address of face `to` to face `id`, and removes `to`. Returns the old address and the new one; `None`
    /// if one of the faces does not exist.
    pub(crate) fn move_to(&mut self, id: FaceId, to: FaceId) -> Option<(SocketAddr, SocketAddr)> {
        let (place, other) = (self.place(id)?, self.place(to)?);
        let moved = self.slots.get(other).map(|face| (face.port, face.peer, face.local_address, face.route))?;
        self.remove_place(other);
        let face = self.slots.get_mut(place)?;
        let before = (face.port, face.peer, face.local_address);
        (face.port, face.peer, face.local_address, face.route) = moved;
        let after = (face.port, face.peer, face.local_address);
        self.by_peer.remove(&before);
        self.by_peer.insert(after, place);
        Some((before.1, after.1))
    }
    fn remove_place(&mut self, place: usize) {
        let Some(face) = self.slots.try_remove(place) else { return };
        self.by_id.remove(&face.id);
        self.by_peer.remove(&(face.port, face.peer, face.local_address));
        self.shaped.retain(|shaped| *shaped != place);
        self.dynamic_faces -= usize::from(face.id.0 >= self.config.dynamic_face_first);
    }
    /// Our address that a datagram was sent to, if answers must come from it to reach the peer.
    pub(crate) fn local_address(&self, port: usize, destination: Option<IpAddr>) -> Option<IpAddr> {
        let is_ours = |address: &IpAddr| match address {
            IpAddr::V4(address) => !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified(),
            IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified(),
        };
        destination.filter(|address| self.ports[port].is_wildcard() && is_ours(address))
    }
    /// The place of the face whose datagrams from `peer` to our address `local_address` at `port` are.
    pub(crate) fn known(&self, port: usize, peer: SocketAddr, local_address: Option<IpAddr>) -> Option<usize> {
        let known = self.by_peer.get(&(port, peer, local_address));
        known.or_else(|| self.by_peer.get(&(port, peer, None))).copied()
    }
    /// Whether a peer without a face may get one at `port`.
    pub(crate) fn is_open_to(&self, port: usize, peer: SocketAddr, now: Time) -> bool {
        self.listeners[port].is_some() && self.left.get(&peer).is_none_or(|until| now >= *until)
    }
    /// Makes a face for a peer that has none; gives its place, and the faces that had to go. `None` if there is no room.
    pub(crate) fn welcome(
        &mut self,
        port: usize,
        peer: SocketAddr,
        local_address: Option<IpAddr>,
        now: Time,
    ) -> Option<(usize, Vec<(FaceId, SocketAddr)>)> {
        let mut gone = Vec::new();
        if self.dynamic_faces >= self.config.faces_max {
            gone = self.evict(now);
            if gone.is_empty() {
                return None;
            }
        }
        let listener = self.listeners[port].as_ref()?;
        let id = FaceId(self.dynamic_next);
        let link =
            listener.link.clone().map(|link| Link::new(link, Random::new(self.config.seed, u64::from(id.0) << 1)));
        let mtu = listener.mtu;
        self.dynamic_faces += 1;
        self.dynamic_next = self.dynamic_next.checked_add(1).unwrap_or(self.config.dynamic_face_first);
        while self.by_id.contains_key(&FaceId(self.dynamic_next)) {
            self.dynamic_next = self.dynamic_next.checked_add(1).unwrap_or(self.config.dynamic_face_first);
        }
        Some((self.insert(id, port, (peer, local_address), mtu, link, None, now), gone))
    }
    /// Evicts dynamic faces: first those that were heard for a moment only, as forged addresses are, the longest silent
    /// first; then those that have been silent for long. Under any number of forged addresses an active neighbour keeps
    /// its face, and a new one gets one.
    fn evict(&mut self, now: Time) -> Vec<(FaceId, SocketAddr)> {
        let first = self.config.dynamic_face_first;
        let may_go = |face: &&Face| {
            face.id.0 >= first && (!face.is_established() || now.since(face.last_heard) >= ESTABLISHED_PATIENCE)
        };
        let mut found: Vec<_> = self
            .iter()
            .filter(may_go)
            .map(|face| (face.is_established(), face.last_heard, face.id, face.peer))
            .collect();
        found.sort_unstable_by_key(|(is_established, heard, ..)| (*is_established, *heard));
        found.truncate(self.config.faces_max.div_ceil(EVICTED_PART));
        let gone: Vec<_> = found.into_iter().map(|(_, _, id, peer)| (id, peer)).collect();
        self.forget(&gone);
        gone
    }
    /// Forgets dynamic faces that were not heard for long; returns them.
    pub(crate) fn forget_idle(&mut self, now: Time) -> Vec<(FaceId, SocketAddr)> {
        let (first, idle) = (self.config.dynamic_face_first, self.config.face_idle);
        let is_idle = |face: &&Face| face.id.0 >= first && now.since(face.last_heard) >= idle;
        let gone: Vec<_> = self.iter().filter(is_idle).map(|face| (face.id, face.peer)).collect();
        self.forget(&gone);
        gone
    }
    fn forget(&mut self, faces: &[(FaceId, SocketAddr)]) {
        for place in faces.iter().filter_map(|(id, _)| self.place(*id)).collect::<Vec<_>>() {
            self.remove_place(place);
        }
    }
    /// Time between two checks for idle faces.
    pub(crate) fn idle_sweep(&self) -> Duration {
        (self.config.face_idle / 4).max(Duration::from_millis(1))
    }
    /// Whether any dynamic faces exist.
    pub(crate) fn has_dynamic(&self) -> bool {
        self.dynamic_faces > 0
    }
    /// The address of the listener that reaches `peer`, as configured.
    pub(crate) fn listener_for(&self, peer: SocketAddr) -> Option<SocketAddr> {
        let usable = self.listeners.iter().flatten().filter(|listener| listener.device.is_none());
        usable.map(|listener| listener.local).find(|local| local.is_ipv4() == peer.is_ipv4())
    }
    /// Whether datagrams to this address come back to a listener here.
    pub(crate) fn is_own(&self, peer: SocketAddr) -> bool {
        self.listeners.iter().zip(&self.ports).any(|(listener, port)| listener.is_some() && port.local == peer)
    }
    /// The addresses of a face, as URIs.
    pub(crate) fn addresses(&self, id: FaceId) -> Option<FaceAddresses> {
        let face = self.slots.get(self.place(id)?)?;
        let bound = self.ports[face.port].local;
        let local = SocketAddr::new(face.route.source.unwrap_or(bound.ip()), bound.port());
        Some(FaceAddresses { peer: face_uri("udp", face.peer), local: face_uri("udp", local) })
    }
    /// The addresses of the listeners, as URIs.
    pub(crate) fn channels(&self) -> Vec<String> {
        let listening = self.listeners.iter().zip(&self.ports).filter(|(listener, _)| listener.is_some());
        listening.map(|(_, port)| face_uri("udp", port.local)).collect()
    }
    /// The place of a face.
    pub(crate) fn place(&self, id: FaceId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
    /// The face in a place, with all ports.
    pub(crate) fn face_mut(&mut self, place: usize) -> Option<(&mut Face, &mut [UdpPort])> {
        self.slots.get_mut(place).map(|face| (face, &mut self.ports[..]))
    }
    /// The faces with an emulated link.
    pub(crate) fn shaped(&self) -> impl Iterator<Item = &Face> {
        self.shaped.iter().filter_map(|place| self.slots.get(*place))
    }
    /// All faces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Face> {
        self.slots.iter().map(|(_, face)| face)
    }
    /// The accounts of all faces, by number.
    pub(crate) fn stats(&self) -> Vec<FaceStats> {
        let mut stats: Vec<_> = self
            .iter()
            .map(|face| FaceStats {
                face: face.id,
                peer: face.peer,
                local: self.ports[face.port].local,
                source: face.route.source,
                heard: (face.in_datagrams > 0).then_some(face.last_heard),
                refused: face.refusal.map(|refusal| (refusal.error.desc(), refusal.at)),
                in_datagrams: face.in_datagrams,
                in_bytes: face.in_bytes,
                out_datagrams: face.out_datagrams,
                out_bytes: face.out_bytes,
                link: face.link.as_ref().map(Link::stats),
            })
            .collect();
        stats.sort_by_key(|stats| stats.face);
        stats
    }
}
