//! Two ends of a hop over real link objects, in virtual time.
use alloc::{collections::BTreeMap, vec, vec::Vec};

use bytes::Bytes;
use proptest::prelude::*;
use tributary_content::ObjectId;
use tributary_core::{
    Datagram, Duration, FaceId, Random, Rate, Time, TransmitBuf,
    link::{
        Link, LinkChange, LinkConfig, LinkState, Loss, QueueDiscipline, Reorder, Script,
        queue::threshold::ThresholdConfig,
    },
};

use super::{buffer::cut, *};
use crate::{
    ids::{Guid, HopId, NetworkAddress},
    wire::{Cack, CackState, ChunkHeader, ChunkKind, Class, Csyn, DataHeader, DataTag, PacketType, Reliability},
};

const MTU: u32 = 1_472;

/// A sender and a receiver, one wire each way.
struct Hop {
    now: Time,
    out: Outgoing,
    out_buffer: Buffer,
    incoming: Incoming,
    in_buffer: Buffer,
    forth: Link,
    back: Link,
    /// Chunks that arrived, and whether the receiver consumes them at once.
    received: BTreeMap<u32, Vec<Bytes>>,
    takes: bool,
    waiting: Vec<Slot>,
    /// CSYNs that arrived, separately or in data packets.
    csyns: u32,
}

impl Hop {
    fn new(config: LinkConfig, hop: HopConfig, room: u32, seed: u64) -> Hop {
        let mut out = Outgoing::new(hop.clone(), MTU, 7);
        out.set_first_window(room);
        Hop {
            now: Time::from_millis(1_000),
            out,
            out_buffer: Buffer::new(1 << 20, 1_000),
            incoming: Incoming::new(FaceId(1)),
            in_buffer: Buffer::new(room, 1_000),
            forth: Link::new(config.clone(), Random::new(seed, 1)),
            back: Link::new(config, Random::new(seed, 2)),
            received: BTreeMap::new(),
            takes: true,
            waiting: Vec::new(),
            csyns: 0,
        }
    }
    /// Queues `count` chunks of `bytes` bytes each.
    fn put_all(&mut self, count: u32, bytes: usize) -> Vec<Slot> {
        (0..count).map(|number| self.put(number, vec![7; bytes].into())).collect()
    }
    fn put(&mut self, number: u32, payload: Bytes) -> Slot {
        let tag = DataTag {
            object: ObjectId([1; 16]),
            transfer: 1,
            token: crate::ids::Token(7),
            number,
            count: 1_000_000,
            chunk_bytes: 1 << 20,
            reliability: Reliability::Nack,
            window: 0,
            window_chunks: 0,
        };
        let mut header = ChunkHeader::new(ChunkKind::Data(tag), Guid([1; 20]), Guid([2; 20]), NetworkAddress(1));
        header.payload_bytes = payload.len() as u32;
        self.out_buffer.put(header, cut(&payload.into(), 1_300, 1_400), Origin::Local)
    }
    fn pump_sender(&mut self, queue: &mut Vec<Slot>) {
        loop {
            if let Some(slot) = queue.first().copied() {
                let count = self.out_buffer.chunk(slot).expect("it waits in the buffer").count();
                if self.out.can_begin(self.now, &Guid([2; 20]), count.into()) == Room::Open {
                    queue.remove(0);
                    self.out.begin(self.now, slot, &mut self.out_buffer);
                }
            }
            let mut batch = TransmitBuf::new();
            self.out.poll_packets(self.now, &self.out_buffer, &mut batch);
            if batch.is_empty() {
                break;
            }
            assert!(batch.len() <= TransmitBuf::DATAGRAMS_MAX);
            for datagram in batch.drain() {
                assert!(datagram.len() <= MTU as usize);
                self.forth.enqueue(self.now, datagram);
            }
        }
        while let Some(slot) = self.out.done.pop_front() {
            self.out_buffer.remove(slot);
        }
    }
    fn deliver(&mut self, datagram: &Datagram) {
        let bytes = datagram.to_vec();
        match PacketType::of(bytes[0]) {
            Ok(PacketType::Data) => {
                let header = DataHeader::decode(&bytes).expect("it was made here");
                self.csyns += u32::from(header.csyn.is_some());
                let mut rest = Datagram::from(bytes).strip(DataHeader::BYTES);
                if datagram.is_marked() {
                    rest.set_marked();
                }
                let buffer = &mut self.in_buffer;
                match self.incoming.handle_data(self.now, &header, rest, buffer) {
                    Ok(Arrived::Complete(slot)) if self.takes => self.take(slot),
                    Ok(Arrived::Complete(slot)) => self.waiting.push(slot),
                    Ok(Arrived::Spoilt(slot)) => drop(self.in_buffer.remove(slot)),
                    Ok(Arrived::Fragment(..) | Arrived::Nothing) | Err(_) => {}
                }
            }
            Ok(PacketType::Csyn) => {
                self.csyns += 1;
                self.incoming.handle_csyn(self.now, &Csyn::decode(&bytes).expect("it was made here"))
            }
            other => panic!("{other:?}"),
        }
    }
    fn take(&mut self, slot: Slot) {
        let chunk = self.in_buffer.remove(slot).expect("it is complete");
        let number = chunk.header.as_ref().and_then(|header| header.tag()).expect("data").number;
        self.received.entry(number).or_default().push(chunk.payload().to_bytes());
        let Origin::Face(_, hop) = chunk.origin else { panic!("it came over the wire") };
        self.incoming.on_taken(hop);
    }
    /// Runs until `until` holds or the time is over; true if it held.
    fn run(&mut self, queue: &mut Vec<Slot>, limit: Time, until: impl Fn(&Hop) -> bool) -> bool {
        while !until(self) {
            self.pump_sender(queue);
            while let Some(cack) = self.incoming.poll_cack(self.in_buffer.free(), &self.in_buffer) {
                let mut bytes = Vec::new();
                cack.encode(&mut bytes);
                self.back.enqueue(self.now, Datagram::from(bytes));
            }
            let next = [self.forth.poll_timeout(), self.back.poll_timeout(), self.out.poll_timeout()];
            let Some(next) = next.into_iter().flatten().min() else { return until(self) };
            if next > limit {
                self.now = limit;
                return until(self);
            }
            self.now = self.now.max(next);
            while let Some(datagram) = self.forth.poll_deliver(self.now) {
                self.deliver(&datagram);
            }
            while let Some(datagram) = self.back.poll_deliver(self.now) {
                let cack = Cack::decode(&datagram.to_vec()).expect("it was made here");
                self.out.handle_cack(self.now, &cack, &mut self.out_buffer);
            }
        }
        true
    }
}

