//! Publishing and withdrawing.
use std::{collections::BTreeSet, path::Path};
use tributary_content::{Manifest, MemoryObject, Name, ObjectReader, PublicKey, Reference};
use tributary_core::{Duration, Time};
use tributary_net::{
    Clock,
    disk::{self, LeftOut},
};
use tributary_transport::ObstacleKind;
use tributary_trust::{Access, Grant, check_signer, key_prefix, owner_of};

use super::{diagnosis, wait_until};
use crate::{
    api::Notify,
    config::Role,
    error::{ApiError, ErrorKind},
    fault::CorruptObject,
    node::{LocalNode, event_bus::Resolution, publications::Publication},
    notice::Notice,
    request::Term,
};

/// A publication: its content, name, duration, and readers.
pub(crate) struct Put<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) version: Option<u64>,
    pub(crate) term: Term,
    /// As they were written; empty means everybody.
    pub(crate) readers: Vec<String>,
    /// URLs of web servers that have it too.
    pub(crate) mirrors: Vec<String>,
}

impl LocalNode {
    /// Publishes the entries of the config and of earlier runs. An earlier publication that fails becomes a note; a
    /// publication of the config that fails is an error.
    ///
    /// # Errors
    /// [`ApiError`] names the entry of the config.
    pub(crate) fn publish_all(&self) -> Result<Vec<Notice>, ApiError> {
        let (mut notices, grant) = (Vec::new(), self.closed_grant()?);
        let configured = &self.config.publish;
        configured.iter().try_for_each(|entry| Self::must_own(grant.as_ref(), &entry.name))?;
        for entries in configured.chunks(OPENED_TOGETHER) {
            let opened = open_together(entries, |entry| {
                self.open_object(&entry.path, entry.name.clone(), entry.version, (&entry.readers, &entry.mirrors))
            });
            let (objects, left_out): (Vec<_>, Vec<_>) =
                opened.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
            notices.extend(left_out.into_iter().flatten());
            notices.extend(self.offer_all(objects)?);
        }
        let configured: BTreeSet<&Name> = configured.iter().map(|entry| &entry.name).collect();
        let remembered = self.publications.list().into_iter().filter(|of| !configured.contains(&of.name));
        for publications in remembered.collect::<Vec<_>>().chunks(OPENED_TOGETHER) {
            let opened = open_together(publications, |publication| match publication.copy {
                Some(_) => self.open_copy(&publication.path).map(|opened| (opened, None)),
                None => self.readers(&publication.readers).and_then(|readers| {
                    let of = (&readers[..], &publication.mirrors[..]);
                    self.open_object(&publication.path, publication.name.clone(), publication.version, of)
                }),
            });
            let mut objects = Vec::new();
            for (publication, opened) in publications.iter().zip(opened) {
                match opened {
                    // A client may have removed it meanwhile, or published something else under the name.
                    Ok(_) if self.publications.get(&publication.name).as_ref() != Some(publication) => {}
                    Ok((opened, left_out)) => {
                        objects.push(opened);
                        notices.extend(left_out);
                    }
                    Err(error) => {
                        let note = format!("'{}' is no longer published: {}", publication.name, error.message);
                        tracing::warn!("{note}");
                        self.runtime.events.note(&note);
                    }
                }
            }
            notices.extend(self.offer_all(objects)?);
        }
        self.withdraw_old_copies()?;
        Ok(notices)
    }
    /// What the node may publish in a closed network; `None` where others do not refuse names.
    pub(super) fn closed_grant(&self) -> Result<Option<Grant>, ApiError> {
        let network = self.runtime.call(|node, now| node.status(now).network)?;
        Ok(network.filter(|network| network.access == Access::Closed).and_then(|network| network.grant.ok()))
    }
    /// Refuses a name that the node's certificate does not cover, where the network would refuse it later.
    pub(super) fn must_own(grant: Option<&Grant>, name: &Name) -> Result<(), ApiError> {
        let Some(grant) = grant.filter(|grant| !grant.owns(name) && owner_of(name).is_none()) else { return Ok(()) };
        let owned: Vec<String> = grant.prefixes.iter().map(|prefix| format!("'{prefix}'")).collect();
        let owned = if owned.is_empty() { "no names".into() } else { owned.join(", ") };
        let message = format!("cannot publish '{name}': the certificate of this node covers {owned}");
        Err(ApiError::new(ErrorKind::Rejected, message).with_hint(format!(
            "choose a name below these, or have the authority renew the certificate: `trib network admit {} --names …`",
            grant.key
        )))
    }
    /// Refuses one publication more than the node may have.
    pub(super) fn must_have_room(&self, name: &Name) -> Result<(), ApiError> {
        let room = self.config.limits.publications;
        let of = name.clone();
        if self.runtime.call(move |node, _| node.published_count() < room || node.publishes(&of))? {
            return Ok(());
        }
        let message = format!("cannot publish '{name}': this node publishes {room} objects already");
        Err(ApiError::usage(message).with_hint("raise 'publications' in [limits]"))
    }
    pub(crate) fn put(
        &self,
        Put { path, name, version, term, readers, mirrors }: Put<'_>,
        patience: Duration,
        notify: Notify<'_>,
    ) -> Result<(), ApiError> {
        self.must_play(Role::Sender, "publish")?;
        let name = self.published_name(name)?;
        if name.is_empty() {
            return Err(ApiError::usage("cannot publish under '/': a name has at least one component"));
        }
        Self::must_own(self.closed_grant()?.as_ref(), &name)?;
        let path = crate::preflight::absolute(path)?;
        let uri = name.to_string();
        self.must_have_room(&name)?;
        let keys = self.readers(&readers)?;
        // Before anything is hashed.
        Manifest::check_mirrors(&name, &mirrors)
            .map_err(|error| ApiError::usage(format!("cannot publish '{uri}': {error}")))?;
        let (publication, left_out) = self.open_object(&path, name.clone(), version, (&keys, &mirrors))?;
        if let Some(left_out) = left_out {
            notify(left_out);
        }
        // Steps that may fail come first: a published object is published again after a restart.
        let is_watched = term == Term::Watched;
        if is_watched && version.is_some() {
            let message = "a publication that follows its file gives each change a new version";
            return Err(ApiError::usage(message).with_hint("leave out --object-version or --watch"));
        }
        if term != Term::ThisRun {
            let name = name.clone();
            self.publications.remember(Publication {
                name,
                path,
                version,
                readers,
                mirrors,
                copy: None,
                is_watched,
            })?;
        }
        self.runtime.events.forget(&uri);
        let subscription = self.runtime.events.subscribe();
        let mut notice = self.offer(publication)?;
        let clock = Clock::new();
        let outcome = wait_until(&subscription, patience, || self.runtime.events.resolution(&uri));
        if outcome.is_some() {
            self.note_latency("publish", clock.now().since(Time::ZERO));
        }
        if let Some(Resolution::Rejected(reason)) = &outcome {
            // A publication that the node has abandoned is forgotten; otherwise the node keeps trying.
            let of = name.clone();
            if !self.runtime.call(move |node, _| node.publishes(&of))? {
                if term != Term::ThisRun {
                    self.publications.forget(&name)?;
                }
                self.originals.lock().remove(&uri);
                self.withdraw_keys(&name)?;
            }
            let message = format!("cannot publish '{uri}': the resolver refused: {reason}");
            return Err(ApiError::new(ErrorKind::Rejected, message));
        }
        if let Notice::Published { confirmed, .. } = &mut notice {
            *confirmed = outcome == Some(Resolution::Confirmed);
        }
        // A caller that does not wait needs no diagnosis, which builds the status of all faces.
        if outcome.is_none() && !patience.is_zero() {
            let of = name.clone();
            let obstacle = self.runtime.call(move |node, now| node.obstacle(now, &of))?;
            let obstacle = obstacle.filter(|obstacle| obstacle.kind != ObstacleKind::NoSuchName);
            if let Some(why) = diagnosis::diagnose(self, &uri, obstacle.as_ref()) {
                notify(Notice::Note { text: format!("'{uri}' cannot be confirmed yet: {}", why.message) });
            }
        }
        notify(notice);
        Ok(())
    }
    /// Publishes a changed file again, and returns its version: later than the previous one, regardless of the file's
    /// time.
    pub(crate) fn publish_anew(&self, publication: &Publication) -> Result<u64, ApiError> {
        let name = &publication.name;
        let readers = self.readers(&publication.readers)?;
        let of = (&readers[..], &publication.mirrors[..]);
        let open = |version| self.open_object(&publication.path, name.clone(), version, of);
        let before = self.versions.lock().get(&name.to_string()).copied();
        let (mut opened, _) = open(None)?;
        let version = opened.publication.object.manifest().version;
        if let Some(before) = before.filter(|before| version <= *before) {
            (opened, _) = open(Some(before + 1))?;
        }
        let version = opened.publication.object.manifest().version;
        // Hashing takes long, and another command may have withdrawn it or given it other readers.
        if self.publications.get(name).as_ref() != Some(publication) {
            return Err(ApiError::new(ErrorKind::Cancelled, "it was meanwhile removed or published differently"));
        }
        self.offer(opened)?;
        Ok(version)
    }
    pub(crate) fn remove(&self, name: &str) -> Result<Notice, ApiError> {
        let name = self.published_name(name)?;
        let uri = name.to_string();
        let of = name.clone();
        let is_published = self.runtime.call(move |node, _| node.publishes(&of))?;
        let was_remembered = self.publications.forget(&name)?;
        if !was_remembered && !is_published {
            let message = format!("cannot remove '{uri}': this node does not publish it");
            let hint = "`trib status` lists what it publishes; ask the node that has it";
            return Err(ApiError::new(ErrorKind::NotFound, message).with_hint(hint));
        }
        self.withdraw(&name)?;
        Ok(Notice::Unpublished { name: uri })
    }
    pub(crate) fn withdraw(&self, name: &Name) -> Result<(), ApiError> {
        let (uri, of) = (name.to_string(), name.clone());
        self.runtime.call(move |node, now| node.unpublish(now, &of))?;
        self.runtime.events.forget(&uri);
        self.originals.lock().remove(&uri);
        self.withdraw_keys(name)
    }
    /// Withdraws the list of keys of the sealed object of this name, if there is one.
    fn withdraw_keys(&self, name: &Name) -> Result<(), ApiError> {
        let Some(list) = self.key_lists.lock().remove(name) else { return Ok(()) };
        self.runtime.events.forget(&list.to_string());
        self.runtime.call(move |node, now| node.unpublish(now, &list))
    }
    /// The keys of readers that are named by keys and by labels of groups.
    ///
    /// # Errors
    /// [`ApiError`] names the text that is neither.
    pub(crate) fn readers(&self, named: &[String]) -> Result<Vec<PublicKey>, ApiError> {
        let config = self.current.lock();
        let mut readers = Vec::new();
        for named in named {
            match (named.parse::<PublicKey>(), config.key_groups.get(named)) {
                (Ok(key), _) => readers.push(key),
                (Err(_), Some(group)) => readers.extend(group),
                (Err(error), None) if named.starts_with("ed25519:") => {
                    return Err(ApiError::usage(format!("'{named}' is no reader's key: {error}")));
                }
                (Err(_), None) => {
                    let message =
                        format!("'{named}' is neither a reader's key nor a [[key_group]] of the node's config");
                    let hint = "`trib key show` prints the key of a reader, where the reader is";
                    return Err(ApiError::usage(message).with_hint(hint));
                }
            }
        }
        Ok(readers)
    }
    /// Opens a file or folder as an object, sealed for `readers` if there are any, or with `mirrors` that have it too;
    /// returns a note about omitted parts.
    pub(crate) fn open_object(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
        (readers, mirrors): (&[PublicKey], &[String]),
    ) -> Result<(Opened, Option<Notice>), ApiError> {
        let own = self.key.public();
        check_signer(&name, &own).map_err(|reason| {
            let hint = format!("names below {} are of this node's key", key_prefix(&own));
            ApiError::new(ErrorKind::Rejected, format!("cannot publish: {reason}")).with_hint(hint)
        })?;
        let (mut publication, keys) = match readers {
            [] => (self.files.publish(path, name, version, mirrors, &self.key)?, None),
            _ if !mirrors.is_empty() => {
                let message = format!("'{name}' cannot have web mirrors: objects sealed for readers have none");
                return Err(ApiError::usage(message));
            }
            readers => {
                let sealed = self.files.publish_sealed(path, name, version, &self.key, readers)?;
                (sealed.publication, Some(sealed.keys))
            }
        };
        let note = left_out_note(path, &publication.left_out).map(|text| {
            tracing::warn!("{text}");
            self.runtime.events.note(&text);
            Notice::Note { text }
        });
        let share = self.config.faults.corrupt_chunks;
        if share > 0.0 {
            publication.object = Box::new(CorruptObject::new(publication.object, share, self.seed));
        }
        Ok((Opened { publication, keys }, note))
    }
    pub(crate) fn offer(&self, opened: Opened) -> Result<Notice, ApiError> {
        Ok(self.offer_all(vec![opened])?.remove(0))
    }
    /// Offers objects, and returns a notice of each.
    fn offer_all(&self, opened: Vec<Opened>) -> Result<Vec<Notice>, ApiError> {
        let (mut notices, mut objects) = (Vec::new(), Vec::<Box<dyn ObjectReader>>::new());
        for Opened { publication, keys } in opened {
            let disk::Publication { object, original, .. } = publication;
            let manifest = object.manifest();
            self.originals.lock().insert(manifest.name.to_string(), original);
            self.versions.lock().insert(manifest.name.to_string(), manifest.version);
            let reference = Reference { publisher: Some(manifest.publisher), ..Reference::from(manifest.name.clone()) };
            notices.push(Notice::Published {
                name: manifest.name.to_string(),
                bytes: manifest.size,
                version: manifest.version,
                publisher: manifest.publisher.to_string(),
                reference: reference.to_string(),
                confirmed: false,
            });
            let (name, list) = (manifest.name.clone(), keys.as_ref().map(|keys| keys.manifest().name.clone()));
            // Of an earlier version, which is no longer published.
            if self.key_lists.lock().get(&name).is_some_and(|known| Some(known) != list.as_ref()) {
                self.withdraw_keys(&name)?;
            }
            if let (Some(keys), Some(list)) = (keys, list) {
                // First: a receiver that finds the object looks for its keys at once.
                objects.push(Box::new(keys));
                self.key_lists.lock().insert(name, list);
            }
            objects.push(object);
        }
        self.runtime.call(move |node, now| objects.into_iter().for_each(|object| node.publish(now, object)))?;
        Ok(notices)
    }
}

