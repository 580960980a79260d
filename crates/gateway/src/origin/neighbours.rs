//! Copies of neighbours: two objects for each, below the name of the origin.
//!
//! | name | object |
//! |---|---|
//! | `NAME/head/KEY` | the head of the answer as JSON; its version is the time at which the origin confirmed it |
//! | `NAME/sha256/DIGEST` | the body |
//!
//! Gateways that have the same copy publish the same bytes, so each is a source of both objects. Gateways that have
//! different heads contest the name, and a third one asks the origin.
use std::{io::Write, sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tributary::{Api, Flow, Get, LocalApi, Notice, Output, Request, Term, spawn};
use tributary_content::{Name, Reference};
use tributary_net::wall_clock;

use super::{
    copy::{Head, Verified},
    filling::Pipe,
    shelf::Shelf,
};
use crate::config::HttpOrigin;

/// Maximum bytes of a head's document.
const DOCUMENT_BYTES_MAX: usize = 64 << 10;
/// How far a neighbour's clock may be ahead.
const AHEAD_MAX: Duration = Duration::from_secs(60);
/// How long neighbours may take for the next byte.
const PATIENCE_MS: u64 = 5_000;

/// The name of a head or a body.
pub(crate) fn name_of(origin: &HttpOrigin, of: &str, id: &str) -> Option<Name> {
    origin.name.child(of.as_bytes()).and_then(|name| name.child(id.as_bytes())).ok()
}

/// Whether a neighbour publishes a name.
pub(super) async fn is_published(api: &LocalApi, name: &Name, patience: Duration) -> bool {
    let (answer, found) = oneshot::channel();
    let answer = move |found: Result<Reference, _>| _ = answer.send(found.is_ok());
    let begun = api.resolve(&Reference::from(name.clone()), name.len(), patience, answer);
    begun.is_ok() && matches!(tokio::time::timeout(patience, found).await, Ok(Ok(true)))
}
/// Writes an object to `writer`; returns its version. Blocks.
pub(crate) fn read(api: &LocalApi, name: &Name, writer: Box<dyn Write + Send>) -> Option<u64> {
    // With a least version the fetch reports the one that it finds.
    let get = Get { patience_ms: Some(PATIENCE_MS), newer_than: Some(0), ..Get::new(name.to_string(), Output::Stream) };
    let mut version = None;
    let ended = api.ask(Request::Get(get), Some(writer), &mut |notice| {
        if let Notice::Done(done) = notice {
            version = Some(done.version.unwrap_or_default());
        }
        Flow::Continue
    });
    ended.inspect_err(|error| tracing::debug!("no copy of '{name}': {}", error.message)).ok()?;
    version
}

/// The head of the copy that a neighbour has of `url`, if it is fresh.
pub(crate) async fn find(api: &Arc<LocalApi>, origin: &HttpOrigin, key: &str, url: &str) -> Option<Head> {
    let name = name_of(origin, "head", key)?;
    if origin.peer_patience.is_zero() || !is_published(api, &name, origin.peer_patience).await {
        return None;
    }
    let (api, (pipe, mut pieces)) = (Arc::clone(api), Pipe::new());
    let reading = tokio::task::spawn_blocking(move || read(&api, &name, Box::new(pipe)));
    let mut document = Vec::new();
    while let Some(piece) = pieces.recv().await.filter(|_| document.len() < DOCUMENT_BYTES_MAX) {
        document.extend_from_slice(&piece);
    }
    drop(pieces);
    let version = reading.await.ok()??;
    let mut head: Head = serde_json::from_slice(&document).ok()?;
    let at = Duration::from_micros(version);
    // A neighbour whose clock is ahead would make the copy fresh for too long.
    if head.url != url || at > wall_clock() + AHEAD_MAX || head.digest.is_none() || head.size.is_none() {
        return None;
    }
    head.at = at.as_secs().min(wall_clock().as_secs());
    // Whether the bytes have the digest of the protocol is the protocol's matter, and not the neighbour's.
    head.verified = Verified::Publisher;
    head.is_fresh().then_some(head)
}

/// Publishes a copy for the run of this node; on a thread, since the body is hashed. A node that is no sender publishes
/// none.
pub(crate) fn publish(api: &Arc<LocalApi>, origin: &HttpOrigin, shelf: &Arc<Shelf>, key: &str, head: &Head) {
    let (api, shelf, key, head) = (Arc::clone(api), Arc::clone(shelf), key.to_string(), head.clone());
    let (Some(digest), Some(name)) = (head.digest.clone(), name_of(origin, "head", &key)) else { return };
    let Some(body_name) = name_of(origin, "sha256", &digest) else { return };
    let work = move || {
        let document = shelf.work_path(&key, "head");
        // An earlier publication reads the file that has the name now.
        let new = document.with_extension("head-new");
        let written = std::fs::write(&new, head.document()).and_then(|()| std::fs::rename(&new, &document));
        if let Err(error) = written {
            return tracing::debug!("'{name}' is not published: {error}");
        }
        let version = u64::try_from(Duration::from_secs(head.at).as_micros()).ok();
        // The body first: who finds a head looks for its body at once.
        for (path, name, version) in [(shelf.body_path(&digest), body_name, Some(1)), (document, name, version)] {
            let name = name.to_string();
            let put = Request::Put {
                path,
                name: name.clone(),
                version,
                patience_ms: 0,
                term: Term::ThisRun,
                readers: Vec::new(),
                mirrors: Vec::new(),
            };
            if let Err(error) = api.ask(put, None, &mut |_| Flow::Continue) {
                return tracing::debug!("'{name}' is not published: {}", error.message);
            }
        }
    };
    if let Err(error) = spawn("origin", work) {
        tracing::debug!("a copy is not published: {}", error.message);
    }
}
/// Withdraws the objects of a copy that is gone.
pub(crate) fn withdraw(api: &LocalApi, origin: &HttpOrigin, shelf: &Shelf, key: &str, digest: Option<&str>) {
    let _ = std::fs::remove_file(shelf.work_path(key, "head"));
    let names = [name_of(origin, "head", key), digest.and_then(|digest| name_of(origin, "sha256", digest))];
    for name in names.into_iter().flatten() {
        let _ = api.ask(Request::Remove { name: name.to_string() }, None, &mut |_| Flow::Continue);
    }
}
