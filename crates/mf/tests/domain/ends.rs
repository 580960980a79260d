//! The two ends of a transfer (paper §3.2.2, §3.4.2) with only a delay between them, and the losses that a test
//! chooses.
use std::collections::VecDeque;

use tributary_content::{ChunkIndex, ObjectKind, ObjectReader};
use tributary_core::ByteCount;
use tributary_mf::{
    config::EndConfig,
    ids::{ChunkKey, Flow, Guid, NetworkAddress, Token},
    payload::Payload,
    receiver::{Announced, Announcer, Receiver},
    router::cache::ContentCache,
    sender::{SendOptions, Sender},
    wire::{ChunkHeader, ChunkKind, DataTag, Flags, Reliability, TransportBody, TransportMessage},
};
use tributary_transport::messaging::GetOptions;

use super::*;

const CHUNK: u32 = 1_024;
const SOURCE: Guid = Guid([1; 20]);
const DEVICE: Guid = Guid([2; 20]);
const DELAY: Duration = Duration::from_millis(10);

/// What travels between the ends.
enum Carried {
    Chunk(ChunkHeader, Payload),
    Message(TransportMessage),
}

/// A sender and a receiver.
struct Ends {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    /// Towards the receiver, and back: arrival time and content.
    ways: [VecDeque<(Time, Carried)>; 2],
    loses: Box<dyn FnMut(&Carried) -> bool>,
    /// Which chunks are corrupted in transit.
    spoils: Box<dyn FnMut(&DataTag) -> bool>,
    /// The chunks sent so far, and whether each was lost.
    chunks: Vec<(DataTag, bool)>,
    messages: Vec<(Time, TransportMessage)>,
    /// The token that messages about the transfer show.
    token: Token,
    /// The number of chunks that the reader accepts.
    read: ChunkIndex,
    content: MemoryContent,
    /// A chunk that is coming slowly.
    arriving: Option<ChunkKey>,
}

