//! The sending side (paper: producer): answers Interests for the objects of this node with signed Data.
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use bytes::Bytes;
use tributary_content::{Name, ObjectId, ObjectReader};
use tributary_core::{Duration, Time};
use tributary_transport::{
    TREE_PACKET_FIRST,
    catalogue::{Catalogue, WaitQueue},
    layout::{Layout, Unit},
};

use crate::{
    config::SharedKey,
    naming::{self, Requested},
    wire::{
        Certificate, Data, Interest, KeyLocator, MetaInfo, NackReason, NameView, SignKey, SignatureInfo, tlv::Writer,
        types,
    },
};

/// Freshness in milliseconds of metadata and manifest, which may change. Other producers use 4 to 10 s.
const FRESHNESS_MILLIS: u64 = 1_000;
/// Freshness of segments, which never change: their names have versions.
const SEGMENT_FRESHNESS_MILLIS: u64 = 3_600_000;

/// Maximum Interests that wait for the disk. Further ones are dropped and counted: their consumers repeat them.
const WAITING_MAX: usize = 4096;

tributary_core::declared! {
    /// Published objects, and the answers to Interests for them.
    pub struct Sender {
        segment_bytes: u16 = segment_bytes,
        key: SignKey = key,
        pub(crate) shared_keys: Vec<SharedKey> = Vec::new(),
        /// Unix time of the driver's epoch.
        epoch: Duration = epoch,
        /// Who signs, as a key locator.
        locator: Name = locator,
        /// The certificates of the key, which are published too.
        certificates: Vec<Certificate> = Vec::new(),
        pub(crate) objects: Catalogue<Cut> = Catalogue::default(),
        /// Interests for segments whose chunks are being read, in order of arrival.
        pub(crate) waiting: WaitQueue<Waiting> = WaitQueue::new(WAITING_MAX),
        /// Interests for unreadable or missing objects, to be returned.
        refusals: VecDeque<(Bytes, NackReason)> = VecDeque::new(),
        /// Why the last requested packet is missing or unreadable.
        refused: Option<NackReason> = None,
        /// Interests answered.
        pub answered: u64 = 0,
        /// Interests for unpublished names.
        pub unknown: u64 = 0,
    }
    /// A source called `label`, without objects, that signs with `key`. `epoch` is the Unix time of the driver's epoch.
    pub fn new(label: &str, segment_bytes: u16, key: SignKey, epoch: Duration) {
        let locator = naming::locator(label).unwrap_or_default();
    }
}

/// An Interest whose answer must be read first.
pub(crate) struct Waiting {
    object: ObjectId,
    version: u64,
    packet: u32,
    /// The Interest itself, to return it if it cannot be read.
    interest: Bytes,
}

/// How an object is cut into segments.
pub(crate) struct Cut {
    tree: Bytes,
    layout: Layout,
}

