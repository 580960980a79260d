//! `trib gateway`: objects of the network for programs that speak HTTP.
use std::{path::Path, sync::Arc};
use tributary::{
    ApiError, NodeConfig,
    config::{Access, HttpConfig, SiteConfig},
};
use tributary_core::Duration;
use tributary_gateway::Gateway;
use tributary_terminal::failure::mistakes;

use super::{executor::start, http_proxy::ready, load::load_with};
use crate::{args, signals::Wish};

/// Serves until a signal.
pub(crate) fn run(gateway: &args::Gateway, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    let mut config = match &gateway.config {
        Some(path) => load_with(path, &gateway.peer)?,
        None => of_origin(gateway.origin.as_deref().unwrap_or_default())?,
    };
    let local = || HttpConfig::new(([127, 0, 0, 1], 8080).into(), config.state_dir.join("http"));
    let mut http = config.http.clone().unwrap_or_else(local);
    http.listen = gateway.listen.unwrap_or(http.listen);
    config.http = Some(http.clone());
    if let Some(access) = &gateway.site {
        let access = if access == "open" { Access::Open } else { Access::Closed };
        let site = SiteConfig { access, ..http.site.clone().unwrap_or_default() };
        if site.admits_none(config.network.is_some()) {
            let hint = "write --site open where everybody on the segment is trusted, or [network] or 'peers' of [site] in a config";
            return Err(ApiError::usage("nobody can join a closed site without invitations").with_hint(hint));
        }
        http.site = Some(site.clone());
        config.join_site(site);
    }
    let api = start(config, &wish)?;
    let served = Gateway::start(Arc::clone(&api), http)?;
    let address = served.address;
    ready(json, "gateway", &address.to_string(), &format!("serves objects on http://{address}/NAME"));
    wish.wait(Duration::MAX);
    drop(served);
    api.stop()
}
/// The config of a gateway to one server. Family ndn needs no node that all others depend on.
fn of_origin(url: &str) -> Result<NodeConfig, ApiError> {
    let host =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|path| std::fs::read_to_string(path).ok());
    let label: String = host.as_deref().map_or("gateway", str::trim).chars().take(32).collect();
    let kind = if url.contains("huggingface") { "huggingface" } else { "web" };
    let text = format!(
        "[node]\nlabel = {label:?}\nfamily = \"ndn\"\nroles = [\"sender\", \"receiver\"]\nlisten = [\"0.0.0.0:7001\"]\n\
         [http]\nlisten = \"127.0.0.1:8080\"\n[[origin]]\npath = \"/\"\nurl = {url:?}\nkind = \"{kind}\"\n"
    );
    NodeConfig::parse("--origin", &text, Path::new("/")).map_err(|errors| mistakes(Path::new("--origin"), &errors))
}
