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
    /// Make the authority of a new network and print its public key, for [network] in the configs of the nodes
    ///
    /// Whoever has the secret key in the folder decides who may do what. Nodes do not need it: keep the folder on a
    /// machine that is none of them, and a copy of it elsewhere.
    New {
        /// The folder, which must not hold an authority
        #[arg(value_name = "DIR", default_value = "network")]
        folder: PathBuf,
    },
    /// Give a node a certificate: its roles, the names that it owns, and until when
    ///
    /// The certificate is written to the authority's folder and, where NODE is a config or state folder, to where that
    /// node looks for it. A running node takes it on SIGHUP. Admitting a node again renews or changes its certificate;
    /// the earlier one holds until it ends, unless it is revoked.
    Admit(Admit),
    /// Take certificates back
    ///
    /// Writes the list of revocations, which every node of the network should get: a running node takes it on SIGHUP
    /// and ends the sessions of those that it names.
    Revoke(Revoke),
    /// Show the authority's key and the certificates that it has issued
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
    /// What to call it [default: the label of its config]
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// What it may do for the network; may be repeated [default: the roles of its config; without one, none: a host]
    #[arg(long = "role", value_name = "ROLE", value_parser = role())]
    pub(crate) roles: Vec<Roles>,
    /// A name that it owns, with all below it: it may publish, attach and register there; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) names: Vec<Name>,
    /// For how long, such as 90d or 12h
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
fn parse_seconds(text: &str) -> Result<u64, String> {
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