/// The longest queue of a hop whose link marks beyond 30,000 bytes, in the second half of the transfer.
fn queue_max(ecn: Ecn, marks: bool) -> u64 {
    let mut config = LinkConfig::new(Rate::from_mbps(25), Duration::from_millis(20));
    config.queue_bytes = 4 << 20;
    if marks {
        config.discipline = QueueDiscipline::Threshold(ThresholdConfig::DEFAULT);
    }
    let mut hop = Hop::new(config, HopConfig { ecn, ..HopConfig::default() }, 6_000, 5);
    let mut queue = hop.put_all(60, 400_000);
    let longest = core::cell::Cell::new(0);
    let is_half = |hop: &Hop| hop.received.len() >= 30;
    assert!(hop.run(&mut queue, Time::from_millis(60_000), is_half));
    let is_done = |hop: &Hop| {
        longest.set(longest.get().max(hop.forth.stats().queue_bytes));
        hop.received.len() == 60
    };
    assert!(hop.run(&mut queue, Time::from_millis(60_000), is_done));
    longest.get()
}
#[test]
fn a_neighbour_counts_marks_and_the_hop_keeps_the_queue_short() {
    let (unmarked, classic, scalable) =
        (queue_max(Ecn::Classic, false), queue_max(Ecn::Classic, true), queue_max(Ecn::Scalable, true));
    assert!(classic * 3 < unmarked * 2 && scalable * 3 < unmarked * 2, "{unmarked}, {classic}, {scalable}");
}

