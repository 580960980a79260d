//! Keys of neighbours, remembered since their first contact. The model is OpenSSH's `known_hosts`.
use std::path::{Path, PathBuf};
use tributary_content::PublicKey;
use tributary_net::disk::TrustStore;
use tributary_trust::UnixTime;

use crate::{
    config::{FaceConfig, NodeConfig, PeerAddress},
    error::ApiError,
};

/// The remembered keys of a node, `ADDRESS KEY` lines in the file `peers` in its state folder. Simulations keep none.
#[derive(Default)]
pub(crate) struct PeerKeys {
    kept: Option<(TrustStore<String>, PathBuf)>,
}

impl PeerKeys {
    /// The keys remembered by the node of this config.
    ///
    /// # Errors
    /// [`ApiError`] if the file cannot be read, or if an invitation in the config to a neighbour with another key has
    /// ended.
    pub(crate) fn open(config: &NodeConfig, now: UnixTime) -> Result<PeerKeys, ApiError> {
        let keys = PeerKeys { kept: Some((store(&config.state_dir), config.state_dir.clone())) };
        let is_late = |face: &&FaceConfig| face.invited_until.is_some_and(|until| until <= now);
        for face in config.faces.iter().filter(is_late) {
            if keys.known(&face.peer.endpoints())? != face.peer_key {
                let message = format!("the invitation to {} has ended, and its key was never seen there", face.peer);
                let hint = "ask for a newer line, which `trib invite` prints there";
                return Err(ApiError::usage(message).with_hint(hint));
            }
        }
        keys.known(&[])?;
        Ok(keys)
    }
    /// The key remembered for one of these addresses.
    pub(crate) fn known(&self, endpoints: &[String]) -> Result<Option<PublicKey>, ApiError> {
        let Some((store, _)) = &self.kept else { return Ok(None) };
        Ok(store.ask(|keys| endpoints.iter().find_map(|endpoint| keys.get(endpoint).copied()))?)
    }
    /// Remembers the key that has answered at these addresses: one that the config names in place of any other, otherwise
    /// the first one. Of two processes the first one that writes a key for an address decides.
    pub(crate) fn remember(&self, endpoints: &[String], key: &PublicKey, is_named: bool) {
        let Some((store, _)) = &self.kept else { return };
        for endpoint in endpoints {
            match store.remember(endpoint, key, is_named) {
                Ok(known) if known != *key => tracing::warn!("{endpoint} has the key {known} in another process"),
                // The owner has named the key, and needs no notice.
                Ok(_) if is_named => {}
                Ok(_) => tracing::warn!(
                    "{endpoint} is trusted at first use: it has proven the key {key}, which is required there from now \
                     on; `trib invite` on that node prints an address with its key, to compare"
                ),
                Err(error) => tracing::warn!("cannot remember the key of {endpoint}: {error}"),
            }
        }
    }
    /// The command that accepts another key at these addresses.
    pub(crate) fn remedy(&self, endpoints: &[String], key: &PublicKey) -> Option<String> {
        let (_, folder) = self.kept.as_ref()?;
        Some(format!(
            "either that node has a new key, or somebody else answers in its place; if you know the new key, accept it \
             with `trib key accept {} {key} {}`",
            endpoints.join(","),
            folder.display()
        ))
    }
}

/// Remembers `key` for an address in place of any other, for the node with its state in `state_dir`.
///
/// # Errors
/// [`ApiError`] if the file cannot be written.
pub fn accept_key(state_dir: &Path, address: &PeerAddress, key: &PublicKey) -> Result<(), ApiError> {
    let keys = store(state_dir);
    address.endpoints().iter().try_for_each(|endpoint| Ok(keys.accept(endpoint, key)?))
}

fn store(state_dir: &Path) -> TrustStore<String> {
    TrustStore::new(state_dir.join("peers"))
}
