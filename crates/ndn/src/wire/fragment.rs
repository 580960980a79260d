//! Packets longer than the MTU: fragmented at one end of a link, reassembled at the other. NDNLPv2, "Fragmentation".
//!
//! Fragments of one packet have consecutive sequence numbers; the first carries the packet's other headers. A receiver
//! keeps few incomplete packets, each for a short time, so that incomplete ones cost little.
use alloc::{collections::BTreeMap, vec, vec::Vec};

use bytes::Bytes;
use tributary_core::{Duration, Time};

use super::{LpPacket, PACKET_BYTES_MAX, lp, tlv::number_len};

tributary_core::declared! {
    /// Limits of reassembly on one face.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ReassemblyLimits {
        /// Pieces of one packet. Default: 400, as NFD has it.
        pub pieces_max: u64 = 400,
        /// Maximum packets in reassembly; the oldest is dropped first. Default: 64.
        pub packets_max: usize = 64,
        /// How long a packet may lack a piece. Default: 500 ms, as NFD has it.
        pub patience: Duration = Duration::from_millis(500),
    }
}

/// A packet or a piece of one, before the headers of link reliability are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
    /// The bytes behind the headers.
    pub fragment: Bytes,
}

impl Piece {
    /// The headers of `packet`, but for acknowledgements and TxSequence, in front of `fragment`.
    pub fn new(packet: &LpPacket<'_>, fragment: Bytes) -> Piece {
        let mut piece = Piece { fragment, ..Piece::default() };
        packet.encode_low(&mut piece.low);
        packet.encode_high(&mut piece.high);
        piece
    }
    /// Bytes without the headers of link reliability.
    pub fn bytes(&self) -> usize {
        let inner = self.low.len() + self.high.len() + 1 + number_len(self.fragment.len() as u64) + self.fragment.len();
        1 + number_len(inner as u64) + inner
    }
    /// Everything in front of the fragment.
    pub fn head(&self, acks: &[u64], tx_sequence: Option<u64>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.low.len() + self.high.len() + 16 + 12 * (acks.len() + 1));
        out.extend_from_slice(&self.low);
        lp::encode_link(acks, tx_sequence, &mut out);
        out.extend_from_slice(&self.high);
        lp::wrap(0, Some(self.fragment.len()), &mut out);
        out
    }
}

/// Maximum bytes of the headers of fragmentation and of a TxSequence: Sequence 10, FragIndex 4, FragCount 4, TxSequence
/// 12, LpPacket 4, Fragment 4.
const PIECE_OVERHEAD_BYTES: usize = 38;

/// Which pieces have a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// Only packets that are cut.
    WhenCut,
    /// All, as link reliability needs it.
    Always,
}

/// Cuts a packet with these headers into pieces that fit `mtu`, numbered from `next_sequence` on. `None` if the headers
/// fill the MTU, or there would be more than `pieces_max`.
pub fn cut(
    headers: &LpPacket<'_>,
    packet: &Bytes,
    mtu: usize,
    pieces_max: u64,
    numbering: Numbering,
    next_sequence: &mut u64,
) -> Option<Vec<Piece>> {
    let assembled = Piece::new(headers, packet.clone());
    // A TxSequence may be added, and a Sequence.
    if assembled.bytes() + 22 <= mtu {
        if numbering == Numbering::Always {
            let headers = LpPacket { sequence: Some(*next_sequence), ..headers.clone() };
            *next_sequence = next_sequence.wrapping_add(1);
            return Some(vec![Piece::new(&headers, packet.clone())]);
        }
        return Some(vec![assembled]);
    }
    let later_room = mtu.checked_sub(PIECE_OVERHEAD_BYTES).filter(|room| *room > 0)?;
    let first_room = later_room.checked_sub(assembled.low.len() + assembled.high.len()).filter(|room| *room > 0)?;
    let count = 1 + packet.len().saturating_sub(first_room).div_ceil(later_room) as u64;
    if count > pieces_max {
        return None;
    }
    let mut pieces = Vec::with_capacity(usize::try_from(count).ok()?);
    let mut at = 0;
    for index in 0..count {
        let room = if index == 0 { first_room } else { later_room };
        let end = (at + room).min(packet.len());
        let base = if index == 0 { headers.clone() } else { LpPacket::default() };
        let headers =
            LpPacket { sequence: Some(*next_sequence), frag_index: Some(index), frag_count: Some(count), ..base };
        pieces.push(Piece::new(&headers, packet.slice(at..end)));
        *next_sequence = next_sequence.wrapping_add(1);
        at = end;
    }
    Some(pieces)
}

