//! Scenarios in virtual time, the papers' experiments, their rivals, figures and report.
//!
//! ```text
//!  experiments (a table)          figures ── SVG ─┐
//!      │ run(settings)              ▲             ▼
//!      ▼                            │          report ──► one HTML page
//!  Scenario ──► Simulation ──► Outcome ──► Results ──► JSON, CSV
//!                  rivals ─────────┘  optimum (max-flow, LP) stands beside
//! ```
//! | part | module |
//! |---|---|
//! | scenarios of any family in virtual time, and their files | [`simulation`] |
//! | cross traffic, packet captures | [`traffic`], [`capture`] |
//! | corrupting caches | [`faults`] |
//! | networks from files and generators, recorded contacts | [`topology`], [`contacts`] |
//! | experiments and their results | [`experiment`] |
//! | the table of experiments | [`experiments`] |
//! | wide-area networks, their congestion, runs of many seeds | [`wide_area`], [`congestion`], [`runs`] |
//! | third-party TCP and QUIC on the same links | [`rivals`] |
//! | rivals on the links of an experiment | [`comparison`] |
//! | upper bounds | [`optimum`] |
//! | web pages and how they load | [`page`] |
//! | drawings | [`figures`] |
//! | the page | [`report`] |
//! | figures and page of a person's own scenario | [`run_report`] |
//! | mean, variance, Jain's index | [`stats`] |
//!
//! The same seed produces the same bytes in every file, with any number of threads.
pub mod capture;
pub mod comparison;
pub mod congestion;
pub mod contacts;
mod control_laws;
pub mod experiment;
pub mod experiments;
pub mod faults;
pub mod figures;
pub mod optimum;
pub mod page;
pub mod report;
pub mod rivals;
pub mod run_report;
pub mod runs;
pub mod simulation;
pub mod stats;
pub mod sweep;
pub mod topology;
pub mod traffic;
pub mod wide_area;

pub use experiment::{Experiment, Metric, Results, Scale, Settings, Table};
