//! A flow: a task that executes orders over one connection, and the handle that gives it orders.
use parking_lot::Mutex;
use reqwest::Client;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{mpsc, watch};
use tributary_net::Clock;
use tributary_transport::{
    bulk::{BulkCut, BulkFlowId, BulkInput, BulkOrder, BulkShape, Delivers},
    limit::TokenBucket,
};

use crate::{
    client::Shared,
    download::TICK,
    request::{Answer, Ask, Place, Refusal, open},
};

/// The task of a flow.
struct Job {
    number: u64,
    chunks: Range<u32>,
    delivers: Delivers,
}

/// The end of a flow that gives it orders.
pub(crate) struct Flow {
    jobs: mpsc::UnboundedSender<Job>,
    cuts: watch::Sender<(u64, u32)>,
    arrived: Arc<AtomicU64>,
    counted: u64,
    pub(crate) number: u64,
}
impl Flow {
    /// Starts the task of a flow to `place`; `held` is an answer whose head has already arrived.
    pub(crate) fn start(
        id: BulkFlowId,
        (client, place, held): (&Client, &Place, Option<Answer>),
        shape: BulkShape,
        common: &Common,
    ) -> Flow {
        let (jobs, todo) = mpsc::unbounded_channel();
        let (cuts, watched) = watch::channel((0, 0));
        let arrived = Arc::new(AtomicU64::new(0));
        let task = FlowTask {
            id,
            client: client.clone(),
            place: place.clone(),
            shape,
            arrived: Arc::clone(&arrived),
            cuts: watched,
            common: common.clone(),
            held,
        };
        tokio::spawn(task.run(todo));
        Flow { jobs, cuts, arrived, counted: 0, number: 0 }
    }
    /// Bytes that have arrived since the last call.
    pub(crate) fn arrived(&mut self) -> u64 {
        let arrived = self.arrived.load(Ordering::Relaxed);
        arrived - std::mem::replace(&mut self.counted, arrived)
    }
    pub(crate) fn order(&mut self, order: BulkOrder, delivers: Delivers) {
        self.number = order.number;
        // A task ends with this end of its channel, not before.
        let _ = self.jobs.send(Job { number: order.number, chunks: order.chunks, delivers });
    }
    pub(crate) fn cut(&self, cut: BulkCut) {
        self.cuts.send_replace((cut.number, cut.end));
    }
}

/// What all flows of a fetch share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) shared: Arc<Shared>,
    pub(crate) came: mpsc::Sender<BulkInput>,
    pub(crate) limit: Arc<Mutex<TokenBucket>>,
    pub(crate) clock: Clock,
}

