//! One face: its link service (fragmentation, reassembly, reliability, marking) and its send queue.
use alloc::{collections::VecDeque, format, string::String, vec::Vec};

use bytes::Bytes;
use tributary_core::{Budget, Datagram, Duration, FaceId, Rate, Time, TransmitBuf};
use tributary_transport::{FaceOptions, MtuProbe, PathMtu};

use super::{
    Done,
    link_rate::{Arriving, LinkRate},
    marking::{Marker, MarkingRule},
    shaping::{Shaper, ShapingConfig},
};
use crate::wire::{
    ControlParameters, LpPacket, PACKET_BYTES_MAX,
    dataset::{FacePersistency, PacketCounters},
    fragment::{Numbering, Piece, Reassembler, ReassemblyLimits, cut},
    reliability::{Reliability, ReliabilityConfig, ReliabilityStats},
};

/// The node at the far end of a face.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FaceScope {
    /// Another machine.
    #[default]
    NonLocal,
    /// An application on this machine: it may use `/localhost` and choose faces.
    Local,
    /// The same for another user: its commands concern only itself.
    OtherUser,
}

/// What a face is like.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaceProfile {
    /// The longest datagram; `None` for a stream, which carries packets of any length unfragmented.
    pub mtu: Option<usize>,
    /// Whether it is found out if the link carries less.
    pub finds_mtu: bool,
    /// The node at the far end.
    pub scope: FaceScope,
    /// Rate of its link, if known, and when to mark packets.
    pub rate: Option<Rate>,
    /// When to mark packets.
    pub marking: MarkingRule,
    /// Whether its incoming Interests wait for their turn, so that their Data fits onto its link; needs its rate.
    pub shaping: Option<ShapingConfig>,
    /// Whether lost packets are sent again on the link.
    pub reliability: Option<ReliabilityConfig>,
    /// Address of the far end.
    pub uri: String,
    /// Address of the near end.
    pub local_uri: String,
    /// Whether it stays without traffic.
    pub persistency: FacePersistency,
    /// Whether packets carry their arrival face (IncomingFaceId). Default: no.
    pub local_fields: bool,
}

/// The link of a face and the services on it, as an operator sets them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkService {
    /// The rate of the link; `None` if unknown. Marking and shaping need it, and Data for probes carries it or a
    /// measured one.
    pub rate: Option<Rate>,
    /// Whether lost packets are sent again on the link; never on a stream. Default: no.
    pub reliability: Option<ReliabilityConfig>,
    /// When to mark packets. Default: never.
    pub marking: MarkingRule,
    /// Whether its incoming Interests wait for their turn. Default: no.
    pub shaping: Option<ShapingConfig>,
}

impl FaceProfile {
    /// Sets the link service; a known rate stays.
    pub fn with_service(self, service: LinkService) -> FaceProfile {
        FaceProfile {
            rate: self.rate.or(service.rate),
            reliability: service.reliability.filter(|_| self.mtu.is_some()),
            marking: service.marking,
            shaping: service.shaping,
            ..self
        }
    }
}

/// An MTU from which on a face counts as a stream: no datagram is longer.
const STREAM_MTU: u32 = 65_536;

impl From<FaceOptions> for FaceProfile {
    /// A face to another machine; an MTU above every datagram's means a stream. Fields are taken as they are.
    fn from(options: FaceOptions) -> Self {
        FaceProfile {
            mtu: (options.mtu < STREAM_MTU).then_some(options.mtu as usize),
            rate: options.rate,
            ..FaceProfile::default()
        }
    }
}

tributary_core::declared! {
    /// Limits of one face.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FaceLimits {
        /// Maximum queued packets. Default: 4,096.
        pub queue_packets_max: usize = 4096,
        /// Their maximum bytes. Default: 8 MiB.
        pub queue_bytes_max: usize = 8 << 20,
        /// Reassembly.
        pub reassembly: ReassemblyLimits = ReassemblyLimits::default(),
    }
}

/// Why a face drops packets.
pub(crate) mod reason {
    /// The queue is full.
    pub(crate) const QUEUE: &str = "egress queue full";
    /// The MTU is below the headers, or too many pieces would be needed.
    pub(crate) const MTU: &str = "longer than the mtu allows";
    /// A link packet with neither headers nor fragment that this program understands.
    pub(crate) const DUPLICATE: &str = "link packet received twice";
    /// The face is down.
    pub(crate) const DOWN: &str = "face is down";
}

