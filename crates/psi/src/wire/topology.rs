//! Messages between nodes and topology managers. These travel inside control messages.
use alloc::{string::String, vec::Vec};

use tributary_content::PublicKey;
use tributary_core::{FaceId, Location, NodeId};
use tributary_transport::PathMetric;

use super::{Fid, Fields, Reader, WireError, Writer, fields::put_location, rendezvous::version};
use crate::{
    capability::{CapabilityKey, KEYS_MAX},
    ids::{ItemId, Roles},
};

/// Bytes of a node's human-readable name at most.
pub const LABEL_BYTES_MAX: usize = 32;
/// Bytes of a path's human-readable name at most.
pub const PATH_LABEL_BYTES_MAX: usize = 96;
/// Bytes of an encoded manifest at most.
pub const MANIFEST_BYTES_MAX: usize = 1400;
/// Links that one node reports at most.
pub const ADJACENCIES_MAX: usize = 1024;
/// Publishers in one [`PathRequest`] at most.
pub const PUBLISHERS_MAX: usize = 64;
/// Withdrawn publishers in one [`PathRequest`] at most.
pub const WITHDRAWN_MAX: usize = 255;
/// Entries in one [`Overtaken`] at most: the subscription and every publisher of a request.
pub const OVERTAKEN_MAX: usize = PUBLISHERS_MAX + 1;
/// Paths per source at most.
pub const PATHS_MAX: usize = 16;
/// Shared links of one path at most.
pub const SHARED_LINKS_MAX: usize = 32;
/// Resolvers in one [`Routes`] at most.
pub const RESOLVERS_MAX: usize = 256;

/// What a node knows of itself and its links; sent to every topology manager.
///
/// ```text
/// node 8 | boot 8 | sequence 4 | term 4 | roles 1 | label 2+n | label secret 16 | latitude 4 | longitude 4
/// | number of links 2 | links: face 4, neighbour 8, neighbour's face 4, rtt 4, capacity 4, used 4, mtu 4
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkState {
    /// The node.
    pub node: NodeId,
    /// Its boot number; another one after each start.
    pub boot: u64,
    /// Counts its messages since it booted; the larger is the newer.
    pub sequence: u32,
    /// The highest term of a topology manager that the node ever saw; a restarted manager continues from there.
    pub term: u32,
    /// Its roles.
    pub roles: Roles,
    /// Its human-readable name, at most 32 bytes.
    pub label: String,
    /// The secret that its link labels are made from.
    pub secret: [u8; 16],
    /// Its location, if it states one.
    pub location: Option<Location>,
    /// Its links to neighbours that answer.
    pub adjacencies: Vec<Adjacency>,
}

/// One direction of a link, as its sending end sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adjacency {
    /// The face that it leaves by; unique within the node.
    pub face: FaceId,
    /// The node at the other end.
    pub neighbour: NodeId,
    /// The other end's face.
    pub neighbour_face: FaceId,
    /// Round-trip time in microseconds; zero means unknown.
    pub rtt_us: u32,
    /// Rate in kbit/s; zero means unknown.
    pub capacity_kbps: u32,
    /// Rate in use in kbit/s.
    pub used_kbps: u32,
    /// Bytes of the largest datagram proven to get through.
    pub mtu: u32,
}

impl LinkState {
    /// Reads a link-state message.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<LinkState, WireError> {
        let mut reader = Reader::new(bytes);
        let mut state = LinkState {
            node: NodeId(reader.u64("node id")?),
            boot: reader.u64("boot")?,
            sequence: reader.u32("sequence")?,
            term: reader.term()?,
            roles: Roles::from_bits(reader.u8("roles")?)?,
            label: reader.text("label", LABEL_BYTES_MAX)?,
            secret: reader.array("label secret")?,
            location: reader.location()?,
            adjacencies: Vec::new(),
        };
        let count = reader.u16("number of links")?;
        if usize::from(count) > ADJACENCIES_MAX {
            return Err(WireError::Value { field: "number of links", found: count.into() });
        }
        for _ in 0..count {
            state.adjacencies.push(Adjacency {
                face: FaceId(reader.u32("face")?),
                neighbour: NodeId(reader.u64("neighbour")?),
                neighbour_face: FaceId(reader.u32("neighbour's face")?),
                rtt_us: reader.u32("rtt")?,
                capacity_kbps: reader.u32("capacity")?,
                used_kbps: reader.u32("used rate")?,
                mtu: reader.u32("mtu")?,
            });
        }
        reader.end()?;
        Ok(state)
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.node.0);
        out.put_u64(self.boot);
        out.put_u32(self.sequence);
        out.put_u32(self.term);
        out.put_u8(self.roles.bits());
        out.put_blob(self.label.as_bytes());
        out.extend_from_slice(&self.secret);
        put_location(out, self.location);
        out.put_count16(self.adjacencies.len());
        for adjacency in &self.adjacencies {
            out.put_u32(adjacency.face.0);
            out.put_u64(adjacency.neighbour.0);
            out.put_u32(adjacency.neighbour_face.0);
            out.put_u32(adjacency.rtt_us);
            out.put_u32(adjacency.capacity_kbps);
            out.put_u32(adjacency.used_kbps);
            out.put_u32(adjacency.mtu);
        }
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

