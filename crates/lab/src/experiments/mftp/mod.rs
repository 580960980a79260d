//! MFTP's evaluation (its §5), and measurements beyond it that have not been published.
mod contacts;
mod disconnection;
mod disk;
mod hol;
mod m2m;
mod mobility;
mod multicast;
mod network;
mod nodes;
mod outage;
mod proactive;
mod store;
mod web;
mod wireless;

use crate::Experiment;

/// MFTP's experiments: the paper's in its order, then the others.
pub(super) const ALL: [Experiment; 10] = [
    wireless::EXPERIMENT,
    disconnection::EXPERIMENT,
    proactive::EXPERIMENT,
    web::EXPERIMENT,
    hol::EXPERIMENT,
    mobility::EXPERIMENT,
    store::EXPERIMENT,
    m2m::EXPERIMENT,
    contacts::EXPERIMENT,
    multicast::EXPERIMENT,
];
