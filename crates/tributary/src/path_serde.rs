//! Paths in JSON, for `#[serde(with = …)]`: text where they are UTF-8, else the list of their bytes, as the system allows
//! files of any name.
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => text.serialize(serializer),
        None => path.as_os_str().as_bytes().serialize(serializer),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a path: text, or a list of bytes")]
    enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::Text(text) => text.into(),
        Form::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}
