//! The Interests for one packet until it arrives: the last one, and enough of the earlier ones to decide which of them
//! an answer may belong to.
use alloc::vec::Vec;

use tributary_core::{Duration, PathId, Time};
use tributary_transport::transfer::{Answers, CacheUse};

use crate::wire::lp::Origin;

/// Paths whose requests for one packet are distinguished; earlier ones over further paths count as sent over other
/// paths until they expire.
const PATHS_REPORTED_MAX: usize = 8;
/// Forwarders suppress no duplicate that arrives later than this: NFD for up to 250 ms, ndnd for 400 ms.
const HELD_BACK_MAX: Duration = Duration::from_millis(500);

/// The form in which an Interest requests a packet: its selectors. No name continues a packet's, so all request the
/// same Data.
///
/// A forwarder treats two Interests as duplicates if names and selectors are equal, and drops duplicates silently. A
/// lost packet is requested in another form: its Interest gets a separate entry wherever the former one is still
/// pending.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Form {
    pub(super) can_be_prefix: bool,
    /// Stale copies in caches do not answer, so this is not the first choice.
    pub(super) must_be_fresh: bool,
}

impl Form {
    fn next(self) -> Form {
        Form { can_be_prefix: !self.can_be_prefix, must_be_fresh: self.must_be_fresh != self.can_be_prefix }
    }
}

/// A request of the engine: its path and its number there.
pub(super) type Request = (PathId, u16);

/// The token that the Interests of a request carry to this node's router.
pub(super) fn token_of((PathId(path), number): Request) -> [u8; 4] {
    (u32::from(path) << 16 | u32::from(number)).to_be_bytes()
}

tributary_core::declared! {
    /// The path and request that a packet was last requested by.
    pub(super) struct PacketRequests {
        pub(super) path: PathId = path,
        pub(super) number: u16 = number,
        pub(super) form: Form = Form::default(),
        /// Whether caches may answer the last Interest for it.
        pub(super) caches: CacheUse = CacheUse::Allowed,
        /// The longest lifetime of the Interests for it.
        lifetime: Duration = lifetime,
        at: Time = now,
        /// The requests before, the last one of each path: the answer may be one to them. When it is surely lost or has
        /// expired, so have those before it over that path.
        before: Vec<FormerRequest> = Vec::new(),
    }
    /// The first request for a packet.
    pub(super) fn first(now: Time, path: PathId, number: u16, lifetime: Duration) {}
}

/// A request for a packet that was requested again later.
#[derive(Clone, Copy)]
struct FormerRequest {
    /// Its path and request; `None` for several that cannot be distinguished anymore.
    by: Option<Request>,
    /// When its Interest is pending no more.
    expires: Time,
    /// Whether caches might answer it.
    caches: CacheUse,
}

impl PacketRequests {
    /// The packet is requested again.
    pub(super) fn again(self, now: Time, path: PathId, number: u16, lifetime: Duration) -> PacketRequests {
        let form = if now < self.at + HELD_BACK_MAX { self.form.next() } else { Form::default() };
        let mut before = self.before;
        before.retain(|before| before.by.is_none_or(|(path, _)| path != self.path));
        before.push(FormerRequest {
            by: Some((self.path, self.number)),
            expires: self.at + self.lifetime,
            caches: self.caches,
        });
        if before.len() > PATHS_REPORTED_MAX {
            // They expire in their order.
            let first = before.remove(0);
            before[0].by = None;
            if first.caches == CacheUse::Allowed {
                before[0].caches = CacheUse::Allowed;
            }
        }
        PacketRequests {
            form,
            lifetime: lifetime.max(self.lifetime),
            before,
            ..PacketRequests::first(now, path, number, lifetime)
        }
    }
    /// Whether it was requested exactly once.
    pub(super) fn is_first(&self) -> bool {
        self.before.is_empty()
    }
    /// The last request for it.
    pub(super) fn last(&self) -> Request {
        (self.path, self.number)
    }
    /// The request before over the same path as the last one.
    pub(super) fn earlier(&self) -> Option<u16> {
        let of_path = |before: &FormerRequest| before.by.filter(|(path, _)| *path == self.path);
        self.before.iter().find_map(of_path).map(|(_, number)| number)
    }
    /// The Interests for it that Data of `origin` at `now` may answer: this node's router gives an answer of a cache to
    /// no Interest that bypassed caches. `is_apart` says of a path that the Data cannot have used it, and `is_lost` of
    /// a path and a request that its answer cannot arrive anymore. Where paths meet, Data goes to all waiting faces:
    /// this path may deliver, out of order, Data that another path brought to the meeting point.
    pub(super) fn answers(
        &self,
        now: Time,
        origin: Option<Origin>,
        is_apart: impl Fn(PathId) -> bool,
        is_lost: impl Fn(PathId, u16) -> bool,
    ) -> Answers {
        if origin.is_some() && self.caches == CacheUse::Bypassed {
            return Answers::Any;
        }
        let answers_of = |before: &FormerRequest| {
            let went_past = origin == Some(Origin::Cache) && before.caches == CacheUse::Bypassed;
            if went_past || before.by.is_some_and(|(path, _)| is_apart(path)) {
                return Answers::This;
            }
            let is_same_path = before.by.is_some_and(|(path, _)| path == self.path);
            let is_gone = before.expires <= now || before.by.is_some_and(|(path, number)| is_lost(path, number));
            match (is_same_path, is_gone) {
                (true, true) => Answers::This,
                (true, false) | (false, true) => Answers::OneOfSeveral,
                (false, false) => Answers::Any,
            }
        };
        self.before.iter().map(answers_of).max().unwrap_or(Answers::This)
    }
}

