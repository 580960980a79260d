//! The greatest flow over given paths: a linear program, solved by the simplex method.
use alloc::{vec, vec::Vec};

/// A limit to what some of the variables come to together.
pub(super) struct Limit {
    pub(super) of: Vec<usize>,
    pub(super) most: f64,
}

/// Pivots for each row and column at most; what is found until then keeps within the limits all the same.
const PIVOTS_MAX: usize = 4;
const ZERO: f64 = 1e-9;

/// Values from zero on for which the sum of `weights` times values is greatest; each is in one of `limits` at least.
pub(super) fn greatest(weights: &[f64], limits: &[Limit]) -> Vec<f64> {
    let (rows, columns) = (limits.len(), weights.len());
    // Column `columns` holds what is left of the limits, row `rows` what another unit of each variable is worth.
    let mut table = vec![vec![0.0; columns + 1]; rows + 1];
    for (row, limit) in table.iter_mut().zip(limits) {
        limit.of.iter().for_each(|column| row[*column] = 1.0);
        row[columns] = limit.most;
    }
    table[rows][..columns].copy_from_slice(weights);
    // Variables beyond `columns` are what is left of a limit.
    let mut outside: Vec<usize> = (0..columns).collect();
    let mut inside: Vec<usize> = (columns..columns + rows).collect();
    for _ in 0..PIVOTS_MAX * (rows + columns) {
        let worth = &table[rows][..columns];
        let Some(enters) = (0..columns).max_by(|a, b| worth[*a].total_cmp(&worth[*b])) else { break };
        let steps = (0..rows).filter(|row| table[*row][enters] > ZERO);
        let step = |row: &usize| table[*row][columns] / table[*row][enters];
        let leaves = steps.min_by(|a, b| step(a).total_cmp(&step(b)));
        let Some(leaves) = leaves.filter(|_| table[rows][enters] > ZERO) else { break };
        pivot(&mut table, leaves, enters);
        core::mem::swap(&mut outside[enters], &mut inside[leaves]);
    }
    let mut values = vec![0.0; columns];
    for (variable, row) in inside.iter().zip(&table) {
        if let Some(value) = values.get_mut(*variable) {
            *value = row[columns];
        }
    }
    values
}

fn pivot(table: &mut [Vec<f64>], leaves: usize, enters: usize) {
    let by = core::mem::replace(&mut table[leaves][enters], 1.0);
    table[leaves].iter_mut().for_each(|cell| *cell /= by);
    let from = table[leaves].clone();
    let others = table.iter_mut().enumerate().filter(|(index, _)| *index != leaves);
    for (_, row) in others {
        let times = core::mem::replace(&mut row[enters], 0.0);
        row.iter_mut().zip(&from).for_each(|(cell, from)| *cell -= times * from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(weights: &[f64], limits: &[(&[usize], f64)]) -> Vec<f64> {
        let limits: Vec<Limit> = limits.iter().map(|(of, most)| Limit { of: of.to_vec(), most: *most }).collect();
        greatest(weights, &limits)
    }

    #[test]
    fn what_takes_less_room_goes_first() {
        // The first goes over both links.
        assert_eq!(flow(&[1.0; 3], &[(&[0, 1], 4.0), (&[0, 2], 3.0)]), [0.0, 4.0, 3.0]);
        assert_eq!(flow(&[1.0; 3], &[(&[0, 1], 4.0), (&[0, 2], 3.0), (&[1], 1.0)]), [0.0, 1.0, 3.0]);
        assert_eq!(flow(&[1.0, 1.1], &[(&[0, 1], 4.0)]), [0.0, 4.0], "of two that are alike the dearer one");
        assert_eq!(flow(&[1.0], &[(&[0], 0.0)]), [0.0]);
        assert_eq!(flow(&[], &[]), []);
    }
}
