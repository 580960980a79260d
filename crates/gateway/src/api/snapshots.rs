//! Answers that clients share: for any number of clients, the node is queried a few times a second.
use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};
use tributary::{ApiError, Notice, Request};

/// How old an answer may be.
const FRESH: Duration = Duration::from_millis(200);
/// Answers that are kept.
const KEPT_MAX: usize = 64;

/// The latest answers by request.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    kept: parking_lot::Mutex<HashMap<String, Place>>,
}
/// The place of an answer; requests that arrive while it is being made wait for it.
type Place = Arc<Mutex<Option<(Instant, Arc<[Notice]>)>>>;

impl Snapshots {
    /// The answer to a request that changes nothing.
    pub(crate) async fn of<F: Future<Output = Result<Vec<Notice>, ApiError>>>(
        &self,
        request: &Request,
        ask: impl FnOnce() -> F,
    ) -> Result<Arc<[Notice]>, ApiError> {
        let is_shared = matches!(
            request,
            Request::Status
                | Request::Transfers { .. }
                | Request::Paths { .. }
                | Request::Cache
                | Request::Store
                | Request::Log
                | Request::Groups
        );
        let Some(key) = is_shared.then(|| serde_json::to_string(request).ok()).flatten() else {
            return Ok(ask().await?.into());
        };
        let place = {
            let mut kept = self.kept.lock();
            if kept.len() >= KEPT_MAX && !kept.contains_key(&key) {
                kept.clear();
            }
            Arc::clone(kept.entry(key).or_default())
        };
        let mut place = place.lock().await;
        if let Some((_, answer)) = place.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(Arc::clone(answer));
        }
        // Errors are not kept: they are rare, and a retry may succeed.
        let answer: Arc<[Notice]> = ask().await?.into();
        *place = Some((Instant::now(), Arc::clone(&answer)));
        Ok(answer)
    }
    /// Forgets all answers after a change, so that the client that made it sees it.
    pub(crate) fn forget(&self) {
        self.kept.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn many_questions_within_a_moment_cost_one_answer_until_something_changes() {
        let (snapshots, computed) = (Snapshots::default(), AtomicUsize::new(0));
        let ask = async || {
            computed.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(vec![Notice::Waiting])
        };
        let of = |request: &'static Request| snapshots.of(request, ask);
        let (one, two) = tokio::join!(of(&Request::Status), of(&Request::Status));
        assert_eq!((one, two), (Ok([Notice::Waiting].into()), Ok([Notice::Waiting].into())));
        assert_eq!(computed.load(Ordering::SeqCst), 1);
        of(&Request::Cache).await.expect("answered");
        assert_eq!(computed.load(Ordering::SeqCst), 2);
        snapshots.forget();
        of(&Request::Status).await.expect("answered");
        tokio::time::sleep(FRESH).await;
        of(&Request::Status).await.expect("answered");
        assert_eq!(computed.load(Ordering::SeqCst), 4);
    }
}
