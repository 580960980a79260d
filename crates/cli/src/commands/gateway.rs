//! `trib gateway`: objects of the network for programs that speak HTTP.
use std::{path::Path, sync::Arc};
use tributary::{
    ApiError, LocalApi, NodeConfig,
    config::{Access, HttpConfig, SiteConfig},
};
use tributary_core::Duration;
use tributary_gateway::Gateway;
use tributary_terminal::failure::mistakes;

use super::{executor::wait_for_neighbour, http_proxy::ready, load::load_with};
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
    let site = gateway.site.as_ref().map(|access| {
        let access = if access == "open" { Access::Open } else { Access::Closed };
        SiteConfig { access, ..http.site.clone().unwrap_or_default() }
    });
    config.http = Some(http);
    if let Some(site) = site {
        if site.admits_none(config.network.is_some()) {
            let hint = "write --site open where everybody on the segment is trusted, or [network] or 'peers' of [site] in a config";
            return Err(ApiError::usage("nobody can join a closed site without invitations").with_hint(hint));
        }
        config.join_site(site);
    }
    let http = config.http.clone();
    let api = Arc::new(LocalApi::start(config)?);
    wait_for_neighbour(&api, None, &wish)?;
    let served = http.map(|http| Gateway::start(Arc::clone(&api), http)).transpose()?;
    let address = served.as_ref().map_or(String::new(), |served| served.address.to_string());
    ready(json, "gateway", &address, &format!("serves objects on http://{address}/NAME"));
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
