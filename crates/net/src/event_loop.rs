//! The loop of one driver thread.
use std::{
    io::IoSliceMut,
    net::SocketAddr,
    os::fd::AsFd,
    sync::{Arc, mpsc},
};

use bytes::BytesMut;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags},
};
use quinn_udp::RecvMeta;
use tributary_core::{
    Datagram, DatagramBatch, FaceAddresses, FaceChange, FaceId, FaceRefusal, FaceRequest, Node, Outlet, Stranger, Time,
    Transmit, TransmitBuf,
    event::Event,
    link::{Fate, LinkChange},
    pump,
};

use crate::{
    batch::Batch,
    bell::Bell,
    buffers::BufferPool,
    clock::Clock,
    config::FaceConfig,
    error::DriverError,
    faces::{Face, Faces},
    platform::{self, Wake},
    socket::{Route, Sent, UdpPort},
    stats::DriverStats,
    stream::{
        StreamFaceConfig, address,
        table::{StreamEvent, Streams},
    },
};

/// A command of the owner.
pub(crate) enum Command<N> {
    /// Run this on the node.
    Call(Call<N>),
    /// Tell the counters.
    Stats(mpsc::SyncSender<DriverStats>),
    /// Add a face.
    AddFace(Box<FaceConfig>, mpsc::SyncSender<Result<(), DriverError>>),
    /// Add a stream.
    AddStream(StreamFaceConfig, mpsc::SyncSender<Result<(), DriverError>>),
    /// Remove a face.
    RemoveFace(FaceId, mpsc::SyncSender<Result<(), DriverError>>),
    /// The same, and its peer is ignored for some time.
    LeaveFace(FaceId, mpsc::SyncSender<Result<(), DriverError>>),
    /// Change the emulated link of a face.
    ChangeLink(FaceId, LinkChange, mpsc::SyncSender<Result<(), DriverError>>),
    /// End the loop.
    Stop,
}

/// Something to do to a node on its own thread.
type Call<N> = Box<dyn FnOnce(&mut N, Time) + Send>;

/// Buffers filled by one receive call. More would leave the cache before they are processed.
const RECEIVE_BUFFERS: usize = 2;
/// What a stream carries: nothing needs to be split for it.
const STREAM_MTU: u32 = u32::MAX;
/// Turns with work between two checks of all other sockets.
const TURNS_PER_LOOK: u32 = 16;
/// The first number of faces that the node itself requested; faces of the configuration have lower ones.
const OPENED_FACE_FIRST: u32 = 1 << 15;

/// One node with its sockets, clock and owner.
pub(crate) struct EventLoop<N, E> {
    node: N,
    world: World<E>,
    commands: mpsc::Receiver<Command<N>>,
    wake: Arc<Wake>,
    /// Rung by storage that works on other threads.
    bell: Bell,
    pool: BufferPool,
    buffers: Vec<BytesMut>,
    batch: TransmitBuf,
    /// When the node must be pumped next.
    node_due: Option<Time>,
    sweep_due: Time,
}

/// Everything but the node, so that the two can be borrowed separately.
struct World<E> {
    faces: Faces,
    streams: Streams,
    /// Places of faces with a nonempty batch.
    dirty: Vec<usize>,
    /// When datagrams last left an emulated link.
    shaped_at: Time,
    clock: Clock,
    stats: DriverStats,
    on_event: E,
}

/// Whether the loop continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Worked,
    Idle,
    Stop,
}

