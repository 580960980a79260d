//! The `trib` program.
fn main() {}
