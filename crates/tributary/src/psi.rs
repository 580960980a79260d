//! The PSI family: from a checked node config to its node.
use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    registry::BoxedNode,
};

/// Makes a PSI node.
pub(crate) fn build(config: &NodeConfig, seed: u64) -> Result<BoxedNode, ApiError> {
    let _ = tributary_psi::config::Config { seed, ..config.psi.clone() };
    Err(ApiError::new(ErrorKind::Usage, "the family 'psi' cannot run yet"))
}
