//! Hellos: the identity of the node at a face, whether it hears this node, the round-trip time, and the largest
//! datagram that gets through.
use super::*;

/// How long a neighbour that fell silent is greeted more often.
const EAGER: Duration = Duration::from_secs(30);
/// How many hellos it then gets in the time of one, also when the neighbour's next hello is overdue: a neighbour that
/// misses this node's hellos gets an early one. So random loss takes no face down.
const EAGER_HELLOS: u32 = 4;
/// Hellos, and checks of the datagram size, each take at most this fraction (1/n) of a link.
const HELLO_PARTS: u32 = 60;
const PROBE_PARTS: u32 = 100;
/// Larger datagrams than the one that works are not tried where one would occupy the link for longer than this: hellos and
/// control messages would wait behind each.
const LARGE_AIRTIME_MAX: Duration = Duration::from_millis(400);
/// Hellos whose lengths are remembered until they are answered.
const GREETED_MAX: usize = 16;
/// How long data alone keeps a neighbour up whose hellos are queued behind it. Hellos are authentic, data need not be.
const INDIRECT_MAX: Duration = Duration::from_secs(60);

tributary_core::declared! {
    /// State of one face.
    #[derive(Default)]
    pub(super) struct Face {
        /// Whether only answers may be sent over it: an unsolicited face that has not shown that it receives them.
        pub(super) awaits_proof: bool = false,
        /// Only a node that receives hellos on this face can echo it.
        pub(super) nonce: u64 = nonce,
        /// A newcomer's answers to hellos up to here prove nothing: an answer from an earlier neighbour's time may be
        /// replayed.
        stale_us: u64 = 0,
        /// When a sender that claims the place of a neighbour that is up was last answered.
        answered_at: Option<Time> = None,
        pub(super) hello_due: Time = now,
        /// After the neighbour fell silent: until when hellos are sent more often, so that its return is noticed soon.
        eager_until: Time = Time::default(),
        pub(super) peer: Option<Peer> = None,
        pub(super) up: bool = false,
        pub(super) version_noted: bool = false,
        loop_noted: bool = false,
        /// Largest datagram received in this turn and in the one before, in bytes.
        received_max: [u32; 2] = Default::default(),
        received_turn: Time = now,
        pub(super) mtu: u32 = options.mtu.min(MTU_LADDER[0]),
        probe_attempts: u32 = 0,
        pub(super) probe_due: Option<Time> = None,
        sent_us: u64 = 0,
        pub(super) used_kbps: u32 = 0,
        pub(super) advertised: Option<Adjacency> = None,
        /// How slow the link is.
        pub(super) pace: LinkPace = LinkPace::default(),
        /// When hellos were sent, by this node's clock in microseconds, and their bytes.
        greeted: VecDeque<(u64, usize)> = VecDeque::new(),
        /// The intervals of sent and received hellos.
        ramp: Ramp = Ramp::default(),
        cadence: Cadence = Cadence::default(),
        /// The last beacons sent: by manager, its state at the time, and their interval.
        pub(super) beacons: BTreeMap<NodeId, ((u64, u32, ManagerState), Ramp)> = BTreeMap::new(),
        pub(super) options: FaceOptions = options,
    }
    pub(super) fn new(now: Time, options: FaceOptions, nonce: u64) {}
}

impl Face {
    /// The time between two hellos of the neighbour, as far as this end can measure it.
    fn expected_interval(&self, base: Duration) -> Duration {
        self.cadence.interval(self.pace.interval(base, HELLO_BYTES, HELLO_PARTS))
    }
    /// Silence after which the neighbour counts as down.
    pub(super) fn down_after(&self, hello_interval: Duration) -> Duration {
        let interval = self.expected_interval(hello_interval);
        interval * HELLO_MISSES + interval / 2
    }
    /// Silence after which a hello must have been lost.
    fn overdue_after(&self, hello_interval: Duration) -> Duration {
        self.expected_interval(hello_interval) * 3 / 2
    }
    /// The neighbour is another one, or another run of it, or was away: its intervals start again.
    fn forget_rhythm(&mut self) {
        (self.ramp, self.cadence) = (Ramp::default(), Cadence::default());
        self.beacons.clear();
    }
    /// How long a size that was received counts, and how long until it is checked again.
    fn probe_interval(&self) -> Duration {
        self.pace.interval(MTU_PROBE_INTERVAL, self.mtu as usize, PROBE_PARTS)
    }
    /// Learns how slow the link is from the answer to the hello of `echo_us`; a faster one is greeted sooner.
    fn learn_pace(&mut self, now: Time, hello_interval: Duration, echo_us: u64, round_trip: Duration) {
        let Some((_, bytes)) = self.greeted.iter().find(|(sent, _)| *sent == echo_us) else { return };
        self.pace.on_round_trip(now, *bytes, round_trip);
        let target = self.pace.interval(hello_interval, HELLO_BYTES, HELLO_PARTS);
        self.hello_due = self.ramp.shorten(target).map_or(self.hello_due, |at| at.min(self.hello_due));
    }
}

