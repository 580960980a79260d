//! Serving fetched objects as their publishers signed them, so that no secret key is needed.
use parking_lot::Mutex;
use std::{
    path::Path,
    sync::{Arc, Weak},
};
use tributary_content::{Name, ObjectReader};
use tributary_net::disk::Share;

use super::publish::Opened;
use crate::{
    error::ApiError,
    families::BoxedNode,
    node::{
        LocalNode,
        publications::{Copy, Publication},
    },
    notice::Notice,
};

/// An object that is served while it arrives, until it is complete or its fetch has ended. All decisions are made on
/// the node's thread, where nothing else is published or withdrawn in between.
pub(super) struct Arriving<'a> {
    node: &'a LocalNode,
    name: Name,
    offer: Arc<Mutex<Offer>>,
}

#[derive(Default)]
struct Offer {
    /// Whether the fetch has ended: later chunks are not offered.
    has_ended: bool,
    /// Whether the node still has it, if it was offered.
    kept: Option<Weak<()>>,
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        let (name, offer) = (self.name.clone(), Arc::clone(&self.offer));
        let end = move |node: &mut BoxedNode, now| {
            let mut offer = offer.lock();
            offer.has_ended = true;
            // A publication that has replaced it stays.
            let is_ours = offer.kept.take().is_some_and(|kept| kept.strong_count() > 0);
            if is_ours {
                node.unpublish(now, &name);
            }
            is_ours
        };
        // A node that has ended offers nothing.
        if let Ok(true) = self.node.runtime.call(end) {
            self.node.runtime.events.forget(&self.name.to_string());
        }
    }
}

impl LocalNode {
    /// Serves the fetch of a name while it arrives, if it should be served and the family has partial sources; also
    /// returns what the store of the fetch needs for that.
    ///
    /// # Errors
    /// [`ApiError`] if the node has ended.
    pub(super) fn arriving(&self, name: &Name) -> Result<Option<(Arriving<'_>, Share)>, ApiError> {
        let remote = self.runtime.remote();
        let (room, bytes_max) = (self.config.limits.publications, self.config.serve.bytes_max);
        if !self.config.family().profile().abilities.partial_sources {
            return Ok(None);
        }
        if Self::must_own(self.closed_grant()?.as_ref(), name).is_err() {
            // It is reported at the end if requested.
            return Ok(None);
        }
        let offer = Arc::new(Mutex::new(Offer::default()));
        let (shared, of) = (Arc::clone(&offer), name.clone());
        let share = Share::new(&self.files.storage, move |object| {
            if bytes_max.is_some_and(|most| object.manifest().size > most) {
                return;
            }
            let (offer, of) = (Arc::clone(&shared), of.clone());
            let publish = move |node: &mut BoxedNode, now| {
                let mut offer = offer.lock();
                let is_free = node.published_count() < room && !node.publishes(&of);
                if is_free && !offer.has_ended {
                    offer.kept = Some(object.watch());
                    node.publish(now, Box::new(object));
                }
            };
            // A node that has ended offers nothing.
            let _ = remote.call(publish);
        });
        Ok(Some((Arriving { node: self, name: name.clone(), offer }, share)))
    }
    /// Publishes a fetched object at `path`, until it is removed or the limits of `[serve]` withdraw it.
    ///
    /// # Errors
    /// [`ApiError`] if it is no copy of a signed object, or the node may not publish its name.
    pub(crate) fn serve_copy(&self, path: &Path) -> Result<Notice, ApiError> {
        let path = crate::preflight::absolute(path)?;
        let opened = self.open_copy(&path)?;
        let manifest = opened.publication.object.manifest();
        let (name, bytes) = (manifest.name.clone(), manifest.size);
        if let Some(most) = self.config.serve.bytes_max.filter(|most| bytes > *most) {
            let message =
                format!("'{name}' is not served: it has {bytes} bytes, and all copies together may have {most}");
            return Err(ApiError::usage(message).with_hint("raise 'size_max' in [serve]"));
        }
        Self::must_own(self.closed_grant()?.as_ref(), &name)?;
        self.must_have_room(&name)?;
        let is_own = self.publications.get(&name).is_some_and(|of| of.copy.is_none());
        let is_configured = self.config.publish.iter().any(|entry| entry.name == name);
        if is_configured || is_own {
            let message = format!("'{name}' is not served: this node publishes another object under this name");
            return Err(ApiError::usage(message));
        }
        let since = self.age.mark().map_err(|error| ApiError::io("note the age of", path.display(), &error))?;
        let copy = Some(Copy { since: since.as_secs(), bytes });
        self.publications.remember(Publication { name, path, copy, ..Publication::default() })?;
        let notice = self.offer(opened)?;
        self.withdraw_old_copies()?;
        Ok(notice)
    }
    /// Opens a copy as an object.
    pub(super) fn open_copy(&self, path: &Path) -> Result<Opened, ApiError> {
        Ok(Opened { publication: self.files.publish_copy(path)?, keys: None })
    }
    /// Withdraws copies that are too old, and the oldest ones that are more than may be served together. The files stay.
    pub(crate) fn withdraw_old_copies(&self) -> Result<(), ApiError> {
        let limits = &self.config.serve;
        let oldest = limits.age_max.map_or(0, |age| self.age.now().saturating_sub(age).as_secs());
        let copies = self.publications.list().into_iter().filter_map(|of| Some((of.name, of.copy?)));
        let mut room = limits.bytes_max.unwrap_or(u64::MAX);
        // They are listed in the order in which they were made.
        for (name, copy) in copies.collect::<Vec<_>>().into_iter().rev() {
            match room.checked_sub(copy.bytes).filter(|_| copy.since >= oldest) {
                Some(left) => room = left,
                // The user may have published another object under it since.
                None if !self.publications.forget_copy(&name, copy)? => {}
                None => {
                    self.withdraw(&name)?;
                    self.runtime
                        .events
                        .note(&format!("'{name}' is no longer served: the limits of [serve] are reached"));
                }
            }
        }
        Ok(())
    }
}