/// Goodput in Mbit/s of `chunks` chunks over 25 Mbit/s.
fn goodput(chunks: u32, bytes: usize, rtt_ms: u64, loss: f64) -> f64 {
    let mut config = LinkConfig::new(Rate::from_mbps(25), Duration::from_millis(rtt_ms) / 2);
    config.loss = if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None };
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let payload: Bytes = vec![7; bytes].into();
    let mut queue: Vec<Slot> = (0..chunks).map(|number| hop.put(number, payload.clone())).collect();
    let start = hop.now;
    assert!(hop.run(&mut queue, start + Duration::from_secs(600), |hop| hop.received.len() as u32 == chunks));
    assert!(hop.received.values().all(|copies| copies.len() == 1 && copies[0] == payload));
    std::println!("rtt {rtt_ms} loss {loss}: {:?} in {:?}", hop.out.stats, hop.now.since(start));
    f64::from(chunks) * bytes as f64 * 8.0 / 1e6 / hop.now.since(start).as_secs_f64()
}

#[test]
fn a_lossy_hop_is_filled_to_its_capacity_times_one_minus_loss() {
    for rtt in [10, 50, 100] {
        for (chunks, bytes) in [(60, 1 << 20), (400, 150_000)] {
            let (clean, lossy) = (goodput(chunks, bytes, rtt, 0.0), goodput(chunks, bytes, rtt, 0.01));
            let capacity = 25.0 * 1_440.0 / 1_500.0;
            std::println!("{rtt} ms, chunks of {bytes}: {clean:.2} and {lossy:.2} of {capacity:.2} Mbit/s");
            assert!(clean >= capacity * 0.97, "{clean} of {capacity}");
            assert!(lossy >= clean * 0.97, "{lossy} of {clean}");
        }
    }
}

#[test]
fn a_hop_over_which_next_to_nothing_went_is_filled_at_once() {
    let mut config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(20));
    config.jitter = Duration::from_millis(10);
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    // Little is sent for longer than a round trip is remembered, and never again does one take as little as the first.
    for number in 0..15 {
        let mut queue = vec![hop.put(number, vec![7; 100].into())];
        let until = hop.now + Duration::from_secs(1);
        hop.run(&mut queue, until, |_| false);
        hop.now = until;
        hop.forth.apply(hop.now, LinkChange::Delay(Duration::from_millis(30)));
        hop.back.apply(hop.now, LinkChange::Delay(Duration::from_millis(30)));
    }
    let start = hop.now;
    let mut queue = vec![hop.put(100, vec![7; 1_000_000].into())];
    assert!(hop.run(&mut queue, start + Duration::from_secs(10), |hop| hop.received.contains_key(&100)));
    let took = hop.now.since(start);
    assert!(took < Duration::from_millis(1_100), "{took:?} for what the link carries in 833 ms");
}

#[test]
fn a_link_whose_rate_rises_tenfold_and_falls_within_moments_is_kept_full() {
    let rate = |at: u64, mbps: u64| (Duration::from_millis(at), LinkChange::Rate(Some(Rate::from_mbps(mbps))));
    let steps = [rate(0, 2), rate(300, 20), rate(450, 5), rate(800, 1), rate(1_100, 20), rate(1_400, 8)];
    let mut config = LinkConfig::new(Rate::from_mbps(2), Duration::from_millis(20));
    config.script = Some(Script::new(steps, Some(Duration::from_millis(2_000))));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = hop.put_all(40, 500_000);
    let (start, mean_mbps) = (hop.now, (0.6 + 3.0 + 1.75 + 0.3 + 6.0 + 4.8) / 2.0);
    let bytes = |hop: &Hop| (hop.forth.stats().out_bytes + 28 * hop.forth.stats().out_packets) as f64;
    assert!(!hop.run(&mut queue, start + Duration::from_secs(10), |hop| hop.received.len() == 40));
    let used = bytes(&hop) * 8.0 / 1e6 / 10.0 / mean_mbps;
    assert!(used > 0.97, "{used:.3} of what the link carries");
}