impl Ends {
    fn new(config: EndConfig) -> Ends {
        Ends {
            now: Time::from_millis(1_000),
            sender: Sender::new(SOURCE, config.clone(), 0, &[1; 32]),
            receiver: Receiver::new(config, 1, &[2; 32]),
            ways: Default::default(),
            loses: Box::new(|_| false),
            spoils: Box::new(|_| false),
            chunks: Vec::new(),
            messages: Vec::new(),
            token: Token::default(),
            read: ChunkIndex(u32::MAX),
            content: MemoryContent::default(),
            arriving: None,
        }
    }
    /// Publishes an object of this many chunks plus its manifest.
    fn publish(&mut self, chunks: u32) -> MemoryObject {
        let (bytes, key) = (random_bytes((chunks * CHUNK) as usize, 5), SigningKey::from_secret(&[7; 32]));
        let object = MemoryObject::with_options(name("/file"), bytes, &key, 1, ObjectKind::File, CHUNK).unwrap();
        self.sender.publish(Box::new(object.clone()));
        self.receiver.set_attached(self.now, true);
        object
    }
    fn opener(&mut self) -> Box<MemoryOpener> {
        let opener = MemoryOpener::new();
        self.content = opener.content();
        self.read_until(self.read.0);
        Box::new(opener)
    }
    /// The reader takes chunks in order, up to `until`.
    fn read_until(&mut self, until: u32) {
        self.read = ChunkIndex(until);
        self.content.read_in_order(None, Some(self.read));
    }
    /// Fetches an object of this many chunks.
    fn fetch(&mut self, chunks: u32) -> TransferId {
        let object = self.publish(chunks);
        let fetch = Fetch {
            name: name("/file"),
            opener: self.opener(),
            rate_limit: None,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: Some(Duration::from_secs(10)),
        };
        let id = self.receiver.fetch(self.now, fetch, GetOptions::default());
        let device = Announcer { guid: SOURCE, label: "source".into() };
        self.receiver.handle_announcements(
            self.now,
            &name("/file"),
            &[(device, object.manifest().clone())],
            Announced::All,
        );
        id
    }
    /// Pushes an object of this many chunks.
    fn push(&mut self, chunks: u32, reliability: Reliability, config: &EndConfig) {
        let object = self.publish(chunks).manifest().publication_id();
        let opener = self.opener();
        self.receiver.accept(Some(opener));
        let options = SendOptions { reliability, ..SendOptions::new(config) };
        self.sender.push(self.now, object, DEVICE, Vec::new(), options).unwrap();
    }
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.exchange();
            let arrivals = self.ways.iter().filter_map(|way| way.front().map(|(at, _)| *at));
            let due = arrivals.chain(self.sender.poll_timeout()).chain(self.receiver.poll_timeout()).min();
            let due = due.unwrap_or(Time::MAX);
            if due > end {
                break;
            }
            assert!(due > self.now, "what is due at {due} was not done at {}", self.now);
            self.now = due;
        }
        self.now = end;
    }
    /// Runs everything that is due now.
    fn exchange(&mut self) {
        let now = self.now;
        let arrived = |way: &mut VecDeque<(Time, Carried)>| {
            let count = way.iter().take_while(|(at, _)| *at <= now).count();
            way.drain(..count).map(|(_, carried)| carried).collect::<Vec<_>>()
        };
        for carried in arrived(&mut self.ways[0]) {
            match carried {
                Carried::Chunk(header, payload) => {
                    self.receiver.on_activity(now, self.arriving.map(|key| (key, now)).into_iter());
                    self.receiver.handle_data(now, &header, &payload);
                }
                Carried::Message(message) => {
                    let kind = ChunkKind::Transport(self.token);
                    let header = ChunkHeader::new(kind, SOURCE, DEVICE, NetworkAddress(1));
                    self.receiver.handle_message(now, &header, &message);
                }
            }
        }
        let header = ChunkHeader::new(ChunkKind::Transport(self.token), DEVICE, SOURCE, NetworkAddress(1));
        for carried in arrived(&mut self.ways[1]) {
            let Carried::Message(message) = carried else { continue };
            self.sender.handle_request(now, &header, &message, None);
            self.sender.handle_message(now, &header, &message);
        }
        if self.receiver.poll_timeout().is_some_and(|at| at <= now) {
            self.receiver.handle_timeout(now);
        }
        if self.sender.poll_timeout().is_some_and(|at| at <= now) {
            self.sender.handle_timeout(now);
        }
        while let Some(outgoing) = self.receiver.poll_message() {
            self.messages.push((now, outgoing.message.clone()));
            self.token = outgoing.token;
            self.carry(1, Carried::Message(outgoing.message));
        }
        let cache = ContentCache::new(ByteCount(0));
        // As if hops carried four chunks per one-way delay.
        while self.ways[0].len() < 4
            && let Some((header, payload)) = self.sender.poll_chunk(now, &cache, |_, _| true)
        {
            let tag = *header.tag().unwrap();
            self.chunks.push((tag, header.flags.contains(Flags::REPEATED)));
            let payload = match (self.spoils)(&tag) {
                true => payload.to_bytes().iter().map(|byte| byte ^ 1).collect::<Bytes>().into(),
                false => payload,
            };
            self.carry(0, Carried::Chunk(header, payload));
        }
        while let Some((.., message)) = self.sender.poll_message() {
            self.carry(0, Carried::Message(message));
        }
    }
    fn carry(&mut self, way: usize, what: Carried) {
        if !(self.loses)(&what) {
            self.ways[way].push_back((self.now + DELAY, what));
        }
    }
    fn is_done(&self) -> bool {
        self.content.finished(&name("/file")).is_some()
    }
    /// Chunks that were sent again, in order.
    fn repeated(&self) -> Vec<u32> {
        self.chunks.iter().filter(|(_, repeated)| *repeated).map(|(tag, _)| tag.number).collect()
    }
    /// The sizes of the windows so far, in order.
    fn windows(&self) -> Vec<u16> {
        let sizes: BTreeMap<u16, u16> = self.chunks.iter().map(|(tag, _)| (tag.window, tag.window_chunks)).collect();
        sizes.into_values().collect()
    }
    /// The messages per window: time, advised window, and missing chunks.
    fn status(&self) -> Vec<(Time, u16, Vec<u32>)> {
        let of = |(at, message): &(Time, TransportMessage)| match message {
            TransportMessage { body: TransportBody::Status { advice_chunks, missing, .. }, .. } => {
                Some((*at, *advice_chunks, missing.iter().collect()))
            }
            _ => None,
        };
        self.messages.iter().filter_map(of).collect()
    }
    /// Messages that acknowledge something, or, with `complete`, everything.
    fn acks(&self, of: bool) -> usize {
        let is_one = |message: &TransportMessage| matches!(message, TransportMessage { body: TransportBody::Ack { complete, .. }, .. } if *complete == of);
        self.messages.iter().filter(|(_, message)| is_one(message)).count()
    }
}

