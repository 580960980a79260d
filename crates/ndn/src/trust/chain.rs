//! The chain of certificates from a packet to a trust anchor, one certificate at a time.
//!
//! Call [`Chain::begin`] with the packet, then fetch the certificate named by [`Step::Fetch`] and pass it to
//! [`Chain::handle_certificate`], until the chain is verified or refused.
use alloc::{boxed::Box, collections::BTreeSet, string::String, sync::Arc, vec::Vec};

use bytes::Bytes;
use tributary_content::Name;

use super::Anchors;
use crate::wire::{
    Certificate, CertificateError, Data, Interest, KeyLocator, SignatureInfo, SignatureType, VerifyKey,
    certificate::has_key_before_end, types,
};

/// Maximum certificates between a packet and its anchor. ndn-cxx follows 25, ndnd 32; hierarchies in use have 2 to 4.
pub const CHAIN_CERTIFICATES_MAX: usize = 8;
/// Maximum bytes of all certificates of a chain.
pub const CHAIN_BYTES_MAX: usize = 32 << 10;

/// Why no chain verifies a packet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// This packet is not signed by a key; how it is signed.
    #[error("'{0}' is signed by no key ({1:?}), and trust anchors decide about its name")]
    NoKey(Name, SignatureType),
    /// This packet does not name its key.
    #[error("'{0}' does not name the key that signs it")]
    NoLocator(Name),
    /// The answer to a request for this name is no certificate.
    #[error("the data received as the certificate '{0}' is not one: {1}")]
    NoCertificate(Name, CertificateError),
    /// Another certificate than the requested one arrived: the requested name, and the other one's.
    #[error("the certificate '{1}' came in the place of '{0}'")]
    Other(Name, Name),
    /// This certificate has expired, or does not count yet; its first and its last second.
    #[error("the certificate '{0}' counts from {1} to {2}, and not now")]
    Time(Name, String, String),
    /// The rules do not let this certificate sign that name; the violated rules.
    #[error("'{0}' may not sign '{1}' ({2})")]
    Rule(Name, Name, &'static str),
    /// The signature of this packet or certificate, by that signer, is wrong.
    #[error("'{0}' is not signed by '{1}', which it names")]
    Signature(Name, Name),
    /// The chain ends in a certificate that signs itself.
    #[error("'{0}' is self-signed and is no trust anchor")]
    SelfSigned(Name),
    /// The chain returns to one of its own certificates.
    #[error("the chain of certificates goes round: '{0}' comes twice")]
    Loop(Name),
    /// The chain has too many certificates.
    #[error("more than {CHAIN_CERTIFICATES_MAX} certificates lie between it and an anchor")]
    TooLong,
    /// The chain has too many bytes.
    #[error("its certificates have more than {CHAIN_BYTES_MAX} bytes together")]
    TooLarge,
}

/// What to do next.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Fetch the certificate with this name, or one whose name continues it.
    Fetch(Name),
    /// An anchor vouches for the packet.
    Vouched(Box<Vouched>),
}
/// The properties of a packet that a chain from an anchor verifies.
#[derive(Clone, PartialEq, Debug)]
pub struct Vouched {
    /// The certificate whose key signed the packet.
    pub signer: Certificate,
    /// The anchor at the end of the chain.
    pub anchor: Name,
    /// Certificates between the packet and the anchor; zero if the anchor's key signed it itself.
    pub certificates: usize,
}

/// A signed packet, or one of the certificates behind it.
#[derive(Clone, Debug)]
struct Signed {
    /// The name that the signer must be allowed to sign.
    name: Name,
    /// The Data or Interest.
    packet: Bytes,
    locator: Name,
}

/// A chain that is being followed.
#[derive(Clone, Debug)]
pub struct Chain {
    anchors: Arc<Anchors>,
    /// Which of them have allowed all links so far.
    candidates: Vec<usize>,
    last: Signed,
    signer: Option<Certificate>,
    seen: BTreeSet<Name>,
    bytes: usize,
}

