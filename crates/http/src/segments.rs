//! Bytes in an order, as messages that have none: sent as long as the other side takes them, put in order, and credited.
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender},
    watch,
};
use tributary::{ApiError, ErrorKind, mailbox::Mailbox};
use tributary_core::{Duration, TransferId};
use tributary_transport::messaging::{Delivery, Destination, SendOptions};

use crate::exchange::{CreditHead, ResponseHead, SegmentHead, WINDOW_SEGMENTS, name_of_message, pack, unpack};

/// Segments under way at the same time at most.
const UNDER_WAY_MAX: usize = 8;
/// How often it is looked whether one has arrived.
const LOOK: Duration = Duration::from_millis(5);
/// How long the other side may take nothing before it counts as gone.
pub(crate) const CREDIT_PATIENCE: Duration = Duration::from_secs(600);
/// Segments that came before their turn at most.
const EARLY_MAX: usize = 2 * WINDOW_SEGMENTS as usize;
/// After so many segments that were taken, the other side is told.
const CREDIT_SEGMENTS: u32 = WINDOW_SEGMENTS / 4;

/// A segment as it comes.
pub(crate) type Segment = (SegmentHead, Bytes);

/// Where what the other side says of an exchange goes.
pub(crate) struct Waiting {
    pub(crate) taken: watch::Sender<Taken>,
    /// `None` if nothing is to come.
    pub(crate) segments: Option<UnboundedSender<Segment>>,
}
/// Exchanges that go on, by their numbers.
#[derive(Default)]
pub(crate) struct Exchanges(Mutex<BTreeMap<u64, Waiting>>);
impl Exchanges {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        // The map is whole between any two statements, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes a credit or a segment; whether the message is one.
    pub(crate) fn handle(&self, message: &Bytes) -> bool {
        if let Some((credit, _)) = unpack::<CreditHead>(message) {
            if let Some(waiting) = self.lock().get(&credit.id) {
                waiting.taken.send_modify(|known| known.on_credit(&credit));
            }
        } else if let Some((head, body)) = unpack::<SegmentHead>(message) {
            if let Some(segments) = self.lock().get(&head.id).and_then(|waiting| waiting.segments.as_ref()) {
                // Nobody takes it any more if the connection has ended.
                let _ = segments.send((head, body));
            }
        } else {
            return false;
        }
        true
    }
}

/// What the other side has taken.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    segments: u32,
    /// Whether it wants no more.
    pub(crate) gone: bool,
}
impl Taken {
    fn on_credit(&mut self, credit: &CreditHead) {
        self.segments = self.segments.max(credit.taken);
        self.gone |= credit.gone;
    }
}

