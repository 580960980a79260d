//! How long bursts and pauses last.
use tributary_core::{Duration, Random};

/// A law of durations, given their mean.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Law {
    /// Always the mean.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Pareto with this shape, above 1. Shapes below 2 have no variance: sums of such sources are self-similar
    /// (Willinger et al. 1997), like the traffic of the Internet.
    Pareto(f64),
}

impl Law {
    /// A duration by this law.
    pub fn draw(self, mean: Duration, random: &mut Random) -> Duration {
        let mean = mean.as_nanos() as f64;
        // From 0 excluded to 1 included.
        let unit = 1.0 - random.unit();
        let nanos = match self {
            Law::Fixed => mean,
            Law::Exponential => -mean * libm::log(unit),
            // The mean of a Pareto law is scale × shape / (shape − 1).
            Law::Pareto(shape) => mean * (shape - 1.0) / shape * libm::pow(unit, -1.0 / shape),
        };
        Duration::from_nanos(nanos as u64).min(DURATION_MAX)
    }
}

/// A Pareto law with a small shape draws absurd values now and then.
const DURATION_MAX: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_mean_and_pareto_its_tail() {
        let mean = Duration::from_millis(10);
        for law in [Law::Fixed, Law::Exponential, Law::Pareto(2.5)] {
            let mut random = Random::new(1, 1);
            let draws: Vec<_> = (0..200_000).map(|_| law.draw(mean, &mut random).as_secs_f64()).collect();
            let average = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((average / 0.010 - 1.0).abs() < 0.02, "{law:?}: {average}");
        }
        // P(X > x) = (scale / x)^shape: with shape 1.5 and mean 10 ms the scale is 10/3 ms.
        let mut random = Random::new(2, 2);
        let draws: Vec<_> = (0..200_000).map(|_| Law::Pareto(1.5).draw(mean, &mut random).as_secs_f64()).collect();
        for x in [0.01, 0.1, 1.0] {
            let share = draws.iter().filter(|draw| **draw > x).count() as f64 / draws.len() as f64;
            let expected = (0.010 / 3.0 / x).powf(1.5);
            assert!((share / expected - 1.0).abs() < 0.25, "beyond {x}: {share} instead of {expected}");
        }
    }
}
