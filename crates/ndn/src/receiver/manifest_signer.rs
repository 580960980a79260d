//! Who vouches for the signer of a manifest that a probe has brought, where trust anchors or a pinned certificate decide.
//!
//! The first answer of an unknown signer starts a chain and is dropped; probes continue, so the next one comes soon. A
//! verified signer counts for the rest of the fetch, a refused one is tried again after a pause.
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, Time};
use tributary_transport::transfer::CacheUse;

use super::{fetch::Trust, foreign::Question};
use crate::{
    trust::{Anchors, Chain, Step, chain::check_time},
    wire::{Certificate, Data, KeyLocator, NameView, VerifyKey},
};

/// How long a certificate may take before it is requested again, and how often it is.
const PATIENCE: Duration = Duration::from_millis(500);
const REQUESTS_MAX: u32 = 4;
/// Answers that are no certificate of the chain before the signer is refused: caches may keep forged ones.
const WRONG_MAX: u32 = 4;
/// How long after a refusal the next signer is examined.
const PAUSE: Duration = Duration::from_secs(1);
/// Signers that were vouched for, of one fetch.
const SIGNERS_MAX: usize = 8;

tributary_core::declared! {
    /// A fetch's knowledge of the signers of manifests.
    pub(super) struct Vouching {
        object: Name = object.clone(),
        pinned: Option<Certificate> = trust.pinned.clone(),
        /// The trust anchors, if any decides about the object's name.
        anchors: Option<Arc<Anchors>> = trust.anchors.cover(object).then(|| trust.anchors.clone()),
        epoch: Duration = trust.epoch,
        /// Keys that are vouched for, by their locators.
        signers: Vec<(Name, VerifyKey)> = Vec::new(),
        running: Option<Running> = None,
        /// No chain starts before.
        resumes: Time = Time::ZERO,
        obstacle: Option<String> = None,
        is_news: bool = false,
    }
    pub(super) fn new(object: &Name, trust: &Trust) {}
}

/// A running chain to an anchor.
struct Running {
    chain: Box<Chain>,
    /// The signer at its beginning.
    locator: Name,
    requested: Option<Time>,
    requests: u32,
    wrong: u32,
}

impl Vouching {
    /// Whether the node has trust anchors, which vouch for publishers.
    pub(super) fn has_anchors(&self) -> bool {
        self.pinned.is_none() && self.anchors.is_some()
    }
    /// Whether a Data with a manifest counts. If that is unknown, requests its certificates.
    pub(super) fn is_vouched(&mut self, now: Time, packet: &Bytes, data: &Data<'_>) -> bool {
        if let Some(pinned) = &self.pinned {
            // The pinned key must have signed the manifest itself.
            let Err(refusal) = check_time(pinned, self.unix(now)) else { return true };
            self.refuse(now, format!("{refusal}"));
            return false;
        }
        let Some(anchors) = &self.anchors else { return true };
        let locator = match data.signature.key_locator {
            Some(KeyLocator::Name(name)) => name.to_name().ok(),
            Some(KeyLocator::Digest(_)) | None => None,
        };
        let known = self.signers.iter().find(|(known, _)| Some(known) == locator.as_ref());
        if let Some((_, key)) = known {
            return data.is_signed_by(key);
        }
        if self.running.is_some() || now < self.resumes {
            return false;
        }
        match Chain::begin(anchors, &self.object, packet, self.unix(now)) {
            Ok((chain, step)) => {
                let locator = locator.unwrap_or_default();
                self.running =
                    Some(Running { chain: Box::new(chain), locator, requested: None, requests: 0, wrong: 0 });
                self.on_step(step);
                self.running.is_none()
            }
            Err(refusal) => {
                self.refuse(now, format!("{refusal}"));
                false
            }
        }
    }
    /// The certificate to request next.
    pub(super) fn poll(&mut self, now: Time) -> Option<Question> {
        let running = self.running.as_mut()?;
        if running.requested.is_some_and(|requested| requested + PATIENCE > now) {
            return None;
        }
        if running.requests >= REQUESTS_MAX {
            let needs = running.chain.needs().clone();
            self.refuse(now, format!("the certificate '{needs}', on the way to a trust anchor, does not come"));
            return None;
        }
        running.requests += 1;
        running.requested = Some(now);
        let caches = if running.wrong > 0 { CacheUse::Bypassed } else { CacheUse::Allowed };
        Some(Question { name: running.chain.needs().clone(), discovers: true, caches })
    }
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.running.as_ref().map(|running| running.requested.map_or(Time::ZERO, |requested| requested + PATIENCE))
    }
    /// Whether a Data with this name may be a certificate requested here.
    pub(super) fn awaits(&self, name: NameView<'_>) -> bool {
        self.running.as_ref().is_some_and(|running| NameView::from(running.chain.needs()).is_prefix_of(name))
    }
    /// Takes a Data; returns whether it was requested here. The discovery of a foreign object may wait for it too.
    pub(super) fn handle_packet(&mut self, now: Time, packet: &Bytes, data: Option<&Data<'_>>) -> bool {
        let unix = self.unix(now);
        let (Some(running), Some(data)) = (&mut self.running, data) else { return false };
        if running.requested.is_none() || !NameView::from(running.chain.needs()).is_prefix_of(data.name) {
            return false;
        }
        match running.chain.handle_certificate(packet, unix) {
            Ok(step) => {
                (running.requested, running.requests, running.wrong) = (None, 0, 0);
                self.on_step(step);
            }
            Err(refusal) => {
                running.wrong += 1;
                running.requested = None;
                if running.wrong >= WRONG_MAX || running.requests >= REQUESTS_MAX {
                    self.refuse(now, format!("{refusal}"));
                }
            }
        }
        true
    }
    fn on_step(&mut self, step: Step) {
        let (Step::Vouched(vouched), Some(running)) = (step, &self.running) else { return };
        if self.signers.len() >= SIGNERS_MAX {
            self.signers.remove(0);
        }
        self.signers.push((running.locator.clone(), vouched.signer.key().clone()));
        (self.running, self.obstacle, self.is_news) = (None, None, false);
    }
    fn refuse(&mut self, now: Time, reason: String) {
        self.is_news = self.obstacle.as_ref() != Some(&reason);
        (self.running, self.resumes, self.obstacle) = (None, now + PAUSE, Some(reason));
    }
    /// Why the last signer does not count, the first time that it is so.
    pub(super) fn poll_refusal(&mut self) -> Option<String> {
        core::mem::take(&mut self.is_news).then(|| self.obstacle.clone()).flatten()
    }
    /// Why the last signer does not count.
    pub(super) fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }
    fn unix(&self, now: Time) -> u64 {
        (self.epoch + now.since(Time::ZERO)).as_secs()
    }
}
