//! Resolution of a path to an object, or to a part of a folder under a shorter name.
use std::sync::mpsc::{Receiver, sync_channel};

use tributary_content::{Name, PublicKey};
use tributary_core::Duration;

use crate::{
    error::{ApiError, ErrorKind},
    families::Resolution,
    node::{
        LocalNode,
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

/// Whom to believe about the folders above a name.
#[derive(Clone, Copy)]
pub(super) enum Keys {
    /// The name of each folder decides which publisher is accepted.
    Any,
    /// The key that the fetch is pinned to.
    Pinned(PublicKey),
    /// The key that is remembered for the name: another publisher's folder must not replace it.
    Remembered(PublicKey),
}
impl Keys {
    /// The only accepted publisher, if there is one.
    pub(super) fn only(self) -> Option<PublicKey> {
        match self {
            Keys::Any => None,
            Keys::Pinned(key) | Keys::Remembered(key) => Some(key),
        }
    }
}

impl LocalNode {
    /// Finds the name of the object or folder at `path`, and passes it to `answer`. It looks up no name with fewer than
    /// `shortest` components.
    pub(crate) fn resolve(
        &self,
        path: &Name,
        shortest: usize,
        patience: Duration,
        answer: impl FnOnce(Result<Name, ApiError>) + Send + 'static,
    ) -> Result<(), ApiError> {
        let keys = self.keys_above(None, path)?;
        let (of, own) =
            (path.clone(), Level { name: path.clone(), only: None, questions: self.files.questions(None)? });
        let levels =
            std::iter::once(Ok(own)).chain(self.levels_above(path, shortest, keys)).collect::<Result<_, _>>()?;
        let answer = Box::new(move |outcome| answer(named(&of, outcome)));
        self.look_up(path, levels, patience, answer)
    }
    /// Begins to look for the folder above `path` that has it.
    pub(super) fn look_above(&self, path: &Name, keys: Keys) -> Result<Receiver<Outcome>, ApiError> {
        let levels = self.levels_above(path, 1, keys).collect::<Result<_, _>>()?;
        let (answer, found) = sync_channel(1);
        let answer = Box::new(move |outcome| _ = answer.send(outcome));
        self.look_up(path, levels, self.config().fetch.patience, answer)?;
        Ok(found)
    }
    /// The publishers to accept for the folders above `name`, if the fetch pins `publisher`.
    pub(super) fn keys_above(&self, publisher: Option<PublicKey>, name: &Name) -> Result<Keys, ApiError> {
        Ok(match publisher {
            Some(key) => Keys::Pinned(key),
            None => self.files.known_key(name)?.map_or(Keys::Any, Keys::Remembered),
        })
    }
    fn levels_above(&self, path: &Name, shortest: usize, keys: Keys) -> impl Iterator<Item = Result<Level, ApiError>> {
        let level = move |len| {
            let (name, only) = (path.prefix(len), keys.only());
            if let Keys::Remembered(key) = keys
                && self.files.known_key(&name)?.is_some_and(|known| known != key)
            {
                // Only a person may put another key in place of the folder's own.
                return Ok(None);
            }
            Ok(Some(Level { name, only, questions: self.files.questions(only)? }))
        };
        (shortest.max(1)..path.len()).rev().take(LEVELS_MAX).map(level).filter_map(Result::transpose)
    }
    fn look_up(&self, path: &Name, levels: Vec<Level>, patience: Duration, answer: Answer) -> Result<(), ApiError> {
        let (lookups, config, path) = (self.lookups(), self.config().fetch.clone(), path.clone());
        let (asked, lookups_max) = (self.config().family().profile().resolution, self.config().limits.lookups);
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
pub(super) fn place_in(path: &Name, outcome: Outcome) -> Option<(Name, String)> {
    let Outcome::Found(folder) = outcome else { return None };
    let parts: Option<Vec<&str>> =
        path.components().skip(folder.len()).map(|part| std::str::from_utf8(part).ok()).collect();
    Some((folder, parts?.join("/")))
}
/// The name that a path means, or the reason why it means none.
fn named(path: &Name, outcome: Outcome) -> Result<Name, ApiError> {
    let error = |kind, message| Err(ApiError::new(kind, message));
    match outcome {
        Outcome::Found(name) => Ok(name),
        Outcome::Nothing(reason) => error(ErrorKind::NotFound, format!("'{path}' has no publisher: {reason}")),
        Outcome::Refused(reason) => error(ErrorKind::NotFound, format!("cannot fetch '{path}': {reason}")),
        Outcome::Full(max) => {
            error(ErrorKind::Usage, format!("cannot look up '{path}': this node looks up {max} names already"))
        }
    }
}