/// How to reach one rendezvous node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResolverRoute {
    /// The rendezvous node.
    pub node: NodeId,
    /// The low half of its boot number: after a restart a node has forgotten everything from before.
    pub boot: u32,
    /// Its human-readable name.
    pub label: String,
    /// The route to it.
    pub to: Fid,
    /// The route back.
    pub back: Fid,
    /// Its key in a network with an authority; either all resolvers of a message have one, or no resolver has.
    pub key: Option<PublicKey>,
}

/// Which bits of a bitmap FID mean which links of one node (as BIER-TE, RFC 9262).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BitmapNumbers {
    /// Which numbering of the domain this is: the salt of the FIDs that use it.
    pub epoch: u8,
    /// The bit of local delivery; `None` if it has no number.
    pub local: Option<u16>,
    /// The bit of each outgoing link that has a number.
    pub faces: Vec<(FaceId, u16)>,
}

const NO_BIT: u16 = u16::MAX;

impl Routes {
    /// Reads a routes message.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Routes, WireError> {
        let mut reader = Reader::new(bytes);
        let manager = NodeId(reader.u64("manager")?);
        let term = reader.term()?;
        let sequence = reader.u32("sequence")?;
        let count = reader.u16("number of resolvers")?;
        if usize::from(count) > RESOLVERS_MAX {
            return Err(WireError::Value { field: "number of resolvers", found: count.into() });
        }
        let mut resolvers = Vec::new();
        for _ in 0..count {
            resolvers.push(ResolverRoute {
                node: NodeId(reader.u64("resolver")?),
                boot: reader.u32("boot number of the resolver")?,
                label: reader.text("label", LABEL_BYTES_MAX)?,
                to: reader.fid("FID")?,
                back: reader.fid("FID")?,
                key: None,
            });
        }
        let epoch = reader.u8("bitmap epoch")?;
        let local = Some(reader.u16("local bit")?).filter(|bit| *bit != NO_BIT);
        let count = reader.u16("number of faces")?;
        if usize::from(count) > ADJACENCIES_MAX {
            return Err(WireError::Value { field: "number of faces", found: count.into() });
        }
        let mut faces = Vec::new();
        for _ in 0..count {
            faces.push((FaceId(reader.u32("face")?), reader.u16("bit")?));
        }
        let count = reader.u8("number of keys")?;
        if usize::from(count) > KEYS_MAX {
            return Err(WireError::Value { field: "number of keys", found: count.into() });
        }
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(CapabilityKey { epoch: reader.u32("key epoch")?, key: reader.array("key")? });
        }
        // Fewer bytes are no key.
        if reader.rest().len() >= 32 {
            for route in &mut resolvers {
                route.key = Some(PublicKey(reader.array("key of the resolver")?));
            }
        }
        reader.end()?;
        Ok(Routes { manager, term, sequence, resolvers, bitmap: BitmapNumbers { epoch, local, faces }, keys })
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.manager.0);
        out.put_u32(self.term);
        out.put_u32(self.sequence);
        out.put_count16(self.resolvers.len());
        for route in &self.resolvers {
            out.put_u64(route.node.0);
            out.put_u32(route.boot);
            out.put_blob(route.label.as_bytes());
            route.to.encode(out);
            route.back.encode(out);
        }
        out.put_u8(self.bitmap.epoch);
        out.put_u16(self.bitmap.local.unwrap_or(NO_BIT));
        out.put_count16(self.bitmap.faces.len());
        for (face, bit) in &self.bitmap.faces {
            out.put_u32(face.0);
            out.put_u16(*bit);
        }
        out.put_count8(self.keys.len());
        for key in &self.keys {
            out.put_u32(key.epoch);
            out.extend_from_slice(&key.key);
        }
        self.resolvers.iter().filter_map(|route| route.key).for_each(|key| out.extend_from_slice(&key.0));
    }
}

