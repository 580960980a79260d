//! The table of pending Interests: by requester, face and time, and the faces they were forwarded to.
use alloc::{collections::BTreeSet, vec::Vec};

use bytes::Bytes;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::{Duration, FaceId, Time};
use tributary_transport::transfer::CacheUse;

use super::{
    hash::{COMPONENTS_MAX, NameHasher, Prefixes},
    slab::Slab,
};
use crate::{
    ids::Nonce,
    wire::{Data, Interest, NackReason, NameView, lp::Origin, types},
};

tributary_core::declared! {
    /// Limits of the table.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PitLimits {
        /// Maximum entries. Default: 65,536.
        pub entries_max: usize = 65_536,
        /// Maximum entries in which one face may wait, and never more than are free: however many faces flood the
        /// table, each leaves as much for others as it has (dynamic thresholds, Choudhury and Hahne 1998). Default: a
        /// quarter of the entries.
        pub entries_per_face_max: usize = 16_384,
        /// Maximum bytes of stored Interests; a quarter per face, and never more than is free. Default: 32 MiB.
        pub bytes_max: usize = 32 << 20,
        /// Maximum faces that wait for one name. Default: 256.
        pub in_records_max: usize = 256,
        /// The longest lifetime of an Interest that is honoured. Default: 60 s.
        pub lifetime_max: Duration = Duration::from_secs(60),
    }
}

/// Entries that expire within this time expire together: two Interests of a flood are microseconds apart.
const EXPIRY_TICK: Duration = Duration::from_millis(1);
/// Those past caches first: the first answer should carry the path of the Data.
pub const CACHE_USES: [CacheUse; 2] = [CacheUse::Bypassed, CacheUse::Allowed];

/// The place of an entry; valid until it is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PitIndex(u32);

/// A PIT token to return, inline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Token {
    len: u8,
    bytes: [u8; 32],
}

impl Token {
    /// Keeps a token of at most 32 bytes; longer ones would be cut, but the parser of link packets rejects them.
    pub fn new(token: Option<&[u8]>) -> Self {
        let token = token.unwrap_or(&[]);
        let len = token.len().min(32);
        let mut bytes = [0; 32];
        bytes[..len].copy_from_slice(&token[..len]);
        Token { len: len as u8, bytes }
    }
    /// The token, if any.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        (self.len > 0).then(|| &self.bytes[..usize::from(self.len)])
    }
}

/// A face that waits for an answer.
#[derive(Clone, Debug)]
pub struct InRecord {
    /// The face.
    pub face: FaceId,
    /// Its last nonce.
    pub nonce: Nonce,
    /// Until when it waits.
    pub expires: Time,
    /// What to return with the answer.
    pub token: Token,
    /// PTP: whether it requested a tag.
    pub probe: bool,
    /// PTP: whether it requested tags as bits.
    pub wants_bits: bool,
    /// PTP: its tag could not be followed.
    pub path_failed: bool,
    /// Whether it arrived with a tag.
    pub tagged: bool,
    /// Its last Interest.
    pub asked: Asked,
    /// The received Interest, for a Nack.
    pub interest: Bytes,
}

/// The last Interest of a face for a name, with any selectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// When it arrived.
    pub at: Time,
    /// Whether it waits for the answer to another face's Interest instead of leaving.
    pub joins: bool,
    /// How many Interests of the face for the name did so.
    pub joined: u8,
}

/// A face that an Interest was passed on to.
#[derive(Clone, Copy, Debug)]
pub struct OutRecord {
    /// The face.
    pub face: FaceId,
    /// The nonce it was passed on with.
    pub nonce: Nonce,
    /// When, for the last time.
    pub sent_at: Time,
    /// Whether it was forwarded more than once.
    pub again: bool,
    /// Whether a tag, or an application of this node, named the face.
    pub named: bool,
    /// Why it was returned.
    pub nacked: Option<NackReason>,
}

/// One name that is waited for.
#[derive(Clone, Debug)]
pub struct PitEntry {
    /// The first Interest, and its name's bytes in it.
    interest: Bytes,
    name: Bytes,
    /// Whether a longer name may answer.
    pub can_be_prefix: bool,
    /// Whether only fresh Data may.
    pub must_be_fresh: bool,
    /// PTP: whether caches may answer. A requester that bypasses them gets no answer that a cache gave to another one.
    pub caches: CacheUse,
    depth: u8,
    digest: bool,
    /// The FIB entry's hash by which it was passed on; zero for none.
    pub prefix_key: u64,
    /// Which strategy decided.
    pub strategy: usize,
    /// Who waits.
    pub in_records: Vec<InRecord>,
    /// The faces where it was sent.
    pub out_records: Vec<OutRecord>,
    /// Until when anybody waits.
    pub expires: Time,
    /// How long the next copy is held back after the last one was passed on.
    pub suppression: Duration,
}

