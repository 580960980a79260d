//! Rights in a network.
//!
//! ```text
//!   authority key ──signs──► Certificate   key, label, roles, name prefixes, validity, serial number
//!        │                        │
//!        └──signs──► Revocations  │        numbered; the higher number replaces the lower
//!                         │       │
//!                         ▼       ▼
//!                        Network::admit(key, certificate, now) ──► Grant   what the holder of the key may do
//! ```
//! One design serves all families: neighbours show their certificates in the handshake of a face, and signed control
//! messages refer to them. A network without an authority ([`Network`] absent) grants everything to everybody and suits
//! demonstrations only.
//!
//! [`Believed`] decides which publisher a fetch believes for a name.
//!
//! A certificate names one Ed25519 key. The node's X25519 key for handshakes and pair keys follows from it
//! ([`PublicKey::agreement_key`]), so that an authority can admit a node whose owner has read out one key.
//!
//! No clock, no input or output: the time is an argument.
//! ```
//! use tributary_content::SigningKey;
//! use tributary_trust::{Access, Certificate, Network, Roles, Terms, UnixTime};
//!
//! let authority = SigningKey::from_secret(&[1; 32]);
//! let node = SigningKey::from_secret(&[2; 32]).public();
//! let terms = Terms {
//!     serial: 1,
//!     key: node,
//!     label: "attic".into(),
//!     roles: Roles::ROUTER,
//!     prefixes: vec!["/lab".parse().unwrap()],
//!     not_before: UnixTime(1_000),
//!     not_after: UnixTime(2_000),
//! };
//! let certificate = Certificate::issue(&authority, terms).unwrap();
//! let network = Network::new(authority.public(), Access::Closed);
//! let grant = network.admit(&node, "attic", Some(&certificate), UnixTime(1_500)).unwrap();
//! assert!(grant.roles.contains(Roles::ROUTER) && grant.owns(&"/lab/image".parse().unwrap()));
//! assert!(network.admit(&node, "attic", Some(&certificate), UnixTime(2_000)).is_err());
//! ```
#![no_std]
extern crate alloc;

mod belief;
mod certificate;
mod identity;
mod network;
mod owners;
mod revocation;
mod roles;
mod spread;
mod text;

pub use belief::{Believed, Ground, Keys};
pub use certificate::{Certificate, IssueError, Terms};
pub use identity::{Identity, WallClock};
pub use network::{Access, BACKDATED, CLOCK_TOLERANCE, Grant, Network, Refusal};
pub use owners::{Claimants, check_signer, key_prefix, may_claim, owner_of};
pub use revocation::{Revocations, RevocationsError};
pub use roles::Roles;
pub use spread::{MESSAGE_BYTES_MAX as SPREAD_BYTES_MAX, Spread};
pub use text::TextError;
#[doc(no_inline)]
pub use tributary_content::PublicKey;

use core::fmt;

/// Seconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// The end of time: the end of everything without one.
    pub const MAX: UnixTime = UnixTime(u64::MAX);

    /// This many seconds later, limited to [`UnixTime::MAX`].
    pub fn after(self, seconds: u64) -> UnixTime {
        UnixTime(self.0.saturating_add(seconds))
    }
    /// Seconds from `earlier` to this; zero if it is not earlier.
    pub fn since(self, earlier: UnixTime) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
    /// Year, month, day, hour, minute and second in UTC.
    pub fn calendar(self) -> [u64; 6] {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        // Days of the civil calendar, from 0000-03-01 on, so that leap days come last (H. Hinnant, "chrono-compatible
        // low-level date algorithms").
        let shifted = days + 719_468;
        let (era, of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        [year, month, day, hour, minute, second % 60]
    }
}

impl fmt::Display for UnixTime {
    /// As `2026-11-27 01:46:00 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second] = self.calendar();
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn times_are_shown_as_dates() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_743_960, "2026-11-27 01:46:00 UTC"),
        ] {
            assert_eq!(UnixTime(seconds).to_string(), shown);
        }
        // Any content of a certificate can be displayed.
        assert!(!UnixTime::MAX.to_string().is_empty());
    }
}