tributary_core::declared! {
    /// The node at the other end, according to its last hello.
    pub(super) struct Peer {
        pub(super) node: NodeId = hello.node,
        /// Its nonce here: a sender without it cannot act for the node.
        pub(super) nonce: u64 = hello.nonce,
        pub(super) face: FaceId = hello.face,
        pub(super) roles: Roles = hello.roles,
        pub(super) label: String = hello.label.clone(),
        /// When its last packet arrived.
        pub(super) heard: Time = now,
        /// When its last hello arrived.
        pub(super) greeted: Time = now,
        pub(super) sent_us: u64 = hello.sent_us,
        pub(super) echo_us: u64 = 0,
        pub(super) rtt: Option<Duration> = None,
    }
    fn new(now: Time, hello: &Hello) {}
}

impl Neighbour {
    /// A packet other than a hello has arrived on a face: the neighbour is alive, though its hellos may wait behind
    /// data.
    pub fn on_traffic(&mut self, now: Time, face: FaceId) {
        if let Some(state) = self.faces.get_mut(&face)
            && state.up
            && let Some(peer) = &mut state.peer
            && now.since(peer.greeted) < INDIRECT_MAX
        {
            peer.heard = now;
        }
    }
    /// Serves the timers of a face.
    pub(super) fn handle_face_timeout(&mut self, now: Time, face: FaceId) {
        let state = self.faces.get_mut(&face).expect("the key was just listed");
        let down_after = state.down_after(self.config.hello_interval);
        let is_gone = state.peer.as_ref().is_some_and(|peer| peer.heard + down_after <= now);
        if is_gone {
            self.on_down(now, face, "hellos missed");
        }
        let state = self.faces.get_mut(&face).expect("a face that goes down stays");
        state.peer.take_if(|_| is_gone);
        if state.received_turn + state.probe_interval() * 2 <= now {
            state.received_turn = now;
            state.received_max = [0, state.received_max[0]];
        }
        if state.hello_due <= now && !state.awaits_proof {
            self.send_hello(now, face, None);
        }
        if self.faces[&face].probe_due.is_some_and(|due| due <= now) {
            self.on_probe_due(now, face);
        }
    }
    /// The neighbour does not hear this node.
    fn on_one_way(&mut self, now: Time, face: FaceId) {
        if self.faces[&face].up {
            self.on_down(now, face, "the neighbour does not hear this node");
        }
        self.send_hello(now, face, None);
    }
    pub(super) fn on_hello(&mut self, now: Time, face: FaceId, hello: Hello, size: u32) -> Result<(), &'static str> {
        let own = self.config.node;
        let state = self.faces.get_mut(&face).ok_or(reason::FACES)?;
        if hello.node == own {
            if !state.loop_noted {
                state.loop_noted = true;
                let text = format!("{face} leads back to this node, or another node has the same id {own}");
                self.events.push_back(Event::Note(text));
            }
            return Err("own hello came back");
        }
        let is_same = |peer: &Peer| (peer.node, peer.nonce, peer.face) == (hello.node, hello.nonce, hello.face);
        let same = state.peer.as_ref().is_some_and(is_same);
        // Whether it hears this node: a newcomer must have heard a hello sent since the last neighbour came or left.
        let heard = hello.heard.filter(|heard| (heard.node, heard.nonce, heard.face) == (own, state.nonce, face));
        let us = heard.filter(|heard| same && state.up || heard.echo_us > state.stale_us);
        if same && state.peer.as_ref().is_some_and(|peer| hello.sent_us <= peer.sent_us) {
            // Late or a copy: it carries no news, but a large one did get through.
            state.received_max[0] = state.received_max[0].max(size);
            return Ok(());
        }
        if !same && state.up {
            // A sender at the address of a neighbour does not take the neighbour's place before it answers a hello sent
            // there: a forged hello, or a recorded one of an earlier run, takes no face down.
            if us.is_none() {
                return self.on_candidate(now, face, hello);
            }
            let why = match state.peer.as_ref().is_some_and(|peer| peer.node == hello.node) {
                true => "the neighbour restarted",
                false => "another neighbour appeared",
            };
            self.on_down(now, face, why);
        }
        let state = self.faces.get_mut(&face).expect("a face that goes down stays");
        if same && state.up && us.is_none() && hello.heard.is_some() {
            // It answers another node that sends from this address; its next hello shows whether it hears this node.
            return Ok(());
        }
        if !same {
            state.received_max = [0; 2];
            state.peer = Some(Peer::new(now, &hello));
            state.pace.forget();
            state.forget_rhythm();
        }
        let state = self.faces.get_mut(&face).expect("it was there above");
        let news = size > state.received_max[0].max(state.received_max[1]);
        state.received_max[0] = state.received_max[0].max(size);
        let peer = state.peer.as_mut().expect("it was made above if it was not there");
        (peer.heard, peer.greeted) = (now, now);
        state.cadence.on_message(now);
        peer.sent_us = hello.sent_us;
        peer.roles = hello.roles;
        peer.label = hello.label;
        match us {
            Some(heard) => {
                if heard.echo_us > peer.echo_us {
                    peer.echo_us = heard.echo_us;
                    let held = heard.echo_us.saturating_add(u64::from(heard.age_us));
                    let sample = Duration::from_micros(micros(now).saturating_sub(held));
                    peer.rtt = Some(peer.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
                    state.learn_pace(now, self.config.hello_interval, heard.echo_us, sample);
                }
                let was_up = core::mem::replace(&mut state.up, true);
                state.awaits_proof = false;
                if !was_up {
                    // Before anything else: where an earlier run of this node still counts as up, messages before the
                    // proof would be attributed to that run.
                    self.send_hello(now, face, None);
                    self.on_up(now, face);
                }
                self.on_proof(now, face, heard.received_bytes_max);
                let Some(state) = self.faces.get(&face) else { return Ok(()) };
                let waits =
                    Duration::from_micros(heard.age_us.into()) >= state.overdue_after(self.config.hello_interval);
                if was_up && (news || waits) {
                    self.send_hello(now, face, None);
                }
                self.on_metric(now, face);
            }
            None => {
                // It does not hear us, or not yet.
                if state.up || !same || news {
                    self.on_one_way(now, face);
                }
            }
        }
        Ok(())
    }
    /// A node other than the neighbour that is up sends a hello: it gets an answer with which it can prove its
    /// presence.
    fn on_candidate(&mut self, now: Time, face: FaceId, hello: Hello) -> Result<(), &'static str> {
        let pause = self.config.hello_interval / EAGER_HELLOS;
        let Some(state) = self.faces.get_mut(&face) else { return Err(reason::FACES) };
        if state.answered_at.is_some_and(|answered| now.since(answered) < pause) {
            return Err(reason::UNPROVEN);
        }
        state.answered_at = Some(now);
        let (due, neighbour) = (state.hello_due, state.peer.replace(Peer::new(now, &hello)));
        self.send_hello(now, face, None);
        if let Some(state) = self.faces.get_mut(&face) {
            (state.hello_due, state.peer) = (due, neighbour);
        }
        Err(reason::UNPROVEN)
    }
    fn on_up(&mut self, now: Time, face: FaceId) {
        let state = self.faces.get_mut(&face).expect("the caller has it");
        let node = state.peer.as_ref().map_or(NodeId::NONE, |peer| peer.node);
        state.mtu = MTU_LADDER[0].min(state.options.mtu);
        state.stale_us = state.sent_us;
        state.probe_attempts = 0;
        state.probe_due = Some(now);
        self.face_changes.push_back((face, true));
        self.events.push_back(Event::Neighbour { face, node, up: true });
        self.schedule_link_state(now + LINK_STATE_DEBOUNCE);
        // The newcomer need not wait for the next beacons.
        let beacons: Vec<_> = self.managers.values().filter_map(Manager::latest).collect();
        for (beacon, arrived) in beacons {
            self.send_beacon(now, face, &beacon, arrived);
        }
        self.on_probe_due(now, face);
    }
    pub(super) fn on_down(&mut self, now: Time, face: FaceId, why: &str) {
        let Some(state) = self.faces.get_mut(&face) else { return };
        if !core::mem::replace(&mut state.up, false) {
            return;
        }
        state.probe_due = None;
        state.advertised = None;
        state.stale_us = state.sent_us;
        state.eager_until = now + EAGER;
        state.forget_rhythm();
        let node = state.peer.as_ref().map_or(NodeId::NONE, |peer| peer.node);
        self.face_changes.push_back((face, false));
        self.events.push_back(Event::Neighbour { face, node, up: false });
        self.events.push_back(Event::Note(format!("{face} is down: {why}")));
        self.managers.values_mut().for_each(|manager| manager.forget_way(face));
        self.schedule_link_state(now + LINK_STATE_DEBOUNCE);
    }
    /// The other side reports the size of the largest datagram that it received.
    fn on_proof(&mut self, now: Time, face: FaceId, received: u32) {
        let ladder = self.ladder(face);
        let Some(state) = self.faces.get_mut(&face) else { return };
        let base = ladder.first().copied().unwrap_or(state.mtu);
        let mtu = ladder.iter().copied().filter(|size| *size <= received).max().unwrap_or(base);
        if mtu == state.mtu {
            return;
        }
        state.mtu = mtu;
        // A larger size may work; if the size has shrunk, the other side may only have lost its record.
        state.probe_attempts = 0;
        self.on_probe_due(now, face);
        self.schedule_link_state(now + LINK_STATE_DEBOUNCE);
    }
    pub(super) fn on_probe_due(&mut self, now: Time, face: FaceId) {
        let ladder = self.ladder(face);
        let Some(state) = self.faces.get_mut(&face) else { return };
        let current = state.mtu;
        let is_bearable = |size: &u32| state.pace.airtime(*size as usize) <= LARGE_AIRTIME_MAX;
        let next = ladder.into_iter().find(|size| *size > current).filter(is_bearable);
        state.probe_attempts += 1;
        let extra = state.probe_attempts.saturating_sub(MTU_PROBES);
        let check_current = state.probe_attempts == 1 || extra > 0;
        // Where packets are lost at random some tries fail: the pauses between further ones double.
        let pause = self.config.hello_interval * (1 << extra.min(16));
        let most = state.probe_interval();
        // The first tries follow each other; the next one must not overtake an answer in transit.
        let bytes = next.unwrap_or(current) as usize + if check_current { current as usize } else { 0 };
        let parts = if extra == 0 { 3 } else { PROBE_PARTS };
        let pause = if next.is_none() { most } else { state.pace.interval(pause, bytes, parts) };
        state.probe_due = Some(now + pause.min(most));
        if check_current {
            self.send_hello(now, face, Some(current));
        }
        if let Some(size) = next {
            self.send_hello(now, face, Some(size));
        }
    }
    fn ladder(&self, face: FaceId) -> Vec<u32> {
        let limit = self.faces.get(&face).map_or(0, |state| state.options.mtu);
        let sizes = MTU_LADDER.iter().copied().filter(|size| *size < limit);
        sizes.chain([limit]).collect()
    }
    pub(super) fn send_hello(&mut self, now: Time, face: FaceId, size: Option<u32>) {
        let Some(state) = self.faces.get_mut(&face) else { return };
        let overdue_after = state.overdue_after(self.config.hello_interval);
        let mut hello = Hello {
            node: self.config.node,
            nonce: state.nonce,
            face,
            roles: self.config.roles,
            label: self.config.label.clone(),
            // Two hellos of one instant must not look like copies of one.
            sent_us: micros(now).max(state.sent_us + 1),
            heard: state.peer.as_ref().map(|peer| Heard {
                node: peer.node,
                nonce: peer.nonce,
                face: peer.face,
                echo_us: peer.sent_us,
                age_us: u32::try_from(now.since(peer.greeted).as_micros()).unwrap_or(u32::MAX),
                received_bytes_max: state.received_max[0].max(state.received_max[1]),
            }),
            padding_bytes: 0,
        };
        state.sent_us = hello.sent_us;
        let header = Header { packet_type: PacketType::Hello, flags: 0, ttl: 1, fid: Fid::NONE };
        let mut packet = Vec::new();
        header.encode(&mut packet);
        let start = packet.len();
        hello.encode(&mut packet);
        if let Some(size) = size {
            let bare = packet.len() + MAC_BYTES;
            hello.padding_bytes = u16::try_from((size as usize).saturating_sub(bare)).unwrap_or(u16::MAX);
            packet.truncate(start);
            hello.encode(&mut packet);
        } else {
            let is_overdue = state.peer.as_ref().is_some_and(|peer| peer.heard + overdue_after <= now);
            let is_eager = if state.up { is_overdue } else { now < state.eager_until };
            let base = self.config.hello_interval;
            let target = state.pace.interval(base, packet.len() + MAC_BYTES, HELLO_PARTS);
            let interval = state.ramp.on_sent(now, base, target);
            state.hello_due = now + interval / if is_eager { EAGER_HELLOS } else { 1 };
        }
        state.greeted.push_back((hello.sent_us, packet.len() + MAC_BYTES));
        if state.greeted.len() > GREETED_MAX {
            state.greeted.pop_front();
        }
        seal(&OPEN_KEY, &mut packet, start);
        self.packets.push_back((face, packet));
    }
}

fn micros(now: Time) -> u64 {
    now.as_nanos() / 1000
}
