//! What a node itself is in its network.
use alloc::sync::Arc;
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};
use tributary_content::{PublicKey, Signature, SigningKey};
use tributary_core::Time;

use crate::{Certificate, Grant, Network, Refusal, UnixTime};

/// The time of day at a time of the driver. A simulation's is a fixed date plus virtual time.
pub type WallClock = Arc<dyn Fn(Time) -> UnixTime + Send + Sync>;

/// A node's key, its certificate and its network: its control plane uses them to sign, seal and verify.
#[derive(Clone)]
pub struct Identity {
    key: SigningKey,
    certificate: Option<Certificate>,
    network: Network,
    clock: WallClock,
    /// The time of day when the driver began, in Unix seconds: a lower bound for when the machine's clock cannot be right. Zero
    /// as long as nothing is known. Clones share it.
    bound: Arc<AtomicU64>,
}

impl Identity {
    /// The identity of the holder of `key` in `network`. A certificate for another key grants nothing.
    pub fn new(key: SigningKey, certificate: Option<Certificate>, network: Network, clock: WallClock) -> Identity {
        Identity { key, certificate, network, clock, bound: Arc::default() }
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
    /// The time of day by the machine's clock, or a later one if that clock cannot be right.
    pub fn time_of_day(&self, now: Time) -> UnixTime {
        let shown = (self.clock)(now);
        self.proven(now, shown).map_or(shown, |proven| shown.max(proven))
    }
    /// What the machine's clock shows and the later time that counts instead; `None` if the machine's counts.
    pub fn correction(&self, now: Time) -> Option<(UnixTime, UnixTime)> {
        let shown = (self.clock)(now);
        self.proven(now, shown).filter(|proven| shown < *proven).map(|proven| (shown, proven))
    }
    /// A lower bound of the time, if the machine's clock cannot be right: the latest of the time that it showed while
    /// it could and the start of validity of this node's or another certificate, plus the time since then.
    fn proven(&self, now: Time, shown: UnixTime) -> Option<UnixTime> {
        let since = now.since(Time::ZERO).as_secs();
        if let Some(from) = self.certificate.as_ref().map(|own| own.terms().not_before) {
            if from <= shown.after(self.network.clock_tolerance()) {
                self.bound.store(shown.0.saturating_sub(since), Ordering::Relaxed);
                return None;
            }
            let _ = self.bound.compare_exchange(0, from.0.saturating_sub(since), Ordering::Relaxed, Ordering::Relaxed);
        }
        match self.bound.load(Ordering::Relaxed) {
            0 => None,
            bound => Some(UnixTime(bound).after(since)),
        }
    }
    /// A certificate that begins later than the time of day: if the machine's clock cannot be right, and the authority has
    /// signed it, it is as late as that at least. A clock that can be right is not moved, or one certificate that was issued
    /// with a wrong date would end all others.
    fn is_proven_late(&self, certificate: &Certificate, now: Time) -> bool {
        let is_set = self.certificate.is_some() && self.proven(now, (self.clock)(now)).is_none();
        if is_set || !certificate.is_signed_by(self.network.authority()) {
            return false;
        }
        let bound = certificate.terms().not_before.0.saturating_sub(now.since(Time::ZERO).as_secs());
        self.bound.fetch_max(bound, Ordering::Relaxed) < bound
    }
    /// What this node itself may do; without a certificate it is called `label`.
    ///
    /// # Errors
    /// [`Refusal`] states why others will not admit it.
    pub fn own_grant(&self, label: &str, now: Time) -> Result<Grant, Refusal> {
        self.admit(&self.key(), label, self.certificate.as_ref(), now)
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
        now: Time,
    ) -> Result<Grant, Refusal> {
        let admit = || self.network.admit(key, label, certificate, self.time_of_day(now));
        match (admit(), certificate) {
            (Err(Refusal::NotYet { .. }), Some(certificate)) if self.is_proven_late(certificate, now) => admit(),
            (admitted, _) => admitted,
        }
    }
    /// What a certificate grants to its key now. Costs a signature check.
    ///
    /// # Errors
    /// [`Refusal`] if it grants nothing.
    pub fn verify(&self, certificate: &Certificate, now: Time) -> Result<Grant, Refusal> {
        self.admit(&certificate.terms().key, "", Some(certificate), now)
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
