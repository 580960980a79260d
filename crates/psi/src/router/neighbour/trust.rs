//! The messages that neighbours may send in a network with an authority, and beacons that certified topology managers
//! have signed.
//!
//! `beacon 2+n | certificate 2+n | signature 64`, in place of the beacon alone. The signature covers all of the beacon but
//! the labels, which every hop changes.
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_content::Signature;
use tributary_core::{Budget, FaceId, NodeId, Time, wire::Reader};
use tributary_trust::{Certificate, Grant, Identity, Roles as CertifiedRoles};

use crate::{
    ids::{Roles, node_of_key},
    wire::{Beacon, Wire, WireError, Writer},
};

/// Checked signatures per neighbour and second, and in a burst: a check takes 50 µs, and a topology manager signs one
/// beacon in each of its intervals.
const CHECKS_PER_SECOND: u64 = 200;
const CHECKS_BURST: u32 = 400;
/// Topology managers whose signed beacons are remembered.
const PROOFS_MAX: usize = 64;

const CONTEXT: &str = "tributary 1 psi beacon";

/// Reasons for which packets are dropped here.
pub mod reason {
    /// A beacon that no certified router has passed on, nor its topology manager sent.
    pub const HOST: &str = "beacon from a neighbour that is neither a certified router nor its topology manager";
    /// A beacon whose node is not certified as a topology manager.
    pub const MANAGER: &str = "beacon of a node that is not certified as a topology manager";
}

pub(super) struct Trust {
    identity: Identity,
    admitted: BTreeMap<FaceId, Admitted>,
    /// The latest signed beacon of each topology manager.
    pub(super) proofs: BTreeMap<NodeId, Proof>,
    budgets: BTreeMap<FaceId, Budget>,
    /// Signatures that were made and checked.
    pub counts: (u64, u64),
}

/// The neighbour on a face.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Admitted {
    node: NodeId,
    roles: CertifiedRoles,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proof {
    /// The beacon without labels.
    core: Vec<u8>,
    certificate: Vec<u8>,
    pub(super) grant: Grant,
    signature: Signature,
}

/// The part of a beacon that does not change from node to node.
fn core_of(beacon: &Beacon) -> Vec<u8> {
    let mut core = Vec::new();
    Beacon { to_manager: Vec::new(), from_manager: Vec::new(), ..beacon.clone() }.encode(&mut core);
    core
}

