//! The status of a node, its transfers and their paths, and explanations of it.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};
use tributary_content::Name;
use tributary_core::{
    FaceId, TransferId,
    link::{LinkChange, LinkState},
};

use super::{explain, parse_name};
use crate::{
    api::{Flow, Notify},
    config::{Invitation, Security, reached_at},
    error::{ApiError, ErrorKind},
    node::{
        LocalNode,
        event_bus::Resolution,
        queue::{Entry, State},
    },
    notice::Notice,
    views::{CacheView, PathView, ProgressView, PublishedView, StatusView, TransferView},
};

impl LocalNode {
    pub(crate) fn status(&self) -> Result<StatusView, ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        let (status, transfers, published) =
            self.runtime.call(move |node, now| (node.status(now), lives.accounts(node, now), node.published()))?;
        let events = &self.runtime.events;
        let mut view = StatusView::new(&status);
        view.listen = self.runtime.listen_addrs();
        view.invitation = self.invitation().map(|invitation| invitation.to_string());
        // A node's abilities are more than its roles.
        view.roles = self.config.roles.iter().map(ToString::to_string).collect();
        for (face_id, face) in self.runtime.neighbours() {
            let id = face_id.to_string();
            let silent = view.faces.iter_mut().filter(|view| view.id == id && view.neighbour.is_empty());
            let found = self.runtime.looked_up(face_id).and_then(|found| found.address);
            let address = found.map_or_else(String::new, |address| format!(" ({address})"));
            silent.for_each(|view| view.neighbour = format!("{}{address}", face.peer));
            let of_face = view.faces.iter_mut().filter(|view| view.id == id);
            of_face.for_each(|view| self.policies.describe(face_id, &face, view));
        }
        let published = published.into_iter().map(|(name, bytes)| {
            let name = name.to_string();
            PublishedView {
                confirmed: events.resolution(&name) == Some(Resolution::Confirmed),
                unreadable: events.unreadable(&name),
                name,
                bytes: bytes.0,
                ..PublishedView::default()
            }
        });
        view.published = published.collect();
        view.transfers = transfers
            .iter()
            .map(|(id, name, report)| TransferView {
                id: id.to_string(),
                name: name.to_string(),
                bytes: report.bytes,
                stored_bytes: report.stored_bytes,
                running: report.ended.is_none(),
                failure: report.failure.clone(),
            })
            .collect();
        let (running, limits) = (view.transfers.iter().filter(|of| of.running).count(), &self.config.limits);
        for (table, entries, limit) in
            [("publications", view.published.len(), limits.publications), ("transfers", running, limits.transfers)]
        {
            view.tables.insert(table.into(), entries as u64);
            view.table_limits.insert(table.into(), limit as u64);
        }
        let stats = self.runtime.driver.stats()?;
        let now = self.runtime.now();
        let configured = self.runtime.neighbours();
        for face in &mut view.faces {
            face.unsolicited = !configured.iter().any(|(id, _)| id.to_string() == face.id);
            // The kernel's last refusal is past when the neighbour answers.
            let problem = self.runtime.problem(&face.id, &stats, now).or(face.problem.take());
            face.problem = problem.filter(|_| !face.up);
        }
        let counters = [
            ("driver: datagrams in", stats.in_datagrams),
            ("driver: datagrams out", stats.out_datagrams),
            ("driver: bytes in", stats.in_bytes),
            ("driver: bytes out", stats.out_bytes),
            ("driver: backlog drops", stats.backlog_drops),
            ("driver: oversize drops", stats.oversize_drops),
            ("driver: send errors", stats.send_errors),
            ("driver: receive errors", stats.receive_errors),
            ("driver: ect(0) in", stats.ecn.classic),
            ("driver: ect(1) in", stats.ecn.scalable),
            ("driver: marked in", stats.ecn.marked),
            ("driver: marks ignored", stats.ecn.ignored),
            ("driver: marked drops", stats.marked_drops),
            ("driver: socket buffer shortfall in bytes", stats.buffer_shortfall_bytes),
            ("events too many for a listener", events.events_dropped()),
        ];
        view.counters.extend(counters.map(|(name, count)| (name.to_string(), count)));
        view.latencies = self.latencies();
        view.notes = events.notes();
        view.uptime_seconds = now.as_secs_f64();
        view.version = env!("CARGO_PKG_VERSION").into();
        Ok(view)
    }
    /// The addresses that take its neighbours' datagrams, with its key; `None` if there are none, or no protection.
    pub(crate) fn invitation(&self) -> Option<Invitation> {
        if self.config.security == Security::None {
            return None;
        }
        let listen = self.runtime.listen_addrs();
        let listen = listen.iter().filter_map(|text| text.parse::<SocketAddr>().ok());
        let shown = |address: SocketAddr| SocketAddr::new(reached_at(address.ip()), address.port()).to_string();
        let address = listen.map(shown).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(",");
        let key = Some(self.key.public());
        let address = address.parse().ok()?;
        Some(Invitation { address, key, family: None, network: None, until: None })
    }
    /// The status, and which publications were changed on the disk since.
    pub(crate) fn status_with_changes(&self) -> Result<StatusView, ApiError> {
        let mut status = self.status()?;
        let originals = self.originals.lock().clone();
        for published in &mut status.published {
            published.changed = originals.get(&published.name).is_some_and(|original| !original.is_unchanged());
        }
        Ok(status)
    }
    pub(crate) fn paths(&self, name: &str, notify: Notify<'_>) -> Result<(), ApiError> {
        let name = parse_name(name)?;
        let uri = name.to_string();
        let mut found = false;
        for view in self
            .progress(None)?
            .into_iter()
            .filter(|view| view.name == uri && view.queue.as_ref() != Some(&view.transfer))
        {
            found = true;
            notify(Notice::Paths { transfer: view.transfer, name: view.name, paths: view.paths });
        }
        if found {
            return Ok(());
        }
        let message = format!("no paths for '{uri}': this node has not fetched it");
        Err(ApiError::new(ErrorKind::NotFound, message).with_hint("paths are found when a fetch starts"))
    }
    /// Replaces faces by the labels in the config.
    pub(crate) fn name_faces(&self, paths: &mut [PathView]) {
        let labels = self.runtime.neighbours().into_iter().filter_map(|(id, face)| Some((id.to_string(), face.label?)));
        let labels: BTreeMap<String, String> = labels.collect();
        for face in paths.iter_mut().filter_map(|path| path.face.as_mut()) {
            if let Some(label) = labels.get(face) {
                face.clone_from(label);
            }
        }
    }
    /// The progress of the transfer `only`, or of each one.
    pub(crate) fn list_transfers(&self, only: Option<&str>, notify: Notify<'_>) -> Result<(), ApiError> {
        let entry = only.and_then(|text| self.queue.list().into_iter().find(|entry| entry.id() == text));
        let of_entry = entry.as_ref().and_then(|entry| entry.transfer.as_deref());
        let views = match (&entry, of_entry) {
            (Some(entry), None) => vec![waiting(entry)],
            (_, of_entry) => self.progress(of_entry.or(only).map(|text| self.transfer(text)).transpose()?)?,
        };
        for view in views {
            if notify(Notice::Progress(view)) == Flow::Stop {
                break;
            }
        }
        Ok(())
    }
    /// The report of one transfer or of all, taken at one time.
    pub(crate) fn progress(&self, only: Option<TransferId>) -> Result<Vec<ProgressView>, ApiError> {
        let entries = self.queue.list();
        let lives = Arc::clone(&self.runtime.lives);
        let (now, mut accounts) = self.runtime.call(move |node, now| (now, lives.accounts(node, now)))?;
        accounts.retain(|(id, ..)| only.is_none_or(|only| only == *id));
        let view = |(id, name, report): &(TransferId, Name, _)| ProgressView::new(*id, &name.to_string(), report, now);
        let mut views: Vec<ProgressView> = accounts.iter().map(view).collect();
        for view in &mut views {
            self.name_faces(&mut view.paths);
            let entry = entries.iter().find(|entry| entry.transfer.as_ref() == Some(&view.transfer));
            view.queue = entry.map(Entry::id);
            view.paused = !view.running && entry.is_some_and(|entry| entry.state == State::Paused);
            view.waiting = !view.running && entry.is_some_and(|entry| entry.state == State::Waiting);
        }
        if only.is_none() {
            let shown = |entry: &&Entry| views.iter().any(|view| entry.transfer.as_ref() == Some(&view.transfer));
            let others: Vec<_> = entries.iter().filter(|entry| !shown(entry)).map(waiting).collect();
            views.extend(others);
        }
        Ok(views)
    }
    pub(crate) fn explain(&self, id: &str) -> Result<Vec<String>, ApiError> {
        let lives = Arc::clone(&self.runtime.lives);
        let (now, accounts) = self.runtime.call(move |node, now| (now, lives.accounts(node, now)))?;
        let known =
            |(transfer, name, report): (_, Name, _)| explain::Known { transfer, name: name.to_string(), report, now };
        let transfers: Vec<_> = accounts.into_iter().map(known).collect();
        explain::explain(id, &transfers, &self.status_with_changes()?)
    }
    /// Cuts or mends the emulated link of a face.
    pub(crate) fn link(&self, face: &str, state: LinkState) -> Result<Notice, ApiError> {
        let number = face.strip_prefix("face-").and_then(|number| number.parse().ok()).map(FaceId);
        let number = number
            .ok_or_else(|| ApiError::usage(format!("'{face}' is not a face; `trib status` lists them: face-1, …")))?;
        self.runtime.driver.change_link(number, LinkChange::State(state))?;
        let text = format!("the link of {number} is {}", if state == LinkState::Up { "mended" } else { "cut" });
        self.runtime.events.note(&text);
        Ok(Notice::Note { text })
    }
    /// Contents of the packet cache.
    pub(crate) fn cache(&self) -> Result<CacheView, ApiError> {
        self.status()?.cache.ok_or_else(|| {
            let message = format!("the node '{}' has no packet cache", self.config.label);
            ApiError::new(ErrorKind::NotFound, message).with_hint("nodes with the role router have one")
        })
    }
}

/// A fetch of the queue that has no transfer.
fn waiting(entry: &Entry) -> ProgressView {
    ProgressView {
        transfer: entry.id(),
        name: entry.get.name.clone(),
        queue: Some(entry.id()),
        paused: entry.state == State::Paused,
        waiting: matches!(entry.state, State::Waiting | State::Running),
        failure: match &entry.state {
            State::Failed(reason) => Some(reason.clone()),
            State::Waiting | State::Running | State::Paused | State::Cancelled => None,
        },
        ..ProgressView::default()
    }
}
