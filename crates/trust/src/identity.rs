//! What a node itself is in its network.
use alloc::sync::Arc;
use core::fmt;
use tributary_content::{PublicKey, Signature, SigningKey};
use tributary_core::Time;

use crate::{Certificate, Grant, Network, Refusal, UnixTime};

/// The time of day at a time of the driver. A simulation's is a fixed date plus virtual time.
pub type WallClock = Arc<dyn Fn(Time) -> UnixTime + Send + Sync>;

/// A node's key, its certificate and its network: what its control plane signs, seals and checks with.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    certificate: Option<Certificate>,
    network: Network,
    clock: WallClock,
}

impl Identity {
    /// The identity of the holder of `key` in `network`. A certificate for another key grants nothing.
    pub fn new(key: SigningKey, certificate: Option<Certificate>, network: Network, clock: WallClock) -> Identity {
        Identity { key, certificate, network, clock }
    }
    /// Its public key.
    pub fn key(&self) -> PublicKey {
        self.key.public()
    }
    /// Its own certificate.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }
    /// Its network.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// Whether another identity is of the same network.
    pub fn is_of_network(&self, other: &Identity) -> bool {
        self.network.authority() == other.network.authority()
    }
    /// Adds a list of revocations, if the authority signed it and it is newer than the known one.
    #[must_use]
    pub fn with_revocations(mut self, list: crate::Revocations) -> Identity {
        // A forged or older list changes nothing.
        let _ = self.network.revoke(list);
        self
    }
    /// The time of day.
    pub fn time_of_day(&self, now: Time) -> UnixTime {
        (self.clock)(now)
    }
    /// What this node itself may do; without a certificate it is called `label`.
    ///
    /// # Errors
    /// [`Refusal`] says why others will not admit it.
    pub fn own_grant(&self, label: &str, now: Time) -> Result<Grant, Refusal> {
        self.network.admit(&self.key(), label, self.certificate.as_ref(), self.time_of_day(now))
    }
    /// What a certificate grants to its key now. Costs a signature check.
    ///
    /// # Errors
    /// [`Refusal`] if it grants nothing.
    pub fn verify(&self, certificate: &Certificate, now: Time) -> Result<Grant, Refusal> {
        self.network.verify(certificate, self.time_of_day(now))
    }
    /// Whether a grant still holds.
    ///
    /// # Errors
    /// [`Refusal`] if it does not.
    pub fn check(&self, grant: &Grant, now: Time) -> Result<(), Refusal> {
        self.network.check(grant, self.time_of_day(now))
    }
    /// Signs for one purpose. See [`SigningKey::sign`].
    pub fn sign(&self, context: &str, message: &[u8]) -> Signature {
        self.key.sign(context, message)
    }
    /// A secret that it shares with the holder of `other` alone. See [`SigningKey::pair_secret`].
    pub fn pair_secret(&self, other: &PublicKey, context: &str) -> Option<[u8; 32]> {
        self.key.pair_secret(other, context)
    }
}
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("key", &self.key()).field("network", &self.network).finish_non_exhaustive()
    }
}