impl Trust {
    pub(super) fn new(identity: Identity) -> Trust {
        let (admitted, proofs, budgets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Trust { identity, admitted, proofs, budgets, counts: (0, 0) }
    }
    pub(super) fn set_identity(&mut self, identity: Identity) {
        self.identity = identity;
        self.proofs.clear();
    }
    /// Sets the grant of the neighbour on a face. Returns whether it has changed.
    pub(super) fn admit(&mut self, face: FaceId, grant: Option<&Grant>) -> bool {
        let admitted = grant.map(|grant| Admitted { node: node_of_key(&grant.key), roles: grant.roles });
        let before = match admitted {
            Some(admitted) => self.admitted.insert(face, admitted),
            None => {
                self.budgets.remove(&face);
                self.admitted.remove(&face)
            }
        };
        before != admitted
    }
    /// Whether this node itself is certified as a router.
    pub(super) fn is_router(&self) -> bool {
        let roles = self.identity.certificate().map(|certificate| certificate.terms().roles);
        roles.is_some_and(|roles| roles.contains(CertifiedRoles::ROUTER))
    }
    /// The roles of those in a hello that its sender may have.
    pub(super) fn roles(&self, face: FaceId, node: NodeId, claimed: Roles) -> Result<Roles, &'static str> {
        match self.admitted.get(&face) {
            Some(admitted) if admitted.node == node => Ok(claimed.within(admitted.roles)),
            Some(_) => Err("hello of a node that is not the one whose key was proven"),
            None => Err("hello of a neighbour that the network has not admitted"),
        }
    }
    /// Whether the neighbour on a face may send control packets in the name of `from`: hosts send only their own, and
    /// routers pass on others'.
    pub(super) fn may_send_as(&self, face: FaceId, from: NodeId) -> bool {
        self.admitted
            .get(&face)
            .is_some_and(|admitted| admitted.roles.contains(CertifiedRoles::ROUTER) || admitted.node == from)
    }
    /// Appends a beacon with its proof; false without a proof: it is not this node's, or this node has no certificate.
    pub(super) fn write(&mut self, beacon: &Beacon, is_own: bool, now: Time, out: &mut Vec<u8>) -> bool {
        let core = core_of(beacon);
        if is_own && self.proofs.get(&beacon.node).is_none_or(|proof| proof.core != core) {
            let Some(certificate) = self.identity.certificate() else { return false };
            let Ok(grant) = self.identity.verify(certificate, now) else { return false };
            let (signature, certificate) = (self.identity.sign(CONTEXT, &core), certificate.encode());
            self.counts.0 += 1;
            self.proofs.insert(beacon.node, Proof { core: core.clone(), certificate, grant, signature });
        }
        let Some(proof) = self.proofs.get(&beacon.node).filter(|proof| proof.core == core) else { return false };
        let mut encoded = Vec::new();
        beacon.encode(&mut encoded);
        out.put_blob(&encoded);
        out.put_blob(&proof.certificate);
        out.extend_from_slice(&proof.signature.0);
        true
    }
    /// The beacon in a neighbour's packet.
    pub(super) fn read(&mut self, now: Time, face: FaceId, body: &[u8]) -> Result<Beacon, &'static str> {
        // A host's beacon is refused before it is decoded.
        let relays = CertifiedRoles::ROUTER | CertifiedRoles::TOPOLOGY_MANAGER;
        let neighbour = self.admitted.get(&face).filter(|of| of.roles.without(relays) != of.roles);
        let neighbour = *neighbour.ok_or(reason::HOST)?;
        let mut reader = Reader::new(body);
        let beacon = reader.blob("beacon", usize::from(u16::MAX)).map_err(WireError::reason)?;
        let certificate = reader.blob("certificate", Certificate::BYTES_MAX).map_err(WireError::reason)?;
        let signature = Signature(reader.array("signature").map_err(WireError::reason)?);
        reader.end().map_err(WireError::reason)?;
        let beacon = Beacon::decode(beacon).map_err(WireError::reason)?;
        // The path of a beacon is used for control messages, which only routers forward.
        if beacon.node != neighbour.node && !neighbour.roles.contains(CertifiedRoles::ROUTER) {
            return Err(reason::HOST);
        }
        let core = core_of(&beacon);
        let known = self.proofs.get(&beacon.node);
        if known.is_some_and(|proof| proof.core == core && proof.signature == signature) {
            return Ok(beacon);
        }
        let same = known.filter(|proof| proof.certificate == certificate).map(|proof| proof.grant.clone());
        self.may_check(now, face)?;
        let grant = match same {
            Some(grant) => grant,
            None => {
                let read = Certificate::decode(certificate).map_err(WireError::reason)?;
                self.counts.1 += 1;
                self.identity.verify(&read, now).map_err(|_| reason::MANAGER)?
            }
        };
        self.identity.check(&grant, now).map_err(|_| reason::MANAGER)?;
        if !grant.roles.contains(CertifiedRoles::TOPOLOGY_MANAGER) || node_of_key(&grant.key) != beacon.node {
            return Err(reason::MANAGER);
        }
        self.counts.1 += 1;
        if !grant.key.verify(CONTEXT, &core, &signature) {
            return Err("beacon without the signature of its topology manager");
        }
        if self.proofs.len() >= PROOFS_MAX && !self.proofs.contains_key(&beacon.node) {
            self.proofs.pop_first();
        }
        let proof = Proof { core, certificate: certificate.into(), grant, signature };
        self.proofs.insert(beacon.node, proof);
        Ok(beacon)
    }
    fn may_check(&mut self, now: Time, face: FaceId) -> Result<(), &'static str> {
        let may = self.budgets.entry(face).or_default().take(now, CHECKS_BURST, CHECKS_PER_SECOND);
        if may { Ok(()) } else { Err("too many signatures to check") }
    }
}
