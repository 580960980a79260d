//! The link packet: hop-by-hop headers around a packet or a piece of one. NDNLPv2, revision of 2022.
//!
//! Headers may come in any order, each once (Ack: any number of times); the fragment comes last. An unknown header of
//! type 800 to 959 that is divisible by 4 is ignored; any other makes the packet unusable. Headers are written in
//! ascending order of type, the only order that NFD reads.
use alloc::vec::Vec;

use tributary_content::Unavailable;
use tributary_core::Duration;

use super::{
    PathRates, PathTag, WireError,
    huffman::BitTag,
    tlv::{Reader, Sequence, Writer, integer, integer_bytes, number_len, read_number},
    types,
};

/// The longest PIT token.
pub const PIT_TOKEN_BYTES_MAX: usize = 32;
/// Acknowledgements that one packet may carry.
pub const ACKS_MAX: usize = 256;

/// Why an Interest is returned unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum NackReason {
    /// No reason.
    Unspecified,
    /// Congestion.
    Congestion,
    /// The same Interest, by name and nonce, was seen before.
    Duplicate,
    /// No route leads to the name.
    NoRoute,
    /// The producer cannot deliver its publication, with the reason. The NDNLPv2 specification has no numbers for this:
    /// they are 200 and [`Unavailable::number`], which other programs read as a Nack without a reason.
    Unavailable(Unavailable),
    /// An unknown number.
    Other(u64),
}

impl NackReason {
    /// Its number on the wire.
    pub fn number(self) -> u64 {
        match self {
            NackReason::Unspecified => 0,
            NackReason::Congestion => 50,
            NackReason::Duplicate => 100,
            NackReason::NoRoute => 150,
            NackReason::Unavailable(why) => UNAVAILABLE + u64::from(why.number()),
            NackReason::Other(number) => number,
        }
    }
    /// How severe a failure it is: a forwarder that gets several passes on the least.
    pub fn severity(self) -> u64 {
        match self {
            NackReason::Unspecified | NackReason::Other(_) => u64::MAX,
            known => known.number(),
        }
    }
}
impl From<u64> for NackReason {
    fn from(number: u64) -> Self {
        match number {
            0 => NackReason::Unspecified,
            50 => NackReason::Congestion,
            100 => NackReason::Duplicate,
            150 => NackReason::NoRoute,
            201 => NackReason::Unavailable(Unavailable::Changed),
            202 => NackReason::Unavailable(Unavailable::Gone),
            203 => NackReason::Unavailable(Unavailable::Unreadable),
            other => NackReason::Other(other),
        }
    }
}

/// Added to the number of [`NackReason::Unavailable`].
const UNAVAILABLE: u64 = 200;

/// The origin of a Data that no producer sent for this very Interest. PTP: the 1-bit flag of §5 D 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A cache on the way.
    Cache,
    /// A router that was waiting for it on another consumer's behalf.
    Aggregation,
}

/// A packet of a train that measures the rate of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateProbe {
    /// The train's number, to be sent back.
    pub number: u32,
    /// The place of this packet in it, from 0 on.
    pub place: u8,
    /// The place of the last one.
    pub last: u8,
    /// How many zeros follow.
    pub zeros: usize,
}

