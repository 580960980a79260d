//! A node on strings: it can be frozen, its clock stopped, its packets forged; and its input and output are counted.
use std::{cell::RefCell, collections::VecDeque, mem, rc::Rc};

use bytes::Bytes;
use tributary_core::{
    Datagram, Duration, FaceId, Node, Random, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferEvent},
};

use super::{
    canary::Canary,
    disk::{Clock, Pace},
    ledger::Ledger,
};
use crate::{Checked, Limits};

/// What a lying node makes of its packets.
pub(super) type Forge = fn(&mut [u8], &mut Random) -> bool;

/// A node of a fault run.
pub(super) struct Puppet<N> {
    index: usize,
    node: Checked<N>,
    ledger: Rc<RefCell<Ledger>>,
    canary: Option<Canary>,
    random: Random,
    /// The clock of its disk.
    clock: Clock,
    /// When its receiver's stores answer.
    pace: Pace,
    now: Time,
    /// What arrived while the node was frozen.
    inbox: VecDeque<(FaceId, Datagram)>,
    frozen: bool,
    /// Whether all output of the last packets has been sent.
    is_drained: bool,
    clock_stopped_at: Option<Time>,
    forge: Option<(f64, Forge)>,
    window: Window,
    repeat: Option<Event>,
    deaf: bool,
    chatter_at: Option<Time>,
}

/// What happened since a second began.
#[derive(Default)]
struct Window {
    since: Time,
    timeouts: u64,
    packets: u64,
}

/// Faces from here on are unsolicited; no link is attached to them.
pub(super) const UNSOLICITED_FACE: u32 = 1_000;
/// What a socket buffers for a process that does not read.
const INBOX_PACKETS_MAX: usize = 512;
/// Packets fed to a node that thaws before its outputs are drained, as many as one read of a real socket gives.
const FEED_PACKETS: usize = 64;

impl<N: Node> Puppet<N> {
    pub(super) fn new(
        index: usize,
        node: N,
        mtu: usize,
        ledger: &Rc<RefCell<Ledger>>,
        canary: Option<Canary>,
        (clock, pace): (Clock, Pace),
        random: Random,
    ) -> Self {
        // A buffer full of small chunks may be dropped at once, with an event for each.
        let limits = Limits { mtu, inputs_per_drain: 256, events_per_instant: 16_384, ..Limits::default() };
        Puppet {
            index,
            node: Checked::with_limits(node, limits),
            ledger: Rc::clone(ledger),
            canary,
            random,
            clock,
            pace,
            now: Time::ZERO,
            inbox: VecDeque::new(),
            frozen: false,
            is_drained: true,
            clock_stopped_at: None,
            forge: None,
            window: Window::default(),
            repeat: None,
            deaf: false,
            chatter_at: None,
        }
    }
    /// The node within, to look at.
    pub(super) fn inner(&self) -> &N {
        self.node.inner()
    }
    pub(super) fn command<R>(&mut self, now: Time, command: impl FnOnce(&mut N, Time) -> R) -> R {
        self.clock.set(now);
        let local = self.local(now);
        self.node.command(local, command)
    }
    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }
    /// Stops everything; packets wait as in a socket.
    pub(super) fn freeze(&mut self) {
        self.frozen = true;
    }
    /// Resumes: waiting packets are handled now, and timers are late.
    pub(super) fn thaw(&mut self, now: Time) {
        self.frozen = false;
        self.now = now;
    }
    /// From now on the time does not pass for this node; packets are handled.
    pub(super) fn stop_clock(&mut self, now: Time) {
        self.clock_stopped_at.get_or_insert(now);
    }
    /// The clock jumps to the right time.
    pub(super) fn start_clock(&mut self) {
        self.clock_stopped_at = None;
    }
    /// Forges this share of the packets that leave; zero disables it.
    pub(super) fn set_forge(&mut self, share: f64, forge: Forge) {
        self.forge = (share > 0.0).then_some((share, forge));
    }
    /// Everything is mended; canaries that spoil that wake up.
    pub(super) fn mended(&mut self, now: Time, is_receiver: bool) {
        self.deaf = is_receiver && self.canary == Some(Canary::Deaf);
        self.chatter_at = (self.canary == Some(Canary::Chatter)).then_some(now);
    }

    fn local(&self, now: Time) -> Time {
        self.clock_stopped_at.unwrap_or(now)
    }
    fn feed(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let local = self.local(now);
        self.window_at(now).packets += 1;
        self.is_drained = false;
        if !self.deaf {
            self.node.handle_datagram(local, face, datagram);
        }
    }
    fn window_at(&mut self, now: Time) -> &mut Window {
        if now.since(self.window.since) >= Duration::from_secs(1) {
            self.window = Window { since: now, ..Window::default() };
        }
        &mut self.window
    }
    fn tamper(&mut self, batch: &mut TransmitBuf) {
        if self.canary == Some(Canary::Vanish) && self.random.chance(0.001) {
            let mut packets: Vec<Datagram> = batch.drain().collect();
            packets.pop();
            packets.into_iter().for_each(|packet| batch.push_datagram(packet));
        }
        let Some((share, forge)) = self.forge else { return };
        let packets: Vec<Datagram> = batch.drain().collect();
        for packet in packets {
            if !self.random.chance(share) {
                batch.push_datagram(packet);
                continue;
            }
            let mut bytes = packet.to_vec();
            if forge(&mut bytes, &mut self.random) {
                batch.push(&[], Bytes::from(bytes));
            } else {
                batch.push_datagram(packet);
            }
        }
    }
    fn chatter(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let due = self.chatter_at.filter(|due| *due <= now)?;
        self.chatter_at = Some(due + Duration::from_millis(5));
        out.push(&[], Bytes::from_static(&[0; 20]));
        Some(Transmit { face: FaceId(1) })
    }
}

