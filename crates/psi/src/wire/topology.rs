//! Messages between nodes and topology managers. These travel inside control messages.
use alloc::{string::String, vec::Vec};

use tributary_content::PublicKey;
use tributary_core::{
    FaceId, Location, NodeId,
    wire::{
        Codec,
        codec::{Blob, Bytes, List8, List16, Of, Own, Pair, Text, U8, U16, U32, U64},
    },
    wire_table,
};
use tributary_transport::PathMetric;

use super::{
    FID_BYTES_MAX, Fid, Fields, Reader, Wire, WireError, Writer,
    fields::{ANY_NODE, FACE, FID, LOCATION, ROLES, TERM},
    rendezvous::{METRIC, VERSION},
};
use crate::{
    capability::{CapabilityKey, KEYS_MAX},
    ids::{ItemId, Roles},
};

/// Maximum bytes of a node's human-readable name.
pub const LABEL_BYTES_MAX: usize = 32;
/// Maximum bytes of a path's human-readable name.
pub const PATH_LABEL_BYTES_MAX: usize = 96;
/// Maximum bytes of an encoded manifest.
pub const MANIFEST_BYTES_MAX: usize = 1400;
/// Maximum links reported by a node.
pub const ADJACENCIES_MAX: usize = 1024;
/// Maximum publishers in a [`PathRequest`].
pub const PUBLISHERS_MAX: usize = 64;
/// Maximum withdrawn publishers in a [`PathRequest`].
pub const WITHDRAWN_MAX: usize = 255;
/// Maximum entries in an [`Overtaken`]: the subscription and every publisher of a request.
pub const OVERTAKEN_MAX: usize = PUBLISHERS_MAX + 1;
/// Maximum paths per source.
pub const PATHS_MAX: usize = 16;
/// Maximum shared links of a path.
pub const SHARED_LINKS_MAX: usize = 32;
/// Maximum resolvers in a [`Routes`].
pub const RESOLVERS_MAX: usize = 256;

wire_table! {
    /// A node's statement about itself and its links; sent to every topology manager.
    ///
    /// ```text
    /// node 8 | boot 8 | sequence 4 | term 4 | roles 1 | label 2+n | label secret 16 | latitude 4 | longitude 4
    /// | number of links 2 | links: face 4, neighbour 8, neighbour's face 4, rtt 4, capacity 4, used 4, mtu 4
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct LinkState {
        /// The node.
        pub node: NodeId = ANY_NODE => "node id",
        /// Its boot number; another one after each start.
        pub boot: u64 = U64 => "boot",
        /// Counts its messages since it booted; the larger is the newer.
        pub sequence: u32 = U32 => "sequence",
        /// The highest term of a topology manager that the node has seen; a restarted manager continues from there.
        pub term: u32 = TERM => "term",
        /// Its roles.
        pub roles: Roles = ROLES => "roles",
        /// Its human-readable name, at most 32 bytes.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// The secret that its link labels are made from.
        pub secret: [u8; 16] = Bytes => "label secret",
        /// Its location, if it states one.
        pub location: Option<Location> = LOCATION => "location",
        /// Its links to neighbours that answer.
        pub adjacencies: Vec<Adjacency> = List16(ADJACENCIES_MAX, "link", Own) => "number of links",
    }
}

wire_table! {
    /// One direction of a link, as its sending end sees it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Adjacency {
        /// The face that it leaves by; unique within the node.
        pub face: FaceId = FACE => "face",
        /// The node at the other end.
        pub neighbour: NodeId = ANY_NODE => "neighbour",
        /// The other end's face.
        pub neighbour_face: FaceId = FACE => "neighbour's face",
        /// Round-trip time in microseconds; zero means unknown.
        pub rtt_us: u32 = U32 => "rtt",
        /// Rate in kbit/s; zero means unknown.
        pub capacity_kbps: u32 = U32 => "capacity",
        /// Rate in use in kbit/s.
        pub used_kbps: u32 = U32 => "used rate",
        /// Bytes of the largest datagram proven to get through.
        pub mtu: u32 = U32 => "mtu",
    }
}

