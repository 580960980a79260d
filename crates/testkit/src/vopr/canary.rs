//! Bugs of the harness itself, switched on to show that its checkers can fail.
use std::{fmt, str::FromStr};

/// A bug that the checkers must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Receivers' stores keep a wrong byte.
    BadByte,
    /// Packets vanish between a node and its link, without being counted.
    Vanish,
    /// A completed transfer is reported twice.
    EndTwice,
    /// Receivers no longer hear anything once all faults have ended.
    Deaf,
    /// A node chatters although it has nothing to do.
    Chatter,
    /// Two runs of one seed differ.
    Moody,
    /// Stores forget chunks that the next hop has in memory, as they may be configured to.
    Forgetful,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 7] = [
        Canary::BadByte,
        Canary::Vanish,
        Canary::EndTwice,
        Canary::Deaf,
        Canary::Chatter,
        Canary::Moody,
        Canary::Forgetful,
    ];
}
impl fmt::Display for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
impl FromStr for Canary {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Canary::ALL.into_iter().find(|canary| canary.to_string() == text).ok_or_else(|| format!("no canary '{text}'"))
    }
}
