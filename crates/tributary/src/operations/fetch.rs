//! Fetching: one request for one object, followed until it ends.
use std::{
    io::Write,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, TryRecvError},
    },
};
use tributary_content::{ByteRanges, Name, PublicKey, StoreError, StoreOpener};
use tributary_core::{
    Duration, FaceId, Rate, Time, TransferId,
    event::{Event, ResolverEvent, TransferEvent, TransferReport},
};
use tributary_ndn::publisher_of;
use tributary_net::{
    Clock,
    disk::{self, ObjectCache, OnOpen, Selection},
};
use tributary_transport::{Fetch, Obstacle, ObstacleKind, policy::PathDemands};

use super::{
    diagnosis, parse_name,
    resolve::{Keys, place_in},
};
use crate::{
    api::Flow,
    config::{FaceConfig, Role},
    error::{ApiError, ErrorKind},
    families::{BoxedNode, key_chain},
    family::Family,
    node::{
        LocalNode,
        event_bus::{Subscription, Waited},
        files::{Portion, Sink, Trouble, unfinished_at},
        lookups::Outcome,
        mirrors::{Mirrors, Named, NamedMirrors},
        versions::{LaterVersions, Versions},
    },
    notice::{Notice, PROGRESS_INTERVAL},
    request::{FolderPart, Get, GetOptions, Output, PathWishes, Sealed},
    views::{DoneView, ProgressView},
};

/// A folder, the path in it that is to be fetched, and the only publisher that is believed about them.
type InFolder = ((Name, String), Option<PublicKey>);

