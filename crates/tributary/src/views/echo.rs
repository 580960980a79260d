//! Answers to echo requests as a person sees them.
use serde::{Deserialize, Serialize};
use tributary_core::event::{EchoOutcome, EchoReport};

tributary_core::declared! {
    /// The result of one echo request.
    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    pub struct EchoView {
        /// Its number, from 1 on.
        pub number: u32 = number,
        /// Traceroute: the number of the queried neighbour, counted from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub hop: Option<u8> = hop,
        /// `application`, `forwarder`, `object` (a cache has it), `hop-limit`, `unreachable` or `silence`.
        pub outcome: String = outcome.into(),
        /// Who answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub responder: Option<String> = responder.cloned(),
        /// Why it is unreachable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub reason: Option<String> = reason.cloned(),
        /// Round-trip time of an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rtt_ms: Option<f64> = came.then_some(report.rtt.as_secs_f64() * 1e3),
        /// The path that the answer took, as `--path` takes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub path: Option<String> = report.path.clone(),
        /// Whether the requested path could not be followed to its end.
        pub path_failed: bool = report.path_failed,
    }
    pub(crate) fn new(number: u32, hop: Option<u8>, report: &EchoReport) {
        let (outcome, responder, reason) = match &report.outcome {
            EchoOutcome::Application(responder) => ("application", Some(responder), None),
            EchoOutcome::Forwarder(responder) => ("forwarder", Some(responder), None),
            EchoOutcome::Object(responder) => ("object", Some(responder), None),
            EchoOutcome::HopLimit(responder) => ("hop-limit", Some(responder), None),
            EchoOutcome::Unreachable(reason) => ("unreachable", None, Some(reason)),
            _ => ("silence", None, None),
        };
        let came = responder.is_some() || reason.is_some();
    }
}

/// The result of a `ping`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PingedView {
    /// The target.
    pub name: String,
    /// Requests sent.
    pub sent: u32,
    /// Requests answered by the target.
    pub answered: u32,
    /// Share of requests that were not, 0 to 1.
    pub loss: f64,
    /// Round-trip times of all answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<RttView>,
    /// The results for each path that answers named.
    pub paths: Vec<PingedPathView>,
}

/// The result of a `ping` on one path.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PingedPathView {
    /// The path, as `--path` takes it.
    pub path: String,
    /// Who answered at its end.
    pub responder: String,
    /// Answers.
    pub answered: u32,
    /// Their round-trip times.
    pub rtt_ms: RttView,
}

/// Round-trip times in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RttView {
    /// The smallest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl RttView {
    /// `None` for no sample.
    pub(crate) fn of(samples: &[f64]) -> Option<RttView> {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count;
        let (min, max) = (samples.iter().copied().reduce(f64::min)?, samples.iter().copied().reduce(f64::max)?);
        Some(RttView { min, mean, max, deviation: variance.sqrt() })
    }
}
