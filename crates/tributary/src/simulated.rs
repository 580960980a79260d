//! The nodes of a config, for a simulator: their randomness and their keys come from a seed, and they keep nothing on a
//! disk.
use tributary_content::SigningKey;
use tributary_core::{Location, Random};
use tributary_net::Bell;

use crate::{
    config::NodeConfig,
    node::{peer_keys::PeerKeys, secure},
};

pub use crate::families::{AssignedRoute, BoxedNode};

impl NodeConfig {
    /// Sets the node's location, for families whose paths depend on it.
    pub fn set_location(&mut self, location: Location) {
        self.settings.of_family_mut().set_location(location);
    }
    /// Whether a simulation must give the node routes: its family computes none, and its config lists none.
    pub fn needs_routes(&self) -> bool {
        self.settings.of_family().needs_routes()
    }
    /// The node of one life in a simulation. `routes` are empty unless it needs them.
    ///
    /// # Panics
    /// If the config requests a fault that its wrapper does not provide.
    pub fn simulate(mut self, seed: u64, routes: &[AssignedRoute]) -> BoxedNode {
        self.settings.of_family_mut().prepare_simulation(routes);
        let node = self.build(seed, &Bell::default()).unwrap_or_else(|error| panic!("{error}"));
        // The same key in all lives, other handshakes in each.
        let key = SigningKey::from_secret(&blake3::derive_key("tributary simulated key", self.label.as_bytes()));
        let mut random = Random::new(seed, KEY_STREAM);
        let entropy = move |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        secure::protect(node, &self, &key, None, Box::new(|_| Ok(())), PeerKeys::default(), Box::new(entropy))
    }
}

/// The stream of a node's seed for the keys of its handshakes.
const KEY_STREAM: u64 = 1 << 20;