/// A rendezvous node asks for paths between matched publishers and a subscriber (paper §II-B, §III-B1 step 2).
///
/// It is soft state: repeated before `lease_ms` has passed, withdrawn with `paths` = 0.
///
/// Requests about one transfer may overtake each other, and several rendezvous nodes may send them. The versions of
/// their entries order them. The hosts number these, boot by boot, and every rendezvous node that holds the record has
/// the same numbers. A topology manager merges entry by entry: the newer version wins, and of equal ones the
/// withdrawal. So the result does not depend on the order of arrival, on repetitions, or on the sender. A request that
/// omits a publisher does not withdraw it: the sender may not know of it yet.
/// ```text
/// subscriber 8 | transfer 4 | version 8 | item | metric 1 | paths 1 | lease 4
/// | number of publishers 1 | publishers: node 8, version 8, label 2+n, manifest 2+n
/// | number of withdrawn ones 1 | node 8, version 8
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRequest {
    /// The subscriber.
    pub subscriber: NodeId,
    /// The subscriber's number for it.
    pub transfer: u32,
    /// Version of the subscription.
    pub version: u64,
    /// The item.
    pub item: ItemId,
    /// What makes a path good.
    pub metric: PathMetric,
    /// Paths per source, up to [`PATHS_MAX`]; zero withdraws the request.
    pub paths: u8,
    /// How long the request holds, in milliseconds.
    pub lease_ms: u32,
    /// The publishers of the item.
    pub publishers: Vec<Publisher>,
    /// Who had it: nodes, and the versions of their withdrawals.
    pub withdrawn: Vec<(NodeId, u64)>,
}

/// A publisher of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publisher {
    /// The node.
    pub node: NodeId,
    /// Version of the publication.
    pub version: u64,
    /// Its human-readable name.
    pub label: String,
    /// The manifest that it publishes, encoded; at most [`MANIFEST_BYTES_MAX`].
    pub manifest: Vec<u8>,
}

impl PathRequest {
    /// Reads a path request.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<PathRequest, WireError> {
        let mut reader = Reader::new(bytes);
        let subscriber = NodeId(reader.u64("subscriber")?);
        let transfer = reader.u32("transfer")?;
        let version = version(&mut reader, "version")?;
        let item = ItemId::decode(&mut reader)?;
        let metric = reader.metric()?;
        let paths = reader.u8("number of paths")?;
        if usize::from(paths) > PATHS_MAX {
            return Err(WireError::Value { field: "number of paths", found: paths.into() });
        }
        let lease_ms = reader.u32("lease")?;
        let count = reader.u8("number of publishers")?;
        if usize::from(count) > PUBLISHERS_MAX {
            return Err(WireError::Value { field: "number of publishers", found: count.into() });
        }
        let mut publishers = Vec::new();
        for _ in 0..count {
            publishers.push(Publisher {
                node: NodeId(reader.u64("publisher")?),
                version: self::version(&mut reader, "version of the publication")?,
                label: reader.text("label", LABEL_BYTES_MAX)?,
                manifest: reader.blob("manifest", MANIFEST_BYTES_MAX)?.into(),
            });
        }
        let mut withdrawn = Vec::new();
        for _ in 0..reader.u8("number of withdrawn publishers")? {
            let node = NodeId(reader.u64("withdrawn publisher")?);
            withdrawn.push((node, self::version(&mut reader, "version of the withdrawal")?));
        }
        reader.end()?;
        Ok(PathRequest { subscriber, transfer, version, item, metric, paths, lease_ms, publishers, withdrawn })
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.subscriber.0);
        out.put_u32(self.transfer);
        out.put_u64(self.version);
        self.item.encode(out);
        out.put_u8(self.metric.number());
        out.put_u8(self.paths);
        out.put_u32(self.lease_ms);
        out.put_count8(self.publishers.len());
        for publisher in &self.publishers {
            out.put_u64(publisher.node.0);
            out.put_u64(publisher.version);
            out.put_blob(publisher.label.as_bytes());
            out.put_blob(&publisher.manifest);
        }
        out.put_count8(self.withdrawn.len());
        for (node, version) in &self.withdrawn {
            out.put_u64(node.0);
            out.put_u64(*version);
        }
    }
}

