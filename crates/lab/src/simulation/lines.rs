//! Events of a simulation as JSON lines: time and node first, then what the program itself would report.
use serde_json::{Map, Value, json};
use std::io;
use tributary_core::{
    Time,
    event::{Event, ResolverEvent, TransferEvent},
};

use tributary::Notice;

/// One event of `node` as a JSON object: `time` in seconds, `node`, and the fields of [`Notice`]. Events that the
/// program does not tell by themselves (chunks, drops, the end of a transfer) have the shapes made here.
pub fn line(time: Time, node: &str, event: &Event) -> String {
    let mut object = Map::new();
    object.insert("time".into(), json!(time.as_nanos() as f64 / 1e9));
    object.insert("node".into(), json!(node));
    if let Event::Transfer(id, _) = event {
        object.insert("transfer".into(), json!(id.to_string()));
    }
    let more = Notice::from_event(event.clone()).map_or_else(|| other(event), |notice| json!(notice));
    match more {
        Value::Object(fields) => object.extend(fields),
        value => {
            object.insert("event".into(), value);
        }
    }
    Value::Object(object).to_string()
}

fn other(event: &Event) -> Value {
    match event {
        Event::Dropped { face, reason, bytes } => {
            json!({"event": "dropped", "face": face.to_string(), "reason": reason, "bytes": bytes})
        }
        Event::Transfer(_, TransferEvent::ChunkStored { index, bytes }) => {
            json!({"event": "chunk-stored", "index": index, "bytes": bytes})
        }
        Event::Transfer(_, TransferEvent::Completed) => json!({"event": "completed"}),
        Event::Transfer(_, TransferEvent::Failed { reason }) => json!({"event": "failed", "reason": reason}),
        Event::Resolver(ResolverEvent::Published { name }) => json!({"event": "published", "name": name}),
        Event::Resolver(ResolverEvent::Subscribed { name }) => json!({"event": "subscribed", "name": name}),
        Event::Resolver(ResolverEvent::Unsubscribed { name }) => json!({"event": "unsubscribed", "name": name}),
        Event::Resolver(ResolverEvent::Disappeared { name }) => json!({"event": "disappeared", "name": name}),
        // Events are open to additions; those without a shape yet are shown as they print.
        event => json!({"event": "other", "text": format!("{event:?}")}),
    }
}

/// Where the lines of a run go.
pub(super) struct EventLines {
    keeps: bool,
    kept: Vec<String>,
    kept_max: usize,
    dropped: u64,
    out: Option<Box<dyn io::Write>>,
    error: Option<io::Error>,
}

impl EventLines {
    /// Keeps up to `kept_max` lines, or none unless it `keeps` them.
    pub(super) fn new(keeps: bool, kept_max: usize) -> EventLines {
        EventLines { keeps, kept: Vec::new(), kept_max, dropped: 0, out: None, error: None }
    }
    /// Writes from now on, and keeps nothing.
    pub(super) fn write_to(&mut self, out: Box<dyn io::Write>) {
        self.out = Some(out);
    }
    pub(super) fn on_event(&mut self, time: Time, node: &str, event: &Event) {
        if let Some(out) = &mut self.out {
            if self.error.is_none() {
                self.error = writeln!(out, "{}", line(time, node, event)).err();
            }
        } else if self.keeps && self.kept.len() < self.kept_max {
            self.kept.push(line(time, node, event));
        } else {
            self.dropped += u64::from(self.keeps);
        }
    }
    /// The kept lines, and how many events were left out.
    pub(super) fn take(&mut self) -> (Vec<String>, u64) {
        (std::mem::take(&mut self.kept), self.dropped)
    }
    /// Moves the written files to their place; the error is the first one of writing or moving.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.as_mut().map_or(Ok(()), |out| out.flush()),
        }
    }
}