impl PitEntry {
    /// The name.
    pub fn name(&self) -> NameView<'_> {
        NameView::parse(&self.name).unwrap_or(NameView::ROOT)
    }
    /// The record of a face that waits.
    pub fn in_record(&mut self, face: FaceId) -> Option<&mut InRecord> {
        self.in_records.iter_mut().find(|record| record.face == face)
    }
    /// Whether the last Interest forwarded to `face` is the last one of a waiting requester.
    pub fn is_exact(&self, face: FaceId) -> bool {
        let sent = self.nonce_sent(face);
        self.in_records.iter().any(|record| Some(record.nonce) == sent)
    }
    /// The nonce of the last Interest that left by `face`.
    pub fn nonce_sent(&self, face: FaceId) -> Option<Nonce> {
        self.out_records.iter().find(|record| record.face == face).map(|record| record.nonce)
    }
    /// The record of a face that it was passed on to.
    pub fn out_record(&mut self, face: FaceId) -> Option<&mut OutRecord> {
        self.out_records.iter_mut().find(|record| record.face == face)
    }
    /// When it was last passed on anywhere.
    pub fn last_sent(&self) -> Option<Time> {
        self.out_records.iter().map(|record| record.sent_at).max()
    }
}

tributary_core::declared! {
    /// The table.
    #[derive(Clone, Debug)]
    pub struct Pit {
        hasher: NameHasher = hasher,
        limits: PitLimits = limits,
        entries: Slab<PitEntry> = Slab::default(),
        by_expiry: BTreeSet<(Time, u32)> = BTreeSet::new(),
        /// Entries with CanBePrefix, by depth.
        prefix_depths: [u32; COMPONENTS_MAX + 1] = [0; COMPONENTS_MAX + 1],
        /// Entries whose last component is an implicit digest.
        digests: u32 = 0,
        /// Entries that no cache may answer.
        past_caches: u32 = 0,
        bytes: usize = 0,
        per_face: HashMap<FaceId, Share, FxBuildHasher> = HashMap::with_hasher(FxBuildHasher),
    }
    /// An empty table.
    pub fn new(hasher: NameHasher, limits: PitLimits) {}
}

/// What one face has of the table.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    entries: usize,
    bytes: usize,
}