/// Chunks of 1 KiB, and space for 128 of them.
fn small_chunks() -> EndConfig {
    EndConfig { chunk_bytes: CHUNK, buffer_bytes: ByteCount(128 << 10), ..EndConfig::default() }
}

#[test]
fn a_receiver_that_stood_still_waits_for_its_sources_anew() {
    for comes_back in [true, false] {
        let mut ends = Ends::new(small_chunks());
        let id = ends.fetch(1_000);
        ends.run(ms(100));
        ends.loses = Box::new(|_| true);
        ends.ways.iter_mut().for_each(VecDeque::clear);
        ends.now += Duration::from_secs(3_600);
        ends.run(Duration::from_secs(5));
        assert_eq!(ends.receiver.report(ends.now, id).unwrap().ended, None);
        if comes_back {
            ends.loses = Box::new(|_| false);
        }
        ends.run(Duration::from_secs(20));
        let report = ends.receiver.report(ends.now, id).unwrap();
        assert_eq!(ends.is_done(), comes_back, "{report:#?}");
        assert!(report.ended.is_some() && report.failure.is_some() != comes_back, "{report:#?}");
    }
}

#[test]
fn a_full_receive_buffer_holds_the_sender_and_reading_sets_it_free() {
    let mut ends = Ends::new(small_chunks());
    ends.read_until(0);
    let id = ends.fetch(1_000);
    ends.run(Duration::from_secs(10));
    let sent = ends.chunks.len();
    assert!((100..=129).contains(&sent), "{sent} chunks are sent, the description and what there is room for");
    assert_eq!(ends.status().last().map(|(_, advice, _)| *advice), Some(0), "it was told to stop");
    let stated = ends.messages.len();
    ends.run(Duration::from_secs(60));
    let report = ends.receiver.report(ends.now, id).unwrap();
    assert_eq!(report.failure, None, "it is the reader that is slow, not the source");
    assert_eq!(ends.chunks.len(), sent, "nothing more is sent");
    let more = ends.messages.len() - stated;
    assert!(more <= 20, "{more} messages in a minute, though there is nothing to say but every NACK timeout");
    ends.read_until(u32::MAX);
    ends.run(Duration::from_secs(5));
    assert!(ends.is_done() && ends.chunks.len() == 1_001, "all of it, once: {}", ends.chunks.len());
}

#[test]
fn the_window_grows_while_the_buffer_has_room_and_shrinks_as_it_fills() {
    let mut ends = Ends::new(small_chunks());
    ends.read_until(200);
    ends.fetch(1_000);
    ends.run(Duration::from_secs(10));
    let windows = ends.windows();
    // At most a quarter of the buffer, as two may be in flight; the last ones meet a reader that has stopped.
    assert!(windows.starts_with(&[8, 8, 16, 32, 32]) && windows.iter().all(|size| *size <= 32), "{windows:?}");
    let last = *windows.last().unwrap();
    assert!(last <= 16, "{windows:?}");
    let stopped = windows.len();
    ends.read_until(600);
    ends.run(ms(300));
    let windows = ends.windows();
    assert!(windows[stopped..].contains(&32), "it grows again: {windows:?}");
    ends.read_until(u32::MAX);
    ends.run(Duration::from_secs(5));
    assert!(ends.is_done() && ends.repeated().is_empty());
}

