//! One node's view of a network, and the rights that it grants.
use alloc::{string::String, vec::Vec};
use tributary_content::{Name, PublicKey};

use crate::{Certificate, Revocations, Roles, UnixTime};

/// Whether nodes without a certificate may join.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// They are refused.
    #[default]
    Closed,
    /// They are hosts: they publish and fetch and have no role. Names with a certified owner are that owner's alone.
    Open,
}

/// A network with an authority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    authority: PublicKey,
    access: Access,
    clock_tolerance: u64,
    revocations: Option<Revocations>,
}

/// What the holder of a key may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The key.
    pub key: PublicKey,
    /// Its name, for people: the authority's word if the key is certified.
    pub label: String,
    /// Roles that it may take in the network.
    pub roles: Roles,
    /// The names that it owns.
    pub prefixes: Vec<Name>,
    /// When the grant ends; `None` if it follows from no certificate.
    pub until: Option<UnixTime>,
    /// The serial number of its certificate; `None` without one.
    pub serial: Option<u64>,
}

impl Grant {
    /// The grant of a key without a certificate.
    pub fn host(key: PublicKey, label: &str) -> Grant {
        Grant { key, label: label.into(), roles: Roles::HOST, prefixes: Vec::new(), until: None, serial: None }
    }
    /// Whether the authority vouches for the key.
    pub fn is_certified(&self) -> bool {
        self.serial.is_some()
    }
    /// Whether `name` is one of its prefixes, or below one.
    pub fn owns(&self, name: &Name) -> bool {
        self.prefixes.iter().any(|prefix| prefix.is_prefix_of(name))
    }
}

/// How far the clocks of two nodes may be apart, in seconds, unless a config says otherwise: one of them by a day, such as a
/// clock that was set by hand or keeps another zone's time, and the other by two hours.
pub const CLOCK_TOLERANCE: u64 = 26 * 3_600;
/// Seconds by which a certificate's validity starts before its issue: nodes whose clocks are behind accept it
/// immediately.
pub const BACKDATED: u64 = 2 * 3_600;

