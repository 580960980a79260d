//! Small statistics.

/// The mean; zero of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}
/// The sample variance (divided by n − 1); zero of fewer than two.
pub fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}
/// Half the width of the 95 % confidence interval of the mean, by Student's t: ten runs estimate their variance too
/// poorly for the normal approximation, which would make the interval 13 % too short.
pub fn confidence(values: &[f64]) -> f64 {
    student(values.len().saturating_sub(1)) * (variance(values) / values.len().max(1) as f64).sqrt()
}
/// The 97.5 % quantile of Student's t by its Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), exact for one and two
/// degrees of freedom, for which the expansion is of no use.
fn student(freedom: usize) -> f64 {
    const NORMAL: f64 = 1.959_963_985;
    let n = freedom as f64;
    match freedom {
        0 => 0.0,
        1 => 12.706_205,
        2 => 4.302_653,
        _ => {
            let power = |exponent| NORMAL.powi(exponent);
            let first = (power(3) + NORMAL) / 4.0;
            let second = (5.0 * power(5) + 16.0 * power(3) + 3.0 * NORMAL) / 96.0;
            let third = (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * NORMAL) / 384.0;
            let fourth = (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * NORMAL)
                / 92_160.0;
            NORMAL + first / n + second / n.powi(2) + third / n.powi(3) + fourth / n.powi(4)
        }
    }
}
/// The value below which `share` (0 to 1) of the values lie, interpolated linearly; zero without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}
/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
pub fn jain(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares == 0.0 { 1.0 } else { values.iter().sum::<f64>().powi(2) / (values.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert!((mean(&values) - 5.0).abs() < 1e-12);
        assert!((variance(&values) - 32.0 / 7.0).abs() < 1e-12);
        assert!((median(&values) - 4.5).abs() < 1e-12 && (quantile(&values, 1.0) - 9.0).abs() < 1e-12);
        assert!((jain(&[1.0, 1.0, 1.0]) - 1.0).abs() < 1e-12 && (jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((mean(&[]), variance(&[1.0]), median(&[])), (0.0, 0.0, 0.0));
        // s = √(32/7), n = 8, t = 2.365.
        assert!((confidence(&values) - 2.364_6 * (32.0 / 7.0 / 8.0f64).sqrt()).abs() < 1e-3);
        assert_eq!((confidence(&[]), confidence(&[1.0])), (0.0, 0.0));
    }

    /// Printed tables of Student's t, two-sided 5 %.
    #[test]
    fn students_t_is_that_of_the_tables() {
        let table = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (9, 2.262), (19, 2.093), (99, 1.984)];
        for (freedom, quantile) in table {
            assert!((student(freedom) - quantile).abs() < 0.004, "{freedom}: {}", student(freedom));
        }
    }
}
