//! The policies of faces, applied to the node.
use tributary_core::Duration;

use crate::{
    config::FacePolicyConfig,
    node::{
        LocalNode,
        policies::{LOOK, Moment},
    },
};

impl LocalNode {
    /// Brings the policies of all faces up to date, and returns when to do that again; `None` if the node is gone.
    pub(crate) fn apply_policies(&self) -> Option<Duration> {
        let faces = self.runtime.neighbours();
        if faces.iter().all(|(_, face)| face.policy == FacePolicyConfig::default()) && self.policies.is_idle() {
            return Some(LOOK);
        }
        let stats = self.runtime.driver.stats().ok()?;
        let datagrams = stats.faces.iter().map(|face| (face.face, face.in_bytes + face.out_bytes));
        let streams = stats.streams.iter().map(|stream| (stream.face, stream.in_bytes + stream.out_bytes));
        let counted = datagrams.chain(streams).collect();
        let (changed, pause, written) = self.policies.update(self.runtime.now(), Moment::now(), &faces, &counted);
        if let Err(error) = written {
            self.runtime.events.note(&error.to_string());
        }
        for (face, policy) in changed {
            if let Some(reason) = &policy.closed {
                self.runtime.events.note(&format!("fetches no longer use {face}: {reason}"));
            }
            self.runtime.call(move |node, now| node.set_face_policy(now, face, policy)).ok()?;
        }
        Some(pause)
    }
    /// Stores the used part of quotas when the node stops.
    pub(crate) fn settle_quotas(&self) {
        self.apply_policies();
        if let Err(error) = self.policies.settle() {
            tracing::warn!("{error}");
        }
    }
}
