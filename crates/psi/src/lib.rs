//! Publish-Subscribe Internetworking with mmFTP.
#![no_std]
extern crate alloc;
pub mod capability;
pub mod config;
pub mod control;
pub mod ids;
pub mod pubsub;
pub mod router;
pub mod resolver;
pub mod wire;

#[cfg(test)]
mod testing;
pub mod receiver;
pub mod sender;
