//! The policies of faces at this time of day, and the used part of their quotas.
//!
//! The usage is written ahead: the file states at least the bytes that have passed, so that a killed node counts a
//! little too much rather than too little, and so that a quota costs about [`WRITES_PER_QUOTA`] writes.
//!
//! A quota is a promise to the person who pays for the uplink, so a wrong clock forgets no usage. A later period starts
//! immediately. When the clock is set back, later usage counts in the earlier period too, and belongs to it for good
//! once the clock has stayed there for [`SETTLE`]. A date before [`FIRST_DAY`] comes from a clock that was never set:
//! the latest period continues.
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tributary_core::{ByteCount, Duration, FaceId, Rate, Time};
use tributary_net::disk::{
    age::SETTLE,
    fs::{self, FileSystem},
};
use tributary_transport::policy::FacePolicy;

use super::membership::time_of_day;
use crate::{
    config::{FaceConfig, FacePolicyConfig, QuotaEnd, QuotaPeriod},
    error::ApiError,
    state_file::StateFile,
    views::{FacePolicyView, FaceView, QuotaView},
};

/// The file in the folder of a node's state.
fn file<'a>(fs: &'a dyn FileSystem, state_dir: &Path) -> StateFile<'a> {
    StateFile::new(fs, state_dir, "quotas.json", "move it away to begin with no usage of quotas")
}
/// Into how many parts a quota is divided that are written ahead.
const WRITES_PER_QUOTA: u64 = 100;
/// Interval of checks of policies.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// The same for faces with a quota, unless it ends soon: at least this much passes until a face's rate is known.
const QUOTA_LOOK: Duration = Duration::from_millis(100);
/// The minimum interval, when a quota ends soon.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// Periods before the latest whose usage is remembered.
const EARLIER_MAX: usize = 4;
/// Clocks that were set show this day or a later one.
const FIRST_DAY: &str = "2020-09-01";

/// Usage of the faces with quotas.
#[derive(Debug)]
pub(crate) struct Policies {
    fs: Arc<dyn FileSystem>,
    state_dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the label of a face, or its neighbour.
    usage: BTreeMap<String, Usage>,
    /// The driver's counters at the last query, and its time.
    counted: BTreeMap<FaceId, u64>,
    counted_at: Time,
    /// The policies that the node got last.
    applied: BTreeMap<FaceId, FacePolicy>,
    /// The last failure to write, so that it is reported once.
    failure: Option<String>,
}

/// Usage of one face.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    /// The first day of the latest period that the clock has shown.
    since: String,
    /// Bytes that may have passed in it.
    bytes: u64,
    /// Bytes that have passed, which only a running node knows.
    #[serde(skip)]
    passed: u64,
    /// Bytes of the periods before, by their first days.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    earlier: BTreeMap<String, u64>,
    /// The period before the latest that the clock was set back to, and since when it shows that.
    #[serde(skip)]
    set_back: Option<(String, Time)>,
}