impl Pit {
    /// The entry for the same name, selectors and use of caches. `hash` is the name's.
    pub fn find(&self, hash: u64, interest: &Interest<'_>, caches: CacheUse) -> Option<PitIndex> {
        let tlv = interest.name.as_tlv();
        self.find_variant(hash, tlv, (interest.can_be_prefix, interest.must_be_fresh), caches)
    }
    fn find_variant(&self, hash: u64, tlv: &[u8], selectors: (bool, bool), caches: CacheUse) -> Option<PitIndex> {
        if caches == CacheUse::Bypassed && self.past_caches == 0 {
            return None;
        }
        let is = |entry: &PitEntry| {
            let same = (entry.can_be_prefix, entry.must_be_fresh) == selectors && entry.caches == caches;
            same && entry.name == tlv
        };
        self.entries.find(hash, is).map(PitIndex)
    }
    /// The entries for the same name that caches may answer, with any selectors.
    pub fn forms<'a>(&'a self, hash: u64, interest: &Interest<'a>) -> impl Iterator<Item = &'a PitEntry> {
        let tlv = interest.name.as_tlv();
        self.entries.with_hash(hash).filter(move |entry| entry.caches == CacheUse::Allowed && entry.name == tlv)
    }
    /// Adds an entry without records for an Interest that [`Pit::find`] does not find; `None` if the table is full.
    /// `packet` is the Interest's bytes, and `hash` the name's.
    pub fn insert(&mut self, hash: u64, interest: &Interest<'_>, caches: CacheUse, packet: &Bytes) -> Option<PitIndex> {
        if self.len() >= self.limits.entries_max {
            return None;
        }
        let depth = interest.name.len().min(COMPONENTS_MAX) as u8;
        let digest = interest.name.last().is_some_and(|last| last.kind == types::IMPLICIT_DIGEST);
        let tlv = interest.name.as_tlv();
        let start = tlv.as_ptr() as usize - packet.as_ptr() as usize;
        let interest_kept = Bytes::copy_from_slice(packet);
        let entry = PitEntry {
            name: interest_kept.slice(start..start + tlv.len()),
            interest: interest_kept,
            can_be_prefix: interest.can_be_prefix,
            must_be_fresh: interest.must_be_fresh,
            caches,
            depth,
            digest,
            prefix_key: 0,
            strategy: 0,
            in_records: Vec::with_capacity(1),
            out_records: Vec::with_capacity(1),
            expires: Time::ZERO,
            suppression: Duration::ZERO,
        };
        self.prefix_depths[usize::from(depth)] += u32::from(interest.can_be_prefix);
        self.digests += u32::from(digest);
        self.past_caches += u32::from(caches == CacheUse::Bypassed);
        let slot = self.entries.insert(hash, entry);
        self.by_expiry.insert((Time::ZERO, slot));
        Some(PitIndex(slot))
    }
    /// Adds a waiting face; replaces a record of the same face. False if the face's share is full. The Interest is
    /// copied: a slice of a receive buffer would keep all of that alive.
    pub fn add_in_record(&mut self, index: PitIndex, mut record: InRecord) -> bool {
        let share = self.per_face.get(&record.face).copied().unwrap_or_default();
        let free = self.limits.entries_max.saturating_sub(self.len());
        let bytes_free = self.limits.bytes_max.saturating_sub(self.bytes);
        let Some(entry) = self.entries.get_mut(index.0) else { return false };
        let known = entry.in_records.iter().position(|known| known.face == record.face);
        let before = known.map_or(0, |known| entry.in_records[known].interest.len());
        let bytes = share.bytes - before + record.interest.len();
        let is_new = known.is_none();
        if bytes > share.bytes && bytes > bytes_free.min(self.limits.bytes_max / 4)
            || is_new && entry.in_records.len() >= self.limits.in_records_max
            || is_new && (share.entries >= self.limits.entries_per_face_max || share.entries > free)
        {
            return false;
        }
        let is_first = entry.interest == record.interest;
        record.interest = if is_first { entry.interest.clone() } else { Bytes::copy_from_slice(&record.interest) };
        self.bytes = self.bytes - share.bytes + bytes;
        self.per_face.insert(record.face, Share { entries: share.entries + usize::from(is_new), bytes });
        let expires = record.expires;
        match known {
            Some(known) => entry.in_records[known] = record,
            None => entry.in_records.push(record),
        }
        if expires > entry.expires {
            self.by_expiry.remove(&(entry.expires, index.0));
            entry.expires = expires;
            self.by_expiry.insert((expires, index.0));
        }
        true
    }
    /// Drops the record of one face; returns whether the entry has no waiting face left.
    pub fn remove_in_record(&mut self, index: PitIndex, face: FaceId) -> bool {
        let Some(entry) = self.entries.get_mut(index.0) else { return false };
        let gone = entry.in_records.extract_if(.., |record| record.face == face).next();
        let nobody = entry.in_records.is_empty();
        gone.iter().for_each(|record| self.forget(record));
        nobody
    }
    /// The entries that a Data from `origin` answers.
    pub fn answered_by(&self, data: &Data<'_>, origin: Option<Origin>) -> Vec<PitIndex> {
        let mut prefixes = Prefixes::default();
        self.hasher.fill(&mut prefixes, data.name);
        let tlv = data.name.as_tlv();
        let mut found = Vec::new();
        let is_for_all = self.past_caches > 0 && origin != Some(Origin::Cache);
        let uses = if is_for_all { &CACHE_USES[..] } else { &[CacheUse::Allowed] };
        for caches in uses.iter().copied() {
            for must_be_fresh in [false, true] {
                found.extend(self.find_variant(prefixes.full, tlv, (false, must_be_fresh), caches));
            }
            for depth in (0..=prefixes.depth()).filter(|depth| self.prefix_depths[*depth] > 0) {
                let (hash, end) = prefixes.at(depth);
                for must_be_fresh in [false, true] {
                    found.extend(self.find_variant(hash, &tlv[..end], (true, must_be_fresh), caches));
                }
            }
            // Interests with longer names are counted with those of this many components.
            if self.prefix_depths[COMPONENTS_MAX] > 0 {
                for (hash, end) in self.hasher.each(data.name).skip(COMPONENTS_MAX) {
                    for must_be_fresh in [false, true] {
                        found.extend(self.find_variant(hash, &tlv[..end], (true, must_be_fresh), caches));
                    }
                }
            }
        }
        if self.digests > 0 {
            let mut full = tlv.to_vec();
            let digest = data.implicit_digest();
            crate::wire::tlv::Writer::put_element(&mut full, u32::from(types::IMPLICIT_DIGEST), &digest);
            if let Ok(name) = NameView::parse(&full) {
                let hash = self.hasher.name(name);
                for (flags, caches) in (0..4).flat_map(|flags| uses.iter().map(move |caches| (flags, *caches))) {
                    found.extend(self.find_variant(hash, &full, (flags & 1 != 0, flags & 2 != 0), caches));
                }
            }
        }
        found
    }
    /// Takes an entry out.
    pub fn remove(&mut self, index: PitIndex) -> Option<PitEntry> {
        let entry = self.entries.remove(index.0)?;
        self.by_expiry.remove(&(entry.expires, index.0));
        self.prefix_depths[usize::from(entry.depth)] -= u32::from(entry.can_be_prefix);
        self.digests -= u32::from(entry.digest);
        self.past_caches -= u32::from(entry.caches == CacheUse::Bypassed);
        for record in &entry.in_records {
            self.forget(record);
        }
        Some(entry)
    }
    /// Takes out one entry without a waiting face at `now`.
    pub fn pop_expired(&mut self, now: Time) -> Option<PitEntry> {
        let (expires, slot) = self.by_expiry.first().copied()?;
        if expires > now { None } else { self.remove(PitIndex(slot)) }
    }
    /// When the next entries expire.
    pub fn poll_timeout(&self) -> Option<Time> {
        let (expires, _) = self.by_expiry.first()?;
        Some(Time::from_nanos(expires.as_nanos().checked_next_multiple_of(EXPIRY_TICK.as_nanos() as u64)?))
    }
    /// An entry.
    pub fn entry(&mut self, index: PitIndex) -> Option<&mut PitEntry> {
        self.entries.get_mut(index.0)
    }
    /// The entries that wait for something from `face`.
    pub fn waiting_for(&self, face: FaceId) -> Vec<PitIndex> {
        let waits = |entry: &PitEntry| entry.out_records.iter().any(|record| record.face == face);
        self.entries.iter().filter(|(_, entry)| waits(entry)).map(|(slot, _)| PitIndex(slot)).collect()
    }
    /// The entries in which `face` waits.
    pub fn waited_for_by(&self, face: FaceId) -> Vec<PitIndex> {
        if !self.per_face.contains_key(&face) {
            return Vec::new();
        }
        let waits = |entry: &PitEntry| entry.in_records.iter().any(|record| record.face == face);
        self.entries.iter().filter(|(_, entry)| waits(entry)).map(|(slot, _)| PitIndex(slot)).collect()
    }
    /// Entries in the table.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether nothing is waited for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn forget(&mut self, record: &InRecord) {
        self.bytes -= record.interest.len();
        if let Some(share) = self.per_face.get_mut(&record.face) {
            share.entries -= 1;
            share.bytes -= record.interest.len();
            if share.entries == 0 {
                self.per_face.remove(&record.face);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SignKey;
    use tributary_content::Name;

    fn record(face: u32, expires: u64) -> InRecord {
        InRecord {
            face: FaceId(face),
            nonce: Nonce::default(),
            expires: Time::from_millis(expires),
            token: Token::default(),
            probe: false,
            wants_bits: false,
            path_failed: false,
            tagged: false,
            asked: Asked { at: Time::ZERO, joins: false, joined: 0 },
            interest: Bytes::new(),
        }
    }
    fn pit(entries_max: usize, entries_per_face_max: usize) -> (Pit, NameHasher) {
        let hasher = NameHasher::new([1, 2]);
        let limits = PitLimits { entries_max, entries_per_face_max, in_records_max: 2, ..PitLimits::default() };
        (Pit::new(hasher, limits), hasher)
    }
    fn wait(pit: &mut Pit, hasher: NameHasher, name: &str, flags: (bool, bool)) -> Option<PitIndex> {
        wait_for(pit, hasher, name, flags, CacheUse::Allowed)
    }
    fn wait_for(
        pit: &mut Pit,
        hasher: NameHasher,
        name: &str,
        flags: (bool, bool),
        caches: CacheUse,
    ) -> Option<PitIndex> {
        let name: Name = name.parse().unwrap();
        let interest =
            Interest { can_be_prefix: flags.0, must_be_fresh: flags.1, ..Interest::new(NameView::from(&name)) };
        let packet = Bytes::from(interest.encode());
        let interest = Interest::decode(&packet).unwrap();
        let hash = hasher.name(interest.name);
        pit.find(hash, &interest, caches).or_else(|| pit.insert(hash, &interest, caches, &packet))
    }

    #[test]
    fn data_answers_what_it_matches_and_nothing_else() {
        let (mut pit, hasher) = pit(100, 100);
        let name: Name = "/a/b".parse().unwrap();
        let bytes = Data::new(NameView::from(&name), b"x").sign(&SignKey::Digest);
        let data = Data::decode(&bytes).unwrap();
        let digest = crate::wire::hex(&data.implicit_digest());
        let yes = [
            ("/a/b".into(), (false, false)),
            ("/a/b".into(), (false, true)),
            ("/a/b".into(), (true, false)),
            ("/a".into(), (true, true)),
            ("/a".into(), (true, false)),
            (alloc::format!("/a/b/sha256digest={digest}"), (false, false)),
        ];
        let no = [
            ("/a".into(), (false, false)),
            ("/a/b/c".into(), (true, false)),
            ("/b".into(), (true, false)),
            (alloc::format!("/a/b/sha256digest={}", "00".repeat(32)), (false, false)),
        ];
        let mut expected: Vec<_> = yes
            .iter()
            .map(|(name, flags): &(alloc::string::String, _)| wait(&mut pit, hasher, name, *flags).unwrap())
            .collect();
        no.iter().for_each(|(name, flags): &(alloc::string::String, _)| {
            wait(&mut pit, hasher, name, *flags).unwrap();
        });
        let mut found = pit.answered_by(&data, None);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        for (name, flags) in &yes {
            found.extend(wait_for(&mut pit, hasher, name, *flags, CacheUse::Bypassed));
        }
        assert_eq!(pit.answered_by(&data, Some(Origin::Cache)).len(), expected.len());
        let mut of_producer = pit.answered_by(&data, None);
        of_producer.sort();
        assert_eq!(of_producer, found);
        found.into_iter().for_each(|index| assert!(pit.remove(index).is_some()));
        assert!(pit.answered_by(&data, None).is_empty());
        assert_eq!(pit.len(), no.len());
    }

    #[test]
    fn one_face_cannot_take_the_room_of_the_others() {
        let (mut pit, hasher) = pit(8, 2);
        let entries: Vec<_> =
            (0..4).map(|n| wait(&mut pit, hasher, &alloc::format!("/{n}"), (false, false)).unwrap()).collect();
        assert!(pit.add_in_record(entries[0], record(1, 10)) && pit.add_in_record(entries[1], record(1, 10)));
        assert!(!pit.add_in_record(entries[2], record(1, 10)), "face 1 has its share");
        assert!(pit.add_in_record(entries[0], record(1, 20)), "again in the same entry is no more");
        assert!(pit.add_in_record(entries[0], record(2, 10)) && !pit.add_in_record(entries[0], record(3, 10)));
        assert_eq!(pit.waited_for_by(FaceId(1)), entries[..2]);
        assert!(!pit.remove_in_record(entries[0], FaceId(1)));
        assert!(pit.remove_in_record(entries[0], FaceId(2)));
        assert!(pit.add_in_record(entries[2], record(1, 10)));
        let more = (4..100).filter(|n| wait(&mut pit, hasher, &alloc::format!("/{n}"), (false, false)).is_some());
        assert_eq!(more.count(), 4, "then the table is full");
    }

    #[test]
    fn entries_that_expire_one_after_the_other_go_together() {
        let (mut pit, hasher) = pit(4_000, 2_000);
        for number in 0..1_500 {
            let entry = wait(&mut pit, hasher, &alloc::format!("/{number}"), (false, false)).unwrap();
            let expires = Time::from_millis(10) + Duration::from_micros(number);
            pit.add_in_record(entry, InRecord { expires, ..record(1, 10) });
        }
        let mut wakes = Vec::new();
        while let Some(due) = pit.poll_timeout() {
            let gone = core::iter::from_fn(|| pit.pop_expired(due)).count();
            wakes.push((due, gone));
        }
        assert_eq!(wakes, [(10, 1), (11, 1_000), (12, 499)].map(|(at, gone)| (Time::from_millis(at), gone)));
    }

    #[test]
    fn entries_go_when_the_last_one_waits_no_more() {
        let (mut pit, hasher) = pit(10, 10);
        let entry = wait(&mut pit, hasher, "/a", (false, false)).unwrap();
        pit.add_in_record(entry, record(1, 10));
        pit.add_in_record(entry, record(2, 30));
        pit.add_in_record(entry, record(1, 20));
        assert_eq!(pit.poll_timeout(), Some(Time::from_millis(30)));
        assert!(pit.pop_expired(Time::from_millis(29)).is_none());
        assert_eq!(pit.pop_expired(Time::from_millis(30)).map(|entry| entry.in_records.len()), Some(2));
        assert!(pit.is_empty() && pit.poll_timeout().is_none());
    }
}