#[test]
fn there_is_one_message_for_each_window_and_none_for_what_fits_into_the_first() {
    for (chunks, windows) in [(7, 0), (8, 2), (1_000, 34)] {
        let mut ends = Ends::new(small_chunks());
        ends.fetch(chunks);
        ends.run(Duration::from_secs(5));
        assert!(ends.is_done());
        // The last message reports completion.
        assert_eq!(ends.status().len(), windows_reported(windows), "{chunks} chunks: {:?}", ends.windows());
        assert_eq!(
            (ends.acks(true), ends.messages.len()),
            (1, 2 + windows_reported(windows)),
            "the request, and the end"
        );
    }
}
fn windows_reported(windows: usize) -> usize {
    windows.saturating_sub(1)
}

/// A pushed transfer after `seconds`, if chunk 5 is lost the first time, and also the first NACK or acknowledgement
/// that names each number of `mute`.
fn pushed_with_a_loss(reliability: Reliability, chunks: u32, mute: &[u32], seconds: u64) -> Ends {
    let config = small_chunks();
    let mut ends = Ends::new(config.clone());
    let (mut lost, mut mute) = (false, mute.to_vec());
    ends.loses = Box::new(move |carried| match carried {
        Carried::Chunk(header, _) if header.tag().is_some_and(|tag| tag.number == 5) => {
            !core::mem::replace(&mut lost, true)
        }
        Carried::Message(
            TransportMessage { body: TransportBody::Status { missing: reported, .. }, .. }
            | TransportMessage { body: TransportBody::Ack { chunks: reported, .. }, .. },
        ) => {
            let before = mute.len();
            mute.retain(|number| !reported.contains(*number));
            mute.len() < before
        }
        _ => false,
    });
    ends.push(chunks, reliability, &config);
    ends.run(Duration::from_secs(seconds));
    ends
}

#[test]
fn what_nobody_cares_about_is_never_repeated_and_nothing_is_said_of_it() {
    let ends = pushed_with_a_loss(Reliability::DontCare, 40, &[], 120);
    assert!(!ends.is_done() && ends.chunks.len() == 41 && ends.repeated().is_empty(), "{:?}", ends.chunks);
    assert_eq!((ends.messages.len(), ends.sender.flows()), (0, 0));
    let failed = ends
        .receiver
        .transfers()
        .iter()
        .all(|(id, _)| ends.receiver.report(ends.now, *id).is_some_and(|report| report.failure.is_some()));
    assert!(failed, "the receiver does not wait for ever");
}

#[test]
fn a_nack_that_is_lost_is_repeated_and_only_what_is_missing_is_sent_again() {
    for chunks in [6, 40] {
        let ends = pushed_with_a_loss(Reliability::Nack, chunks, &[5], 60);
        assert!(ends.is_done() && ends.repeated() == [5], "{chunks}: {:?}", ends.repeated());
        let nacks: Vec<_> = ends.status().into_iter().filter(|(.., missing)| !missing.is_empty()).collect();
        assert!(nacks.len() == 2 && nacks.iter().all(|(.., missing)| missing.contains(&5)), "{chunks}: {nacks:?}");
        // The first after the NACK timeout of 3 s, the next after twice as much.
        let waits = [nacks[0].0.since(Time::from_millis(1_000)), nacks[1].0.since(nacks[0].0)];
        assert!(waits[0] >= ms(3_000) && waits[0] < ms(3_300) && waits[1] == ms(6_000), "{chunks}: {waits:?}");
        assert_eq!((ends.acks(false), ends.acks(true), ends.sender.flows()), (0, 1, 0), "{chunks}");
    }
}

#[test]
fn an_acknowledgement_for_each_chunk_and_what_has_none_is_sent_again() {
    // The acknowledgement of chunk 7 is lost: the chunk arrives twice and is acknowledged twice.
    let ends = pushed_with_a_loss(Reliability::Ack, 40, &[7], 60);
    assert!(ends.is_done() && ends.repeated() == [5, 7], "{:?}", ends.repeated());
    // The second of 7 arrives after completion, and is answered with it.
    assert_eq!((ends.acks(false), ends.acks(true), ends.sender.flows()), (41, 2, 0));
    assert!(ends.status().iter().all(|(.., missing)| missing.is_empty()), "{:?}", ends.status());
}