impl Usage {
    /// The clock shows this period. Returns whether to write that, and a line for the log if the clock was set back.
    fn turn(&mut self, now: Time, period: String) -> (bool, Option<String>) {
        let was_never_set = period.as_str() < FIRST_DAY && !self.since.is_empty();
        if period == self.since || was_never_set {
            self.set_back = None;
            return (false, None);
        }
        if period > self.since {
            let old = std::mem::replace(&mut self.since, period);
            self.set_back = None;
            // What passed before the clock was set belongs to the period in which it is set.
            if !old.is_empty() && old.as_str() >= FIRST_DAY {
                self.earlier.insert(old, self.passed);
                (self.bytes, self.passed) = (0, 0);
                if self.earlier.len() > EARLIER_MAX {
                    self.earlier.pop_first();
                }
            }
            return (true, None);
        }
        match &self.set_back {
            Some((to, at)) if *to == period && now.since(*at) < SETTLE => (false, None),
            Some((to, _)) if *to == period => {
                self.passed = self.used();
                self.bytes = self.passed;
                self.earlier.retain(|day, _| *day < period);
                (self.since, self.set_back) = (period, None);
                (true, None)
            }
            _ => {
                let line = format!("the clock was set back to the period of {period}; later usage still counts");
                self.set_back = Some((period, now));
                (false, Some(line))
            }
        }
    }
    /// Bytes that count in the period that the clock shows.
    fn used(&self) -> u64 {
        let earlier = self.set_back.iter().flat_map(|(period, _)| self.earlier.range(period.clone()..));
        earlier.fold(self.passed, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// A moment of the local calendar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    date: Date,
    /// Of the day.
    minute: u16,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        let at = i64::try_from(time_of_day().0).unwrap_or(i64::MAX);
        let at = Timestamp::from_second(at).unwrap_or(Timestamp::MAX);
        let at = TimeZone::system().to_datetime(at);
        let [hour, minute] = [at.hour(), at.minute()].map(|number| u16::from(number.unsigned_abs()));
        Moment { date: at.date(), minute: hour * 60 + minute }
    }
    /// The first day of the period that this moment is in.
    fn period(self, per: QuotaPeriod) -> String {
        match per {
            QuotaPeriod::Day => self.date.to_string(),
            QuotaPeriod::Month => self.date.first_of_month().to_string(),
        }
    }
}

impl Policies {
    /// Reads the file in `state_dir`, if it exists.
    ///
    /// # Errors
    /// [`ApiError`] if it cannot be read or is damaged.
    pub(crate) fn open(state_dir: &Path) -> Result<Self, ApiError> {
        Self::on(fs::real(), state_dir)
    }
    fn on(fs: Arc<dyn FileSystem>, state_dir: &Path) -> Result<Self, ApiError> {
        let mut usage: BTreeMap<String, Usage> = file(&*fs, state_dir).read()?;
        usage.values_mut().for_each(|usage| usage.passed = usage.bytes);
        Ok(Policies { fs, state_dir: state_dir.into(), state: Mutex::new(State { usage, ..State::default() }) })
    }
    /// Whether the node never had a policy.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().applied.is_empty()
    }
    /// Takes the driver's counters of the faces at `now`. Returns the changed policies, and when to call again.
    pub(crate) fn update(
        &self,
        now: Time,
        moment: Moment,
        faces: &[(FaceId, FaceConfig)],
        counted: &BTreeMap<FaceId, u64>,
    ) -> (Vec<(FaceId, FacePolicy)>, Duration, Result<(), ApiError>) {
        let mut state = self.state.lock();
        let mut pause = LOOK;
        let (mut is_unwritten, mut changed) = (false, Vec::new());
        let mut lines = Vec::new();
        let elapsed = now.since(state.counted_at);
        for (id, face) in faces {
            let total = counted.get(id).copied().unwrap_or(0);
            // A face whose address was resolved again counts from zero.
            let passed = total.checked_sub(state.counted.insert(*id, total).unwrap_or(0)).unwrap_or(total);
            if let Some(quota) = face.policy.quota {
                pause = pause.min(QUOTA_LOOK);
                let usage = state.usage.entry(key(face)).or_default();
                let (turned, line) = usage.turn(now, moment.period(quota.per));
                is_unwritten |= turned;
                lines.extend(line.map(|line| format!("quota of '{}': {line}", key(face))));
                usage.passed = usage.passed.saturating_add(passed);
                if usage.passed > usage.bytes {
                    usage.bytes = usage.passed.saturating_add(quota.bytes / WRITES_PER_QUOTA);
                    is_unwritten = true;
                }
                let left = quota.bytes.saturating_sub(usage.used());
                if let Some(rate) = Rate::over(passed, elapsed).filter(|_| left > 0 && passed > 0) {
                    // At most half of the remaining quota is used until then.
                    pause = pause.min((rate.time_for(left) / 2).max(LOOK_MIN));
                }
            }
            let policy = policy_at(face, moment, state.usage.get(&key(face)));
            if state.applied.get(id) != Some(&policy)
                && (state.applied.contains_key(id) || policy != FacePolicy::default())
            {
                state.applied.insert(*id, policy.clone());
                changed.push((*id, policy));
            }
        }
        lines.iter().for_each(|line| tracing::info!("{line}"));
        state.counted_at = now;
        let written = if is_unwritten { self.write(&state.usage) } else { Ok(()) };
        let failure = written.as_ref().err().map(ToString::to_string);
        let is_news = failure.is_some() && failure != state.failure;
        state.failure = failure;
        (changed, pause, if is_news { written } else { Ok(()) })
    }
    /// Writes how much has passed exactly, for a node that stops.
    pub(crate) fn settle(&self) -> Result<(), ApiError> {
        let mut state = self.state.lock();
        if state.usage.values().all(|usage| usage.bytes == usage.passed) {
            return Ok(());
        }
        state.usage.values_mut().for_each(|usage| usage.bytes = usage.passed);
        self.write(&state.usage)
    }
    fn write(&self, usage: &BTreeMap<String, Usage>) -> Result<(), ApiError> {
        file(&*self.fs, &self.state_dir).write(usage)
    }
    /// Adds the facts that a person should know about a face's policy.
    pub(crate) fn describe(&self, id: FaceId, face: &FaceConfig, view: &mut FaceView) {
        view.label.clone_from(&face.label);
        if face.policy == FacePolicyConfig::default() {
            return;
        }
        let state = self.state.lock();
        let now = state.applied.get(&id).cloned().unwrap_or_default();
        view.policy = Some(FacePolicyView {
            cost: now.cost,
            backup: now.is_backup,
            quota: face.policy.quota.map(|quota| QuotaView {
                bytes: quota.bytes,
                used_bytes: state.usage.get(&key(face)).map_or(0, Usage::used),
                per: quota.per,
            }),
            limit_mbps: now.rate.map(|rate| rate.mbps()),
            closed: now.closed,
        });
    }
}