#[test]
fn a_window_that_closes_behind_what_was_sent_waits_for_no_timeout() {
    let mut config = LinkConfig::new(Rate::from_mbps(3), Duration::from_millis(20));
    config.jitter = Duration::from_millis(80);
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = hop.put_all(20, 500_000);
    let (mut sent, mut sent_at, mut pause) = (0, hop.now, Duration::ZERO);
    // Long enough for two probes of the round trip, in which the window is a few packets.
    for step in 0..2_200 {
        if step == 300 {
            hop.forth.apply(hop.now, LinkChange::Delay(Duration::from_millis(60)));
        }
        let until = hop.now + Duration::from_millis(10);
        hop.run(&mut queue, until, |_| false);
        if hop.out.stats.packets > sent {
            (pause, sent, sent_at) = (pause.max(hop.now.since(sent_at)), hop.out.stats.packets, hop.now);
        }
    }
    assert!(!queue.is_empty() && pause < Duration::from_millis(400), "nothing was sent for {pause:?}");
}

#[test]
fn retransmits_only_what_is_missing() {
    let mut config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    config.loss = Loss::Bernoulli(0.05);
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = hop.put_all(20, 500_000);
    let limit = hop.now + Duration::from_secs(60);
    assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 20));
    let stats = hop.forth.stats();
    let lost = stats.lost_packets;
    assert!(hop.out.stats.repeated <= lost, "{} repeated, {lost} packets lost", hop.out.stats.repeated);
}

#[test]
fn a_receiver_without_room_blocks_the_sender_and_an_open_window_frees_it() {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 800, 5);
    hop.takes = false;
    let mut queue = hop.put_all(6, 500_000);
    let limit = hop.now + Duration::from_secs(5);
    hop.run(&mut queue, limit, |_| false);
    assert_eq!((hop.waiting.len(), hop.received.len()), (2, 0), "358 packets each, 800 fit");
    assert!(hop.out.blocked_since.is_some() && hop.in_buffer.peak <= 800);
    let packets = hop.out.stats.packets;
    let limit = hop.now + Duration::from_secs(5);
    hop.run(&mut queue, limit, |_| false);
    assert_eq!(hop.out.stats.packets, packets, "nothing is sent into a closed window");
    hop.takes = true;
    for slot in core::mem::take(&mut hop.waiting) {
        hop.take(slot);
    }
    hop.incoming.announce_window();
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 6));
}

#[test]
fn the_timeout_of_a_hop_follows_its_round_trip_time() {
    for rtt in [10, 100, 400, 1_500].map(Duration::from_millis) {
        let mut hop = Hop::new(LinkConfig::new(Rate::from_mbps(100), rtt / 2), HopConfig::default(), 6_000, 5);
        let limit = hop.now + Duration::from_secs(600);
        for number in 0..30 {
            let mut queue = Vec::from([hop.put(number, vec![7; 1_000].into())]);
            assert!(hop.run(&mut queue, limit, |hop| hop.out.stats.chunks > u64::from(number)));
        }
        // The first answer may exceed the initial timeout, which has no sample yet; later ones do not.
        let before = hop.out.stats.timeouts;
        assert!(before <= u64::from(rtt > outgoing::RTO_INITIAL) * 3, "{rtt:?}: {before} in vain");
        hop.forth.apply(hop.now, LinkChange::State(LinkState::Down));
        let (start, mut queue) = (hop.now, Vec::from([hop.put(30, vec![7; 1_000].into())]));
        let mut wait_for = |timeouts| {
            while hop.out.stats.timeouts < timeouts {
                let step = hop.now + Duration::from_millis(1);
                hop.run(&mut queue, step, |_| false);
            }
            hop.now.since(start)
        };
        let (first, second) = (wait_for(before + 1), wait_for(before + 2));
        assert!(first > rtt && first <= rtt * 2 + outgoing::RTO_MIN, "{rtt:?}: {first:?}");
        let twice = (first * 2).min(outgoing::RTO_MAX.max(first));
        assert!((second - first).abs_diff(twice) <= first / 4, "{rtt:?}: {first:?}, {second:?}");
        hop.forth.apply(hop.now, LinkChange::State(LinkState::Up));
        assert!(hop.run(&mut queue, limit, |hop| hop.received.contains_key(&30)));
    }
}

