//! A wrapper that panics when a node or its driver breaks the contract.
use std::cell::Cell;

use tributary_core::{
    Datagram, FaceAddresses, FaceChange, FaceId, FaceRefusal, FaceRequest, Node, Time, TimerId, Transmit, TransmitBuf,
    event::Event,
};

/// A node under supervision. It behaves like the node inside, and panics with the broken rule and its culprit:
///
/// - driver: `now` never goes back;
/// - driver: an input comes only after the outputs of the one before are drained (see [`Limits::inputs_per_drain`]);
/// - driver: `poll_transmit` gets an empty batch;
/// - node: a batch holds 1 to [`TransmitBuf::DATAGRAMS_MAX`] datagrams, and is empty if there is nothing to send;
/// - node: no datagram is longer than the MTU;
/// - node: it emits a bounded number of datagrams, events and timeouts without time passing: it does not spin, and a
///   served timer is no longer due.
#[derive(Debug)]
pub struct Checked<N> {
    node: N,
    limits: Limits,
    now: Time,
    /// Inputs since the outputs were last drained.
    inputs: u32,
    transmits_drained: bool,
    events_drained: bool,
    instant: InThisInstant,
    last_timer: Cell<Option<(Time, TimerId)>>,
}

/// What happened since time last passed.
#[derive(Clone, Copy, Default, Debug)]
struct InThisInstant {
    datagrams: usize,
    events: usize,
    timeouts: usize,
    inputs: usize,
}

/// What [`Checked`] tolerates.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest datagram. Default 1,472.
    pub mtu: usize,
    /// Datagrams that may arrive before the outputs are drained. Default 1; the real driver feeds whole GRO runs.
    pub inputs_per_drain: u32,
    /// Datagrams sent without time passing, at most this many per input. Default 4,096.
    pub datagrams_per_instant: usize,
    /// Events emitted without time passing, at most this many per input. Default 4,096.
    pub events_per_instant: usize,
    /// Timeouts served without time passing, beyond one for each input. Default 64.
    pub timeouts_per_instant: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            mtu: 1_472,
            inputs_per_drain: 1,
            datagrams_per_instant: 4_096,
            events_per_instant: 4_096,
            timeouts_per_instant: 64,
        }
    }
}

impl<N: Node> Checked<N> {
    /// Supervises `node` with default limits.
    pub fn new(node: N) -> Self {
        Checked::with_limits(node, Limits::default())
    }
    /// Supervises `node` with these limits.
    pub fn with_limits(node: N, limits: Limits) -> Self {
        Checked {
            node,
            limits,
            now: Time::ZERO,
            inputs: 0,
            transmits_drained: true,
            events_drained: true,
            instant: InThisInstant::default(),
            last_timer: Cell::new(None),
        }
    }
    /// The node within, to look at.
    pub fn inner(&self) -> &N {
        &self.node
    }
    /// Passes a command to the inner node; it counts as an input.
    pub fn command<R>(&mut self, now: Time, command: impl FnOnce(&mut N, Time) -> R) -> R {
        self.on_input(now, "a command");
        command(&mut self.node, now)
    }
    /// The node within, without supervision.
    pub fn into_inner(self) -> N {
        self.node
    }

    fn on_time(&mut self, now: Time) {
        assert!(now >= self.now, "driver: time went back from {} to {now}", self.now);
        if now > self.now {
            self.now = now;
            self.instant = InThisInstant::default();
        }
    }
    fn on_input(&mut self, now: Time, what: &str) {
        if self.transmits_drained && self.events_drained {
            self.inputs = 0;
        }
        self.on_time(now);
        assert!(
            self.inputs < self.limits.inputs_per_drain,
            "driver: {what} came at {now} before the outputs of the last {} inputs were drained",
            self.inputs,
        );
        self.inputs += 1;
        self.instant.inputs += 1;
        (self.transmits_drained, self.events_drained) = (false, false);
    }
}

