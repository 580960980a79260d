//! Sending, taking what is sent, and what is stored in the network: requests for families that can.
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError, atomic::Ordering},
};
use tributary_content::{Access, Manifest, MemoryObject, Name, ObjectKind, ObjectReader, PublicKey};
use tributary_core::{
    Duration, Time,
    event::{Event, TransferEvent},
};
use tributary_net::Clock;
use tributary_transport::{
    Messaging,
    messaging::{
        AcceptOptions, Delivery, Destination, GetOptions as Wanted, InNetwork, SendOptions, SendReport, Spread,
    },
};

use crate::{
    api::Flow,
    config::Role,
    error::{ApiError, ErrorKind},
    hub::Heard,
    inbox::{Arrived, Inbox, Place, Received},
    local::{LocalApi, parse_name},
    told::Told,
    views::{GroupView, ReceivedView, SentView, StoreView, counted},
};

/// How the members of a group change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// There are more.
    Add,
    /// There are fewer.
    Remove,
}

/// Something to send to somebody who did not ask for it. `None` leaves a choice to the node's config.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The file or folder. A small file is read at once and may be gone afterwards.
    #[serde(with = "crate::any_path")]
    pub path: PathBuf,
    /// What to call it.
    pub name: String,
    /// To whom: a name that devices are attached to, or the GUID of a device or group in hex.
    pub to: String,
    /// Its version; `None` takes the time of the file's last change.
    #[serde(default)]
    pub version: Option<u64>,
    /// Bytes of a chunk.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be, end to end.
    #[serde(default)]
    pub reliability: Option<Reliability>,
    /// What the network may keep of it.
    #[serde(default)]
    pub in_network: Option<Keep>,
    /// Larger is more important where storage is short.
    #[serde(default)]
    pub priority: u8,
    /// How long it is worth keeping, in milliseconds.
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
    /// To the nearest one that is attached to the name, not to all.
    #[serde(default)]
    pub nearest: bool,
    /// Routers keep copies and answer for what members of a group miss; a request asks at most so many of them. 0 lets
    /// the sender answer all.
    #[serde(default)]
    pub proxies: u8,
    /// How long to wait for the end, in milliseconds; afterwards a daemon goes on by itself.
    pub patience_ms: u64,
}

/// How sure a delivery has to be, end to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reliability {
    /// Sent and forgotten.
    DontCare,
    /// The receiver tells what is missing.
    Nack,
    /// The receiver tells what has arrived.
    Ack,
}

/// What the network may keep of what cannot be delivered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Everything.
    Store,
    /// Everything, and the first router a copy, to answer for the sender, which may sleep then.
    Delegate,
    /// Nothing.
    Nothing,
}

impl From<Reliability> for Delivery {
    fn from(reliability: Reliability) -> Self {
        match reliability {
            Reliability::DontCare => Delivery::DontCare,
            Reliability::Nack => Delivery::Nack,
            Reliability::Ack => Delivery::Ack,
        }
    }
}
impl From<Keep> for InNetwork {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Store => InNetwork::Store,
            Keep::Delegate => InNetwork::Delegate,
            Keep::Nothing => InNetwork::Forbid,
        }
    }
}

/// How an object is fetched, by families that have the choice. `None` leaves it to the node's config.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetOptions {
    /// Bytes of a chunk that is asked for.
    #[serde(default)]
    pub chunk_bytes: Option<u32>,
    /// How sure it has to be, end to end.
    #[serde(default)]
    pub reliability: Option<Reliability>,
    /// How long nothing may come before it is said what is missing, in milliseconds.
    #[serde(default)]
    pub nack_timeout_ms: Option<u64>,
    /// What the network may keep of it while it cannot be delivered.
    #[serde(default)]
    pub in_network: Option<Keep>,
}
impl GetOptions {
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            chunk_bytes: self.chunk_bytes,
            delivery: self.reliability.map(Delivery::from),
            nack_timeout: self.nack_timeout_ms.map(Duration::from_millis),
            in_network: self.in_network.map(InNetwork::from),
        }
    }
}