impl LocalNode {
    pub(crate) fn get(
        &self,
        get: &Get,
        stream: Option<Box<dyn Write + Send>>,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        match (&get.output, stream) {
            (Output::Path(_), _) => self.get_to_path(get, notify),
            (Output::Stream, Some(stream)) => self.get_into(get, Sink::Stream(stream), notify),
            (Output::Stream, None) => {
                Err(ApiError::new(ErrorKind::Usage, "a fetch to a stream needs a stream to write to"))
            }
        }
    }
    pub(super) fn get_to_path(&self, get: &Get, notify: &mut dyn FnMut(Notice) -> Flow) -> Result<(), ApiError> {
        let Output::Path(path) = &get.output else {
            return Err(ApiError::new(ErrorKind::Usage, "a fetch to a path needs one"));
        };
        let path = std::path::absolute(path).map_err(|error| ApiError::io("find", path.display(), &error))?;
        self.get_into(get, Sink::Path(path), notify)
    }
    /// Fetches what readers want of an object into a cache, until they want no more.
    pub(crate) fn get_for_readers(
        &self,
        get: &Get,
        cache: &ObjectCache,
        on_open: OnOpen,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        self.get_into(get, Sink::Cache(cache.clone(), on_open), notify)
    }
    fn get_into(&self, get: &Get, sink: Sink, notify: &mut dyn FnMut(Notice) -> Flow) -> Result<(), ApiError> {
        let begun = Clock::new();
        // What is below names has a place on the disk, and no versions of its own.
        let path = match &sink {
            Sink::Path(path) => Some(path.clone()),
            Sink::Stream(_) | Sink::Cache(..) => None,
        };
        let may_be_within =
            path.is_some() && get.part.below.is_none() && get.every_ms.is_none() && get.newer_than.is_none();
        let Some((place, key)) = self.get_once(get, sink, may_be_within, notify)? else { return Ok(()) };
        let within = match self.get_within(get, place, key, notify) {
            Err(error) if error.kind == ErrorKind::NotFound => error,
            ended => return ended,
        };
        // No folder has it, but an object of that name may come yet, if it is to be waited for.
        let patience = get.patience_ms.map_or(Duration::ZERO, Duration::from_millis);
        let left = patience.saturating_sub(begun.now().since(Time::ZERO));
        let Some(path) = path.filter(|_| left > Duration::ZERO) else { return Err(within) };
        let patience_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        match self.get_once(&Get { patience_ms, ..get.clone() }, Sink::Path(path), false, notify) {
            Err(error) if error.kind == ErrorKind::NotFound => Err(within),
            ended => ended.map(drop),
        }
    }
    /// Fetches an object; gives the folder above it that has a path of this name instead, if there is one and nobody offers
    /// the object, and the only publisher that is believed about it.
    fn get_once(
        &self,
        get: &Get,
        mut sink: Sink,
        may_be_within: bool,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<Option<InFolder>, ApiError> {
        self.must_play(Role::Receiver, "fetch")?;
        let name = self.published_name(&get.name)?;
        let has_options = get.options != GetOptions::default();
        if has_options {
            self.check_options(&name)?;
            get.options.check()?;
        }
        let publisher = get.publisher.as_deref().map(parse_publisher).transpose()?;
        let (publisher, certificate) = publisher.map_or((None, None), |(key, certificate)| (Some(key), certificate));
        let keys = may_be_within.then(|| self.keys_above(publisher, &name)).transpose()?;
        let mut portion = portion(get)?;
        check_output(get)?;
        let mirrors = Mirrors::new(&get.web, &self.config().faces)?;
        let demands = self.demands(&get.paths)?;
        let slot = self.take_slot(&name)?;
        if let Sink::Path(path) = &mut sink {
            *path = self.files.target(path, &name, get.part.below.as_deref())?;
        }
        let (output, part) = places(&sink);
        let patience = get.patience_ms.map_or(self.config().fetch.patience, Duration::from_millis);
        let is_served = output.is_some() && get.part.is_all() && (get.serve || self.config().serve.fetched);
        let arriving = if is_served { self.arriving(&name)? } else { None };
        let (arriving, share) = arriving.unzip();
        portion.share = share;
        let findings = Findings::default();
        let fetch = Fetch {
            name: name.clone(),
            opener: self.opener(get, sink, publisher, portion, &findings)?,
            rate_limit: get.limit_bits_per_second.map(Rate::from_bits_per_second),
            paths_per_source: self.config().fetch.paths_per_source,
            metric: self.config().fetch.metric,
            patience: Some(patience),
        };
        let subscription = self.runtime.events().subscribe();
        let (family, options) = (self.config().family(), has_options.then_some(get.options));
        let wanted = demands.clone();
        let begin = move |node: &mut BoxedNode, now| begin(node, now, fetch, certificate, options, wanted, family);
        let transfer = self.runtime.call(begin)??;
        if let Err(error) = mirrors.serve(self.runtime.remote(), transfer) {
            self.runtime.call(move |node, now| node.cancel(now, transfer))?;
            return Err(error);
        }
        let name = name.to_string();
        let mut following = Following {
            named: Some((findings.named.clone(), demands.clone())),
            may_be_within: keys,
            // A given timeout covers a publication too, and a follower waits for later versions.
            waits: get.patience_ms.is_some() || get.every_ms.is_some() || !get.web.urls.is_empty(),
            ..Following::new(transfer, &name, part.as_deref(), Some(patience))
        };
        match self.follow(&mut following, &subscription, notify)? {
            // There is no later version: nothing was fetched.
            Ended::Completed(_) if findings.versions.is_had() => Ok(None),
            Ended::Completed(report) => {
                let done = self.done(&name, &report, output.clone());
                notify(Notice::Done(DoneView { version: findings.versions.opened(), ..done }));
                self.serve_fetched(get.serve, output.as_deref().filter(|_| get.part.is_all()), notify)?;
                // The complete object has taken the place of the arriving one.
                drop((slot, arriving));
                Ok(None)
            }
            Ended::Within(place) => {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                Ok(Some((place, keys.and_then(Keys::only))))
            }
            ended => Err(self.unfetched(&following, ended, &findings.trouble)?),
        }
    }
    /// Opens the store of a fetch; what comes of it is in `told`.
    fn opener(
        &self,
        get: &Get,
        sink: Sink,
        publisher: Option<PublicKey>,
        portion: Portion,
        findings: &Findings,
    ) -> Result<Box<dyn StoreOpener>, ApiError> {
        let sealed = match get.sealed {
            Sealed::Open => self.opening(get.patience_ms.map_or(self.config().fetch.patience, Duration::from_millis)),
            Sealed::Keep => disk::Sealed::Keep,
        };
        let is_cached = matches!(sink, Sink::Cache(..));
        let mut opener = self.files.opener(sink, publisher, get.overwrite, sealed, portion, &findings.trouble)?;
        if get.every_ms.is_some() || get.newer_than.is_some() {
            opener = Box::new(LaterVersions::new(opener, get.newer_than, &findings.versions));
        }
        // One's own web servers replace those that the publisher names: a transfer has one driver of such sources.
        let asks_named = self.config().mirrors.used && !get.no_mirrors && get.web.urls.is_empty();
        if asks_named && get.ranges.is_none() && !is_cached {
            opener = Box::new(Named::new(opener, &findings.named));
        }
        Ok(opener)
    }
    /// The error of a fetch that ended without its object.
    fn unfetched(&self, following: &Following<'_>, ended: Ended, trouble: &Trouble) -> Result<ApiError, ApiError> {
        let (name, transfer, part) = (following.name, following.transfer, following.part);
        Ok(match ended {
            Ended::Failed(report, reason) => {
                let diagnose = || diagnosis::diagnose(self, name, following.obstacle.as_ref());
                let diagnosis = report.sources.is_empty().then(diagnose).flatten();
                failure(name, &reason, &report, (trouble, part), diagnosis)
            }
            Ended::Level(below) => {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                let message = format!("cannot fetch '{name}': it is a level above other names, such as {}", below[0]);
                ApiError::new(ErrorKind::NotFound, message).with_hint(format!("`trib ls {name}` lists them"))
            }
            Ended::Completed(_) | Ended::Within(_) | Ended::Stopped => {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                let kept = part.map(|part| format!(" in '{part}'")).unwrap_or_default();
                let message = format!("the fetch of '{name}' was ended; what was verified is kept{kept}");
                ApiError::new(ErrorKind::Cancelled, message).with_hint("the same command goes on where it stopped")
            }
        })
    }
    /// Takes one of the places for fetches, until it is dropped.
    fn take_slot(&self, name: &Name) -> Result<FetchSlot<'_>, ApiError> {
        let room = self.config().limits.transfers;
        FetchSlot::take(&self.fetches, room).ok_or_else(|| {
            let message = format!("cannot fetch '{name}': this node runs {room} fetches already");
            ApiError::new(ErrorKind::Usage, message).with_hint("raise 'transfers' in [limits], or wait")
        })
    }
    /// Serves what was fetched, if the fetch or the config says so. What the config alone says is no reason to fail.
    fn serve_fetched(
        &self,
        is_requested: bool,
        output: Option<&str>,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<(), ApiError> {
        let Some(path) = output.filter(|_| is_requested || self.config().serve.fetched) else { return Ok(()) };
        match self.serve_copy(std::path::Path::new(path)) {
            Ok(published) => drop(notify(published)),
            Err(error) if is_requested => return Err(error),
            Err(error) => drop(notify(Notice::Note { text: error.message })),
        }
        Ok(())
    }
    /// The last word on a fetch that succeeded.
    fn done(&self, name: &str, report: &TransferReport, output: Option<String>) -> DoneView {
        let mut done = DoneView::new(name, self.config().family().word(), report, output);
        self.name_faces(&mut done.paths);
        done
    }
    /// What a fetch wants of paths, with faces by their numbers.
    pub(crate) fn demands(&self, wishes: &PathWishes) -> Result<PathDemands, ApiError> {
        let known = self.runtime.neighbours();
        let face = |text: &String| {
            let is_it =
                |(id, face): &&(FaceId, FaceConfig)| id.to_string() == *text || face.label.as_ref() == Some(text);
            known.iter().find(is_it).map(|(id, _)| *id).ok_or_else(|| {
                let names = known.iter().map(|(id, face)| face.label.clone().unwrap_or_else(|| id.to_string()));
                let message = format!("the node '{}' has no face '{text}'", self.config().label);
                let hint = format!("its faces are {}", names.collect::<Vec<_>>().join(", "));
                ApiError::new(ErrorKind::Usage, message).with_hint(hint)
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
        let family = self.config().family();
        let message = format!(
            "cannot fetch '{name}' so: with family {family} the publisher cuts chunks, and the node alone sees to losses"
        );
        Err(ApiError::new(ErrorKind::Usage, message).with_hint(format!(
            "leave out chunk size, reliability, NACK timeout and what the network may keep, or take a node with {}",
            Family::able(|can| can.messages)
        )))
    }
    /// Reports the progress of a transfer until it ends.
    fn follow(
        &self,
        following: &mut Following<'_>,
        subscription: &Subscription,
        notify: &mut dyn FnMut(Notice) -> Flow,
    ) -> Result<Ended, ApiError> {
        let transfer = following.transfer;
        let name = following.name;
        let mut next = Time::ZERO;
        let mut may_be_level = self.config().family().profile().abilities.listing;
        let part = following.part.map(Into::into);
        let (queue, waiting) = (None, false);
        let mut flow =
            notify(Notice::Fetching { transfer: transfer.to_string(), name: name.into(), part, queue, waiting });
        while flow == Flow::Continue {
            let mut ending = None;
            match subscription.wait(following.clock.until(next)) {
                Waited::Event(Event::Resolver(ResolverEvent::Rejected {
                    name: of,
                    operation: "subscribe",
                    reason,
                })) if of == name => {
                    following.obstacle = Some(Obstacle { kind: ObstacleKind::Silent, reason });
                }
                Waited::Event(Event::Transfer(of, event)) if of == transfer => {
                    let was_absent = following.is_absent;
                    ending = self.on_event(following, event, &mut |notice| flow = notify(notice));
                    if following.is_absent && !was_absent {
                        next = Time::ZERO;
                    }
                }
                Waited::Event(_) | Waited::TimedOut => {}
                Waited::Closed => return Err(ApiError::new(ErrorKind::Gone, "the node was stopped")),
            }
            let now = following.clock.now();
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
            let is_found = !report.sources.is_empty() || report.bytes > 0 || report.ended.is_some();
            if let Some(patience) = following.patience.filter(|_| !is_found && ending.is_none())
                && now.since(Time::ZERO) >= patience + PATIENCE_SLACK
            {
                // A family that has nobody to ask yet may wait longer than it should.
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                return Ok(Ended::Failed(report, format!("no publisher answered within {patience:?}")));
            }
            if report.sources.is_empty()
                && let Some(notice) = self.look_for_obstacle(following)?
            {
                flow = notify(notice);
            }
            if let Some(place) = self.look_around(following, &report, ending.is_some())? {
                return Ok(Ended::Within(place));
            }
            let is_absent = following.is_absent && !is_found && ending.is_none();
            if (now >= LEVEL_LOOK || is_absent) && ending.is_none() && std::mem::take(&mut may_be_level) {
                let below = if is_found { Vec::new() } else { self.below(name) };
                if !below.is_empty() {
                    return Ok(Ended::Level(below));
                }
            }
            if is_absent && !following.waits && following.above.is_none() && now >= ABSENT_FOR {
                self.runtime.call(move |node, now| node.cancel(now, transfer))?;
                return Ok(Ended::Failed(report, "nobody publishes it".into()));
            }
            // The event of an end may still be on its way, or was lost.
            let ending = ending.or_else(|| report.ended.map(|_| report.failure.clone()));
            match ending {
                Some(None) => return Ok(Ended::Completed(report)),
                Some(Some(reason)) => return Ok(Ended::Failed(report, reason)),
                None => {}
            }
        }
        Ok(Ended::Stopped)
    }

    /// Takes an event of a transfer. `Some` once it has ended, with the reason of a failure.
    fn on_event(
        &self,
        following: &mut Following<'_>,
        event: TransferEvent,
        notify: &mut dyn FnMut(Notice),
    ) -> Option<Option<String>> {
        match event {
            TransferEvent::Completed => return Some(None),
            TransferEvent::Failed { reason } => return Some(Some(reason)),
            TransferEvent::Absent { reason } => {
                following.is_absent = true;
                following.look_at = following.look_at.min(following.clock.now());
                if following.waits {
                    notify(Notice::Note { text: format!("nobody publishes '{}' yet: {reason}", following.name) });
                }
            }
            event => {
                let is_found = matches!(event, TransferEvent::SourceAdded { .. } | TransferEvent::Started { .. });
                // Only whoever began it knows when that was.
                if is_found && following.patience.is_some() && !std::mem::replace(&mut following.is_found, true) {
                    self.note_latency("find", following.clock.now().since(Time::ZERO));
                }
                Notice::from_event(&Event::Transfer(following.transfer, event)).into_iter().for_each(notify);
            }
        }
        None
    }
    /// Lets web servers serve that the publisher names, once they are known. What is amiss with them is no reason to fail.
    fn ask_named(&self, following: &Following<'_>) {
        let Some((named, demands)) = &following.named else { return };
        let urls = std::mem::take(&mut *named.lock().unwrap_or_else(PoisonError::into_inner));
        if urls.is_empty() {
            return;
        }
        let faces = self.runtime.neighbours();
        let mirrors = Mirrors::of_publisher(&urls, &faces, demands, self.config().mirrors.private);
        if let Err(error) = mirrors.and_then(|mirrors| mirrors.serve(self.runtime.remote(), following.transfer)) {
            self.runtime.events().note(&format!("no mirror of the publisher is used: {}", error.message));
        }
    }
    /// Lets web servers serve that the publisher names, and gives the folder that has the path which is being fetched, if
    /// nobody offers an object of that name.
    fn look_around(
        &self,
        following: &mut Following<'_>,
        report: &TransferReport,
        is_over: bool,
    ) -> Result<Option<(Name, String)>, ApiError> {
        let is_found = |report: &TransferReport| !report.sources.is_empty() || report.ended.is_some();
        if !is_over && report.ended.is_none() {
            self.ask_named(following);
        }
        let Some(keys) = following.may_be_within.filter(|_| !is_over && !is_found(report)) else {
            // An object of the very name is what is meant.
            following.above = None;
            return Ok(None);
        };
        let (path, now) = (parse_name(following.name)?, following.clock.now());
        if following.above.is_none() && now >= following.look_at {
            let is_over = following.is_absent && !following.waits;
            following.look_at = if is_over { Time::MAX } else { now + LOOK_AGAIN };
            following.above = Some(self.look_above(&path, keys)?);
        }
        let outcome = match following.above.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(None),
            Some(outcome) => outcome.ok(),
        };
        following.above = None;
        let place = outcome.and_then(|outcome| place_in(&path, outcome));
        // The object may have been found since the last look: then it is what is meant.
        let is_found = self.report(following.transfer)?.is_some_and(|(_, report)| is_found(&report));
        Ok(place.filter(|_| !is_found))
    }
    /// Finds out what keeps a fetch from finding a source. The finding is kept: the node forgets it when the fetch
    /// ends. If the network lacks a role, this returns a notice, once, since waiting does not help.
    fn look_for_obstacle(&self, following: &mut Following<'_>) -> Result<Option<Notice>, ApiError> {
        let name = parse_name(following.name)?;
        if let Some(found) = self.runtime.call(move |node, now| node.obstacle(now, &name))? {
            following.obstacle = Some(found);
        }
        let missing = following.obstacle.as_ref().filter(|obstacle| obstacle.kind == ObstacleKind::Missing);
        let now = following.clock.now();
        following.missing_since = missing.map(|_| following.missing_since.unwrap_or(now));
        let is_due = following.missing_since.is_some_and(|since| now.since(since) >= MISSING_PATIENCE);
        let missing = missing.filter(|_| is_due && !following.is_reported);
        following.is_reported |= missing.is_some();
        let text = |missing: &Obstacle| format!("'{}' cannot be found yet: {}", following.name, missing.reason);
        Ok(missing.map(|missing| Notice::Note { text: text(missing) }))
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
    /// Reports the progress of a fetch that another client began, until it ends. A client that leaves ends nothing.
    pub(crate) fn follow_other(&self, id: &str, notify: &mut dyn FnMut(Notice) -> Flow) -> Result<(), ApiError> {
        let entry = self.queue.find(id).and_then(|number| self.queue.entry(number));
        if let Some(entry) = entry.as_ref().filter(|entry| entry.transfer.is_none()) {
            let message = format!("the fetch of '{}' does not run yet", entry.get.name);
            return Err(
                ApiError::new(ErrorKind::NotFound, message).with_hint("`trib transfers` shows what is before it")
            );
        }
        let of_entry = entry.filter(|entry| entry.id() == id).and_then(|entry| entry.transfer);
        let id = of_entry.as_deref().unwrap_or(id);
        let transfers = self.transfers()?;
        // Of several fetches of one name the latest is meant.
        let found = transfers.iter().rfind(|(transfer, name)| transfer.to_string() == id || name.to_string() == id);
        let (transfer, name) = found.cloned().ok_or_else(|| {
            let message = format!("there is no fetch '{id}'");
            ApiError::new(ErrorKind::NotFound, message).with_hint("`trib status` lists the transfers")
        })?;
        let (name, subscription) = (name.to_string(), self.runtime.events().subscribe());
        match self.follow(&mut Following::new(transfer, &name, None, None), &subscription, notify)? {
            Ended::Completed(report) => {
                notify(Notice::Done(self.done(&name, &report, None)));
                Ok(())
            }
            Ended::Failed(report, reason) => Err(failure(&name, &reason, &report, (&Trouble::default(), None), None)),
            Ended::Level(_) | Ended::Within(_) | Ended::Stopped => Ok(()),
        }
    }
}

/// What the store of a fetch tells besides.
#[derive(Default)]
struct Findings {
    trouble: Trouble,
    versions: Versions,
    named: NamedMirrors,
}

/// A transfer whose progress is reported.
struct Following<'a> {
    transfer: TransferId,
    name: &'a str,
    /// The folder that holds it until it is complete.
    part: Option<&'a str>,
    /// How long it may go without a source; `None` leaves that to the command that began it.
    patience: Option<Duration>,
    clock: Clock,
    /// What keeps it from finding a source.
    obstacle: Option<Obstacle>,
    /// Since when the network seems to lack something, and whether that was reported.
    missing_since: Option<Time>,
    is_reported: bool,
    /// Whether it has had a source.
    is_found: bool,
    /// The web servers that its publisher names, and over which faces they may be asked.
    named: Option<(NamedMirrors, PathDemands)>,
    /// Whether its name may be a path in a folder, and whom to believe about that.
    may_be_within: Option<Keys>,
    /// The lookup of the folders above its name, and when the next one begins.
    above: Option<Receiver<Outcome>>,
    look_at: Time,
    /// Whether it waits for a publication that the network does not know yet.
    waits: bool,
    /// Whether the network knows nobody who publishes its name.
    is_absent: bool,
}

impl<'a> Following<'a> {
    fn new(transfer: TransferId, name: &'a str, part: Option<&'a str>, patience: Option<Duration>) -> Self {
        let (clock, obstacle, missing_since) = (Clock::new(), None, None);
        Following {
            transfer,
            name,
            part,
            patience,
            clock,
            obstacle,
            missing_since,
            is_reported: false,
            is_found: false,
            named: None,
            may_be_within: None,
            above: None,
            look_at: LOOK_AFTER,
            waits: true,
            is_absent: false,
        }
    }
}

/// Refuses what cannot go to the output.
fn check_output(get: &Get) -> Result<(), ApiError> {
    match get.output {
        Output::Path(_) if get.ranges.is_some() => {
            Err(ApiError::new(ErrorKind::Usage, "ranges of an object are fetched to a stream"))
        }
        Output::Stream if !get.part.is_all() => {
            let message = "a part of a folder cannot be written to a stream";
            Err(ApiError::new(ErrorKind::Usage, message).with_hint("name a file or folder with -o"))
        }
        _ if get.serve && !get.part.is_all() => {
            let message = "a part of a folder cannot be served: its publisher signed the whole";
            Err(ApiError::new(ErrorKind::Usage, message).with_hint("leave --serve out, or fetch all of the folder"))
        }
        Output::Stream if get.serve => {
            let message = "what is written to a stream cannot be served";
            Err(ApiError::new(ErrorKind::Usage, message).with_hint("name a file with -o"))
        }
        Output::Path(_) | Output::Stream => Ok(()),
    }
}
/// What is wanted of the object.
fn portion(get: &Get) -> Result<Portion, ApiError> {
    let selection = |part: &FolderPart| {
        let below = part.below.as_deref().unwrap_or("");
        Selection::new(below, &part.include, &part.exclude)
            .map_err(|error| ApiError::new(ErrorKind::Usage, error.to_string()))
    };
    Ok(Portion {
        ranges: get.ranges.as_deref().map(parse_ranges).transpose()?,
        selection: (!get.part.is_all()).then(|| selection(&get.part)).transpose()?.map(Arc::new),
        share: None,
    })
}
fn parse_ranges(text: &str) -> Result<ByteRanges, ApiError> {
    text.parse().map_err(|error| ApiError::new(ErrorKind::Usage, format!("'{text}' {error}")))
}
/// The key that a publisher must have, and the certificate if it was named by one.
fn parse_publisher(text: &str) -> Result<(PublicKey, Option<Vec<u8>>), ApiError> {
    if let Some(packet) = key_chain::certificate_of_publisher(text) {
        let certificate = packet.map_err(|message| ApiError::new(ErrorKind::Usage, message))?;
        return Ok((publisher_of(certificate.key()), Some(certificate.packet().to_vec())));
    }
    let key = text.parse::<PublicKey>().map_err(|error| {
        let message = format!("'{text}' is not a publisher's key: {error}");
        ApiError::new(ErrorKind::Usage, message).with_hint("`trib key show` prints it on the publisher's side")
    })?;
    Ok((key, None))
}
fn no_certificates() -> ApiError {
    let message = "a publisher can be named by an NDN certificate only on a node of family ndn";
    ApiError::new(ErrorKind::Usage, message).with_hint("name its key, ed25519:…")
}

/// How a transfer ended.
enum Ended {
    Completed(TransferReport),
    Failed(TransferReport, String),
    Stopped,
    /// Nobody offers it, but it is a path in this folder.
    Within((Name, String)),
    /// Nobody offers it, but there are these names below it.
    Level(Vec<String>),
}

/// When a fetch without a source checks whether its name is only a prefix, by listing it.
const LEVEL_LOOK: Time = Time::from_millis(500);
/// A fetch without a source and without a negative answer looks up the folders above its name after this time, so that the
/// fetch of an object costs no such lookups.
const LOOK_AFTER: Time = Time::from_millis(500);
/// Interval of those lookups. Most are answered from the findings that this node keeps.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A negative answer ends no younger fetch: a publication may be on its way to the resolver.
const ABSENT_FOR: Time = Time::from_millis(1_000);
/// How long after a fetch's patience it is ended, if its family does not end it.
const PATIENCE_SLACK: Duration = Duration::from_secs(1);
/// How long the network may seem to lack something before that is reported: beacons and routes take a moment to arrive.
const MISSING_PATIENCE: Duration = Duration::from_secs(2);
/// How long that listing may take.
const LEVEL_PATIENCE: Duration = Duration::from_millis(500);

/// Where a fetch ends up, and where it keeps what is not complete yet, if that is on the disk.
fn places(sink: &Sink) -> (Option<String>, Option<String>) {
    match sink {
        Sink::Path(path) => {
            let part = unfinished_at(path).map(|folder| folder.display().to_string());
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
        (None, Some((options, messaging))) => messaging.get(now, fetch, &options)?,
        (None, None) => node.fetch(now, fetch),
    };
    // In the same turn of the node: nothing is requested over a face that is to be avoided.
    demand(node, now, transfer, demands, family)?;
    Ok(transfer)
}
/// Tells a fetch that has begun what it may use; one that cannot choose is ended.
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
    Err(ApiError::new(ErrorKind::Usage, message).with_hint("leave --only and --avoid out, or use psi or ndn"))
}

/// One of the fetches that may run at a time; given back when dropped.
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

/// The error of a fetch that failed; `diagnosis` says why nobody answered.
fn failure(
    name: &str,
    reason: &str,
    report: &TransferReport,
    (trouble, part): (&Trouble, Option<&str>),
    diagnosis: Option<ApiError>,
) -> ApiError {
    // The family's reason repeats the name.
    let message = format!("cannot fetch '{name}': {}", reason.replace(&format!(" of '{name}'"), ""));
    let kept = report.stored_bytes;
    match trouble.take() {
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
            "{kept} of {} bytes are verified and kept{}; the same command goes on there",
            report.bytes,
            part.filter(|_| kept > 0).map(|part| format!(" in '{part}'")).unwrap_or_default()
        )),
    }
}
