//! Lists the names below a name.
use std::sync::mpsc::RecvTimeoutError;
use tributary_content::KeyList;
use tributary_core::{
    Duration, Time,
    event::{Event, ResolverEvent},
};
use tributary_net::Clock;

use super::{diagnosis, parse_name};
use crate::{
    api::{Flow, Notify},
    error::{ApiError, ErrorKind},
    node::LocalNode,
    notice::Notice,
};

impl LocalNode {
    pub(crate) fn list(&self, scope: &str, patience: Duration, notify: Notify<'_>) -> Result<(), ApiError> {
        let scope = parse_name(scope)?;
        let uri = scope.to_string();
        let subscription = self.runtime.events.subscribe_to_listing();
        let watched = scope.clone();
        self.runtime.call(move |node, now| node.watch(now, &watched))?;
        let clock = Clock::new();
        let deadline = Time::ZERO + patience;
        let result = loop {
            let left = clock.until(deadline);
            let nothing = |after: String| {
                let message = format!("cannot list '{uri}': nothing is known below it{after}");
                match diagnosis::diagnose(self, &uri, None) {
                    Some(why) => ApiError { message: format!("{message}: {}", why.message), ..why },
                    None => ApiError::new(ErrorKind::NotFound, message).with_hint(
                        "`trib ls /` lists what there is; if that fails too, `trib status` shows which neighbours answer",
                    ),
                }
            };
            if left.is_zero() {
                break Err(nothing(format!(" after {patience:?}")));
            }
            match subscription.wait(left) {
                Ok(Event::Resolver(event)) => match &event {
                    ResolverEvent::Listed { name, entries: 0 } if *name == uri => break Err(nothing(String::new())),
                    ResolverEvent::Listed { name, .. } if *name == uri => {
                        self.note_latency("list", clock.now().since(Time::ZERO));
                        notify(Notice::from_event(Event::Resolver(event)).expect("a listing has a shape"));
                        break Ok(());
                    }
                    // Lists of keys belong to their objects. Who names them, is shown them.
                    ResolverEvent::Appeared { name, .. }
                        if !is_keyword(&uri) && name.parse().is_ok_and(|name| KeyList::is_name(&name)) => {}
                    ResolverEvent::Appeared { name, .. } if is_below(&uri, name) => {
                        if let Some(notice) = Notice::from_event(Event::Resolver(event))
                            && notify(notice) == Flow::Stop
                        {
                            break Err(ApiError::new(
                                ErrorKind::Cancelled,
                                format!("the listing of '{uri}' was ended"),
                            ));
                        }
                    }
                    ResolverEvent::Rejected { name, operation: "subscribe" | "watch" | "list", reason }
                        if *name == uri =>
                    {
                        let message = format!("cannot list '{uri}': {reason}");
                        break Err(ApiError::new(ErrorKind::Rejected, message));
                    }
                    _ => {}
                },
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(ApiError::new(ErrorKind::Cancelled, "the node was stopped"));
                }
            }
        };
        self.runtime.call(move |node, now| node.unwatch(now, &scope))?;
        result
    }
}

/// Whether a scope is one of lists of keys.
fn is_keyword(scope: &str) -> bool {
    scope.contains("/32=")
}
/// Whether `name` is the scope itself or below it, as URIs.
fn is_below(scope: &str, name: &str) -> bool {
    scope == "/" || name == scope || name.strip_prefix(scope).is_some_and(|rest| rest.starts_with('/'))
}