impl<N: Node, E: FnMut(Time, Event)> EventLoop<N, E> {
    pub(crate) fn new(
        node: N,
        faces: Faces,
        streams: Streams,
        clock: Clock,
        on_event: E,
        commands: mpsc::Receiver<Command<N>>,
        (wake, bell): (Arc<Wake>, Bell),
    ) -> Self {
        let mut stats = DriverStats::default();
        for port in &faces.ports {
            stats.buffer_shortfall_bytes += port.shortfall_bytes;
        }
        EventLoop {
            node,
            world: World { faces, streams, dirty: Vec::new(), shaped_at: Time::ZERO, clock, stats, on_event },
            commands,
            wake,
            bell,
            pool: BufferPool::default(),
            buffers: Vec::new(),
            batch: TransmitBuf::new(),
            node_due: Some(Time::ZERO),
            sweep_due: Time::ZERO,
        }
    }
    /// Runs until stopped, or until the owner is dropped; returns the final counters.
    pub(crate) fn run(mut self) -> DriverStats {
        platform::sharpen_timers();
        self.node.handle_channels([self.world.faces.channels(), self.world.streams.channels()].concat());
        let mut turns_since_look = 0;
        loop {
            self.world.stats.turns += 1;
            match self.turn() {
                Turn::Stop => break,
                Turn::Worked => {
                    turns_since_look += 1;
                    if turns_since_look >= TURNS_PER_LOOK {
                        turns_since_look = 0;
                        self.wait(Some(Time::ZERO));
                    }
                }
                Turn::Idle => {
                    turns_since_look = 0;
                    let due = self.next_due();
                    self.wait(due);
                }
            }
        }
        self.world.send_dirty();
        self.stats()
    }

