//! The operations of a node, in terms of the node and its files.
mod diagnosis;
mod echo;
mod explain;
mod fetch;
pub(crate) mod file_watch;
mod forwarding;
mod list;
mod policies;
mod publish;
mod receive;
mod reload;
mod resolve;
mod rules;
mod send;
mod serve;
mod status;
mod watch;

use std::sync::mpsc::RecvTimeoutError;
use tributary_content::{Name, Reference};
use tributary_core::{Duration, Time};
use tributary_net::Clock;

use crate::{
    config::published_name,
    error::ApiError,
    node::{LocalNode, event_bus::Subscription},
};

pub(crate) use diagnosis::alone;
pub(crate) use publish::Put;
pub(crate) use rules::{Binding, Change};
pub(crate) use send::is_dropped;

pub(crate) fn parse_reference(text: &str) -> Result<Reference, ApiError> {
    text.parse().map_err(|error| ApiError::usage(format!("'{text}' is not a name: {error}")))
}
pub(crate) fn parse_name(text: &str) -> Result<Name, ApiError> {
    text.parse().map_err(|error| ApiError::usage(format!("'{text}' is not a name: {error}")))
}

impl LocalNode {
    /// The name that something is published under, blinded below the prefixes of the config.
    pub(crate) fn published_name(&self, text: &str) -> Result<Name, ApiError> {
        let name = parse_name(text)?;
        published_name(&self.current.lock().blind, &name).map_err(|error| {
            let message = format!("'{name}' cannot be blinded: {error}");
            ApiError::usage(message).with_hint("each component of a blinded name has 32 bytes")
        })
    }
}

/// Waits for `done` to return something, checking after every event.
fn wait_until<T>(subscription: &Subscription, patience: Duration, done: impl Fn() -> Option<T>) -> Option<T> {
    let clock = Clock::new();
    let deadline = Time::ZERO + patience;
    loop {
        if let Some(result) = done() {
            return Some(result);
        }
        let left = clock.until(deadline);
        if left.is_zero() || matches!(subscription.wait(left), Err(RecvTimeoutError::Disconnected)) {
            return None;
        }
    }
}

/// Waits for changes without events: checks every `pause` until `done` returns something, or `patience` is over.
///
/// # Errors
/// The first one of `done`.
pub(crate) fn look_until<T>(
    patience: Duration,
    pause: Duration,
    mut done: impl FnMut() -> Result<Option<T>, ApiError>,
) -> Result<Option<T>, ApiError> {
    let clock = Clock::new();
    while clock.now().since(Time::ZERO) < patience {
        if let Some(result) = done()? {
            return Ok(Some(result));
        }
        std::thread::sleep(pause);
    }
    Ok(None)
}
