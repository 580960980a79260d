//! Publish-Subscribe Internetworking with mmFTP.
#![no_std]
extern crate alloc;
pub mod config;
pub mod wire;