/// A topology manager reports to a rendezvous node which entries of its [`PathRequest`] are older than those it knows.
/// If the rendezvous node has nothing newer either, as after a restart without memory, it has the hosts in question
/// number their entries beyond these versions.
///
/// ```text
/// item | number of entries 1 | entries: kind 1 (0: publisher, 1: subscription), node 8, if subscription: transfer 4,
/// version 8
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overtaken {
    /// The item.
    pub item: ItemId,
    /// The entries, and the versions that the topology manager knows.
    pub entries: Vec<(MatchKey, u64)>,
}

/// One of the entries that a [`PathRequest`] is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MatchKey {
    /// A node publishes the item.
    Publisher(NodeId),
    /// A transfer of a node wants it.
    Subscription(NodeId, u32),
}

impl Overtaken {
    /// Reads the message.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Overtaken, WireError> {
        let mut reader = Reader::new(bytes);
        let item = ItemId::decode(&mut reader)?;
        let count = reader.u8("number of entries")?;
        if usize::from(count) > OVERTAKEN_MAX {
            return Err(WireError::Value { field: "number of entries", found: count.into() });
        }
        let mut entries = Vec::new();
        for _ in 0..count {
            let key = match reader.u8("entry kind")? {
                0 => MatchKey::Publisher(NodeId(reader.u64("publisher")?)),
                1 => MatchKey::Subscription(NodeId(reader.u64("subscriber")?), reader.u32("transfer")?),
                found => return Err(WireError::Value { field: "entry kind", found: found.into() }),
            };
            entries.push((key, version(&mut reader, "version")?));
        }
        reader.end()?;
        Ok(Overtaken { item, entries })
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.item.encode(out);
        out.put_count8(self.entries.len());
        for (key, version) in &self.entries {
            match key {
                MatchKey::Publisher(node) => {
                    out.put_u8(0);
                    out.put_u64(node.0);
                }
                MatchKey::Subscription(node, transfer) => {
                    out.put_u8(1);
                    out.put_u64(node.0);
                    out.put_u32(*transfer);
                }
            }
            out.put_u64(*version);
        }
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
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// The manifest that it publishes, encoded.
    pub manifest: Vec<u8>,
    /// Bytes that packets leave for FIDs: as many as the longest paths of the domain need, so that receivers near and
    /// far cut an object into the same packets and share caches.
    pub fid_room: u8,
    /// The paths to it, best first. Empty if it cannot be reached now.
    pub paths: Vec<PathOffer>,
}

/// Orders the offers of one transfer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct OfferVersion {
    /// The term of the topology manager.
    pub term: u32,
    /// Counts within the term.
    pub sequence: u32,
}

/// A path: one route for requests, one for data, and the properties that the topology manager knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathOffer {
    /// Its number in this transfer: the same links keep the same number.
    pub id: u16,
    /// The route from subscriber to source.
    pub reverse: Fid,
    /// The route from source to subscriber.
    pub forward: Fid,
    /// Proof that the topology manager made this pair; goes into every request.
    pub capability: [u8; 8],
    /// Links from source to subscriber.
    pub hops: u8,
    /// Bytes of the largest datagram that all its links carry, from source to subscriber.
    pub mtu: u32,
    /// One-way latency in microseconds: half the sum of the links' round-trip times; zero means unknown.
    pub latency_us: u32,
    /// Rate of the narrowest link in kbit/s; zero means unknown.
    pub capacity_kbps: u32,
    /// Unused rate of the narrowest link in kbit/s; zero means unknown.
    pub residual_kbps: u32,
    /// Which links it shares, in the direction of data, with other paths of this transfer.
    pub shared_links: Vec<SharedLink>,
    /// The nodes on it from subscriber to source, for people; at most [`PATH_LABEL_BYTES_MAX`].
    pub label: String,
}

