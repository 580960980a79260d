//! Commands whose signers need a chain to a trust anchor: their certificates are fetched through the command's face.
//!
//! ```text
//!  command ─► chain known? ─ yes ─► obeyed
//!                 └─ no ─► held; Interest for the next certificate, by the face of the command
//!                                    └─ comes ─► … ─► anchor: the command runs again, its chain is known now
//!                                    └─ wrong, late ─► 403 with the reason
//! ```
//! The chain must show that the signer may sign the command's subject: the prefix that it registers, or else the
//! command's own first two components.
use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

use super::{FACE_MANAGEMENT, Router};
use crate::{
    trust::{Anchors, Chain, Step},
    wire::{ControlResponse, Data, Interest, LpPacket, NameView},
};

/// Concurrent commands that wait for certificates, in total and per face.
const CHECKED_MAX: (usize, usize) = (64, 8);
/// How long a certificate may take, and how often it is requested.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
const REQUESTS_MAX: u32 = 3;
/// Certificates of verified chains kept for later commands, at most.
const KEPT_MAX: usize = 256;

/// A command that waits for a certificate.
#[derive(Debug)]
pub(super) struct Checked {
    face: FaceId,
    packet: Bytes,
    chain: Chain,
    /// The certificates of its chain so far.
    certificates: Vec<Bytes>,
    pub(super) requested: Time,
    requests: u32,
}

/// Commands that wait for certificates, and certificates of chains that were right.
#[derive(Debug, Default)]
pub(super) struct Certified {
    pub(super) waiting: Vec<Checked>,
    kept: BTreeMap<Name, Bytes>,
}

/// Whether an anchor vouches for a command.
pub(super) enum Authority {
    Vouched,
    /// Its certificates are being fetched.
    Unknown,
    Refused(String),
}