/// What a node needs from the active topology manager; sent to every node when it changes.
///
/// ```text
/// manager 8 | term 4 | sequence 4
/// | number of resolvers 2: node 8, boot 4, label 2+n, FID to it, FID back
/// | bitmap epoch 1 | local bit 2 (0xffff: none) | number of faces 2: face 4, bit 2
/// | number of keys 1: epoch 4, key 32
/// | in a network with an authority: the key of each resolver 32
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routes {
    /// The topology manager that sent it.
    pub manager: NodeId,
    /// Its term; an older one's routes are void.
    pub term: u32,
    /// Counts the routes of this node within the term.
    pub sequence: u32,
    /// Every rendezvous node, with verified routes to it and back.
    pub resolvers: Vec<ResolverRoute>,
    /// The numbers of this node's links in FIDs of kind bitmap.
    pub bitmap: BitmapNumbers,
    /// The capability keys in force: previous, current, next. Empty for plain receivers.
    pub keys: Vec<CapabilityKey>,
}

wire_table! {
    /// How to reach one rendezvous node.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ResolverRoute {
        /// The rendezvous node.
        pub node: NodeId = ANY_NODE => "resolver",
        /// The low half of its boot number: after a restart a node has forgotten everything from before.
        pub boot: u32 = U32 => "boot number of the resolver",
        /// Its human-readable name.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// The route to it.
        pub to: Fid = FID => "FID",
        /// The route back.
        pub back: Fid = FID => "FID",
        /// Its key in a network with an authority; either all resolvers of a message have one, or no resolver has.
        pub key: Option<PublicKey> = KEY_LATER => "key of the resolver",
    }
}

wire_table! {
    /// Which bits of a bitmap FID mean which links of one node (as BIER-TE, RFC 9262).
    #[derive(Clone, PartialEq, Eq, Debug, Default)]
    pub struct BitmapNumbers {
        /// Which numbering of the domain this is: the salt of the FIDs that use it.
        pub epoch: u8 = U8 => "bitmap epoch",
        /// The bit of local delivery; `None` if it has no number.
        pub local: Option<u16> = LOCAL_BIT => "local bit",
        /// The bit of each outgoing link that has a number.
        pub faces: Vec<(FaceId, u16)> =
            List16(ADJACENCIES_MAX, "face", Pair("face", FACE, "bit", U16)) => "number of faces",
    }
}

const NO_BIT: u16 = u16::MAX;

/// The keys of all resolvers follow at the end of the message.
const KEY_LATER: Of<Option<PublicKey>> = Of(|_, _| Ok(None), |_, _| {});

const LOCAL_BIT: Of<Option<u16>> = Of(
    |reader, field| Ok(Some(reader.u16(field)?).filter(|bit| *bit != NO_BIT)),
    |bit, out| out.put_u16(bit.unwrap_or(NO_BIT)),
);

const RESOLVERS: List16<Own> = List16(RESOLVERS_MAX, "resolver", Own);
const KEYS: List8<Own> = List8(KEYS_MAX, "key", Own);

impl Wire for Routes {
    fn read(reader: &mut Reader<'_>) -> Result<Routes, WireError> {
        let mut routes = Routes {
            manager: NodeId(reader.u64("manager")?),
            term: reader.term()?,
            sequence: reader.u32("sequence")?,
            resolvers: RESOLVERS.read(reader, "number of resolvers")?,
            bitmap: BitmapNumbers::read(reader)?,
            keys: KEYS.read(reader, "number of keys")?,
        };
        // Fewer bytes are no key.
        if reader.rest().len() >= 32 {
            for route in &mut routes.resolvers {
                route.key = Some(PublicKey(reader.array("key of the resolver")?));
            }
        }
        Ok(routes)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.manager.0);
        out.put_u32(self.term);
        out.put_u32(self.sequence);
        RESOLVERS.write(&self.resolvers, out);
        self.bitmap.encode(out);
        KEYS.write(&self.keys, out);
        self.resolvers.iter().filter_map(|route| route.key).for_each(|key| out.extend_from_slice(&key.0));
    }
}