/// Sends segments.
pub(crate) struct Sender {
    mailbox: Arc<Mailbox>,
    /// What its messages are called.
    kind: &'static str,
    delivery: Delivery,
    /// The GUID that they go to.
    to: String,
    id: u64,
    pub(crate) taken: watch::Receiver<Taken>,
    number: u32,
    under_way: Vec<TransferId>,
}
impl Sender {
    pub(crate) fn new(
        mailbox: &Arc<Mailbox>,
        (kind, delivery): (&'static str, Delivery),
        to: String,
        id: u64,
        taken: watch::Receiver<Taken>,
    ) -> Sender {
        Sender { mailbox: Arc::clone(mailbox), kind, delivery, to, id, taken, number: 0, under_way: Vec::new() }
    }
    /// Sends a segment that has only a body, when there is room for it.
    pub(crate) async fn send_part(&mut self, is_last: bool, body: Bytes) -> Result<(), String> {
        self.send(is_last, None, None, body).await
    }
    /// Sends one segment, when there is room for it.
    pub(crate) async fn send(
        &mut self,
        is_last: bool,
        response: Option<ResponseHead>,
        failure: Option<String>,
        body: Bytes,
    ) -> Result<(), String> {
        while self.under_way.len() >= UNDER_WAY_MAX {
            let (mailbox, under_way) = (Arc::clone(&self.mailbox), self.under_way.clone());
            let still = tokio::task::spawn_blocking(move || mailbox.under_way(&under_way)).await;
            self.under_way = still.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            if self.under_way.len() >= UNDER_WAY_MAX {
                tokio::time::sleep(LOOK).await;
            }
        }
        let number = self.number;
        let room = |taken: &Taken| taken.gone || number < taken.segments.saturating_add(WINDOW_SEGMENTS);
        match tokio::time::timeout(CREDIT_PATIENCE, self.taken.wait_for(room)).await {
            Ok(Ok(taken)) if !taken.gone => {}
            _ => return Err("the other side takes nothing more".into()),
        }
        let reply_to = (number == 0 && !is_last).then(|| self.mailbox.id().to_string());
        let head = SegmentHead { id: self.id, number, is_last, reply_to, response, failure };
        let message = pack(&head, &body);
        let (mailbox, to, id, kind) = (Arc::clone(&self.mailbox), self.to.clone(), self.id, self.kind);
        let options = SendOptions { delivery: Some(self.delivery), ..SendOptions::default() };
        self.number += 1;
        let sent = tokio::task::spawn_blocking(move || {
            let refused = || ApiError::new(ErrorKind::Protocol, "the other side has no GUID");
            let name = name_of_message(kind, &to, id, number).ok_or_else(refused)?;
            mailbox.send(name, message, &Destination::Id(to), &options)
        });
        let transfer = sent.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.under_way.push(transfer);
        Ok(())
    }
    /// Waits until the other side wants no more.
    pub(crate) async fn gone(taken: &mut watch::Receiver<Taken>) {
        let _ = taken.wait_for(|taken| taken.gone).await;
    }
}

/// Takes segments, in their order.
pub(crate) struct Receiver {
    segments: UnboundedReceiver<Segment>,
    /// How long the next one is waited for.
    pub(crate) patience: Duration,
    next: u32,
    early: BTreeMap<u32, Segment>,
}
impl Receiver {
    pub(crate) fn new(segments: UnboundedReceiver<Segment>, patience: Duration) -> Receiver {
        Receiver { segments, patience, next: 0, early: BTreeMap::new() }
    }
    /// The next one; `None` if it does not come.
    pub(crate) async fn next(&mut self) -> Option<Segment> {
        loop {
            if let Some(segment) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(segment);
            }
            let (head, body) = tokio::time::timeout(self.patience, self.segments.recv()).await.ok()??;
            if head.number >= self.next && self.early.len() < EARLY_MAX {
                self.early.insert(head.number, (head, body));
            }
        }
    }
}

/// Tells the other side what was taken of what it sends; dropped too early, that nobody wants more.
pub(crate) struct Credit {
    mailbox: Arc<Mailbox>,
    id: u64,
    to: String,
    taken: u32,
    told: u32,
    is_over: bool,
}
impl Credit {
    pub(crate) fn new(mailbox: &Arc<Mailbox>, id: u64, to: String) -> Credit {
        Credit { mailbox: Arc::clone(mailbox), id, to, taken: 0, told: 0, is_over: false }
    }
    /// The GUID of the other side.
    pub(crate) fn to(&self) -> &str {
        &self.to
    }
    /// A segment was taken.
    pub(crate) fn take(&mut self) {
        self.taken += 1;
        if self.taken >= self.told + CREDIT_SEGMENTS {
            self.told = self.taken;
            self.tell(false);
        }
    }
    /// The last segment has come.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }
    fn tell(&self, gone: bool) {
        let (mailbox, to, id, taken) = (Arc::clone(&self.mailbox), self.to.clone(), self.id, self.taken);
        // A program that ends has no runtime any more, and tells nobody.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        // It waits for the node's thread, which threads of the runtime must not.
        runtime.spawn_blocking(move || {
            let name = name_of_message("credit", mailbox.id(), id, taken)?;
            let message = pack(&CreditHead { id, taken, gone }, &[]);
            let options = SendOptions { delivery: Some(Delivery::Ack), ..SendOptions::default() };
            mailbox.send(name, message, &Destination::Id(to), &options).ok()
        });
    }
}
impl Drop for Credit {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell(true);
        }
    }
}
