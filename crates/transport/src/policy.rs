//! What may be requested over which face of a node, and by which fetch first.
//!
//! A path has the policy of the face by which its requests leave this node; families name that face in
//! [`PathOffer::face`](crate::transfer::PathOffer::face). A fetch takes a path
//!
//! 1. never, if its face is closed or the fetch leaves it out;
//! 2. not now, if another fetch of higher priority fills that face, or the face is at its rate;
//! 3. after all cheaper ones: an expensive path carries only the excess that cheap paths cannot;
//! 4. if it is a backup, while no other path answers.
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::fmt;

use tributary_core::{Duration, FaceId, Rate, Time};

use crate::{fetches::LIMIT_BURST, limit::TokenBucket};

/// Minimum time for which a fetch that fills a face keeps fetches of lower priority off it after its last request. Each
/// request renews it.
const CLAIM: Duration = Duration::from_millis(200);

/// The operator's policy for a face. The default leaves everything to the engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FacePolicy {
    /// Its cost relative to other faces. Paths over cheaper faces are filled first.
    pub cost: u32,
    /// Whether it is used only while no path over another face answers.
    pub is_backup: bool,
    /// What all fetches together may request over it; `None` for no limit.
    pub rate: Option<Rate>,
    /// Why nothing is requested over it; `None` if it may be used.
    pub closed: Option<String>,
}

/// A fetch's demands on its paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathDemands {
    /// Fetches of higher priority come first on each face. Default: 0.
    pub priority: i8,
    /// The only faces to use; empty for all.
    pub only: Vec<FaceId>,
    /// Faces not to use.
    pub avoid: Vec<FaceId>,
}

impl PathDemands {
    /// Why the fetch does not use paths over `face`; `None` if it may. A path with an unknown face passes unless only
    /// some faces may be used.
    fn leaves_out(&self, face: Option<FaceId>) -> Option<String> {
        match face {
            Some(face) if self.avoid.contains(&face) => Some(format!("this fetch avoids {face}")),
            Some(face) if !self.only.is_empty() && !self.only.contains(&face) => {
                Some(format!("this fetch does not use {face}"))
            }
            None if !self.only.is_empty() => Some("this fetch uses other faces only".into()),
            _ => None,
        }
    }
}

tributary_core::declared! {
    /// What all fetches of a node share: the limit of all together, and the policies of the faces.
    #[derive(Clone, Debug)]
    pub struct Shared {
        /// The limit of all fetches together.
        pub limit: TokenBucket = TokenBucket::new(None, LIMIT_BURST),
        /// The faces that have a policy or a fetch with a priority.
        pub faces: Faces = Faces::default(),
    }
}

/// The policies of a node's faces, and the fetches that fill them.
#[derive(Clone, Debug, Default)]
pub struct Faces {
    by_face: BTreeMap<FaceId, Face>,
    /// Increases by one with each change of a policy.
    pub(crate) version: u64,
    /// Whether fetches have different priorities, so that the fetch that fills a face matters.
    has_priorities: bool,
}

tributary_core::declared! {
    #[derive(Clone, Debug)]
    struct Face {
        policy: FacePolicy = FacePolicy::default(),
        bucket: TokenBucket = TokenBucket::new(None, LIMIT_BURST),
        /// The priority of the fetch that fills it, and until when that holds.
        claim: Option<(i8, Time)> = None,
    }
}

impl Faces {
    /// Sets the policy of a face.
    pub fn set(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        let known = self.by_face.entry(face).or_default();
        if known.policy == policy {
            return;
        }
        if known.policy.rate != policy.rate {
            known.bucket.set_rate(now, policy.rate);
        }
        known.policy = policy;
        self.version += 1;
    }
    /// Whether no face makes a difference to any fetch.
    pub(crate) fn is_plain(&self) -> bool {
        self.by_face.is_empty() && !self.has_priorities
    }
    /// All policies, for fetches to look at between requests.
    pub(crate) fn rules(&self) -> FaceRules {
        FaceRules { by_face: self.by_face.iter().map(|(id, face)| (*id, face.policy.clone())).collect() }
    }
    /// Why a fetch may not use a face at `now`, and until when.
    pub(crate) fn held(&self, now: Time, face: FaceId, priority: i8) -> Option<(Held, Time)> {
        let face = self.by_face.get(&face)?;
        let claim = face.claim.filter(|(of, until)| *of > priority && *until > now);
        let rate = face.policy.rate.filter(|_| face.bucket.ready_at() > now);
        claim
            .map(|(_, until)| (Held::Priority, until))
            .or_else(|| rate.map(|rate| (Held::Rate(rate), face.bucket.ready_at())))
    }
    /// A fetch requests `bytes` over a face. `fills` means that it uses the path's full capacity, and is the path's
    /// round-trip time.
    pub(crate) fn on_request(&mut self, now: Time, face: FaceId, bytes: u64, priority: i8, fills: Option<Duration>) {
        if self.has_priorities {
            self.by_face.entry(face).or_default();
        }
        let Some(known) = self.by_face.get_mut(&face) else { return };
        known.bucket.on_pass(now, bytes);
        if let Some(rtt) = fills.filter(|_| self.has_priorities)
            && known.claim.is_none_or(|(of, until)| of <= priority || until <= now)
        {
            known.claim = Some((priority, now + CLAIM.max(rtt * 2)));
        }
    }
    /// Starts to record which fetch fills which face: fetches have different priorities.
    pub fn have_priorities(&mut self) {
        self.has_priorities = true;
    }
}

