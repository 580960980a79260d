//! The store of a node: opened at its start, or later if it cannot be read then.
use super::*;
use crate::config::Rebinding;
use tributary_content::StoreError;

/// Time between two tries to read a store that could not be read at the start.
const STORE_AGAIN: core::time::Duration = core::time::Duration::from_secs(5);

impl MfNode {
    /// Opens the store with the chunks of the repository. If these cannot be read, it tries again later, and stores
    /// nothing until then.
    pub(super) fn open_store(&mut self, now: Time) {
        let Some((repository, since)) = self.unread.take() else { return };
        let own = (self.guid, self.own_address());
        let mut settings = self.config.proxy.clone();
        if !self.config.router {
            // Everything is from one source, and its access router knows the destinations' addresses.
            settings.flow_capacity = settings.capacity;
            (settings.source_capacity, settings.destination_capacity) = (settings.capacity, settings.capacity);
            settings.rebinding = Rebinding::Never;
        }
        match Proxy::open(now, settings, own, repository) {
            Ok(mut proxy) => {
                if !self.config.router {
                    proxy.be_outbox();
                    self.router.keeps_own = true;
                }
                let damage = proxy.damage();
                if damage.places > 0 {
                    self.events.push(Event::Note(format!(
                        "stored chunks are lost: {} places of the store are damaged, {} in all; files with damage are kept in the \
                         folder 'damaged' of the store",
                        damage.places,
                        tributary_core::ByteCount(damage.bytes)
                    )));
                }
                if since < now {
                    self.events.push(Event::Note("the stored chunks can be read now".into()));
                }
                self.proxy = Some(proxy);
            }
            Err((error, repository)) => {
                if since == now {
                    let again = STORE_AGAIN.as_secs();
                    self.events.push(Event::Note(format!(
                        "cannot read the stored chunks: {error}; nothing is stored until that succeeds, which is tried every \
                         {again} s"
                    )));
                }
                self.unread = Some((repository, since));
                self.open_store_at = Some(now + STORE_AGAIN);
            }
        }
    }
    /// Chunks cannot be stored: one line reports it until storing succeeds again, however many attempts fail.
    pub(super) fn on_store_failed(&mut self, error: &StoreError) {
        self.events.count("failures of the store");
        if !core::mem::replace(&mut self.store_fails, true) {
            self.events.push(Event::Note(format!(
                "cannot store chunks: {error}; they wait where they come from, which is tried again all the time"
            )));
        }
    }
    pub(super) fn on_stored(&mut self) {
        if core::mem::take(&mut self.store_fails) {
            self.events.push(Event::Note("chunks can be stored again".into()));
        }
    }
}
