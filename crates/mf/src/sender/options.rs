//! How an object is sent to receivers that did not request it.
use super::*;

/// How an object is sent to receivers that did not request it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// Bytes of the object in a chunk.
    pub chunk_bytes: u32,
    /// End-to-end reliability.
    pub reliability: Reliability,
    /// What routers may store of it.
    pub in_network: InNetwork,
    /// Where storage is short, larger values are kept longer.
    pub priority: u8,
    /// How long routers may store it; `None` leaves it to the routers.
    pub lifetime: Option<Duration>,
    /// To one, or to all of a group.
    pub service: ServiceId,
    /// Whether it is unknown if the destination is a group: `service` is for one if it is none.
    pub recognises: bool,
    /// For a group: how many proxies a request for missing chunks may ask, one after the other, before it is discarded
    /// (paper §3.5); 0 sends requests to the source.
    pub proxies: u8,
}

impl SendOptions {
    /// Unicast with the node's settings.
    pub fn new(config: &EndConfig) -> SendOptions {
        SendOptions {
            chunk_bytes: config.chunk_bytes,
            reliability: config.reliability,
            in_network: if config.delegate { InNetwork::Delegate } else { InNetwork::Store },
            priority: 0,
            lifetime: None,
            service: ServiceId::Unicast,
            recognises: false,
            proxies: 0,
        }
    }
}
