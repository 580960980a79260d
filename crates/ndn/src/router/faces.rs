//! The faces of a router, with an index of those that have work: idle faces cost nothing.
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Deref;

use tributary_core::{FaceId, Time, TimerTable};

use super::face::Face;

/// Faces by number. [`Faces::get_mut`] marks a face for another check of its timers.
#[derive(Default)]
pub(super) struct Faces {
    map: BTreeMap<FaceId, Face>,
    /// Faces that may have changed since the last look at them.
    touched: BTreeSet<FaceId>,
    /// Of the others, those that have packets to send.
    ready: BTreeSet<FaceId>,
    /// Of the others, when each is due.
    timers: TimerTable<FaceId>,
}

impl Deref for Faces {
    type Target = BTreeMap<FaceId, Face>;
    fn deref(&self) -> &BTreeMap<FaceId, Face> {
        &self.map
    }
}

impl Faces {
    pub(super) fn get_mut(&mut self, face: &FaceId) -> Option<&mut Face> {
        let state = self.map.get_mut(face)?;
        self.touched.insert(*face);
        Some(state)
    }
    pub(super) fn insert(&mut self, face: FaceId, state: Face) -> Option<Face> {
        self.touched.insert(face);
        self.map.insert(face, state)
    }
    pub(super) fn remove(&mut self, face: &FaceId) -> Option<Face> {
        self.touched.remove(face);
        self.ready.remove(face);
        self.timers.stop(face);
        self.map.remove(face)
    }
    /// Looks at the faces that may have changed.
    fn settle(&mut self) {
        for id in core::mem::take(&mut self.touched) {
            let Some(face) = self.map.get(&id) else { continue };
            if face.has_queue() {
                self.ready.insert(id);
            } else {
                self.ready.remove(&id);
            }
            match face.poll_timeout() {
                Some(due) => self.timers.set(id, due),
                None => self.timers.stop(&id),
            }
        }
    }
    /// The first face behind this one that has packets to send, in a circle.
    pub(super) fn next_ready(&mut self, after: FaceId) -> Option<FaceId> {
        self.settle();
        let behind = self.ready.range(FaceId(after.0.saturating_add(1))..).next();
        behind.or_else(|| self.ready.first()).copied()
    }
    /// The faces that are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<FaceId> {
        self.settle();
        let mut due: Vec<FaceId> = core::iter::from_fn(|| self.timers.pop_due(now)).collect();
        due.sort_unstable();
        self.touched.extend(&due);
        due
    }
    /// When a face is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let touched = self.touched.iter().filter_map(|id| self.map.get(id)?.poll_timeout());
        // A touched face may be due later than before: it then gets one check too many.
        touched.chain(self.timers.next().map(|(due, _)| due)).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_transport::FaceOptions;

    use super::*;
    use crate::router::{FaceLimits, FaceProfile};

    fn profile() -> FaceProfile {
        FaceProfile { finds_mtu: true, ..FaceProfile::from(FaceOptions { mtu: 1_400, rate: None }) }
    }

    #[test]
    fn no_packet_and_no_timer_of_any_face_is_missed() {
        let mut faces = Faces::default();
        let new = |id: u32| Face::new(FaceId(id), profile(), FaceLimits::default(), id, 1);
        (0..4_000).for_each(|id| drop(faces.insert(FaceId(id), new(id))));
        assert_eq!(faces.next_ready(FaceId(0)), None);
        for id in [7, 1_000, 3_999] {
            faces.get_mut(&FaceId(id)).unwrap().probe_boot(1);
        }
        assert_eq!(faces.ready.len(), 0, "they are looked at when something is wanted");
        let mut order = Vec::new();
        let mut after = FaceId(500);
        let mut out = tributary_core::TransmitBuf::new();
        while let Some(face) = faces.next_ready(after) {
            order.push(face.0);
            out.clear();
            faces.get_mut(&face).unwrap().poll_transmit(&mut out);
            after = face;
        }
        assert_eq!(order, [1_000, 3_999, 7]);
        faces.remove(&FaceId(7));
        assert_eq!(faces.len(), 3_999);
    }

    proptest! {
        #[test]
        fn ready_and_due_are_what_a_scan_of_all_faces_finds(steps in proptest::collection::vec((0u32..8, 0u8..4), 1..60)) {
                let mut faces = Faces::default();
            let mut out = tributary_core::TransmitBuf::new();
            for (at, (id, what)) in steps.into_iter().enumerate() {
                let (id, now) = (FaceId(id), Time::from_millis(at as u64 * 50));
                match what {
                    0 => drop(faces.insert(id, Face::new(id, profile(), FaceLimits::default(), id.0, 1))),
                    1 => drop(faces.remove(&id)),
                    2 => faces.get_mut(&id).iter_mut().for_each(|face| face.probe_boot(1)),
                    _ => {
                        for due in faces.due(now) {
                            faces.get_mut(&due).unwrap().handle_timeout(now);
                        }
                        if let Some(ready) = faces.next_ready(id) {
                            out.clear();
                            faces.get_mut(&ready).unwrap().poll_transmit(&mut out);
                        }
                    }
                }
                let scanned = faces.values().filter_map(Face::poll_timeout).min();
                prop_assert!(faces.poll_timeout() <= scanned || scanned.is_none());
                prop_assert!(scanned.is_none() || faces.poll_timeout().is_some());
                let with_queue: Vec<FaceId> = faces.values().filter(|face| face.has_queue()).map(|face| face.id).collect();
                faces.settle();
                prop_assert_eq!(faces.ready.iter().copied().collect::<Vec<_>>(), with_queue);
                prop_assert_eq!(faces.timers.next().map(|(due, _)| due), scanned);
            }
        }
    }
}