/// Ends between which a chunk is corrupted this many times.
fn changing(number: u32, times: u32) -> Ends {
    let mut ends = Ends::new(small_chunks());
    let mut left = times;
    ends.spoils = Box::new(move |tag| {
        let spoils = tag.number == number && left > 0;
        left -= u32::from(spoils);
        spoils
    });
    ends
}

/// A pushed transfer after `seconds`, if a chunk is corrupted in transit this many times.
fn pushed_and_changed(number: u32, times: u32, seconds: u64) -> Ends {
    let config = small_chunks();
    let mut ends = changing(number, times);
    ends.push(40, Reliability::Nack, &config);
    ends.run(Duration::from_secs(seconds));
    ends
}

#[test]
fn what_is_pushed_and_changed_on_the_way_is_asked_for_again_and_its_source_is_not_blamed() {
    for times in [1, 4] {
        // Round trips of 20 ms, and pauses of 100, 200 and 400 ms.
        let ends = pushed_and_changed(5, times, 2);
        assert!(ends.is_done(), "{times} times: {:?}", ends.status());
        assert_eq!(ends.repeated(), vec![5; times as usize]);
        let (id, _) = ends.receiver.transfers()[0];
        let report = ends.receiver.report(ends.now, id).unwrap();
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{report:?}");
    }
}

#[test]
fn what_is_fetched_and_changed_on_the_way_is_asked_for_again_before_its_source_is_blamed() {
    for (number, times) in [(0, 1), (5, 1), (5, 4), (40, 4), (5, u32::MAX)] {
        let mut ends = changing(number, times);
        let id = ends.fetch(40);
        ends.run(Duration::from_secs(10));
        let report = ends.receiver.report(ends.now, id).unwrap();
        let blamed = report.sources.iter().any(|source| source.distrusted.is_some());
        assert_eq!((ends.is_done(), blamed), (times < u32::MAX, times == u32::MAX), "{number}, {times}: {report:?}");
        let requested = ends.repeated();
        // At once while other chunks of it arrive intact, then six times in a row.
        let is_enough = if blamed { (6..=20).contains(&requested.len()) } else { requested.len() == times as usize };
        assert!(
            is_enough && requested.iter().all(|repeated| *repeated == number),
            "{number}, {times} times: {requested:?}"
        );
    }
}

#[test]
fn who_sends_nothing_right_is_asked_more_and_more_rarely_and_given_up_in_the_end() {
    let mut ends = pushed_and_changed(5, u32::MAX, 60);
    // At once while other chunks of it arrive intact, then after 0.1, 0.2, … 6.4 s, then every 12 s.
    let requested = ends.repeated().len();
    assert!((8..=20).contains(&requested), "{requested} times within a minute: {:?}", ends.status());
    let (id, _) = ends.receiver.transfers()[0];
    let failure = |ends: &Ends| ends.receiver.report(ends.now, id).unwrap().failure;
    assert_eq!(failure(&ends), None);
    ends.run(Duration::from_secs(600));
    assert!(failure(&ends).is_some_and(|reason| reason.contains("wrong")));
    let stated = ends.messages.len();
    ends.run(Duration::from_secs(600));
    assert_eq!(ends.messages.len(), stated);
}

#[test]
fn who_got_nothing_at_all_is_reminded_and_asks_for_it() {
    for chunks in [6, 40] {
        let config = small_chunks();
        let mut ends = Ends::new(config.clone());
        let mut lost = 0;
        // Everything that the source sends before it waits for the receiver.
        ends.loses = Box::new(move |carried| {
            lost += u32::from(matches!(carried, Carried::Chunk(..)));
            lost <= 16.min(chunks + 1)
        });
        ends.push(chunks, Reliability::Nack, &config);
        ends.run(Duration::from_secs(11));
        assert!(!ends.is_done() && ends.repeated().is_empty(), "{chunks}");
        // Reminded after 12 s, it reports the missing chunks 3 s later.
        ends.run(Duration::from_secs(5));
        assert!(ends.is_done(), "{chunks}: {:?}", ends.status());
    }
}