    fn turn(&mut self) -> Turn {
        let mut turn = Turn::Idle;
        loop {
            match self.commands.try_recv() {
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return Turn::Stop,
                Ok(command) => self.execute(command),
                Err(mpsc::TryRecvError::Empty) => break,
            }
            turn = Turn::Worked;
        }
        if self.bell.take() {
            turn = Turn::Worked;
            let now = self.world.clock.now();
            self.node.handle_storage(now);
            self.pump();
            self.world.send_dirty();
        }
        for port in 0..self.world.faces.ports.len() {
            if self.world.faces.ports[port].is_readable {
                turn = Turn::Worked;
                self.receive(port);
                self.pump();
                self.world.send_dirty();
            }
        }
        let now = self.world.clock.now();
        if self.world.streams.has_work(now) {
            turn = Turn::Worked;
            self.serve_streams(now);
        }
        if self.node_due.is_some_and(|due| due <= now) {
            turn = Turn::Worked;
            self.pump();
        }
        self.world.deliver_shaped(now);
        self.world.send_dirty();
        if self.sweep_due <= now {
            self.sweep_due = now + self.world.faces.idle_sweep();
            self.forget_idle(now);
        }
        turn
    }
    /// Accepts, connects and reads streams, and passes their events to the node.
    fn serve_streams(&mut self, now: Time) {
        for event in self.world.streams.poll(now, &mut self.world.stats) {
            match event {
                StreamEvent::Up(face, place, addresses) => {
                    (self.world.on_event)(now, Event::Note(format!("{face} is {}", addresses.peer)));
                    self.node.handle_face(now, face, FaceChange::Opened { mtu: STREAM_MTU, place, addresses });
                }
                StreamEvent::Packets(face, packets) => {
                    for packet in packets {
                        self.node.handle_datagram(now, face, Datagram::from(packet));
                    }
                }
                StreamEvent::Down(face, reason) => {
                    (self.world.on_event)(now, Event::Note(format!("{face} is closed: {reason}")));
                    self.node.handle_face(now, face, FaceChange::Closed);
                }
            }
            self.pump();
        }
        self.world.send_dirty();
    }
    fn forget_idle(&mut self, now: Time) {
        let gone = self.world.faces.forget_idle(now);
        self.note_gone(now, &gone, "was idle and is forgotten");
    }
    fn note_gone(&mut self, now: Time, gone: &[(FaceId, SocketAddr)], why: &str) {
        for (face, peer) in gone {
            (self.world.on_event)(now, Event::Note(format!("{face} to {peer} {why}")));
            self.node.handle_face(now, *face, FaceChange::Closed);
            self.pump();
        }
    }
    fn execute(&mut self, command: Command<N>) {
        let now = self.world.clock.now();
        // The caller may have stopped waiting for its answer.
        match command {
            Command::Call(call) => {
                call(&mut self.node, now);
                self.pump();
                self.world.send_dirty();
            }
            Command::Stats(reply) => drop(reply.send(self.stats())),
            Command::AddFace(face, reply) => drop(reply.send(self.world.faces.add(*face, now))),
            Command::AddStream(face, reply) => drop(reply.send(self.world.add_stream(face, now))),
            Command::RemoveFace(face, reply) => drop(reply.send(self.world.remove_face(face))),
            Command::LeaveFace(face, reply) => drop(reply.send(self.world.leave_face(face, now))),
            Command::ChangeLink(face, change, reply) => drop(reply.send(self.world.change_link(now, face, change))),
            Command::Stop => {}
        }
    }
    /// Takes the datagrams of one receive call, and feeds them to the node.
    fn receive(&mut self, port: usize) {
        while self.buffers.len() < RECEIVE_BUFFERS {
            self.buffers.push(self.pool.take());
        }
        let mut meta = [RecvMeta::default(); RECEIVE_BUFFERS];
        let received = {
            let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
            for (slice, buffer) in slices.iter_mut().zip(&mut self.buffers) {
                *slice = IoSliceMut::new(buffer);
            }
            self.world.stats.receive_calls += 1;
            self.world.faces.ports[port].receive(&mut slices, &mut meta)
        };
        let count = match received {
            Ok(count) => count,
            Err(error) => {
                // Such as an ICMP error about an earlier datagram; reading it has cleared it.
                tracing::debug!(%error, "receive failed");
                self.world.stats.receive_errors += 1;
                0
            }
        };
        self.world.faces.ports[port].is_readable = count == RECEIVE_BUFFERS;
        let now = self.world.clock.now();
        for meta in &meta[..count] {
            let buffer = self.buffers.remove(0);
            let (bytes, back) = self.pool.lend(buffer, meta.len);
            self.buffers.extend(back);
            self.feed(port, now, meta, bytes);
        }
    }
    fn feed(&mut self, port: usize, now: Time, meta: &RecvMeta, bytes: bytes::Bytes) {
        let stride = if meta.stride == 0 { meta.len.max(1) } else { meta.stride };
        let datagrams = meta.len.div_ceil(stride).max(1);
        let world = &mut self.world;
        world.stats.gro_buffers += u64::from(datagrams > 1);
        world.stats.in_datagrams += datagrams as u64;
        world.stats.in_bytes += meta.len as u64;
        let local_address = world.faces.local_address(port, meta.dst_ip);
        let known = world.faces.known(port, meta.addr, local_address);
        let Some(place) = known.or_else(|| self.meet(port, now, meta, &bytes[..stride.min(meta.len)])) else {
            self.world.stats.unknown_peer_drops += datagrams as u64;
            return;
        };
        let world = &mut self.world;
        let Some((face, _)) = world.faces.face_mut(place) else { return };
        face.count_in(now, datagrams, meta.len, local_address);
        let is_marked = face.ecn.on_arrival(now, meta.ecn, datagrams as u64, &mut world.stats.ecn);
        let id = face.id;
        let run = DatagramBatch::new(bytes, stride);
        // Marks are rare: runs need not carry them.
        if face.ingress_loss.is_none() && !is_marked {
            return self.node.handle_batch(now, id, run);
        }
        for index in 0..datagrams {
            let mut datagram = run.datagram(index);
            if is_marked {
                datagram.set_marked();
            }
            let is_lost = face.ingress_loss.as_mut().is_some_and(|(loss, random)| loss.next(random) == Fate::Lost);
            match is_lost {
                true => world.stats.ingress_lost += 1,
                false => self.node.handle_datagram(now, id, datagram),
            }
        }
    }
    /// Makes a face for the sender of a datagram if the node admits it.
    fn meet(&mut self, port: usize, now: Time, meta: &RecvMeta, first: &[u8]) -> Option<usize> {
        let world = &mut self.world;
        if !world.faces.is_open_to(port, meta.addr, now) {
            return None;
        }
        let local_address = world.faces.local_address(port, meta.dst_ip);
        match self.node.handle_stranger(now, meta.addr, first) {
            Stranger::Admitted => {}
            Stranger::Dropped => return None,
            Stranger::Answered(answer) => {
                let mut batch = Batch::default();
                batch.push(&[], answer.into(), 0);
                let route = Route { source: local_address, ..Route::new(meta.addr) };
                world.faces.ports[port].send(&route, &mut batch, &mut world.stats);
                return None;
            }
        }
        let (place, gone) = world.faces.welcome(port, meta.addr, local_address, now)?;
        world.note_new_face(place, now);
        self.note_gone(now, &gone, "closed to make room for another face");
        Some(place)
    }
    fn pump(&mut self) {
        loop {
            let now = self.world.clock.now();
            self.node_due = pump(&mut self.node, now, &mut self.world, &mut self.batch);
            match self.node.poll_face_request() {
                None => return,
                Some(FaceRequest::Open { request, uri, mtu }) => {
                    let answer = self.world.open_face(&uri, mtu, now);
                    self.node.handle_face_answer(now, request, answer);
                }
                Some(FaceRequest::Locate { face }) => self.locate(face, now),
                // If the peer has closed it in the meantime, it does not exist any longer.
                Some(FaceRequest::Close { face }) => drop(self.world.remove_face(face)),
                Some(FaceRequest::Move { face, to }) => {
                    if let Some((from, peer)) = self.world.faces.move_to(face, to) {
                        let note = format!("the neighbour on {face} has moved from {from} to {peer}");
                        (self.world.on_event)(now, Event::Note(note));
                        self.node.handle_face(now, to, FaceChange::Closed);
                        self.locate(face, now);
                    }
                }
            }
        }
    }
    /// Reports the addresses of a datagram face; a stream's were reported when it opened.
    fn locate(&mut self, face: FaceId, now: Time) {
        if let Some(addresses) = self.world.faces.addresses(face) {
            self.node.handle_face(now, face, FaceChange::Located(addresses));
        }
    }
    /// When the loop has something to do without a command.
    fn next_due(&self) -> Option<Time> {
        let sweep = self.world.faces.has_dynamic().then_some(self.sweep_due);
        let links = self.world.faces.shaped().filter_map(|face| face.link.as_ref()?.poll_timeout());
        let links = links.min().map(|due| due.max(self.world.shaped_at + self.world.faces.config.shaping_quantum));
        links.into_iter().chain(self.node_due).chain(sweep).chain(self.world.streams.next_due()).min()
    }
    /// Sleeps until `due`, until a socket is ready, or until the owner calls; `None` has no end.
    fn wait(&mut self, due: Option<Time>) {
        let ports = &self.world.faces.ports;
        let mut fds = Vec::with_capacity(ports.len() + 1);
        fds.push(PollFd::new(self.wake.as_fd(), PollFlags::POLLIN));
        for port in ports {
            let interest = if port.is_blocked() { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
            fds.push(PollFd::new(port.as_fd(), interest));
        }
        fds.extend(self.world.streams.interests().map(|(fd, interest)| PollFd::new(fd, interest)));
        let timeout = due.map(|due| self.world.clock.until(due));
        self.world.stats.wait_calls += 1;
        let ready = match platform::wait(&mut fds, timeout) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            Err(error) => {
                tracing::error!(%error, "cannot wait for sockets");
                0
            }
        };
        if ready == 0 {
            return;
        }
        let events: Vec<_> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        if !events[0].is_empty() {
            // The count does not matter: the next turn processes all commands.
            self.wake.clear();
        }
        let (of_ports, of_streams) = events[1..].split_at(self.world.faces.ports.len());
        self.world.streams.set_ready(of_streams.iter().map(|events| !events.is_empty()));
        for (port, events) in of_ports.iter().enumerate() {
            let world = &mut self.world;
            // Errors show themselves by a receive call.
            world.faces.ports[port].is_readable |= !events.difference(PollFlags::POLLOUT).is_empty();
            if events.contains(PollFlags::POLLOUT) {
                world.faces.ports[port].flush(&mut world.stats);
            }
        }
    }
    fn stats(&self) -> DriverStats {
        DriverStats {
            faces: self.world.faces.stats(),
            streams: self.world.streams.stats(),
            buffers_allocated: self.pool.allocated,
            ..self.world.stats.clone()
        }
    }
}

