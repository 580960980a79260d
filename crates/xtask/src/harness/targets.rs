//! The targets of the design, by number.
use std::fmt;

use serde::Serialize;

/// The bound that a figure of a finished product must reach, and the goal that the ceilings permit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(crate) struct Target {
    /// Its number in the design's table; 0 if it is not in the table.
    pub(crate) number: u8,
    /// Whether more or less is better.
    pub(crate) sense: Sense,
    /// A finished product.
    pub(crate) must: f64,
    /// Where it can go.
    pub(crate) goal: f64,
}

/// Which direction is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sense {
    /// More is better.
    AtLeast,
    /// Less is better.
    AtMost,
}

/// A figure's result against its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// The goal is reached.
    Goal,
    /// What a finished product needs is reached.
    Must,
    /// It falls short.
    Short,
}

impl Target {
    const fn at_least(number: u8, must: f64, goal: f64) -> Target {
        Target { number, sense: Sense::AtLeast, must, goal }
    }
    const fn at_most(number: u8, must: f64, goal: f64) -> Target {
        Target { number, sense: Sense::AtMost, must, goal }
    }
    /// The result of `value` against it.
    pub(crate) fn verdict(&self, value: f64) -> Verdict {
        let reaches = |bound: f64| match self.sense {
            Sense::AtLeast => value >= bound,
            Sense::AtMost => value <= bound,
        };
        match () {
            () if reaches(self.goal) => Verdict::Goal,
            () if reaches(self.must) => Verdict::Must,
            () => Verdict::Short,
        }
    }
}
impl Sense {
    /// The sign for people.
    pub(crate) fn sign(self) -> char {
        match self {
            Sense::AtLeast => '≥',
            Sense::AtMost => '≤',
        }
    }
}
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Goal => "goal",
            Verdict::Must => "must",
            Verdict::Short => "SHORT",
        })
    }
}

/// Bulk transfer: share of the bare UDP pump's rate.
pub(crate) const BULK_PUMP: Target = Target::at_least(1, 0.45, 0.75);
/// Bulk transfer: multiple of quinn's rate.
pub(crate) const BULK_QUINN: Target = Target::at_least(2, 1.3, 2.0);
/// Bulk transfer: share of the rate of curl and nginx.
pub(crate) const BULK_CURL: Target = Target::at_least(2, 0.45, 0.8);
/// Three sources: multiple of rqbit's rate.
pub(crate) const SOURCES_RQBIT: Target = Target::at_least(3, 1.2, 2.0);
/// Three sources: share of the rate of aria2 without checksum.
pub(crate) const SOURCES_ARIA2: Target = Target::at_least(3, 0.6, 1.0);
/// Through a forwarder: multiple of ndnd's rate.
pub(crate) const HOP_NDND: Target = Target::at_least(4, 3.0, 6.0);
/// CPU seconds per GiB, both ends: share of quinn's.
pub(crate) const CPU_QUINN: Target = Target::at_most(5, 0.6, 0.35);
/// CPU seconds per GiB of each forwarder.
pub(crate) const CPU_HOP: Target = Target::at_most(5, 1.2, 0.6);
/// Peak memory in MiB.
pub(crate) const MEMORY: Target = Target::at_most(6, 64.0, 32.0);
/// Three paths: multiple of the fluid bound's time.
pub(crate) const PATHS: Target = Target::at_most(7, 1.04, 1.02);
/// Three paths with an outage.
pub(crate) const PATHS_FAILURE: Target = Target::at_most(8, 1.05, 1.02);
/// Three paths with loss.
pub(crate) const PATHS_LOSS: Target = Target::at_most(9, 1.06, 1.03);
/// A lossy last hop: share of our own goodput without loss.
pub(crate) const LOSS_OWN: Target = Target::at_least(10, 0.97, 0.985);
/// A lossy last hop: multiple of the goodput of the kernel's BBR.
pub(crate) const LOSS_BBR: Target = Target::at_least(10, 1.0, 1.03);
/// An outage: seconds lost beyond the ideal.
pub(crate) const OUTAGE: Target = Target::at_most(11, 0.5, 0.1);
/// Simulator: multiple of ns-3's packet-hops per second.
pub(crate) const SIMULATOR_NS3: Target = Target::at_least(13, 8.0, 20.0);
/// Simulator: distance of its goodput from the goodput of daemons over emulated links.
pub(crate) const SIMULATOR_REAL: Target = Target::at_most(14, 0.05, 0.02);
/// Forwarding decision: nanoseconds per link.
pub(crate) const FORWARDING: Target = Target::at_most(15, 20.0, 5.0);
/// Path computation: milliseconds for eight verified paths in both directions.
pub(crate) const PATH_COMPUTATION: Target = Target::at_most(15, 20.0, 5.0);
/// A link among routers that goes and returns: milliseconds of the manager's processor time.
pub(crate) const FLAP: Target = Target::at_most(15, 20.0, 2.0);
/// NDN exchange with sockets: share of the CPU of ndnd's forwarder.
pub(crate) const NDN_EXCHANGE: Target = Target::at_most(16, 0.5, 0.25);
/// A swarm: multiple of aria2's time to the last receiver, and of its processor time. The design's table has no such rows.
pub(crate) const SWARM_TIME: Target = Target::at_most(0, 1.3, 1.0);
pub(crate) const SWARM_CPU: Target = Target::at_most(0, 2.0, 1.0);
/// Web mirrors over several uplinks: share of the fluid bound's rate. The design's table has no such row.
pub(crate) const WEB_UPLINKS: Target = Target::at_least(0, 0.97, 0.985);
/// Gateways of a site: copies that leave the origin, and the slowest client against one gateway alone.
pub(crate) const SITE_COPIES: Target = Target::at_most(0, 1.02, 1.0);
pub(crate) const SITE_TIME: Target = Target::at_most(0, 1.2, 1.05);
/// A gateway against nginx: time of a miss, and rate of hits.
pub(crate) const COPY_MISS: Target = Target::at_most(0, 2.0, 1.0);
pub(crate) const COPY_HIT: Target = Target::at_least(0, 0.8, 1.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_change_at_the_bounds() {
        let more = Target::at_least(1, 0.45, 0.75);
        assert_eq!([0.44, 0.45, 0.75].map(|value| more.verdict(value)), [Verdict::Short, Verdict::Must, Verdict::Goal]);
        let less = Target::at_most(7, 1.04, 1.02);
        assert_eq!([1.05, 1.04, 1.02].map(|value| less.verdict(value)), [Verdict::Short, Verdict::Must, Verdict::Goal]);
    }
}
