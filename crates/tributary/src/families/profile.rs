//! The properties of a family that a front needs, so that no front has to match on the family.
use std::sync::Arc;
use tributary_net::Framing;

use crate::config::Role;

/// The properties of every node of a family, regardless of its config.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The UDP port under which captures of simulated links show it, and by which Wireshark chooses the dissector: its
    /// registered port where it has one.
    pub capture_port: u16,
    /// The roles that its nodes can have.
    pub roles: &'static [Role],
    /// Who resolves names.
    pub resolution: Resolution,
    /// How a node detects its neighbours.
    pub liveness: Liveness,
    /// How an object reaches its receiver.
    pub delivery: Delivery,
    /// What its nodes can do beyond fetching and publishing.
    pub abilities: Abilities,
    /// Whether foreign programs speak its packets.
    pub is_standard: bool,
    /// How packets are delimited in a stream; `None` for datagrams only.
    pub framing: Option<fn() -> Arc<dyn Framing>>,
    /// Lines for its section of the config of every daemon in a demo.
    pub demo_settings: &'static str,
}

/// Who resolves names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// Dedicated nodes: resolvers and topology managers.
    Servers,
    /// Routers hold the names among them.
    Routers,
    /// No node: every forwarder has routes towards names, which its faces name or publishers register.
    Routes,
}

/// How a node detects its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Liveness {
    /// By hellos.
    Hellos,
    /// By any packet from there.
    Traffic,
}

/// How an object reaches its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The receiver requests from several sources over several paths at a time.
    Multipath,
    /// Routers hand its chunks to each other one by one and keep them while the receiver is away.
    Custody,
}

/// What nodes of a family can do beyond fetching and publishing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// What the network offers below a name: `trib ls`.
    pub listing: bool,
    /// Echo requests: `trib ping` and `trib traceroute`.
    pub echo: bool,
    /// Unrequested objects, readers, groups and storage for others: `trib send`, `trib recv` and the like.
    pub messages: bool,
    /// Routes and strategies that a person may edit: `trib route`, `trib strategy`.
    pub routes: bool,
    /// Sources that are still fetching the object that they serve: they tell receivers which chunks they have.
    pub partial_sources: bool,
}
