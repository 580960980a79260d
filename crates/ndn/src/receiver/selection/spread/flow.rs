//! The throughput of paths over links of limited capacity: the maximum flow, a linear program solved by the simplex
//! method, and the result of windows that share the links.
use alloc::{vec, vec::Vec};

/// A limit on the weighted sum of some variables.
pub(super) struct Limit {
    pub(super) of: Vec<(usize, f64)>,
    pub(super) most: f64,
}

/// Maximum pivots per row and column; the result after that still respects the limits.
const PIVOTS_MAX: usize = 4;
const ZERO: f64 = 1e-9;
/// Maximum steps towards a better set, and the factor that each must gain; a set with one path less may lose that much.
const IMPROVEMENTS_MAX: usize = 16;
const IMPROVED: f64 = 1.005;

/// Non-negative values for which the sum of `weights` times values is greatest; each is in at least one of `limits`.
pub(super) fn greatest(weights: &[f64], limits: &[Limit]) -> Vec<f64> {
    let (rows, columns) = (limits.len(), weights.len());
    // Column `columns` holds the rest of the limits, row `rows` the gain of another unit of each variable.
    let mut table = vec![vec![0.0; columns + 1]; rows + 1];
    for (row, limit) in table.iter_mut().zip(limits) {
        limit.of.iter().for_each(|(column, times)| row[*column] += times);
        row[columns] = limit.most;
    }
    table[rows][..columns].copy_from_slice(weights);
    // Variables beyond `columns` are the rests of limits.
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

/// Paths that grow alike until one of their limits is reached, as windows do that share links (max-min fairness).
pub(super) struct Fair<'a> {
    limits: &'a [Limit],
    /// The limits that each path falls under, and how many times.
    of_path: Vec<Vec<(usize, f64)>>,
}

