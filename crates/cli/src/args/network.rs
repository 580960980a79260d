//! Flags of `trib network`.
use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use std::path::PathBuf;
use tributary_content::Name;
use tributary_trust::Roles;

/// Commands of an authority.
#[derive(Subcommand, Debug)]
pub(crate) enum Network {
    /// Create a network's authority and print its public key, for [network] in the nodes' configs
    ///
    /// The folder's secret key grants all rights. Nodes do not need it: keep the folder off them, with a backup.
    New {
        /// The folder, which must not hold an authority
        #[arg(value_name = "DIR", default_value = "network")]
        folder: PathBuf,
    },
    /// Give a node a certificate with its roles, names and expiry
    ///
    /// The certificate goes to the authority's folder and, if NODE is a config or state folder, to the node's place for
    /// it. A running node loads it on SIGHUP. Admitting a node again renews or changes its certificate; the earlier one
    /// stays valid until it expires or is revoked.
    Admit(Admit),
    /// Revoke certificates
    ///
    /// Writes the list of revocations for all nodes: a running node loads it on SIGHUP and ends revoked sessions.
    Revoke(Revoke),
    /// Show the authority's key and certificates
    Show {
        #[command(flatten)]
        of: OfNetwork,
    },
}

/// Which network.
#[derive(Args, Debug)]
pub(crate) struct OfNetwork {
    /// The authority's folder
    #[arg(long = "network", value_name = "DIR", default_value = "network")]
    pub(crate) folder: PathBuf,
}

/// Admits.
#[derive(Args, Debug)]
pub(crate) struct Admit {
    /// The node: its public key, as `trib key show` and `trib status` print it, its config, its state folder, or its key
    /// file
    pub(crate) node: String,
    /// Its label [default: the one in its config]
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// A role; may be repeated [default: the roles of its config, else none: a host]
    #[arg(long = "role", value_name = "ROLE", value_parser = role())]
    pub(crate) roles: Vec<Roles>,
    /// A prefix that it owns, to publish, attach and register below it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) names: Vec<Name>,
    /// Validity, such as 90d or 12h
    #[arg(long = "for", value_name = "TIME", default_value = "90d", value_parser = parse_seconds)]
    pub(crate) seconds: u64,
    #[command(flatten)]
    pub(crate) of: OfNetwork,
}

/// Revokes.
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// A node's key or label, for all its certificates, or the serial number of one
    pub(crate) what: String,
    #[command(flatten)]
    pub(crate) of: OfNetwork,
}

fn role() -> impl TypedValueParser<Value = Roles> {
    let words = Roles::ALL.map(|(word, _)| word);
    PossibleValuesParser::new(words).map(|text| {
        let found = Roles::ALL.into_iter().find(|(word, _)| *word == text);
        found.map_or(Roles::HOST, |(_, role)| role)
    })
}

/// A time in seconds with its unit: seconds, minutes, hours, days or weeks.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    let split = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let units = [("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400), ("w", 7 * 86_400)];
    let factor = units.into_iter().find(|(word, _)| *word == unit).map(|(_, factor)| factor);
    let seconds = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match seconds.filter(|seconds| (1..=SECONDS_MAX).contains(seconds)) {
        Some(seconds) => Ok(seconds),
        None => Err("write a time of at most a hundred years, such as 90d, 12h or 30min".into()),
    }
}

const SECONDS_MAX: u64 = 36_525 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_their_unit() {
        assert_eq!(parse_seconds("90d"), Ok(7_776_000));
        assert_eq!(parse_seconds("2w"), parse_seconds("14d"));
        for wrong in ["", "90", "d", "0d", "-1d", "1.5d", "99999999999999999999d", "40000d"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
