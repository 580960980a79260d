//! The notification stream `faces/events`: changes of faces, one Data with a sequence number after the other. A
//! subscriber requests the newest first and then each next number, and its Interest waits until there is such a Data.
use alloc::collections::VecDeque;

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

use super::{FRESHNESS_MILLIS, datasets::entry_of};
use crate::{
    naming::number,
    router::Router,
    wire::{Data, Interest, MetaInfo, NameView, SignKey, dataset::FaceEvent, types},
};

/// Notifications kept for those who are behind.
const KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct FaceEvents {
    stream: Name,
    next: u64,
    notifications: VecDeque<(Time, Bytes)>,
}

impl Default for FaceEvents {
    fn default() -> Self {
        let stream = "/localhost/nfd/faces/events".parse().expect("it is a name");
        FaceEvents { stream, next: 0, notifications: VecDeque::new() }
    }
}

impl Router {
    /// Adds a notification about a face.
    pub(in crate::router) fn on_face_event(&mut self, face: FaceId, event: FaceEvent) {
        let Some(face) = self.faces.get(&face) else { return };
        let content = entry_of(face).notification(event);
        let events = &mut self.management.events;
        let Ok(name) = events.stream.typed_child(types::SEQUENCE, &number(events.next)) else { return };
        events.next += 1;
        let meta = MetaInfo { freshness_millis: Some(FRESHNESS_MILLIS), final_block_id: None, content_type: None };
        let data = Data { meta: Some(meta), ..Data::new(NameView::from(&name), &content) };
        let data = Bytes::from(data.sign(&SignKey::Digest));
        if events.notifications.len() >= KEPT {
            events.notifications.pop_front();
        }
        events.notifications.push_back((self.now, data.clone()));
        self.publish(self.now, data);
    }
    /// Answers a request for a notification that exists; other Interests wait.
    pub(super) fn answer_from_face_events(&mut self, now: Time, interest: &Interest<'_>) {
        let is_fresh = |at: Time| now.since(at) <= Duration::from_millis(FRESHNESS_MILLIS);
        let fits = |(at, data): &&(Time, Bytes)| {
            (is_fresh(*at) || !interest.must_be_fresh)
                && Data::decode(data).is_ok_and(|data| {
                    data.name == interest.name || interest.can_be_prefix && interest.name.is_prefix_of(data.name)
                })
        };
        if let Some((_, data)) = self.management.events.notifications.iter().rev().find(fits) {
            let data = data.clone();
            self.publish(now, data);
        }
    }
}