impl Sender {
    /// Publishes these certificates from now on, and names the first one as the key that signs.
    pub fn certify(&mut self, certificates: &[Certificate]) {
        if let Some(own) = certificates.first() {
            self.locator = own.name().clone();
        }
        self.certificates = certificates.to_vec();
    }
    /// The certificate that an Interest requests: by its name, by the key's, or by a prefix between them.
    fn certificate(&self, interest: &Interest<'_>) -> Option<Bytes> {
        let name = interest.name;
        let is_meant = |of: &&Certificate| match interest.can_be_prefix {
            true => name.to_name().is_ok_and(|name| of.is_meant_by(&name)),
            false => NameView::from(of.name()) == name,
        };
        self.certificates.iter().find(is_meant).map(|found| found.packet().clone())
    }
    /// Offers an object; an older one of the same name is dropped. False if it has more packets than can be numbered.
    pub fn publish(&mut self, reader: Box<dyn ObjectReader>) -> bool {
        let Some(layout) = Layout::new(reader.manifest(), self.segment_bytes) else { return false };
        let cut = Cut { tree: reader.tree(), layout };
        self.objects.publish(reader, cut);
        true
    }
    /// Withdraws a name; false if it is not published.
    pub fn unpublish(&mut self, name: &Name) -> bool {
        self.objects.withdraw(name).is_some()
    }
    /// The Data that answers an Interest; `None` if nothing has this name, or if it must be read first:
    /// [`Sender::handle_storage`] returns it then.
    pub fn handle_interest(&mut self, now: Time, interest: &Interest<'_>) -> Option<Bytes> {
        let waited = |sender: &Sender| sender.waiting.len() as u64 + sender.waiting.drops;
        let before = waited(self);
        let answer = self.answer(now, interest);
        let refused = self.refused.take();
        match &answer {
            Some(_) => self.answered += 1,
            None => {
                self.unknown +=
                    u64::from(!matches!(refused, Some(NackReason::Unavailable(_))) && waited(self) == before)
            }
        }
        if let (None, Some(why)) = (&answer, refused) {
            self.refuse(interest.encode().into(), why);
        }
        answer
    }
    /// An Interest for an unreadable or missing object, to be returned with that reason.
    pub fn poll_refusal(&mut self) -> Option<(Bytes, NackReason)> {
        self.refusals.pop_front()
    }
    fn refuse(&mut self, interest: Bytes, why: NackReason) {
        // The caller takes them after each Interest.
        if self.refusals.len() < WAITING_MAX {
            self.refusals.push_back((interest, why));
        }
    }
    /// The Data for Interests whose chunks have been read since.
    pub fn handle_storage(&mut self) -> Vec<Bytes> {
        if !self.objects.is_reading() {
            return Vec::new();
        }
        let taken = self.objects.take_read();
        let mut answers = Vec::new();
        for Waiting { object, version, packet, interest } in self.waiting.take() {
            answers.extend(self.packet(&object, version, packet, &|| interest.clone()));
            if let Some(why) = self.refused.take() {
                self.refuse(interest, why);
            }
        }
        self.answered += answers.len() as u64;
        self.objects.forget_read(&taken);
        answers
    }
    fn answer(&mut self, now: Time, interest: &Interest<'_>) -> Option<Bytes> {
        if let Some(certificate) = self.certificate(interest) {
            return Some(certificate);
        }
        let name = interest.name;
        // Another node with a shorter route may have it: an object here may lie above other nodes' names.
        self.refused = Some(NackReason::NoRoute);
        let (prefix, object) = (0..=name.len()).rev().find_map(|depth| {
            let prefix = name.prefix(depth).to_name().ok()?;
            let object = self.objects.by_name(&prefix)?;
            Some((prefix, object))
        })?;
        let requested = naming::requested(NameView::from(&prefix), name)?;
        self.refused = None;
        match requested {
            Requested::Metadata if interest.can_be_prefix => self.metadata(now, &object),
            Requested::Metadata => None,
            Requested::Manifest => {
                let published = self.objects.get(&object)?;
                let manifest = published.reader().manifest().encode();
                let content = naming::encode_manifest(published.state.layout.packet_bytes(), &manifest);
                let meta = MetaInfo { freshness_millis: Some(FRESHNESS_MILLIS), ..MetaInfo::default() };
                Some(self.sign(name, meta, &content))
            }
            Requested::Version(version) if interest.can_be_prefix => {
                self.packet(&object, version, 0, &|| interest.encode().into())
            }
            Requested::Version(_) => None,
            Requested::Packet { version, packet } => {
                self.packet(&object, version, packet, &|| interest.encode().into())
            }
        }
    }
    /// The current version. RDR: the version of the metadata itself grows with time.
    fn metadata(&self, now: Time, object: &ObjectId) -> Option<Bytes> {
        let published = self.objects.get(object)?;
        let (manifest, layout) = (published.reader().manifest(), &published.state.layout);
        let object = &manifest.name;
        let versioned = object.typed_child(types::VERSION, &naming::number(manifest.version)).ok()?;
        let mut content = Vec::new();
        content.put_element(types::NAME, versioned.as_tlv());
        let last = Name::root().typed_child(types::SEGMENT, &naming::number(last_packet(layout, false).into()));
        content.put_element(types::FINAL_BLOCK_ID, last.ok()?.as_tlv());
        content.put_integer(naming::SEGMENT_SIZE, layout.packet_bytes().into());
        content.put_integer(naming::SIZE, manifest.size);
        content.put_element(naming::HAS_MANIFEST, &[]);
        let zero = Name::root().typed_child(types::SEGMENT, &[0]).ok()?;
        let millis = (self.epoch + now.since(Time::ZERO)).as_millis() as u64;
        let name = object
            .typed_child(types::KEYWORD, naming::METADATA)
            .and_then(|name| name.typed_child(types::VERSION, &naming::number(millis)))
            .and_then(|name| name.typed_child(types::SEGMENT, &[0]))
            .ok()?;
        let meta = MetaInfo {
            freshness_millis: Some(FRESHNESS_MILLIS),
            final_block_id: Some(zero.as_tlv()),
            content_type: None,
        };
        Some(self.sign(NameView::from(&name), meta, &content))
    }
    /// A segment; `None` if it does not exist, if it must be read first, or, with [`Sender::refused`] set, if it cannot
    /// be read.
    fn packet(&mut self, object: &ObjectId, version: u64, packet: u32, interest: &dyn Fn() -> Bytes) -> Option<Bytes> {
        let (published, recent) = self.objects.open(object)?;
        if published.reader().manifest().version != version {
            return None;
        }
        let in_tree = packet >= TREE_PACKET_FIRST;
        let content = match published.state.layout.locate(packet) {
            Some((unit, offset, len)) => {
                let bytes = match published.unit(unit, recent, |cut| &cut.tree) {
                    Ok(Some(bytes)) => bytes,
                    Ok(None) => {
                        let index = Layout::chunk_of(unit)?;
                        self.objects.begin_read(object, index);
                        self.waiting.push(Waiting { object: *object, version, packet, interest: interest() });
                        return None;
                    }
                    Err(error) => {
                        self.refused = self.objects.on_failure(object, error).map(NackReason::Unavailable);
                        return None;
                    }
                };
                bytes
                    .get(offset as usize..(offset + len) as usize)
                    .map(|_| bytes.slice(offset as usize..(offset + len) as usize))?
            }
            // An empty object is one empty segment.
            None if packet == 0 && published.reader().manifest().size == 0 => Bytes::new(),
            None => return None,
        };
        let last = naming::number(u64::from(last_packet(&published.state.layout, in_tree)));
        let last = Name::root().typed_child(types::SEGMENT, &last).ok()?;
        let meta = MetaInfo {
            freshness_millis: Some(SEGMENT_FRESHNESS_MILLIS),
            final_block_id: Some(last.as_tlv()),
            content_type: None,
        };
        let name = naming::packet_name(&published.reader().manifest().name, version, packet).ok()?;
        // A consumer that meets an object by a segment requests its first one; the rest leave the space to content.
        Some(self.sign_as(packet == 0 || in_tree, NameView::from(&name), meta, &content))
    }
    fn sign(&self, name: NameView<'_>, meta: MetaInfo<'_>, content: &[u8]) -> Bytes {
        self.sign_as(true, name, meta, content)
    }
    /// Signs with the key of the name. A digest belongs to no key, so a locator behind it only names the publisher.
    fn sign_as(&self, tells_whose: bool, name: NameView<'_>, meta: MetaInfo<'_>, content: &[u8]) -> Bytes {
        let shared = match self.shared_keys.is_empty() {
            true => None,
            false => name.to_name().ok().and_then(|name| SharedKey::of(&self.shared_keys, &name).cloned()),
        };
        let key = shared.map_or_else(|| self.key.clone(), |shared| SignKey::Hmac(shared.secret));
        let locator = KeyLocator::Name(NameView::from(&self.locator));
        let key_locator = (tells_whose || !matches!(key, SignKey::Digest)).then_some(locator);
        let signature = SignatureInfo { key_locator, ..SignatureInfo::new(key.kind()) };
        Data { meta: Some(meta), signature, ..Data::new(name, content) }.sign(&key).into()
    }
}

