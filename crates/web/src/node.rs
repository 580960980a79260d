//! Web servers as sources of a node's fetch: the node decides, verifies and stores; this end carries its orders out.
use parking_lot::Mutex;
use reqwest::Url;
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tributary_net::Clock;
use tributary_transport::{
    bulk::{BulkFailure, BulkFlowId, BulkInput, BulkShape, BulkStep, Delivers},
    limit::TokenBucket,
};

use crate::{
    client::{ClientOptions, Lanes, Shared},
    download::{Control, TICK, WebError, label_of, run},
    flow::{Common, Flow},
    origin::Origin,
    probing::{Probe, probe_all},
    request::{Head, Place, Refusal},
};

/// A fetch that a node runs.
pub trait Host {
    /// Reports to the node and returns its orders; `None` once the node or the fetch has ended.
    fn step(&mut self, inputs: Vec<BulkInput>) -> Option<BulkStep>;
}

/// Interval at which the thread polls for the object.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long mirrors have for their first answer.
const PROBE_TIME_MAX: Duration = Duration::from_secs(30);
/// Maximum chunks that wait for the node, over all flows.
const QUEUE_CHUNKS: usize = 8;

/// Serves a node's fetch from web servers until it ends. Blocks.
///
/// # Errors
/// [`WebError`] if the options cannot be used; the fetch continues without mirrors.
pub fn serve(host: &mut dyn Host, mirrors: &[Url], options: &ClientOptions) -> Result<(), WebError> {
    let served = run(async { serve_all(host, mirrors, options).await });
    if served.is_err() {
        // The fetch must not wait for missing mirrors.
        host.step(vec![BulkInput::Settled]);
    }
    served
}

async fn serve_all(host: &mut dyn Host, mirrors: &[Url], options: &ClientOptions) -> Result<(), WebError> {
    let shared = Shared::new(options)?;
    let lanes = Lanes::new(mirrors, options)?;
    let Some(shape) = shape_of(host).await else { return Ok(()) };
    let how = |_: &Url| Probe::FirstByte;
    let heads = probe_all(mirrors, &how, PROBE_TIME_MAX, &lanes, &shared, &mut |_| Control::Continue(())).await?;
    let (came, mut arrivals) = mpsc::channel(QUEUE_CHUNKS);
    let limit = Arc::new(Mutex::new(TokenBucket::new(None, Duration::ZERO)));
    let common = Common { shared, came, limit, clock: Clock::new() };
    let (mut inputs, mut flows) = (Vec::new(), Vec::new());
    for ((url, clients), probed) in mirrors.iter().zip(&lanes.clients).zip(heads) {
        let objection = judge(probed.map(|probed| probed.head), shape, options.origin);
        if objection.is_none() {
            // The manifest shows which file it is.
            let place = Place::new(url.clone(), Some(shape.size), true, 0);
            for client in clients {
                flows.push(Flow::start(BulkFlowId(flows.len() as u16), (client, &place, None), shape, &common));
            }
        }
        let uplinks = lanes.uplinks.iter().map(ToString::to_string).collect();
        inputs.push(BulkInput::Mirror { label: label_of(url), uplinks, objection });
    }
    drop(common);
    inputs.push(BulkInput::Settled);
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        for (index, flow) in (0..).zip(&mut flows) {
            let (flow_id, number, bytes) = (BulkFlowId(index), flow.number, flow.arrived());
            if bytes > 0 {
                inputs.insert(0, BulkInput::Bytes { flow: flow_id, number, bytes });
            }
        }
        let Some(step) = host.step(std::mem::take(&mut inputs)) else { return Ok(()) };
        if step.is_ended {
            return Ok(());
        }
        for cut in step.cuts {
            flows.get(usize::from(cut.flow.0)).iter().for_each(|flow| flow.cut(cut));
        }
        for order in step.orders {
            let Some(flow) = flows.get_mut(usize::from(order.flow.0)) else { continue };
            flow.order(order, Delivers::Ranges);
        }
        tokio::select! {
            came = arrivals.recv(), if !flows.is_empty() => inputs.extend(came.map(without_streams)),
            _ = tick.tick() => {}
        }
        while let Ok(came) = arrivals.try_recv() {
            inputs.push(without_streams(came));
        }
    }
}
/// With other sources one stream would only repeat their chunks.
fn without_streams(input: BulkInput) -> BulkInput {
    match input {
        BulkInput::Failed { flow, number, failure: BulkFailure::NoRanges(reason) } => {
            BulkInput::Failed { flow, number, failure: BulkFailure::Changed(reason) }
        }
        input => input,
    }
}
/// Waits until the object and its hashes are known.
async fn shape_of(host: &mut dyn Host) -> Option<BulkShape> {
    loop {
        let step = host.step(Vec::new()).filter(|step| !step.is_ended)?;
        if step.shape.is_some() {
            return step.shape;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
/// The objection to a mirror, by its description of the file.
fn judge(head: Result<Head, Refusal>, shape: BulkShape, origin: Origin) -> Option<BulkFailure> {
    match head {
        Err(Refusal::Faulty(reason)) => Some(BulkFailure::Faulty(reason)),
        Err(refusal) => Some(BulkFailure::Refused(refusal.reason())),
        Ok(Head { size: Some(has), .. }) if has != shape.size => {
            Some(BulkFailure::Faulty(format!("has another file, of {has} bytes: the object has {}", shape.size)))
        }
        // An untrusted source of the address may aim many nodes at a server: it gets no requests for files that it does
        // not seem to have.
        Ok(head) if head.size.is_none() && !origin.is_trusted() => {
            Some(BulkFailure::Refused("does not report the length of its file".into()))
        }
        Ok(head) if !head.ranges => {
            let reason = "delivers no ranges, so it would only repeat other sources' bytes".into();
            Some(BulkFailure::Refused(reason))
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_a_stranger_names_is_asked_for_a_file_only_if_it_says_how_long_that_is() {
        let shape = BulkShape { size: 9, chunk_size: 1_024 };
        let head = |size| Ok(Head { size, ranges: true, ..Head::default() });
        let is_used = |size, origin| judge(head(size), shape, origin).is_none();
        for origin in [Origin::Person, Origin::Stranger, Origin::StrangerAnywhere] {
            assert!(is_used(Some(9), origin) && !is_used(Some(8), origin));
            assert_eq!(is_used(None, origin), origin == Origin::Person);
        }
    }
}
