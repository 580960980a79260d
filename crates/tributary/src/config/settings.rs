//! The settings of a node's family.

/// The settings of a node in the terms of its family, which they also identify. Seeds and secrets are set at each
/// start.
///
/// [`families`](crate::families), the only module that matches on them, defines their meaning.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Settings {
    /// Of a PSI node, including transfers.
    Psi(Box<tributary_psi::Config>),
    /// Of an NDN node, including transfers.
    Ndn(Box<tributary_ndn::Config>),
    /// Of a MobilityFirst node.
    Mf(Box<tributary_mf::Config>),
}
