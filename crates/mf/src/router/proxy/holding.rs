//! A proxy's report on its chunks, and the operator's decisions about them.
use crate::router::StoreReason;

/// Why a chunk was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Its flow, its source or its destination has as much in store as it may have.
    ShareFull,
    /// The store is full of equally or more important chunks, from sources with no more here than its own.
    Full,
    /// The node has no storage, or it failed.
    Broken,
}

/// Whether a chunk may leave the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Now.
    Now,
    /// When there is space.
    Later,
    /// Its destination is still away.
    Away,
    /// Its source may not read the destination's address; other sources may.
    Hidden,
}

/// Counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProxyStats {
    /// Chunks stored.
    pub stored: u64,
    /// Chunks that were in store already.
    pub duplicates: u64,
    /// Chunks that are on a disk further on.
    pub delivered: u64,
    /// Chunks that were sent again because no custodian acknowledged them in time.
    pub timeouts: u64,
    /// Chunks that full nodes further on refused.
    pub refusals: u64,
    /// Chunks that were dropped further on.
    pub lost: u64,
    /// Chunks that were evicted for others.
    pub evicted: u64,
    /// Expired chunks.
    pub expired: u64,
    /// Chunks that were dropped because the owner of the router purged them.
    pub purged: u64,
    /// Chunks that were not stored because their flow or their source had its share.
    pub refused: u64,
    /// Chunks found in the store at the start.
    pub restored: u64,
    /// Descriptions that were sent again to silent receivers.
    pub reminded: u64,
    /// Omitted reports of dropped chunks beyond the limit: their receivers send NACKs.
    pub untold: u64,
}

/// Why a chunk is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// It waits.
    For(StoreReason),
    /// It is a copy, to answer for its producer.
    Delegated,
}
