//! Tests of one node that read as a conversation.
use std::collections::VecDeque;

use tributary_core::{Datagram, FaceId, Node, Outlet, Time, TimerId, Transmit, TransmitBuf, event::Event, pump};

use crate::checked::{Checked, Limits};

/// One node, spoken to by hand. Timers are served on the way from one [`at`](Dialogue::at) to the next.
///
/// Each `expect_*` takes what it expects out of what the node has said, and panics if that is something else.
#[derive(Debug)]
pub struct Dialogue<N> {
    node: Checked<N>,
    now: Time,
    output: Output,
    batch: TransmitBuf,
}

#[derive(Default, Debug)]
struct Output {
    sent: VecDeque<(Time, FaceId, Datagram)>,
    events: VecDeque<(Time, Event)>,
}

impl Outlet for Output {
    fn transmit(&mut self, now: Time, transmit: Transmit, batch: &mut TransmitBuf) {
        self.sent.extend(batch.drain().map(|datagram| (now, transmit.face, datagram)));
    }
    fn event(&mut self, now: Time, event: Event) {
        self.events.push_back((now, event));
    }
}

impl<N: Node> Dialogue<N> {
    /// Starts at time zero, with default [`Limits`].
    pub fn new(node: N) -> Self {
        Dialogue::with_limits(node, Limits::default())
    }
    /// Starts at time zero, with these limits.
    pub fn with_limits(node: N, limits: Limits) -> Self {
        let node = Checked::with_limits(node, limits);
        let mut dialogue = Dialogue { node, now: Time::ZERO, output: Output::default(), batch: TransmitBuf::new() };
        dialogue.pump();
        dialogue
    }
    /// Lets time pass until `time`, serving timers when they are due.
    pub fn at(&mut self, time: Time) -> &mut Self {
        while let Some((due, _)) = self.node.poll_timeout()
            && due <= time
        {
            self.now = self.now.max(due);
            self.pump();
        }
        self.now = time;
        self
    }
    /// The node receives a datagram.
    pub fn recv(&mut self, face: FaceId, datagram: impl AsRef<[u8]>) -> &mut Self {
        self.recv_datagram(face, Datagram::from(datagram.as_ref()))
    }
    /// The node receives a datagram as it is, with its cut between head and body.
    pub fn recv_datagram(&mut self, face: FaceId, datagram: Datagram) -> &mut Self {
        self.node.handle_datagram(self.now, face, datagram);
        self.pump();
        self
    }
    /// The node gets a command.
    pub fn command<R>(&mut self, command: impl FnOnce(&mut N, Time) -> R) -> R {
        let result = self.node.command(self.now, command);
        self.pump();
        result
    }
    /// The next datagram sent is this one.
    #[track_caller]
    pub fn expect_send(&mut self, face: FaceId, datagram: impl AsRef<[u8]>) -> &mut Self {
        let (sent_face, sent) = self.next_send();
        assert_eq!((sent_face, sent.to_vec().as_slice()), (face, datagram.as_ref()), "at {}", self.now);
        self
    }
    /// The next event is this one.
    #[track_caller]
    pub fn expect_event(&mut self, event: &Event) -> &mut Self {
        assert_eq!(self.next_event().as_ref(), Some(event), "at {}", self.now);
        self
    }
    /// The next timer is due at `time`.
    #[track_caller]
    pub fn expect_timer(&mut self, time: Time) -> &mut Self {
        assert_eq!(self.timer().map(|(due, _)| due), Some(time), "at {}", self.now);
        self
    }
    /// Nothing more was sent; events are not looked at.
    #[track_caller]
    pub fn expect_idle(&mut self) -> &mut Self {
        if let Some((time, face, datagram)) = self.output.sent.front() {
            panic!("nothing should have been sent, but at {time} on {face}: {datagram:?}");
        }
        self
    }
    /// Takes the next datagram sent.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn next_send(&mut self) -> (FaceId, Datagram) {
        let Some((_, face, datagram)) = self.output.sent.pop_front() else {
            panic!("nothing was sent until {}", self.now);
        };
        (face, datagram)
    }
    /// Takes all datagrams sent, with their times.
    pub fn take_sent(&mut self) -> Vec<(Time, FaceId, Datagram)> {
        self.output.sent.drain(..).collect()
    }
    /// Takes the next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.output.events.pop_front().map(|(_, event)| event)
    }
    /// Takes all events, with their times.
    pub fn take_events(&mut self) -> Vec<(Time, Event)> {
        self.output.events.drain(..).collect()
    }
    /// The next timer.
    pub fn timer(&self) -> Option<(Time, TimerId)> {
        self.node.poll_timeout()
    }
    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }
    /// The node, to look at.
    pub fn node(&self) -> &N {
        self.node.inner()
    }

    fn pump(&mut self) {
        while pump(&mut self.node, self.now, &mut self.output, &mut self.batch).is_some_and(|due| due <= self.now) {}
    }
}
