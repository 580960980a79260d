//! Time, byte counts and rates.
use alloc::string::String;
use core::{
    fmt,
    ops::{Add, AddAssign, Sub},
    str::FromStr,
};

pub use core::time::Duration;

/// A point in time: nanoseconds since the driver's epoch. It never goes back within one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }
    /// The point `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis * 1_000_000)
    }
    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// The time that passed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
/// The earlier of two deadlines; `None` is later than any.
#[inline]
pub fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, rhs: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}
impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, rhs: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteCount(pub u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) if self.0.is_multiple_of(*unit) => write!(f, "{} {name}", self.0 / unit),
            Some((unit, name)) => write!(f, "{:.1} {name}", self.0 as f64 / *unit as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}
impl FromStr for ByteCount {
    type Err = UnitError;
    /// Reads `512`, `64KiB`, `48MB`, `1.5 GiB`; KB, MB, GB, TB are powers of ten, KiB … TiB of two.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [
            ("", 1.0),
            ("B", 1.0),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("TB", 1e12),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
            ("TiB", 1_099_511_627_776.0),
        ];
        parse_with_units(text, &units, "a size such as 512, 64KiB or 48MB").map(|v| ByteCount(v as u64))
    }
}

/// Bits per second. Zero means "nothing passes"; "unlimited" is written as `Option::None`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Rate(u64);

impl Rate {
    /// `bits` bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Rate(bits)
    }
    /// `mbps` million bits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Rate(mbps * 1_000_000)
    }
    /// `bytes` bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Rate(bytes.saturating_mul(8))
    }
    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
    /// Million bits per second.
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The average rate of `bytes` over `time`; `None` if no time passed.
    pub fn over(bytes: u64, time: Duration) -> Option<Rate> {
        let nanos = time.as_nanos();
        (nanos > 0).then(|| Rate(divide(u128::from(bytes) * 8_000_000_000, nanos)))
    }
    /// How long `bytes` take at this rate; `Duration::MAX` at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        Duration::from_nanos(divide(u128::from(bytes) * 8_000_000_000, u128::from(self.0)))
    }
    /// The complete bytes that pass in `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        divide(u128::from(self.0) * time.as_nanos(), 8_000_000_000)
    }
}
/// The quotient, or the largest number if it is larger. Division of 128-bit integers costs ten times as much, and only
/// absurd amounts need it.
fn divide(dividend: u128, divisor: u128) -> u64 {
    match (u64::try_from(dividend), u64::try_from(divisor)) {
        (Ok(dividend), Ok(divisor)) => dividend / divisor,
        _ => u64::try_from(dividend / divisor).unwrap_or(u64::MAX),
    }
}
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mbit/s", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} Gbit/s", self.0 as f64 / 1e9),
        }
    }
}
impl FromStr for Rate {
    type Err = UnitError;
    /// Reads `10Mbps`, `1.5 Gbps`, `800kbps`, `9600bps`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [("bps", 1.0), ("kbps", 1e3), ("Mbps", 1e6), ("Gbps", 1e9)];
        parse_with_units(text, &units, "a rate such as 800kbps, 10Mbps or 1.5Gbps").map(|v| Rate(v as u64))
    }
}

/// Reads a duration as people type it: `40ms`, `1.5s`, `200us`, `2min`, `1h`.
///
/// # Errors
/// [`UnitError`] names the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
    parse_with_units(text, &units, "a duration such as 40ms, 1.5s or 2min").map(|v| Duration::from_nanos(v as u64))
}

/// A number with a unit that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

fn parse_with_units(text: &str, units: &[(&str, f64)], expected: &'static str) -> Result<f64, UnitError> {
    let error = || UnitError { text: text.into(), expected };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(error)?.1;
    let number: f64 = number.parse().map_err(|_| error())?;
    let value = number * factor;
    if value > 9e18 { Err(error()) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn reads_units_as_typed_and_refuses_the_rest() {
        assert_eq!("10Mbps".parse::<Rate>(), Ok(Rate::from_mbps(10)));
        assert_eq!("1.5 Gbps".parse::<Rate>(), Ok(Rate::from_mbps(1500)));
        assert_eq!("48MB".parse::<ByteCount>(), Ok(ByteCount(48_000_000)));
        assert_eq!("1MiB".parse::<ByteCount>(), Ok(ByteCount(1 << 20)));
        assert_eq!(parse_duration("40ms"), Ok(Duration::from_millis(40)));
        for bad in ["", "ten", "10", "10Mb", "-1bps", "1.2.3Mbps", "9e9Gbps", "99999999999Gbps"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(
            "x".parse::<Rate>().unwrap_err().to_string(),
            "'x' is not a rate such as 800kbps, 10Mbps or 1.5Gbps"
        );
    }

    #[test]
    fn rate_and_time_are_each_others_inverse() {
        let rate = Rate::from_mbps(8);
        assert_eq!(rate.time_for(1_000_000), Duration::from_secs(1));
        assert_eq!(rate.bytes_in(Duration::from_secs(1)), 1_000_000);
        assert_eq!(Rate::over(1_000_000, Duration::from_secs(1)), Some(rate));
        assert_eq!(Rate::over(1, Duration::ZERO), None);
    }
}
