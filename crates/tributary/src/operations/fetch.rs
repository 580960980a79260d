//! Fetching: one request, from the search for its name to the file in its place.
//!
//! ```text
//!  get ─► Object ──┬─ object found ─► transferred ─► placed, served ─► done
//!                  └─ nobody publishes it, but the folder above has the path
//!                        ▼
//!                      Part ──────┬─ transferred ─► placed ─► done
//!                                 └─ the folder lacks it, and patience is left
//!                                       ▼
//!                                     Wait ─► transferred or given up
//! ```
//! Each step is an attempt: it opens a store, starts a fetch of the node, and follows it until it ends.
use std::{
    io::Write,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
};
use tokio::sync::SemaphorePermit;
use tributary_content::{ByteRanges, Name, ObjectId, PublicKey, Reference, StoreError};
use tributary_core::{
    Duration, FaceId, Rate, Time, TransferId,
    event::{Event, ResolverEvent, TransferEvent, TransferReport},
};
use tributary_net::{
    Clock,
    disk::{self, PartFile, Selection},
};
use tributary_transport::{Fetch, Obstacle, ObstacleKind, policy::PathDemands};

use super::{diagnosis, parse_reference, resolve::place_in};
use crate::{
    api::{Flow, Notify},
    config::{FaceConfig, Role},
    error::{ApiError, ErrorKind},
    families::{BoxedNode, key_chain},
    family::Family,
    node::{
        LocalNode,
        event_bus::Subscription,
        files::{Portion, Sink},
        lookups::Outcome,
        mirrors::Mirrors,
        opening::Findings,
    },
    notice::{Notice, PROGRESS_INTERVAL},
    request::{FolderPart, Get, GetOptions, Output, PathWishes, Sealed},
    views::{DoneView, ProgressView},
};

/// The next step of a fetch.
enum Step {
    /// Fetch the object of the name, or find the folder that has the path.
    Object,
    /// Fetch the path in that folder.
    Part(Place),
    /// Wait for an object of the name; the error explains why the folder lacks the path.
    Wait(ApiError),
}
/// A path in a folder, with the only publisher to believe about both.
struct Place {
    folder: Reference,
    below: String,
}