/// A link packet, as a view over its bytes or to be encoded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LpPacket<'a> {
    /// Number of the piece on this link.
    pub sequence: Option<u64>,
    /// Number of the piece in its packet; `None` means 0.
    pub frag_index: Option<u64>,
    /// Pieces of the packet; `None` means 1.
    pub frag_count: Option<u64>,
    /// To be returned with the answer, 1 to 32 bytes.
    pub pit_token: Option<&'a [u8]>,
    /// The Interest is returned unanswered.
    pub nack: Option<NackReason>,
    /// The face on which it arrived, for a local application.
    pub incoming_face: Option<u64>,
    /// The face to use, chosen by a local application.
    pub next_hop_face: Option<u64>,
    /// The cache policy; 1 means not to cache.
    pub cache_policy: Option<u64>,
    /// A queue on the way is long.
    pub congestion_mark: Option<u64>,
    /// TxSequences that arrived.
    pub acks: Vec<u64>,
    /// Number for acknowledgement.
    pub tx_sequence: Option<u64>,
    /// Self-learning: no discovery.
    pub non_discovery: bool,
    /// Self-learning: a signed announcement.
    pub prefix_announcement: Option<&'a [u8]>,
    /// PTP: the labels of the path.
    pub tag: Option<PathTag<'a>>,
    /// PTP: the labels of the path as bits.
    pub tag_bits: Option<BitTag<'a>>,
    /// PTP: the rates of the labels' links.
    pub rates: Option<PathRates<'a>>,
    /// PTP: go to a producer and bring a tag back.
    pub probe: bool,
    /// PTP: the Data's origin, if it is not a producer.
    pub origin: Option<Origin>,
    /// PTP: the tag could not be followed.
    pub path_failed: bool,
    /// Whether a datagram of this size arrives: a number to be sent back, and how many zeros follow it. RFC 8899.
    pub mtu_probe: Option<(u32, usize)>,
    /// It does: the number of the probe.
    pub mtu_answer: Option<u32>,
    /// Probes for the neighbour's boot number: a number to send back.
    pub boot_probe: Option<u32>,
    /// The number of such a probe, and the boot number.
    pub boot_answer: Option<(u32, u64)>,
    /// A packet of a train that measures the rate of the link.
    pub rate_probe: Option<RateProbe>,
    /// The number of such a train, and how long it took to arrive.
    pub rate_answer: Option<(u32, Duration)>,
    /// The packet or a piece of it; `None` for a packet of headers only, or if it follows the bytes read.
    pub fragment: Option<&'a [u8]>,
    /// Whether the fragment follows the bytes read; see [`LpPacket::decode_head`].
    pub fragment_is_behind: bool,
    /// Whether [`LpPacket::encode`] yields the original bytes; meaningless for a packet to be encoded.
    pub is_canonical: bool,
}

