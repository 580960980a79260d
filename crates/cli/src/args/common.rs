//! What several commands take: which node does the work, and times.
use clap::Args;
use std::path::PathBuf;
use tributary_core::{Duration, units};

/// Which daemon to ask.
#[derive(Args, Debug)]
pub(crate) struct Control {
    /// Label of the daemon to ask, or its control socket [default: $TRIB_CONTROL, else the one that can answer]
    #[arg(long, value_name = "LABEL|SOCKET")]
    pub(crate) control: Option<PathBuf>,
}

/// Which node does the work.
#[derive(Args, Debug)]
pub(crate) struct Worker {
    /// Run a node with this config in this process for as long as the command runs, instead of asking a daemon
    #[arg(long, value_name = "FILE", conflicts_with = "control")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) control: Control,
}

/// Another neighbour than that of the config.
#[derive(Args, Debug, Default)]
pub(crate) struct Peer {
    /// The neighbour to use in place of the one in the config, such as router.lan or 192.0.2.7:7001 [default: $TRIB_PEER,
    /// else as the config says]
    #[arg(long, value_name = "HOST[:PORT]", requires = "config")]
    pub(crate) peer: Option<String>,
}

impl Peer {
    /// What the arguments name, else the environment.
    pub(crate) fn named(&self) -> Option<String> {
        let variable = || std::env::var("TRIB_PEER").ok().filter(|text| !text.is_empty());
        self.peer.clone().or_else(variable)
    }
}

/// From a millisecond on, as requests count them.
pub(super) fn parse_timeout(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text) {
        Ok(time) if time >= Duration::from_millis(1) => Ok(time),
        Ok(_) => Err("nothing can come in less than 1ms".into()),
        Err(error) => Err(error.to_string()),
    }
}
