//! Settings of a gateway: those of `[http]` in a node's config.
pub use tributary::config::{HttpConfig as GatewayConfig, HttpMirror as Mirror};