/// Takes what is sent to this node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recv {
    /// Names to attach to while it runs: what is sent to them reaches this node.
    #[serde(default)]
    pub attach: Vec<String>,
    /// The folder that objects are written into, each under its name. A relative path starts where the node runs.
    #[serde(with = "crate::any_path")]
    pub folder: PathBuf,
    /// The only publisher's key to believe; `None` believes the first one ever seen for a name.
    #[serde(default)]
    pub publisher: Option<String>,
    /// Ends after so many objects; `None` goes on until it is ended.
    #[serde(default)]
    pub count: Option<u64>,
    /// How long nothing may come of an object before it is said what is missing, in milliseconds.
    #[serde(default)]
    pub nack_timeout_ms: Option<u64>,
    /// Ends after so long without an object, in milliseconds; `None` waits for ever.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// What becomes of several objects of one name.
    #[serde(default)]
    pub on_repeat: OnRepeat,
}

/// What becomes of an object whose name another one had that was received before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRepeat {
    /// All are kept: the second one of `/sensors/roof` becomes `sensors/roof~2`.
    #[default]
    Number,
    /// It takes the place of an earlier one from the same publisher, unless somebody has changed that since.
    Replace,
    /// Its bytes are added to the file as a line. Folders and what has more than 1 MiB are numbered.
    Append,
}

/// Up to so many bytes a file to send is read at once.
const READ_AT_ONCE_BYTES: u64 = 1 << 20;
/// Up to so many bytes a received text is told with the news of it.
const TEXT_BYTES_MAX: u64 = 1_024;
/// How often a node is asked how far something sent is.
const LOOK: Duration = Duration::from_millis(20);