wire_table! {
    /// A rendezvous node asks for paths between matched publishers and a subscriber (paper §II-B, §III-B1 step 2).
    ///
    /// It is soft state: repeated before `lease_ms` has passed, withdrawn with `paths` = 0.
    ///
    /// Requests about one transfer may be reordered, and several rendezvous nodes may send them. The versions of their
    /// entries order them. The hosts number these, boot by boot, and every rendezvous node that holds the record has
    /// the same numbers. A topology manager merges entry by entry: the newer version wins, and of equal ones the
    /// withdrawal. So the result does not depend on the order of arrival, on repetitions, or on the sender. A request
    /// that omits a publisher does not withdraw it: the sender may not know of it yet.
    /// ```text
    /// subscriber 8 | transfer 4 | version 8 | item | metric 1 | paths 1 | lease 4
    /// | number of publishers 1 | publishers: node 8, version 8, label 2+n, manifest 2+n
    /// | number of withdrawn ones 1 | node 8, version 8
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PathRequest {
        /// The subscriber.
        pub subscriber: NodeId = ANY_NODE => "subscriber",
        /// The subscriber's number for it.
        pub transfer: u32 = U32 => "transfer",
        /// Version of the subscription.
        pub version: u64 = VERSION => "version",
        /// The item.
        pub item: ItemId = ITEM => "item",
        /// What makes a path good.
        pub metric: PathMetric = METRIC => "metric",
        /// Paths per source, up to [`PATHS_MAX`]; zero withdraws the request.
        pub paths: u8 = PATHS => "number of paths",
        /// How long the request holds, in milliseconds.
        pub lease_ms: u32 = U32 => "lease",
        /// The publishers of the item.
        pub publishers: Vec<Publisher> = List8(PUBLISHERS_MAX, "publisher", Own) => "number of publishers",
        /// Who had it: nodes, and the versions of their withdrawals.
        pub withdrawn: Vec<(NodeId, u64)> = List8(
            WITHDRAWN_MAX,
            "withdrawn publisher",
            Pair("withdrawn publisher", ANY_NODE, "version of the withdrawal", VERSION)
        ) => "number of withdrawn publishers",
    }
}

wire_table! {
    /// A publisher of an item.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Publisher {
        /// The node.
        pub node: NodeId = ANY_NODE => "publisher",
        /// Version of the publication.
        pub version: u64 = VERSION => "version of the publication",
        /// Its human-readable name.
        pub label: String = Text(LABEL_BYTES_MAX) => "label",
        /// The manifest that it publishes, encoded, at most [`MANIFEST_BYTES_MAX`] bytes; empty if it equals the one of
        /// the publisher before.
        pub manifest: Vec<u8> = Blob(MANIFEST_BYTES_MAX) => "manifest",
    }
}

const ITEM: Of<ItemId> = Of(|reader, _| ItemId::decode(reader), ItemId::encode);
const PATHS: Of<u8> = Of(
    |reader, field| reader.choice(field, |paths| Some(paths).filter(|paths| usize::from(*paths) <= PATHS_MAX)),
    |paths, out| out.put_u8(*paths),
);

wire_table! {
    /// A topology manager reports to a rendezvous node which entries of its [`PathRequest`] are older than its own. If
    /// the rendezvous node has nothing newer either, as after a restart without memory, it makes the hosts in question
    /// number their entries beyond these versions.
    ///
    /// ```text
    /// item | number of entries 1 | entries: kind 1 (0: publisher, 1: subscription), node 8, if subscription: transfer 4,
    /// version 8
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Overtaken {
        /// The item.
        pub item: ItemId = ITEM => "item",
        /// The entries, and the topology manager's versions.
        pub entries: Vec<(MatchKey, u64)> =
            List8(OVERTAKEN_MAX, "entry", Pair("entry kind", Own, "version", VERSION)) => "number of entries",
    }
}

wire_table! {
    /// One of the entries that a [`PathRequest`] is made of.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum MatchKey("entry kind") {
        /// A node publishes the item.
        0 => Publisher(node: NodeId = ANY_NODE => "publisher"),
        /// A node's transfer wants it.
        1 => Subscription(node: NodeId = ANY_NODE => "subscriber", transfer: u32 = U32 => "transfer"),
    }
}

/// One source of a transfer and the paths to it (paper §III-B1 step 3). The offers of one version are together the full
/// present state: missing sources and paths are withdrawn.
///
/// ```text
/// transfer 4 | term 4 | sequence 4 | index 1 | count 1
/// | if count > 0: source 8, label 2+n, manifest 2+n, number of paths 1, paths:
///   id 2, reverse FID, forward FID, capability 8, hops 1, mtu 4, latency 4, capacity 4, residual 4,
///   number of shared links 1: number 2, residual 4; label 2+n
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Offer {
    /// The subscriber's number of the transfer.
    pub transfer: u32,
    /// Which state; the larger is the newer.
    pub version: OfferVersion,
    /// Which of the sources this is, from 0.
    pub index: u8,
    /// The number of sources. If zero, the fields below are empty.
    pub count: u8,
    /// The source's node; [`NodeId::NONE`] if the network has no source.
    pub source: NodeId,
    /// Its human-readable name.
    pub source_label: String,
    /// The manifest that it publishes, encoded; empty if it equals the one of the source before.
    pub manifest: Vec<u8>,
    /// Bytes reserved in packets for FIDs: as many as the longest paths of the domain need, so that near and far
    /// receivers cut an object into the same packets and share caches.
    pub fid_room: u8,
    /// The paths to it, best first. Empty if it cannot be reached now.
    pub paths: Vec<PathOffer>,
}

