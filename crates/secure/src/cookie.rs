//! Proof that a neighbour receives packets at its address, without state for addresses that have not proven it.
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
    /// `None` for zeros, which stand for no cookie.
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

/// Makes cookies and recognises them. A face's number is never given to another address soon, so that it stands for it.
pub(crate) struct CookieJar {
    secret: [u8; 32],
}

/// A cookie is good in the epoch that it was made in and in the next one.
const EPOCH: Duration = Duration::from_secs(60);

impl CookieJar {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        CookieJar { secret }
    }
    pub(crate) fn make(&self, now: Time, face: FaceId) -> Cookie {
        self.of(epoch(now), face)
    }
    pub(crate) fn is_valid(&self, now: Time, face: FaceId, cookie: &Cookie) -> bool {
        let age = epoch(now).wrapping_sub(u64::from(cookie.epoch)) as u8;
        let Some(made) = epoch(now).checked_sub(u64::from(age)) else { return false };
        age <= 1 && is_equal(&self.of(made, face).code, &cookie.code)
    }
    fn of(&self, epoch: u64, face: FaceId) -> Cookie {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(&epoch.to_be_bytes()).update(&face.0.to_be_bytes());
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
    fn a_cookie_is_good_for_its_face_and_for_a_while() {
        let jar = CookieJar::new([5; 32]);
        for start in [0, 59, 60, 255 * 60, 256 * 60, 1_000_000] {
            let at = |seconds: u64| Time::ZERO + Duration::from_secs(start + seconds);
            let cookie = jar.make(at(0), FaceId(7));
            assert_eq!(Cookie::read(&cookie.bytes()), Some(cookie));
            assert!(jar.is_valid(at(0), FaceId(7), &cookie) && jar.is_valid(at(59), FaceId(7), &cookie));
            assert!(!jar.is_valid(at(0), FaceId(8), &cookie), "another face");
            assert!(!jar.is_valid(at(121), FaceId(7), &cookie), "too old");
            assert!(!CookieJar::new([6; 32]).is_valid(at(0), FaceId(7), &cookie), "another node");
            let mut changed = cookie;
            changed.code[3] ^= 1;
            assert!(!jar.is_valid(at(0), FaceId(7), &changed));
        }
    }
}