impl LocalApi {
    /// Carries out [`Send`].
    pub(crate) fn send(&self, send: &Send, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        self.must_play(Role::Sender, "send")?;
        let name = parse_name(&send.name)?;
        let to = match send.to.starts_with('/') {
            true => Destination::Name(parse_name(&send.to)?),
            false => Destination::Id(send.to.clone()),
        };
        let path =
            std::path::absolute(&send.path).map_err(|error| ApiError::io("find", send.path.display(), &error))?;
        let (object, left_out) = self.object_to_send(&path, name.clone(), send.version)?;
        if let Some(left_out) = left_out {
            tell(left_out);
        }
        let bytes = object.manifest().size;
        let options = options(send, &to);
        let sent = self.with_messaging(move |messaging, now| messaging.send(now, object, &to, &options))?;
        let cannot = |reason: String| ApiError::new(ErrorKind::Usage, format!("cannot send '{name}': {reason}"));
        let transfer = sent.map_err(cannot)?;
        let clock = Clock::new();
        let deadline = Time::ZERO + Duration::from_millis(send.patience_ms);
        let listener = self.running().hub().listen();
        let mut last = None;
        loop {
            let report = self.with_messaging(move |messaging, now| messaging.send_report(now, transfer))?;
            let report = report.ok_or_else(|| cannot("the node has forgotten it".into()))?;
            let mut view = SentView::new(transfer, send, bytes, &report);
            view.seconds = clock.now().since(Time::ZERO).as_secs_f64();
            if is_done(&report) {
                tell(Told::Sent(view));
                return Ok(());
            }
            if report.is_over && !report.refused.is_empty() {
                let message = format!("'{name}' was refused by {}, which cannot keep it", report.refused.join(", "));
                return Err(ApiError::new(ErrorKind::Incomplete, message).with_hint("`trib recv` says why over there"));
            }
            if report.is_over && report.destinations == 1 && report.stored_chunks >= report.chunks {
                // The network has promised to bring all of it, and this node needs the room for what it sends next.
                tell(Told::Sent(view));
                return Ok(());
            }
            // What nobody cares about is over with its last chunk, which may still wait here for its first hop.
            if report.is_over && (report.delivery != Delivery::DontCare || report.sent_chunks < report.chunks) {
                return Err(ApiError::new(
                    ErrorKind::Incomplete,
                    format!("'{name}' could not be sent: it was given up"),
                ));
            }
            if is_dropped(&report) {
                self.with_messaging(move |messaging, now| messaging.cancel_send(now, transfer))?;
                let message = format!(
                    "'{name}' was not delivered: {} of {} chunks have left and were dropped on the way, as the network was to \
                     keep nothing of it",
                    report.sent_chunks, report.chunks
                );
                return Err(ApiError::new(ErrorKind::Incomplete, message)
                    .with_hint("with `--in-network store` routers keep it until the receiver is there"));
            }
            let short = SentView { seconds: 0.0, ..view.clone() };
            if last.as_ref() != Some(&short) {
                last = Some(short);
                if tell(Told::Sending(view.clone())) == Flow::Stop {
                    self.with_messaging(move |messaging, now| messaging.cancel_send(now, transfer))?;
                    return Err(ApiError::new(ErrorKind::Cancelled, format!("the sending of '{name}' was ended")));
                }
            }
            let left = clock.until(deadline);
            if left.is_zero() {
                let (delivered, stored) = (view.delivered.len(), view.stored_chunks);
                if view.destinations == 0 {
                    let patience = Duration::from_millis(send.patience_ms);
                    let message = format!(
                        "'{name}' was sent to nobody: within {patience:?} nobody was attached to '{}'",
                        send.to
                    );
                    return Err(ApiError::new(ErrorKind::Incomplete, message)
                        .with_hint(format!("`trib recv --attach {}` over there attaches a device", send.to)));
                }
                // The network has promised to deliver all of it to the only one who has not got it.
                let waits = view.destinations as usize - delivered.min(view.destinations as usize);
                if waits <= 1 && u64::from(stored) >= u64::from(view.chunks) && stored > 0 {
                    tell(Told::Sent(view));
                    return Ok(());
                }
                let message = format!(
                    "'{name}' is not with everybody after {:?}: {} of {} chunks have left, {stored} are stored on the way, \
                     {delivered} of {} receivers have everything",
                    Duration::from_millis(send.patience_ms),
                    view.sent_chunks,
                    view.chunks,
                    view.destinations
                );
                return Err(ApiError::new(ErrorKind::Incomplete, message)
                    .with_hint("a daemon goes on by itself; `trib store` on the routers shows what waits for whom"));
            }
            if let Heard::Gone = listener.wait(left.min(LOOK)) {
                return Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped"));
            }
        }
    }
    /// What is to be sent: a small file is in memory from here on.
    fn object_to_send(
        &self,
        path: &Path,
        name: Name,
        version: Option<u64>,
    ) -> Result<(Box<dyn ObjectReader>, Option<Told>), ApiError> {
        let metadata = fs::metadata(path).map_err(|error| ApiError::io("read", path.display(), &error))?;
        if !metadata.is_file() || metadata.len() > READ_AT_ONCE_BYTES {
            let (publication, left_out) = self.open_object(path, name, version)?;
            return Ok((publication.object, left_out));
        }
        let mut bytes = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(READ_AT_ONCE_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(|error| ApiError::io("read", path.display(), &error))?;
        if bytes.len() as u64 > READ_AT_ONCE_BYTES {
            // It has more than its size says, or grows.
            let (publication, left_out) = self.open_object(path, name, version)?;
            return Ok((publication.object, left_out));
        }
        let version = version.unwrap_or_else(|| {
            let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            since.map_or(1, |since| u64::try_from(since.as_micros()).unwrap_or(1))
        });
        let chunk_size = Manifest::CHUNK_SIZE_MAX.min(1 << 16);
        let object = MemoryObject::with_options(name, bytes, self.key(), version, ObjectKind::File, chunk_size);
        let object = object.map_err(|error| ApiError::new(ErrorKind::Usage, error.to_string()))?;
        Ok((Box::new(object.restricted(Access::of_mode(metadata.mode()), self.key())), None))
    }
    /// Carries out [`Recv`].
    pub(crate) fn recv(&self, recv: &Recv, tell: &mut dyn FnMut(Told) -> Flow) -> Result<(), ApiError> {
        self.must_play(Role::Receiver, "receive")?;
        let names = recv.attach.iter().map(|name| parse_name(name)).collect::<Result<Vec<_>, _>>()?;
        let publisher = recv.publisher.as_deref().map(str::parse::<PublicKey>).transpose();
        let publisher =
            publisher.map_err(|error| ApiError::new(ErrorKind::Usage, format!("no publisher's key: {error}")))?;
        let folder = std::path::absolute(&recv.folder);
        let folder = folder.map_err(|error| ApiError::io("find", recv.folder.display(), &error))?;
        fs::create_dir_all(&folder).map_err(|error| ApiError::io("make the folder", folder.display(), &error))?;
        let questions = self.files().questions(publisher)?;
        let received = Received::open(&self.config().state_dir)?;
        if self.receiving().swap(true, Ordering::SeqCst) {
            let message = "this node receives for somebody else already";
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("end the other `trib recv` first"));
        }
        let place = Place {
            files: self.files().clone(),
            folder,
            publisher,
            arrived: Arrived::new(recv.count),
            on_repeat: recv.on_repeat,
            received,
        };
        let result = self.take(recv, &names, Inbox { place, questions }, tell);
        let kept = self.attached().clone();
        let ended = self.with_messaging(move |messaging, now| {
            messaging.accept(now, None, &AcceptOptions::default());
            names.iter().filter(|name| !kept.contains(*name)).for_each(|name| messaging.detach(now, name));
        });
        self.receiving().store(false, Ordering::SeqCst);
        result.and(ended)
    }
    fn take(
        &self,
        recv: &Recv,
        names: &[Name],
        inbox: Inbox,
        tell: &mut dyn FnMut(Told) -> Flow,
    ) -> Result<(), ApiError> {
        let listener = self.running().hub().listen();
        let arrived = inbox.place.arrived.clone();
        inbox.place.finish_left();
        let options = AcceptOptions { nack_timeout: recv.nack_timeout_ms.map(Duration::from_millis) };
        let attach = names.to_vec();
        self.with_messaging(move |messaging, now| {
            messaging.accept(now, Some(Box::new(inbox)), &options);
            attach.iter().for_each(|name| messaging.attach(now, name));
        })?;
        let guid = self.status()?.resolver.into_iter().find(|(subject, _)| subject == "guid");
        let names = names.iter().map(ToString::to_string).collect();
        tell(Told::Receiving { id: guid.map_or_else(String::new, |(_, guid)| guid), names });
        let clock = Clock::new();
        let mut deadline = recv.patience_ms.map(|patience| Time::ZERO + Duration::from_millis(patience));
        let mut count = 0;
        while recv.count.is_none_or(|wanted| count < wanted) {
            while let Some((name, reason)) = arrived.take_refused() {
                if tell(Told::NotReceived { name: name.to_string(), reason }) == Flow::Stop {
                    return Err(ApiError::new(ErrorKind::Cancelled, format!("ended; {count} objects were received")));
                }
            }
            let left = deadline.map_or(LOOK * 10, |deadline| clock.until(deadline).min(LOOK * 10));
            let ended = match listener.wait(left) {
                Heard::Event(Event::Transfer(id, TransferEvent::Completed)) => Some((id, Ok(()))),
                Heard::Event(Event::Transfer(id, TransferEvent::Failed { reason })) => Some((id, Err(reason))),
                Heard::Gone => return Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped")),
                Heard::Event(_) | Heard::Silence => None,
            };
            if deadline.is_some_and(|deadline| clock.until(deadline).is_zero()) {
                let message = format!("nothing more has come; received: {}", counted(count, "object"));
                return Err(ApiError::new(ErrorKind::Incomplete, message));
            }
            let told = match ended {
                Some((id, outcome)) => {
                    let name = self.transfers()?.into_iter().find(|(known, _)| *known == id).map(|(_, name)| name);
                    name.and_then(|name| match outcome {
                        Ok(()) => arrived.take_whole(&name).map(|(manifest, path)| received(&manifest, &path)),
                        Err(reason) => {
                            arrived.give_up(&name).then(|| Told::NotReceived { name: name.to_string(), reason })
                        }
                    })
                }
                // What an earlier run had received, and what events were lost of.
                None => arrived.take_left().map(|(manifest, path)| received(&manifest, &path)),
            };
            if matches!(told, Some(Told::Received(_))) {
                count += 1;
                deadline = recv.patience_ms.map(|patience| clock.now() + Duration::from_millis(patience));
            }
            // Without news there is nothing to say; whoever listens may have gone.
            let told = told.unwrap_or(Told::Waiting);
            if tell(told) == Flow::Stop {
                return Err(ApiError::new(ErrorKind::Cancelled, format!("ended; {count} objects were received")));
            }
        }
        Ok(())
    }
    /// Carries out `Request::Attach` and `Request::Detach`.
    pub(crate) fn bind(&self, name: &str, attach: bool) -> Result<Told, ApiError> {
        let parsed = parse_name(name)?;
        let bound = parsed.clone();
        self.with_messaging(move |messaging, now| match attach {
            true => messaging.attach(now, &bound),
            false => messaging.detach(now, &bound),
        })?;
        match attach {
            true => self.attached().insert(parsed),
            false => self.attached().remove(&parsed),
        };
        Ok(Told::Attached { name: name.into(), attached: attach })
    }
    /// Carries out `Request::Readers`, and remembers it over restarts.
    pub(crate) fn set_readers(&self, name: Option<String>, readers: Option<Vec<String>>) -> Result<Told, ApiError> {
        let parsed = name.as_deref().map(parse_name).transpose()?;
        let remember = || {
            if self.config().store.is_none() {
                return Ok(());
            }
            let guids = readers.iter().flatten().filter_map(|text| text.parse().ok()).collect();
            crate::mf::readers::remember(&self.config().state_dir, parsed.clone(), readers.as_ref().map(|_| guids))
        };
        // If only one of the two can be done, fewer may look it up, not more.
        let opens = readers.is_none();
        if opens {
            self.with_messaging(|_, _| ())?;
            remember()?;
        }
        let (of, devices) = (parsed.clone(), readers.clone());
        let set =
            self.with_messaging(move |messaging, now| messaging.set_readers(now, of.as_ref(), devices.as_deref()))?;
        set.map_err(|reason| ApiError::new(ErrorKind::Usage, format!("cannot say who may look it up: {reason}")))?;
        if !opens {
            remember()?;
        }
        Ok(Told::Readers { name, readers })
    }
    /// The groups that the node owns.
    pub(crate) fn groups(&self) -> Result<Told, ApiError> {
        let groups = self.with_messaging(|messaging, _| messaging.groups())?;
        Ok(Told::Groups { groups: groups.into_iter().map(GroupView::new).collect() })
    }
    /// Says who belongs to a group from now on, or (`None`) that it ends, and remembers it over restarts.
    pub(crate) fn set_group(&self, label: &str, members: Option<Vec<String>>) -> Result<(), ApiError> {
        let (of, said) = (label.to_string(), members.clone());
        let set = self.with_messaging(move |messaging, now| messaging.set_group(now, &of, said.as_deref()))?;
        set.map_err(|reason| ApiError::new(ErrorKind::Usage, format!("cannot change the group '{label}': {reason}")))?;
        if self.config().store.is_some() {
            crate::mf::groups::remember(&self.config().state_dir, label.into(), members)?;
        }
        Ok(())
    }
    /// Carries out `Request::GroupAdd` and `Request::GroupRemove`, and remembers what comes of it over restarts.
    pub(crate) fn change_group(&self, label: String, changed: &[String], change: Change) -> Result<Told, ApiError> {
        // Several clients may change some at once.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |reason: String| {
            let message = format!("cannot change the group '{label}': {reason}");
            ApiError::new(ErrorKind::Usage, message)
        };
        let known = self.with_messaging(|messaging, _| messaging.groups())?.remove(&label);
        let mut members = known.as_ref().map(|group| group.members.clone()).unwrap_or_default();
        // A GUID may be written in capitals as well.
        let is_named = |member: &String| changed.iter().any(|named| named.eq_ignore_ascii_case(member));
        members.retain(|member| !is_named(member));
        let members = match change {
            Change::Add => {
                let new: BTreeSet<String> = changed.iter().map(|guid| guid.to_ascii_lowercase()).collect();
                members.extend(new);
                Some(members)
            }
            Change::Remove if known.is_none() => return Err(refused("the node owns none of this label".into())),
            Change::Remove => (!changed.is_empty()).then_some(members),
        };
        let (of, said) = (label.clone(), members.clone());
        let groups = self.with_messaging(move |messaging, now| {
            messaging.set_group(now, &of, said.as_deref()).map(|()| messaging.groups())
        })?;
        let group = groups.map_err(refused)?.remove(&label);
        if self.config().store.is_some() {
            crate::mf::groups::remember(&self.config().state_dir, label.clone(), members)?;
        }
        Ok(Told::Groups { groups: group.into_iter().map(|group| GroupView::new((label.clone(), group))).collect() })
    }
    /// What the node stores for others.
    pub(crate) fn store(&self) -> Result<StoreView, ApiError> {
        Ok(StoreView::new(&self.with_messaging(|messaging, now| messaging.holdings(now))?))
    }
    pub(crate) fn with_messaging<R: std::marker::Send + 'static>(
        &self,
        command: impl FnOnce(&mut dyn Messaging, Time) -> R + std::marker::Send + 'static,
    ) -> Result<R, ApiError> {
        let done = self.running().call(|node, now| node.messaging().map(|messaging| command(messaging, now)))?;
        done.ok_or_else(|| {
            let message = format!("nodes of the family '{}' neither send nor store", self.config().family);
            ApiError::new(ErrorKind::Usage, message).with_hint("take a node with family = \"mf\"")
        })
    }
}

