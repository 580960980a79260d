//! Pushing to receivers that did not request it.
use std::{fs, io::Read, os::unix::fs::MetadataExt, path::Path, sync::mpsc::RecvTimeoutError};
use tributary_content::{Access, Manifest, MemoryObject, Name, ObjectKind, ObjectReader};
use tributary_core::{Duration, Time};
use tributary_net::Clock;
use tributary_transport::messaging::{Destination, InNetwork, Reliability, SendOptions, SendReport, Spread, Storage};

use super::parse_name;
use crate::{
    api::{Flow, Notify},
    config::Role,
    error::{ApiError, ErrorKind},
    node::LocalNode,
    notice::Notice,
    request::Send,
    views::SentView,
};

/// Files of up to this many bytes are read at once.
const READ_AT_ONCE_BYTES: u64 = 1 << 20;
/// How often the progress of a sending is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl LocalNode {
    /// Carries out [`Send`].
    pub(crate) fn send(&self, send: &Send, notify: Notify<'_>) -> Result<(), ApiError> {
        self.must_play(Role::Sender, "send")?;
        let name = parse_name(&send.name)?;
        let to = match send.to.starts_with('/') {
            true => Destination::Name(parse_name(&send.to)?),
            false => Destination::Id(send.to.clone()),
        };
        let path = crate::preflight::absolute(&send.path)?;
        let (object, left_out) = self.object_to_send(&path, name.clone(), send.version)?;
        if let Some(left_out) = left_out {
            notify(left_out);
        }
        let bytes = object.manifest().size;
        let options = options(send, &to);
        let sent = self.with_messaging(move |messaging, now| messaging.send(now, object, &to, &options))?;
        let cannot = |reason: &dyn std::fmt::Display| ApiError::usage(format!("cannot send '{name}': {reason}"));
        let transfer = sent.map_err(|error| cannot(&error))?;
        let clock = Clock::new();
        let deadline = Time::ZERO + Duration::from_millis(send.patience_ms);
        let subscription = self.runtime.events.subscribe();
        let mut last = None;
        loop {
            let report = self.with_messaging(move |messaging, now| messaging.send_report(now, transfer))?;
            let report = report.ok_or_else(|| cannot(&"the node has forgotten it"))?;
            let mut view = SentView::new(transfer, send, bytes, &report);
            view.seconds = clock.now().since(Time::ZERO).as_secs_f64();
            // The node forgets finished transfers: it needs the space for others.
            let storage = if send.leaves { Storage::OfRouters } else { Storage::OfAll };
            let is_enough = report.is_kept(storage) && (!send.wait || report.is_over);
            if is_delivered(&report) || is_enough {
                notify(Notice::Sent(view));
                return Ok(());
            }
            if let Some(error) = failure(&name, &report) {
                if is_dropped(&report) {
                    self.with_messaging(move |messaging, now| messaging.cancel_send(now, transfer))?;
                }
                return Err(error);
            }
            let short = SentView { seconds: 0.0, ..view.clone() };
            if last.as_ref() != Some(&short) {
                last = Some(short);
                if notify(Notice::Sending(view.clone())) == Flow::Stop {
                    self.with_messaging(move |messaging, now| messaging.cancel_send(now, transfer))?;
                    return Err(ApiError::new(ErrorKind::Cancelled, format!("the sending of '{name}' was ended")));
                }
            }
            let left = clock.until(deadline);
            if left.is_zero() {
                return Err(too_late(&name, send, &view));
            }
            if let Err(RecvTimeoutError::Disconnected) = subscription.wait(left.min(POLL_INTERVAL)) {
                return Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped"));
            }
        }
    }
    /// The object to send: a small file is in memory from here on.
    fn object_to_send(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
    ) -> Result<(Box<dyn ObjectReader>, Option<Notice>), ApiError> {
        let metadata = fs::metadata(path).map_err(|error| ApiError::io("read", path.display(), &error))?;
        let mut bytes = Vec::new();
        let is_short = metadata.is_file() && metadata.len() <= READ_AT_ONCE_BYTES;
        if is_short {
            let read = fs::File::open(path).and_then(|file| file.take(READ_AT_ONCE_BYTES + 1).read_to_end(&mut bytes));
            read.map_err(|error| ApiError::io("read", path.display(), &error))?;
        }
        // A file may have more than its stated size, or grow.
        if !is_short || bytes.len() as u64 > READ_AT_ONCE_BYTES {
            let (publication, left_out) = self.open_object(path, name, version, (&[], &[]))?;
            return Ok((publication.publication.object, left_out));
        }
        let version = version.unwrap_or_else(|| {
            let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            since.map_or(1, |since| u64::try_from(since.as_micros()).unwrap_or(1))
        });
        let chunk_size = Manifest::CHUNK_SIZE_MAX.min(1 << 16);
        let object = MemoryObject::with_options(name, bytes, &self.key, version, ObjectKind::File, chunk_size);
        let object = object.map_err(|error| ApiError::usage(error.to_string()))?;
        Ok((Box::new(object.restricted(Access::of_mode(metadata.mode()), &self.key)), None))
    }
}

