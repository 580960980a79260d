//! Identifiers of the scope graph, and the roles of nodes.
//!
//! PSI arranges content in scopes: an id is a path of component ids, scope after scope, that ends in an item or in
//! a scope. Each component id is made from the ids before it, so a path cannot be rearranged, and the same last
//! component under two scopes has two ids. A manifest names one name, and that one is signed: the same bytes under two
//! names are two manifests, two items and two objects.
use alloc::vec::Vec;
use core::fmt;

use tributary_content::Name;

use crate::wire::{Reader, WireError, Writer};

/// One component of a scope or item id: the first 8 bytes of BLAKE3 over the ids before it and the name component.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub [u8; 8]);

impl fmt::Debug for ComponentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn path_of(name: &Name) -> Vec<ComponentId> {
    let mut hasher = blake3::Hasher::new();
    let mut path = Vec::new();
    for (kind, value) in name.typed_components() {
        let mut input = hasher.clone();
        input.update(&kind.to_be_bytes());
        input.update(value);
        let id = ComponentId(*input.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"));
        hasher.update(&id.0);
        path.push(id);
    }
    path
}

fn key_of(path: &[ComponentId]) -> RecordKey {
    let mut hasher = blake3::Hasher::new_derive_key("tributary psi rendezvous record");
    path.iter().for_each(|id| {
        hasher.update(&id.0);
    });
    RecordKey(*hasher.finalize().as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

fn decode_path(reader: &mut Reader<'_>) -> Result<Vec<ComponentId>, WireError> {
    let count = reader.u8("id length")?;
    if usize::from(count) > Name::COMPONENTS_MAX {
        return Err(WireError::Value { field: "id length", found: u64::from(count) });
    }
    (0..count).map(|_| reader.array("component id").map(ComponentId)).collect()
}

fn encode_path(path: &[ComponentId], out: &mut Vec<u8>) {
    out.put_u8(path.len() as u8);
    path.iter().for_each(|id| out.extend_from_slice(&id.0));
}

/// The id of an information item (paper: publication): the path of scopes that leads to it and its own component.
///
/// On the wire: number of components 1, then 8 bytes each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(Vec<ComponentId>);

impl ItemId {
    /// The id of `name`.
    pub fn new(name: &Name) -> Self {
        ItemId(path_of(name))
    }
    /// Its components, outermost scope first.
    #[cfg(feature = "internals")]
    pub fn components(&self) -> &[ComponentId] {
        &self.0
    }
    /// The key of its record at the rendezvous nodes. A scope and an item of the same path have the same key, so that
    /// the nodes notice when one path is used for both.
    pub fn key(&self) -> RecordKey {
        key_of(&self.0)
    }
    /// Reads an id and leaves `reader` behind it.
    ///
    /// # Errors
    /// [`WireError`] if it is cut or has more components than a name may have.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        decode_path(reader).map(ItemId)
    }
    /// Appends the id to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_path(&self.0, out);
    }
}
impl From<&Name> for ItemId {
    fn from(name: &Name) -> Self {
        ItemId::new(name)
    }
}
impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|id| write!(f, "/{id:?}"))
    }
}
impl fmt::Debug for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ItemId({self})")
    }
}

/// The key of a record in the hash table of the rendezvous nodes: 16 bytes of BLAKE3 over the whole id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordKey(pub [u8; 16]);

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A node's roles in the network, in any combination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Roles(u8);

impl Roles {
    /// A host without any role.
    pub const NONE: Roles = Roles(0);
    /// It forwards packets of other nodes (paper: FN).
    pub const ROUTER: Roles = Roles(1);
    /// It is a rendezvous node (paper: RN).
    pub const RESOLVER: Roles = Roles(2);
    /// It is a topology manager (paper: TM), active or standby.
    pub const TOPOLOGY_MANAGER: Roles = Roles(4);
    /// It publishes (paper: publisher).
    pub const SENDER: Roles = Roles(8);
    /// It subscribes (paper: subscriber).
    pub const RECEIVER: Roles = Roles(16);

    const NAMES: [(Roles, &str); 5] = [
        (Roles::ROUTER, "router"),
        (Roles::RESOLVER, "resolver"),
        (Roles::TOPOLOGY_MANAGER, "topology-manager"),
        (Roles::SENDER, "sender"),
        (Roles::RECEIVER, "receiver"),
    ];

    /// The subset of these roles that the certificate allows: every host publishes and subscribes.
    pub fn within(self, certified: tributary_trust::Roles) -> Roles {
        let mut allowed = Roles::SENDER | Roles::RECEIVER;
        for (role, certified_as) in [
            (Roles::ROUTER, tributary_trust::Roles::ROUTER),
            (Roles::RESOLVER, tributary_trust::Roles::RESOLVER),
            (Roles::TOPOLOGY_MANAGER, tributary_trust::Roles::TOPOLOGY_MANAGER),
        ] {
            if certified.contains(certified_as) {
                allowed = allowed | role;
            }
        }
        Roles(self.0 & allowed.0)
    }
}
/// The id of the node with this key, in a network with an authority: no other key yields it.
pub fn node_of_key(key: &tributary_trust::PublicKey) -> tributary_core::NodeId {
    let hash = blake3::derive_key("tributary psi node id", &key.0);
    tributary_core::NodeId(u64::from_be_bytes(*hash.first_chunk().expect("a hash has 32 bytes")))
}

tributary_core::bit_set!(Roles, 0x1f);
impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Roles::NAMES.iter().filter(|(role, _)| self.contains(*role)) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
        if separator.is_empty() { f.write_str("host") } else { Ok(()) }
    }
}
impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roles({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn an_id_grows_from_its_parents_id() {
        let item = ItemId::new(&name("/lab/images/debian.iso"));
        assert_eq!(item.0.len(), 3);
        assert_eq!(item.0[..2], ItemId::new(&name("/lab/images")).0);
        let other = ItemId::new(&name("/other/images/debian.iso"));
        assert!(item.0.iter().zip(&other.0).all(|(a, b)| a != b));
    }

    #[test]
    fn component_boundaries_and_types_matter() {
        let keys = ["/ab/c", "/a/bc", "/abc", "/54=abc"].map(|text| ItemId::new(&name(text)).key());
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn ids_survive_the_wire_and_too_long_ones_are_refused() {
        let item = ItemId::new(&name("/lab/images/debian.iso"));
        let mut bytes = Vec::new();
        item.encode(&mut bytes);
        assert_eq!(bytes.len(), 25);
        let mut reader = Reader::new(&bytes);
        assert_eq!(ItemId::decode(&mut reader), Ok(item));
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(
            ItemId::decode(&mut Reader::new(&[33; 400])),
            Err(WireError::Value { field: "id length", found: 33 })
        );
        assert!(ItemId::decode(&mut Reader::new(&bytes[..24])).is_err());
    }

    #[test]
    fn roles_read_back_and_unknown_bits_are_refused() {
        let roles = Roles::ROUTER | Roles::SENDER;
        assert_eq!(Roles::from_bits(roles.bits()), Some(roles));
        assert!(roles.contains(Roles::SENDER) && !roles.contains(Roles::RESOLVER));
        assert_eq!(roles.to_string(), "router,sender");
        assert_eq!(Roles::NONE.to_string(), "host");
        assert!(Roles::from_bits(32).is_none());
    }
}