impl Network {
    /// The network of an authority, with nothing revoked.
    pub fn new(authority: PublicKey, access: Access) -> Network {
        Network { authority, access, clock_tolerance: CLOCK_TOLERANCE, revocations: None }
    }
    /// Sets another tolerance of clocks, in seconds.
    #[must_use]
    pub fn with_clock_tolerance(self, seconds: u64) -> Network {
        Network { clock_tolerance: seconds, ..self }
    }
    /// How far the clocks of two nodes may be apart, in seconds. Default: [`CLOCK_TOLERANCE`].
    pub fn clock_tolerance(&self) -> u64 {
        self.clock_tolerance
    }
    /// Its authority's key.
    pub fn authority(&self) -> &PublicKey {
        &self.authority
    }
    /// Whether nodes without a certificate may join.
    pub fn access(&self) -> Access {
        self.access
    }
    /// The latest list of revocations; `None` before the first one.
    pub fn revocations(&self) -> Option<&Revocations> {
        self.revocations.as_ref()
    }
    /// Adopts a list of revocations. Returns whether it is newer than the known one; an older one changes nothing.
    ///
    /// # Errors
    /// [`Refusal::ForgedRevocations`] if the authority has not signed it.
    pub fn revoke(&mut self, revocations: Revocations) -> Result<bool, Refusal> {
        if !revocations.is_signed_by(&self.authority) {
            return Err(Refusal::ForgedRevocations { authority: self.authority });
        }
        let is_newer = self.revocations.as_ref().is_none_or(|known| known.number() < revocations.number());
        if is_newer {
            self.revocations = Some(revocations);
        }
        Ok(is_newer)
    }
    /// The rights of the holder of `key`, who claims the name `label` and presents a certificate.
    ///
    /// # Errors
    /// [`Refusal`] states why it may not join.
    pub fn admit(
        &self,
        key: &PublicKey,
        label: &str,
        certificate: Option<&Certificate>,
        now: UnixTime,
    ) -> Result<Grant, Refusal> {
        let Some(certificate) = certificate else {
            let grant = Grant::host(*key, label);
            return self.check(&grant, now).map(|()| grant);
        };
        let grant = self.verify(certificate, now)?;
        match grant.key == *key {
            true => Ok(grant),
            false => Err(Refusal::OtherKey { key: *key, certified: grant.key }),
        }
    }
    /// What a certificate grants to its key. Costs a signature check.
    ///
    /// # Errors
    /// [`Refusal`] if it grants nothing now.
    pub fn verify(&self, certificate: &Certificate, now: UnixTime) -> Result<Grant, Refusal> {
        let terms = certificate.terms();
        if !certificate.is_of(&self.authority) {
            return Err(Refusal::OtherNetwork { label: terms.label.clone(), authority: self.authority });
        }
        // Cheap checks precede the signature.
        let grant = Grant {
            key: terms.key,
            label: terms.label.clone(),
            roles: terms.roles,
            prefixes: terms.prefixes.clone(),
            until: Some(terms.not_after),
            serial: Some(terms.serial),
        };
        if now.after(self.clock_tolerance) < terms.not_before {
            return Err(Refusal::NotYet { label: grant.label, from: terms.not_before });
        }
        self.check(&grant, now)?;
        match certificate.is_signed_by(&self.authority) {
            true => Ok(grant),
            false => Err(Refusal::Forged { label: grant.label, authority: self.authority }),
        }
    }
    /// Whether a grant still holds: it may have ended or been revoked since. Costs no signature check.
    ///
    /// # Errors
    /// [`Refusal`] if it does not.
    pub fn check(&self, grant: &Grant, now: UnixTime) -> Result<(), Refusal> {
        let revokes = |list: &Revocations| {
            list.keys().contains(&grant.key) || grant.serial.is_some_and(|serial| list.revokes(serial, &grant.key))
        };
        if self.revocations.as_ref().is_some_and(revokes) {
            return Err(Refusal::Revoked { key: grant.key, label: grant.label.clone() });
        }
        if !grant.is_certified() && self.access == Access::Closed {
            return Err(Refusal::NoCertificate { key: grant.key });
        }
        match grant.until.filter(|until| *until <= now) {
            Some(until) => Err(Refusal::Expired { label: grant.label.clone(), until }),
            None => Ok(()),
        }
    }
}

/// Why a network does not admit the holder of a key.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It shows no certificate.
    #[error("{key} shows no certificate, and the network is closed; its authority admits it with `trib network admit`")]
    NoCertificate {
        /// Its key.
        key: PublicKey,
    },
    /// Its certificate is another network's.
    #[error("the certificate of '{label}' is of another network than the authority {authority}")]
    OtherNetwork {
        /// The label in it.
        label: String,
        /// The network's authority.
        authority: PublicKey,
    },
    /// The authority has not signed it.
    #[error("the certificate of '{label}' does not have the signature of the authority {authority}")]
    Forged {
        /// The label in it.
        label: String,
        /// The network's authority.
        authority: PublicKey,
    },
    /// It is for another key.
    #[error("the certificate is for {certified}, and the handshake has proven {key}")]
    OtherKey {
        /// The key of the handshake.
        key: PublicKey,
        /// The key in the certificate.
        certified: PublicKey,
    },
    /// It is not valid yet.
    #[error("the certificate of '{label}' is valid from {from} on; are the clocks right?")]
    NotYet {
        /// The label in it.
        label: String,
        /// From when.
        from: UnixTime,
    },
    /// It has ended.
    #[error("the certificate of '{label}' ended at {until}; its authority renews it with `trib network admit`")]
    Expired {
        /// The label in it.
        label: String,
        /// When.
        until: UnixTime,
    },
    /// It has been revoked.
    #[error("the authority has revoked the certificate of '{label}' ({key})")]
    Revoked {
        /// Its key.
        key: PublicKey,
        /// Its label.
        label: String,
    },
    /// The list of revocations does not have the authority's signature.
    #[error("the list of revocations does not have the signature of the authority {authority}")]
    ForgedRevocations {
        /// The network's authority.
        authority: PublicKey,
    },
}
