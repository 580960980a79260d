//! The notification stream `faces/events`: changes of faces, one Data per sequence number. A subscriber requests the
//! newest first and then each next number, and its Interest waits until that Data exists.
use alloc::{collections::VecDeque, vec::Vec};

use bytes::Bytes;
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};

use super::{FRESHNESS_MILLIS, datasets::entry_of};
use crate::{
    naming::number,
    router::Router,
    wire::{Data, Interest, MetaInfo, NameView, SignKey, dataset::FaceEvent, types},
};

/// Notifications kept for late subscribers.
const KEPT: usize = 64;

#[derive(Debug)]
pub(super) struct FaceEvents {
    stream: Name,
    next: u64,
    notifications: VecDeque<Notification>,
    /// Until when a subscriber may wait for the next one.
    awaited_until: Option<Time>,
    /// How many were made into packets.
    pub packets: u64,
}

/// A notification, which becomes a packet on request: faces come and go with every forged address.
#[derive(Debug)]
struct Notification {
    at: Time,
    number: u64,
    content: Vec<u8>,
}

impl Default for FaceEvents {
    fn default() -> Self {
        let stream = "/localhost/nfd/faces/events".parse().expect("it is a name");
        FaceEvents { stream, next: 0, notifications: VecDeque::new(), awaited_until: None, packets: 0 }
    }
}

impl FaceEvents {
    fn name(&self, sequence: u64) -> Option<Name> {
        self.stream.typed_child(types::SEQUENCE, &number(sequence)).ok()
    }
    fn packet(&mut self, sequence: u64, content: &[u8]) -> Option<Bytes> {
        let name = self.name(sequence)?;
        self.packets += 1;
        let meta = MetaInfo { freshness_millis: Some(FRESHNESS_MILLIS), final_block_id: None, content_type: None };
        let data = Data { meta: Some(meta), ..Data::new(NameView::from(&name), content) };
        Some(data.sign(&SignKey::Digest).into())
    }
}

impl Router {
    /// Adds a notification about a face.
    pub(in crate::internals::router) fn on_face_event(&mut self, face: FaceId, event: FaceEvent) {
        let Some(face) = self.faces.get(&face) else { return };
        let content = entry_of(face).notification(event);
        let (now, events) = (self.now, &mut self.management.events);
        let number = events.next;
        events.next += 1;
        if events.notifications.len() >= KEPT {
            events.notifications.pop_front();
        }
        let packet =
            if events.awaited_until.is_some_and(|until| now <= until) { events.packet(number, &content) } else { None };
        events.notifications.push_back(Notification { at: now, number, content });
        packet.into_iter().for_each(|packet| self.publish(packet));
    }
    /// Answers a request for a notification that exists; other Interests wait.
    pub(super) fn answer_from_face_events(&mut self, interest: &Interest<'_>) {
        let now = self.now;
        let events = &mut self.management.events;
        let is_fresh =
            |notification: &Notification| now.since(notification.at) <= Duration::from_millis(FRESHNESS_MILLIS);
        let fits = |notification: &&Notification| {
            (is_fresh(notification) || !interest.must_be_fresh)
                && events.name(notification.number).is_some_and(|name| {
                    let name = NameView::from(&name);
                    name == interest.name || interest.can_be_prefix && interest.name.is_prefix_of(name)
                })
        };
        let found = events
            .notifications
            .iter()
            .rev()
            .find(fits)
            .map(|notification| (notification.number, notification.content.clone()));
        let packet = found.and_then(|(number, content)| events.packet(number, &content));
        match packet {
            Some(packet) => self.publish(packet),
            None => events.awaited_until = events.awaited_until.max(Some(now + interest.lifetime())),
        }
    }
}
