//! What the tests of every family share.
//!
//! | question | tool |
//! |---|---|
//! | does this node keep the contract, and does its driver? | [`Checked`] around the node |
//! | does it survive any bytes, idle without spinning, and repeat itself? | [`conformance::run`] |
//! | are these bytes on the wire right? | [`golden`] |
//! | do the book's pages have the keys that a parser reads? | [`key_tables`] |
//! | do they have the arguments that a program declares? | [`command_page`] |
//! | does the schema of events allow this JSON line? | [`schema`] |
//! | which key does a fetch trust? | [`trust::run`] |
//! | does a cache serve many receivers at one time? | [`crowd::assert_all_are_served`] |
//! | how does a source behave while its disk hangs? | [`OnDisk`] |
//! | which data does a receiver have on its disk when it is killed? | [`Inbox`] |
//! | how does a client behave while members of its store fail? | [`etcd::EtcdCluster`] |
//! | how does a resolver behave while its store fails, restarts, reports no changes? | [`engine::MemoryStore`] |
//! | does a whole domain survive people, faults and liars? | [`vopr`] |
//! | how fast does real protocol code run in the simulator? | `chain` (feature `psi`) |
//!
//! # Example
//! ```
//! use tributary_core::{*, event::Event};
//! use tributary_testkit::conformance::{self, Conformance};
//!
//! #[derive(Default)]
//! struct Echo(Vec<(FaceId, Datagram)>);
//! impl Node for Echo {
//!     fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) { self.0.push((face, datagram)); }
//!     fn handle_timeout(&mut self, _: Time) {}
//!     fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
//!         let (face, datagram) = self.0.pop()?;
//!         out.push_datagram(datagram);
//!         Some(Transmit { face })
//!     }
//!     fn poll_timeout(&self) -> Option<(Time, TimerId)> { None }
//!     fn poll_event(&mut self) -> Option<Event> { None }
//! }
//!
//! // It echoes datagrams of any size, so its MTU is the largest there is.
//! conformance::run(Echo::default, &Conformance { mtu: 65_507, ..Conformance::default() });
//! ```

#[cfg(feature = "psi")]
pub mod chain;
pub mod checked;
pub mod command_page;
pub mod conformance;
pub mod crowd;
pub mod disk;
pub mod engine;
pub mod etcd;
pub mod golden;
pub mod inbox;
pub mod key_tables;
pub mod port;
pub mod schema;
pub mod trust;
pub mod vopr;

pub use checked::{Checked, Limits};
pub use disk::OnDisk;
pub use inbox::Inbox;
pub use port::port;

/// The same behaviour tested in several families, under the names by which it is found: calls of a function, or
/// statements.
///
/// ```
/// fn doubles(number: u8) {
///     assert_eq!(number * 2, number + number);
/// }
/// tributary_testkit::tests! {
///     doubles:
///     fn one_doubles(1);
///     fn two_doubles(2);
/// }
/// tributary_testkit::tests! {
///     fn one_and_one_are_two() = assert_eq!(1 + 1, 2);
/// }
/// ```
#[macro_export]
macro_rules! tests {
    ($(fn $name:ident() = $test:expr;)+) => {
        $(
            #[test]
            fn $name() {
                $test;
            }
        )+
    };
    ($test:ident: $(fn $name:ident($($argument:expr),*);)+) => {
        $(
            #[test]
            fn $name() {
                $test($($argument),*);
            }
        )+
    };
}
