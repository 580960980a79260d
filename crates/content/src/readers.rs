//! The key of a sealed object, wrapped for its readers in a separate object.
//!
//! The same publisher publishes it under [`KeyList::name_for`], a sibling of the object's name that ends with the
//! object's id; so a list belongs to one version of one object. (Not a child: in PSI a name is either an object or has
//! others below it.) A new version of the list adds readers. Removing a reader takes a new key, hence a new version of
//! the object.
//!
//! Each slot is HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305. A reader is
//! identified by its node's Ed25519 key, converted to X25519. A slot does not reveal its reader, so a reader tries them
//! all. There are 4, 8, 16, … slots in random order; unused slots are wrapped for random keys.
use alloc::vec::Vec;
use bytes::Bytes;
use core::convert::Infallible;
use hpke::{
    Deserializable, Kem as _, OpModeR, OpModeS, Serializable, aead::ChaCha20Poly1305, kdf::HkdfSha256,
    kem::X25519HkdfSha256, rand_core,
};
use zeroize::Zeroize;

use crate::{Hash, Manifest, Name, NameError, ObjectId, ObjectKey, PublicKey, SigningKey};

type Kem = X25519HkdfSha256;

/// The readers of one version of a sealed object: the object's key, wrapped for each of them.
///
/// ```text
///    0  "TrK", layout 1                                              4 bytes
///    4  id of the sealed object                                     16
///   20  commitment to its key                                       32
///   52  number of slots, big-endian                                  2
///   54  slots: encapsulated key 32 | key of the object 32 | tag 16   80 each
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyList {
    object: ObjectId,
    commitment: Hash,
    slots: Vec<[u8; SLOT_BYTES]>,
}

impl KeyList {
    /// Maximum readers of an object.
    pub const READERS_MAX: usize = 1_024;
    /// Bytes of the longest encoded list.
    pub const BYTES_MAX: usize = HEADER_BYTES + Self::READERS_MAX * SLOT_BYTES;

    /// The name of the list for the object of `manifest`: for `/lab/x` it is `/lab/32=readers-OBJECT-ID`. Type 32 marks
    /// keywords in NDN's naming conventions.
    ///
    /// # Errors
    /// [`NameError`] if the object's own name is too long for the suffix.
    pub fn name_for(manifest: &Manifest) -> Result<Name, NameError> {
        let keyword = alloc::format!("{READERS}{}", manifest.object_id());
        manifest.name.parent().unwrap_or_default().typed_child(KEYWORD, keyword.as_bytes())
    }
    /// Whether a name belongs to a list.
    pub fn is_name(name: &Name) -> bool {
        let Some((KEYWORD, last)) = name.typed_components().last() else { return false };
        last.strip_prefix(READERS.as_bytes()).is_some_and(|id| id.len() == 2 * size_of::<ObjectId>())
    }
    /// Wraps `key` for `readers`. `entropy` fills buffers with unpredictable bytes.
    ///
    /// # Errors
    /// [`KeyListError`] if there is no reader, there are too many, or a key is invalid.
    pub fn seal(
        object: ObjectId,
        key: &ObjectKey,
        readers: &[PublicKey],
        entropy: &mut dyn FnMut(&mut [u8]),
    ) -> Result<KeyList, KeyListError> {
        if readers.is_empty() || readers.len() > Self::READERS_MAX {
            return Err(KeyListError::Readers { readers: readers.len() });
        }
        let commitment = key.commitment();
        let mut random = Random(entropy);
        let mut slots = Vec::new();
        for reader in readers {
            let public = reader.agreement_key().ok_or(KeyListError::Key { reader: *reader })?;
            let slot = seal_slot(object, &commitment, &public, key.secret(), &mut random);
            slots.push(slot.ok_or(KeyListError::Key { reader: *reader })?);
        }
        while slots.len() < SLOTS_MIN || !slots.len().is_power_of_two() {
            let (mut secret, mut nothing) = ([0; 32], [0; 32]);
            (random.0)(&mut secret);
            (random.0)(&mut nothing);
            let (_, public) = Kem::derive_keypair(&secret);
            let public: [u8; 32] = public.to_bytes().into();
            slots.push(seal_slot(object, &commitment, &public, &nothing, &mut random).expect("a derived key is one"));
        }
        // Each starts with a random point: this order reveals nothing about the readers.
        slots.sort_unstable();
        Ok(KeyList { object, commitment, slots })
    }
    /// The key of the object, if `reader` is one of its readers and the list belongs to `object`.
    ///
    /// Takes about 0.1 ms for each slot.
    pub fn open(&self, object: ObjectId, reader: &SigningKey) -> Option<ObjectKey> {
        if object != self.object {
            return None;
        }
        let mut secret = reader.agreement_secret();
        let private = <Kem as hpke::Kem>::PrivateKey::from_bytes(&secret);
        secret.zeroize();
        let private = private.ok()?;
        let info = info(object);
        let open = |slot: &[u8; SLOT_BYTES]| {
            let (encapsulated, wrapped) = slot.split_at(ENCAPSULATED_BYTES);
            let encapsulated = <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated).ok()?;
            let mut plain = hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
                &OpModeR::Base,
                &private,
                &encapsulated,
                &info,
                wrapped,
                &self.commitment.0,
            )
            .ok()?;
            let secret: Result<[u8; 32], _> = plain.as_slice().try_into();
            plain.zeroize();
            // Detects a publisher that lets readers open different bytes.
            secret.ok().map(ObjectKey::from_secret).filter(|key| key.commitment() == self.commitment)
        };
        self.slots.iter().find_map(open)
    }
    /// The bytes of the list.
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.slots.len() * SLOT_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.object.0);
        bytes.extend_from_slice(&self.commitment.0);
        bytes.extend_from_slice(&u16::try_from(self.slots.len()).expect("there are at most 1,024").to_be_bytes());
        self.slots.iter().for_each(|slot| bytes.extend_from_slice(slot));
        bytes.into()
    }
    /// Reads a list. The result encodes to the same bytes.
    ///
    /// # Errors
    /// [`KeyListError`] names the error.
    pub fn decode(bytes: &[u8]) -> Result<KeyList, KeyListError> {
        let short = |need| KeyListError::Length { need, have: bytes.len() };
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(short(HEADER_BYTES))?;
        if header[..4] != *MAGIC {
            return Err(KeyListError::Magic);
        }
        let count = usize::from(u16::from_be_bytes([header[52], header[53]]));
        if count == 0 || count > Self::READERS_MAX {
            return Err(KeyListError::Readers { readers: count });
        }
        if rest.len() != count * SLOT_BYTES {
            return Err(short(HEADER_BYTES + count * SLOT_BYTES));
        }
        let array = |range: core::ops::Range<usize>| header[range].try_into().ok();
        let (slots, _) = rest.as_chunks::<SLOT_BYTES>();
        Ok(KeyList {
            object: ObjectId(array(4..20).expect("16 bytes")),
            commitment: Hash(header[20..52].try_into().expect("32 bytes")),
            slots: slots.to_vec(),
        })
    }
    /// The object that it is the list of.
    pub fn object(&self) -> ObjectId {
        self.object
    }
    /// The number of slots: at least that of readers.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }
}