/// A network packet with its received headers: an Interest, a Data, or a Nack.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Bytes with the headers; empty for a bare packet.
    pub(crate) headers: Bytes,
    /// Whether the packet follows those bytes.
    pub(crate) behind: usize,
    pub(crate) packet: Bytes,
    /// Whether a queue of the network below marked it.
    pub(crate) is_marked: bool,
}

tributary_core::declared! {
    pub(crate) struct Face {
        pub(crate) id: FaceId = id,
        pub(crate) up: bool = true,
        pub(crate) counters: PacketCounters = PacketCounters::default(),
        pub(crate) dropped: u64 = 0,
        next_sequence: u64 = first,
        reassembler: Reassembler = Reassembler::new(limits.reassembly),
        path_mtu: Option<PathMtu> = mtu.map(|mtu| PathMtu::new(mtu, number)),
        /// Differs from start to start.
        boot: u64 = boot,
        /// The number of the challenge whose answer proves that the neighbour receives packets at its address.
        challenge: Option<u32> = None,
        /// Whether it has answered that.
        pub(crate) is_proven: bool = profile.mtu.is_none() || profile.scope != FaceScope::NonLocal,
        /// The neighbour's answer to a question for its boot number: the question's number and the boot number.
        pub(crate) boot_answer: Option<(u32, u64)> = None,
        /// Whether the neighbour has probed for the boot number, as nodes of this program do: it answers echo requests
        /// itself.
        pub(crate) answers_echoes: bool = false,
        /// There if lost packets are sent again, or if the neighbour sent numbers, which are acknowledged in any case.
        reliability: Option<Reliability> = profile.reliability.map(|config| Reliability::new(config, first)),
        marker: Marker = Marker::new(profile.marking, profile.rate),
        /// Whether a datagram was marked since the last whole packet: a mark on one fragment is a mark on the packet.
        is_marked: bool = false,
        /// The measured rate of its link, if none is configured, and the answers to the neighbour's trains in the other
        /// direction.
        link_rate: LinkRate = LinkRate::new(number ^ boot as u32),
        arriving: Arriving = Arriving::default(),
        /// Incoming Interests that wait for their turn.
        pub(crate) shaper: Option<Shaper<Arrived>> =
            profile.shaping.zip(profile.rate).map(|(config, rate)| Shaper::new(config, rate)),
        pub(crate) echoes: Budget = Budget::default(),
        queue: VecDeque<(Vec<u8>, Bytes)> = VecDeque::new(),
        queue_bytes: usize = 0,
        pub(crate) profile: FaceProfile = profile,
        limits: FaceLimits = limits,
    }
    /// `number` is random; `boot` is the answer to boot probes of neighbours.
    pub(crate) fn new(id: FaceId, profile: FaceProfile, limits: FaceLimits, number: u32, boot: u64) {
        // A neighbour must not take it for a number from before this node's restart; far from the end.
        let first = (boot ^ u64::from(number)) >> 1;
        let mtu = profile.mtu.filter(|_| profile.finds_mtu).map(|mtu| mtu.min(DATAGRAM_BYTES_MAX) as u32);
    }
}

