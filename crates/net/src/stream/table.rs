//! All streams of a driver.
use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::{FileTypeExt, PermissionsExt},
    },
    sync::Arc,
};

use bytes::Bytes;
use nix::{
    poll::PollFlags,
    sys::stat::{Mode, fchmod},
};
use socket2::{Domain, SockRef, Socket, Type};
use tributary_core::{Duration, FaceAddresses, FaceId, PeerPlace, Time};

use super::{
    Framing, StreamAddress, StreamFaceConfig,
    address::face_uri,
    connection::{Connection, Progress, WebOrigins},
};
use crate::{
    config::{DriverConfig, UnixAccess},
    error::DriverError,
    owner::{is_tcp_peer_owner, is_unix_peer_owner},
    stats::{DriverStats, StreamStats},
};

/// Listeners, dialers, and the connections that they made.
#[derive(Default)]
pub(crate) struct Streams {
    framing: Option<Arc<dyn Framing>>,
    listeners: Vec<Listener>,
    web_origins: WebOrigins,
    dialers: Vec<Dialer>,
    /// By face, so that polling and events have an order.
    faces: BTreeMap<FaceId, Slot>,
    /// Faces into which something was written since the last flush.
    dirty: Vec<FaceId>,
    /// Faces that are worth a look.
    ready: Vec<FaceId>,
    ready_listeners: Vec<usize>,
    accepted_next: u32,
    accepted_faces: usize,
    accepted_faces_max: usize,
    waiting_bytes_max: usize,
}

struct Listener {
    socket: Socket,
    address: StreamAddress,
}

/// Connects to a known peer, and reconnects.
struct Dialer {
    config: StreamFaceConfig,
    /// When it tries next; `None` while there is a connection.
    due: Option<Time>,
    pause: Duration,
}

struct Slot {
    connection: Connection,
    peer: String,
    /// The URI of an accepted one's far end, and of both where that follows from the socket.
    addresses: FaceAddresses,
    place: PeerPlace,
    /// The dialer whose connection this is; `None` for an accepted one.
    dialer: Option<usize>,
    /// When it is given up if it is not open by then; `None` once it was.
    opens_by: Option<Time>,
    stats: StreamStats,
}

/// What happened on a stream.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// It is open, with its face and addresses.
    Up(FaceId, PeerPlace, FaceAddresses),
    /// Packets arrived, in order.
    Packets(FaceId, Vec<Bytes>),
    /// It is closed, and why.
    Down(FaceId, String),
}

/// The number of the first accepted stream; datagram faces have lower ones.
const ACCEPTED_FACE_FIRST: u32 = 1 << 31;
/// Pause before the first try to connect again; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a connection may take until it is open. A kernel without an answer retries ever more rarely, up to a minute
/// apart; and a client that connects and sends nothing holds a place.
const OPEN_PATIENCE: Duration = Duration::from_secs(4);
/// Connections that wait to be accepted.
const ACCEPT_BACKLOG: i32 = 128;

