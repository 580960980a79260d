//! Proof that a neighbour receives packets at its address, without state for addresses that have not proven it.
use core::net::{IpAddr, SocketAddr};
use tributary_core::{Duration, FaceId, Time};

use crate::is_equal;

pub(crate) const COOKIE_BYTES: usize = 17;

/// A cookie that the node sent to the address behind a face.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    epoch: u8,
    code: [u8; 16],
}

impl Cookie {
    /// `None` for zeros, which mean no cookie.
    pub(crate) fn read(bytes: &[u8]) -> Option<Cookie> {
        let (epoch, code) = bytes.split_first()?;
        let cookie = Cookie { epoch: *epoch, code: code.try_into().ok()? };
        (cookie.bytes() != [0; COOKIE_BYTES]).then_some(cookie)
    }
    pub(crate) fn bytes(self) -> [u8; COOKIE_BYTES] {
        let mut bytes = [0; COOKIE_BYTES];
        bytes[0] = self.epoch;
        bytes[1..].copy_from_slice(&self.code);
        bytes
    }
}

/// Who a cookie is for.
#[derive(Clone, Copy)]
pub(crate) enum Holder {
    Face(FaceId),
    /// An address that has no face.
    Address(SocketAddr),
}

/// Makes cookies and recognises them, for an address or for a face: its number is never given to another address soon, so
/// that it stands for it.
pub(crate) struct CookieJar {
    secret: [u8; 32],
}

/// A cookie is good in the epoch that it was made in and in the next one.
const EPOCH: Duration = Duration::from_secs(60);

impl CookieJar {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        CookieJar { secret }
    }
    pub(crate) fn make(&self, now: Time, holder: Holder) -> Cookie {
        self.of(epoch(now), holder)
    }
    pub(crate) fn is_valid(&self, now: Time, holder: Holder, cookie: &Cookie) -> bool {
        let age = epoch(now).wrapping_sub(u64::from(cookie.epoch)) as u8;
        let Some(made) = epoch(now).checked_sub(u64::from(age)) else { return false };
        age <= 1 && is_equal(&self.of(made, holder).code, &cookie.code)
    }
    fn of(&self, epoch: u64, holder: Holder) -> Cookie {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&epoch.to_be_bytes());
        match holder {
            Holder::Face(face) => hasher.update(&face.0.to_be_bytes()),
            Holder::Address(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                hasher.update(&ip.octets()).update(&address.port().to_be_bytes())
            }
        };
        let mut code = [0; 16];
        hasher.finalize_xof().fill(&mut code);
        Cookie { epoch: epoch as u8, code }
    }
}

fn epoch(now: Time) -> u64 {
    now.since(Time::ZERO).as_secs() / EPOCH.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_its_holder_and_for_a_while() {
        let address = |text: &str| Holder::Address(text.parse().expect("an address"));
        let holders = [
            Holder::Face(FaceId(7)),
            Holder::Face(FaceId(8)),
            address("192.0.2.1:7"),
            address("192.0.2.1:8"),
            address("[2001:db8::1]:7"),
        ];
        let jar = CookieJar::new([5; 32]);
        for (start, place) in [0, 59, 60, 255 * 60, 256 * 60, 1_000_000].into_iter().zip((0..holders.len()).cycle()) {
            let at = |seconds: u64| Time::ZERO + Duration::from_secs(start + seconds);
            let cookie = jar.make(at(0), holders[place]);
            assert_eq!(Cookie::read(&cookie.bytes()), Some(cookie));
            for (other, holder) in holders.iter().enumerate() {
                assert_eq!(jar.is_valid(at(59), *holder, &cookie), other == place, "{place} and {other}");
            }
            assert!(!jar.is_valid(at(121), holders[place], &cookie), "too old");
            assert!(!CookieJar::new([6; 32]).is_valid(at(0), holders[place], &cookie), "another node");
            let mut changed = cookie;
            changed.code[3] ^= 1;
            assert!(!jar.is_valid(at(0), holders[place], &changed));
        }
    }
}