impl LocalNode {
    pub(crate) fn get(
        &self,
        get: &Get,
        stream: Option<Box<dyn Write + Send>>,
        notify: Notify<'_>,
    ) -> Result<(), ApiError> {
        match stream.filter(|_| get.output == Output::Stream) {
            Some(stream) => self.get_into(get, Sink::Stream(stream), None, notify),
            None => self.get_to_path(get, None, notify),
        }
    }
    /// Fetches to a path; `paused` names the transfer of the queue to continue.
    pub(crate) fn get_to_path(
        &self,
        get: &Get,
        paused: Option<TransferId>,
        notify: Notify<'_>,
    ) -> Result<(), ApiError> {
        let Output::Path(path) = &get.output else {
            return Err(ApiError::usage("a fetch to a stream needs a stream to write to"));
        };
        let path = crate::preflight::absolute(path)?;
        self.get_into(get, Sink::Path(path), paused, notify)
    }
    pub(crate) fn get_into(
        &self,
        get: &Get,
        sink: Sink,
        paused: Option<TransferId>,
        notify: Notify<'_>,
    ) -> Result<(), ApiError> {
        let begun = Clock::new();
        let path = match &sink {
            Sink::Path(path) => path.clone(),
            // A part of a folder needs a place on the disk.
            Sink::Stream(_) | Sink::Cache(..) => return self.attempt(get, sink, false, None, notify).map(drop),
        };
        // A part of a folder has no versions.
        let may_be_within = get.part.below.is_none() && get.every_ms.is_none() && get.newer_than.is_none();
        let mut step = Step::Object;
        loop {
            let sink = Sink::Path(path.clone());
            step = match step {
                Step::Object => match self.attempt(get, sink, may_be_within, paused, notify)? {
                    Some(place) => Step::Part(place),
                    None => return Ok(()),
                },
                Step::Part(Place { folder: Reference { name, publisher, .. }, below }) => {
                    notify(Notice::Note { text: format!("looking for '{}' in the folder '{name}'", get.name) });
                    let part = FolderPart { below: Some(below), ..get.part.clone() };
                    // A certificate names its key.
                    let publisher = get.publisher.clone().or_else(|| publisher.map(|key| key.to_string()));
                    let get = Get { name: name.to_string(), part, publisher, ..get.clone() };
                    match self.attempt(&get, sink, false, paused, notify) {
                        Err(error) if error.kind == ErrorKind::NotFound => Step::Wait(error),
                        ended => return ended.map(drop),
                    }
                }
                Step::Wait(lacks) => {
                    let patience = get.patience_ms.map_or(Duration::ZERO, Duration::from_millis);
                    let left = patience.saturating_sub(begun.now().since(Time::ZERO));
                    if left.is_zero() {
                        return Err(lacks);
                    }
                    let patience_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
                    match self.attempt(&Get { patience_ms, ..get.clone() }, sink, false, paused, notify) {
                        Err(error) if error.kind == ErrorKind::NotFound => return Err(lacks),
                        ended => return ended.map(drop),
                    }
                }
            }
        }
    }
    /// Fetches an object. Returns the place to fetch instead if the object has no publisher, but a folder above it has the
    /// path.
    fn attempt(
        &self,
        get: &Get,
        mut sink: Sink,
        may_be_within: bool,
        paused: Option<TransferId>,
        notify: Notify<'_>,
    ) -> Result<Option<Place>, ApiError> {
        self.must_play(Role::Receiver, "fetch")?;
        let name = self.published_name(&get.name)?;
        let has_options = get.options != GetOptions::default();
        if has_options {
            self.check_options(&name)?;
            get.options.check().map_err(ApiError::usage)?;
        }
        let publisher = get.publisher.as_deref().map(parse_publisher).transpose()?;
        let (publisher, certificate) = publisher.map_or((None, None), |(key, certificate)| (Some(key), certificate));
        let object = get.hash.as_deref().map(parse_hash).transpose()?;
        let trust = self.files.trust(publisher, object);
        let mut portion = portion(get)?;
        check_output(get)?;
        let mirrors = Mirrors::new(&get.web, &self.config.faces)?;
        let demands = self.demands(&get.paths)?;
        let slot = self.take_slot(&name)?;
        if let Sink::Path(path) = &mut sink {
            *path = self.files.target(path, &name, get.part.below.as_deref())?;
        }
        let (output, part) = places(&sink);
        let patience = get.patience_ms.map_or(self.config.fetch.patience, Duration::from_millis);
        let is_served = output.is_some() && get.part.is_all() && (get.serve || self.config.serve.fetched);
        let (arriving, share) = if is_served { self.arriving(&name)? } else { None }.unzip();
        portion.share = share;
        // The user's web servers replace the publisher's: a transfer has one driver for such sources.
        let asks_named = self.config.mirrors.used && !get.no_mirrors && get.web.urls.is_empty();
        let asks_named = asks_named && get.ranges.is_none() && !matches!(sink, Sink::Cache(..));
        let sealed = match get.sealed {
            Sealed::Open => self.opening(patience),
            Sealed::Keep => disk::Sealed::Keep,
        };
        let findings = Findings::default();
        let opener = self.files.opener(get, sink, trust, sealed, portion, &findings)?;
        let rate_limit = get.limit_bits_per_second.map(Rate::from_bits_per_second);
        let fetch = Fetch { rate_limit, ..self.config.fetch.fetch(name.clone(), opener, patience) };
        let subscription = self.runtime.events.subscribe();
        let options = has_options.then_some(get.options);
        let (transfer, of_node) = self.begin(fetch, paused, (certificate, options, demands.clone()))?;
        if let Err(error) = mirrors.serve(self.runtime.remote(), of_node) {
            self.end(transfer)?;
            return Err(error);
        }
        let within = may_be_within.then(|| Reference { name: name.clone(), publisher, object });
        let mut search = Search {
            name,
            fetch: of_node,
            patience,
            // An explicit timeout covers a later publication, and a follower waits for later versions.
            waits: get.patience_ms.is_some() || get.every_ms.is_some() || !get.web.urls.is_empty(),
            within,
            look_at: LOOK_AFTER,
            may_be_level: self.config.family().profile().abilities.listing,
            named: asks_named.then(|| (findings.clone(), demands)),
            ..Search::default()
        };
        let uri = search.name.to_string();
        let followed = Followed { transfer, name: &uri, part: part.as_deref() };
        match self.follow(&followed, Some(&mut search), &subscription, notify)? {
            // There is no later version.
            Ended::Completed(_) if findings.is_had() => {}
            Ended::Completed(report) => {
                let version = findings.version().filter(|_| get.every_ms.is_some() || get.newer_than.is_some());
                notify(Notice::Done(DoneView { version, ..self.done(&uri, &report, output.clone()) }));
                self.serve_fetched(get.serve, output.as_deref().filter(|_| get.part.is_all()), notify)?;
            }
            Ended::Within(folder, below) => {
                match paused {
                    // The part of the folder continues the transfer.
                    Some(_) => self.put_off(transfer)?,
                    None => self.end(transfer)?,
                }
                return Ok(Some(Place { folder, below }));
            }
            ended => {
                return Err(self.unfetched(&followed, ended, search.obstacle.as_ref(), findings.take_refusal())?);
            }
        }
        // The complete object has replaced the arriving one.
        drop((slot, arriving));
        Ok(None)
    }
    /// Begins a fetch, which continues the transfer `paused`. Returns the numbers of the transfer and of the fetch.
    fn begin(
        &self,
        fetch: Fetch,
        paused: Option<TransferId>,
        (certificate, options, demands): (Option<Vec<u8>>, Option<GetOptions>, PathDemands),
    ) -> Result<(TransferId, TransferId), ApiError> {
        let (family, lives) = (self.config.family(), Arc::clone(&self.runtime.lives));
        self.runtime.call(move |node, now| {
            let fetch = begin(node, now, fetch, certificate, options, demands, family)?;
            // The first event of the fetch already bears the transfer's number.
            paused.into_iter().for_each(|id| lives.resume(id, fetch));
            Ok((lives.transfer_of(fetch), fetch))
        })?
    }
    /// Ends a fetch without its object, and returns the reason.
    fn unfetched(
        &self,
        followed: &Followed<'_>,
        ended: Ended,
        obstacle: Option<&Obstacle>,
        refusal: Option<StoreError>,
    ) -> Result<ApiError, ApiError> {
        let &Followed { transfer, name, part } = followed;
        Ok(match ended {
            Ended::Failed(report, reason) => {
                let diagnose = || diagnosis::diagnose(self, name, obstacle);
                let diagnosis = report.sources.is_empty().then(diagnose).flatten();
                failure(followed, &reason, &report, refusal, diagnosis)
            }
            Ended::Level(below) => {
                self.end(transfer)?;
                let message = format!("cannot fetch '{name}': it is a level above other names, such as {}", below[0]);
                ApiError::new(ErrorKind::NotFound, message).with_hint(format!("`trib ls {name}` lists them"))
            }
            Ended::Completed(_) | Ended::Within(..) | Ended::Stopped => {
                match self.queue.is_put_off(&transfer.to_string()) {
                    true => self.put_off(transfer)?,
                    false => self.end(transfer)?,
                }
                let kept = part.map(|part| format!(" in '{part}'")).unwrap_or_default();
                let message = format!("the fetch of '{name}' was stopped; verified chunks are kept{kept}");
                ApiError::new(ErrorKind::Cancelled, message).with_hint("the same command resumes where it stopped")
            }
        })
    }
    /// Cancels a fetch of the queue, or another transfer.
    pub(crate) fn cancel(&self, text: &str) -> Result<(), ApiError> {
        let Some(number) = self.queue.find_by_id(text) else { return self.end(self.transfer(text)?) };
        let last = self.queue.entry(number).and_then(|entry| entry.transfer);
        self.queue.remove(number)?;
        // The node may have forgotten its last transfer.
        let last = last.and_then(|last| self.transfer(&last).ok());
        last.map_or(Ok(()), |last| self.end(last))
    }
    /// Pauses a fetch of the queue.
    pub(crate) fn pause(&self, text: &str) -> Result<(), ApiError> {
        let number = self.queue.find(text).ok_or_else(|| {
            let message = format!("cannot pause {text}: it is no running fetch in the background");
            let hint = "a fetch of `trib get` is paused by ending the command; the same command resumes it";
            ApiError::usage(message).with_hint(hint)
        })?;
        let running = self.queue.pause(number)?;
        running.map_or(Ok(()), |id| self.put_off(self.transfer(&id)?))
    }
    /// Ends a transfer; its verified chunks are kept.
    fn end(&self, transfer: TransferId) -> Result<(), ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        self.runtime.call(move |node, now| {
            node.cancel(now, lives.fetch_of(transfer));
            lives.give_up(transfer);
        })
    }
    /// Ends a transfer until it is resumed.
    fn put_off(&self, transfer: TransferId) -> Result<(), ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        self.runtime.call(move |node, now| lives.pause(node, now, transfer))
    }
    /// Takes a slot of the limit `transfers`; dropping it returns the slot.
    fn take_slot(&self, name: &Name) -> Result<SemaphorePermit<'_>, ApiError> {
        self.fetches.try_acquire().map_err(|_| {
            let room = self.config.limits.transfers;
            let message = format!("cannot fetch '{name}': this node runs {room} fetches already");
            ApiError::usage(message).with_hint("raise 'transfers' in [limits], or wait")
        })
    }
    /// Serves the fetched object if the fetch or the config requests it. A failure counts only if the fetch does.
    fn serve_fetched(&self, is_requested: bool, output: Option<&str>, notify: Notify<'_>) -> Result<(), ApiError> {
        let Some(path) = output.filter(|_| is_requested || self.config.serve.fetched) else { return Ok(()) };
        match self.serve_copy(std::path::Path::new(path)) {
            Ok(published) => drop(notify(published)),
            Err(error) if is_requested => return Err(error),
            Err(error) => drop(notify(Notice::Note { text: error.message })),
        }
        Ok(())
    }
    /// The last word on a fetch that succeeded.
    fn done(&self, name: &str, report: &TransferReport, output: Option<String>) -> DoneView {
        let mut done = DoneView::new(name, self.config.family().word(), report, output);
        self.name_faces(&mut done.paths);
        done
    }
    /// A fetch's demands on paths, with faces by their numbers.
    pub(crate) fn demands(&self, wishes: &PathWishes) -> Result<PathDemands, ApiError> {
        let known = self.runtime.neighbours();
        let face = |text: &String| {
            let is_it =
                |(id, face): &&(FaceId, FaceConfig)| id.to_string() == *text || face.label.as_ref() == Some(text);
            known.iter().find(is_it).map(|(id, _)| *id).ok_or_else(|| {
                let names = known.iter().map(|(id, face)| face.label.clone().unwrap_or_else(|| id.to_string()));
                let message = format!("the node '{}' has no face '{text}'", self.config.label);
                let hint = format!("its faces are {}", names.collect::<Vec<_>>().join(", "));
                ApiError::usage(message).with_hint(hint)
            })
        };
        let faces = |of: &[String]| of.iter().map(face).collect::<Result<Vec<_>, _>>();
        Ok(PathDemands { priority: wishes.priority, only: faces(&wishes.only)?, avoid: faces(&wishes.avoid)? })
    }
    /// Refuses options that the node's family leaves to the publisher and the network.
    fn check_options(&self, name: &Name) -> Result<(), ApiError> {
        if self.runtime.call(|node, _| node.messaging().is_some())? {
            return Ok(());
        }
        let family = self.config.family();
        let message = format!(
            "cannot fetch '{name}' so: with family {family} the publisher cuts chunks, and the node alone sees to losses"
        );
        Err(ApiError::usage(message).with_hint(format!(
            "leave out chunk size, reliability, NACK timeout and what the network may keep, or take a node with {}",
            Family::able(|can| can.messages)
        )))
    }
    /// Reports the progress of a transfer until it ends. With `search` it also searches for the object until a source is
    /// found, and ends a hopeless search.
    fn follow(
        &self,
        followed: &Followed<'_>,
        mut search: Option<&mut Search>,
        subscription: &Subscription,
        notify: Notify<'_>,
    ) -> Result<Ended, ApiError> {
        let (transfer, name) = (followed.transfer, followed.name);
        let clock = Clock::new();
        let mut next = Time::ZERO;
        let part = followed.part.map(Into::into);
        let (queue, waiting) = (None, false);
        let mut flow =
            notify(Notice::Fetching { transfer: transfer.to_string(), name: name.into(), part, queue, waiting });
        while flow == Flow::Continue {
            let mut ending = None;
            match subscription.wait(clock.until(next)) {
                Ok(Event::Transfer(of, event)) if of == transfer => match event {
                    TransferEvent::Completed => ending = Some(None),
                    // A paused transfer has not failed.
                    TransferEvent::Failed { .. } if self.runtime.lives.is_paused(transfer) => next = Time::ZERO,
                    TransferEvent::Failed { reason } => ending = Some(Some(reason)),
                    TransferEvent::Absent { reason } => {
                        let Some(search) = &mut search else { continue };
                        if !std::mem::replace(&mut search.is_absent, true) {
                            next = Time::ZERO;
                        }
                        search.look_at = search.look_at.min(clock.now());
                        if search.waits {
                            flow = notify(Notice::Note { text: format!("'{name}' has no publisher yet: {reason}") });
                        }
                    }
                    event => {
                        let is_found =
                            matches!(event, TransferEvent::SourceAdded { .. } | TransferEvent::Started { .. });
                        if let Some(search) = search.as_mut().filter(|search| is_found && !search.is_found) {
                            // Its clock started with the fetch.
                            search.is_found = true;
                            self.note_latency("find", clock.now().since(Time::ZERO));
                        }
                        let notice = Notice::from_event(Event::Transfer(transfer, event));
                        notice.into_iter().for_each(|notice| flow = notify(notice));
                    }
                },
                Ok(Event::Resolver(ResolverEvent::Rejected { name: of, operation: "subscribe", reason }))
                    if of == name =>
                {
                    let obstacle = Obstacle { kind: ObstacleKind::Silent, reason };
                    search.iter_mut().for_each(|search| search.obstacle = Some(obstacle.clone()));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ApiError::new(ErrorKind::Gone, "the node was stopped"));
                }
            }
            let now = clock.now();
            if ending.is_none() && now < next {
                continue;
            }
            next = now + PROGRESS_INTERVAL;
            let Some((at, report)) = self.report(transfer)? else {
                let message = format!("'{name}': the node forgot {transfer} before it ended");
                return Err(ApiError::new(ErrorKind::Incomplete, message));
            };
            if flow == Flow::Continue {
                let mut view = ProgressView::new(transfer, name, &report, at);
                self.name_faces(&mut view.paths);
                flow = notify(Notice::Progress(view));
            }
            if let Some(search) = &mut search
                && let Some(ended) = self.search(now, (followed, search), (&report, ending.is_some()), notify)?
            {
                return Ok(ended);
            }
            // The event of the end may be queued or lost.
            let has_ended = report.ended.is_some() && !self.runtime.lives.is_paused(transfer);
            match ending.or_else(|| has_ended.then(|| report.failure.clone())) {
                Some(None) => return Ok(Ended::Completed(report)),
                Some(Some(reason)) => return Ok(Ended::Failed(report, reason)),
                None => {}
            }
        }
        Ok(Ended::Stopped)
    }
    /// Searches for the object of a fetch, or for the folder that has it; `Some` ends the fetch.
    fn search(
        &self,
        now: Time,
        (followed, search): (&Followed<'_>, &mut Search),
        (report, is_over): (&TransferReport, bool),
        notify: Notify<'_>,
    ) -> Result<Option<Ended>, ApiError> {
        let is_found = !report.sources.is_empty() || report.bytes > 0 || report.ended.is_some();
        if !is_over && report.ended.is_none() {
            self.ask_named(search);
        }
        if report.sources.is_empty()
            && let Some(text) = self.look_for_obstacle(now, search)?
        {
            notify(Notice::Note { text });
        }
        if is_over || is_found {
            // An object of the exact name takes precedence over a folder's path.
            search.above = None;
            return Ok(None);
        }
        let failed = |reason: String| Ok(Some(Ended::Failed(report.clone(), reason)));
        if now.since(Time::ZERO) >= search.patience + PATIENCE_SLACK {
            // A family without a neighbour may exceed the patience.
            self.end(followed.transfer)?;
            return failed(format!("no publisher answered within {:?}", search.patience));
        }
        if let Some((folder, below)) = self.look_around(now, search)? {
            return Ok(Some(Ended::Within(folder, below)));
        }
        if (now >= LEVEL_LOOK || search.is_absent) && std::mem::take(&mut search.may_be_level) {
            let below = self.below(followed.name);
            if !below.is_empty() {
                return Ok(Some(Ended::Level(below)));
            }
        }
        if search.is_absent && !search.waits && search.above.is_none() && now >= ABSENT_FOR {
            self.end(followed.transfer)?;
            return failed("nobody publishes it".into());
        }
        Ok(None)
    }
    /// Adds the publisher's web servers as sources once the manifest names them. Their failure does not end the fetch.
    fn ask_named(&self, search: &Search) {
        let Some((findings, demands)) = &search.named else { return };
        let urls = findings.take_mirrors();
        if urls.is_empty() {
            return;
        }
        let faces = self.runtime.neighbours();
        let mirrors = Mirrors::of_publisher(&urls, &faces, demands, self.config.mirrors.private);
        if let Err(error) = mirrors.and_then(|mirrors| mirrors.serve(self.runtime.remote(), search.fetch)) {
            self.runtime.events.note(&format!("no mirror of the publisher is used: {}", error.message));
        }
    }
    /// The folder above that has the path, once a lookup has found it.
    fn look_around(&self, now: Time, search: &mut Search) -> Result<Option<(Reference, String)>, ApiError> {
        let Some(reference) = &search.within else { return Ok(None) };
        if search.above.is_none() && now >= search.look_at {
            let is_last = search.is_absent && !search.waits;
            search.look_at = if is_last { Time::MAX } else { now + LOOK_AGAIN };
            search.above = Some(self.look_above(reference)?);
        }
        let outcome = match search.above.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(None),
            Some(outcome) => outcome.ok(),
        };
        search.above = None;
        let place = outcome.and_then(|outcome| place_in(&search.name, outcome));
        // The object may have been found since the last report.
        let fetch = search.fetch;
        let report = self.runtime.call(move |node, now| node.report(now, fetch))?;
        Ok(place.filter(|_| report.is_none_or(|report| report.sources.is_empty() && report.ended.is_none())))
    }
    /// Finds out what keeps a fetch from finding a source. The finding is kept: the node forgets it when the fetch
    /// ends. If the network lacks a role, this returns a sentence, once, since waiting does not help.
    fn look_for_obstacle(&self, now: Time, search: &mut Search) -> Result<Option<String>, ApiError> {
        let name = search.name.clone();
        if let Some(found) = self.runtime.call(move |node, now| node.obstacle(now, &name))? {
            search.obstacle = Some(found);
        }
        let missing = search.obstacle.as_ref().filter(|obstacle| obstacle.kind == ObstacleKind::Missing);
        search.missing_since = missing.map(|_| search.missing_since.unwrap_or(now));
        let is_due = search.missing_since.is_some_and(|since| now.since(since) >= MISSING_PATIENCE);
        let missing = missing.filter(|_| is_due && !search.is_reported);
        search.is_reported |= missing.is_some();
        Ok(missing.map(|missing| format!("'{}' cannot be found yet: {}", search.name, missing.reason)))
    }
    /// The names right below one, as far as the network lists them soon.
    fn below(&self, name: &str) -> Vec<String> {
        let mut below = Vec::new();
        let listed = self.list(name, LEVEL_PATIENCE, &mut |notice| {
            if let Notice::Entry { name, .. } = notice {
                below.push(name);
            }
            Flow::Continue
        });
        // What cannot be listed counts as no level.
        tracing::debug!("whether '{name}' is a level: {listed:?}");
        below
    }
    /// Reports the progress of a fetch that another client started, until it ends. A client that leaves stops nothing.
    pub(crate) fn follow_other(&self, id: &str, notify: Notify<'_>) -> Result<(), ApiError> {
        let entry = self.queue.find(id).and_then(|number| self.queue.entry(number));
        if let Some(entry) = entry.as_ref().filter(|entry| entry.transfer.is_none()) {
            let message = format!("the fetch of '{}' does not run yet", entry.get.name);
            return Err(
                ApiError::new(ErrorKind::NotFound, message).with_hint("`trib transfers` shows the transfers before it")
            );
        }
        let of_entry = entry.filter(|entry| entry.id() == id).and_then(|entry| entry.transfer);
        let id = of_entry.as_deref().unwrap_or(id);
        let transfers = self.transfers()?;
        // Among several fetches of one name it selects the latest.
        let found = transfers.iter().rfind(|(transfer, name)| transfer.to_string() == id || name.to_string() == id);
        let (transfer, name) = found.cloned().ok_or_else(|| {
            let message = format!("there is no fetch '{id}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })?;
        let (name, subscription) = (name.to_string(), self.runtime.events.subscribe());
        let followed = Followed { transfer, name: &name, part: None };
        match self.follow(&followed, None, &subscription, notify)? {
            Ended::Completed(report) => {
                notify(Notice::Done(self.done(&name, &report, None)));
                Ok(())
            }
            Ended::Failed(report, reason) => Err(failure(&followed, &reason, &report, None, None)),
            Ended::Level(_) | Ended::Within(..) | Ended::Stopped => Ok(()),
        }
    }
}

/// A transfer whose progress is reported.
struct Followed<'a> {
    transfer: TransferId,
    name: &'a str,
    /// The folder that holds it until it is complete.
    part: Option<&'a str>,
}

/// The search for the object of a fetch that has no source yet.
#[derive(Default)]
struct Search {
    name: Name,
    /// The number of the fetch at the node.
    fetch: TransferId,
    patience: Duration,
    /// Whether it waits for a later publication.
    waits: bool,
    /// Whether the network reports no publisher.
    is_absent: bool,
    /// Whether it has had a source.
    is_found: bool,
    /// What folders above must match, if the name may be a path in one.
    within: Option<Reference>,
    /// The lookup of the folders above its name, and when the next one starts.
    above: Option<Receiver<Outcome>>,
    look_at: Time,
    /// Whether its name may be a level above others.
    may_be_level: bool,
    /// The obstacle to finding a source.
    obstacle: Option<Obstacle>,
    /// Since when the network seems to lack a role, and whether that was reported.
    missing_since: Option<Time>,
    is_reported: bool,
    /// The publisher's web servers, and the faces over which to request from them.
    named: Option<(Findings, PathDemands)>,
}
/// Refuses options that contradict the output.
fn check_output(get: &Get) -> Result<(), ApiError> {
    match get.output {
        Output::Path(_) if get.ranges.is_some() => Err(ApiError::usage("ranges of an object are fetched to a stream")),
        Output::Stream if !get.part.is_all() => {
            let message = "a part of a folder cannot be written to a stream";
            Err(ApiError::usage(message).with_hint("name a file or folder with -o"))
        }
        _ if get.serve && !get.part.is_all() => {
            let message = "a part of a folder cannot be served: its publisher signed the whole";
            Err(ApiError::usage(message).with_hint("leave --serve out, or fetch all of the folder"))
        }
        Output::Stream if get.serve => {
            Err(ApiError::usage("an object written to a stream cannot be served").with_hint("name a file with -o"))
        }
        Output::Path(_) | Output::Stream => Ok(()),
    }
}
/// The wanted portion of the object.
fn portion(get: &Get) -> Result<Portion, ApiError> {
    let selection = |part: &FolderPart| {
        let below = part.below.as_deref().unwrap_or("");
        Selection::new(below, &part.include, &part.exclude).map_err(ApiError::usage)
    };
    Ok(Portion {
        ranges: get.ranges.as_deref().map(parse_ranges).transpose()?,
        selection: (!get.part.is_all()).then(|| selection(&get.part)).transpose()?.map(Arc::new),
        share: None,
    })
}
fn parse_ranges(text: &str) -> Result<ByteRanges, ApiError> {
    text.parse().map_err(|error| ApiError::usage(format!("'{text}' {error}")))
}
/// The key that a publisher must have, and the certificate if it was named by one.
fn parse_publisher(text: &str) -> Result<(PublicKey, Option<Vec<u8>>), ApiError> {
    if let Some(packet) = key_chain::certificate_of_publisher(text) {
        let (key, packet) = packet.map_err(ApiError::usage)?;
        return Ok((key, Some(packet)));
    }
    let key = text.parse::<PublicKey>().map_err(|error| {
        let message = format!("'{text}' is not a publisher's key: {error}");
        ApiError::usage(message).with_hint("`trib key show` prints it on the publisher's side")
    })?;
    Ok((key, None))
}
fn parse_hash(text: &str) -> Result<ObjectId, ApiError> {
    text.parse().map_err(|error| ApiError::usage(format!("'{text}' is not a hash: {error}")))
}
impl Get {
    /// The same with a reference taken apart: its name, and the publisher and the hash that it pins.
    ///
    /// # Errors
    /// [`ApiError`] if its name is neither a name nor a reference, or pins something else than the request does.
    pub fn settled(mut self) -> Result<Get, ApiError> {
        let Reference { name, publisher, object } = parse_reference(&self.name)?;
        let contradicts = |option: String| {
            let message = format!("'{}' contradicts {option}", self.name);
            Err(ApiError::usage(message).with_hint("leave one of them out"))
        };
        match (publisher, self.publisher.as_deref().map(parse_publisher).transpose()?) {
            (Some(key), Some((pinned, _))) if key != pinned => {
                return contradicts(format!("--publisher {pinned}"));
            }
            (Some(key), None) => self.publisher = Some(key.to_string()),
            _ => {}
        }
        match (object, self.hash.as_deref().map(parse_hash).transpose()?) {
            (Some(id), Some(pinned)) if id != pinned => return contradicts(format!("the hash {pinned}")),
            (Some(id), _) => self.hash = Some(id.to_string()),
            _ => {}
        }
        self.name = name.to_string();
        Ok(self)
    }
}
fn no_certificates() -> ApiError {
    let message = "a publisher can be named by an NDN certificate only on a node of family ndn";
    ApiError::usage(message).with_hint("name its key, ed25519:…")
}

/// How a transfer ended.
enum Ended {
    Completed(TransferReport),
    Failed(TransferReport, String),
    Stopped,
    /// It has no publisher, but this folder has this path.
    Within(Reference, String),
    /// It has no publisher, but names below it exist.
    Level(Vec<String>),
}

/// When a fetch without a source checks whether its name is only a prefix, by listing it.
const LEVEL_LOOK: Time = Time::from_millis(500);
/// A fetch without a source and without a negative answer looks up the folders above its name after this time, so that the
/// fetch of an object costs no such lookups.
const LOOK_AFTER: Time = Time::from_millis(500);
/// Interval of those lookups. Most are answered from the findings that this node keeps.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A negative answer does not end a younger fetch: a publication may be on its way to the resolver.
const ABSENT_FOR: Time = Time::from_millis(1_000);
/// How long after a fetch's patience it is ended, if its family does not end it.
const PATIENCE_SLACK: Duration = Duration::from_secs(1);
/// How long the network may seem to lack something before that is reported: beacons and routes take a moment to arrive.
const MISSING_PATIENCE: Duration = Duration::from_secs(2);
/// How long that listing may take.
const LEVEL_PATIENCE: Duration = Duration::from_millis(500);

/// The target of a fetch, and the folder of its unfinished download; `None` off the disk.
fn places(sink: &Sink) -> (Option<String>, Option<String>) {
    match sink {
        Sink::Path(path) => {
            let part = PartFile::unfinished_at(path).map(|folder| folder.display().to_string());
            (Some(path.display().to_string()), part)
        }
        Sink::Stream(_) | Sink::Cache(..) => (None, None),
    }
}
/// Begins a fetch with the options that its family leaves to the receiver.
fn begin(
    node: &mut BoxedNode,
    now: Time,
    fetch: Fetch,
    certificate: Option<Vec<u8>>,
    options: Option<GetOptions>,
    demands: PathDemands,
    family: Family,
) -> Result<TransferId, ApiError> {
    let transfer = match (certificate, options.and_then(|options| Some((options, node.messaging()?)))) {
        (Some(certificate), _) => node.fetch_certified(now, fetch, &certificate).ok_or_else(no_certificates)?,
        (None, Some((options, messaging))) => messaging.get(now, fetch, &options).map_err(ApiError::usage)?,
        (None, None) => node.fetch(now, fetch),
    };
    // In the same turn of the node: nothing is requested over a face to avoid.
    demand(node, now, transfer, demands, family)?;
    Ok(transfer)
}
/// Applies the demands on paths to a fetch; ends it if its family cannot choose paths.
fn demand(
    node: &mut BoxedNode,
    now: Time,
    transfer: TransferId,
    demands: PathDemands,
    family: Family,
) -> Result<(), ApiError> {
    // Where routers choose the paths, a priority orders the queue.
    let chooses = !demands.only.is_empty() || !demands.avoid.is_empty();
    if demands == PathDemands::default() || node.set_demands(now, transfer, demands) || !chooses {
        return Ok(());
    }
    node.cancel(now, transfer);
    let message = format!("nodes of family {family} do not choose their paths: routers do");
    Err(ApiError::usage(message).with_hint("leave --only and --avoid out, or use psi or ndn"))
}

/// The error of a failed fetch; `diagnosis` explains a missing answer.
fn failure(
    &Followed { name, part, .. }: &Followed<'_>,
    reason: &str,
    report: &TransferReport,
    refusal: Option<StoreError>,
    diagnosis: Option<ApiError>,
) -> ApiError {
    // The family's reason repeats the name.
    let message = format!("cannot fetch '{name}': {}", reason.replace(&format!(" of '{name}'"), ""));
    let kept = report.stored_bytes;
    match refusal {
        Some(StoreError::Sealed { reason }) => {
            ApiError::new(ErrorKind::Rejected, format!("cannot fetch '{name}': {reason}"))
                .with_hint("`trib get --sealed` keeps the sealed bytes, which readers can open")
        }
        Some(StoreError::Absent { reason }) => {
            ApiError::new(ErrorKind::NotFound, format!("cannot fetch '{name}' so: {reason}"))
        }
        Some(error) => ApiError::new(ErrorKind::Io, format!("cannot fetch '{name}': {error}")),
        None if report.sources.iter().any(|source| source.distrusted.is_some()) => {
            ApiError::new(ErrorKind::NotFound, message).with_hint(
                "ask the publisher for the key that `trib key show` prints there, and pin it with --publisher",
            )
        }
        None if report.bytes == 0 => match diagnosis {
            Some(why) => ApiError { message: format!("{message}: {}", why.message), ..why },
            None => ApiError::new(ErrorKind::NotFound, message)
                .with_hint("is a publisher running? list what the network offers with `trib ls`"),
        },
        None => ApiError::new(ErrorKind::Incomplete, message).with_hint(format!(
            "{kept} of {} bytes are verified and kept{}; the same command resumes there",
            report.bytes,
            part.filter(|_| kept > 0).map(|part| format!(" in '{part}'")).unwrap_or_default()
        )),
    }
}
