//! Resolution of a path to an object, or to a part of a folder under a shorter name.
use std::sync::{
    Arc,
    mpsc::{Receiver, sync_channel},
};

use tributary_content::{Name, PublicKey, Reference};
use tributary_core::Duration;

use crate::{
    error::{ApiError, ErrorKind},
    families::Resolution,
    node::{
        LocalNode,
        files::known,
        lookups::{Answer, Level, Outcome},
    },
};

/// Limit of looked-up names above a path.
const LEVELS_MAX: usize = 8;
/// Patience with a lookup in a family without resolvers: a publisher may drop requests for names that it lacks.
const SILENCE_MAX: Duration = Duration::from_millis(900);
/// Each open lookup adds this to that patience: answers queue behind those of the others.
const SILENCE_EACH: Duration = Duration::from_millis(5);
/// Links up to this rate get the whole patience, since an answer takes seconds on them.
const SLOW_BITS_PER_SECOND: u64 = 256_000;

impl LocalNode {
    /// The only publisher that is believed for a name; `None` believes the first one.
    pub(crate) fn believed(&self, reference: &Reference) -> Result<Option<PublicKey>, ApiError> {
        let trust = self.files.trust(reference.publisher, reference.object);
        Ok(trust.key(&reference.name)?.map(|(key, _)| key))
    }
    /// Finds the object or folder at the path of `reference`, and passes its name, with the only publisher to believe about
    /// it, to `answer`. It looks up no name with fewer than `shortest` components.
    pub(crate) fn resolve(
        &self,
        reference: &Reference,
        shortest: usize,
        patience: Duration,
        answer: impl FnOnce(Result<Reference, ApiError>) + Send + 'static,
    ) -> Result<(), ApiError> {
        let path = reference.name.clone();
        let own = self.files.trust(reference.publisher, reference.object);
        let own = Level { reference: reference.clone(), trust: known(&own)? };
        let levels = std::iter::once(own).chain(self.levels_above(reference, shortest)?).collect();
        let answer = Box::new(move |outcome| answer(named(&path, outcome)));
        self.look_up(&reference.name, levels, patience, answer)
    }
    /// Begins to look for the folder above the path of `reference` that has it.
    pub(super) fn look_above(&self, reference: &Reference) -> Result<Receiver<Outcome>, ApiError> {
        let levels = self.levels_above(reference, 1)?;
        let (answer, found) = sync_channel(1);
        let answer = Box::new(move |outcome| _ = answer.send(outcome));
        self.look_up(&reference.name, levels, self.config.fetch.patience, answer)?;
        Ok(found)
    }
    /// The names above a path, the longest first. Another publisher's folder must not replace a path whose key is known,
    /// and only a person may put that key in place of a folder's own.
    fn levels_above(&self, reference: &Reference, shortest: usize) -> Result<Vec<Level>, ApiError> {
        let Reference { name: path, publisher: pinned, object } = reference;
        let trust = known(&self.files.trust(*pinned, *object))?;
        let only = trust.key(path)?.map(|(key, _)| key);
        let mut levels = Vec::new();
        for name in (shortest.max(1)..path.len()).rev().take(LEVELS_MAX).map(|len| path.prefix(len)) {
            let own = trust.pinning(None, None).key(&name)?;
            let own = own.map(|(key, _)| key);
            if pinned.is_some() || only.is_none() || own.is_none() || own == only {
                // A key that decides about the folder anyway needs no pin.
                let publisher = only.filter(|_| pinned.is_some() || own != only);
                let reference = Reference { name, publisher, object: *object };
                levels.push(Level { reference, trust: trust.pinning(publisher, *object) });
            }
        }
        Ok(levels)
    }
    fn look_up(&self, path: &Name, levels: Vec<Level>, patience: Duration, answer: Answer) -> Result<(), ApiError> {
        let (lookups, config, path) = (Arc::clone(&self.runtime.lookups), self.config.fetch.clone(), path.clone());
        let (asked, lookups_max) = (self.config.family().profile().resolution, self.config.limits.lookups);
        self.runtime.post(move |node, now| {
            let is_slow = || {
                let faces = node.status(now).faces;
                faces.iter().filter_map(|face| face.rate).any(|rate| rate.bits_per_second() <= SLOW_BITS_PER_SECOND)
            };
            let patience = match asked {
                Resolution::Routes if !is_slow() => patience.min(SILENCE_MAX + SILENCE_EACH * lookups.open()),
                _ => patience,
            };
            lookups.begin((node, now), (path, levels), (&config, lookups_max, patience), answer);
        })
    }
}

/// The folder that was found above a path, and the path in it.
pub(super) fn place_in(path: &Name, outcome: Outcome) -> Option<(Reference, String)> {
    let Outcome::Found(folder) = outcome else { return None };
    let parts: Option<Vec<&str>> =
        path.components().skip(folder.name.len()).map(|part| std::str::from_utf8(part).ok()).collect();
    Some((folder, parts?.join("/")))
}
/// What a path means, or the reason why it means none.
fn named(path: &Name, outcome: Outcome) -> Result<Reference, ApiError> {
    let error = |kind, message| Err(ApiError::new(kind, message));
    match outcome {
        Outcome::Found(reference) => Ok(reference),
        Outcome::Nothing(reason) => error(ErrorKind::NotFound, format!("'{path}' has no publisher: {reason}")),
        Outcome::Refused(reason) => error(ErrorKind::NotFound, format!("cannot fetch '{path}': {reason}")),
        Outcome::Full(max) => {
            error(ErrorKind::Usage, format!("cannot look up '{path}': this node looks up {max} names already"))
        }
    }
}