impl<'a> LpPacket<'a> {
    /// No headers around `fragment`.
    pub fn around(fragment: &'a [u8]) -> Self {
        LpPacket { fragment: Some(fragment), ..LpPacket::default() }
    }
    /// Reads a link packet that fills `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the header and its error.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        Self::decode_head(bytes, 0)
    }
    /// Reads the link packet in `head` and `body_len` bytes elsewhere. If there are any, they must be exactly the
    /// fragment.
    ///
    /// # Errors
    /// [`WireError`] names the header and its error.
    pub fn decode_head(head: &'a [u8], body_len: usize) -> Result<Self, WireError> {
        const FIELD: &str = "LpPacket";
        let (kind, at) = read_number(head).ok_or(WireError::Number { field: FIELD, at: 0 })?;
        if kind != u64::from(types::LP_PACKET) {
            return Err(WireError::Missing { field: FIELD });
        }
        let (length, more) = read_number(&head[at..]).ok_or(WireError::Number { field: FIELD, at })?;
        let mut value = &head[at + more..];
        let have = value.len() + body_len;
        match u64::try_from(have).unwrap_or(u64::MAX).checked_sub(length) {
            None => return Err(WireError::Short { field: FIELD, needs: length, has: have }),
            Some(0) => {}
            Some(extra) => return Err(WireError::Trailing { extra: usize::try_from(extra).unwrap_or(usize::MAX) }),
        }
        let mut packet = LpPacket { is_canonical: true, ..LpPacket::default() };
        if body_len > 0 {
            value = packet.cut_fragment_head(value, body_len)?;
        }
        let mut reader = Reader::new(FIELD, value);
        let (mut before, mut fragment_seen) = (0, false);
        while let Some(element) = reader.element()? {
            if fragment_seen || packet.fragment_is_behind && element.kind == types::LP_FRAGMENT {
                return Err(WireError::Critical { field: FIELD, kind: element.kind });
            }
            if element.kind == types::LP_FRAGMENT {
                fragment_seen = true;
                packet.fragment = Some(element.value);
                continue;
            }
            packet.is_canonical &= element.kind > before || (element.kind == before && before == types::LP_ACK);
            before = element.kind;
            packet.header(element.kind, element.value)?;
        }
        Ok(packet)
    }
    /// The headers before a fragment that is announced at the very end of `value` and stored elsewhere.
    fn cut_fragment_head<'b>(&mut self, value: &'b [u8], body_len: usize) -> Result<&'b [u8], WireError> {
        let head_len = 1 + number_len(body_len as u64);
        let at = value.len().checked_sub(head_len).ok_or(WireError::Missing { field: "Fragment" })?;
        let (headers, head) = value.split_at(at);
        let announced = read_number(&head[1..]).map(|(length, _)| length);
        if u32::from(head[0]) != types::LP_FRAGMENT || announced != Some(body_len as u64) {
            return Err(WireError::Missing { field: "Fragment" });
        }
        self.fragment_is_behind = true;
        Ok(headers)
    }
    fn header(&mut self, kind: u32, value: &'a [u8]) -> Result<(), WireError> {
        match kind {
            types::LP_SEQUENCE => {
                let number = self.fixed("Sequence", value)?;
                once(&mut self.sequence, number, kind)
            }
            types::LP_FRAG_INDEX => {
                let number = self.integer("FragIndex", value)?;
                once(&mut self.frag_index, number, kind)
            }
            types::LP_FRAG_COUNT => {
                let number = self.integer("FragCount", value)?;
                once(&mut self.frag_count, number, kind)
            }
            types::LP_PIT_TOKEN => match value.len() {
                1..=PIT_TOKEN_BYTES_MAX => once(&mut self.pit_token, value, kind),
                bytes => Err(WireError::Length { field: "PitToken", bytes }),
            },
            types::LP_NACK => {
                let reason = self.nested("Nack", value, &[types::LP_NACK_REASON])?;
                self.is_canonical &= reason != Some(0);
                once(&mut self.nack, NackReason::from(reason.unwrap_or(0)), kind)
            }
            types::LP_INCOMING_FACE => {
                let number = self.integer("IncomingFaceId", value)?;
                once(&mut self.incoming_face, number, kind)
            }
            types::LP_NEXT_HOP_FACE => {
                let number = self.integer("NextHopFaceId", value)?;
                once(&mut self.next_hop_face, number, kind)
            }
            types::LP_CACHE_POLICY => {
                let policy = self.nested("CachePolicy", value, &[types::LP_CACHE_POLICY_TYPE])?;
                once(&mut self.cache_policy, policy.ok_or(WireError::Missing { field: "CachePolicyType" })?, kind)
            }
            types::LP_CONGESTION_MARK => {
                let number = self.integer("CongestionMark", value)?;
                once(&mut self.congestion_mark, number, kind)
            }
            types::LP_ACK => {
                if self.acks.len() >= ACKS_MAX {
                    return Err(WireError::Value { field: "number of Acks", found: ACKS_MAX as u64 + 1 });
                }
                let number = self.fixed("Ack", value)?;
                self.acks.push(number);
                Ok(())
            }
            types::LP_TX_SEQUENCE => {
                let number = self.fixed("TxSequence", value)?;
                once(&mut self.tx_sequence, number, kind)
            }
            types::LP_NON_DISCOVERY => set(&mut self.non_discovery, "NonDiscovery", value, kind),
            types::LP_PREFIX_ANNOUNCEMENT => once(&mut self.prefix_announcement, value, kind),
            _ => self.path_header(kind, value),
        }
    }
    fn path_header(&mut self, kind: u32, value: &'a [u8]) -> Result<(), WireError> {
        match kind {
            types::LP_PATH_TAG => once(&mut self.tag, PathTag::parse(value)?, kind),
            types::LP_PATH_TAG_BITS => once(&mut self.tag_bits, BitTag::parse(value)?, kind),
            types::LP_PATH_PROBE => set(&mut self.probe, "PathProbe", value, kind),
            types::LP_PATH_ORIGIN => {
                let origin = match self.integer("PathOrigin", value)? {
                    1 => Origin::Cache,
                    2 => Origin::Aggregation,
                    found => return Err(WireError::Value { field: "PathOrigin", found }),
                };
                once(&mut self.origin, origin, kind)
            }
            types::LP_PATH_FAILED => set(&mut self.path_failed, "PathFailed", value, kind),
            types::LP_MTU_PROBE => {
                let (number, zeros) = probe_number("MtuProbe", value)?;
                once(&mut self.mtu_probe, (number, zeros_only("MtuProbe", zeros)?), kind)
            }
            types::LP_MTU_ANSWER => match probe_number("MtuAnswer", value)? {
                (number, []) => once(&mut self.mtu_answer, number, kind),
                _ => Err(WireError::Length { field: "MtuAnswer", bytes: value.len() }),
            },
            types::LP_BOOT_PROBE => match probe_number("RunProbe", value)? {
                (number, []) => once(&mut self.boot_probe, number, kind),
                _ => Err(WireError::Length { field: "RunProbe", bytes: value.len() }),
            },
            types::LP_BOOT_ANSWER => once(&mut self.boot_answer, answer_number("RunAnswer", value)?, kind),
            types::LP_PATH_RATES => once(&mut self.rates, PathRates::parse(value)?, kind),
            types::LP_RATE_PROBE => {
                let (number, rest) = probe_number("RateProbe", value)?;
                let [place, last, zeros @ ..] = rest else {
                    return Err(WireError::Length { field: "RateProbe", bytes: value.len() });
                };
                let zeros = zeros_only("RateProbe", zeros)?;
                once(&mut self.rate_probe, RateProbe { number, place: *place, last: *last, zeros }, kind)
            }
            types::LP_RATE_ANSWER => {
                let (number, nanos) = answer_number("RateAnswer", value)?;
                once(&mut self.rate_answer, (number, Duration::from_nanos(nanos)), kind)
            }
            800..=959 if kind.is_multiple_of(4) => {
                self.is_canonical = false;
                Ok(())
            }
            _ => Err(WireError::Critical { field: "LpPacket", kind }),
        }
    }
    fn integer(&mut self, field: &'static str, value: &[u8]) -> Result<u64, WireError> {
        let number = integer(field, value)?;
        self.is_canonical &= value.len() == integer_bytes(number);
        Ok(number)
    }
    /// A number always written with 8 bytes.
    fn fixed(&mut self, field: &'static str, value: &[u8]) -> Result<u64, WireError> {
        self.is_canonical &= value.len() == 8;
        integer(field, value)
    }
    fn nested(&mut self, field: &'static str, value: &[u8], order: &'static [u32]) -> Result<Option<u64>, WireError> {
        let mut sequence = Sequence::new(field, value, order);
        let mut number = None;
        while let Some(element) = sequence.element()? {
            number = Some(sequence.integer(field, &element)?);
        }
        self.is_canonical &= sequence.is_canonical();
        Ok(number)
    }

    /// Whether it has any header, so that the packet needs a link packet around it.
    pub fn has_headers(&self) -> bool {
        let bare = LpPacket { fragment: self.fragment, ..LpPacket::default() };
        let own = LpPacket { is_canonical: false, fragment_is_behind: false, ..self.clone() };
        own != bare
    }
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.fragment.map_or(0, <[u8]>::len));
        self.encode_head(self.fragment.map(<[u8]>::len), &mut out);
        out.extend_from_slice(self.fragment.unwrap_or(&[]));
        out
    }
    /// Appends everything before a fragment of `fragment_len` bytes; `None` for no fragment.
    pub fn encode_head(&self, fragment_len: Option<usize>, out: &mut Vec<u8>) {
        let start = out.len();
        self.encode_low(out);
        encode_link(&self.acks, self.tx_sequence, out);
        self.encode_high(out);
        wrap(start, fragment_len, out);
    }
    /// Appends the headers that precede link reliability's.
    pub(crate) fn encode_low(&self, out: &mut Vec<u8>) {
        if let Some(sequence) = self.sequence {
            out.put_element(types::LP_SEQUENCE, &sequence.to_be_bytes());
        }
        for (kind, value) in [(types::LP_FRAG_INDEX, self.frag_index), (types::LP_FRAG_COUNT, self.frag_count)] {
            if let Some(value) = value {
                out.put_integer(kind, value);
            }
        }
        if let Some(token) = self.pit_token {
            out.put_element(types::LP_PIT_TOKEN, token);
        }
        match self.nack {
            Some(NackReason::Unspecified) => out.put_element(types::LP_NACK, &[]),
            Some(reason) => {
                out.put_nested(types::LP_NACK, |out| out.put_integer(types::LP_NACK_REASON, reason.number()));
            }
            None => {}
        }
        for (kind, value) in
            [(types::LP_INCOMING_FACE, self.incoming_face), (types::LP_NEXT_HOP_FACE, self.next_hop_face)]
        {
            if let Some(value) = value {
                out.put_integer(kind, value);
            }
        }
        if let Some(policy) = self.cache_policy {
            out.put_nested(types::LP_CACHE_POLICY, |out| out.put_integer(types::LP_CACHE_POLICY_TYPE, policy));
        }
        if let Some(mark) = self.congestion_mark {
            out.put_integer(types::LP_CONGESTION_MARK, mark);
        }
    }
    /// Appends the headers that follow link reliability's.
    pub(crate) fn encode_high(&self, out: &mut Vec<u8>) {
        if self.non_discovery {
            out.put_element(types::LP_NON_DISCOVERY, &[]);
        }
        if let Some(announcement) = self.prefix_announcement {
            out.put_element(types::LP_PREFIX_ANNOUNCEMENT, announcement);
        }
        if let Some(tag) = &self.tag {
            out.put_element(types::LP_PATH_TAG, tag.as_bytes());
        }
        if let Some(tag) = &self.tag_bits {
            tag.encode(out);
        }
        if self.probe {
            out.put_element(types::LP_PATH_PROBE, &[]);
        }
        if let Some(origin) = self.origin {
            out.put_integer(types::LP_PATH_ORIGIN, if origin == Origin::Cache { 1 } else { 2 });
        }
        if self.path_failed {
            out.put_element(types::LP_PATH_FAILED, &[]);
        }
        if let Some((number, zeros)) = self.mtu_probe {
            out.put_head(types::LP_MTU_PROBE, 4 + zeros);
            out.extend_from_slice(&number.to_be_bytes());
            out.resize(out.len() + zeros, 0);
        }
        if let Some(number) = self.mtu_answer {
            out.put_element(types::LP_MTU_ANSWER, &number.to_be_bytes());
        }
        if let Some(number) = self.boot_probe {
            out.put_element(types::LP_BOOT_PROBE, &number.to_be_bytes());
        }
        if let Some((number, run)) = self.boot_answer {
            out.put_head(types::LP_BOOT_ANSWER, 12);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&run.to_be_bytes());
        }
        if let Some(rates) = &self.rates {
            out.put_element(types::LP_PATH_RATES, rates.as_bytes());
        }
        if let Some(RateProbe { number, place, last, zeros }) = self.rate_probe {
            out.put_head(types::LP_RATE_PROBE, 6 + zeros);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&[place, last]);
            out.resize(out.len() + zeros, 0);
        }
        if let Some((number, took)) = self.rate_answer {
            out.put_head(types::LP_RATE_ANSWER, 12);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
}

