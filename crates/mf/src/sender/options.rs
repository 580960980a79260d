//! How an object is sent to receivers that did not request it.
use super::*;

tributary_core::declared! {
    /// How an object is sent to receivers that did not request it.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SendOptions {
        /// Bytes of the object in a chunk.
        pub chunk_bytes: u32 = config.chunk_bytes,
        /// End-to-end reliability.
        pub reliability: Reliability = config.reliability,
        /// The storage that routers may provide.
        pub in_network: InNetwork = if config.delegate { InNetwork::Delegate } else { InNetwork::Store },
        /// Where storage is short, larger values are kept longer.
        pub priority: u8 = 0,
        /// How long routers may store it; `None` leaves it to the routers.
        pub lifetime: Option<Duration> = None,
        /// To one, or to all of a group.
        pub service: ServiceId = ServiceId::default(),
        /// Whether the destination may be a group or a device: `service` assumes a group.
        pub recognises: bool = false,
        /// For a group: how many proxies a request for missing chunks may try, one by one, before it is discarded
        /// (paper §3.5); 0 sends requests to the source.
        pub proxies: u8 = 0,
    }
    /// Unicast with the node's settings.
    pub fn new(config: &EndConfig) {}
}
