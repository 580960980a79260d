//! The resolver of the PSI family: rendezvous nodes, which match publications and subscriptions, and topology
//! managers, which find the paths between them (paper §II-A).
pub mod rendezvous;
pub mod topology;
