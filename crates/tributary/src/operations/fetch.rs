//! Fetching: one request for one object, followed until it ends.
use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};
use tributary_content::PublicKey;
use tributary_core::{
    Duration, Rate, Time, TransferId,
    event::{Event, ResolverEvent, TransferEvent, TransferReport},
};
use tributary_net::Clock;
use tributary_transport::{Fetch, Obstacle, ObstacleKind};

use super::{
    diagnosis::{self, Diagnosis},
    parse_name,
};
use crate::{
    api::Flow,
    config::Role,
    error::{ApiError, ErrorKind},
    family::Family,
    node::{
        LocalNode,
        event_bus::{Subscription, Waited},
        files::{Sink, Trouble, unfinished_at},
    },
    notice::{Notice, PROGRESS_INTERVAL},
    request::{Get, GetOptions, Output},
    views::{DoneView, ProgressView},
};

impl LocalNode {
    pub(crate) fn get(
        &self,
        get: &Get,
        stream: Option<Box<dyn Write + Send>>,
        tell: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        self.must_play(Role::Receiver, "fetch")?;
        let name = parse_name(&get.name)?;
        let (options, has_options) = (get.options.wanted(), get.options != GetOptions::default());
        if has_options && !self.runtime.call(|node, _| node.messaging().is_some())? {
            let family = self.config().family();
            let message = format!(
                "cannot fetch '{name}' so: with family {family} the publisher cuts chunks, and the node alone sees to losses"
            );
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint(format!(
                "leave out chunk size, reliability, NACK timeout and what the network may keep, or take a node with {}",
                Family::able(|can| can.messages)
            )));
        }
        let publisher = match &get.publisher {
            Some(text) => Some(text.parse::<PublicKey>().map_err(|error| {
                let message = format!("'{text}' is not a publisher's key: {error}");
                ApiError::new(ErrorKind::Usage, message).with_hint("`trib key show` prints it on the publisher's side")
            })?),
            None => None,
        };
        let sink = match (&get.output, stream) {
            (Output::Path(path), _) => {
                Sink::Path(std::path::absolute(path).map_err(|error| ApiError::io("find", path.display(), &error))?)
            }
            (Output::Stream, Some(stream)) => Sink::Stream(stream),
            (Output::Stream, None) => {
                return Err(ApiError::new(ErrorKind::Usage, "a fetch to a stream needs a stream to write to"));
            }
        };
        let room = self.config().limits.transfers;
        let _slot = FetchSlot::take(&self.fetches, room).ok_or_else(|| {
            let message = format!("cannot fetch '{name}': this node runs {room} fetches already");
            ApiError::new(ErrorKind::Usage, message).with_hint("raise 'transfers' in [limits], or wait")
        })?;
        let output = match &sink {
            Sink::Path(path) => Some(path.display().to_string()),
            Sink::Stream(_) => None,
        };
        let part = match &sink {
            Sink::Path(path) => unfinished_at(path).map(|folder| folder.display().to_string()),
            Sink::Stream(_) => None,
        };
        let trouble = Trouble::default();
        let fetch = Fetch {
            name: name.clone(),
            opener: self.files.opener(sink, publisher, get.overwrite, &trouble)?,
            rate_limit: get.limit_bits_per_second.map(Rate::from_bits_per_second),
            paths_per_source: self.config().fetch.paths_per_source,
            metric: self.config().fetch.metric,
            patience: Some(get.patience_ms.map_or(self.config().fetch.patience, Duration::from_millis)),
        };
        let subscription = self.runtime.events().subscribe();
        let transfer = self.runtime.call(move |node, now| match node.messaging().filter(|_| has_options) {
            Some(messaging) => messaging.get(now, fetch, &options),
            None => node.fetch(now, fetch),
        })?;
        let name = name.to_string();
        let mut obstacle = None;
        let patience = get.patience_ms.map_or(self.config().fetch.patience, Duration::from_millis);
        let (what, waits) = ((&*name, part.as_deref()), Some(patience));
        let report = self.follow(transfer, what, &subscription, &mut obstacle, waits, tell)?;
        match report {
            Ended::Completed(report) => {
                tell(Notice::Done(DoneView::new(&name, self.config().family().word(), &report, output)));
                Ok(())
            }
            Ended::Level(below) => {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                let message = format!("cannot fetch '{name}': it is a level above other names, such as {}", below[0]);
                Err(ApiError::new(ErrorKind::NotFound, message).with_hint(format!("`trib ls {name}` lists them")))
            }
            Ended::Failed(report, reason) => {
                let diagnosis = report.sources.is_empty().then(|| diagnosis::diagnose(self, &name, obstacle.as_ref()));
                Err(failure(&name, &reason, &report, (&trouble, part.as_deref()), diagnosis.flatten()))
            }
            Ended::Stopped => {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                let kept = part.map(|part| format!(" in '{part}'")).unwrap_or_default();
                let message = format!("the fetch of '{name}' was ended; what was verified is kept{kept}");
                Err(ApiError::new(ErrorKind::Cancelled, message).with_hint("the same command goes on where it stopped"))
            }
        }
    }
    /// Tells the progress of a transfer until it ends. `obstacle` becomes what keeps it from finding a source; that the
    /// network lacks something is told at once, since waiting does not help.
    fn follow(
        &self,
        transfer: TransferId,
        (name, part): (&str, Option<&str>),
        subscription: &Subscription,
        obstacle: &mut Option<Obstacle>,
        patience: Option<Duration>,
        tell: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<Ended, ApiError> {
        let clock = Clock::new();
        let mut next = Time::ZERO;
        let (mut missing_since, mut is_told) = (None, false);
        let mut may_be_level = self.config().family().profile().abilities.listing;
        let mut flow =
            tell(Notice::Fetching { transfer: transfer.to_string(), name: name.into(), part: part.map(Into::into) });
        while flow == Flow::Continue {
            let mut ending = None;
            match subscription.wait(clock.until(next)) {
                Waited::Event(Event::Resolver(ResolverEvent::Rejected {
                    name: of,
                    operation: "subscribe",
                    reason,
                })) if of == name => {
                    *obstacle = Some(Obstacle { kind: ObstacleKind::Silent, reason });
                }
                Waited::Event(Event::Transfer(of, event)) if of == transfer => match event {
                    TransferEvent::Completed => ending = Some(None),
                    TransferEvent::Failed { reason } => ending = Some(Some(reason)),
                    event => {
                        if let Some(told) = Notice::from_event(&Event::Transfer(of, event)) {
                            flow = tell(told);
                        }
                    }
                },
                Waited::Event(_) | Waited::TimedOut => {}
                Waited::Closed => return Err(ApiError::new(ErrorKind::Gone, "the node was stopped")),
            }
            if ending.is_none() && clock.now() < next {
                continue;
            }
            next = clock.now() + PROGRESS_INTERVAL;
            let Some((now, report)) = self.report(transfer)? else {
                let message = format!("'{name}': the node forgot {transfer} before it ended");
                return Err(ApiError::new(ErrorKind::Incomplete, message));
            };
            if flow == Flow::Continue {
                flow = tell(Notice::Progress(ProgressView::new(transfer, name, &report, now)));
            }
            // A family that has nobody to ask yet may wait longer than it should.
            let is_over = patience.is_some_and(|patience| clock.now().since(Time::ZERO) >= patience + PATIENCE_SLACK);
            if is_over && ending.is_none() && report.sources.is_empty() && report.bytes == 0 && report.ended.is_none() {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                let patience = patience.unwrap_or_default();
                return Ok(Ended::Failed(report, format!("no publisher answered within {patience:?}")));
            }
            if report.sources.is_empty() {
                self.look_for_obstacle(name, obstacle)?;
                let missing = obstacle.as_ref().filter(|obstacle| obstacle.kind == ObstacleKind::Missing);
                missing_since = missing.map(|_| missing_since.unwrap_or(clock.now()));
                let is_due = missing_since.is_some_and(|since| clock.now().since(since) >= MISSING_PATIENCE);
                if let Some(missing) = missing.filter(|_| is_due && !is_told) {
                    is_told = true;
                    flow = tell(Notice::Note { text: format!("'{name}' cannot be found yet: {}", missing.reason) });
                }
            }
            if clock.now() >= LEVEL_LOOK && ending.is_none() && std::mem::take(&mut may_be_level) {
                let is_found = report.bytes > 0 || !report.sources.is_empty() || report.ended.is_some();
                let below = if is_found { Vec::new() } else { self.below(name) };
                if !below.is_empty() {
                    return Ok(Ended::Level(below));
                }
            }
            match ending {
                Some(None) => return Ok(Ended::Completed(report)),
                Some(Some(reason)) => return Ok(Ended::Failed(report, reason)),
                // The event is still on its way, or was lost.
                None if report.ended.is_some() => {
                    return Ok(match report.failure.clone() {
                        Some(reason) => Ended::Failed(report, reason),
                        None => Ended::Completed(report),
                    });
                }
                None => {}
            }
        }
        Ok(Ended::Stopped)
    }
    /// Takes note of what keeps a fetch from finding a source. What was known stays known: a fetch that ends is forgotten by
    /// those who knew.
    fn look_for_obstacle(&self, name: &str, obstacle: &mut Option<Obstacle>) -> Result<(), ApiError> {
        let of = parse_name(name)?;
        if let Some(found) = self.runtime.call(move |node, now| node.obstacle(now, &of))? {
            *obstacle = Some(found);
        }
        Ok(())
    }
    /// The names right below one, as far as they are known soon.
    fn below(&self, name: &str) -> Vec<String> {
        let mut below = Vec::new();
        let listed = self.list(name, LEVEL_PATIENCE, &mut |told| {
            if let Notice::Entry { name, .. } = told {
                below.push(name);
            }
            Flow::Continue
        });
        // What cannot be listed is no level, as far as anybody knows.
        tracing::debug!("whether '{name}' is a level: {listed:?}");
        below
    }
    /// Tells the progress of a fetch that somebody else began, until it ends; who leaves ends nothing.
    pub(crate) fn follow_other(&self, id: &str, tell: &mut dyn FnMut(Notice) -> Flow) -> Result<(), ApiError> {
        let transfers = self.transfers()?;
        // Of several fetches of one name the latest is meant.
        let found = transfers.iter().rfind(|(transfer, name)| transfer.to_string() == id || name.to_string() == id);
        let (transfer, name) = found.cloned().ok_or_else(|| {
            let message = format!("there is no fetch '{id}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })?;
        let (name, subscription, mut obstacle) = (name.to_string(), self.runtime.events().subscribe(), None);
        match self.follow(transfer, (&name, None), &subscription, &mut obstacle, None, tell)? {
            Ended::Completed(report) => {
                tell(Notice::Done(DoneView::new(&name, self.config().family().word(), &report, None)));
                Ok(())
            }
            Ended::Failed(report, reason) => Err(failure(&name, &reason, &report, (&Trouble::default(), None), None)),
            Ended::Level(_) | Ended::Stopped => Ok(()),
        }
    }
}

/// How a transfer ended.
enum Ended {
    Completed(TransferReport),
    Failed(TransferReport, String),
    Stopped,
    /// Nobody offers it, but there are these names below it.
    Level(Vec<String>),
}

/// A fetch that knows no source after so long may be one of a level: then it is looked what is below it.
const LEVEL_LOOK: Time = Time::from_millis(500);
/// How much later than a fetch's patience it is ended, if its family does not end it.
const PATIENCE_SLACK: Duration = Duration::from_secs(1);
/// How long the network may seem to lack something before that is told: beacons and routes take a moment to arrive.
const MISSING_PATIENCE: Duration = Duration::from_secs(2);
/// How long that may take.
const LEVEL_PATIENCE: Duration = Duration::from_millis(500);

/// One of a limited number of places; given back when dropped.
struct FetchSlot<'a>(&'a AtomicUsize);

impl<'a> FetchSlot<'a> {
    fn take(taken: &'a AtomicUsize, room: usize) -> Option<Self> {
        let more = |count: usize| (count < room).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| FetchSlot(taken))
    }
}
impl Drop for FetchSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What to tell a person about a fetch that failed; `diagnosis` is why nobody answered.
fn failure(
    name: &str,
    reason: &str,
    report: &TransferReport,
    (trouble, part): (&Trouble, Option<&str>),
    diagnosis: Option<Diagnosis>,
) -> ApiError {
    // Where it was given up its name is told as well.
    let message = format!("cannot fetch '{name}': {}", reason.replace(&format!(" of '{name}'"), ""));
    let kept = report.stored_bytes;
    match trouble.take() {
        Some(error) => ApiError::new(ErrorKind::Io, format!("cannot fetch '{name}': {error}")),
        None if report.sources.iter().any(|source| source.distrusted.is_some()) => {
            ApiError::new(ErrorKind::NotFound, message).with_hint(
                "ask the publisher for the key that `trib key show` prints there, and pin it with --publisher",
            )
        }
        None if report.bytes == 0 => match diagnosis {
            Some(Diagnosis { reason, hint }) => {
                let error = ApiError::new(ErrorKind::NotFound, format!("{message}: {reason}"));
                hint.into_iter().fold(error, ApiError::with_hint)
            }
            None => ApiError::new(ErrorKind::NotFound, message)
                .with_hint("is a publisher running? list what the network offers with `trib ls`"),
        },
        None => ApiError::new(ErrorKind::Incomplete, message).with_hint(format!(
            "{kept} of {} bytes are verified and kept{}; the same command goes on there",
            report.bytes,
            part.filter(|_| kept > 0).map(|part| format!(" in '{part}'")).unwrap_or_default()
        )),
    }
}