impl<N: Node> Node for Checked<N> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        self.on_input(now, "a datagram");
        self.node.handle_datagram(now, face, datagram);
    }
    fn handle_face(&mut self, now: Time, face: FaceId, change: FaceChange) {
        self.on_input(now, "a change of a face");
        self.node.handle_face(now, face, change);
    }
    fn handle_storage(&mut self, now: Time) {
        self.on_input(now, "an answer of the storage");
        self.node.handle_storage(now);
    }
    fn poll_face_request(&mut self) -> Option<FaceRequest> {
        self.node.poll_face_request()
    }
    fn handle_face_answer(&mut self, now: Time, request: u64, answer: Result<(FaceId, FaceAddresses), FaceRefusal>) {
        self.on_input(now, "an answer about a face");
        self.node.handle_face_answer(now, request, answer);
    }
    fn handle_channels(&mut self, channels: Vec<String>) {
        self.node.handle_channels(channels);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.on_time(now);
        self.instant.timeouts += 1;
        assert!(
            self.instant.timeouts <= self.limits.timeouts_per_instant + self.instant.inputs,
            "node: it spins: {} timeouts at {now} without time passing, the last one asked for was {:?}",
            self.instant.timeouts,
            self.last_timer.get(),
        );
        (self.transmits_drained, self.events_drained) = (false, false);
        self.node.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        self.on_time(now);
        assert!(out.is_empty(), "driver: poll_transmit got a batch with {} datagrams in it", out.len());
        let transmit = self.node.poll_transmit(now, out);
        if transmit.is_none() {
            assert!(out.is_empty(), "node: {} datagrams in the batch, but nothing to send", out.len());
            self.transmits_drained = true;
            return None;
        }
        assert!(!out.is_empty(), "node: a batch without a datagram for {transmit:?}");
        assert!(
            out.len() <= TransmitBuf::DATAGRAMS_MAX,
            "node: {} datagrams in one batch, {} are allowed",
            out.len(),
            TransmitBuf::DATAGRAMS_MAX,
        );
        for (head, body) in out.iter() {
            let len = head.len() + body.len();
            assert!(len <= self.limits.mtu, "node: a datagram of {len} bytes exceeds the MTU of {}", self.limits.mtu);
        }
        self.instant.datagrams += out.len();
        assert!(
            self.instant.datagrams <= self.limits.datagrams_per_instant * (1 + self.instant.inputs),
            "node: it spins: {} datagrams sent at {now} without time passing",
            self.instant.datagrams,
        );
        transmit
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let timer = self.node.poll_timeout();
        self.last_timer.set(timer);
        timer
    }
    fn poll_event(&mut self) -> Option<Event> {
        let event = self.node.poll_event();
        if event.is_none() {
            self.events_drained = true;
            return None;
        }
        self.instant.events += 1;
        assert!(
            self.instant.events <= self.limits.events_per_instant * (1 + self.instant.inputs),
            "node: it spins: {} events at {} without time passing, the last one {event:?}",
            self.instant.events,
            self.now,
        );
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tributary_core::{Duration, Outlet, pump};

    /// Breaks the rule that its field names.
    #[derive(Default)]
    struct Rogue {
        batch: usize,
        datagram_bytes: usize,
        endless_transmits: bool,
        endless_events: bool,
        stuck_timer: bool,
        silent_batch: bool,
        inputs: u32,
    }
    impl Node for Rogue {
        fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {
            self.inputs += 1;
        }
        fn handle_timeout(&mut self, _: Time) {}
        fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
            for _ in 0..std::mem::take(&mut self.batch) {
                out.push(b"", Bytes::from(vec![0; self.datagram_bytes]));
            }
            if self.endless_transmits {
                self.batch = 1;
            }
            (!out.is_empty() && !self.silent_batch).then_some(Transmit { face: FaceId(0) })
        }
        fn poll_timeout(&self) -> Option<(Time, TimerId)> {
            self.stuck_timer.then_some((Time::ZERO, TimerId(3)))
        }
        fn poll_event(&mut self) -> Option<Event> {
            self.endless_events.then(|| Event::Note("again".into()))
        }
    }

    struct Sink;
    impl Outlet for Sink {
        fn transmit(&mut self, _: Time, _: Transmit, _: &mut TransmitBuf) {}
        fn event(&mut self, _: Time, _: Event) {}
    }
    /// Passes one datagram and pumps as the simulator does.
    fn drive(rogue: Rogue) -> Rogue {
        let mut node = Checked::new(rogue);
        let (now, mut batch) = (Time::from_millis(1), TransmitBuf::new());
        node.handle_datagram(now, FaceId(0), Datagram::from(&b"x"[..]));
        while pump(&mut node, now, &mut Sink, &mut batch).is_some_and(|due| due <= now) {}
        node.into_inner()
    }

    #[test]
    fn a_good_node_passes_at_the_limits() {
        let good = Rogue { batch: TransmitBuf::DATAGRAMS_MAX, datagram_bytes: 1_472, ..Rogue::default() };
        assert_eq!(drive(good).inputs, 1);
    }
    #[test]
    #[should_panic(expected = "node: 65 datagrams in one batch, 64 are allowed")]
    fn catches_a_batch_beyond_the_limit() {
        drive(Rogue { batch: TransmitBuf::DATAGRAMS_MAX + 1, datagram_bytes: 1, ..Rogue::default() });
    }
    #[test]
    #[should_panic(expected = "node: a datagram of 1473 bytes exceeds the MTU of 1472")]
    fn catches_a_datagram_beyond_the_mtu() {
        drive(Rogue { batch: 1, datagram_bytes: 1_473, ..Rogue::default() });
    }
    #[test]
    #[should_panic(expected = "node: 1 datagrams in the batch, but nothing to send")]
    fn catches_a_batch_that_is_not_announced() {
        drive(Rogue { batch: 1, silent_batch: true, ..Rogue::default() });
    }
    #[test]
    #[should_panic(expected = "datagrams sent at 0.001000 s without time passing")]
    fn catches_endless_transmits() {
        drive(Rogue { batch: 1, endless_transmits: true, ..Rogue::default() });
    }
    #[test]
    #[should_panic(expected = "events at 0.001000 s without time passing")]
    fn catches_endless_events() {
        drive(Rogue { endless_events: true, ..Rogue::default() });
    }
    #[test]
    #[should_panic(
        expected = "timeouts at 0.001000 s without time passing, the last one asked for was Some((Time(0), TimerId(3)))"
    )]
    fn catches_a_timer_that_stays_due() {
        drive(Rogue { stuck_timer: true, ..Rogue::default() });
    }
    #[test]
    #[should_panic(expected = "node: a batch without a datagram")]
    fn catches_an_empty_batch() {
        struct Empty;
        impl Node for Empty {
            fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
            fn handle_timeout(&mut self, _: Time) {}
            fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
                Some(Transmit { face: FaceId(0) })
            }
            fn poll_timeout(&self) -> Option<(Time, TimerId)> {
                None
            }
            fn poll_event(&mut self) -> Option<Event> {
                None
            }
        }
        Checked::new(Empty).poll_transmit(Time::ZERO, &mut TransmitBuf::new());
    }
    #[test]
    #[should_panic(expected = "driver: time went back")]
    fn catches_time_going_back() {
        let mut node = Checked::new(Rogue::default());
        node.handle_timeout(Time::from_millis(2));
        node.handle_timeout(Time::from_millis(2) - Duration::from_nanos(1));
    }
    #[test]
    #[should_panic(
        expected = "driver: a datagram came at 0.001000 s before the outputs of the last 1 inputs were drained"
    )]
    fn catches_an_input_before_the_drain() {
        let mut node = Checked::new(Rogue::default());
        for _ in 0..2 {
            node.handle_datagram(Time::from_millis(1), FaceId(0), Datagram::from(&b"x"[..]));
        }
    }
    #[test]
    #[should_panic(expected = "driver: poll_transmit got a batch with 1 datagrams in it")]
    fn catches_a_batch_that_was_not_cleared() {
        let mut batch = TransmitBuf::new();
        batch.push(b"left", Bytes::new());
        Checked::new(Rogue::default()).poll_transmit(Time::ZERO, &mut batch);
    }
}