/// The number of the last segment, of the object or of its hash tree.
fn last_packet(layout: &Layout, in_tree: bool) -> u32 {
    if in_tree {
        let (first, end) = layout.packets(Unit::Tree);
        return end.saturating_sub(first + 1);
    }
    match layout.chunks() {
        0 => 0,
        chunks => layout.packets(Unit::Chunk(chunks - 1)).1.saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};
    use core::sync::atomic::Ordering;
    use tributary_content::{MemoryObject, SigningKey, Unavailable};
    use tributary_testkit::OnDisk;

    fn ask(sender: &mut Sender, name: &str, can_be_prefix: bool) -> Option<Bytes> {
        let name: Name = name.parse().unwrap();
        let interest = Interest { can_be_prefix, ..Interest::new(NameView::from(&name)) };
        sender.handle_interest(Time::from_millis(77), &interest)
    }
    fn sender(size: usize) -> (Sender, Vec<u8>) {
        sender_with(SignKey::ed25519(&[2; 32]), size)
    }
    fn sender_with(sign: SignKey, size: usize) -> (Sender, Vec<u8>) {
        let bytes: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
        let key = SigningKey::from_secret(&[1; 32]);
        let object = MemoryObject::new("/lab/file".parse().unwrap(), bytes.clone(), &key).unwrap();
        let mut sender = Sender::new("producer", 1000, sign, Duration::ZERO);
        assert!(sender.publish(Box::new(object)));
        (sender, bytes)
    }

    #[test]
    fn an_interest_for_what_was_changed_is_returned_with_that_reason() {
        let key = SigningKey::from_secret(&[1; 32]);
        let mut object = MemoryObject::new("/lab/file".parse().unwrap(), vec![1; 300_000], &key).unwrap();
        object.alter(|bytes| bytes[270_000] = 2);
        let mut sender = Sender::new("producer", 1000, SignKey::ed25519(&[2; 32]), Duration::ZERO);
        assert!(sender.publish(Box::new(object)));
        let changed = 270_000 / 1000;
        for _ in 0..2 {
            assert!(ask(&mut sender, &format!("/lab/file/v=1/seg={changed}"), false).is_none());
            let (interest, why) = sender.poll_refusal().expect("it cannot be read");
            let waiter: Name = format!("/lab/file/v=1/seg={changed}").parse().unwrap();
            let name = Interest::decode(&interest).expect("it is the Interest").name.to_name().unwrap();
            assert_eq!((name, why), (waiter, NackReason::Unavailable(Unavailable::Changed)));
        }
        assert!(ask(&mut sender, "/lab/file/v=1/seg=0", false).is_some() && sender.poll_refusal().is_none());
        assert!(
            sender.objects.poll_failure().is_some() && sender.objects.poll_failure().is_none(),
            "it is told once here"
        );
        assert_eq!(sender.unknown, 0);
    }

    /// The steps of a consumer that does not know this program: discovers the version, then fetches segments up to the
    /// last.
    #[test]
    fn an_object_is_found_by_discovery_and_read_segment_by_segment() {
        for size in [0, 1, 999, 300_000, 700_001] {
            let (mut sender, bytes) = sender(size);
            for start in ["/lab/file", "/lab/file/32=metadata"] {
                let answer = ask(&mut sender, start, true).unwrap();
                let metadata = Data::decode(&answer).unwrap();
                assert_eq!(metadata.name.to_name(), "/lab/file/32=metadata/v=77/seg=0".parse());
                assert!(metadata.freshness().as_millis() > 0);
                let mut reader = crate::wire::tlv::Reader::new("metadata", metadata.content.unwrap());
                let versioned = reader.element().unwrap().unwrap();
                assert_eq!(versioned.kind, types::NAME);
                let versioned = NameView::parse(versioned.value).unwrap().to_name().unwrap();
                assert_eq!(versioned, "/lab/file/v=1".parse().unwrap());
                let (mut got, mut segment) = (Vec::new(), 0u64);
                loop {
                    let answer = ask(&mut sender, &format!("{versioned}/seg={segment}"), false).unwrap();
                    let data = Data::decode(&answer).unwrap();
                    assert!(data.is_signed_by(&SignKey::ed25519(&[2; 32]).verify_key()));
                    got.extend_from_slice(data.content.unwrap());
                    if data.final_block().unwrap().number() == Some(segment) {
                        break;
                    }
                    segment += 1;
                }
                assert_eq!(got, bytes);
                assert!(ask(&mut sender, &format!("{versioned}/seg={}", segment + 1), false).is_none());
            }
        }
    }

    #[test]
    fn behind_a_digest_only_the_first_segment_and_what_leads_to_it_tells_whose_it_is() {
        for (sign, of_later) in [(SignKey::Digest, false), (SignKey::ed25519(&[2; 32]), true)] {
            let (mut sender, _) = sender_with(sign, 300_000);
            let mut tells = |name: &str, can_be_prefix: bool| {
                naming::has_manifest(&Data::decode(&ask(&mut sender, name, can_be_prefix).unwrap()).unwrap())
            };
            assert!(tells("/lab/file", true) && tells("/lab/file/v=1/seg=0", false) && tells("/lab/file/v=1", true));
            assert!(tells("/lab/file/v=1/32=tree/seg=0", false), "it is no object of its own");
            assert_eq!(tells("/lab/file/v=1/seg=1", false), of_later);
        }
    }

    #[test]
    fn what_is_not_there_is_not_answered() {
        let (mut sender, _) = sender(5000);
        for name in ["/lab", "/lab/file/v=2/seg=0", "/lab/file/v=1/seg=9", "/lab/file/v=1/32=tree/seg=0", "/other"] {
            assert!(ask(&mut sender, name, true).is_none(), "{name}");
        }
        assert!(ask(&mut sender, "/lab/file", false).is_none(), "its name is longer");
        assert_eq!((sender.answered, sender.unknown), (0, 6));
        assert!(sender.unpublish(&"/lab/file".parse().unwrap()) && ask(&mut sender, "/lab/file", true).is_none());
    }

    #[test]
    fn interests_that_wait_for_the_disk_are_bounded_and_answered_when_it_goes_on() {
        let object =
            MemoryObject::new("/lab/file".parse().unwrap(), vec![1; 9_000], &SigningKey::from_secret(&[1; 32]));
        let (object, goes_on) = OnDisk::new(object.unwrap(), 0);
        let mut sender = Sender::new("producer", 1000, SignKey::Null, Duration::ZERO);
        assert!(sender.publish(Box::new(object)));
        for number in 0..WAITING_MAX + 5 {
            assert!(ask(&mut sender, &format!("/lab/file/v=1/seg={}", number % 9), false).is_none());
        }
        assert_eq!((sender.waiting.len(), sender.waiting.drops, sender.unknown), (WAITING_MAX, 5, 0));
        assert!(sender.handle_storage().is_empty(), "nothing was read");
        goes_on.store(true, Ordering::Relaxed);
        let answers = sender.handle_storage();
        assert_eq!((answers.len(), sender.waiting.len(), sender.answered), (WAITING_MAX, 0, WAITING_MAX as u64));
        let names = [0, 1, WAITING_MAX - 1].map(|at| Data::decode(&answers[at]).unwrap().name.to_name().unwrap());
        let expected = [0, 1, (WAITING_MAX - 1) % 9].map(|at| format!("/lab/file/v=1/seg={at}").parse().unwrap());
        assert_eq!(names, expected, "in the order in which they came");
    }
}
