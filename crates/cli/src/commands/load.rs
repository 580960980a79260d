//! Configs as the command line names and changes them.
use std::path::Path;
use tributary::{ApiError, NodeConfig, config::LoadError};
use tributary_terminal::failure::mistakes;

use crate::args::Peer;

/// Reads a config.
pub(super) fn load(path: &Path) -> Result<NodeConfig, ApiError> {
    NodeConfig::load(path).map_err(|error| match error {
        LoadError::Wrong(errors) => mistakes(path, &errors),
        error => error.into(),
    })
}
/// Reads a config and sets its neighbour to the address in the arguments. One from the environment applies to configs
/// with one neighbour.
pub(super) fn load_with(path: &Path, peer: &Peer) -> Result<NodeConfig, ApiError> {
    let mut config = load(path)?;
    let Some(named) = peer.named().filter(|_| peer.peer.is_some() || config.faces.len() == 1) else {
        return Ok(config);
    };
    config.set_peer(&named).map_err(|error| {
        let source = if peer.peer.is_some() { "--peer" } else { "$TRIB_PEER" };
        let message = format!("{source} cannot be '{named}': {}", error.message);
        let hint = "write it like router.lan, 192.0.2.7:7001 or [fe80::1%eth0], or as `trib invite` prints it there";
        ApiError::usage(message).with_hint(error.hint.unwrap_or_else(|| hint.into()))
    })?;
    Ok(config)
}
