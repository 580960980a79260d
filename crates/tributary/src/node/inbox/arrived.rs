//! Objects that are being received, and received ones that were not reported yet.
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_content::{Manifest, Name, StoreError};

/// Objects in reception. Several versions of one name may arrive at the same time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Arrived(Arc<Mutex<Coming>>);

#[derive(Default, Debug)]
struct Coming {
    /// Incomplete objects.
    begun: Vec<Manifest>,
    /// Complete objects with their final names, not reported yet.
    complete: Vec<(Manifest, PathBuf)>,
    /// The latest refusals: the name, the reason, and whether it was reported.
    refused: VecDeque<(Name, String, bool)>,
    /// How many more may start; `None` is no limit.
    left: Option<u64>,
}

impl Arrived {
    /// Takes at most `most` objects; `None` is no limit.
    pub(crate) fn new(most: Option<u64>) -> Arrived {
        Arrived(Arc::new(Mutex::new(Coming { left: most, ..Coming::default() })))
    }
    /// Begins an object if one more is wanted; otherwise its custodian keeps it.
    pub(super) fn begin(&self, manifest: &Manifest) -> Result<(), StoreError> {
        let mut coming = self.0.lock();
        match &mut coming.left {
            Some(0) => {
                let name = &manifest.name;
                let reason =
                    format!("'{name}' is refused for now: the requested number of objects is already arriving");
                return Err(StoreError::Later { reason });
            }
            Some(left) => *left -= 1,
            None => {}
        }
        coming.begun.push(manifest.clone());
        Ok(())
    }
    /// The object was received before: another one may start in its place.
    pub(super) fn give_back(&self, manifest: &Manifest) {
        let mut coming = self.0.lock();
        if let Some(at) = coming.begun.iter().position(|begun| begun == manifest) {
            coming.begun.remove(at);
            coming.left.iter_mut().for_each(|left| *left += 1);
        }
    }
    pub(crate) fn finish(&self, manifest: &Manifest, path: &Path) {
        let mut coming = self.0.lock();
        if let Some(at) = coming.begun.iter().position(|begun| begun == manifest) {
            coming.begun.remove(at);
        }
        coming.complete.push((manifest.clone(), path.into()));
    }
    /// A complete object of that name; each is returned once.
    pub(crate) fn take_complete(&self, name: &Name) -> Option<(Manifest, PathBuf)> {
        let mut coming = self.0.lock();
        let at = coming.complete.iter().position(|(manifest, _)| manifest.name == *name)?;
        Some(coming.complete.remove(at))
    }
    /// An object that an earlier run had received and that got its name only now.
    pub(crate) fn take_left(&self) -> Option<(Manifest, PathBuf)> {
        let mut coming = self.0.lock();
        if coming.complete.is_empty() { None } else { Some(coming.complete.remove(0)) }
    }
    /// Forgets an object of that name that will not be completed; false without one.
    pub(crate) fn give_up(&self, name: &Name) -> bool {
        let mut coming = self.0.lock();
        let at = coming.begun.iter().position(|begun| begun.name == *name);
        let gone = at.map(|at| coming.begun.remove(at)).is_some();
        if gone {
            coming.left.iter_mut().for_each(|left| *left += 1);
        }
        gone
    }
    pub(super) fn refuse(&self, name: &Name, reason: String) {
        let mut coming = self.0.lock();
        // A sender that repeats the same object gets one notice.
        if !coming.refused.iter().any(|(of, why, _)| of == name && *why == reason) {
            coming.refused.push_back((name.clone(), reason, false));
            if coming.refused.len() > REFUSED_MAX {
                coming.refused.pop_front();
            }
        }
    }
    /// A refusal that was not reported yet.
    pub(crate) fn take_refused(&self) -> Option<(Name, String)> {
        let mut coming = self.0.lock();
        let (name, reason, is_reported) = coming.refused.iter_mut().find(|(.., is_reported)| !is_reported)?;
        *is_reported = true;
        Some((name.clone(), reason.clone()))
    }
}

/// Refusals remembered, so that each is reported once.
const REFUSED_MAX: usize = 64;