/// Objects that a start opens and offers at a time: enough to keep the processors busy, and few enough that the first
/// ones are served at once.
const OPENED_TOGETHER: usize = 64;
/// Threads that open them.
const OPENERS_MAX: usize = 4;

/// The results of `open` for each of `items`, on several threads: files are read, and hashed if they have changed.
fn open_together<'a, T: Sync, R: Send>(items: &'a [T], open: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(OPENERS_MAX);
    let share = items.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let open = &open;
        let opening = |items: &'a [T]| scope.spawn(move || items.iter().map(open).collect::<Vec<R>>());
        let threads: Vec<_> = items.chunks(share).map(opening).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("opening does not panic")).collect()
    })
}

/// An object that can be offered.
pub(crate) struct Opened {
    pub(crate) publication: disk::Publication,
    /// The list of its keys, if it is sealed.
    pub(crate) keys: Option<MemoryObject>,
}

/// The note about the omitted parts of a folder; `None` if nothing is.
fn left_out_note(path: &Path, left_out: &[LeftOut]) -> Option<String> {
    let of = |left_out: &LeftOut| format!("'{}' ({})", left_out.path, left_out.reason);
    let some: Vec<String> = left_out.iter().take(LEFT_OUT_LISTED).map(of).collect();
    let more = match left_out.len().saturating_sub(LEFT_OUT_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!some.is_empty()).then(|| format!("left out of '{}': {}{more}", path.display(), some.join(", ")))
}
/// How many entries that are left out of a folder its note lists.
const LEFT_OUT_LISTED: usize = 10;