fn info(object: ObjectId) -> Vec<u8> {
    [b"tributary key list v1", &object.0[..]].concat()
}
fn seal_slot(
    object: ObjectId,
    commitment: &Hash,
    public: &[u8; 32],
    secret: &[u8; 32],
    random: &mut Random<'_>,
) -> Option<[u8; SLOT_BYTES]> {
    let public = <Kem as hpke::Kem>::PublicKey::from_bytes(public).ok()?;
    let (encapsulated, wrapped) = hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, HkdfSha256, Kem>(
        &OpModeS::Base,
        &public,
        &info(object),
        secret,
        &commitment.0,
        random,
    )
    .ok()?;
    [&encapsulated.to_bytes()[..], &wrapped].concat().try_into().ok()
}

/// The entropy argument in the form of the HPKE crate.
struct Random<'a>(&'a mut dyn FnMut(&mut [u8]));

impl rand_core::TryRng for Random<'_> {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        (self.0)(bytes);
        Ok(())
    }
}
impl rand_core::TryCryptoRng for Random<'_> {}

/// Why bytes are no list of keys, or none can be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyListError {
    /// The first four bytes are not those of a known list layout.
    #[error("these bytes are not a key list of layout 1")]
    Magic,
    /// Too few or too many bytes.
    #[error("a key list of {need} bytes has {have}")]
    Length {
        /// Bytes that it needs.
        need: usize,
        /// Bytes present.
        have: usize,
    },
    /// No reader, or too many.
    #[error("{readers} readers: a sealed object has at least 1 and at most {}", KeyList::READERS_MAX)]
    Readers {
        /// How many.
        readers: usize,
    },
    /// Bytes that are no key.
    #[error("{reader} is not an Ed25519 key that anybody can have")]
    Key {
        /// The reader.
        reader: PublicKey,
    },
}

