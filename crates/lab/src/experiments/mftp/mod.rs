//! MFTP's evaluation (its §5), and measurements beyond it that have not been published.
pub(super) mod contacts;
pub(super) mod disconnection;
mod disk;
pub(super) mod hol;
pub(super) mod m2m;
pub(super) mod mobility;
pub(super) mod multicast;
mod network;
mod nodes;
mod outage;
pub(super) mod proactive;
pub(super) mod store;
pub(super) mod web;
pub(super) mod wireless;
