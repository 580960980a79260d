//! Files in the state folder that outlive a restart: settings from commands, publications, the queue.
use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use tributary_mf::ids::Guid;
use tributary_net::disk::fs::{self, FileSystem};

use crate::error::{ApiError, ErrorKind};

/// Such a file, in JSON.
pub(crate) struct StateFile<'a> {
    fs: &'a dyn FileSystem,
    path: PathBuf,
    /// What to do if it cannot be read.
    hint: &'static str,
}

impl StateFile<'_> {
    pub(crate) fn new<'a>(fs: &'a dyn FileSystem, state_dir: &Path, name: &str, hint: &'static str) -> StateFile<'a> {
        StateFile { fs, path: state_dir.join(name), hint }
    }
    /// Its content; the default if the file does not exist.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        Ok(self.read_if_there()?.unwrap_or_default())
    }
    /// Its content; `None` if the file does not exist.
    pub(crate) fn read_if_there<T: DeserializeOwned>(&self) -> Result<Option<T>, ApiError> {
        let Some(bytes) = self.bytes()? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| self.unreadable(&error.to_string()))
    }
    /// Its bytes; `None` if the file does not exist.
    pub(crate) fn bytes(&self) -> Result<Option<Vec<u8>>, ApiError> {
        match fs::read(self.fs, &self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ApiError::io("read", self.path.display(), &error).with_hint(self.hint)),
        }
    }
    /// Replaces its content, and waits for the disk.
    pub(crate) fn write(&self, value: &impl Serialize) -> Result<(), ApiError> {
        let bytes = serde_json::to_vec_pretty(value).expect("texts can always be written");
        let folder = self.path.parent().map_or(Ok(()), |folder| fs::create_folders(self.fs, folder));
        let written = folder.and_then(|()| fs::replace(self.fs, &self.path, &[&bytes]));
        written.map_err(|error| ApiError::io("write", self.path.display(), &error))
    }
    pub(crate) fn unreadable(&self, reason: &str) -> ApiError {
        let message = format!("cannot read '{}': {reason}", self.path.display());
        ApiError::new(ErrorKind::Io, message).with_hint(self.hint)
    }
    pub(crate) fn guids<C: FromIterator<Guid>>(&self, texts: &[String]) -> Result<C, ApiError> {
        let guid = |text: &String| text.parse().map_err(|()| self.unreadable(&format!("'{text}' is no GUID")));
        texts.iter().map(guid).collect()
    }
}