/// A link that several paths of a transfer share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedLink {
    /// Its number, the same in all offers of the transfer.
    pub number: u16,
    /// Its unused rate in kbit/s; zero means unknown.
    pub residual_kbps: u32,
}

impl Offer {
    /// Reads an offer.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Offer, WireError> {
        let mut reader = Reader::new(bytes);
        let transfer = reader.u32("transfer")?;
        let version = OfferVersion { term: reader.term()?, sequence: reader.u32("sequence")? };
        let index = reader.u8("source index")?;
        let count = reader.u8("number of sources")?;
        if index > 0 && index >= count {
            return Err(WireError::Value { field: "source index", found: index.into() });
        }
        if count == 0 {
            reader.end()?;
            return Ok(Offer::none(transfer, version));
        }
        let source = NodeId(reader.u64("source")?);
        let source_label = reader.text("label", LABEL_BYTES_MAX)?;
        let manifest = reader.blob("manifest", MANIFEST_BYTES_MAX)?.into();
        let fid_room = match reader.u8("room for FIDs")? {
            room if usize::from(room) <= super::FID_BYTES_MAX => room,
            room => return Err(WireError::Value { field: "room for FIDs", found: room.into() }),
        };
        let number = reader.u8("number of paths")?;
        if usize::from(number) > PATHS_MAX {
            return Err(WireError::Value { field: "number of paths", found: number.into() });
        }
        let mut paths = Vec::new();
        for _ in 0..number {
            paths.push(PathOffer::decode(&mut reader)?);
        }
        reader.end()?;
        Ok(Offer { transfer, version, index, count, source, source_label, manifest, fid_room, paths })
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.transfer);
        out.put_u32(self.version.term);
        out.put_u32(self.version.sequence);
        out.put_u8(self.index);
        out.put_u8(self.count);
        if self.count == 0 {
            return;
        }
        out.put_u64(self.source.0);
        out.put_blob(self.source_label.as_bytes());
        out.put_blob(&self.manifest);
        out.put_u8(self.fid_room);
        out.put_count8(self.paths.len());
        self.paths.iter().for_each(|path| path.encode(out));
    }
    /// The offer without sources.
    pub fn none(transfer: u32, version: OfferVersion) -> Offer {
        Offer {
            transfer,
            version,
            index: 0,
            count: 0,
            source: NodeId::NONE,
            source_label: String::new(),
            manifest: Vec::new(),
            fid_room: 0,
            paths: Vec::new(),
        }
    }
}

impl PathOffer {
    fn decode(reader: &mut Reader<'_>) -> Result<PathOffer, WireError> {
        Ok(PathOffer {
            id: reader.u16("path id")?,
            reverse: reader.fid("FID")?,
            forward: reader.fid("FID")?,
            capability: reader.array("capability")?,
            hops: reader.u8("hops")?,
            mtu: reader.u32("mtu")?,
            latency_us: reader.u32("latency")?,
            capacity_kbps: reader.u32("capacity")?,
            residual_kbps: reader.u32("residual capacity")?,
            shared_links: shared_links(reader)?,
            label: reader.text("path label", PATH_LABEL_BYTES_MAX)?,
        })
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u16(self.id);
        self.reverse.encode(out);
        self.forward.encode(out);
        out.extend_from_slice(&self.capability);
        out.put_u8(self.hops);
        out.put_u32(self.mtu);
        out.put_u32(self.latency_us);
        out.put_u32(self.capacity_kbps);
        out.put_u32(self.residual_kbps);
        out.put_count8(self.shared_links.len());
        for link in &self.shared_links {
            out.put_u16(link.number);
            out.put_u32(link.residual_kbps);
        }
        out.put_blob(self.label.as_bytes());
    }
}

fn shared_links(reader: &mut Reader<'_>) -> Result<Vec<SharedLink>, WireError> {
    let count = reader.u8("number of shared links")?;
    if usize::from(count) > SHARED_LINKS_MAX {
        return Err(WireError::Value { field: "number of shared links", found: count.into() });
    }
    let link = |_| {
        Ok(SharedLink { number: reader.u16("shared link")?, residual_kbps: reader.u32("residual of the shared link")? })
    };
    (0..count).map(link).collect()
}

#[cfg(test)]
mod tests;