/// The time until six chunks have arrived, the last of which is lost once, while a packet of other objects, or of that
/// chunk, arrives every tenth of a second.
fn with_a_loss_amid_others(of_the_lost: bool) -> Duration {
    let config = small_chunks();
    let mut ends = Ends::new(config.clone());
    let mut lost = false;
    ends.loses = Box::new(move |carried| {
        let is_lost = matches!(carried, Carried::Chunk(header, _) if header.tag().unwrap().number == 6) && !lost;
        lost |= is_lost;
        is_lost
    });
    ends.push(6, Reliability::Nack, &config);
    let begun = ends.now;
    while !ends.is_done() && ends.now.since(begun) < Duration::from_secs(90) {
        ends.run(ms(100));
        let tag = ends.chunks[0].0;
        let flow = Flow { source: SOURCE, destination: DEVICE };
        let key = ChunkKey { flow, object: tag.object, transfer: tag.transfer, number: 6 };
        ends.arriving = of_the_lost.then_some(key);
        ends.receiver.on_activity(ends.now, ends.arriving.map(|key| (key, ends.now)).into_iter());
    }
    ends.now.since(begun)
}

#[test]
fn what_comes_of_other_objects_puts_a_nack_off_for_a_while_and_a_chunk_that_is_coming_for_longer() {
    let [others, itself] = [false, true].map(with_a_loss_amid_others);
    // A timeout of 3 s; twice as long for other objects, sixteen times for a slow chunk.
    assert!(others > ms(6_000) && others < ms(6_300), "{others:?}");
    assert!(itself > ms(45_000), "{itself:?}");
}

#[test]
fn a_reminder_is_answered_at_once_by_what_is_missing() {
    let config = small_chunks();
    let mut ends = Ends::new(config.clone());
    let (mut lost, mut stated) = (false, 0);
    // Chunk 6 is lost, and so are its first reports, after 3 and 9 s; the next would follow after 21.
    ends.loses = Box::new(move |carried| match carried {
        Carried::Chunk(header, _) if header.tag().unwrap().number == 6 => !core::mem::replace(&mut lost, true),
        Carried::Chunk(..) => false,
        Carried::Message(message) => {
            let is_nack = matches!(message, TransportMessage { body: TransportBody::Status { missing, .. }, .. } if !missing.is_empty());
            stated += u32::from(is_nack);
            is_nack && stated <= 2
        }
    });
    ends.push(6, Reliability::Nack, &config);
    ends.run(ms(11_900));
    assert!(!ends.is_done());
    ends.run(ms(300));
    assert!(ends.is_done(), "{:?}", ends.status());
}

#[test]
fn who_starts_anew_amid_what_is_sent_to_it_is_reminded_and_gets_all_of_it() {
    for (chunks, after) in [(40, 3), (200, 30), (200, 300)] {
        let config = small_chunks();
        let mut ends = Ends::new(config.clone());
        ends.push(chunks, Reliability::Nack, &config);
        ends.run(ms(after));
        ends.ways.iter_mut().for_each(VecDeque::clear);
        let begun = ends.chunks.len();
        let opener = ends.opener();
        ends.receiver = Receiver::new(config.clone(), 1_000, &[2; 32]);
        ends.receiver.set_attached(ends.now, true);
        ends.receiver.accept(Some(opener));
        ends.run(Duration::from_secs(11));
        assert!(begun > 0 && !ends.is_done(), "{chunks}: {begun} chunks were sent");
        // Reminded after 12 s, it reports the missing chunks 3 s later, and again as windows continue.
        ends.run(Duration::from_secs(12));
        assert!(ends.is_done(), "{chunks}: {:?}", ends.status());
    }
}

#[test]
fn who_is_silent_for_an_hour_is_not_reminded_any_more() {
    let config = small_chunks();
    let mut ends = Ends::new(config.clone());
    ends.loses = Box::new(|_| true);
    ends.push(6, Reliability::Nack, &config);
    ends.run(Duration::from_secs(3_590));
    let reminded = ends.repeated();
    assert!((70..=76).contains(&reminded.len()) && reminded.iter().all(|number| *number == 0), "{reminded:?}");
    ends.run(Duration::from_secs(3_600));
    assert!(ends.repeated().len() <= reminded.len() + 1 && ends.sender.flows() == 0);
}