/// The policies of all faces as a fetch saw them last.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaceRules {
    by_face: BTreeMap<FaceId, FacePolicy>,
}
impl FaceRules {
    /// Why a fetch may never use paths over a face.
    pub(crate) fn bars(&self, face: Option<FaceId>, demands: &PathDemands) -> Option<String> {
        let policy = face.and_then(|face| self.by_face.get(&face));
        demands.leaves_out(face).or_else(|| policy?.closed.clone())
    }
    /// The order in which paths are used: backups last, then by cost.
    pub(crate) fn rank(&self, face: Option<FaceId>) -> Rank {
        let policy = face.and_then(|face| self.by_face.get(&face));
        policy.map_or(Rank::default(), |policy| Rank { is_backup: policy.is_backup, cost: policy.cost })
    }
}

/// The position of a path in the order of use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Rank {
    pub(crate) is_backup: bool,
    pub(crate) cost: u32,
}

/// Why a path that works is not used now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    /// It is a backup, and other paths answer.
    Backup,
    /// Its face is at its rate.
    Rate(Rate),
    /// A fetch of higher priority fills its face.
    Priority,
}
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Held::Backup => f.write_str("backup: other paths answer"),
            Held::Rate(rate) => write!(f, "its face is limited to {rate}"),
            Held::Priority => f.write_str("a transfer of higher priority fills its face"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACE: FaceId = FaceId(1);
    const NOW: Time = Time::from_millis(1_000);

    #[test]
    fn a_fetch_keeps_those_of_lower_priority_off_a_face_until_it_asks_no_more() {
        let mut faces = Faces::default();
        faces.have_priorities();
        faces.on_request(NOW, FACE, 1_000, 2, Some(Duration::from_millis(10)));
        assert_eq!(faces.held(NOW, FACE, 1), Some((Held::Priority, NOW + CLAIM)));
        assert_eq!(faces.held(NOW, FACE, 2), None, "equals share");
        faces.on_request(NOW, FACE, 1_000, 1, Some(Duration::from_millis(10)));
        assert!(faces.held(NOW, FACE, 1).is_some(), "a lower one takes nothing away");
        assert_eq!(faces.held(NOW + CLAIM, FACE, 1), None);
    }

    #[test]
    fn a_face_passes_its_rate() {
        let (mut faces, mut now, mut passed) = (Faces::default(), NOW, 0u64);
        faces.set(NOW, FACE, FacePolicy { rate: Some(Rate::from_mbps(8)), ..FacePolicy::default() });
        while now < NOW + Duration::from_secs(1) {
            if faces.held(now, FACE, 0).is_none() {
                faces.on_request(now, FACE, 1_000, 0, None);
                passed += 1_000;
            }
            now += Duration::from_micros(300);
        }
        assert!((1_000_000..=1_021_000).contains(&passed), "{passed}");
    }

    #[test]
    fn demands_leave_out_faces_by_their_numbers() {
        let only = PathDemands { only: [FACE].into(), ..PathDemands::default() };
        assert!(only.leaves_out(Some(FACE)).is_none() && only.leaves_out(Some(FaceId(2))).is_some());
        assert!(only.leaves_out(None).is_some(), "nobody knows that it is the right one");
        let avoid = PathDemands { avoid: [FACE].into(), ..PathDemands::default() };
        assert!(avoid.leaves_out(Some(FACE)).is_some() && avoid.leaves_out(Some(FaceId(2))).is_none());
        assert!(avoid.leaves_out(None).is_none());
    }
}
