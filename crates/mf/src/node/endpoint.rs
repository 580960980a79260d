//! The commands and questions of people.
use super::*;
use tributary_transport::Obstacle;
use tributary_transport::bulk::{BulkInput, BulkStep};
use tributary_transport::messaging::GetOptions;
use tributary_trust::{Identity as NetworkIdentity, check_signer};

impl Endpoint for MfNode {
    fn add_face(&mut self, now: Time, face: FaceId, options: FaceOptions) {
        self.attach_face(now, face, options);
        self.unsolicited.remove(face);
        self.settle(now);
    }
    fn remove_face(&mut self, now: Time, face: FaceId) {
        self.detach_face(now, face);
    }
    fn set_identity(&mut self, now: Time, identity: &NetworkIdentity) {
        self.neighbour.require_certificates();
        self.owners.require_certificates();
        self.seals.iter_mut().for_each(Seals::require_certificates);
        self.resolver.set_identity(now, identity);
        self.replica.iter_mut().for_each(|replica| replica.set_identity(identity));
        if let Some(topology) = &mut self.router.topology {
            topology.vouched_only = true;
            match &mut self.signed {
                Some(signed) => signed.set_identity(now, identity.clone()),
                None => self.signed = Some(SignedStates::new(identity.clone(), self.config.routers_max as usize)),
            }
        }
        self.review_routers(now);
    }
    fn handle_grant(&mut self, now: Time, face: FaceId, grant: Option<&Grant>) {
        self.owners.set(face, grant);
        self.neighbour.allow(face, grant.map(|grant| Roles::certified(grant.roles)));
        if grant.is_none() {
            self.signed.iter_mut().for_each(|signed| signed.forget(face));
        }
        self.settle(now);
    }
    fn publish(&mut self, now: Time, object: Box<dyn ObjectReader>) {
        let manifest = object.manifest().clone();
        if let Err(reason) = check_signer(&manifest.name, &manifest.publisher) {
            let name = manifest.name.to_string();
            return self.events.push(Event::Resolver(ResolverEvent::Rejected { name, operation: "publish", reason }));
        }
        let content = Guid::of_content(&manifest.publisher, &manifest.name);
        if let Some(other) = self.content_of(&manifest.name).filter(|other| *other != content) {
            self.resolver.delete(now, other);
        }
        // An answer about an earlier object of this name must not be reported as one about this object.
        self.published.retain(|_, (name, _)| *name != manifest.name);
        self.sender.publish(object);
        self.published.insert(content, (manifest.name.clone(), true));
        let readers = self.readers_of(&manifest.name);
        self.resolver.set_readers(now, content, readers);
        self.resolver.put(now, RecordBody::Content(manifest.encode()));
        self.settle(now);
    }
    fn unpublish(&mut self, now: Time, name: &Name) {
        match self.content_of(name) {
            Some(content) => {
                self.sender.unpublish(name);
                self.published.insert(content, (name.clone(), false));
                self.resolver.delete(now, content);
            }
            None => self.events.push(Event::Resolver(ResolverEvent::Rejected {
                name: name.to_string(),
                operation: "unpublish",
                reason: String::from("it is not published here"),
            })),
        }
        self.settle(now);
    }
    fn fetch(&mut self, now: Time, fetch: Fetch) -> TransferId {
        self.fetch_with(now, fetch, GetOptions::default())
    }
    fn cancel(&mut self, now: Time, transfer: TransferId) {
        self.receiver.cancel(now, transfer);
        self.settle(now);
    }
    fn step_bulk(&mut self, now: Time, transfer: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let step = self.receiver.step_bulk(now, transfer, inputs);
        self.settle(now);
        step
    }
    fn watch(&mut self, now: Time, scope: &Name) {
        self.listings.watch(scope);
        self.resolver.watch(now, Guid::of_name(scope));
        self.events.push(Event::Resolver(ResolverEvent::Subscribed { name: scope.to_string() }));
        self.settle(now);
    }
    fn unwatch(&mut self, now: Time, scope: &Name) {
        self.listings.unwatch(scope);
        if !self.receiver.wants(scope) {
            self.resolver.unwatch(now, Guid::of_name(scope));
        }
        self.events.push(Event::Resolver(ResolverEvent::Unsubscribed { name: scope.to_string() }));
        self.settle(now);
    }
    fn leave(&mut self, now: Time) {
        let names: Vec<Name> = self.sender.published().map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.unpublish(now, name));
        let groups: Vec<Guid> = self.config.groups.keys().map(|label| self.group(label)).collect();
        groups.into_iter().for_each(|group| self.resolver.delete(now, group));
        self.resolver.delete(now, self.guid);
        self.settle(now);
    }
    fn limit(&mut self, now: Time, transfer: Option<TransferId>, rate: Option<Rate>) {
        self.receiver.set_limit(now, transfer, rate);
    }
    fn set_face_policy(&mut self, now: Time, face: FaceId, policy: FacePolicy) {
        self.policies.insert(face, policy);
        // A router is known by its own address, whatever its faces.
        if !self.config.router {
            self.on_attachment(now, false);
        }
    }
    fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        self.receiver.report(now, transfer)
    }
    fn transfers(&self) -> Vec<(TransferId, Name)> {
        self.receiver.transfers()
    }
    fn publishes(&self, name: &Name) -> bool {
        self.sender.by_name(name).is_some()
    }
    fn published_count(&self) -> usize {
        self.sender.published().len()
    }
    fn published(&self) -> Vec<(Name, tributary_core::ByteCount)> {
        self.sender.published().map(|(name, bytes)| (name.clone(), bytes)).collect()
    }
    fn status(&self, now: Time) -> NodeStatus {
        self.status_at(now)
    }
    fn obstacle(&self, _now: Time, name: &Name) -> Option<Obstacle> {
        self.obstacle_of(name)
    }
    fn messaging(&mut self) -> Option<&mut dyn tributary_transport::Messaging> {
        Some(self)
    }
}

impl MfNode {
    /// The GUID of the content published here under a name.
    pub(super) fn content_of(&self, name: &Name) -> Option<Guid> {
        let object = self.sender.object(&self.sender.by_name(name)?)?;
        Some(Guid::of_content(&object.manifest().publisher, name))
    }
}
