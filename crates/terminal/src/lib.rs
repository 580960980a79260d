//! How the programs `trib` and `trib-lab` speak to people and to other programs.
//!
//! ```text
//!  arguments ──► declaration of clap ──► help with examples, manual pages, completions, the book's page
//!  results   ──► out::data ──► stdout
//!  messages, errors, log ──► out::talk ──► stderr
//! ```
//!
//! | what | module |
//! |---|---|
//! | the only writers to stdout and stderr | [`out`] |
//! | rows in columns, lines that are safe on a terminal | [`table`] |
//! | how an error is reported, in a config too | [`failure`] |
//! | the log's levels and formats | [`log`] |
//! | declared arguments: examples, completions, manual pages | [`arguments`] |
//! | manual pages of config files | [`manual`] |
//! | QR codes | [`qr`] |
pub mod arguments;
pub mod failure;
pub mod log;
pub mod manual;
pub mod out;
pub mod qr;
pub mod table;
