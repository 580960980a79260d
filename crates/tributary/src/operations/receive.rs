//! Receives objects sent to the node.
use std::{
    fs,
    path::Path,
    sync::{atomic::Ordering, mpsc::RecvTimeoutError},
};
use tributary_content::{Manifest, Name, ObjectKind, PublicKey};
use tributary_core::{
    Duration, Time,
    event::{Event, TransferEvent},
};
use tributary_net::Clock;
use tributary_transport::messaging::AcceptOptions;

use super::parse_name;
use crate::{
    api::{Flow, Notify},
    config::Role,
    error::{ApiError, ErrorKind},
    node::{
        LocalNode,
        files::known,
        inbox::{Arrived, Inbox, Place, Received},
    },
    notice::Notice,
    request::Recv,
    views::{ReceivedView, counted},
};

/// Texts of up to this many bytes are shown in their notice.
const TEXT_BYTES_MAX: u64 = 1_024;
/// Interval of notices to a waiting client, so that a disconnected one is noticed.
const WAITING_INTERVAL: Duration = Duration::from_millis(200);

impl LocalNode {
    /// Carries out [`Recv`].
    pub(crate) fn recv(&self, recv: &Recv, notify: Notify<'_>) -> Result<(), ApiError> {
        self.must_play(Role::Receiver, "receive")?;
        let names = recv.attach.iter().map(|name| parse_name(name)).collect::<Result<Vec<_>, _>>()?;
        let publisher = recv.publisher.as_deref().map(str::parse::<PublicKey>).transpose();
        let publisher = publisher.map_err(|error| ApiError::usage(format!("no publisher's key: {error}")))?;
        let folder = crate::preflight::absolute(&recv.folder)?;
        fs::create_dir_all(&folder).map_err(|error| ApiError::io("make the folder", folder.display(), &error))?;
        let trust = self.files.trust(publisher, None).for_senders();
        let snapshot = known(&trust)?;
        let received = Received::open(&self.config.state_dir)?;
        if self.receiving.swap(true, Ordering::SeqCst) {
            let message = "another command receives on this node already";
            return Err(ApiError::usage(message).with_hint("end the other `trib recv` first"));
        }
        let place = Place {
            files: self.files.clone(),
            folder,
            trust,
            arrived: Arrived::new(recv.count),
            on_repeat: recv.on_repeat,
            received,
        };
        let result = self.take(recv, &names, Inbox { place, trust: snapshot }, notify);
        // The attachments hold for their lifetime: chunks sent to the names until then are stored for this node.
        let ended = self.with_messaging(|messaging, now| messaging.accept(now, None, &AcceptOptions::default()));
        self.receiving.store(false, Ordering::SeqCst);
        result.and(ended)
    }
    fn take(&self, recv: &Recv, names: &[Name], inbox: Inbox, notify: Notify<'_>) -> Result<(), ApiError> {
        let options = AcceptOptions { nack_timeout: recv.nack_timeout_ms.map(Duration::from_millis) };
        options.check().map_err(ApiError::usage)?;
        let subscription = self.runtime.events.subscribe();
        let arrived = inbox.place.arrived.clone();
        inbox.place.finish_left();
        let attach = names.to_vec();
        self.with_messaging(move |messaging, now| {
            messaging.accept(now, Some(Box::new(inbox)), &options);
            attach.iter().for_each(|name| messaging.attach(now, name));
        })?;
        let guid = self.status()?.resolver.into_iter().find(|(subject, _)| subject == "guid");
        let names = names.iter().map(ToString::to_string).collect();
        notify(Notice::Receiving { id: guid.map_or_else(String::new, |(_, guid)| guid), names });
        let clock = Clock::new();
        let mut deadline = recv.patience_ms.map(|patience| Time::ZERO + Duration::from_millis(patience));
        let mut count = 0;
        while recv.count.is_none_or(|wanted| count < wanted) {
            while let Some((name, reason)) = arrived.take_refused() {
                if notify(Notice::NotReceived { name: name.to_string(), reason }) == Flow::Stop {
                    return Err(ApiError::new(ErrorKind::Cancelled, format!("ended; {count} objects were received")));
                }
            }
            let left = deadline.map_or(WAITING_INTERVAL, |deadline| clock.until(deadline).min(WAITING_INTERVAL));
            let ended = match subscription.wait(left) {
                Ok(Event::Transfer(id, TransferEvent::Completed)) => Some((id, Ok(()))),
                Ok(Event::Transfer(id, TransferEvent::Failed { reason })) => Some((id, Err(reason))),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped"));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => None,
            };
            if deadline.is_some_and(|deadline| clock.until(deadline).is_zero()) {
                let message = format!("nothing more has come; received: {}", counted(count, "object"));
                return Err(ApiError::new(ErrorKind::Incomplete, message));
            }
            let notice = match ended {
                Some((id, outcome)) => {
                    let name = self.transfers()?.into_iter().find(|(known, _)| *known == id).map(|(_, name)| name);
                    name.and_then(|name| match outcome {
                        Ok(()) => arrived.take_complete(&name).map(|(manifest, path)| received(&manifest, &path)),
                        Err(reason) => {
                            arrived.give_up(&name).then(|| Notice::NotReceived { name: name.to_string(), reason })
                        }
                    })
                }
                // Objects received by an earlier run, and those with lost events.
                None => arrived.take_left().map(|(manifest, path)| received(&manifest, &path)),
            };
            if matches!(notice, Some(Notice::Received(_))) {
                count += 1;
                deadline = recv.patience_ms.map(|patience| clock.now() + Duration::from_millis(patience));
            }
            // Without news an empty notice checks whether the client is still connected.
            let notice = notice.unwrap_or(Notice::Waiting);
            if notify(notice) == Flow::Stop {
                return Err(ApiError::new(ErrorKind::Cancelled, format!("ended; {count} objects were received")));
            }
        }
        Ok(())
    }
}

fn received(manifest: &Manifest, path: &Path) -> Notice {
    Notice::Received(ReceivedView::new(manifest, path, text(manifest, path)))
}
/// A short text, to be shown with its notice, unless another version has already replaced it.
fn text(manifest: &Manifest, path: &Path) -> Option<String> {
    if manifest.kind != ObjectKind::File || manifest.size > TEXT_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    // So short a text is one chunk.
    let is_of_this = manifest.verify_only_chunk(text.as_bytes());
    let text = text.trim_end().to_string();
    (is_of_this && !text.is_empty() && !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')).then_some(text)
}