/// Puts packets together again.
#[derive(Clone, Debug, Default)]
pub struct Reassembler {
    limits: ReassemblyLimits,
    /// By sequence number of the first piece.
    packets: BTreeMap<u64, Partial>,
    /// Dropped incomplete packets: too old, or too many at once.
    pub given_up: u64,
}

#[derive(Clone, Debug)]
struct Partial {
    since: Time,
    count: u64,
    bytes: usize,
    /// The first piece as received, for its headers.
    first: Option<Bytes>,
    /// What the first pieces hold, and how many they are.
    assembled: Vec<u8>,
    joined: u64,
    /// Pieces that arrived before an earlier one. All are copies: a slice of a receive buffer keeps all of that alive.
    later: BTreeMap<u64, Vec<u8>>,
}

/// A piece that cannot be part of a packet: the reason it was dropped.
pub mod reason {
    /// Index beyond count, too many pieces, a count that differs from the others', or no sequence number.
    pub const INCONSISTENT: &str = "fragment contradicts others";
    /// More bytes than a packet may have.
    pub const TOO_LONG: &str = "fragments longer than a packet";
}

impl Reassembler {
    /// A reassembler with these limits.
    pub fn new(limits: ReassemblyLimits) -> Self {
        Reassembler { limits, packets: BTreeMap::new(), given_up: 0 }
    }
    /// Takes a piece: its parsed headers, itself, and its fragment. Returns the first piece as it arrived (for its
    /// headers) and the reassembled packet, once all pieces have arrived.
    ///
    /// # Errors
    /// One of [`reason`] if it cannot be part of a packet.
    pub fn handle_piece(
        &mut self,
        now: Time,
        headers: &LpPacket<'_>,
        piece: &Bytes,
        fragment: &Bytes,
    ) -> Result<Option<(Bytes, Bytes)>, &'static str> {
        let (index, count) = (headers.frag_index.unwrap_or(0), headers.frag_count.unwrap_or(1));
        let sequence = headers.sequence.ok_or(reason::INCONSISTENT)?;
        if index >= count || count > self.limits.pieces_max {
            return Err(reason::INCONSISTENT);
        }
        let key = sequence.wrapping_sub(index);
        if !self.packets.contains_key(&key) && self.packets.len() >= self.limits.packets_max {
            let oldest = self.packets.iter().min_by_key(|(_, partial)| partial.since).map(|(key, _)| *key);
            oldest.map(|key| self.packets.remove(&key));
            self.given_up += 1;
        }
        let partial = self.packets.entry(key).or_insert_with(|| Partial {
            since: now,
            count,
            bytes: 0,
            first: None,
            assembled: Vec::with_capacity(
                usize::try_from(count)
                    .map_or(PACKET_BYTES_MAX, |count| count.saturating_mul(fragment.len()).min(PACKET_BYTES_MAX)),
            ),
            joined: 0,
            later: BTreeMap::new(),
        });
        if partial.count != count {
            return Err(reason::INCONSISTENT);
        }
        if index < partial.joined || partial.later.contains_key(&index) {
            return Ok(None);
        }
        if partial.bytes + fragment.len() > PACKET_BYTES_MAX {
            self.packets.remove(&key);
            return Err(reason::TOO_LONG);
        }
        partial.bytes += fragment.len();
        if index == 0 {
            partial.first = Some(Bytes::copy_from_slice(piece));
        }
        if index > partial.joined {
            partial.later.insert(index, fragment.to_vec());
            return Ok(None);
        }
        partial.assembled.extend_from_slice(fragment);
        partial.joined += 1;
        while let Some(next) = partial.later.remove(&partial.joined) {
            partial.assembled.extend_from_slice(&next);
            partial.joined += 1;
        }
        if partial.joined != count {
            return Ok(None);
        }
        let Some(partial) = self.packets.remove(&key) else { return Ok(None) };
        Ok(partial.first.map(|first| (first, partial.assembled.into())))
    }
    /// Drops packets that lack a piece for too long.
    pub fn handle_timeout(&mut self, now: Time) {
        let patience = self.limits.patience;
        let before = self.packets.len();
        self.packets.retain(|_, partial| partial.since + patience > now);
        self.given_up += (before - self.packets.len()) as u64;
    }
    /// When to call [`Reassembler::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.packets.values().map(|partial| partial.since + self.limits.patience).min()
    }
    /// Packets in pieces.
    #[cfg(any(test, feature = "internals"))]
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    /// Whether no packet is in pieces.
    #[cfg(any(test, feature = "internals"))]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(into: &mut Reassembler, now: Time, piece: &Piece) -> Result<Option<(Bytes, Bytes)>, &'static str> {
        let head = piece.head(&[], None);
        let assembled = Bytes::from([&head[..], &piece.fragment].concat());
        let headers = LpPacket::decode(&assembled).unwrap();
        into.handle_piece(now, &headers, &assembled, &piece.fragment)
    }

    #[test]
    fn partial_packets_are_few_and_short_lived() {
        let limits = ReassemblyLimits { packets_max: 2, ..ReassemblyLimits::default() };
        let mut into = Reassembler::new(limits);
        let packet = Bytes::from(vec![7; 3000]);
        let mut sequence = 0;
        let cuts: Vec<_> = (0..3)
            .map(|_| cut(&LpPacket::default(), &packet, 1400, 400, Numbering::WhenCut, &mut sequence).unwrap())
            .collect();
        for (at, pieces) in cuts.iter().enumerate() {
            assert_eq!(feed(&mut into, Time::from_millis(at as u64), &pieces[0]), Ok(None));
        }
        assert_eq!((into.len(), into.given_up), (2, 1));
        assert_eq!(into.poll_timeout(), Some(Time::from_millis(501)));
        into.handle_timeout(Time::from_millis(501));
        assert_eq!((into.len(), into.given_up), (1, 2));
        for piece in &cuts[2][1..] {
            let _ = feed(&mut into, Time::from_millis(502), piece);
        }
        assert!(into.is_empty());
    }

    #[test]
    fn pieces_that_contradict_each_other_are_refused() {
        let mut into = Reassembler::new(ReassemblyLimits::default());
        let piece = |sequence: Option<u64>, index, count, bytes: usize| {
            let headers =
                LpPacket { sequence, frag_index: Some(index), frag_count: Some(count), ..LpPacket::default() };
            Piece::new(&headers, Bytes::from(vec![0; bytes]))
        };
        let mut feed = |piece| feed(&mut into, Time::ZERO, &piece);
        assert_eq!(feed(piece(None, 0, 2, 1)), Err(reason::INCONSISTENT));
        assert_eq!(feed(piece(Some(5), 2, 2, 1)), Err(reason::INCONSISTENT));
        assert_eq!(feed(piece(Some(5), 0, 401, 1)), Err(reason::INCONSISTENT));
        assert_eq!(feed(piece(Some(5), 0, 3, 5000)), Ok(None));
        assert_eq!(feed(piece(Some(6), 1, 2, 1)), Err(reason::INCONSISTENT));
        assert_eq!(feed(piece(Some(6), 1, 3, 5000)), Err(reason::TOO_LONG));
    }

    proptest! {
        #[test]
        fn any_packet_comes_back_from_its_pieces_in_any_order(
            bytes in proptest::collection::vec(any::<u8>(), 1..PACKET_BYTES_MAX),
            mtu in 100usize..9000, token in proptest::collection::vec(any::<u8>(), 1..33),
            first in any::<u64>(), order in any::<u64>(),
        ) {
            let packet = Bytes::from(bytes);
            let headers = LpPacket { pit_token: Some(&token), ..LpPacket::default() };
            let mut sequence = first;
            let mut pieces = cut(&headers, &packet, mtu, 400, Numbering::WhenCut, &mut sequence).unwrap();
            prop_assert!(pieces.iter().all(|piece| piece.head(&[], Some(u64::MAX)).len() + piece.fragment.len() <= mtu));
            if pieces.len() == 1 {
                prop_assert_eq!(&pieces[0].fragment, &packet);
                return Ok(());
            }
            let mut random = tributary_core::Random::new(order, 0);
            for at in (1..pieces.len()).rev() {
                pieces.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut into = Reassembler::new(ReassemblyLimits::default());
            let mut done = None;
            for piece in &pieces {
                prop_assert!(done.is_none());
                done = feed(&mut into, Time::ZERO, piece).unwrap();
                if done.is_none() {
                    prop_assert_eq!(feed(&mut into, Time::ZERO, piece), Ok(None), "a copy changes nothing");
                }
            }
            let (first, assembled) = done.unwrap();
            prop_assert_eq!(assembled, packet);
            prop_assert_eq!(LpPacket::decode(&first).unwrap().pit_token, Some(&token[..]));
        }
    }
}
