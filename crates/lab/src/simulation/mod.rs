//! Scenarios of any family in virtual time: nodes, links, workload and faults in, transfers and samples out.
//!
//! ```text
//!  Scenario ──► Simulation::new ──► Network<SimulatedNode> ──► run ──► Outcome
//!   nodes        (registry builds                                       transfers: report per source and path
//!   links         the endpoints)                                        links: counters, use over time
//!   guests                                                              samples: windows, RTTs, rates
//!   workload                                                            events as JSON lines
//!   faults
//! ```
//! A [`Scenario`] is plain data and can be sent to another thread; [`Simulation::run`] gives the same [`Outcome`] for
//! the same scenario on every machine. Everything in it has a name: nodes their labels, links `a-b` (or an explicit
//! name), guests theirs.
//!
//! Besides the endpoints of the families there are [`Guest`]s: rivals and cross traffic. They sit at a node, send to
//! each other over the same links and queues as everybody else, and need no routing of the family: a route of faces
//! is fixed when the simulation is built, and a header of [`GUEST_HEADER_BYTES`] bytes names it.
//!
//! | what | module |
//! |---|---|
//! | what to simulate | [`scenario`] |
//! | rivals and cross traffic, what sits at a place of the network | [`guest`], [`node`] |
//! | scenarios from TOML files | [`file`] |
//! | cross traffic | [`traffic`] |
//! | building and running | [`run`] |
//! | the results | [`outcome`] |
//! | that as JSON lines and CSV, packet captures | [`output`], [`packets`] |
//! | events as JSON lines | [`lines`] |
//! | samples at regular times, within a limit | `samples` |
//! | published objects, stores that compare received bytes with them | [`store`] |
//! | many runs at a time, in order | [`parallel`] |
//!
//! # Example
//! ```
//! use tributary::{Family, config::Role};
//! use tributary_lab::simulation::{Scenario, Simulation, object};
//! use tributary_core::{Duration, Rate, Time, link::LinkConfig};
//! let mut scenario = Scenario::new("hello", 1);
//! scenario.add_node("hub", Family::Psi, &[Role::Router, Role::Resolver, Role::TopologyManager]);
//! scenario.add_node("source", Family::Psi, &[Role::Sender]);
//! scenario.add_node("receiver", Family::Psi, &[Role::Receiver]);
//! for host in ["source", "receiver"] {
//!     scenario.add_link("hub", host, LinkConfig::new(Rate::from_mbps(20), Duration::from_millis(5)));
//! }
//! scenario.publish("source", Time::ZERO, object("/lab/file", 1_000_000, 1));
//! scenario.fetch("receiver", Time::from_millis(2_000), "/lab/file".parse().unwrap());
//! let outcome = Simulation::run(&scenario).unwrap();
//! assert!(outcome.transfers[0].is_complete());
//! assert!(outcome.transfers[0].seconds().unwrap() < 0.6);
//! ```
pub mod file;
pub mod guest;
pub mod lines;
pub mod node;
pub mod outcome;
pub mod output;
pub mod packets;
pub mod parallel;
pub(crate) mod routes;
pub mod run;
mod samples;
pub mod scenario;
pub mod store;
pub mod traffic;

pub use guest::{GUEST_HEADER_BYTES, Guest, GuestFactory, Seat, SeatFace};
pub use node::SimulatedNode;
pub use outcome::{LinkOutcome, LinkSample, NodeOutcome, Outcome, PathSample, TransferOutcome};
pub use run::Simulation;
pub use scenario::{
    Direction, Fault, FetchSpec, GuestSpec, Host, LinkSpec, NodeSpec, PlannedFault, Publication, RunUntil, Scenario,
    ScenarioError,
};
pub use store::object;