impl Router {
    /// Whether a chain leads from an anchor to a command about `subject`. Missing certificates are requested through
    /// the command's face, and it runs again when they have arrived.
    pub(super) fn authority(
        &mut self,
        anchors: &Arc<Anchors>,
        came_by: Option<FaceId>,
        packet: &Bytes,
        subject: &Name,
    ) -> Authority {
        if !anchors.cover(subject) {
            return Authority::Refused(format!("no trust anchor of this forwarder decides about '{subject}'"));
        }
        let unix = self.unix();
        let (mut chain, mut step) = match Chain::begin(anchors, subject, packet, unix) {
            Ok(begun) => begun,
            Err(refusal) => return Authority::Refused(format!("{refusal}")),
        };
        let mut certificates = Vec::new();
        while let Step::Fetch(needed) = &step {
            let Some(known) = self.kept_certificate(needed) else { break };
            match chain.handle_certificate(&known, unix) {
                Ok(next) => step = next,
                Err(crate::trust::Refusal::Time(..)) => {
                    // A newer one may exist.
                    self.management.certified.kept.retain(|_, kept| *kept != known);
                    break;
                }
                Err(refusal) => return Authority::Refused(format!("{refusal}")),
            }
            certificates.push(known);
        }
        if let Step::Vouched(_) = step {
            return Authority::Vouched;
        }
        let Some(face) = came_by else {
            return Authority::Refused("its certificates cannot be requested: it came by no face".into());
        };
        let waiting = &self.management.certified.waiting;
        if waiting.iter().any(|known| known.packet == *packet) {
            return Authority::Unknown;
        }
        if waiting.len() >= CHECKED_MAX.0 || waiting.iter().filter(|known| known.face == face).count() >= CHECKED_MAX.1
        {
            return Authority::Refused("too many commands wait for their certificates; try again later".into());
        }
        let packet = packet.clone();
        self.management.certified.waiting.push(Checked {
            face,
            packet,
            chain,
            certificates,
            requested: self.now,
            requests: 0,
        });
        self.request_certificate(self.management.certified.waiting.len() - 1);
        Authority::Unknown
    }
    fn unix(&self) -> u64 {
        (self.config.epoch + self.now.since(Time::ZERO)).as_secs()
    }
    fn kept_certificate(&self, locator: &Name) -> Option<Bytes> {
        let kept = self.management.certified.kept.range(locator.clone()..);
        kept.take_while(|(name, _)| locator.is_prefix_of(name)).next().map(|(_, packet)| packet.clone())
    }
    fn request_certificate(&mut self, at: usize) {
        let now = self.now;
        let Some(checked) = self.management.certified.waiting.get_mut(at) else { return };
        checked.requests += 1;
        checked.requested = now;
        let (face, needed) = (checked.face, checked.chain.needs().clone());
        let interest = Interest {
            can_be_prefix: true,
            must_be_fresh: true,
            lifetime_millis: Some(PATIENCE.as_millis() as u64),
            ..Interest::new(NameView::from(&needed))
        };
        // Requested through the command's face: a route to the signer's name may not exist yet. And past the cache,
        // which may hold anyone's answer.
        let headers = LpPacket { next_hop_face: Some(u64::from(face.0)), probe: true, ..LpPacket::default() };
        self.handle_local(now, FACE_MANAGEMENT, &headers, interest.encode().into());
    }
    /// Takes a Data that may be a certificate which commands wait for.
    pub(super) fn on_certificate(&mut self, packet: &Bytes, data: &Data<'_>) {
        let unix = self.unix();
        let mut waiting = core::mem::take(&mut self.management.certified.waiting);
        let (mut again, mut refused) = (Vec::new(), Vec::new());
        let mut left = Vec::new();
        for mut checked in waiting.drain(..) {
            if !NameView::from(checked.chain.needs()).is_prefix_of(data.name) {
                left.push(checked);
                continue;
            }
            match checked.chain.handle_certificate(packet, unix) {
                Ok(step) => {
                    checked.certificates.push(packet.clone());
                    match step {
                        Step::Vouched(_) => again.push(checked),
                        Step::Fetch(_) => {
                            checked.requests = 0;
                            left.push(checked);
                        }
                    }
                }
                Err(refusal) => refused.push((checked.packet, format!("{refusal}"))),
            }
        }
        self.management.certified.waiting = left;
        for checked in again {
            let kept = &mut self.management.certified.kept;
            // All at once: the repeated command needs its whole chain together.
            if kept.len() + checked.certificates.len() > KEPT_MAX {
                kept.clear();
            }
            for packet in checked.certificates {
                if let Some(name) = Data::decode(&packet).ok().and_then(|data| data.name.to_name().ok()) {
                    kept.insert(name, packet);
                }
            }
            self.management.queue.push_back((Some(checked.face), checked.packet));
        }
        for (packet, text) in refused {
            self.respond(&packet, &ControlResponse { code: 403, text, body: None });
        }
        // Each is looked up again: an answer from the store changes the waiting ones.
        let is_unasked = |checked: &Checked| checked.requests == 0;
        while let Some(at) = self.management.certified.waiting.iter().position(is_unasked) {
            self.request_certificate(at);
        }
    }
    /// Requests missing certificates again, and finally refuses the commands that wait for them.
    pub(super) fn expire_certificates(&mut self) {
        let now = self.now;
        let is_over = |checked: &Checked| checked.requested + PATIENCE <= now && checked.requests >= REQUESTS_MAX;
        while let Some(at) = self.management.certified.waiting.iter().position(is_over) {
            let checked = self.management.certified.waiting.remove(at);
            let text = format!("its signer's certificate '{}' does not come from this face", checked.chain.needs());
            self.respond(&checked.packet, &ControlResponse { code: 403, text, body: None });
        }
        let is_late = |checked: &Checked| checked.requested + PATIENCE <= now;
        while let Some(at) = self.management.certified.waiting.iter().position(is_late) {
            self.request_certificate(at);
        }
    }
}
