//! The arguments of `trib demo`.
use clap::{Args, ValueEnum};
use std::{net::SocketAddr, path::PathBuf};
use tributary::Family;
use tributary_core::ByteCount;

/// Runs the demo.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// The architecture to show
    #[arg(long, default_value_t, value_parser = super::common::family())]
    pub(crate) family: Family,
    /// Size of the file
    #[arg(long, default_value = "48MB")]
    pub(crate) size: ByteCount,
    /// Seed of the file's bytes and of the network's keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep configs, logs and files in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Loss on every link, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = tributary::config::parse_share)]
    pub(crate) loss: f64,
    /// Break something during the transfer, optionally at this percentage: source, receiver, link, router; resolver and
    /// tm (family psi); may be repeated
    #[arg(long, value_name = "KIND[@PERCENT]")]
    pub(crate) fail: Vec<Fail>,
    /// Make a node misbehave
    #[arg(long, value_name = "WHO")]
    pub(crate) evil: Option<Evil>,
    /// Serve the receiver's dashboard and API at this address, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    /// Fetch a second time, from the caches, behind one gateway
    #[arg(long)]
    pub(crate) second_fetch: bool,
}

/// Something to break, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fail {
    /// What.
    pub(crate) kind: FailKind,
    /// When this many percent of the file have arrived; `None` for the usual moments of that kind.
    pub(crate) percent: Option<u8>,
}

/// What can break.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum FailKind {
    /// A publisher is killed, and brought back 30 % later
    Source,
    /// The receiver is killed and started again (at 30, 60 and 90 %)
    Receiver,
    /// The best link to the receiver is cut, and mended 30 % later
    Link,
    /// A rendezvous node is killed (family psi)
    Resolver,
    /// The active topology manager is killed (family psi)
    Tm,
    /// A forwarder is killed
    Router,
}

/// The nodes that can be faulty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Evil {
    /// A publisher that serves flipped bytes
    Source,
    /// A publisher with another file under the same name
    Imposter,
    /// A cache that answers with flipped bytes; `trib-lab` runs it
    Cache,
}

impl std::str::FromStr for Fail {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (word, percent) = match text.split_once('@') {
            Some((word, percent)) => (word, Some(percent)),
            None => (text, None),
        };
        let kind = FailKind::from_str(word, false).map_err(|_| {
            let kinds = FailKind::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let kinds: Vec<_> = kinds.map(|kind| kind.get_name().to_string()).collect();
            format!("what can fail is one of {}, with the moment behind it if wanted: source@30", kinds.join(", "))
        })?;
        let percent = match percent.map(|percent| percent.trim_end_matches('%').parse::<u8>()) {
            None => None,
            Some(Ok(percent)) if (1..=99).contains(&percent) => Some(percent),
            Some(_) => return Err("the moment is a percentage from 1 to 99, such as source@30".into()),
        };
        Ok(Fail { kind, percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_with_and_without_their_moment() {
        assert_eq!("source@30".parse(), Ok(Fail { kind: FailKind::Source, percent: Some(30) }));
        assert_eq!("tm".parse(), Ok(Fail { kind: FailKind::Tm, percent: None }));
        for wrong in ["", "sauce", "source@", "source@0", "source@100", "source@x"] {
            assert!(wrong.parse::<Fail>().is_err(), "{wrong}");
        }
    }
}