impl Face {
    /// The longest datagram that arrives, if known; `None` for a stream.
    pub(crate) fn mtu(&self) -> Option<usize> {
        self.path_mtu.as_ref().map(|found| found.size() as usize).or(self.profile.mtu)
    }
    pub(crate) fn is_local(&self) -> bool {
        self.profile.scope != FaceScope::NonLocal
    }
    /// Whether the application at the other end runs as the user of this node, or as root.
    pub(crate) fn is_owner(&self) -> bool {
        self.profile.scope == FaceScope::Local
    }
    /// Takes a datagram; returns the network packet in it, if it completes one.
    ///
    /// # Errors
    /// The reason for which it is dropped.
    pub(crate) fn handle_datagram(&mut self, now: Time, datagram: Datagram) -> Result<Option<Arrived>, &'static str> {
        self.counters.bytes.0 += datagram.len() as u64;
        self.is_marked |= datagram.is_marked();
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(super::reason::TOO_LONG);
        }
        if datagram.header_bytes().first() != Some(&(crate::wire::types::LP_PACKET as u8)) {
            self.arriving.on_packet(now, None);
            let packet = datagram.into_bytes();
            return Ok(Some(Arrived {
                headers: Bytes::new(),
                behind: 0,
                packet,
                is_marked: core::mem::take(&mut self.is_marked),
            }));
        }
        // Headers in the head and the packet in the body: nothing need be copied.
        if !datagram.head().is_empty()
            && let Ok(packet) = LpPacket::decode_head(datagram.head(), datagram.body().len())
        {
            let head = Bytes::copy_from_slice(datagram.head());
            return self.handle_link_packet(now, &packet, head, Some(datagram.body().clone()));
        }
        let bytes = datagram.into_bytes();
        let packet = LpPacket::decode(&bytes).map_err(|error| error.reason())?;
        let fragment = packet.fragment.map(|fragment| bytes.slice_ref(fragment));
        self.handle_link_packet(now, &packet, bytes.clone(), fragment)
    }
    fn handle_link_packet(
        &mut self,
        now: Time,
        packet: &LpPacket<'_>,
        bytes: Bytes,
        fragment: Option<Bytes>,
    ) -> Result<Option<Arrived>, &'static str> {
        self.on_train(now, packet);
        if packet.tx_sequence.is_some() && self.reliability.is_none() {
            self.reliability = Some(Reliability::new(ReliabilityConfig::default(), self.next_sequence));
        }
        if let Some(link) = &mut self.reliability {
            packet.acks.iter().for_each(|ack| link.on_ack(now, *ack));
            if let Some(number) = packet.tx_sequence
                && !link.on_arrival(now, number, packet.sequence)
            {
                return Err(reason::DUPLICATE);
            }
            self.send_again(now);
        }
        self.on_mtu(now, packet);
        self.on_boot(packet);
        let Some(fragment) = fragment else { return Ok(None) };
        let behind = if packet.fragment_is_behind { fragment.len() } else { 0 };
        if packet.frag_count.unwrap_or(1) == 1 && packet.frag_index.unwrap_or(0) == 0 {
            return Ok(Some(Arrived {
                headers: bytes,
                behind,
                packet: fragment,
                is_marked: core::mem::take(&mut self.is_marked),
            }));
        }
        // The first piece is kept for its headers; its fragment is kept separately.
        let piece = self.reassembler.handle_piece(now, packet, &bytes, &fragment)?;
        Ok(piece.map(|(first, assembled)| {
            let behind = match LpPacket::decode(&first) {
                Ok(_) => 0,
                // The fragment of the first piece followed it, so the headers' own length gives its length.
                Err(_) => behind_of(&first),
            };
            Arrived { headers: first, behind, packet: assembled, is_marked: core::mem::take(&mut self.is_marked) }
        }))
    }

    fn on_mtu(&mut self, now: Time, packet: &LpPacket<'_>) {
        if let (Some(number), Some(search)) = (packet.mtu_answer, &mut self.path_mtu) {
            search.on_answer(now, number);
            self.send_probes();
        }
        if packet.mtu_probe.is_some() {
            self.answer(&LpPacket { mtu_answer: packet.mtu_probe.map(|(number, _)| number), ..LpPacket::default() });
        }
    }
    fn on_train(&mut self, now: Time, packet: &LpPacket<'_>) {
        if let Some((number, took)) = packet.rate_answer {
            self.link_rate.on_answer(now, number, took);
        }
        if let Some(answer) = self.arriving.on_packet(now, packet.rate_probe.as_ref()) {
            self.answer(&LpPacket { rate_answer: Some(answer), ..LpPacket::default() });
        }
    }
    /// Measures the rate of its link, if none is configured, it is time, and the queue can take a train. Streams are
    /// not measured, and faces of local applications are no links.
    pub(crate) fn measure_rate(&mut self, now: Time) {
        let (packets, bytes) = LinkRate::TRAIN_MAX;
        let has_room = self.queue.len() + packets <= self.limits.queue_packets_max
            && self.queue_bytes + bytes <= self.limits.queue_bytes_max;
        if self.up
            && has_room
            && let (None, FaceScope::NonLocal, Some(mtu)) = (self.profile.rate, self.profile.scope, self.mtu())
        {
            self.link_rate.train(now, mtu).for_each(|packet| self.push(packet.encode(), Bytes::new()));
        }
    }
    /// The rate of its link, as configured or measured.
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.profile.rate.or(self.link_rate.rate())
    }
    fn on_boot(&mut self, packet: &LpPacket<'_>) {
        self.boot_answer = packet.boot_answer.or(self.boot_answer);
        if let Some((number, _)) = packet.boot_answer
            && self.challenge == Some(number)
        {
            (self.is_proven, self.challenge) = (true, None);
        }
        self.answers_echoes |= packet.boot_probe.is_some();
        if let Some(number) = packet.boot_probe {
            self.answer(&LpPacket { boot_answer: Some((number, self.boot)), ..LpPacket::default() });
        }
    }
    /// Queues a link packet without a fragment if there is room.
    fn answer(&mut self, answer: &LpPacket<'_>) {
        if self.queue.len() < self.limits.queue_packets_max {
            self.push(answer.encode(), Bytes::new());
        }
    }
    /// Probes the neighbour for a restart.
    pub(crate) fn probe_boot(&mut self, number: u32) {
        self.push(LpPacket { boot_probe: Some(number), ..LpPacket::default() }.encode(), Bytes::new());
    }
    /// Sends the neighbour a challenge with an unguessable number; again with the same one.
    pub(crate) fn challenge(&mut self, number: u32) {
        let number = *self.challenge.get_or_insert(number);
        self.probe_boot(number);
    }
    /// A token for Interests to a neighbour that has not proven its address: foreign programs ignore the challenge, but
    /// return the token. It has six bytes because ndnd's forwarder crashes on others.
    pub(crate) fn proof_token(&self) -> Option<[u8; 6]> {
        self.challenge.map(|number| {
            let [a, b, c, d] = number.to_be_bytes();
            [a, b, c, d, b'T', b'R']
        })
    }
    /// Takes note of the token of an answer.
    pub(crate) fn on_token(&mut self, token: Option<&[u8]>) {
        if token.is_some() && self.proof_token().as_ref().map(|token| &token[..]) == token {
            (self.is_proven, self.challenge) = (true, None);
        }
    }
    /// Whether a packet may be sent to an address that may be forged: at most three times the bytes received from there
    /// (RFC 9000, section 8.1).
    pub(crate) fn may_send(&self, bytes: usize) -> bool {
        let (came, went) = self.counters.bytes;
        self.challenge.is_none() || went + (TOKEN_BYTES + bytes) as u64 <= 3 * came
    }
    fn send_probes(&mut self) {
        while let Some(MtuProbe { number, size }) = self.path_mtu.as_mut().and_then(PathMtu::poll_probe) {
            let zeros = (size as usize).saturating_sub(PROBE_BYTES);
            self.push(LpPacket { mtu_probe: Some((number, zeros)), ..LpPacket::default() }.encode(), Bytes::new());
        }
    }

    /// Queues a network packet with these headers. `wait` is for marking: how long the flow's Interests wait at this
    /// face, and a random number from 0 to 1.
    ///
    /// # Errors
    /// Why it is dropped.
    pub(crate) fn send(&mut self, now: Time, headers: &LpPacket<'_>, packet: &Bytes, wait: (Duration, f64)) -> Done {
        if !self.up {
            return self.refuse(reason::DOWN);
        }
        let marked;
        let mut headers = headers;
        if self.is_queue_long(now, headers, packet, wait) && headers.congestion_mark.is_none() {
            marked = LpPacket { congestion_mark: Some(1), ..headers.clone() };
            headers = &marked;
        }
        if self.queue.len() >= self.limits.queue_packets_max
            || self.queue_bytes + packet.len() > self.limits.queue_bytes_max
        {
            return self.refuse(reason::QUEUE);
        }
        self.path_mtu.iter_mut().for_each(|search| search.on_sent(packet.len()));
        let mtu = self.mtu();
        let fits = |extra: usize| mtu.is_none_or(|mtu| packet.len() + extra <= mtu);
        if self.profile.reliability.is_none() {
            if !headers.has_headers() && fits(0) {
                self.push(Vec::new(), packet.clone());
                return Ok(());
            }
            let mut head = Vec::with_capacity(64);
            headers.encode_head(Some(packet.len()), &mut head);
            if fits(head.len()) {
                self.push(head, packet.clone());
                return Ok(());
            }
        }
        let mtu = mtu.unwrap_or(usize::MAX);
        let numbering = if self.profile.reliability.is_some() { Numbering::Always } else { Numbering::WhenCut };
        let pieces_max = self.limits.reassembly.pieces_max;
        let pieces = cut(headers, packet, mtu, pieces_max, numbering, &mut self.next_sequence);
        let Some(pieces) = pieces else { return self.refuse(reason::MTU) };
        pieces.into_iter().for_each(|piece| self.push_piece(now, piece, 0));
        Ok(())
    }
    fn is_queue_long(&mut self, now: Time, headers: &LpPacket<'_>, packet: &Bytes, wait: (Duration, f64)) -> bool {
        if !self.marker.is_on() {
            return false;
        }
        let mut head = Vec::new();
        if headers.has_headers() {
            headers.encode_head(Some(packet.len()), &mut head);
        }
        self.marker.on_packet(now, packet.len() + head.len(), wait)
    }
    fn refuse(&mut self, reason: &'static str) -> Done {
        self.dropped += 1;
        Err(reason)
    }
    fn push_piece(&mut self, now: Time, piece: Piece, retries: u8) {
        let (mut acks, mut number, mtu) = (Vec::new(), None, self.mtu());
        if let Some(link) = &mut self.reliability {
            if self.profile.reliability.is_some() {
                number = link.on_send(now, &piece, retries);
            }
            let room = mtu.map_or(256, |mtu| mtu.saturating_sub(piece.bytes() + 12 + 4));
            acks = link.take_acks(room);
        }
        self.push(piece.head(&acks, number), piece.fragment);
    }
    fn push(&mut self, head: Vec<u8>, body: Bytes) {
        let bytes = head.len() + body.len();
        self.queue_bytes += bytes;
        self.counters.bytes.1 += bytes as u64;
        self.queue.push_back((head, body));
    }
    fn send_again(&mut self, now: Time) {
        while let Some((piece, retries)) = self.reliability.as_mut().and_then(Reliability::poll_resend) {
            self.push_piece(now, piece, retries);
        }
    }
    /// Fills an empty batch; returns whether it has anything.
    pub(crate) fn poll_transmit(&mut self, out: &mut TransmitBuf) -> bool {
        while !out.is_full()
            && let Some((head, body)) = self.queue.pop_front()
        {
            self.queue_bytes -= head.len() + body.len();
            out.push(&head, body);
        }
        !out.is_empty()
    }
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.reassembler.handle_timeout(now);
        if let Some(search) = self.path_mtu.as_mut().filter(|_| self.up) {
            search.handle_timeout(now);
            self.send_probes();
        }
        let mtu = self.mtu();
        let Some(link) = &mut self.reliability else { return };
        link.handle_timeout(now);
        let idle = link.acks_are_due(now);
        self.send_again(now);
        if idle && let Some(link) = &mut self.reliability {
            let acks = link.take_acks(mtu.unwrap_or(1024).saturating_sub(4));
            if !acks.is_empty() {
                self.push(LpPacket { acks, ..LpPacket::default() }.encode(), Bytes::new());
            }
        }
    }
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let link = self.reliability.as_ref().and_then(Reliability::poll_timeout);
        let shaper = self.shaper.as_ref().and_then(Shaper::poll_timeout);
        // A face that is down sends no probes.
        let search = self.path_mtu.as_ref().filter(|_| self.up).and_then(PathMtu::poll_timeout);
        self.reassembler.poll_timeout().into_iter().chain(link).chain(shaper).chain(search).min()
    }
    /// Drops the queue.
    pub(crate) fn clear(&mut self) {
        self.dropped += self.queue.len() as u64;
        self.queue.clear();
        self.shaper.iter_mut().for_each(Shaper::clear);
        self.queue_bytes = 0;
        // It may be another link when it is up again.
        self.link_rate.forget();
        self.arriving = Arriving::default();
    }
    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }
    pub(crate) fn reliability_stats(&self) -> Option<ReliabilityStats> {
        self.reliability.as_ref().map(|link| link.stats)
    }
    /// Flags of the management protocol.
    pub(crate) fn flags(&self) -> u64 {
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        flag(self.profile.local_fields, FLAG_LOCAL_FIELDS)
            | flag(self.profile.reliability.is_some(), FLAG_RELIABILITY)
            | flag(self.profile.marking != MarkingRule::Off, FLAG_MARKING)
    }
    /// The parameters that the management protocol returns for a new face.
    pub(crate) fn parameters(&self) -> ControlParameters {
        let marks = self.profile.rate.filter(|_| self.profile.marking != MarkingRule::Off);
        let (target, interval) = self.profile.marking.delays();
        ControlParameters {
            face_id: Some(u64::from(self.id.0)),
            uri: Some(self.uri()),
            local_uri: Some(self.local_uri()),
            flags: Some(self.flags()),
            persistency: Some(self.profile.persistency as u64),
            mark_interval: marks.map(|_| interval.as_nanos() as u64),
            mark_threshold: marks.map(|rate| rate.bytes_in(target)),
            mtu: self.profile.mtu.map(|mtu| mtu as u64),
            ..ControlParameters::default()
        }
    }
    /// Changes its profile; packets that wait to be sent stay.
    pub(crate) fn set_profile(&mut self, profile: FaceProfile) {
        if profile.reliability.is_some() != self.profile.reliability.is_some() {
            self.reliability = profile.reliability.map(|config| Reliability::new(config, self.next_sequence));
        }
        if profile.marking != self.profile.marking {
            self.marker = Marker::new(profile.marking, profile.rate);
        }
        if let (Some(search), Some(mtu)) =
            (&mut self.path_mtu, profile.mtu.filter(|mtu| Some(*mtu) != self.profile.mtu))
        {
            *search = PathMtu::new(mtu as u32, search.next_number());
        }
        self.profile = profile;
    }
    /// The address of its far end; without one from the driver, an address of this node's own form.
    pub(crate) fn uri(&self) -> String {
        if self.profile.uri.is_empty() { format!("internal://{}", self.id) } else { self.profile.uri.clone() }
    }
    pub(crate) fn local_uri(&self) -> String {
        if self.profile.local_uri.is_empty() { "internal://".into() } else { self.profile.local_uri.clone() }
    }
}