#[test]
fn packets_are_equally_long_whether_they_ask_or_not() {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 400, 5);
    let slot = hop.put(0, vec![7; 100_000].into());
    hop.out.begin(hop.now, slot, &mut hop.out_buffer);
    let mut batch = TransmitBuf::new();
    hop.out.poll_packets(hop.now, &hop.out_buffer, &mut batch);
    let packets: Vec<Datagram> = batch.drain().skip(1).collect();
    let asks = |packet: &Datagram| DataHeader::decode(packet.head()).is_ok_and(|header| header.csyn.is_some());
    assert!(packets.iter().any(asks) && !packets.iter().all(asks));
    assert!(packets.iter().all(|packet| packet.len() == packets[0].len()), "one system call does not send them");
}

#[test]
fn chunks_that_are_held_are_asked_about_now_and_then() {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(1));
    let mut hop = Hop::new(config, HopConfig::default(), 400, 5);
    hop.takes = false;
    let mut queue = hop.put_all(3, 50_000);
    let limit = hop.now + Duration::from_secs(1);
    hop.run(&mut queue, limit, |hop| hop.waiting.len() == 3);
    let before = hop.back.stats().out_packets;
    let limit = hop.now + Duration::from_secs(2);
    hop.run(&mut queue, limit, |_| false);
    let answers = hop.back.stats().out_packets - before;
    assert!((6..100).contains(&answers), "{answers} answers in 2 s");
}

#[test]
fn questions_that_come_together_have_one_answer() {
    let mut incoming = Incoming::new(FaceId(1));
    let buffer = Buffer::new(400, 400);
    for (hop, number) in [(1, 1), (1, 2), (2, 3), (1, 4)] {
        incoming.handle_csyn(Time::ZERO, &Csyn { count: 9, hop: HopId(hop), number });
    }
    let answers = core::iter::from_fn(|| incoming.poll_cack(400, &buffer));
    assert!(answers.map(|cack| (cack.hop.0, cack.number)).eq([(1, 2), (2, 3), (1, 4)]));
}

#[test]
fn a_refused_chunk_goes_another_way_only_when_all_of_it_is_here() {
    let mut out = Outgoing::new(HopConfig::default(), MTU, 7);
    out.set_first_window(100);
    let mut buffer = Buffer::new(100, 100);
    let slot = buffer.admit(Class::Bulk, 2, Origin::Local).expect("there is room");
    let header =
        ChunkHeader::new(ChunkKind::Transport(crate::ids::Token(7)), Guid([1; 20]), Guid([2; 20]), NetworkAddress(1));
    buffer.fill(slot, 0, Bytes::from_static(b"begins"));
    buffer.set_header(slot, header);
    out.begin(Time::ZERO, slot, &mut buffer);
    let refused = Cack {
        state: CackState::Refused,
        hop: HopId(7),
        number: 0,
        window: 0,
        destination_window: Cack::UNKNOWN,
        duplicates: 0,
        marked: 0,
        first_missing: 0,
        bitmap: Vec::new(),
    };
    out.handle_cack(Time::ZERO, &refused, &mut buffer);
    assert_eq!(out.take_refused(&mut buffer), []);
    buffer.fill(slot, 1, Bytes::from_static(b"ends"));
    assert_eq!(out.take_refused(&mut buffer), [slot]);
}

#[test]
fn an_answer_to_what_was_never_asked_changes_no_window() {
    let mut out = Outgoing::new(HopConfig::default(), MTU, 7);
    out.set_first_window(100);
    let unsolicited = Cack {
        state: CackState::Window,
        hop: HopId(0),
        number: 1_000,
        window: 0,
        destination_window: Cack::UNKNOWN,
        duplicates: 0,
        marked: 0,
        first_missing: 0,
        bitmap: Vec::new(),
    };
    out.handle_cack(Time::ZERO, &unsolicited, &mut Buffer::new(100, 100));
    assert_eq!(out.can_begin(Time::ZERO, &Guid([2; 20]), 100), Room::Open);
}

#[test]
fn a_lost_announcement_of_the_window_is_asked_for() {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 400, 5);
    hop.takes = false;
    let mut queue = hop.put_all(2, 500_000);
    let limit = hop.now + Duration::from_secs(1);
    hop.run(&mut queue, limit, |_| false);
    hop.takes = true;
    for slot in core::mem::take(&mut hop.waiting) {
        hop.take(slot);
    }
    let limit = hop.now + Duration::from_secs(1);
    assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 2), "nobody announced anything");
}

