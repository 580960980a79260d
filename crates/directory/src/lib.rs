//! What the resolvers of `psi` and `mf` share. It does no I/O and is independent of the records of both families.
#![no_std]
extern crate alloc;

pub mod holdings;