/// Bytes of a link packet around an Interest with a token.
const TOKEN_BYTES: usize = 16;
/// Bytes that the headers of a link packet may have around a packet: tags, acknowledgements, announcements.
const LINK_BYTES_MAX: usize = 4096;

/// Flag of a face in the management protocol: it accepts headers for applications of this machine.
pub(crate) const FLAG_LOCAL_FIELDS: u64 = 1;
/// Lost packets are sent again on its link.
pub(crate) const FLAG_RELIABILITY: u64 = 2;
/// It marks packets.
pub(crate) const FLAG_MARKING: u64 = 4;

/// Maximum bytes of a datagram.
pub(crate) const DATAGRAM_BYTES_MAX: usize = PACKET_BYTES_MAX + LINK_BYTES_MAX;
/// Bytes of an MTU probe without its zeros: both types and lengths, of 3 bytes each except the first type, and the
/// number.
const PROBE_BYTES: usize = 14;

/// Bytes after a head: the remainder that its outer length announces.
fn behind_of(head: &[u8]) -> usize {
    let number = |at: usize| crate::wire::tlv::read_number(&head[at.min(head.len())..]);
    let Some((_, kind_len)) = number(0) else { return 0 };
    let Some((length, length_len)) = number(kind_len) else { return 0 };
    usize::try_from(length).unwrap_or(0).saturating_sub(head.len() - kind_len - length_len)
}

impl Arrived {
    /// Its received headers.
    pub(crate) fn headers(&self) -> LpPacket<'_> {
        let mut headers = match self.headers.is_empty() {
            true => LpPacket::default(),
            false => LpPacket::decode_head(&self.headers, self.behind).unwrap_or_default(),
        };
        if self.is_marked && headers.congestion_mark.unwrap_or(0) == 0 {
            headers.congestion_mark = Some(1);
        }
        headers
    }
}