const MAGIC: &[u8; 4] = b"TrK\x01";
const HEADER_BYTES: usize = 4 + 16 + 32 + 2;
const ENCAPSULATED_BYTES: usize = 32;
const SLOT_BYTES: usize = ENCAPSULATED_BYTES + ObjectKey::BYTES + 16;
const SLOTS_MIN: usize = 4;
/// NDN's type of keyword components.
const KEYWORD: u16 = 32;
const READERS: &str = "readers-";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryObject, store::ObjectReader};

    fn reader(byte: u8) -> SigningKey {
        SigningKey::from_secret(&[byte; 32])
    }
    /// Bytes that look random and are the same each time.
    fn entropy(seed: u8) -> impl FnMut(&mut [u8]) {
        let mut source = blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof();
        move |bytes: &mut [u8]| source.fill(bytes)
    }
    fn list(readers: &[u8]) -> KeyList {
        let keys: Vec<PublicKey> = readers.iter().map(|byte| reader(*byte).public()).collect();
        let key = ObjectKey::from_secret([5; 32]);
        KeyList::seal(ObjectId([1; 16]), &key, &keys, &mut entropy(1)).expect("there are readers")
    }

    #[test]
    fn readers_open_the_key_and_nobody_else_does() {
        let sealed = KeyList::decode(&list(&[1, 2, 3]).encode()).expect("it is one");
        for byte in 1..=3 {
            assert_eq!(sealed.open(ObjectId([1; 16]), &reader(byte)), Some(ObjectKey::from_secret([5; 32])));
        }
        assert_eq!(sealed.open(ObjectId([1; 16]), &reader(4)), None);
        assert_eq!(sealed.open(ObjectId([2; 16]), &reader(1)), None, "it is the list of another object");
        let mut moved = sealed.encode().to_vec();
        moved[4] = 2;
        let moved = KeyList::decode(&moved).expect("it has the shape");
        assert_eq!(moved.open(moved.object(), &reader(1)), None, "slots are bound to their object");
    }

    #[test]
    fn a_list_does_not_say_who_reads_nor_exactly_how_many() {
        let sizes = [1, 3, 4, 5, 8, 9].map(|count| list(&(1..=count).collect::<Vec<u8>>()).slots());
        assert_eq!(sizes, [4, 4, 4, 8, 8, 16]);
        let sealed = list(&[1, 2]).encode();
        for byte in [1, 2] {
            let public = reader(byte).public();
            let x25519 = public.agreement_key().expect("a key");
            for key in [public.0, x25519] {
                assert!(!sealed.windows(8).any(|window| key.windows(8).any(|of| of == window)));
            }
        }
        let key = ObjectKey::from_secret([5; 32]);
        let again = KeyList::seal(ObjectId([1; 16]), &key, &[reader(1).public(), reader(2).public()], &mut entropy(2));
        let again = again.expect("there are readers");
        assert!(again.slots.iter().all(|slot| !list(&[1, 2]).slots.contains(slot)), "nothing links two lists");
    }

    #[test]
    fn a_publisher_that_gives_readers_different_keys_is_found_out() {
        let [one, other] = [5, 6].map(|byte| ObjectKey::from_secret([byte; 32]));
        let object = ObjectId([1; 16]);
        let mut entropy = entropy(1);
        let mut random = Random(&mut entropy);
        let public = reader(1).public().agreement_key().expect("a key");
        let slot = seal_slot(object, &one.commitment(), &public, other.secret(), &mut random).expect("a key");
        let forged = KeyList { object, commitment: one.commitment(), slots: alloc::vec![slot] };
        assert_eq!(forged.open(object, &reader(1)), None);
    }

    #[test]
    fn lists_without_readers_with_too_many_or_with_keys_of_nobody_are_refused() {
        let key = ObjectKey::from_secret([5; 32]);
        let seal = |readers: &[PublicKey]| KeyList::seal(ObjectId([1; 16]), &key, readers, &mut entropy(1));
        assert_eq!(seal(&[]), Err(KeyListError::Readers { readers: 0 }));
        let many = alloc::vec![reader(1).public(); KeyList::READERS_MAX + 1];
        assert_eq!(seal(&many), Err(KeyListError::Readers { readers: 1025 }));
        // The neutral element: a secret encapsulated for it is public.
        let weak = PublicKey(core::array::from_fn(|at| u8::from(at == 0)));
        assert_eq!(seal(&[weak]), Err(KeyListError::Key { reader: weak }));
    }

    #[test]
    fn the_name_of_a_list_is_beside_that_of_its_object() {
        for (of, beside) in [("/lab/x", "/lab/"), ("/x", "/")] {
            let object = MemoryObject::new(of.parse().expect("a name"), &b"x"[..], &reader(1)).expect("legal");
            let name = KeyList::name_for(object.manifest()).expect("there is room");
            let id = object.manifest().object_id();
            assert_eq!(alloc::format!("{name}"), alloc::format!("{beside}32=readers-{id}"));
            assert!(KeyList::is_name(&name) && !KeyList::is_name(&object.manifest().name));
        }
        for other in ["/x/readers-00000000000000000000000000000000", "/x/32=readers-00", "/x/readers/y", "/"] {
            assert!(!KeyList::is_name(&other.parse().expect("a name")), "{other}");
        }
    }

    #[test]
    fn malformed_lists_are_refused_with_the_reason() {
        let good = list(&[1]).encode();
        assert_eq!(KeyList::decode(&good[..53]), Err(KeyListError::Length { need: 54, have: 53 }));
        assert_eq!(KeyList::decode(&good[..100]), Err(KeyListError::Length { need: 374, have: 100 }));
        assert_eq!(KeyList::decode(&[&good[..], &[0]].concat()), Err(KeyListError::Length { need: 374, have: 375 }));
        let with = |at: usize, value: u8| {
            let mut bad = good.to_vec();
            bad[at] = value;
            KeyList::decode(&bad)
        };
        assert_eq!(with(3, 2), Err(KeyListError::Magic));
        assert_eq!(with(53, 0), Err(KeyListError::Readers { readers: 0 }));
        assert_eq!(with(52, 0xff), Err(KeyListError::Readers { readers: 0xff04 }));
        assert!(with(60, 1).is_ok_and(|list| list.open(ObjectId([1; 16]), &reader(9)).is_none()));
    }
}
