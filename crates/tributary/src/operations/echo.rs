//! `ping` and `traceroute`: series of echo requests and the evaluation of their answers. RFC 9508, RFC 9507.
use std::{collections::BTreeMap, sync::mpsc::RecvTimeoutError};

use tributary_core::{
    Duration, Time,
    event::{EchoOutcome, EchoReport, Event},
};
use tributary_net::Clock;
use tributary_transport::echo::Echo;

use super::parse_name;
use crate::{
    api::{Flow, Notify},
    error::{ApiError, ErrorKind},
    family::Family,
    node::{LocalNode, event_bus::Subscription},
    notice::Notice,
    request::{COUNT_MAX, EchoPath, HOPS_MAX, INTERVAL_MS_MIN, Ping, TIMEOUT_MS_MAX, Traceroute},
    views::{EchoView, PingedPathView, PingedView, RttView},
};

/// A `traceroute` ends after this many silent neighbours in a row.
pub(crate) const SILENT_HOPS_MAX: u8 = 5;
/// Unanswered requests in a row after which the node requests a new path.
const LOST_IN_A_ROW: u32 = 3;
/// How late the report of the node may be.
const GRACE: Duration = Duration::from_secs(1);

/// The results of a series of requests.
#[derive(Default)]
struct Tally {
    sent: u32,
    samples: Vec<f64>,
    /// Per path: the answering node, and round-trip times.
    paths: BTreeMap<String, (String, Vec<f64>)>,
    refusal: Option<String>,
    lost_in_a_row: u32,
}

impl Tally {
    fn add(&mut self, report: &EchoReport) {
        let rtt = report.rtt.as_secs_f64() * 1e3;
        match &report.outcome {
            EchoOutcome::Application(responder)
            | EchoOutcome::Forwarder(responder)
            | EchoOutcome::Object(responder) => {
                self.samples.push(rtt);
                self.lost_in_a_row = 0;
                if let Some(path) = &report.path {
                    let known = self.paths.entry(path.clone()).or_default();
                    known.0.clone_from(responder);
                    known.1.push(rtt);
                }
            }
            EchoOutcome::Unreachable(reason) => {
                self.refusal = Some(reason.clone());
                self.lost_in_a_row += 1;
            }
            // A hop limit ends before the target.
            _ => self.lost_in_a_row += 1,
        }
    }
    fn summary(&self, name: &str) -> PingedView {
        let paths = self.paths.iter().filter_map(|(path, (responder, samples))| {
            Some(PingedPathView {
                path: path.clone(),
                responder: responder.clone(),
                answered: samples.len() as u32,
                rtt_ms: RttView::of(samples)?,
            })
        });
        let answered = self.samples.len() as u32;
        PingedView {
            name: name.into(),
            sent: self.sent,
            answered,
            loss: 1.0 - f64::from(answered) / f64::from(self.sent.max(1)),
            rtt_ms: RttView::of(&self.samples),
            paths: paths.collect(),
        }
    }
}

