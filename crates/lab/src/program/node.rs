//! `trib-lab node`: a daemon with the faults of its config, as `trib demo --evil cache` starts it.
use std::{io, path::Path};
use tributary::{ApiError, Daemon, NodeConfig};
use tributary_lab::faults::FAULTY_CACHES;

/// Runs a daemon until standard input ends.
pub(crate) fn run(config: &Path) -> Result<(), ApiError> {
    let mut config = NodeConfig::load(config)?;
    config.wrapper = FAULTY_CACHES;
    let daemon = Daemon::start(config)?;
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|error| ApiError::io("watch", "standard input", &error))?;
    daemon.stop()
}