/// A chunk starts although both windows are closed; `pause` after its refusal there is space, which no one announces.
fn refused_chunk_goes_on_after(pause: Duration) {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 400, 5);
    let others = hop.in_buffer.admit(Class::Bulk, 350, Origin::Local).expect("there is room");
    let mut queue = vec![hop.put(0, vec![7; 10_000].into())];
    let limit = hop.now + Duration::from_secs(1);
    assert!(hop.run(&mut queue, limit, |hop| hop.out.stats.chunks == 1));
    let second = hop.put(1, vec![7; 500_000].into());
    hop.out.begin(hop.now, second, &mut hop.out_buffer);
    let limit = hop.now + Duration::from_secs(1);
    assert!(hop.run(&mut queue, limit, |hop| hop.out.stats.refused > 0));
    let limit = hop.now + pause;
    hop.run(&mut queue, limit, |_| false);
    hop.in_buffer.remove(others);
    let limit = hop.now + Duration::from_secs(2);
    assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 2), "it waits for room that there is");
}

#[test]
fn a_refused_chunk_asks_for_its_destinations_window() {
    refused_chunk_goes_on_after(Duration::from_secs(1));
}

#[test]
fn a_refused_chunk_goes_on_when_room_is_found_for_its_later_packets() {
    refused_chunk_goes_on_after(Duration::ZERO);
}

#[test]
fn an_interrupted_chunk_goes_on_where_it_was() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
    let cut = hop.now + Duration::from_millis(600);
    hop.run(&mut queue, cut, |_| false);
    hop.forth.apply(hop.now, LinkChange::State(LinkState::Down));
    let sent = hop.out.stats.packets;
    let again = hop.out.suspend(hop.now, &mut hop.out_buffer);
    assert_eq!(again.len(), 1);
    hop.now += Duration::from_secs(30);
    hop.forth.apply(hop.now, LinkChange::State(LinkState::Up));
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut again.clone(), limit, |hop| hop.received.len() == 1));
    let all = hop.out.stats.packets;
    assert!(all < 716 + 60, "{sent} packets before the cut, {all} in all: only what was under way is sent again");
}

#[test]
fn what_a_link_held_back_while_the_neighbour_was_taken_for_gone_is_not_sent_again() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(50));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
    let cut = hop.now + Duration::from_millis(600);
    hop.run(&mut queue, cut, |_| false);
    let again = hop.out.suspend(hop.now, &mut hop.out_buffer);
    // The packets in flight arrive now.
    hop.now += Duration::from_secs(3);
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut again.clone(), limit, |hop| hop.received.len() == 1));
    assert_eq!((hop.out.stats.packets, hop.out.stats.repeated), (715, 0));
}

#[test]
fn a_resumed_chunk_of_which_nothing_is_left_is_sent_whole() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
    let cut = hop.now + Duration::from_millis(600);
    hop.run(&mut queue, cut, |_| false);
    let again = hop.out.suspend(hop.now, &mut hop.out_buffer);
    // The neighbour's state has expired.
    hop.incoming = Incoming::new(FaceId(1));
    hop.in_buffer = Buffer::new(6_000, 1_000);
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut again.clone(), limit, |hop| hop.received.len() == 1));
    assert_eq!(hop.received[&0], [Bytes::from(vec![7; 1_000_000])]);
}

#[test]
fn a_damaged_answer_that_says_that_all_is_there_holds_up_nothing() {
    for after in [300, 500, 700, 790, 800] {
        let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
        let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
        let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
        let until = hop.now + Duration::from_millis(after);
        hop.run(&mut queue, until, |_| false);
        let damaged = Cack {
            state: CackState::Partial,
            hop: HopId(7),
            number: 0,
            window: 6_000,
            destination_window: Cack::UNKNOWN,
            duplicates: 0,
            marked: 0,
            first_missing: 60_000,
            bitmap: Vec::new(),
        };
        hop.out.handle_cack(hop.now, &damaged, &mut hop.out_buffer);
        let limit = hop.now + Duration::from_secs(5);
        assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 1), "after {after} ms");
        assert_eq!(hop.received[&0], [Bytes::from(vec![7; 1_000_000])]);
    }
}

