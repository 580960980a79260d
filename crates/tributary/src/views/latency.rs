//! How long something took, over many times.
use serde::{Deserialize, Serialize};

/// Upper bounds of the buckets, in seconds: from an answer on the same machine to a resolver that does not answer.
const BOUNDS_SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

tributary_core::declared! {
    /// A distribution of times.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct LatencyView {
        /// Upper bounds of the buckets, in seconds, ascending.
        pub bounds_seconds: Vec<f64> = BOUNDS_SECONDS.into(),
        /// The count of each bucket; one more than there are bounds, for longer times.
        pub counts: Vec<u64> = vec![0; BOUNDS_SECONDS.len() + 1],
        /// Sum of all times.
        pub sum_seconds: f64 = 0.0,
    }
}

impl LatencyView {
    /// Adds one time.
    pub fn observe(&mut self, seconds: f64) {
        let bucket = self.bounds_seconds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum_seconds += seconds;
    }
    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_falls_into_the_first_bucket_that_holds_it() {
        let mut view = LatencyView::default();
        [0.0, 0.001, 0.0011, 10.0, 10.1, 1e9].into_iter().for_each(|seconds| view.observe(seconds));
        assert_eq!((view.counts[0], view.counts[1], view.counts[12], view.counts[13]), (2, 1, 1, 2));
        assert_eq!(view.count(), 6);
    }
}