impl Chain {
    /// Begins at a Data or a signed Interest that counts as `name`: anchors that decide about that name may vouch for
    /// it. `unix` is now, in seconds since 1970.
    ///
    /// # Errors
    /// [`Refusal`]: no anchor can vouch for it.
    pub fn begin(anchors: &Arc<Anchors>, name: &Name, packet: &Bytes, unix: u64) -> Result<(Chain, Step), Refusal> {
        let (kind, locator) = signature_of(packet);
        if !kind.is_by_key() {
            return Err(Refusal::NoKey(name.clone(), kind));
        }
        let locator = locator.ok_or_else(|| Refusal::NoLocator(name.clone()))?;
        let mut chain = Chain {
            candidates: anchors.covering(name).collect(),
            anchors: anchors.clone(),
            last: Signed { name: name.clone(), packet: packet.clone(), locator },
            signer: None,
            seen: BTreeSet::new(),
            bytes: 0,
        };
        let step = chain.advance(unix)?;
        Ok((chain, step))
    }
    /// The certificate that is needed next.
    pub fn needs(&self) -> &Name {
        &self.last.locator
    }
    /// Takes an answer to the last [`Step::Fetch`].
    ///
    /// # Errors
    /// [`Refusal`]: with this certificate no chain reaches an anchor. The chain is unchanged, so that another answer
    /// may be tried.
    pub fn handle_certificate(&mut self, packet: &Bytes, unix: u64) -> Result<Step, Refusal> {
        let locator = self.last.locator.clone();
        let certificate =
            Certificate::decode(packet.clone()).map_err(|error| Refusal::NoCertificate(locator.clone(), error))?;
        if !certificate.is_meant_by(&locator) {
            return Err(Refusal::Other(locator, certificate.name().clone()));
        }
        let mut next = self.clone();
        next.bytes += packet.len();
        if next.bytes > CHAIN_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        next.candidates = next.link(&certificate, unix)?;
        if !next.seen.insert(certificate.name().clone()) {
            return Err(Refusal::Loop(certificate.name().clone()));
        }
        if next.seen.len() > CHAIN_CERTIFICATES_MAX {
            return Err(Refusal::TooLong);
        }
        let Some(issuer) = certificate.issuer().cloned() else {
            return Err(Refusal::NoLocator(certificate.name().clone()));
        };
        let name = certificate.name().clone();
        if certificate.is_self_issued() {
            return Err(Refusal::SelfSigned(name));
        }
        next.last = Signed { name, packet: certificate.packet().clone(), locator: issuer };
        next.signer.get_or_insert(certificate);
        let step = next.advance(unix)?;
        *self = next;
        Ok(step)
    }
    /// Ends the chain at an anchor if the last packet names one.
    fn advance(&mut self, unix: u64) -> Result<Step, Refusal> {
        let anchors = self.anchors.clone();
        let mut refusal = None;
        for at in self.candidates.iter().filter(|at| anchors.0[**at].certificate.is_meant_by(&self.last.locator)) {
            let anchor = &anchors.0[*at];
            match self.link(&anchor.certificate, unix) {
                Ok(allowed) if allowed.contains(at) => {
                    return Ok(Step::Vouched(Box::new(Vouched {
                        signer: self.signer.clone().unwrap_or_else(|| anchor.certificate.clone()),
                        anchor: anchor.certificate.name().clone(),
                        certificates: self.seen.len(),
                    })));
                }
                Ok(_) => refusal = Some(self.rule(&anchor.certificate)),
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            Some(refusal) => Err(refusal),
            None if !names_key(&self.last.locator) => Err(Refusal::NoLocator(self.last.name.clone())),
            None => Ok(Step::Fetch(self.last.locator.clone())),
        }
    }
    /// Checks that a certificate signed the last packet; the anchors that allow it to.
    fn link(&self, signer: &Certificate, unix: u64) -> Result<Vec<usize>, Refusal> {
        check_time(signer, unix)?;
        let allows = |at: &&usize| self.anchors.0[**at].allows(&self.last.name, signer);
        let allowed: Vec<usize> = self.candidates.iter().filter(allows).copied().collect();
        if allowed.is_empty() {
            return Err(self.rule(signer));
        }
        match is_signed_by(&self.last.packet, signer.key()) {
            true => Ok(allowed),
            false => Err(Refusal::Signature(self.last.name.clone(), signer.name().clone())),
        }
    }
    fn rule(&self, signer: &Certificate) -> Refusal {
        let has_schema = self.candidates.iter().any(|at| self.anchors.0[*at].schema.is_some());
        let rule = if has_schema { "the trust schema has no such rule" } else { "it is not below its identity" };
        Refusal::Rule(signer.name().clone(), self.last.name.clone(), rule)
    }
}

/// Whether a certificate counts at `unix`, in seconds since 1970.
///
/// # Errors
/// [`Refusal::Time`].
pub(crate) fn check_time(certificate: &Certificate, unix: u64) -> Result<(), Refusal> {
    if certificate.counts_at(unix) {
        return Ok(());
    }
    let (from, to) = certificate.validity();
    Err(Refusal::Time(certificate.name().clone(), from.into(), to.into()))
}
/// Whether a KeyLocator names a key or a certificate; a shorter name would be a prefix of other packets.
fn names_key(locator: &Name) -> bool {
    (2..=4).any(|count| has_key_before_end(locator, count))
}
/// How a Data or an Interest is signed, and which key it names.
fn signature_of(packet: &[u8]) -> (SignatureType, Option<Name>) {
    let of = |info: SignatureInfo<'_>| {
        let locator = match info.key_locator {
            Some(KeyLocator::Name(name)) => name.to_name().ok(),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        (info.kind, locator)
    };
    if crate::wire::packet_type(packet) == Some(types::INTEREST) {
        let info = Interest::decode(packet).ok().and_then(|interest| interest.signature.map(of));
        return info.unwrap_or((SignatureType::Null, None));
    }
    Data::decode(packet).map_or((SignatureType::Null, None), |data| of(data.signature))
}
fn is_signed_by(packet: &[u8], key: &VerifyKey) -> bool {
    if crate::wire::packet_type(packet) == Some(types::INTEREST) {
        return Interest::decode(packet).is_ok_and(|interest| interest.is_signed_by(key));
    }
    Data::decode(packet).is_ok_and(|data| data.is_signed_by(key))
}