#[test]
fn the_papers_form_asks_once_per_chunk() {
    // CSYNs for ten chunks of 72 packets, one behind the other.
    let csyns = |csyn_packets, window_initial_packets| {
        let config = LinkConfig::new(Rate::from_mbps(25), Duration::from_millis(25));
        let hop = HopConfig { csyn_packets, window_initial_packets, ..HopConfig::default() };
        let mut hop = Hop::new(config, hop, 6_000, 5);
        for number in 0..10 {
            let mut queue = vec![hop.put(number, vec![7; 100_000].into())];
            let limit = hop.now + Duration::from_secs(60);
            assert!(
                hop.run(&mut queue, limit, |hop| hop.received.len() as u32 == number + 1 && hop.out.sending() == 0)
            );
        }
        hop.csyns
    };
    assert_eq!(csyns(u16::MAX, 2_000), 10);
    assert!(csyns(u16::MAX, 32) > 10, "a window that is full is asked about too");
    assert!(csyns(16, 2_000) >= 50, "the default");
}

#[test]
fn control_chunks_pass_data_and_a_closed_window() {
    let config = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 10, 5);
    let mut queue = vec![hop.put(0, vec![7; 500_000].into())];
    let mut header =
        ChunkHeader::new(ChunkKind::Transport(crate::ids::Token(7)), Guid([1; 20]), Guid([2; 20]), NetworkAddress(1));
    header.payload_bytes = 5;
    let control = hop.out_buffer.put(header, vec![Bytes::from_static(b"hello")], Origin::Local);
    assert_eq!(hop.out_buffer.chunk(control).map(|chunk| chunk.class), Some(Class::Control));
    hop.out.begin(hop.now, control, &mut hop.out_buffer);
    hop.takes = false;
    let limit = hop.now + Duration::from_millis(200);
    assert!(hop.run(&mut queue, limit, |hop| hop.waiting.len() == 1));
}

#[test]
fn control_chunks_wait_for_answers_too_and_all_arrive_over_a_narrow_link() {
    let config = LinkConfig::new(Rate::from_bits_per_second(500_000), Duration::from_millis(20));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    for number in 0..900 {
        let mut header = ChunkHeader::new(
            ChunkKind::Transport(crate::ids::Token(number)),
            Guid([1; 20]),
            Guid([2; 20]),
            NetworkAddress(1),
        );
        header.payload_bytes = 200;
        let slot = hop.out_buffer.put(header, vec![vec![7; 200].into()], Origin::Local);
        hop.out.begin(hop.now, slot, &mut hop.out_buffer);
    }
    hop.takes = false;
    hop.pump_sender(&mut Vec::new());
    let at_once = hop.out.stats.packets;
    assert!(at_once < 600, "{at_once} packets before any answer");
    let limit = hop.now + Duration::from_secs(30);
    assert!(hop.run(&mut Vec::new(), limit, |hop| hop.waiting.len() == 900), "{:?}", hop.out.stats);
    let stats = hop.out.stats;
    assert!(stats.repeated < 200, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn everything_arrives_once_and_whole_under_loss_reordering_and_duplication(
        seed: u64, loss in 0.0..0.3f64, reorder in 0.0..0.2f64, duplicate in 0.0..0.1f64,
        sizes in prop::collection::vec(0usize..60_000, 1..12), room in 50u32..400,
    ) {
        let mut config = LinkConfig::new(Rate::from_mbps(20), Duration::from_millis(10));
        config.loss = Loss::Bernoulli(loss);
        config.reorder = Reorder { probability: reorder, delay: Duration::from_millis(15) };
        config.duplicate = duplicate;
        let mut hop = Hop::new(config, HopConfig::default(), room, seed);
        let payload = |number: usize, size: usize| Bytes::from(vec![number as u8; size]);
        let mut queue: Vec<Slot> =
            sizes.iter().enumerate().map(|(number, size)| hop.put(number as u32, payload(number, *size))).collect();
        let limit = hop.now + Duration::from_secs(600);
        prop_assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == sizes.len()), "{:?}", hop.out.stats);
        for (number, size) in sizes.iter().enumerate() {
            prop_assert_eq!(&hop.received[&(number as u32)], &vec![payload(number, *size)]);
        }
        prop_assert!(hop.in_buffer.peak <= room && hop.in_buffer.used() == 0);
    }
}