impl<E: FnMut(Time, Event)> World<E> {
    /// Moves datagrams from the emulated links into the batches of their faces.
    fn deliver_shaped(&mut self, now: Time) {
        if now < self.shaped_at + self.faces.config.shaping_quantum {
            return;
        }
        for index in 0..self.faces.shaped.len() {
            let place = self.faces.shaped[index];
            while let Some((face, _)) = self.faces.face_mut(place)
                && let Some(datagram) = face.link.as_mut().and_then(|link| link.poll_deliver(now))
            {
                self.shaped_at = now;
                self.append(now, place, (datagram.head(), datagram.body().clone()), datagram.is_marked());
            }
        }
    }
    /// Appends a datagram to the batch of a face, after sending the batch if it is full.
    fn append(&mut self, now: Time, place: usize, (head, body): (&[u8], bytes::Bytes), is_marked: bool) {
        let Some((face, ports)) = self.faces.face_mut(place) else { return };
        let port = &mut ports[face.port];
        let Some(ecn) = face.ecn.on_departure(now, is_marked) else {
            self.stats.marked_drops += 1;
            return;
        };
        face.count_out(head.len() + body.len());
        if !face.batch.takes(head.len() + body.len(), ecn, port.segments_max)
            && let Sent::Refused(error) = port.send(&face.route, &mut face.batch, &mut self.stats)
        {
            refused(face, port, self.clock.now(), error);
        }
        face.batch.push(head, body, ecn);
        if !face.is_dirty {
            face.is_dirty = true;
            self.dirty.push(place);
        }
    }
    fn add_stream(&mut self, face: StreamFaceConfig, now: Time) -> Result<(), DriverError> {
        if self.faces.place(face.id).is_some() || self.streams.contains(face.id) {
            return Err(DriverError::DuplicateFace { face: face.id });
        }
        self.streams.dial(face, now)
    }
    /// Opens the face that a node requests: over UDP from the first listener's socket, so that the neighbour knows it
    /// by the address that other nodes know, or as a stream, which is dialled until it is closed.
    fn open_face(&mut self, uri: &str, mtu: Option<u32>, now: Time) -> Result<(FaceId, FaceAddresses), FaceRefusal> {
        let id = (OPENED_FACE_FIRST..self.faces.config.dynamic_face_first).map(FaceId);
        let is_free = |id: &FaceId| self.faces.place(*id).is_none() && !self.streams.contains(*id);
        let full = || FaceRefusal::System("no number is left for another face".into());
        let id = { id }.find(is_free).ok_or_else(full)?;
        let opened = match address::datagram_address(uri) {
            Some(Err(reason)) => return Err(FaceRefusal::Address(reason)),
            Some(Ok(peer)) if self.faces.is_own(peer) => {
                return Err(FaceRefusal::Address(format!("'{uri}' is this node itself")));
            }
            Some(Ok(peer)) => {
                let (local, config) = (self.faces.listener_for(peer), FaceConfig::new(id, peer));
                let config = FaceConfig { local, mtu: mtu.unwrap_or(config.mtu).min(config.mtu), ..config };
                self.faces.add(config, now)
            }
            None => {
                let peer = uri.parse().map_err(FaceRefusal::Address)?;
                match self.streams.dialled(&peer) {
                    Some(face) => return Err(FaceRefusal::Exists(face)),
                    None => self.streams.dial(StreamFaceConfig { id, peer }, now),
                }
            }
        };
        match opened {
            Ok(()) => {
                let dialled = || FaceAddresses { peer: uri.into(), local: self.streams.near_of(id) };
                Ok((id, self.faces.addresses(id).unwrap_or_else(dialled)))
            }
            Err(DriverError::DuplicatePeer { other, .. }) => Err(FaceRefusal::Exists(other)),
            Err(error) => Err(FaceRefusal::System(error.to_string())),
        }
    }
    fn leave_face(&mut self, face: FaceId, now: Time) -> Result<(), DriverError> {
        if self.streams.contains(face) {
            return self.remove_face(face);
        }
        self.faces.leave(face, now)
    }
    fn remove_face(&mut self, face: FaceId) -> Result<(), DriverError> {
        if self.streams.contains(face) {
            self.streams.remove(face);
            return Ok(());
        }
        self.faces.remove(face)
    }
    /// Sends all batches, and the streams' queues.
    fn send_dirty(&mut self) {
        self.streams.flush();
        while let Some(place) = self.dirty.pop() {
            if let Some((face, ports)) = self.faces.face_mut(place) {
                face.is_dirty = false;
                let port = &mut ports[face.port];
                if let Sent::Refused(error) = port.send(&face.route, &mut face.batch, &mut self.stats) {
                    refused(face, port, self.clock.now(), error);
                }
            }
        }
    }
    fn change_link(&mut self, now: Time, id: FaceId, change: LinkChange) -> Result<(), DriverError> {
        let unknown = DriverError::UnknownFace { face: id };
        let place = self.faces.place(id).ok_or(unknown)?;
        let link = self.faces.face_mut(place).and_then(|(face, _)| face.link.as_mut());
        link.ok_or_else(|| DriverError::Refused(format!("{id} has no emulated link")))?.apply(now, change);
        Ok(())
    }
    fn note_new_face(&mut self, place: usize, now: Time) {
        if let Some((face, _)) = self.faces.face_mut(place) {
            let note = format!("{} is {}", face.id, face.peer);
            (self.on_event)(now, Event::Note(note));
        }
    }
}