#[cfg(test)]
mod tests {
    use tributary_core::Random;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(2);

    /// Requests packets 4,000 times over `paths` paths, with a complete memory of requests as oracle: how often the two
    /// differ.
    fn differences(paths: u64, seed: u64) -> usize {
        let mut random = Random::new(seed, 1);
        let mut now = Time::ZERO;
        let mut requested = PacketRequests::first(now, PathId(0), 0, LIFETIME);
        let mut all: Vec<(PathId, u16, Time)> = Vec::new();
        // Up to which request of each path answers are lost.
        let mut lost = alloc::vec![0; paths as usize];
        let mut differences = 0;
        for number in 1..4000 {
            all.push((requested.path, requested.number, requested.at + requested.lifetime));
            let pause_max = if random.chance(0.02) { 4_000 } else { 100 };
            now += Duration::from_millis(random.below(pause_max));
            let path = random.below(paths) as usize;
            requested = requested.again(now, PathId(path as u16), number, LIFETIME);
            assert!(requested.before.len() <= PATHS_REPORTED_MAX.min(paths as usize));
            let overtakes = number - random.below(u64::from(number).min(12)) as u16;
            match random.chance(0.1) {
                true => lost.fill(number),
                false => lost[random.below(paths) as usize] = overtakes,
            }
            let is_lost = |path: PathId, number: u16| number < lost[usize::from(path.0)];
            let answers_of = |(path, number, expires): &(PathId, u16, Time)| match (
                *path == requested.path,
                *expires <= now || is_lost(*path, *number),
            ) {
                (true, true) => Answers::This,
                (true, false) | (false, true) => Answers::OneOfSeveral,
                (false, false) => Answers::Any,
            };
            let (reported, exact) =
                (requested.answers(now, None, |_| false, is_lost), all.iter().map(answers_of).max().unwrap());
            assert!(reported >= exact, "what may be another's is never taken for the last one's");
            differences += usize::from(reported != exact);
        }
        differences
    }

    #[test]
    fn the_last_request_of_each_path_tells_as_much_as_all() {
        for paths in 1..=PATHS_REPORTED_MAX as u64 {
            assert_eq!(differences(paths, paths), 0, "over {paths} paths");
        }
        assert!(differences(PATHS_REPORTED_MAX as u64 + 8, 1) > 0, "beyond that it is not exact");
    }

    #[test]
    fn what_a_cache_has_answered_is_no_answer_to_what_went_past_caches() {
        let now = Time::from_millis(10);
        let answers = |first: CacheUse, last: CacheUse, origin: Option<Origin>| {
            let mut requested = PacketRequests::first(Time::ZERO, PathId(1), 0, LIFETIME);
            requested.caches = first;
            let mut requested = requested.again(now, PathId(2), 1, LIFETIME);
            requested.caches = last;
            requested.answers(now, origin, |_| false, |_, _| false)
        };
        let (allowed, past) = (CacheUse::Allowed, CacheUse::Bypassed);
        assert_eq!(answers(past, allowed, Some(Origin::Cache)), Answers::This);
        assert_eq!(answers(allowed, past, Some(Origin::Cache)), Answers::Any);
        assert_eq!(answers(allowed, allowed, Some(Origin::Cache)), Answers::Any);
        // A producer may have answered either.
        assert_eq!(answers(past, allowed, None), Answers::Any);
        assert_eq!(answers(past, allowed, Some(Origin::Aggregation)), Answers::Any);
    }

    #[test]
    fn what_is_asked_for_at_once_again_has_another_form_four_times() {
        let mut requested = PacketRequests::first(Time::ZERO, PathId(1), 0, LIFETIME);
        let mut forms = alloc::vec![requested.form];
        for number in 1..4 {
            requested = requested.again(Time::from_millis(10), PathId(1), number, LIFETIME);
            assert!(!forms.contains(&requested.form));
            forms.push(requested.form);
        }
        assert_eq!(requested.again(Time::from_millis(510), PathId(1), 4, LIFETIME).form, Form::default());
    }
}