/// What a face's usage is kept under: its number changes when the config does.
fn key(face: &FaceConfig) -> String {
    let uplink = face.device.clone().or_else(|| face.local.map(|local| local.ip().to_string()));
    match (&face.label, uplink) {
        (Some(label), _) => label.clone(),
        (None, Some(uplink)) => format!("{} over {uplink}", face.peer),
        (None, None) => face.peer.to_string(),
    }
}

/// What holds for a face at this moment.
fn policy_at(face: &FaceConfig, moment: Moment, usage: Option<&Usage>) -> FacePolicy {
    let config = &face.policy;
    let ended = config.quota.filter(|quota| usage.is_some_and(|usage| usage.used() >= quota.bytes));
    let rate = config.schedule.iter().find(|limit| limit.holds_at(moment.minute)).map(|limit| limit.rate);
    let is_closed_now = rate.is_some_and(|rate| rate.bits_per_second() == 0);
    let name = key(face);
    let closed = match ended {
        Some(quota) if quota.at_end == QuotaEnd::Stop => {
            let per = match quota.per {
                QuotaPeriod::Day => "day",
                QuotaPeriod::Month => "month",
            };
            Some(format!("the quota of '{name}' is used up: {} per {per}", ByteCount(quota.bytes)))
        }
        _ => is_closed_now.then(|| format!("the schedule of '{name}' allows nothing at this time of day")),
    };
    FacePolicy {
        cost: config.cost,
        is_backup: config.is_backup || ended.is_some_and(|quota| quota.at_end == QuotaEnd::Backup),
        rate: rate.filter(|_| !is_closed_now),
        closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Quota, ScheduledRate, Security};

    const MIB: u64 = 1 << 20;

    fn face(policy: FacePolicyConfig) -> FaceConfig {
        FaceConfig {
            peer: "192.0.2.7:7001".parse().unwrap(),
            local: None,
            device: None,
            mtu: 1472,
            rate: None,
            egress: None,
            security: Security::None,
            peer_key: None,
            invited_until: None,
            label: Some("wwan".into()),
            policy,
        }
    }
    fn at(text: &str, minute: u16) -> Moment {
        Moment { date: text.parse().unwrap(), minute }
    }
    fn metered(bytes: u64, per: QuotaPeriod, at_end: QuotaEnd) -> FaceConfig {
        face(FacePolicyConfig { quota: Some(Quota { bytes, per, at_end }), ..FacePolicyConfig::default() })
    }
    const ID: FaceId = FaceId(1);

    #[test]
    fn a_quota_closes_its_face_until_the_next_day_and_survives_kills_with_few_writes() {
        let folder = tempfile::tempdir().unwrap();
        let face = metered(100 * MIB, QuotaPeriod::Day, QuotaEnd::Stop);
        let faces = [(ID, face)];
        let mut policies = Policies::open(folder.path()).unwrap();
        let (mut passed, mut writes, mut text) = (0, 0, Vec::new());
        let mut now = Time::ZERO;
        let is_closed =
            |policies: &Policies| policies.state.lock().applied.get(&ID).is_some_and(|of| of.closed.is_some());
        let mut total = 0;
        while !is_closed(&policies) {
            passed += MIB / 10;
            total += MIB / 10;
            now += Duration::from_millis(10);
            policies.update(now, at("2026-11-27", 600), &faces, &[(ID, passed)].into()).2.unwrap();
            let new = std::fs::read(folder.path().join("quotas.json")).unwrap_or_default();
            writes += usize::from(new != text);
            text = new;
            if total == 50 * (MIB / 10) * 10 {
                // Killed: usage that was written ahead counts, and the driver counts from zero.
                (policies, passed) = (Policies::open(folder.path()).unwrap(), 0);
            }
        }
        assert!((99 * MIB - MIB..=100 * MIB + MIB / 10).contains(&total), "{total}");
        assert!(writes <= WRITES_PER_QUOTA as usize + 3, "{writes} writes");
        let policies = Policies::open(folder.path()).unwrap();
        policies.update(now, at("2026-11-27", 1_439), &faces, &BTreeMap::new()).2.unwrap();
        assert!(is_closed(&policies), "a restart changes nothing");
        policies.update(now, at("2026-11-28", 0), &faces, &BTreeMap::new()).2.unwrap();
        assert!(!is_closed(&policies), "a new day");
    }

    #[test]
    fn the_end_of_a_quota_is_looked_for_as_closely_as_the_rate_asks_for() {
        let folder = tempfile::tempdir().unwrap();
        let faces = [(ID, metered(10 * MIB, QuotaPeriod::Month, QuotaEnd::Backup))];
        let policies = Policies::open(folder.path()).unwrap();
        let pause = |ms, bytes| {
            let at = at("2026-11-27", 0);
            policies.update(Time::from_millis(ms), at, &faces, &[(ID, bytes)].into()).1
        };
        assert_eq!(pause(500, 0), QUOTA_LOOK);
        assert_eq!(pause(1_000, MIB), QUOTA_LOOK, "9 MiB at 2 MiB/s are left");
        assert_eq!(pause(1_500, 9 * MIB), Duration::from_nanos(31_250_000), "1 MiB at 16 MiB/s");
        pause(1_600, 10 * MIB);
        let policy = policies.state.lock().applied[&ID].clone();
        assert_eq!((policy.is_backup, policy.closed), (true, None));
    }

    #[test]
    fn no_step_of_the_clock_forgets_what_has_passed() {
        let folder = tempfile::tempdir().unwrap();
        let faces = [(ID, metered(100 * MIB, QuotaPeriod::Month, QuotaEnd::Stop))];
        let mut policies = Policies::open(folder.path()).unwrap();
        let (mut now, mut total) = (Time::ZERO, 0);
        // The clock's time, its duration, whether the node has restarted, and the MiB that count: one more passes at
        // each.
        for (date, seconds, is_new, counts) in [
            ("1970-01-01", 1, false, 1),
            ("2026-10-31", 1, false, 2),
            ("2026-11-01", 1, false, 1),
            ("2026-10-31", 1, false, 4),
            ("2026-11-01", 1, false, 3),
            ("1970-01-01", 900, true, 4),
            ("2026-11-01", 1, true, 5),
            ("2028-03-01", 1, false, 1),
            ("2026-12-01", 1, false, 2),
            ("2026-12-31", 700, false, 3),
            ("2027-01-01", 1, true, 1),
        ] {
            if is_new {
                policies.settle().unwrap();
                (policies, total) = (Policies::open(folder.path()).unwrap(), 0);
            }
            total += MIB;
            for _ in 0..2 {
                policies.update(now, at(date, 1), &faces, &[(ID, total)].into()).2.unwrap();
                now += Duration::from_secs(seconds);
            }
            assert_eq!(policies.state.lock().usage["wwan"].used(), counts * MIB, "{date}");
        }
    }

    #[test]
    fn a_schedule_holds_over_midnight() {
        let limit = |from, to, mbps| ScheduledRate { from, to, rate: Rate::from_mbps(mbps) };
        let schedule = vec![limit(22 * 60, 6 * 60, 0), limit(8 * 60, 18 * 60, 2)];
        let face = face(FacePolicyConfig { schedule, ..FacePolicyConfig::default() });
        let at = |minute| policy_at(&face, at("2026-11-27", minute), None);
        assert!(at(23 * 60).closed.is_some() && at(0).closed.is_some() && at(6 * 60).closed.is_none());
        assert_eq!([at(7 * 60).rate, at(9 * 60).rate, at(18 * 60).rate], [None, Some(Rate::from_mbps(2)), None]);
    }
}
