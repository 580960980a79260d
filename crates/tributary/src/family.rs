//! The families by their names. [`families`](crate::families) holds their behaviour.
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An information-centric architecture together with its transport.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Family {
    /// Publish-Subscribe Internetworking with mmFTP.
    #[default]
    Psi,
    /// Named Data Networking with PTP.
    Ndn,
    /// MobilityFirst with MFTP.
    Mf,
}

impl Family {
    /// All families with the words of the config and of `--family`.
    pub const ALL: [(&'static str, Family); 3] = [("psi", Family::Psi), ("ndn", Family::Ndn), ("mf", Family::Mf)];

    /// The word of the config.
    pub fn word(self) -> &'static str {
        let (word, _) = Family::ALL.iter().find(|(_, family)| *family == self).expect("ALL lists every family");
        word
    }
    /// Every family.
    pub fn all() -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().map(|(_, family)| family)
    }
}
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no family.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{word}' is no family that this program has; it has {}", Family::ALL.map(|(word, _)| word).join(", "))]
pub struct UnknownFamily {
    /// The word.
    pub word: String,
}
impl FromStr for Family {
    type Err = UnknownFamily;
    fn from_str(text: &str) -> Result<Self, UnknownFamily> {
        let found = Family::ALL.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, family)| family).ok_or_else(|| UnknownFamily { word: text.into() })
    }
}