/// Appends the headers of link reliability.
pub(crate) fn encode_link(acks: &[u64], tx_sequence: Option<u64>, out: &mut Vec<u8>) {
    for ack in acks {
        out.put_element(types::LP_ACK, &ack.to_be_bytes());
    }
    if let Some(sequence) = tx_sequence {
        out.put_element(types::LP_TX_SEQUENCE, &sequence.to_be_bytes());
    }
}
/// Puts type and length in front of the headers from `start` on, and announces the fragment behind them.
pub(crate) fn wrap(start: usize, fragment_len: Option<usize>, out: &mut Vec<u8>) {
    if let Some(length) = fragment_len {
        out.put_head(types::LP_FRAGMENT, length);
    }
    let length = out.len() - start + fragment_len.unwrap_or(0);
    let mut head = Vec::with_capacity(10);
    head.put_head(types::LP_PACKET, length);
    out.splice(start..start, head);
}

/// The number of bytes, which must all be zero.
fn zeros_only(field: &'static str, bytes: &[u8]) -> Result<usize, WireError> {
    match bytes.iter().find(|byte| **byte != 0) {
        None => Ok(bytes.len()),
        Some(found) => Err(WireError::Value { field, found: u64::from(*found) }),
    }
}
/// The number at the start of `value`, and the remainder.
fn probe_number<'a>(field: &'static str, value: &'a [u8]) -> Result<(u32, &'a [u8]), WireError> {
    let (number, rest) = value.split_first_chunk().ok_or(WireError::Length { field, bytes: value.len() })?;
    Ok((u32::from_be_bytes(*number), rest))
}
/// The number at the start of `value`, and the 8-byte number that is its only remainder.
fn answer_number(field: &'static str, value: &[u8]) -> Result<(u32, u64), WireError> {
    let (number, rest) = probe_number(field, value)?;
    let rest = rest.try_into().map_err(|_| WireError::Length { field, bytes: value.len() })?;
    Ok((number, u64::from_be_bytes(rest)))
}
fn once<T>(slot: &mut Option<T>, value: T, kind: u32) -> Result<(), WireError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(WireError::Critical { field: "LpPacket", kind }),
    }
}
fn set(flag: &mut bool, field: &'static str, value: &[u8], kind: u32) -> Result<(), WireError> {
    match value.len() {
        0 if !*flag => {
            *flag = true;
            Ok(())
        }
        0 => Err(WireError::Critical { field: "LpPacket", kind }),
        bytes => Err(WireError::Length { field, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unknown_headers_follow_their_rule() {
        let with = |kind: u32| {
            let mut out = Vec::new();
            out.put_nested(types::LP_PACKET, |out| {
                out.put_element(kind, &[1]);
                out.put_element(types::LP_FRAGMENT, &[5, 0]);
            });
            LpPacket::decode(&out).map(|packet| (packet.fragment == Some(&[5, 0][..]), packet.is_canonical))
        };
        for ignored in [804, 808, 956] {
            assert_eq!(with(ignored), Ok((true, false)), "{ignored}");
        }
        for critical in [84, 99, 796, 801, 802, 803, 957, 960, 1000] {
            assert_eq!(with(critical), Err(WireError::Critical { field: "LpPacket", kind: critical }), "{critical}");
        }
    }

    /// A packet with one header and no fragment.
    fn with_header(kind: u32, value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_nested(types::LP_PACKET, |out| out.put_element(kind, value));
        out
    }

    #[test]
    fn probes_of_the_mtu_hold_a_number_and_zeros_and_answers_the_number() {
        let header = |kind, value: &[u8]| {
            let out = with_header(kind, value);
            LpPacket::decode(&out).map(|packet| (packet.mtu_probe, packet.mtu_answer, packet.encode() == out))
        };
        assert_eq!(header(0x0394, &[0, 0, 1, 2, 0, 0]), Ok((Some((258, 2)), None, true)));
        assert_eq!(header(0x0398, &[0, 0, 1, 2]), Ok((None, Some(258), true)));
        assert_eq!(header(0x0394, &[0, 0, 1]), Err(WireError::Length { field: "MtuProbe", bytes: 3 }));
        assert_eq!(header(0x0394, &[0, 0, 1, 2, 9]), Err(WireError::Value { field: "MtuProbe", found: 9 }));
        assert_eq!(header(0x0398, &[0, 0, 1, 2, 0]), Err(WireError::Length { field: "MtuAnswer", bytes: 5 }));
    }

    #[test]
    fn probes_of_the_run_hold_a_number_and_answers_the_number_and_the_run() {
        let header = |kind, value: &[u8]| {
            let out = with_header(kind, value);
            LpPacket::decode(&out).map(|packet| (packet.boot_probe, packet.boot_answer, packet.encode() == out))
        };
        assert_eq!(header(0x039c, &[0, 0, 1, 2]), Ok((Some(258), None, true)));
        assert_eq!(header(0x03a0, &[0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9]), Ok((None, Some((258, 9)), true)));
        assert_eq!(header(0x039c, &[0, 0, 1, 2, 0]), Err(WireError::Length { field: "RunProbe", bytes: 5 }));
        assert_eq!(header(0x03a0, &[0, 0, 1, 2, 9]), Err(WireError::Length { field: "RunAnswer", bytes: 5 }));
    }

    #[test]
    fn probes_of_the_rate_hold_a_number_and_places_and_answers_a_number_and_a_time() {
        let header = |kind, value: &[u8]| {
            let out = with_header(kind, value);
            LpPacket::decode(&out).map(|packet| (packet.rate_probe, packet.rate_answer, packet.encode() == out))
        };
        let probe = RateProbe { number: 258, place: 3, last: 16, zeros: 2 };
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3, 16, 0, 0]), Ok((Some(probe), None, true)));
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3]), Err(WireError::Length { field: "RateProbe", bytes: 5 }));
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3, 16, 0, 9]), Err(WireError::Value { field: "RateProbe", found: 9 }));
        let answer = Some((258, Duration::from_nanos(3 << 8)));
        assert_eq!(header(0x03ac, &[0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0]), Ok((None, answer, true)));
        assert_eq!(header(0x03ac, &[0, 0, 1, 2, 9]), Err(WireError::Length { field: "RateAnswer", bytes: 5 }));
    }

    #[test]
    fn a_header_twice_or_after_the_fragment_is_refused_and_acks_may_repeat() {
        let packet = |parts: &[&[u8]]| {
            let mut out = Vec::new();
            out.put_element(types::LP_PACKET, &parts.concat());
            LpPacket::decode(&out).map(|packet| packet.acks.len()).map_err(|error| error.reason())
        };
        let token: &[u8] = &[98, 1, 7];
        let ack: &[u8] = &[253, 3, 68, 8, 0, 0, 0, 0, 0, 0, 0, 1];
        let twice = Err("malformed: critical element unknown or out of place");
        assert_eq!(packet(&[token]), Ok(0));
        assert_eq!(packet(&[token, token]), twice);
        assert_eq!(packet(&[&[80, 0], token]), twice);
        assert_eq!(packet(&[ack, ack, token]), Ok(2));
        assert_eq!(packet(&[&[98, 0]]), Err("malformed: illegal length"));
        assert_eq!(packet(&[&[98, 33], &[0; 33]]), Err("malformed: illegal length"));
        assert_eq!(packet(&[&ack.repeat(257)]), Err("malformed: illegal value"));
    }

    fn any_packet() -> impl Strategy<Value = (LpParts, Vec<u8>)> {
        (
            proptest::array::uniform6(proptest::option::of(any::<u64>())),
            proptest::option::of(proptest::collection::vec(any::<u8>(), 1..33)),
            (proptest::option::of(0u64..200), proptest::collection::vec(any::<u64>(), 0..4), any::<[bool; 4]>()),
            proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            (proptest::option::of((any::<u32>(), 0usize..600)), proptest::option::of(any::<u32>())),
            (any::<(Option<u32>, Option<(u32, u64)>)>(), proptest::option::of(any::<[[u8; 2]; 3]>())),
            (any::<Option<(u32, [u8; 2])>>(), 0usize..600, any::<Option<(u32, u64)>>()),
            proptest::collection::vec(any::<u8>(), 1..400),
        )
            .prop_map(|(numbers, token, (nack, acks, flags), tag, mtu, (run, rates), train, fragment)| {
                (LpParts { numbers, token, nack, acks, flags, tag, mtu, run, rates, train }, fragment)
            })
    }
    /// Number and places, zeros, and the answer.
    type RateParts = (Option<(u32, [u8; 2])>, usize, Option<(u32, u64)>);
    #[derive(Debug, Clone)]
    struct LpParts {
        numbers: [Option<u64>; 6],
        token: Option<Vec<u8>>,
        nack: Option<u64>,
        acks: Vec<u64>,
        flags: [bool; 4],
        tag: Option<Vec<u8>>,
        mtu: (Option<(u32, usize)>, Option<u32>),
        run: (Option<u32>, Option<(u32, u64)>),
        rates: Option<[[u8; 2]; 3]>,
        train: RateParts,
    }
    impl LpParts {
        fn packet<'a>(&'a self, fragment: &'a [u8]) -> LpPacket<'a> {
            LpPacket {
                sequence: self.numbers[0],
                frag_index: self.numbers[1],
                frag_count: self.numbers[2],
                incoming_face: self.numbers[3],
                congestion_mark: self.numbers[4],
                tx_sequence: self.numbers[5],
                pit_token: self.token.as_deref(),
                nack: self.nack.map(NackReason::from),
                acks: self.acks.clone(),
                cache_policy: self.flags[0].then_some(1),
                non_discovery: self.flags[1],
                probe: self.flags[2],
                origin: self.flags[3].then_some(Origin::Cache),
                tag: self.tag.as_ref().map(|tag| PathTag::parse(tag).unwrap()),
                mtu_probe: self.mtu.0,
                mtu_answer: self.mtu.1,
                boot_probe: self.run.0,
                boot_answer: self.run.1,
                rates: self.rates.as_ref().map(|rates| PathRates::parse(rates.as_flattened()).unwrap()),
                rate_probe: self.train.0.map(|(number, [place, last])| RateProbe {
                    number,
                    place,
                    last,
                    zeros: self.train.1,
                }),
                rate_answer: self.train.2.map(|(number, nanos)| (number, Duration::from_nanos(nanos))),
                fragment: Some(fragment),
                is_canonical: true,
                ..LpPacket::default()
            }
        }
    }

    proptest! {
        #[test]
        fn any_packet_comes_back_whether_its_fragment_lies_behind_or_not((parts, fragment) in any_packet()) {
            let packet = parts.packet(&fragment);
            let bytes = packet.encode();
            let read = LpPacket::decode(&bytes).unwrap();
            prop_assert_eq!(&read, &packet);
            prop_assert_eq!(read.encode(), bytes.clone());
            let head = &bytes[..bytes.len() - fragment.len()];
            let split = LpPacket::decode_head(head, fragment.len()).unwrap();
            prop_assert!(split.fragment_is_behind && split.fragment.is_none());
            prop_assert_eq!(LpPacket { fragment: Some(&fragment), fragment_is_behind: false, ..split }, packet);
            prop_assert!(LpPacket::decode_head(head, fragment.len() + 1).is_err());
        }
        #[test]
        fn any_bytes_are_read_without_panic_and_what_is_canonical_comes_back(
            (parts, fragment) in any_packet(), flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = parts.packet(&fragment).encode();
            for (at, value) in flips {
                let at = usize::from(at) % bytes.len();
                bytes[at] = value;
            }
            if let Ok(packet) = LpPacket::decode(&bytes) && packet.is_canonical {
                prop_assert_eq!(packet.encode(), bytes);
            }
        }
    }
}
