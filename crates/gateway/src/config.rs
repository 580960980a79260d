//! Settings of a gateway: the section `[http]` of a node's config.
pub use tributary::config::{HttpConfig as GatewayConfig, HttpMirror as Mirror, HttpOrigin, OriginKind};
