//! The only caller of a [`Node`].
use crate::{Node, Time, Transmit, TransmitBuf, event::Event};

/// What a driver does with a node's output.
pub trait Outlet {
    /// Sends the packets of `batch`, or queues or drops them; packets left in `batch` are dropped.
    fn transmit(&mut self, now: Time, transmit: Transmit, batch: &mut TransmitBuf);
    /// Takes one event.
    fn event(&mut self, now: Time, event: Event);
}

/// Maximum batches sent by one call of [`pump()`] before the driver checks its inputs again.
pub const BATCHES_PER_PUMP: usize = 64;

/// Timeout if due → drain transmits → drain events → next deadline.
///
/// Returns the latest time of the next call: `now` if there is more to send, `None` if only an input can wake the node.
/// `batch` is a buffer for reuse; its content is lost.
pub fn pump<N: Node + ?Sized>(
    node: &mut N,
    now: Time,
    outlet: &mut impl Outlet,
    batch: &mut TransmitBuf,
) -> Option<Time> {
    if node.poll_timeout().is_some_and(|(due, _)| due <= now) {
        node.handle_timeout(now);
    }
    let mut more = true;
    for _ in 0..BATCHES_PER_PUMP {
        batch.clear();
        match node.poll_transmit(now, batch) {
            Some(transmit) => outlet.transmit(now, transmit, batch),
            None => {
                more = false;
                break;
            }
        }
    }
    batch.clear();
    while let Some(event) = node.poll_event() {
        outlet.event(now, event);
    }
    if more { Some(now) } else { node.poll_timeout().map(|(due, _)| due) }
}
