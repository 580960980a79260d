//! Names and addresses of the family.
use core::fmt;

use tributary_content::{Name, ObjectId, PublicKey};
use tributary_core::wire_table;

use crate::wire::fields::{ADDRESS, GUID};

/// A globally unique identifier (paper §3): a flat, self-certifying name of a device, a content, a group or a context.
///
/// The first 20 bytes of the BLAKE3 hash of its owner's public key and a label, so that the key's holder can prove a
/// record about the GUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub [u8; 20]);

impl Guid {
    /// Bytes of a GUID.
    pub const BYTES: usize = 20;
    /// No GUID: means "any device at that address".
    pub const NONE: Guid = Guid([0; 20]);

    /// The GUID of the object that the owner of `key` labels `label`; the empty label is the owner's device itself.
    pub fn of(key: &PublicKey, label: &[u8]) -> Guid {
        Guid::hash("tributary mobilityfirst guid", &[&key.0, label])
    }
    /// The GUID of the content that the owner of `key` publishes under `name`.
    pub fn of_content(key: &PublicKey, name: &Name) -> Guid {
        Guid::of(key, name.as_tlv())
    }
    /// The place in the directory of all publishers' announcements under `name`.
    ///
    /// It has no owner: the GUIDs in records found there certify these.
    pub fn of_name(name: &Name) -> Guid {
        Guid::hash("tributary mobilityfirst listing", &[name.as_tlv()])
    }
    /// The GUID of a device's record that it has contents in a scope.
    pub fn of_scope(name: &Name) -> Guid {
        Guid::hash("tributary mobilityfirst scope", &[name.as_tlv()])
    }
    /// Whether this is [`Guid::NONE`].
    pub fn is_none(&self) -> bool {
        *self == Guid::NONE
    }
    fn hash(context: &str, parts: &[&[u8]]) -> Guid {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        for part in parts {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Guid(*hasher.finalize().as_bytes().first_chunk().expect("20 of 32 bytes"))
    }
}
impl core::str::FromStr for Guid {
    type Err = ();
    /// Reads the 40 hex digits that `Display` writes.
    fn from_str(text: &str) -> Result<Guid, ()> {
        let mut guid = Guid::NONE;
        if text.len() != 2 * Guid::BYTES || !text.is_ascii() {
            return Err(());
        }
        for (index, byte) in guid.0.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| ())?;
        }
        Ok(guid)
    }
}
impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({:02x}{:02x}{:02x}{:02x})", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// Where something is attached (paper: NA): the address of a router. Zero is no address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NetworkAddress(pub u32);

impl NetworkAddress {
    /// No address: routers look it up on the way (late binding).
    pub const NONE: NetworkAddress = NetworkAddress(0);

    /// The address of the router that is called `label`: four bytes of the label's hash, never zero.
    pub fn of_label(label: &str) -> NetworkAddress {
        let hash = blake3::hash(label.as_bytes());
        let bits = u32::from_be_bytes(*hash.as_bytes().first_chunk().expect("4 of 32 bytes"));
        NetworkAddress(bits.max(1))
    }
    /// Whether this is [`NetworkAddress::NONE`].
    pub fn is_none(self) -> bool {
        self == NetworkAddress::NONE
    }
}
impl fmt::Display for NetworkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
impl fmt::Debug for NetworkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkAddress({self})")
    }
}

/// An address, and the weight of its access relative to others, of the same device and of others: 1 to 255, larger is
/// better.
pub type Weighted = (NetworkAddress, u8);

/// The weight of the best access, and of an unknown one.
pub const WEIGHT_MAX: u8 = 255;

/// The effective distance through an access of this weight: half the weight doubles the distance.
pub fn weighted(distance: u64, weight: u8) -> u64 {
    distance.saturating_mul(u64::from(WEIGHT_MAX)) / u64::from(weight.max(1))
}

/// Identifies a chunk during its transfer over one hop; every hop and each direction has separate ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HopId(pub u32);

