//! The façade from outside: config errors, operations in process and over the control socket, with a fake node in place
//! of a family.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod suite {
    mod config;
    mod control;
    mod documents;
    mod examples;
    mod fake;
    mod messages;
    mod nodes;
    mod operations;
    mod structure;
}
