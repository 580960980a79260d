//! Nodes of the MobilityFirst family in this process, over real sockets.
use std::{path::Path, sync::Arc};
use tributary::{LocalApi, NodeConfig};
use tributary_core::Duration;

/// Roles of a device.
pub(crate) const ENDS: &str = "\"sender\", \"receiver\"";
/// Roles of a router.
pub(crate) const ROUTER: &str = "\"router\", \"resolver\"";

/// Starts a node, and waits until its neighbour answers if it has one.
pub(crate) fn node(folder: &Path, label: &str, roles: &str, listen: u16, peer: Option<u16>) -> Arc<LocalApi> {
    let face = peer.map_or(String::new(), |peer| format!("[[face]]\npeer = \"127.0.0.1:{peer}\"\n"));
    let text = format!(
        "[node]\nlabel = \"{label}\"\nfamily = \"mf\"\nroles = [{roles}]\nstate_dir = \"{label}\"\n\
         listen = [\"127.0.0.1:{listen}\"]\n{face}"
    );
    let api = LocalApi::start(NodeConfig::parse(label, &text, folder).unwrap()).unwrap();
    assert!(api.wait_for_neighbour(Duration::from_secs(10)).unwrap());
    Arc::new(api)
}
pub(crate) use tributary_testkit::port;
