//! Attachments, readers and groups of a node, and the chunks that it stores for others.
use std::{collections::BTreeSet, time::Duration};

use parking_lot::Mutex;
use tributary_transport::messaging::{HeldFilter, Keeping};

use super::{look_until, parse_name};
use crate::{
    error::{ApiError, ErrorKind},
    families::NameRule,
    node::LocalNode,
    notice::Notice,
    request::Request,
    views::{GroupView, StoreView, counted},
};

/// Interval and limit of polling the store until a decision about its chunks is on the disk.
const SAVED_LOOK: Duration = Duration::from_millis(5);
const SAVED_PATIENCE: Duration = Duration::from_secs(10);

/// Whether the node is attached to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binding {
    /// It is.
    Attached,
    /// It is not.
    Detached,
}

/// How the members of a group change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// Members are added.
    Add,
    /// Members are removed.
    Remove,
}

impl LocalNode {
    /// Carries out `Request::Attach` and `Request::Detach`.
    pub(crate) fn bind(&self, name: &str, binding: Binding) -> Result<Notice, ApiError> {
        let parsed = parse_name(name)?;
        let bound = parsed.clone();
        self.with_messaging(move |messaging, now| match binding {
            Binding::Attached => messaging.attach(now, &bound),
            Binding::Detached => messaging.detach(now, &bound),
        })?;
        match binding {
            Binding::Attached => self.attached.lock().insert(parsed),
            Binding::Detached => self.attached.lock().remove(&parsed),
        };
        Ok(Notice::Attached { name: name.into(), attached: binding == Binding::Attached })
    }
    /// Carries out `Request::Readers`, and remembers it over restarts.
    pub(crate) fn set_readers(&self, name: Option<String>, readers: Option<Vec<String>>) -> Result<Notice, ApiError> {
        let parsed = name.as_deref().map(parse_name).transpose()?;
        let remember = || {
            if self.config.store.is_none() {
                return Ok(());
            }
            self.remember(&NameRule::Readers { name: parsed.clone(), readers: readers.clone() })
        };
        // The restricting step comes first: if the other fails, fewer may look it up, not more.
        let opens = readers.is_none();
        if opens {
            self.with_messaging(|_, _| ())?;
            remember()?;
        }
        let (of, devices) = (parsed.clone(), readers.clone());
        let set =
            self.with_messaging(move |messaging, now| messaging.set_readers(now, of.as_ref(), devices.as_deref()))?;
        set.map_err(|reason| ApiError::usage(format!("cannot set its readers: {reason}")))?;
        if !opens {
            remember()?;
        }
        Ok(Notice::Readers { name, readers })
    }
    /// The groups that the node owns.
    pub(crate) fn groups(&self) -> Result<Notice, ApiError> {
        let groups = self.with_messaging(|messaging, _| messaging.groups())?;
        Ok(Notice::Groups { groups: groups.into_iter().map(GroupView::new).collect() })
    }
    /// Sets the members of a group, or (`None`) ends it, and remembers that over restarts.
    pub(crate) fn set_group(&self, label: &str, members: Option<Vec<String>>) -> Result<(), ApiError> {
        let (of, given) = (label.to_string(), members.clone());
        let set = self.with_messaging(move |messaging, now| messaging.set_group(now, &of, given.as_deref()))?;
        set.map_err(|reason| ApiError::usage(format!("cannot change the group '{label}': {reason}")))?;
        if self.config.store.is_some() {
            self.remember(&NameRule::Group { label: label.into(), members })?;
        }
        Ok(())
    }
    /// Carries out `Request::GroupAdd` and `Request::GroupRemove`, and remembers the result over restarts.
    pub(crate) fn change_group(&self, label: String, changed: &[String], change: Change) -> Result<Notice, ApiError> {
        // Several clients may change some at once.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
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
            Change::Remove if known.is_none() => {
                let message = format!("cannot change the group '{label}': the node owns none of this label");
                return Err(ApiError::usage(message));
            }
            Change::Remove => (!changed.is_empty()).then_some(members),
        };
        self.set_group(&label, members)?;
        let group = self.with_messaging(|messaging, _| messaging.groups())?.remove(&label);
        Ok(Notice::Groups { groups: group.into_iter().map(|group| GroupView::new((label.clone(), group))).collect() })
    }
    fn remember(&self, rule: &NameRule) -> Result<(), ApiError> {
        let config = &self.config;
        config.settings.of_family().remember(&config.state_dir, rule)
    }
    /// Executes `Request::Store`, and changes to the store or its retention.
    pub(crate) fn stored(&self, request: Request) -> Result<Notice, ApiError> {
        let view = match request {
            Request::Purge(what) => self.purge(what)?,
            Request::StoreHold(what) => self.keep(what, Keeping::Hold)?,
            Request::StoreRelease(what) => self.keep(what, Keeping::Release)?,
            Request::StoreExtend { destination, object, keep_ms } => {
                let how = Keeping::AtLeast(Duration::from_millis(keep_ms));
                self.keep(HeldFilter { destination, object }, how)?
            }
            _ => self.store()?,
        };
        Ok(Notice::Store(view))
    }
    /// The chunks that the node stores for others.
    fn store(&self) -> Result<StoreView, ApiError> {
        Ok(StoreView::new(&self.with_messaging(|messaging, now| messaging.holdings(now))?))
    }
    /// Deletes chunks that the node stores for others, and reports the remaining ones.
    fn purge(&self, what: HeldFilter) -> Result<StoreView, ApiError> {
        let purged =
            self.with_messaging(move |messaging, now| messaging.purge(now, &what))?.map_err(ApiError::usage)?;
        self.runtime.events.note(&format!("{} of the store purged", counted(purged as usize, "chunk")));
        self.store()
    }
    /// Decides how long the node stores chunks for others, and reports them. A confirmed decision survives a restart.
    fn keep(&self, what: HeldFilter, how: Keeping) -> Result<StoreView, ApiError> {
        let kept =
            self.with_messaging(move |messaging, now| messaging.keep(now, &what, how))?.map_err(ApiError::usage)?;
        let saved = || Ok((self.with_messaging(|messaging, _| messaging.unsaved())? == 0).then_some(()));
        look_until(SAVED_PATIENCE, SAVED_LOOK, saved)?.ok_or_else(|| {
            let message = "it counts now, but the store has not written it: a restart of the node forgets it";
            ApiError::new(ErrorKind::Io, message).with_hint("look whether its disk is full, and try again")
        })?;
        let done = match how {
            Keeping::Hold => "put on hold".into(),
            Keeping::Release => "released".into(),
            Keeping::AtLeast(time) => format!("kept for {time:?} at least"),
        };
        self.runtime.events.note(&format!("{} of the store {done}", counted(kept as usize, "chunk")));
        self.store()
    }
}