wire_table! {
    /// Orders the offers of one transfer.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    pub struct OfferVersion {
        /// The term of the topology manager.
        pub term: u32 = TERM => "term",
        /// Counts within the term.
        pub sequence: u32 = U32 => "sequence",
    }
}

wire_table! {
    /// A path: one route for requests, one for data, and its properties known to the topology manager.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PathOffer {
        /// Its number in this transfer: the same links keep the same number.
        pub id: u16 = U16 => "path id",
        /// The route from subscriber to source.
        pub reverse: Fid = FID => "FID",
        /// The route from source to subscriber.
        pub forward: Fid = FID => "FID",
        /// Proof that the topology manager made this pair; goes into every request.
        pub capability: [u8; 8] = Bytes => "capability",
        /// Links from source to subscriber.
        pub hops: u8 = U8 => "hops",
        /// Bytes of the largest datagram that all its links carry, from source to subscriber.
        pub mtu: u32 = U32 => "mtu",
        /// One-way latency in microseconds: half the sum of the links' round-trip times; zero means unknown.
        pub latency_us: u32 = U32 => "latency",
        /// Rate of the narrowest link in kbit/s; zero means unknown.
        pub capacity_kbps: u32 = U32 => "capacity",
        /// Unused rate of the narrowest link in kbit/s; zero means unknown.
        pub residual_kbps: u32 = U32 => "residual capacity",
        /// Which links it shares, in the direction of data, with other paths of this transfer.
        pub shared_links: Vec<SharedLink> = List8(SHARED_LINKS_MAX, "shared link", Own) => "number of shared links",
        /// The nodes on it from subscriber to source, for people; at most [`PATH_LABEL_BYTES_MAX`].
        pub label: String = Text(PATH_LABEL_BYTES_MAX) => "path label",
    }
}

wire_table! {
    /// A link that several paths of a transfer share.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SharedLink {
        /// Its number, the same in all offers of the transfer.
        pub number: u16 = U16 => "shared link",
        /// Its unused rate in kbit/s; zero means unknown.
        pub residual_kbps: u32 = U32 => "residual of the shared link",
    }
}

const OFFERED_PATHS: List8<Own> = List8(PATHS_MAX, "path", Own);

impl Wire for Offer {
    fn read(reader: &mut Reader<'_>) -> Result<Offer, WireError> {
        let (transfer, version) = (reader.u32("transfer")?, OfferVersion::read(reader)?);
        let index = reader.u8("source index")?;
        let count = reader.u8("number of sources")?;
        if index > 0 && index >= count {
            return Err(WireError::Value { field: "source index", found: index.into() });
        }
        if count == 0 {
            return Ok(Offer::none(transfer, version));
        }
        Ok(Offer {
            transfer,
            version,
            index,
            count,
            source: NodeId(reader.u64("source")?),
            source_label: reader.text("label", LABEL_BYTES_MAX)?,
            manifest: reader.blob("manifest", MANIFEST_BYTES_MAX)?.into(),
            fid_room: reader
                .choice("room for FIDs", |room| Some(room).filter(|_| usize::from(room) <= FID_BYTES_MAX))?,
            paths: OFFERED_PATHS.read(reader, "number of paths")?,
        })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.transfer);
        self.version.encode(out);
        out.put_u8(self.index);
        out.put_u8(self.count);
        if self.count == 0 {
            return;
        }
        out.put_u64(self.source.0);
        out.put_blob(self.source_label.as_bytes());
        out.put_blob(&self.manifest);
        out.put_u8(self.fid_room);
        OFFERED_PATHS.write(&self.paths, out);
    }
}

impl Offer {
    /// The offer without sources.
    pub fn none(transfer: u32, version: OfferVersion) -> Offer {
        Offer { transfer, version, ..Offer::default() }
    }
}
