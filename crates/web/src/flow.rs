//! The task of a flow: it carries out one order after another over one connection.
use reqwest::Client;
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{mpsc, watch};
use tributary_net::Clock;
use tributary_transport::{
    bulk::{BulkFailure, BulkFlowId, Delivers},
    limit::TokenBucket,
};

use crate::{
    client::Shared,
    download::TICK,
    request::{Place, Refusal, failure, open},
};

/// What a flow's task is to do.
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) chunks: Range<u32>,
    pub(crate) place: Place,
    pub(crate) delivers: Delivers,
}
/// What a flow's task reports.
pub(crate) enum Came {
    Head(BulkFlowId, u64),
    Chunk(BulkFlowId, u64, u32, Vec<u8>),
    Failed(BulkFlowId, u64, BulkFailure),
}

/// A connection: it carries out one job after another.
pub(crate) struct FlowTask {
    pub(crate) id: BulkFlowId,
    pub(crate) client: Client,
    pub(crate) shared: Arc<Shared>,
    pub(crate) size: u64,
    pub(crate) chunk_size: u32,
    pub(crate) arrived: Arc<AtomicU64>,
    pub(crate) cuts: watch::Receiver<(u64, u32)>,
    pub(crate) came: mpsc::Sender<Came>,
    pub(crate) limit: Arc<Mutex<TokenBucket>>,
    pub(crate) clock: Clock,
}
impl FlowTask {
    pub(crate) async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        while let Some(job) = jobs.recv().await {
            let number = job.number;
            let end = match self.carry_out(job).await {
                Ok(()) => continue,
                Err(Refusal::Again { reason, wait }) => BulkFailure::Again { reason, wait },
                Err(Refusal::Refused(reason)) => BulkFailure::Refused(reason),
                Err(Refusal::Faulty(reason)) => BulkFailure::Faulty(reason),
            };
            if self.came.send(Came::Failed(self.id, number, end)).await.is_err() {
                return;
            }
        }
    }
    /// The chunk at which an order ends by now.
    fn end_of(&self, number: u64, end: u32) -> u32 {
        let (of, cut) = *self.cuts.borrow();
        if of == number { end.min(cut) } else { end }
    }
    async fn carry_out(&mut self, job: Job) -> Result<(), Refusal> {
        let Job { number, chunks, place, delivers } = job;
        let at = |chunk: u32| (u64::from(chunk) * u64::from(self.chunk_size)).min(self.size);
        let range = (delivers == Delivers::Ranges).then(|| at(chunks.start)..at(chunks.end));
        let mut passed_over = if range.is_none() { at(chunks.start) } else { 0 };
        let (client, shared) = (self.client.clone(), Arc::clone(&self.shared));
        let mut cuts = self.cuts.clone();
        let opening = open(&client, &shared, &place, range);
        tokio::pin!(opening);
        let mut response = loop {
            tokio::select! {
                opened = &mut opening => break opened?,
                changed = cuts.changed() => if changed.is_err() || self.end_of(number, chunks.end) <= chunks.start { return Ok(()) },
            }
        };
        if self.came.send(Came::Head(self.id, number)).await.is_err() {
            return Ok(());
        }
        let mut chunk = chunks.start;
        let mut bytes: Vec<u8> = Vec::new();
        while chunk < self.end_of(number, chunks.end) {
            let read = tokio::select! {
                read = response.chunk() => read,
                changed = cuts.changed() => if changed.is_ok() { continue } else { return Ok(()) },
            };
            let read = read.map_err(|error| failure(&error))?;
            let Some(mut read) = read else {
                let reason =
                    format!("the connection ended {} bytes too early", at(chunks.end) - at(chunk) - bytes.len() as u64);
                return Err(Refusal::Again { reason, wait: None });
            };
            self.pace(read.len() as u64).await;
            self.arrived.fetch_add(read.len() as u64, Ordering::Relaxed);
            let passed = passed_over.min(read.len() as u64);
            passed_over -= passed;
            let _ = read.split_to(passed as usize);
            while !read.is_empty() && chunk < chunks.end {
                let need = (at(chunk + 1) - at(chunk)) as usize;
                if bytes.capacity() == 0 {
                    bytes.reserve_exact(need);
                }
                let taken = read.split_to(read.len().min(need - bytes.len()));
                bytes.extend_from_slice(&taken);
                if bytes.len() == need {
                    let whole = std::mem::take(&mut bytes);
                    if self.came.send(Came::Chunk(self.id, number, chunk, whole)).await.is_err() {
                        return Ok(());
                    }
                    chunk += 1;
                }
            }
        }
        if chunk == chunks.end {
            // The end of the body lets the connection be used again.
            let _ = tokio::time::timeout(TICK, response.chunk()).await;
        }
        Ok(())
    }
    async fn pace(&self, bytes: u64) {
        let wait = {
            let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
            let now = self.clock.now();
            limit.on_pass(now, bytes);
            limit.ready_at().since(now)
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}
