//! Drop-tail: only the limits of the queue apply.
use super::Discipline;

/// Lets everything pass that is within the limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct DropTail;

impl Discipline for DropTail {}
