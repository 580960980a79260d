//! How something is sent without having been asked for.
use tributary_transport::messaging::{Delivery, InNetwork};

use super::*;

/// How something is sent without having been asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendOptions {
    /// Bytes of the object in a chunk.
    pub chunk_bytes: u32,
    /// How sure it has to be.
    pub reliability: Reliability,
    /// Whether it may be stored on the way.
    pub proxy: ProxyUse,
    /// Larger is more important where storage is short.
    pub priority: u8,
    /// How long it is worth storing; `None` leaves it to the proxies.
    pub lifetime: Option<Duration>,
    /// To one, or to all of a group.
    pub service: ServiceId,
    /// For a group: how many proxies a request for missing chunks may ask, one after the other, before it is discarded
    /// (paper §3.5); 0 sends requests to the source.
    pub proxies: u8,
}

/// Whether the network may keep chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProxyUse {
    /// Proxies may store what cannot be delivered.
    #[default]
    Allowed,
    /// The access router is to keep a copy and answer for this node (producer delegation).
    Delegate,
    /// What cannot be delivered is to be dropped.
    Forbidden,
}

impl SendOptions {
    /// As the node's settings say, unicast.
    pub fn new(config: &EndConfig) -> SendOptions {
        SendOptions {
            chunk_bytes: config.chunk_bytes,
            reliability: config.reliability,
            proxy: if config.delegate { ProxyUse::Delegate } else { ProxyUse::Allowed },
            priority: 0,
            lifetime: None,
            service: ServiceId::Unicast,
            proxies: 0,
        }
    }
}

impl ProxyUse {
    /// What a chunk of it is marked with; a request is for what is to answer it.
    pub fn flags(self) -> Flags {
        match self {
            ProxyUse::Allowed => Flags::NONE,
            ProxyUse::Delegate => Flags::DELEGATE,
            ProxyUse::Forbidden => Flags::NO_PROXY,
        }
    }
    /// What a request wishes for, if it is marked.
    pub(super) fn of(flags: Flags) -> Option<ProxyUse> {
        [ProxyUse::Forbidden, ProxyUse::Delegate].into_iter().find(|wish| flags.contains(wish.flags()))
    }
}

// What all families call these choices.

impl From<Delivery> for Reliability {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::DontCare => Reliability::DontCare,
            Delivery::Nack => Reliability::Nack,
            Delivery::Ack => Reliability::Ack,
        }
    }
}
impl From<Reliability> for Delivery {
    fn from(reliability: Reliability) -> Self {
        match reliability {
            Reliability::DontCare => Delivery::DontCare,
            Reliability::Nack => Delivery::Nack,
            Reliability::Ack => Delivery::Ack,
        }
    }
}
impl From<InNetwork> for ProxyUse {
    fn from(keep: InNetwork) -> Self {
        match keep {
            InNetwork::Store => ProxyUse::Allowed,
            InNetwork::Delegate => ProxyUse::Delegate,
            InNetwork::Forbid => ProxyUse::Forbidden,
        }
    }
}
impl From<ProxyUse> for InNetwork {
    fn from(proxy: ProxyUse) -> Self {
        match proxy {
            ProxyUse::Allowed => InNetwork::Store,
            ProxyUse::Delegate => InNetwork::Delegate,
            ProxyUse::Forbidden => InNetwork::Forbid,
        }
    }
}