#[test]
fn a_chunk_that_the_neighbour_has_given_up_is_sent_anew() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
    let cut = hop.now + Duration::from_millis(600);
    hop.run(&mut queue, cut, |_| false);
    let patience = Duration::from_secs(10);
    assert!(hop.incoming.expire(hop.now + Duration::from_secs(9), patience, patience, &hop.in_buffer).is_empty());
    let given_up = hop.incoming.expire(hop.now + Duration::from_secs(11), patience, patience, &hop.in_buffer);
    assert_eq!(given_up.len(), 1, "a neighbour that is there would have asked about it");
    given_up.into_iter().for_each(|slot| drop(hop.in_buffer.remove(slot)));
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut queue, limit, |hop| hop.received.len() == 1));
    assert_eq!(hop.received[&0][0].len(), 1_000_000);
}

#[test]
fn what_a_neighbour_that_was_away_had_begun_is_kept_until_its_turn_comes() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let mut queue = vec![hop.put(0, vec![7; 1_000_000].into())];
    let cut = hop.now + Duration::from_millis(600);
    hop.run(&mut queue, cut, |_| false);
    let (moving, awaited) = (Duration::from_secs(10), Duration::from_secs(60));
    let back = hop.now + Duration::from_secs(100);
    hop.incoming.on_up(back);
    let mut expire = |after: u64| {
        let given_up = hop.incoming.expire(back + Duration::from_secs(after), moving, awaited, &hop.in_buffer);
        given_up.len()
    };
    assert_eq!([expire(0), expire(11), expire(59), expire(61)], [0, 0, 0, 1], "others may go first");
}

#[test]
fn packets_that_contradict_a_chunk_cost_at_most_that_it_is_sent_again() {
    let foreign = |index, count, bytes: usize| {
        let header = DataHeader { index, count, hop: HopId(7), csyn: None, class: Class::Bulk };
        let mut packet = header.to_bytes().to_vec();
        if index == 0 {
            let mut header = ChunkHeader::new(
                ChunkKind::Transport(crate::ids::Token(7)),
                Guid([1; 20]),
                Guid([2; 20]),
                NetworkAddress(1),
            );
            header.payload_bytes = 77;
            header.encode(&mut packet);
        }
        packet.resize(packet.len() + bytes, 9);
        Datagram::from(packet)
    };
    // Another number of packets, another length, another header; before the chunk and in it.
    let packets = [foreign(3, 5, 1_400), foreign(0, 1, 1_000), foreign(70, 72, 3), foreign(0, 72, 1_300)];
    for (kind, foreign) in packets.iter().enumerate() {
        for delay in [0, 1, 20, 60] {
            let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
            let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
            let mut queue = vec![hop.put(0, vec![7; 100_000].into())];
            assert_eq!(hop.out_buffer.chunk(queue[0]).map(Chunk::count), Some(72));
            let at = hop.now + Duration::from_millis(delay);
            hop.run(&mut queue, at, |_| false);
            hop.deliver(foreign);
            let limit = hop.now + Duration::from_millis(600);
            assert!(hop.run(&mut queue, limit, |hop| !hop.received.is_empty()), "packet {kind} after {delay} ms");
            assert_eq!(hop.received[&0], [vec![7; 100_000]], "packet {kind} after {delay} ms");
        }
    }
}

#[test]
fn a_neighbour_whose_chunk_never_adds_up_does_not_send_it_for_ever() {
    let config = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(5));
    let mut hop = Hop::new(config, HopConfig::default(), 6_000, 5);
    let slot = hop.put(0, vec![7; 100_000].into());
    hop.out_buffer.header_mut(slot).expect("it waits there").payload_bytes += 1;
    let limit = hop.now + Duration::from_secs(5);
    assert!(hop.run(&mut vec![slot], limit, |hop| hop.out_buffer.is_empty()));
    assert!(hop.received.is_empty() && hop.in_buffer.is_empty() && hop.out.stats.packets < 72 * 3);
}
