//! `trib gateway`: objects of the network for programs that speak HTTP.
use std::sync::Arc;
use tributary::{ApiError, config::HttpConfig};
use tributary_core::Duration;
use tributary_gateway::Gateway;

use super::{executor::start, http_proxy::ready};
use crate::{args, signals::Wish};

/// Serves until a signal.
pub(crate) fn run(gateway: &args::Gateway, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    let api = Arc::new(start((&gateway.config, &gateway.peer), None, &wish)?);
    let config = api.config();
    let local = || HttpConfig::new(([127, 0, 0, 1], 8080).into(), config.state_dir.join("http"));
    let mut http = config.http.clone().unwrap_or_else(local);
    http.listen = gateway.listen.unwrap_or(http.listen);
    let served = Gateway::start(Arc::clone(&api), http)?;
    let address = served.address;
    ready(json, "gateway", &address.to_string(), &format!("serves objects on http://{address}/NAME"));
    wish.wait(Duration::MAX);
    drop(served);
    api.stop()
}
