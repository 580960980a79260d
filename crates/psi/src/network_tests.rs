//! An in-memory network for control messages: it loses, delays, reorders and duplicates, as determined by its seed.
use alloc::{collections::BTreeMap, vec::Vec};

use tributary_core::{Duration, FaceId, NodeId, Random, Time};

use crate::{
    control::{ControlChannel, ControlConfig},
    wire::{Fid, FidKind},
};

/// How bad the network is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Chance that a packet is lost.
    pub(crate) loss: f64,
    /// Probability of duplication.
    pub(crate) duplication: f64,
    /// Delay between the least and the most; any order results.
    pub(crate) delay: (Duration, Duration),
}

impl Faults {
    /// Nothing is lost; delays vary from 5 to 15 ms.
    pub(crate) const NONE: Faults =
        Faults { loss: 0.0, duplication: 0.0, delay: (Duration::from_millis(5), Duration::from_millis(15)) };
    /// This share of the packets is lost, 5 % are duplicated, and delays vary from 1 to 40 ms.
    pub(crate) fn lossy(loss: f64) -> Faults {
        Faults { loss, duplication: 0.05, delay: (Duration::from_millis(1), Duration::from_millis(40)) }
    }
}

/// The route to a node: in this network, its id.
pub(crate) fn route(node: NodeId) -> Fid {
    Fid::new(FidKind::List, 0, &node.0.to_be_bytes())
}

/// Packets in transit between channels.
pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) channels: BTreeMap<NodeId, ControlChannel>,
    flying: BTreeMap<(Time, u64), (NodeId, Vec<u8>)>,
    count: u64,
}

impl Network {
    pub(crate) fn new(seed: u64, faults: Faults) -> Network {
        Network {
            now: Time::ZERO,
            random: Random::new(seed, 1),
            faults,
            channels: BTreeMap::new(),
            flying: BTreeMap::new(),
            count: 0,
        }
    }
    pub(crate) fn add(&mut self, node: NodeId, boot: u32) {
        self.channels.insert(node, ControlChannel::new(ControlConfig::default(), node, boot));
    }
    /// Sends all pending packets of the channels.
    pub(crate) fn drain(&mut self) {
        for channel in self.channels.values_mut() {
            while let Some((fid, packet)) = channel.poll_packet(self.now) {
                assert!(packet.len() + 3 + fid.encoded_len() <= 1_200, "a packet fits the base MTU");
                let to = NodeId(u64::from_be_bytes(fid.bytes().try_into().expect("routes are node ids here")));
                let copies = 1 + u32::from(self.random.chance(self.faults.duplication));
                for _ in 0..copies {
                    if !self.random.chance(self.faults.loss) {
                        let (least, most) = self.faults.delay;
                        let spread = (most - least).as_nanos() as u64;
                        let due = self.now + least + Duration::from_nanos(self.random.below(spread.max(1)));
                        self.count += 1;
                        self.flying.insert((due, self.count), (to, packet.clone()));
                    }
                }
            }
        }
    }
    /// When something happens next: a packet arrives or a channel's timer is due.
    pub(crate) fn next(&self) -> Option<Time> {
        let arrival = self.flying.keys().next().map(|(due, _)| *due);
        let timer = self.channels.values().filter_map(ControlChannel::poll_timeout).min();
        arrival.into_iter().chain(timer).min()
    }
    /// Advances to `now` and delivers the messages that are due.
    pub(crate) fn step(&mut self, now: Time) {
        assert!(now >= self.now, "time never goes back");
        self.now = now;
        while let Some(entry) = self.flying.first_entry()
            && entry.key().0 <= now
        {
            let (to, packet) = entry.remove();
            if let Some(channel) = self.channels.get_mut(&to) {
                channel.handle_packet(now, FaceId(0), &packet).unwrap_or_else(|reason| {
                    // A message that overtakes the introduction of its sender is repeated.
                    let expected = ["control: ack of an earlier run", crate::control::pairs::reason::STRANGER];
                    assert!(expected.contains(&reason), "unexpected drop: {reason}");
                });
            }
        }
        for channel in self.channels.values_mut() {
            channel.handle_timeout(now);
        }
    }
}