impl Streams {
    /// Opens the listeners of `config`, and begins to dial its stream faces. Returns the listeners' addresses.
    pub(crate) fn open(config: &DriverConfig) -> Result<(Self, Vec<StreamAddress>), DriverError> {
        let mut streams = Streams {
            framing: config.framing.clone(),
            web_origins: WebOrigins(config.web_origins.clone().into()),
            accepted_next: ACCEPTED_FACE_FIRST,
            accepted_faces_max: config.faces_max,
            waiting_bytes_max: config.backlog_bytes_max,
            ..Streams::default()
        };
        if !config.stream_listen.is_empty() && streams.framing.is_none() {
            return Err(DriverError::NoFraming);
        }
        let mut bound = Vec::new();
        for address in &config.stream_listen {
            let listener = listen(address, config.unix_access)
                .map_err(|source| DriverError::Stream { address: address.clone(), source })?;
            bound.push(listener.address.clone());
            streams.listeners.push(listener);
        }
        for face in &config.stream_faces {
            if streams.dialers.iter().any(|dialer| dialer.config.id == face.id) {
                return Err(DriverError::DuplicateFace { face: face.id });
            }
            streams.dial(face.clone(), Time::ZERO)?;
        }
        Ok((streams, bound))
    }
    /// Begins to dial a peer.
    pub(crate) fn dial(&mut self, config: StreamFaceConfig, now: Time) -> Result<(), DriverError> {
        if self.framing.is_none() {
            return Err(DriverError::NoFraming);
        }
        self.dialers.push(Dialer { config, due: Some(now), pause: PAUSE_MIN });
        Ok(())
    }
    /// Whether this face is, or will be, a stream.
    pub(crate) fn contains(&self, face: FaceId) -> bool {
        self.faces.contains_key(&face) || self.dialers.iter().any(|dialer| dialer.config.id == face)
    }
    /// The face that dials this address.
    pub(crate) fn dialled(&self, peer: &StreamAddress) -> Option<FaceId> {
        self.dialers.iter().find(|dialer| dialer.config.peer == *peer).map(|dialer| dialer.config.id)
    }
    /// Closes a face for good.
    pub(crate) fn remove(&mut self, face: FaceId) {
        if let Some(slot) = self.faces.remove(&face) {
            self.accepted_faces -= usize::from(slot.dialer.is_none());
        }
        if let Some(index) = self.dialers.iter().position(|dialer| dialer.config.id == face) {
            self.dialers.remove(index);
            for slot in self.faces.values_mut() {
                slot.dialer = slot.dialer.map(|dialer| dialer - usize::from(dialer > index));
            }
        }
    }
    /// Takes a packet to send; it is dropped if there is no connection at the moment.
    pub(crate) fn push(&mut self, face: FaceId, head: &[u8], body: &Bytes, stats: &mut DriverStats) {
        let Some(slot) = self.faces.get_mut(&face) else {
            stats.unknown_face_drops += 1;
            return;
        };
        let dropped = slot.connection.packets_dropped;
        slot.connection.push(head, body);
        if slot.connection.packets_dropped > dropped {
            stats.backlog_drops += 1;
            return;
        }
        let length = (head.len() + body.len()) as u64;
        (stats.out_datagrams, stats.out_bytes) = (stats.out_datagrams + 1, stats.out_bytes + length);
        slot.stats.out_packets += 1;
        slot.stats.out_bytes += length;
        if self.dirty.last() != Some(&face) {
            self.dirty.push(face);
        }
    }
    /// Passes pushed packets to the kernel.
    pub(crate) fn flush(&mut self) {
        while let Some(face) = self.dirty.pop() {
            if let Some(slot) = self.faces.get_mut(&face) {
                slot.connection.flush();
            }
        }
    }
    /// What to wait for, in an order that [`Streams::set_ready`] knows.
    pub(crate) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let listeners = self.listeners.iter().map(|listener| (listener.socket.as_fd(), PollFlags::POLLIN));
        listeners.chain(self.faces.values().map(|slot| {
            let write = if slot.connection.wants_write() { PollFlags::POLLOUT } else { PollFlags::empty() };
            (slot.connection.as_fd(), PollFlags::POLLIN | write)
        }))
    }
    /// Notes which of [`Streams::interests`] are ready; nothing may have changed since.
    pub(crate) fn set_ready(&mut self, ready: impl Iterator<Item = bool>) {
        let mut ready = ready;
        for index in 0..self.listeners.len() {
            if ready.next() == Some(true) {
                self.ready_listeners.push(index);
            }
        }
        self.ready.extend(self.faces.keys().zip(ready).filter(|(_, is_ready)| *is_ready).map(|(face, _)| *face));
    }
    /// Whether [`Streams::poll`] has something to do at `now`.
    pub(crate) fn has_work(&self, now: Time) -> bool {
        !self.ready.is_empty() || !self.ready_listeners.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }
    /// When a dialer tries again, or a connection that is not open yet is given up.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let opening = self.faces.values().filter_map(|slot| slot.opens_by);
        self.dialers.iter().filter_map(|dialer| dialer.due).chain(opening).min()
    }
    /// Accepts, dials and reads ready streams; returns the events, in order.
    pub(crate) fn poll(&mut self, now: Time, stats: &mut DriverStats) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        for index in std::mem::take(&mut self.ready_listeners) {
            self.accept(index, now, stats);
        }
        for index in 0..self.dialers.len() {
            if self.dialers[index].due.is_some_and(|due| due <= now) {
                self.try_dial(index, now);
            }
        }
        for face in std::mem::take(&mut self.ready) {
            self.look(face, now, stats, &mut events);
        }
        let late = |slot: &Slot| slot.opens_by.is_some_and(|by| by <= now);
        let late: Vec<FaceId> = self.faces.iter().filter(|(_, slot)| late(slot)).map(|(face, _)| *face).collect();
        for face in late {
            self.close(face, now, "it did not open in time".into(), &mut events);
        }
        events
    }
    fn accept(&mut self, index: usize, now: Time, stats: &mut DriverStats) {
        loop {
            let listener = &self.listeners[index];
            let Ok((socket, peer)) = listener.socket.accept() else { return };
            if self.accepted_faces >= self.accepted_faces_max {
                stats.unknown_peer_drops += 1;
                continue;
            }
            let own = socket.local_addr().ok().and_then(|own| own.as_socket());
            let place = match (own, peer.as_socket()) {
                (Some(own), Some(peer)) if peer.ip().is_loopback() => here(is_tcp_peer_owner(own, peer)),
                (_, Some(_)) => PeerPlace::Elsewhere,
                (_, None) => here(is_unix_peer_owner(&socket)),
            };
            let local = own.map_or(listener.address.clone(), |own| match listener.address {
                StreamAddress::WebSocket(_) => StreamAddress::WebSocket(own),
                _ => StreamAddress::Tcp(own),
            });
            let far = match (&listener.address, peer.as_socket()) {
                (StreamAddress::WebSocket(_), Some(peer)) => format!("wsclient://{peer}"),
                (_, Some(peer)) => face_uri("tcp", peer),
                (_, None) => format!("fd://{}", socket.as_raw_fd()),
            };
            let addresses = FaceAddresses { peer: far, local: local.face_uri() };
            let peer = match (&listener.address, peer.as_socket()) {
                (StreamAddress::Tcp(_), Some(peer)) => StreamAddress::Tcp(peer).to_string(),
                (StreamAddress::WebSocket(_), Some(peer)) => StreamAddress::WebSocket(peer).to_string(),
                (address, _) => format!("{address} client"),
            };
            let connection = Connection::accepted(socket, &listener.address, &self.web_origins, self.waiting_bytes_max);
            let Ok(connection) = connection else { continue };
            let face = FaceId(self.accepted_next);
            self.accepted_next = self.accepted_next.checked_add(1).unwrap_or(ACCEPTED_FACE_FIRST);
            self.accepted_faces += 1;
            self.insert(face, connection, (peer, addresses, place), None, now);
        }
    }
    fn try_dial(&mut self, index: usize, now: Time) {
        let dialer = &mut self.dialers[index];
        match Connection::dial(&dialer.config.peer, self.waiting_bytes_max) {
            Ok(connection) => {
                dialer.due = None;
                let (face, peer) = (dialer.config.id, &dialer.config.peer);
                let addresses = FaceAddresses { peer: peer.face_uri(), local: String::new() };
                let far = (peer.to_string(), addresses, peer.place());
                self.insert(face, connection, far, Some(index), now);
            }
            Err(error) => {
                tracing::debug!(peer = %dialer.config.peer, %error, "cannot connect, will try again");
                dialer.wait(now);
            }
        }
    }
    fn insert(
        &mut self,
        face: FaceId,
        connection: Connection,
        (peer, addresses, place): (String, FaceAddresses, PeerPlace),
        dialer: Option<usize>,
        now: Time,
    ) {
        let stats = StreamStats { face, peer: peer.clone(), ..StreamStats::default() };
        self.faces.insert(
            face,
            Slot { connection, peer, addresses, place, dialer, opens_by: Some(now + OPEN_PATIENCE), stats },
        );
        self.ready.push(face);
    }
    fn look(&mut self, face: FaceId, now: Time, stats: &mut DriverStats, events: &mut Vec<StreamEvent>) {
        let (Some(slot), Some(framing)) = (self.faces.get_mut(&face), &self.framing) else { return };
        let progress = slot.connection.look(&**framing);
        if slot.connection.is_open() && slot.opens_by.take().is_some() {
            if let Some(dialer) = slot.dialer {
                self.dialers[dialer].pause = PAUSE_MIN;
            }
            if slot.addresses.local.is_empty() {
                slot.addresses.local = local_uri(&slot.connection, &slot.addresses.peer);
            }
            events.push(StreamEvent::Up(face, slot.place, slot.addresses.clone()));
        }
        match progress {
            Progress::Pending => {}
            Progress::Packets(packets) => {
                let bytes: usize = packets.iter().map(Bytes::len).sum();
                stats.in_datagrams += packets.len() as u64;
                stats.in_bytes += bytes as u64;
                slot.stats.in_packets += packets.len() as u64;
                slot.stats.in_bytes += bytes as u64;
                if !packets.is_empty() {
                    events.push(StreamEvent::Packets(face, packets));
                }
            }
            Progress::Closed(reason) => self.close(face, now, reason, events),
        }
    }
    fn close(&mut self, face: FaceId, now: Time, reason: String, events: &mut Vec<StreamEvent>) {
        let Some(slot) = self.faces.remove(&face) else { return };
        match slot.dialer {
            Some(dialer) => self.dialers[dialer].wait(now),
            None => self.accepted_faces -= 1,
        }
        tracing::debug!(%face, peer = %slot.peer, %reason, "a stream is closed");
        if slot.opens_by.is_none() {
            events.push(StreamEvent::Down(face, reason));
        }
    }
    /// The addresses of the listeners, as URIs.
    pub(crate) fn channels(&self) -> Vec<String> {
        self.listeners.iter().map(|listener| listener.address.face_uri()).collect()
    }
    /// The near end of a dialled stream, which the kernel chooses when it connects.
    pub(crate) fn near_of(&self, face: FaceId) -> String {
        let dialer = self.dialers.iter().find(|dialer| dialer.config.id == face);
        let unchosen = |address: &SocketAddr| match address {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
        };
        dialer.map_or(String::new(), |dialer| match &dialer.config.peer {
            StreamAddress::Tcp(address) => face_uri("tcp", unchosen(address)),
            StreamAddress::WebSocket(address) => StreamAddress::WebSocket(unchosen(address)).face_uri(),
            unix => unix.face_uri(),
        })
    }
    /// The accounts of all open streams, by number.
    pub(crate) fn stats(&self) -> Vec<StreamStats> {
        self.faces.values().map(|slot| slot.stats.clone()).collect()
    }
}
impl Drop for Listener {
    fn drop(&mut self) {
        if let StreamAddress::Unix(path) = &self.address {
            let _ = fs::remove_file(path);
        }
    }
}