struct FlowTask {
    id: BulkFlowId,
    client: Client,
    place: Place,
    shape: BulkShape,
    arrived: Arc<AtomicU64>,
    cuts: watch::Receiver<(u64, u32)>,
    common: Common,
    /// The answer to the last order, if more of the file follows in it.
    held: Option<Answer>,
}
impl FlowTask {
    async fn run(mut self, mut jobs: mpsc::UnboundedReceiver<Job>) {
        while let Some(job) = jobs.recv().await {
            let number = job.number;
            let Err(failure) = self.carry_out(job).await else { continue };
            if self.common.came.send(BulkInput::Failed { flow: self.id, number, failure }).await.is_err() {
                return;
            }
        }
    }
    /// The chunk at which an order ends by now.
    fn end_of(&self, number: u64, end: u32) -> u32 {
        let (of, cut) = *self.cuts.borrow();
        if of == number { end.min(cut) } else { end }
    }
    fn at(&self, chunk: u32) -> u64 {
        (u64::from(chunk) * u64::from(self.shape.chunk_size)).min(self.shape.size)
    }
    async fn carry_out(&mut self, job: Job) -> Result<(), Refusal> {
        // The held answer is reused if it is at the order's first byte; one stream may also be before it.
        let start = self.at(job.chunks.start);
        let fits = |held: &Answer| held.at == start || job.delivers == Delivers::Everything && held.at < start;
        let mut answer = self.held.take().filter(fits);
        let (mut chunk, mut part, mut has_head) = (job.chunks.start, Vec::new(), false);
        while chunk < self.end_of(job.number, job.chunks.end) {
            let next = self.at(chunk) + part.len() as u64;
            let opened = match answer.take() {
                Some(answer) => Some(answer),
                None => self.open_at(&job, chunk, next).await?,
            };
            let Some(mut current) = opened else { return Ok(()) };
            let head = BulkInput::Head { flow: self.id, number: job.number };
            if !has_head && self.common.came.send(head).await.is_err() {
                return Ok(());
            }
            has_head = true;
            let begun_at = current.at;
            if !self.read_on(&job, &mut current, &mut chunk, &mut part).await? {
                return Ok(());
            }
            if chunk == job.chunks.end {
                match current.is_over() {
                    // The end of the body lets the connection be used again.
                    true => current.end(TICK).await,
                    false => self.held = Some(current),
                }
                return Ok(());
            }
            // A server may deliver less than a request asks for (RFC 9110 §15.3.7): the missing part is requested
            // again.
            let is_stuck = job.delivers == Delivers::Everything || current.at == begun_at;
            if chunk < self.end_of(job.number, job.chunks.end) && is_stuck {
                let missing = self.at(job.chunks.end) - self.at(chunk) - part.len() as u64;
                let reason = format!("the connection ended {missing} bytes too early");
                return Err(match job.delivers {
                    Delivers::Ranges => Refusal::NoRanges(reason),
                    Delivers::Everything => Refusal::Again { reason, wait: None },
                });
            }
        }
        Ok(())
    }
    /// Requests the order's bytes from `next` on; `None` if the order was cut in the meantime.
    async fn open_at(&mut self, job: &Job, chunk: u32, next: u64) -> Result<Option<Answer>, Refusal> {
        let ask = match job.delivers {
            Delivers::Ranges => self.place.limited(next..self.at(job.chunks.end)),
            Delivers::Everything => Ask::Whole,
        };
        let mut cuts = self.cuts.clone();
        let opening = open(&self.client, &self.common.shared, &self.place, &ask);
        tokio::pin!(opening);
        loop {
            tokio::select! {
                opened = &mut opening => return match opened? {
                    answer if job.delivers == Delivers::Ranges && !answer.head.ranges => {
                        Err(Refusal::NoRanges("no longer answers requests for ranges".into()))
                    }
                    answer => Ok(Some(answer)),
                },
                changed = cuts.changed() => if changed.is_err() || self.end_of(job.number, job.chunks.end) <= chunk {
                    return Ok(None);
                },
            }
        }
    }
    /// Delivers the chunks of an order from an answer; `part` has the first bytes of `chunk`, the next one. False if the fetch
    /// has ended.
    async fn read_on(
        &mut self,
        job: &Job,
        answer: &mut Answer,
        chunk: &mut u32,
        part: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        let mut cuts = self.cuts.clone();
        while *chunk < self.end_of(job.number, job.chunks.end) && !answer.is_over() {
            let begun_at = answer.at;
            let read = tokio::select! {
                read = answer.read() => read?,
                changed = cuts.changed() => if changed.is_ok() { continue } else { return Ok(false) },
            };
            let Some(mut read) = read else { break };
            // The next order gets the bytes behind this one.
            let wanted = self.at(job.chunks.end).saturating_sub(begun_at).min(read.len() as u64);
            answer.give_back(read.split_off(wanted as usize));
            self.pace(wanted).await;
            self.arrived.fetch_add(wanted, Ordering::Relaxed);
            let next = self.at(*chunk) + part.len() as u64;
            let _ = read.split_to(next.saturating_sub(begun_at).min(wanted) as usize);
            while !read.is_empty() {
                let need = (self.at(*chunk + 1) - self.at(*chunk)) as usize;
                if part.capacity() == 0 {
                    part.reserve_exact(need);
                }
                let taken = read.split_to(read.len().min(need - part.len()));
                part.extend_from_slice(&taken);
                if part.len() == need {
                    let bytes = std::mem::take(part);
                    let came = BulkInput::Chunk { flow: self.id, number: job.number, chunk: *chunk, bytes };
                    if self.common.came.send(came).await.is_err() {
                        return Ok(false);
                    }
                    *chunk += 1;
                }
            }
        }
        Ok(true)
    }
    async fn pace(&self, bytes: u64) {
        let wait = {
            let mut limit = self.common.limit.lock();
            let now = self.common.clock.now();
            limit.on_pass(now, bytes);
            limit.ready_at().since(now)
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}
