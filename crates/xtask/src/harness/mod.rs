//! What all benchmarks share.
pub(crate) mod emulator;
pub(crate) mod figure;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod process;
pub(crate) mod rounds;
pub(crate) mod stage;
pub(crate) mod targets;
pub(crate) mod tools;
pub(crate) mod trib;
