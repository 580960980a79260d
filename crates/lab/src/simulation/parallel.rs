//! Many runs in parallel, with results in the order of the inputs, so that nothing depends on which thread was faster.
use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Applies `work` to every item on as many threads as the machine has cores.
pub fn map<I: Sync, O: Send>(items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    map_on(thread::available_parallelism().map_or(1, NonZeroUsize::get), items, work)
}
/// Applies `work` to every item on at most `threads` threads (at least one).
///
/// # Panics
/// If `work` panics.
pub fn map_on<I: Sync, O: Send>(threads: usize, items: &[I], work: impl Fn(&I) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, O)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_inputs_whatever_the_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [0, 1, 7, 200] {
            assert_eq!(map_on(threads, &items, |n| n * n), items.iter().map(|n| n * n).collect::<Vec<_>>());
        }
        assert!(map(&[] as &[u64], |n| *n).is_empty());
    }
}
