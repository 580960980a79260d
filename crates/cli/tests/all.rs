//! The program from outside. One test program for all: most tests wait for daemons, and these wait together.
mod common;

mod api;
mod causes;
mod dashboard;
mod disk;
mod engines;
mod folders;
mod forwarding;
mod gateway;
#[cfg(feature = "kademlia")]
mod kademlia;
mod machines;
mod metrics;
mod mf;
mod ndn;
mod ndn_interop;
mod network;
mod parts;
mod policies;
mod program;
mod python;
mod queue;
mod ranges;
mod roles;
mod sealed;
mod serve;
mod service;
mod sim;
mod versions;
mod web;
