//! Cross traffic as guests: a sender at one node, a sink at another.
use crate::traffic::{Greedy, GreedyConfig, Sink, Source, SourceConfig};
use tributary_core::Random;

use super::{Guest, GuestFactory, Scenario, Seat};

impl Guest for Source {}
impl Guest for Greedy {}
impl Guest for Sink {}

/// One flow of cross traffic.
#[derive(Clone, PartialEq, Debug)]
pub enum Flow {
    /// At a rate, or in bursts.
    Source(SourceConfig),
    /// As much as it can get.
    Greedy(GreedyConfig),
}

/// Adds a flow called `name` from one node to another. Its other end is the guest `name-sink`.
pub fn add(scenario: &mut Scenario, name: &str, from: &str, to: &str, flow: &Flow) {
    let sink = format!("{name}-sink");
    let factory = match flow.clone() {
        Flow::Source(config) => GuestFactory::new(move |seat: &Seat| {
            Source::new(
                SourceConfig { packet_bytes: fitting(config.packet_bytes, seat), ..config.clone() },
                Random::new(seat.seed, 0),
            )
        }),
        Flow::Greedy(config) => GuestFactory::new(move |seat: &Seat| {
            Greedy::new(GreedyConfig { packet_bytes: fitting(config.packet_bytes, seat), ..config.clone() })
        }),
    };
    scenario.add_guest(name, from, &[&sink], factory);
    scenario.add_guest(&sink, to, &[], GuestFactory::new(|_: &Seat| Sink::default()));
}

/// Packets that get through.
fn fitting(packet_bytes: u32, seat: &Seat) -> u32 {
    seat.faces.first().map_or(packet_bytes, |face| packet_bytes.min(face.mtu))
}