fn options(send: &Send, to: &Destination) -> SendOptions {
    let by_name = matches!(to, Destination::Name(_));
    SendOptions {
        chunk_bytes: send.chunk_bytes,
        delivery: send.reliability.map(Delivery::from),
        in_network: send.in_network.map(InNetwork::from),
        priority: send.priority,
        lifetime: send.lifetime_ms.map(Duration::from_millis),
        spread: match (send.nearest && by_name, send.proxies) {
            (true, _) => Spread::Nearest,
            (false, 0) => Spread::All,
            (false, depth) => Spread::AllByProxies(depth),
        },
    }
}

/// Whether there is nothing more to wait for.
fn is_done(report: &SendReport) -> bool {
    let everybody = report.destinations > 0 && report.delivered.len() >= report.destinations as usize;
    match (report.delivery, report.in_network) {
        (Delivery::DontCare, _) => report.has_left || everybody,
        // The copy at the first router is told of like any chunk that is stored.
        (_, InNetwork::Delegate) => everybody || (report.has_left && report.stored_chunks >= report.chunks),
        _ => everybody,
    }
}
/// Whether all that has left was dropped, as nobody was there and nothing was to be stored.
pub(crate) fn is_dropped(report: &SendReport) -> bool {
    let copies = u64::from(report.sent_chunks) * u64::from(report.destinations.max(1));
    let is_lost = copies > 0 && report.dropped_chunks >= copies && report.delivered.is_empty();
    is_lost && report.in_network == InNetwork::Forbid && report.delivery != Delivery::DontCare
}

fn received(manifest: &Manifest, path: &Path) -> Told {
    Told::Received(ReceivedView::new(manifest, path, text(manifest, path)))
}
/// A short text, to show with the news of it, unless another version has taken its place already.
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
