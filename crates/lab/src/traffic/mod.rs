//! Cross traffic: nodes that fill links and take part in no protocol.
//!
//! | traffic | node |
//! |---|---|
//! | packets at a constant rate | [`Source`] with [`Pattern::Constant`] |
//! | bursts and pauses, of fixed, exponential or Pareto length | [`Source`] with [`Pattern::OnOff`] |
//! | as much as the network lets through, additive increase and multiplicative decrease | [`Greedy`] |
//! | the other end of each | [`Sink`] |
//!
//! All of them use face 0. Their packets start with [`Packet`], a header of 21 bytes.
mod greedy;
mod laws;
mod packet;
mod sink;
mod source;

pub use greedy::{Greedy, GreedyConfig, GreedyStats};
pub use laws::Law;
pub use packet::Packet;
pub use sink::Sink;
pub use source::{Pattern, Source, SourceConfig};

#[cfg(test)]
mod tests;
