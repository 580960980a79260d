//! Samples of paths and links at regular times, within a limit however long a run is.
use tributary_core::{Duration, Time};

use super::{LinkSample, PathSample};

/// Samples of a run so far. Before they exceed a limit, every second one is dropped, and from then on the interval is
/// twice as long.
pub(super) struct Samples {
    pub(super) paths: Vec<PathSample>,
    pub(super) links: Vec<LinkSample>,
    /// The moments that are kept.
    moments: Vec<Time>,
    /// `None` for never.
    interval: Option<Duration>,
    due: Time,
    samples_max: usize,
}

impl Samples {
    pub(super) fn new(interval: Option<Duration>, samples_max: usize) -> Samples {
        let due = interval.map_or(Time::MAX, |interval| Time::ZERO + interval);
        Samples { paths: Vec::new(), links: Vec::new(), moments: Vec::new(), interval, due, samples_max }
    }
    /// When the next sample is due; never without a request for samples.
    pub(super) fn due(&self) -> Option<Time> {
        self.interval.map(|_| self.due)
    }
    /// Takes the samples of `now`.
    pub(super) fn take(
        &mut self,
        now: Time,
        paths: impl IntoIterator<Item = PathSample>,
        links: impl IntoIterator<Item = LinkSample>,
    ) {
        self.paths.extend(paths);
        self.links.extend(links);
        self.moments.push(now);
        if self.paths.len() + self.links.len() > self.samples_max && self.moments.len() > 1 {
            self.thin();
        }
        self.due = now + self.interval.unwrap_or_default();
    }
    /// Keeps every second moment, the last one among them.
    fn thin(&mut self) {
        let parity = (self.moments.len() - 1) % 2;
        let mut index = 0;
        self.moments.retain(|_| {
            index += 1;
            (index - 1) % 2 == parity
        });
        let kept = |time: Time| self.moments.binary_search(&time).is_ok();
        self.paths.retain(|sample| kept(sample.time));
        self.links.retain(|sample| kept(sample.time));
        self.interval = self.interval.map(|interval| interval * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(time: Time, link: usize) -> LinkSample {
        let out_bytes = time.as_nanos();
        LinkSample { time, link, out_bytes, out_packets: 0, queue_bytes: 0, dropped_packets: 0, rate: None }
    }

    #[test]
    fn a_run_of_any_length_keeps_a_limited_number_of_evenly_spaced_samples() {
        let mut samples = Samples::new(Some(Duration::from_millis(10)), 100);
        let mut most = 0;
        while let Some(now) = samples.due().filter(|due| *due < Time::from_millis(1_000_000)) {
            samples.take(now, [], (0..6).map(|index| link(now, index)));
            most = most.max(samples.links.len());
        }
        assert!((48..=100).contains(&samples.links.len()) && most <= 100, "{most}");
        let times: Vec<Time> = samples.links.iter().step_by(6).map(|sample| sample.time).collect();
        let gap = times[1].since(times[0]);
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) == gap), "{times:?}");
        assert!(times.iter().any(|time| *time > Time::from_millis(900_000)), "the end is covered as the start is");
    }

    #[test]
    fn samples_of_one_moment_are_kept_even_beyond_the_limit() {
        let mut samples = Samples::new(Some(Duration::from_millis(10)), 3);
        for _ in 0..10 {
            let now = samples.due().unwrap();
            samples.take(now, [], (0..6).map(|index| link(now, index)));
        }
        assert_eq!(samples.links.len(), 6);
        assert_eq!(Samples::new(None, 3).due(), None);
    }
}
