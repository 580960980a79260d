//! The program `trib-lab`: `trib lab` and `trib sim` continue as it.
pub(crate) mod args;
pub(crate) mod lab;
pub(crate) mod node;
pub(crate) mod sim;