/// Notes that the kernel does not send to a peer, and logs why, once: the network may be up a moment later, so that the
/// face stays as it is.
fn refused(face: &mut Face, port: &UdpPort, now: Time, error: Errno) {
    if face.on_refused(now, error) {
        let (id, peer, local) = (face.id, face.peer, port.local);
        tracing::warn!(
            "{id} cannot send to {peer}: {} (sent from {local}); it keeps trying",
            why_refused(error, local)
        );
    }
}
/// An error of the kernel in words that suggest a remedy.
fn why_refused(error: Errno, local: SocketAddr) -> String {
    let why = match error {
        Errno::EINVAL | Errno::EADDRNOTAVAIL if !local.ip().is_unspecified() => {
            "it is not reached from the address that 'listen' names; listen on 0.0.0.0, [::] or an address of the \
             interface that leads there"
        }
        Errno::ENETUNREACH => "no route leads there; is the network up?",
        Errno::EHOSTUNREACH => "no program answers there on the link",
        Errno::EPERM => "a firewall of this machine refuses it",
        Errno::EACCES => "the system does not allow it, such as to a broadcast address",
        _ => "the system refuses",
    };
    format!("{} ({why})", error.desc())
}

impl<E: FnMut(Time, Event)> Outlet for World<E> {
    fn transmit(&mut self, now: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        let Some(place) = self.faces.place(transmit.face) else {
            if self.streams.contains(transmit.face) {
                for (head, body) in batch.iter() {
                    self.streams.push(transmit.face, head, body, &mut self.stats);
                }
                return;
            }
            self.stats.unknown_face_drops += batch.len() as u64;
            return;
        };
        let Some((face, _)) = self.faces.face_mut(place) else { return };
        face.refresh_source(now);
        let mtu = face.mtu;
        if let Some(link) = &mut face.link {
            for datagram in batch.drain() {
                if datagram.len() > mtu {
                    self.stats.oversize_drops += 1;
                } else {
                    link.enqueue(now, datagram);
                }
            }
            return;
        }
        batch.take_each(|head, body| {
            if head.len() + body.len() > mtu {
                self.stats.oversize_drops += 1;
            } else {
                self.append(now, place, (head, body), false);
            }
        });
    }
    fn event(&mut self, now: Time, event: Event) {
        if let Event::Neighbour { face, up: false, .. } = &event
            && let Some((face, _)) = self.faces.place(*face).and_then(|place| self.faces.face_mut(place))
        {
            face.ecn.on_lost(now);
        }
        (self.on_event)(now, event);
    }
}
