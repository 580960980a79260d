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

/// Where the value of a header goes.
trait Slot<T> {
    /// Takes a value; false if there was one before.
    fn fill(&mut self, value: T) -> bool;
    /// What it has.
    fn value(&self) -> Option<&T>;
}
impl<T> Slot<T> for Option<T> {
    fn fill(&mut self, value: T) -> bool {
        self.replace(value).is_none()
    }
    fn value(&self) -> Option<&T> {
        self.as_ref()
    }
}
/// For headers without a value.
impl Slot<()> for bool {
    fn fill(&mut self, (): ()) -> bool {
        !core::mem::replace(self, true)
    }
    fn value(&self) -> Option<&()> {
        self.then_some(&())
    }
}

/// Declares the link packet. A header has its type number, its name in errors, its field with the type, how its value
/// is read and how the header is appended; the reader is told by a flag that starts as true, and clears it, if the
/// writer will not return the same bytes.
macro_rules! link_packet {
    ($(#[$meta:meta])* pub struct LpPacket<$a:lifetime> {
        $($(#[$doc:meta])* $kind:literal $name:literal => $field:ident: $type:ty = ($read:expr, $put:expr),)*
    } and {
        $($(#[$own_doc:meta])* pub $own:ident: $own_type:ty,)*
    }) => {
        $(#[$meta])*
        pub struct LpPacket<$a> {
            $($(#[$doc])* pub $field: $type,)*
            $($(#[$own_doc])* pub $own: $own_type,)*
        }
        impl<$a> LpPacket<$a> {
            fn header(&mut self, kind: u32, value: &$a [u8]) -> Result<(), WireError> {
                let is_first = match kind {
                    $($kind => {
                        let read = $read($name, value, &mut self.is_canonical)?;
                        self.$field.fill(read)
                    })*
                    types::LP_ACK if self.acks.len() < ACKS_MAX => {
                        self.acks.push(fixed("Ack", value, &mut self.is_canonical)?);
                        true
                    }
                    types::LP_ACK => {
                        return Err(WireError::Value("number of Acks", ACKS_MAX as u64 + 1));
                    }
                    800..=959 if kind.is_multiple_of(4) => {
                        self.is_canonical = false;
                        true
                    }
                    _ => false,
                };
                if is_first { Ok(()) } else { Err(WireError::Critical("LpPacket", kind)) }
            }
            /// Appends the headers that precede acknowledgements, or those that follow them.
            fn put_headers<const FOLLOWING: bool>(&self, out: &mut Vec<u8>) {
                $(if ($kind > types::LP_ACK) == FOLLOWING && let Some(value) = self.$field.value() {
                    $put($kind, value, out);
                })*
            }
        }
    };
}

link_packet! {
    /// A link packet, as a view over its bytes or to be encoded.
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct LpPacket<'a> {
        /// Number of the piece on this link.
        81 "Sequence" => sequence: Option<u64> = (fixed, put_fixed),
        /// Number of the piece in its packet; `None` means 0.
        82 "FragIndex" => frag_index: Option<u64> = (number, put_number),
        /// Pieces of the packet; `None` means 1.
        83 "FragCount" => frag_count: Option<u64> = (number, put_number),
        /// To be returned with the answer, 1 to 32 bytes.
        98 "PitToken" => pit_token: Option<&'a [u8]> = (token, put_bytes),
        /// The Interest is returned unanswered.
        800 "Nack" => nack: Option<NackReason> = (nack, put_nack),
        /// The face on which it arrived, for a local application.
        812 "IncomingFaceId" => incoming_face: Option<u64> = (number, put_number),
        /// The face to use, chosen by a local application.
        816 "NextHopFaceId" => next_hop_face: Option<u64> = (number, put_number),
        /// The cache policy; 1 means not to cache.
        820 "CachePolicy" => cache_policy: Option<u64> = (cache_policy, put_cache_policy),
        /// A queue on the way is long.
        832 "CongestionMark" => congestion_mark: Option<u64> = (number, put_number),
        /// Number for acknowledgement; [`encode_link`] appends it.
        840 "TxSequence" => tx_sequence: Option<u64> = (fixed, put_elsewhere),
        /// Self-learning: no discovery.
        844 "NonDiscovery" => non_discovery: bool = (nothing, put_nothing),
        /// Self-learning: a signed announcement.
        848 "PrefixAnnouncement" => prefix_announcement: Option<&'a [u8]> = (bytes, put_bytes),
        /// PTP: the labels of the path, a stack in one byte string; see [`super::tag`].
        0x0380 "PathTag" => tag: Option<PathTag<'a>> = (path_tag, put_path_tag),
        /// PTP: the labels of the path as bits; see [`super::huffman`].
        0x0384 "PathTagBits" => tag_bits: Option<BitTag<'a>> = (bit_tag, put_bit_tag),
        /// PTP, on an Interest: go to a producer, by no cache, and bring a tag back.
        0x0388 "PathProbe" => probe: bool = (nothing, put_nothing),
        /// PTP, on a Data: its origin, if no producer sent it for this Interest.
        0x038c "PathOrigin" => origin: Option<Origin> = (origin, put_origin),
        /// PTP, on a Data or Nack: the tag could not be followed.
        0x0390 "PathFailed" => path_failed: bool = (nothing, put_nothing),
        /// Whether a datagram of this size arrives: a number of 4 bytes to be sent back, and how many zeros follow it.
        /// RFC 8899.
        0x0394 "MtuProbe" => mtu_probe: Option<(u32, usize)> = (mtu_probe, put_mtu_probe),
        /// It does: the number of the probe.
        0x0398 "MtuAnswer" => mtu_answer: Option<u32> = (short, put_short),
        /// Probes for the neighbour's boot number: a number of 4 bytes to send back.
        0x039c "RunProbe" => boot_probe: Option<u32> = (short, put_short),
        /// The number of such a probe, and the boot number: 8 bytes that differ from start to start.
        0x03a0 "RunAnswer" => boot_answer: Option<(u32, u64)> = (answer, put_answer),
        /// PTP, on a Data that answers a probe: the rates of the labels' links; see [`super::tag::PathRates`].
        0x03a4 "PathRates" => rates: Option<PathRates<'a>> = (path_rates, put_path_rates),
        /// A packet of a train that measures the rate of the link: the train's number of 4 bytes, the packet's place in
        /// it and the last place, a byte each, then zeros.
        0x03a8 "RateProbe" => rate_probe: Option<RateProbe> = (rate_probe, put_rate_probe),
        /// The number of such a train, and the time between the arrivals of its first and its last packet, in 8 bytes
        /// as ns.
        0x03ac "RateAnswer" => rate_answer: Option<(u32, Duration)> = (rate_answer, put_rate_answer),
    } and {
        /// TxSequences that arrived.
        pub acks: Vec<u64>,
        /// The packet or a piece of it; `None` for a packet of headers only, or if it follows the bytes read.
        pub fragment: Option<&'a [u8]>,
        /// Whether the fragment follows the bytes read; see [`LpPacket::decode_head`].
        pub fragment_is_behind: bool,
        /// Whether [`LpPacket::encode`] yields the original bytes; meaningless for a packet to be encoded.
        pub is_canonical: bool,
    }
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
        let (kind, at) = read_number(head).ok_or(WireError::Number(FIELD, 0))?;
        if kind != u64::from(types::LP_PACKET) {
            return Err(WireError::Missing(FIELD));
        }
        let (length, more) = read_number(&head[at..]).ok_or(WireError::Number(FIELD, at))?;
        let mut value = &head[at + more..];
        let have = value.len() + body_len;
        match u64::try_from(have).unwrap_or(u64::MAX).checked_sub(length) {
            None => return Err(WireError::Short(FIELD, length, have)),
            Some(0) => {}
            Some(extra) => return Err(WireError::Trailing(usize::try_from(extra).unwrap_or(usize::MAX))),
        }
        let mut packet = LpPacket { is_canonical: true, ..LpPacket::default() };
        if body_len > 0 {
            value = packet.cut_fragment_head(value, body_len)?;
        }
        let mut reader = Reader::new(FIELD, value);
        let (mut before, mut fragment_seen) = (0, false);
        while let Some(element) = reader.element()? {
            if fragment_seen || packet.fragment_is_behind && element.kind == types::LP_FRAGMENT {
                return Err(WireError::Critical(FIELD, element.kind));
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
        let at = value.len().checked_sub(head_len).ok_or(WireError::Missing("Fragment"))?;
        let (headers, head) = value.split_at(at);
        let announced = read_number(&head[1..]).map(|(length, _)| length);
        if u32::from(head[0]) != types::LP_FRAGMENT || announced != Some(body_len as u64) {
            return Err(WireError::Missing("Fragment"));
        }
        self.fragment_is_behind = true;
        Ok(headers)
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
        self.put_headers::<false>(out);
    }
    /// Appends the headers that follow link reliability's.
    pub(crate) fn encode_high(&self, out: &mut Vec<u8>) {
        self.put_headers::<true>(out);
    }
}

/// Appends the headers of link reliability.
pub(crate) fn encode_link(acks: &[u64], tx_sequence: Option<u64>, out: &mut Vec<u8>) {
    for ack in acks {
        put_fixed(types::LP_ACK, ack, out);
    }
    if let Some(sequence) = tx_sequence {
        put_fixed(types::LP_TX_SEQUENCE, &sequence, out);
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

fn number(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<u64, WireError> {
    let number = integer(field, value)?;
    *is_canonical &= value.len() == integer_bytes(number);
    Ok(number)
}
fn put_number(kind: u32, number: &u64, out: &mut Vec<u8>) {
    out.put_integer(kind, *number);
}
/// A number always written with 8 bytes.
fn fixed(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<u64, WireError> {
    *is_canonical &= value.len() == 8;
    integer(field, value)
}
fn put_fixed(kind: u32, number: &u64, out: &mut Vec<u8>) {
    out.put_element(kind, &number.to_be_bytes());
}
fn put_elsewhere(_: u32, _: &u64, _: &mut Vec<u8>) {}
fn bytes<'a>(_: &'static str, value: &'a [u8], _: &mut bool) -> Result<&'a [u8], WireError> {
    Ok(value)
}
fn put_bytes(kind: u32, value: &&[u8], out: &mut Vec<u8>) {
    out.put_element(kind, value);
}
fn nothing(field: &'static str, value: &[u8], _: &mut bool) -> Result<(), WireError> {
    if value.is_empty() { Ok(()) } else { Err(WireError::Length(field, value.len())) }
}
fn put_nothing(kind: u32, (): &(), out: &mut Vec<u8>) {
    out.put_element(kind, &[]);
}
fn token<'a>(field: &'static str, value: &'a [u8], _: &mut bool) -> Result<&'a [u8], WireError> {
    match value.len() {
        1..=PIT_TOKEN_BYTES_MAX => Ok(value),
        bytes => Err(WireError::Length(field, bytes)),
    }
}
/// The number in the only element that counts.
fn nested(
    field: &'static str,
    value: &[u8],
    order: &'static [u32],
    is_canonical: &mut bool,
) -> Result<Option<u64>, WireError> {
    let mut sequence = Sequence::new(field, value, order);
    let mut number = None;
    while let Some(element) = sequence.element()? {
        number = Some(sequence.integer(field, &element)?);
    }
    *is_canonical &= sequence.is_canonical();
    Ok(number)
}
fn nack(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<NackReason, WireError> {
    let reason = nested(field, value, &[types::LP_NACK_REASON], is_canonical)?;
    *is_canonical &= reason != Some(0);
    Ok(NackReason::from(reason.unwrap_or(0)))
}
fn put_nack(kind: u32, reason: &NackReason, out: &mut Vec<u8>) {
    match reason {
        NackReason::Unspecified => out.put_element(kind, &[]),
        reason => out.put_nested(kind, |out| out.put_integer(types::LP_NACK_REASON, reason.number())),
    }
}
fn cache_policy(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<u64, WireError> {
    let policy = nested(field, value, &[types::LP_CACHE_POLICY_TYPE], is_canonical)?;
    policy.ok_or(WireError::Missing("CachePolicyType"))
}
fn put_cache_policy(kind: u32, policy: &u64, out: &mut Vec<u8>) {
    out.put_nested(kind, |out| out.put_integer(types::LP_CACHE_POLICY_TYPE, *policy));
}
fn origin(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<Origin, WireError> {
    match number(field, value, is_canonical)? {
        1 => Ok(Origin::Cache),
        2 => Ok(Origin::Aggregation),
        found => Err(WireError::Value(field, found)),
    }
}
fn put_origin(kind: u32, origin: &Origin, out: &mut Vec<u8>) {
    out.put_integer(kind, if *origin == Origin::Cache { 1 } else { 2 });
}
fn path_tag<'a>(_: &'static str, value: &'a [u8], _: &mut bool) -> Result<PathTag<'a>, WireError> {
    PathTag::parse(value)
}
fn put_path_tag(kind: u32, tag: &PathTag<'_>, out: &mut Vec<u8>) {
    out.put_element(kind, tag.as_bytes());
}
fn bit_tag<'a>(_: &'static str, value: &'a [u8], _: &mut bool) -> Result<BitTag<'a>, WireError> {
    BitTag::parse(value)
}
fn put_bit_tag(kind: u32, tag: &BitTag<'_>, out: &mut Vec<u8>) {
    tag.encode(kind, out);
}
fn path_rates<'a>(_: &'static str, value: &'a [u8], _: &mut bool) -> Result<PathRates<'a>, WireError> {
    PathRates::parse(value)
}
fn put_path_rates(kind: u32, rates: &PathRates<'_>, out: &mut Vec<u8>) {
    out.put_element(kind, rates.as_bytes());
}
/// The number of bytes, which must all be zero.
fn zeros_only(field: &'static str, bytes: &[u8]) -> Result<usize, WireError> {
    match bytes.iter().find(|byte| **byte != 0) {
        None => Ok(bytes.len()),
        Some(found) => Err(WireError::Value(field, u64::from(*found))),
    }
}
/// The number at the start of `value`, and the remainder.
fn probe_number<'a>(field: &'static str, value: &'a [u8]) -> Result<(u32, &'a [u8]), WireError> {
    let (number, rest) = value.split_first_chunk().ok_or(WireError::Length(field, value.len()))?;
    Ok((u32::from_be_bytes(*number), rest))
}
fn mtu_probe(field: &'static str, value: &[u8], _: &mut bool) -> Result<(u32, usize), WireError> {
    let (number, zeros) = probe_number(field, value)?;
    Ok((number, zeros_only(field, zeros)?))
}
fn put_mtu_probe(kind: u32, (number, zeros): &(u32, usize), out: &mut Vec<u8>) {
    out.put_head(kind, 4 + zeros);
    out.extend_from_slice(&number.to_be_bytes());
    out.resize(out.len() + zeros, 0);
}
/// A number of 4 bytes.
fn short(field: &'static str, value: &[u8], _: &mut bool) -> Result<u32, WireError> {
    match probe_number(field, value)? {
        (number, []) => Ok(number),
        _ => Err(WireError::Length(field, value.len())),
    }
}
fn put_short(kind: u32, number: &u32, out: &mut Vec<u8>) {
    out.put_element(kind, &number.to_be_bytes());
}
/// A number of 4 bytes and one of 8 bytes.
fn answer(field: &'static str, value: &[u8], _: &mut bool) -> Result<(u32, u64), WireError> {
    let (number, rest) = probe_number(field, value)?;
    let rest = rest.try_into().map_err(|_| WireError::Length(field, value.len()))?;
    Ok((number, u64::from_be_bytes(rest)))
}
fn put_answer(kind: u32, (number, value): &(u32, u64), out: &mut Vec<u8>) {
    out.put_head(kind, 12);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}
fn rate_probe(field: &'static str, value: &[u8], _: &mut bool) -> Result<RateProbe, WireError> {
    let (number, rest) = probe_number(field, value)?;
    let [place, last, zeros @ ..] = rest else { return Err(WireError::Length(field, value.len())) };
    Ok(RateProbe { number, place: *place, last: *last, zeros: zeros_only(field, zeros)? })
}
fn put_rate_probe(kind: u32, RateProbe { number, place, last, zeros }: &RateProbe, out: &mut Vec<u8>) {
    out.put_head(kind, 6 + zeros);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&[*place, *last]);
    out.resize(out.len() + zeros, 0);
}
fn rate_answer(field: &'static str, value: &[u8], is_canonical: &mut bool) -> Result<(u32, Duration), WireError> {
    answer(field, value, is_canonical).map(|(number, nanos)| (number, Duration::from_nanos(nanos)))
}
fn put_rate_answer(kind: u32, (number, took): &(u32, Duration), out: &mut Vec<u8>) {
    put_answer(kind, &(*number, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)), out);
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
            assert_eq!(with(critical), Err(WireError::Critical("LpPacket", critical)), "{critical}");
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
        assert_eq!(header(0x0394, &[0, 0, 1]), Err(WireError::Length("MtuProbe", 3)));
        assert_eq!(header(0x0394, &[0, 0, 1, 2, 9]), Err(WireError::Value("MtuProbe", 9)));
        assert_eq!(header(0x0398, &[0, 0, 1, 2, 0]), Err(WireError::Length("MtuAnswer", 5)));
    }

    #[test]
    fn probes_of_the_run_hold_a_number_and_answers_the_number_and_the_run() {
        let header = |kind, value: &[u8]| {
            let out = with_header(kind, value);
            LpPacket::decode(&out).map(|packet| (packet.boot_probe, packet.boot_answer, packet.encode() == out))
        };
        assert_eq!(header(0x039c, &[0, 0, 1, 2]), Ok((Some(258), None, true)));
        assert_eq!(header(0x03a0, &[0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9]), Ok((None, Some((258, 9)), true)));
        assert_eq!(header(0x039c, &[0, 0, 1, 2, 0]), Err(WireError::Length("RunProbe", 5)));
        assert_eq!(header(0x03a0, &[0, 0, 1, 2, 9]), Err(WireError::Length("RunAnswer", 5)));
    }

    #[test]
    fn probes_of_the_rate_hold_a_number_and_places_and_answers_a_number_and_a_time() {
        let header = |kind, value: &[u8]| {
            let out = with_header(kind, value);
            LpPacket::decode(&out).map(|packet| (packet.rate_probe, packet.rate_answer, packet.encode() == out))
        };
        let probe = RateProbe { number: 258, place: 3, last: 16, zeros: 2 };
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3, 16, 0, 0]), Ok((Some(probe), None, true)));
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3]), Err(WireError::Length("RateProbe", 5)));
        assert_eq!(header(0x03a8, &[0, 0, 1, 2, 3, 16, 0, 9]), Err(WireError::Value("RateProbe", 9)));
        let answer = Some((258, Duration::from_nanos(3 << 8)));
        assert_eq!(header(0x03ac, &[0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0]), Ok((None, answer, true)));
        assert_eq!(header(0x03ac, &[0, 0, 1, 2, 9]), Err(WireError::Length("RateAnswer", 5)));
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