impl Dialer {
    fn wait(&mut self, now: Time) {
        self.due = Some(now + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Where a program of this machine is.
fn here(is_owner: bool) -> PeerPlace {
    if is_owner { PeerPlace::ThisMachine } else { PeerPlace::OtherUser }
}
/// The near end of a stream that was dialled to `peer`; the near end of a Unix socket has no address.
fn local_uri(connection: &Connection, peer: &str) -> String {
    let own = SockRef::from(&connection.as_fd()).local_addr().ok().and_then(|own| own.as_socket());
    match own {
        Some(own) if peer.starts_with("ws") => StreamAddress::WebSocket(own).face_uri(),
        Some(own) => face_uri("tcp", own),
        None => format!("fd://{}", connection.as_fd().as_raw_fd()),
    }
}

fn listen(address: &StreamAddress, access: UnixAccess) -> io::Result<Listener> {
    let target = address.socket_address()?;
    let socket = Socket::new(target.domain(), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    if let StreamAddress::Unix(path) = address {
        clear_stale(path, &target)?;
        // On Linux the file gets the mode of the socket when it is bound. Elsewhere the system refuses this; nobody can
        // connect there either, before the socket listens, and then the file has its mode.
        let _ = fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR);
    } else {
        socket.set_reuse_address(true)?;
        if target.domain() == Domain::IPV6 {
            socket.set_only_v6(true)?;
        }
    }
    socket.bind(&target)?;
    if let StreamAddress::Unix(path) = address {
        if access.group.is_some() {
            std::os::unix::fs::chown(path, None, access.group)?;
        }
        // After the group is right; the umask does not affect the configured mode.
        fs::set_permissions(path, fs::Permissions::from_mode(access.mode))?;
    }
    socket.listen(ACCEPT_BACKLOG)?;
    let bound = socket.local_addr()?.as_socket();
    let address = match (address, bound) {
        (StreamAddress::Tcp(_), Some(bound)) => StreamAddress::Tcp(bound),
        (StreamAddress::WebSocket(_), Some(bound)) => StreamAddress::WebSocket(bound),
        _ => address.clone(),
    };
    Ok(Listener { socket, address })
}
/// Removes a socket file that a killed process left behind; one with a listener stays.
fn clear_stale(path: &std::path::Path, target: &socket2::SockAddr) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && Socket::new(Domain::UNIX, Type::STREAM, None)?.connect(target).is_err() {
        fs::remove_file(path)?;
    }
    Ok(())
}