impl LocalNode {
    /// Carries out `Request::Ping`.
    pub(crate) fn ping(&self, ping: &Ping, notify: Notify<'_>) -> Result<(), ApiError> {
        let target = parse_name(&ping.name)?;
        check("count", u64::from(ping.count), 1, u64::from(COUNT_MAX))?;
        check("interval in milliseconds", ping.interval_ms, INTERVAL_MS_MIN, 3_600_000)?;
        let patience = patience(ping.timeout_ms)?;
        let (clock, subscription) = (Clock::new(), self.runtime.events.subscribe());
        let (mut tally, mut next) = (Tally::default(), Time::ZERO);
        let mut path = given(&ping.path);
        for number in 1..=ping.count {
            rest(&clock, &subscription, next)?;
            next = clock.now() + Duration::from_millis(ping.interval_ms);
            let echo = Echo { target: target.clone(), path: path.clone(), hop: None, patience };
            let report = self.echo(&clock, &subscription, echo)?;
            tally.sent += 1;
            tally.add(&report);
            if ping.path == EchoPath::Same {
                if report.path_failed || tally.lost_in_a_row >= LOST_IN_A_ROW {
                    path = None;
                } else if path.is_none() && tally.lost_in_a_row == 0 {
                    path.clone_from(&report.path);
                }
            }
            if notify(Notice::Echo(EchoView::new(number, None, &report))) == Flow::Stop {
                break;
            }
        }
        if tally.samples.is_empty() {
            return Err(unreached(&ping.name, tally.sent, patience, tally.refusal));
        }
        notify(Notice::Pinged(tally.summary(&ping.name)));
        Ok(())
    }
    /// Carries out `Request::Traceroute`.
    pub(crate) fn traceroute(&self, trace: &Traceroute, notify: Notify<'_>) -> Result<(), ApiError> {
        let target = parse_name(&trace.name)?;
        check("number of hops", u64::from(trace.hops_max), 1, u64::from(HOPS_MAX))?;
        check("number of tries", u64::from(trace.tries), 1, 16)?;
        let patience = patience(trace.timeout_ms)?;
        let (clock, subscription) = (Clock::new(), self.runtime.events.subscribe());
        let mut path = given(&trace.path);
        let (mut sent, mut refusal, mut silent_hops) = (0, None, 0);
        if trace.path == EchoPath::Same {
            // One request travels the whole path: its answer names the path for the following ones.
            let echo = Echo { target: target.clone(), path: None, hop: None, patience };
            path = self.echo(&clock, &subscription, echo)?.path;
        }
        for hop in 1..=trace.hops_max {
            silent_hops += 1;
            for _ in 0..trace.tries {
                sent += 1;
                let echo = Echo { target: target.clone(), path: path.clone(), hop: Some(hop), patience };
                let report = self.echo(&clock, &subscription, echo)?;
                if notify(Notice::Echo(EchoView::new(sent, Some(hop), &report))) == Flow::Stop {
                    return Err(ApiError::new(ErrorKind::Cancelled, "the traceroute was ended"));
                }
                match report.outcome {
                    EchoOutcome::Application(responder)
                    | EchoOutcome::Forwarder(responder)
                    | EchoOutcome::Object(responder) => {
                        let (responder, hops) = (Some(responder), u32::from(hop));
                        notify(Notice::Traced { name: trace.name.clone(), responder, hops });
                        return Ok(());
                    }
                    EchoOutcome::HopLimit(_) => {
                        silent_hops = 0;
                        break;
                    }
                    EchoOutcome::Unreachable(reason) => {
                        refusal = Some(reason);
                        break;
                    }
                    _ => {}
                }
            }
            if refusal.is_some() {
                break;
            }
            if silent_hops >= SILENT_HOPS_MAX && hop < trace.hops_max {
                let mut error = unreached(&trace.name, sent, patience, None);
                error.message.push_str(&format!(
                    "; neighbours {} to {hop} were silent, the rest were not probed",
                    hop + 1 - silent_hops
                ));
                return Err(error);
            }
        }
        Err(unreached(&trace.name, sent, patience, refusal))
    }
    /// Sends one request and waits for its result.
    fn echo(&self, clock: &Clock, subscription: &Subscription, echo: Echo) -> Result<EchoReport, ApiError> {
        let patience = echo.patience + GRACE;
        let sent = self.runtime.call(move |node, now| node.echoes().map(|echoes| echoes.echo(now, &echo)))?;
        let sent = sent.ok_or_else(|| {
            let message = format!("nodes of the family '{}' have no echo requests", self.config.family());
            ApiError::usage(message).with_hint(format!(
                "take a node with {}; `trib paths` and `trib status` work in all families",
                Family::able(|can| can.echo)
            ))
        })?;
        let id = sent.map_err(|error| ApiError::usage(error.to_string()))?;
        let deadline = clock.now() + patience;
        loop {
            let left = clock.until(deadline);
            match subscription.wait(left) {
                Ok(Event::Echo(report)) if report.echo == id => return Ok(report),
                Ok(_) | Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    return Err(ApiError::new(
                        ErrorKind::Incomplete,
                        format!("the node reported nothing more about {id}"),
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
    }
}

/// Waits until a time.
fn rest(clock: &Clock, subscription: &Subscription, until: Time) -> Result<(), ApiError> {
    while !clock.until(until).is_zero() {
        if matches!(subscription.wait(clock.until(until)), Err(RecvTimeoutError::Disconnected)) {
            return Err(gone());
        }
    }
    Ok(())
}
fn gone() -> ApiError {
    ApiError::new(ErrorKind::Cancelled, "the node was stopped")
}
fn check(what: &str, found: u64, least: u64, most: u64) -> Result<(), ApiError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(ApiError::usage(format!("the {what} is {least} to {most}, not {found}")))
}
fn patience(timeout_ms: u64) -> Result<Duration, ApiError> {
    check("timeout in milliseconds", timeout_ms, 1, TIMEOUT_MS_MAX)?;
    Ok(Duration::from_millis(timeout_ms))
}
fn given(path: &EchoPath) -> Option<String> {
    match path {
        EchoPath::Same | EchoPath::Any => None,
        EchoPath::Given(path) => Some(path.clone()),
    }
}
fn unreached(name: &str, sent: u32, patience: Duration, refusal: Option<String>) -> ApiError {
    match refusal {
        Some(reason) => ApiError::new(ErrorKind::NotFound, format!("cannot reach '{name}': {reason}"))
            .with_hint("is it published, and do the forwarders have a route? `trib status` shows a node's routes"),
        None => {
            let requests = if sent == 1 { "the only request".into() } else { format!("any of {sent} requests") };
            let message = format!("cannot reach '{name}': no answer for it to {requests} within {patience:?} each");
            ApiError::new(ErrorKind::NotFound, message)
                .with_hint("`trib traceroute` shows how far requests get; other NDN programs do not answer them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::EchoId;

    #[test]
    fn answers_are_summed_up_per_path() {
        let report = |millis, outcome, path: Option<&str>| EchoReport {
            echo: EchoId(1),
            rtt: Duration::from_millis(millis),
            outcome,
            path: path.map(Into::into),
            hops: 1,
            path_failed: false,
        };
        let mut tally = Tally::default();
        for (millis, path) in [(10, "aa"), (20, "bb"), (30, "aa")] {
            tally.sent += 1;
            tally.add(&report(millis, EchoOutcome::Application("p".into()), Some(path)));
        }
        tally.sent += 1;
        tally.add(&report(99, EchoOutcome::Silence, None));
        let view = tally.summary("/a");
        assert_eq!((view.sent, view.answered, view.loss), (4, 3, 0.25));
        let rtt = view.rtt_ms.unwrap();
        assert_eq!((rtt.min, rtt.mean, rtt.max), (10.0, 20.0, 30.0));
        assert!((rtt.deviation - 8.165).abs() < 0.001);
        let paths: Vec<_> =
            view.paths.iter().map(|path| (path.path.as_str(), path.answered, path.rtt_ms.mean)).collect();
        assert_eq!(paths, [("aa", 2, 20.0), ("bb", 1, 20.0)]);
        assert_eq!(Tally::default().summary("/a").rtt_ms, None);
    }
}
