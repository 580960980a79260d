//! A node of any family, driven by a script.
use tributary_core::{Datagram, Duration, FaceId, Outlet, Time, TransmitBuf, pump};
use tributary_testkit::{Checked, Limits};
use tributary_transport::Endpoint;

/// A node, its time, and its outputs.
pub(crate) struct Driven<N, O> {
    /// The node, which keeps its contract or panics.
    pub(crate) node: Checked<N>,
    /// What time it is.
    pub(crate) now: Time,
    /// The outputs that later inputs refer to.
    pub(crate) heard: O,
    batch: TransmitBuf,
}

/// The script's memory of the node's messages.
pub(crate) trait Ear: Outlet + Default {
    /// Datagrams since the last call.
    fn datagrams(&mut self) -> usize;
}

impl<N: Endpoint, O: Ear> Driven<N, O> {
    /// A node with datagrams of up to `mtu` bytes, at a time shortly after zero.
    pub(crate) fn new(node: N, mtu: u32) -> Self {
        let limits = Limits { mtu: mtu as usize, ..Limits::default() };
        let node = Checked::with_limits(node, limits);
        Driven { node, now: Time::from_millis(1), heard: O::default(), batch: TransmitBuf::new() }
    }
    /// A packet arrives.
    pub(crate) fn datagram(&mut self, face: FaceId, datagram: Datagram) {
        use tributary_core::Node;
        self.node.handle_datagram(self.now, face, datagram);
        self.pump();
    }
    /// Its owner makes a request.
    pub(crate) fn command(&mut self, command: impl FnOnce(&mut N, Time)) {
        self.node.command(self.now, command);
        self.pump();
    }
    /// Time passes; each timer is served when it is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        use tributary_core::Node;
        let end = self.now + time;
        while let Some((due, _)) = self.node.poll_timeout().filter(|(due, _)| *due <= end) {
            self.now = self.now.max(due);
            self.pump();
        }
        self.now = end;
        self.pump();
    }
    /// Nothing arrives for `rounds` of three seconds: it does not babble, and the number of its counters does not grow.
    pub(crate) fn leave_alone(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.heard.datagrams();
            self.pass(Duration::from_secs(3));
            // Hellos and beacons on each face, and repetitions of earlier datagrams.
            let datagrams = self.heard.datagrams();
            assert!(datagrams < 20_000, "babbles: {datagrams} datagrams in 3 s");
        }
        assert!(self.node.inner().status(self.now).counters.len() < 200, "counters are of a fixed set of reasons");
    }
    fn pump(&mut self) {
        while pump(&mut self.node, self.now, &mut self.heard, &mut self.batch).is_some_and(|due| due <= self.now) {}
    }
}