impl<'a> Fair<'a> {
    pub(super) fn new(paths: usize, limits: &'a [Limit]) -> Fair<'a> {
        let mut of_path = vec![Vec::new(); paths];
        for (index, limit) in limits.iter().enumerate() {
            limit.of.iter().for_each(|(path, times)| of_path[*path].push((index, *times)));
        }
        Fair { limits, of_path }
    }
    /// The rate of each of `used`; those under no limit get as much as the last of the others.
    pub(super) fn rates(&self, used: &[usize]) -> Vec<f64> {
        let mut left: Vec<f64> = self.limits.iter().map(|limit| limit.most).collect();
        let mut counts = vec![0.0; left.len()];
        used.iter().flat_map(|path| &self.of_path[*path]).for_each(|(limit, times)| counts[*limit] += times);
        let (mut rates, mut growing) = (vec![None; used.len()], used.len());
        let mut grown = 0.0;
        while growing > 0 {
            let reached =
                (0..left.len()).filter(|limit| counts[*limit] > ZERO).map(|limit| left[limit] / counts[limit]);
            let step = reached.fold(f64::INFINITY, f64::min);
            if step.is_infinite() {
                break;
            }
            grown += step;
            left.iter_mut().zip(&counts).for_each(|(left, count)| *left -= step * count);
            for (path, rate) in used.iter().zip(&mut rates).filter(|(_, rate)| rate.is_none()) {
                if self.of_path[*path].iter().any(|(limit, _)| left[*limit] <= ZERO) {
                    *rate = Some(grown);
                    growing -= 1;
                    self.of_path[*path].iter().for_each(|(limit, times)| counts[*limit] -= times);
                }
            }
        }
        rates.into_iter().map(|rate| rate.unwrap_or(grown)).collect()
    }
    /// Their total throughput.
    pub(super) fn total(&self, used: &[usize]) -> f64 {
        self.rates(used).iter().sum()
    }
    fn worth(&self, used: &[usize], weights: &[f64]) -> f64 {
        self.rates(used).iter().zip(used).map(|(rate, path)| rate * weights[*path]).sum()
    }
    /// Starting from `used`, the best set by `weights` times rates that has a path less, a path more or another path,
    /// at most `most`, while that improves it.
    pub(super) fn improve(&self, weights: &[f64], mut used: Vec<usize>, most: usize) -> Vec<usize> {
        let mut bar = self.worth(&used, weights);
        for _ in 0..IMPROVEMENTS_MAX {
            let mut best: Option<(f64, Vec<usize>)> = None;
            for out in (0..=used.len()).map(|out| used.get(out).copied()) {
                let rest: Vec<usize> = used.iter().copied().filter(|path| Some(*path) != out).collect();
                let unused = (0..weights.len()).filter(|path| !used.contains(path)).map(Some);
                for comes in unused.chain([None]) {
                    let set: Vec<usize> = rest.iter().copied().chain(comes).collect();
                    if set.len() > most || set.is_empty() {
                        continue;
                    }
                    let worth = self.worth(&set, weights);
                    let is_better = worth > bar * IMPROVED || set.len() < used.len() && worth * IMPROVED >= bar;
                    if is_better && best.as_ref().is_none_or(|(most, _)| worth > *most) {
                        best = Some((worth, set));
                    }
                }
            }
            let Some((worth, set)) = best else { break };
            (bar, used) = (worth, set);
        }
        used
    }
}

fn pivot(table: &mut [Vec<f64>], leaves: usize, enters: usize) {
    let by = core::mem::replace(&mut table[leaves][enters], 1.0);
    table[leaves].iter_mut().for_each(|cell| *cell /= by);
    let from = table[leaves].clone();
    let unused = table.iter_mut().enumerate().filter(|(index, _)| *index != leaves);
    for (_, row) in unused {
        let times = core::mem::replace(&mut row[enters], 0.0);
        row.iter_mut().zip(&from).for_each(|(cell, from)| *cell -= times * from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(of: &[usize]) -> Vec<(usize, f64)> {
        of.iter().map(|variable| (*variable, 1.0)).collect()
    }
    fn flow(weights: &[f64], limits: &[(&[usize], f64)]) -> Vec<f64> {
        let limits: Vec<Limit> = limits.iter().map(|(of, most)| Limit { of: once(of), most: *most }).collect();
        greatest(weights, &limits)
    }

    #[test]
    fn paths_that_share_links_grow_alike_and_one_that_stands_in_the_way_of_two_is_left_out() {
        let limit = |of: &[usize], most| Limit { of: once(of), most };
        // The second uses both links, the last none of them.
        let limits = [limit(&[0, 1], 4.0), limit(&[1, 2], 4.0), limit(&[3], 1.0)];
        let fair = Fair::new(4, &limits);
        assert_eq!(fair.rates(&[0, 1, 2, 3]), [2.0, 2.0, 2.0, 1.0]);
        assert_eq!(fair.rates(&[1, 3]), [4.0, 1.0]);
        assert_eq!((fair.total(&[0, 2, 3]), fair.total(&[])), (9.0, 0.0));
        let without_links = Fair::new(5, &limits);
        assert_eq!(without_links.rates(&[0, 4, 3]), [4.0, 4.0, 1.0], "it ends though nothing limits one of them");
        let mut improved = fair.improve(&[1.0; 4], vec![0, 1, 2], 4);
        improved.sort_unstable();
        assert_eq!(improved, [0, 2, 3]);
        assert_eq!(fair.improve(&[1.0; 4], vec![1], 1), [1], "nothing else is better by itself");
        assert_eq!(fair.improve(&[1.0, 1.3, 1.0, 1.0], vec![3], 1), [1], "what is worth more");
    }

    #[test]
    fn what_takes_less_room_goes_first() {
        // The first uses both links.
        assert_eq!(flow(&[1.0; 3], &[(&[0, 1], 4.0), (&[0, 2], 3.0)]), [0.0, 4.0, 3.0]);
        assert_eq!(flow(&[1.0; 3], &[(&[0, 1], 4.0), (&[0, 2], 3.0), (&[1], 1.0)]), [0.0, 1.0, 3.0]);
        assert_eq!(flow(&[1.0, 1.1], &[(&[0, 1], 4.0)]), [0.0, 4.0], "of two that are alike the dearer one");
        assert_eq!(flow(&[1.0], &[(&[0], 0.0)]), [0.0]);
        assert!(flow(&[], &[]).is_empty());
    }
}