impl<N: Node> Node for Puppet<N> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.now = now;
        self.clock.set(now);
        self.ledger.borrow_mut().on_received(&datagram);
        if self.frozen || !self.inbox.is_empty() {
            if self.inbox.len() < INBOX_PACKETS_MAX {
                self.inbox.push_back((face, datagram));
            }
            return;
        }
        self.feed(now, face, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.clock.set(now);
        if self.frozen {
            return;
        }
        let feed = if self.is_drained { FEED_PACKETS } else { 0 };
        for _ in 0..feed {
            let Some((face, datagram)) = self.inbox.pop_front() else { break };
            self.feed(now, face, datagram);
        }
        let local = self.local(now);
        if self.pace.ring(now) {
            self.node.handle_storage(local);
        }
        if self.node.poll_timeout().is_some_and(|(due, _)| due <= local) {
            self.node.handle_timeout(local);
            let window = self.window_at(now);
            window.timeouts += 1;
            let Window { timeouts, packets, .. } = *window;
            assert!(
                timeouts <= 5_000 + 20 * packets,
                "timer storm: node {} served {timeouts} timeouts and {packets} packets within a second",
                self.index
            );
        }
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        self.now = now;
        if self.frozen {
            return None;
        }
        let local = self.local(now);
        let transmit = match self.node.poll_transmit(local, out) {
            Some(transmit) => transmit,
            None => {
                self.is_drained = true;
                self.chatter(now, out)?
            }
        };
        self.window_at(now).packets += out.len() as u64;
        self.ledger.borrow_mut().on_sent(self.index, transmit.face, out);
        self.tamper(out);
        Some(transmit)
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        if self.frozen {
            return None;
        }
        if self.is_drained && !self.inbox.is_empty() {
            return Some((self.now, TimerId(u16::MAX)));
        }
        let due = self.node.poll_timeout();
        let due = match self.clock_stopped_at {
            Some(stopped) => due.filter(|(due, _)| *due <= stopped),
            None => due,
        };
        let chatter = self.chatter_at.map(|due| (due, TimerId(u16::MAX - 1)));
        let done = self.pace.next().map(|due| (due, TimerId(u16::MAX - 2)));
        due.into_iter().chain(chatter).chain(done).min_by_key(|(due, _)| *due)
    }
    fn poll_event(&mut self) -> Option<Event> {
        if self.frozen {
            return None;
        }
        if let Some(event) = mem::take(&mut self.repeat) {
            return Some(event);
        }
        let event = self.node.poll_event()?;
        let ended = |event: &Event| matches!(event, Event::Transfer(TransferId(_), TransferEvent::Completed));
        if self.canary == Some(Canary::EndTwice) && ended(&event) {
            self.repeat = Some(event.clone());
        }
        Some(event)
    }
}