/// The service that the network performs on a chunk (reference/mobilityfirst, service ids).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u16)]
pub enum ServiceId {
    /// To the one that has the GUID.
    #[default]
    Unicast = 0,
    /// To all members of the group that has the GUID.
    Multicast = 1,
    /// To the nearest of the addresses.
    Anycast = 2,
    /// Over all of the addresses: the router where the paths diverge distributes the chunks over them.
    Multihoming = 4,
    /// A request for content; caches on the way may answer it.
    ContentRequest = 0x200,
    /// Requested content.
    ContentResponse = 0x400,
}

impl ServiceId {
    /// The service for a chunk whose sender did not know whether its destination is a group. A sender that uses
    /// [`ServiceId::Multicast`] did.
    pub fn for_group(self, is_group: bool) -> ServiceId {
        match (self, is_group) {
            (ServiceId::Unicast, true) => ServiceId::Multicast,
            (ServiceId::Anycast, false) => ServiceId::Unicast,
            (service, _) => service,
        }
    }
    /// The service of this number.
    pub fn from_number(number: u16) -> Option<ServiceId> {
        Some(match number {
            0 => ServiceId::Unicast,
            1 => ServiceId::Multicast,
            2 => ServiceId::Anycast,
            4 => ServiceId::Multihoming,
            0x200 => ServiceId::ContentRequest,
            0x400 => ServiceId::ContentResponse,
            _ => return None,
        })
    }
}

/// Proof that the sender of a message about a transfer is one of its ends or on its route: no other node can guess it.
/// Every chunk carries it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Token(pub u64);

impl Token {
    /// Bytes of a token.
    pub const BYTES: usize = 8;

    /// The token of a transfer with a peer, derived from a secret of the node that made it.
    pub fn of(secret: &[u8; 32], peer: &Guid, transfer: u32) -> Token {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(&peer.0).update(&transfer.to_be_bytes());
        Token(u64::from_be_bytes(*hasher.finalize().as_bytes().first_chunk().expect("8 of 32 bytes")))
    }
}

wire_table! {
    /// A flow (paper §3.1, footnote 2): everything from one GUID to another.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub struct Flow {
        /// The sender.
        pub source: Guid = GUID => "source",
        /// The receiver.
        pub destination: Guid = GUID => "destination",
    }
}

wire_table! {
    /// The router that is responsible for a chunk in transit until a node further on has it on a disk (custodian, RFC
    /// 5050 §5.10).
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
    pub struct Custodian {
        /// The router.
        pub guid: Guid = GUID => "custodian",
        /// Its address.
        pub address: NetworkAddress = ADDRESS => "custodian's address",
    }
}

impl Custodian {
    /// Bytes on the wire.
    pub const BYTES: usize = Guid::BYTES + 4;
}

/// One chunk of one object in one flow: identifies duplicates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChunkKey {
    /// The flow.
    pub flow: Flow,
    /// The object.
    pub object: ObjectId,
    /// The transfer, which the requester or the pusher numbers: the same object may go twice.
    pub transfer: u32,
    /// The chunk's number in the object.
    pub number: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use tributary_content::SigningKey;

    #[test]
    fn guids_depend_on_key_and_label_and_on_nothing_else() {
        let (a, b) = (SigningKey::from_secret(&[1; 32]).public(), SigningKey::from_secret(&[2; 32]).public());
        let name: Name = "/lab/x".parse().expect("a name");
        let all = [Guid::of(&a, b""), Guid::of(&b, b""), Guid::of_content(&a, &name), Guid::of_name(&name)];
        for (i, guid) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != guid));
        }
        assert_eq!(Guid::of_content(&a, &name), Guid::of(&a, name.as_tlv()));
        assert_eq!(all[0].to_string().len(), 40);
    }

    #[test]
    fn addresses_are_never_zero_and_services_have_one_number_each() {
        assert!(!NetworkAddress::of_label("x").is_none());
        for number in 0..=u16::MAX {
            if let Some(service) = ServiceId::from_number(number) {
                assert_eq!(service as u16, number);
            }
        }
    }
}
