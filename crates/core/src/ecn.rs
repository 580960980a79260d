//! Explicit congestion notification (RFC 3168): which codepoint packets carry, and what a mark means.

/// How packets of this node tell queues that they may be marked instead of dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// They do not: queues drop.
    Off,
    /// ECT(0): a mark means what a loss means (RFC 3168 §5).
    #[default]
    Classic,
    /// ECT(1): queues may mark often and early, and the share of marked packets tells how much to yield (L4S, RFC 9331).
    Scalable,
}

impl Ecn {
    /// All settings with their words.
    pub const ALL: [(&'static str, Ecn); 3] = [("off", Ecn::Off), ("classic", Ecn::Classic), ("l4s", Ecn::Scalable)];

    /// The two low bits of the traffic class of an unmarked packet (RFC 3168 §5).
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::Off => 0b00,
            Ecn::Classic => 0b10,
            Ecn::Scalable => 0b01,
        }
    }
}
