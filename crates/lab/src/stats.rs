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
/// Half the width of the 95 % confidence interval of the mean, by the normal approximation.
pub fn confidence(values: &[f64]) -> f64 {
    1.96 * (variance(values) / values.len().max(1) as f64).sqrt()
}
/// The value below which `share` (0 to 1) of the values lie, linear between neighbours; zero of nothing.
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
    }
}
