//! How the nodes of a plan are set up.
use std::{fmt, str::FromStr};

/// What plans are drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Half of the plans, or more, have the default settings of `trib node`; the others deviate from these. All kinds
    /// of fault, and absent devices.
    #[default]
    Product,
    /// Every plan has different settings. The meaning of seeds before [`Profile::Product`]: kept so that their former
    /// findings are still covered.
    Laboratory,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
impl FromStr for Profile {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Profile::Product, Profile::Laboratory];
        let found = all.into_iter().find(|profile| profile.to_string() == text);
        found.ok_or_else(|| format!("there is no profile '{text}', but product and laboratory"))
    }
}