fn options(send: &Send, to: &Destination) -> SendOptions {
    let by_name = matches!(to, Destination::Name(_));
    SendOptions {
        chunk_bytes: send.chunk_bytes,
        reliability: send.reliability,
        in_network: send.in_network,
        priority: send.priority,
        lifetime: send.lifetime_ms.map(Duration::from_millis),
        spread: match (send.nearest && by_name, send.proxies) {
            (true, _) => Spread::Nearest,
            (false, 0) => Spread::All,
            (false, depth) => Spread::AllByProxies(depth),
        },
    }
}

/// Why a sending has failed, if it has.
fn failure(name: &Name, report: &SendReport) -> Option<ApiError> {
    let incomplete = |message: String| ApiError::new(ErrorKind::Incomplete, message);
    if report.is_over && !report.refused.is_empty() {
        let message = format!("'{name}' was refused by {}, which cannot keep it", report.refused.join(", "));
        return Some(incomplete(message).with_hint("`trib recv` there gives the reason"));
    }
    // Without reliability a sending ends with its last chunk, which may still wait here for its first hop.
    if report.is_over && (report.reliability != Reliability::DontCare || report.sent_chunks < report.chunks) {
        return Some(incomplete(format!("'{name}' could not be sent: it was given up")));
    }
    is_dropped(report).then(|| {
        let message = format!(
            "'{name}' was not delivered: {} of {} chunks have left and were dropped on the way, as the network was to keep \
             nothing of it",
            report.sent_chunks, report.chunks
        );
        incomplete(message).with_hint("with `--in-network store` routers keep it until the receiver is present")
    })
}
/// The error of a sending that is not complete when its patience is over.
fn too_late(name: &Name, send: &Send, view: &SentView) -> ApiError {
    let patience = Duration::from_millis(send.patience_ms);
    if view.destinations == 0 {
        let message = format!("'{name}' has no receiver: within {patience:?} no device attached to '{}'", send.to);
        return ApiError::new(ErrorKind::Incomplete, message)
            .with_hint(format!("`trib recv --attach {}` over there attaches a device", send.to));
    }
    let stands = format!(
        "{} of {} chunks have left, {} are stored on the way, {} of {} receivers have everything",
        view.sent_chunks,
        view.chunks,
        view.stored_chunks.saturating_sub(view.kept_here),
        view.delivered.len(),
        view.destinations
    );
    if view.kept_here > 0 {
        let until = view.kept_until().unwrap_or_default();
        let message = format!(
            "'{name}' is still here after {patience:?}, as no router could take it: {stands}; this device keeps it{until}"
        );
        return ApiError::new(ErrorKind::Incomplete, message)
            .with_hint("the next command or daemon with this config sends it as soon as a router answers");
    }
    let what = if send.wait { "delivered to everybody" } else { "kept for everybody" };
    ApiError::new(ErrorKind::Incomplete, format!("'{name}' is not {what} after {patience:?}: {stands}")).with_hint(
        "a daemon continues on its own; `trib store` on the routers shows the waiting chunks and their receivers",
    )
}

/// Whether every receiver has it, or, without reliability, all of it has left.
fn is_delivered(report: &SendReport) -> bool {
    let everybody = report.destinations > 0 && report.delivered.len() >= report.destinations as usize;
    everybody || report.reliability == Reliability::DontCare && report.has_left
}
/// Whether everything that left was dropped, as no receiver was present and nothing was to be stored.
pub(crate) fn is_dropped(report: &SendReport) -> bool {
    let copies = u64::from(report.sent_chunks) * u64::from(report.destinations.max(1));
    let is_lost = copies > 0 && report.dropped_chunks >= copies && report.delivered.is_empty();
    is_lost && report.in_network == InNetwork::Nothing && report.reliability != Reliability::DontCare
}
