//! Drop-tail: the limits of the queue are all there is.
use super::Discipline;

/// Lets everything pass that is within the limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropTail;

impl Discipline for DropTail {}
