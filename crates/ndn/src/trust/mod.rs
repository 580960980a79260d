//! A node's trust: trust anchors, and the chain of certificates from a packet to one of them.
//!
//! ```text
//!  packet ── signed by ──► certificate ── signed by ──► … ── signed by ──► anchor
//!          └─ link: may this certificate sign this name? ┘
//! ```
//! Each link needs a right signature and a name that the certificate may sign. Without a schema the rule is the
//! hierarchy: a certificate of `/a` signs names below `/a`, and an anchor signs names below its prefix. With a schema
//! ([`schema`]) only its rules decide. The clock and the certificates are arguments: [`chain`] names the next one that
//! it needs.
pub mod chain;
pub mod schema;

use alloc::{sync::Arc, vec::Vec};

use tributary_content::{Name, PublicKey};

pub use self::{
    chain::{Chain, Refusal, Step, Vouched},
    schema::{Schema, SchemaError},
};
use crate::wire::{Certificate, NameView, VerifyKey, signature::digest};

/// A certificate that is trusted without an issuer.
#[derive(Clone, PartialEq, Debug)]
pub struct TrustAnchor {
    /// The certificate.
    pub certificate: Certificate,
    /// It decides about all names below this one. Default: its identity.
    pub prefix: Name,
    /// The rules of signing; `None`: the hierarchy of names.
    pub schema: Option<Arc<Schema>>,
}

impl TrustAnchor {
    /// An anchor for the names below its identity, by the hierarchy of names.
    pub fn new(certificate: Certificate) -> TrustAnchor {
        TrustAnchor { prefix: certificate.identity(), certificate, schema: None }
    }
    /// Whether a certificate may sign a name, as far as this anchor decides.
    fn allows(&self, name: &Name, signer: &Certificate) -> bool {
        match &self.schema {
            Some(schema) => schema.allows(NameView::from(name), NameView::from(signer.name())),
            None if signer.name() == self.certificate.name() => self.prefix.is_prefix_of(name),
            None => signer.identity().is_prefix_of(name) && self.prefix.is_prefix_of(name),
        }
    }
}

/// The anchors of a node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Anchors(Vec<TrustAnchor>);

impl Anchors {
    /// These anchors.
    pub fn new(anchors: Vec<TrustAnchor>) -> Anchors {
        Anchors(anchors)
    }
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether any anchor covers a name: then only data that one of them verifies is accepted.
    pub fn cover(&self, name: &Name) -> bool {
        self.covering(name).next().is_some()
    }
    /// The numbers of the anchors that decide about a name.
    fn covering(&self, name: &Name) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter(|(_, anchor)| anchor.prefix.is_prefix_of(name)).map(|(at, _)| at)
    }
}

/// The key that a trust store remembers for the holder of a certificate: its own if it is of Ed25519.
pub fn publisher_of(key: &VerifyKey) -> PublicKey {
    match key {
        VerifyKey::Ed25519(key) => PublicKey(key.to_bytes()),
        VerifyKey::Ecdsa(_)
        | VerifyKey::Rsa(_)
        | VerifyKey::Digest
        | VerifyKey::Hmac(_)
        | VerifyKey::Null
        | VerifyKey::Missing(_) => stand_in(&key.to_spki().unwrap_or_default()),
    }
}

/// A substitute for a signer without an Ed25519 key in the trust store: a point of the curve derived from the signer's
/// own key, whose secret is unknown, so that it can sign no manifest.
pub(crate) fn stand_in(signer: &[u8]) -> PublicKey {
    let candidates = (0..=u8::MAX).map(|number| digest(&[b"tributary ndn signer", &[number], signer]));
    let is_key = |bytes: &[u8; 32]| ed25519_dalek::VerifyingKey::from_bytes(bytes).is_ok_and(|key| !key.is_weak());
    PublicKey(candidates.into_iter().find(is_key).expect("every second number gives a point"))
}
