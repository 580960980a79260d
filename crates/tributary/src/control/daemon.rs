//! A node that runs until it is stopped, and answers on its control socket.
use std::{path::Path, sync::Arc};

use super::server::ControlSocket;
use crate::{config::NodeConfig, error::ApiError, families::BoxedNode, local::LocalApi, notice::Notice};

/// A daemon. Dropping it stops it: first the control socket, then the node.
pub struct Daemon {
    // Fields are dropped in this order.
    control: ControlSocket,
    api: Arc<LocalApi>,
    published: Vec<Notice>,
}

impl Daemon {
    /// Starts the node of a config, publishes the objects of the config and of earlier commands, and opens the control
    /// socket.
    ///
    /// # Errors
    /// [`ApiError`] if an address is taken, another daemon uses the socket, or an entry cannot be published.
    pub fn start(config: NodeConfig) -> Result<Self, ApiError> {
        Self::with_api(LocalApi::start(config)?)
    }
    /// Starts a node that the caller made, for tests of fronts.
    ///
    /// # Errors
    /// The errors of [`Daemon::start`].
    pub fn start_node(config: NodeConfig, node: BoxedNode) -> Result<Self, ApiError> {
        Self::with_api(LocalApi::start_node(config, node)?)
    }
    /// The control socket's path.
    pub fn control(&self) -> &Path {
        self.control.path()
    }
    /// The node, for callers in the same process.
    pub fn shared_api(&self) -> Arc<LocalApi> {
        Arc::clone(&self.api)
    }
    /// The node, for requests.
    pub fn api(&self) -> &LocalApi {
        &self.api
    }
    /// The facts that a person should know once it runs.
    ///
    /// # Errors
    /// [`ApiError`] if the node is gone already.
    pub fn ready(&self) -> Result<Notice, ApiError> {
        let config = self.api.config();
        Ok(Notice::Ready {
            label: config.label.clone(),
            family: config.family().to_string(),
            roles: config.roles.iter().map(ToString::to_string).collect(),
            listen: self.api.listen(),
            control: self.control().display().to_string(),
            publisher: self.api.publisher().to_string(),
            invitation: self.api.invitation().map(|invitation| invitation.to_string()),
            http: None,
        })
    }
    /// The publications of the start.
    pub fn published(&self) -> &[Notice] {
        &self.published
    }
    /// Stops it in order: no new clients, then the node, whose verified chunks are kept.
    ///
    /// # Errors
    /// [`ApiError`] if the node's thread panicked.
    pub fn stop(self) -> Result<(), ApiError> {
        let Daemon { control, api, .. } = self;
        drop(control);
        api.stop()
    }

    fn with_api(api: LocalApi) -> Result<Self, ApiError> {
        let api = Arc::new(api);
        // The socket comes first: a second daemon on the same state must not publish anything.
        let control = ControlSocket::open(&api.config().control, Arc::clone(&api))?;
        let published = api.publish_all()?;
        Ok(Daemon { control, api, published })
    }
}
