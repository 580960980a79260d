//! Routes, strategies and faces of a node, in families in which its owner may edit the forwarding table.
use tributary_content::Name;
use tributary_core::{Duration, FaceId, Time};
use tributary_transport::{Forwarding, forwarding::ForwardingError};

use super::{look_until, parse_name};
use crate::{
    error::{ApiError, ErrorKind},
    family::Family,
    node::LocalNode,
    notice::Notice,
    request::Request,
    views::{RouteView, StrategyView},
};

/// How long opening a face may take; the node itself times out earlier.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which the node is polled until it is open.
const LOOK: Duration = Duration::from_millis(20);

impl LocalNode {
    /// Carries out the requests about the forwarding table.
    pub(crate) fn forward(&self, request: Request) -> Result<Notice, ApiError> {
        match request {
            Request::Routes => self.routes(None),
            Request::RouteAdd { prefix, face, cost, lifetime_ms } => {
                let (of, at) = (parse_name(&prefix)?, self.face(&face)?);
                let lifetime = lifetime_ms.map(Duration::from_millis);
                let what = format!("add a route to '{of}' over {at}");
                let name = of.clone();
                self.change(&what, move |table, now| table.add_route(now, &name, at, cost, lifetime))?;
                self.routes(Some(of))
            }
            Request::RouteRemove { prefix, face } => {
                let (of, at) = (parse_name(&prefix)?, self.face(&face)?);
                let (name, what) = (of.clone(), format!("remove the route to '{of}' over {at}"));
                if self.with_forwarding(move |table, _| table.remove_route(&name, at))? == 0 {
                    let message = format!("cannot {what}: there is none");
                    return Err(ApiError::new(ErrorKind::NotFound, message).with_hint("`trib route` lists them"));
                }
                self.routes(Some(of))
            }
            Request::SetStrategy { prefix, strategy } => {
                let of = parse_name(&prefix)?;
                let what = match &strategy {
                    Some(strategy) => format!("choose the strategy '{strategy}' for '{of}'"),
                    None => format!("take back the strategy of '{of}'"),
                };
                self.change(&what, move |table, _| table.set_strategy(&of, strategy.as_deref()))?;
                self.strategies()
            }
            Request::FaceOpen { uri } => self.open_face(uri),
            Request::FaceClose { face } => {
                let face = self.face(&face)?;
                if !self.with_forwarding(move |table, now| table.close_face(now, face))? {
                    return Err(no_face(&face.to_string()));
                }
                Ok(Notice::FaceChanged { face: face.to_string(), open: false })
            }
            _ => self.strategies(),
        }
    }
    fn open_face(&self, uri: String) -> Result<Notice, ApiError> {
        let (of, what) = (uri.clone(), format!("open a face to '{uri}'"));
        let request = self.change(&what, move |table, now| table.open_face(now, &of))?;
        let opened = || self.with_forwarding(move |table, _| table.opened_face(request));
        let opened = look_until(PATIENCE, LOOK, opened)?
            .ok_or_else(|| ApiError::new(ErrorKind::Incomplete, format!("cannot {what}: it was not opened in time")))?;
        let face = opened.map_err(|error| refused(&what, &error))?;
        Ok(Notice::FaceChanged { face: face.to_string(), open: true })
    }
    /// The routes of a prefix, or all.
    fn routes(&self, of: Option<Name>) -> Result<Notice, ApiError> {
        let routes = self.with_forwarding(move |table, now| table.routes(now, of.as_ref()))?;
        Ok(Notice::Routes { routes: routes.into_iter().map(RouteView::new).collect() })
    }
    fn strategies(&self) -> Result<Notice, ApiError> {
        let (chosen, known) = self.with_forwarding(|table, _| (table.strategies(), table.known_strategies()))?;
        let view =
            |(prefix, strategy): (Name, &str)| StrategyView { prefix: prefix.to_string(), strategy: strategy.into() };
        let known = known.into_iter().map(Into::into).collect();
        Ok(Notice::Strategies { strategies: chosen.into_iter().map(view).collect(), known })
    }
    /// The face of this number or label.
    fn face(&self, text: &str) -> Result<FaceId, ApiError> {
        let labelled = self.runtime.neighbours().into_iter().find(|(_, face)| face.label.as_deref() == Some(text));
        let number = || text.strip_prefix("face-").unwrap_or(text).parse().ok().map(FaceId);
        labelled.map(|(id, _)| id).or_else(number).ok_or_else(|| no_face(text))
    }
    fn change<R: Send + 'static>(
        &self,
        what: &str,
        change: impl FnOnce(&mut dyn Forwarding, Time) -> Result<R, ForwardingError> + Send + 'static,
    ) -> Result<R, ApiError> {
        self.with_forwarding(change)?.map_err(|error| refused(what, &error))
    }
    fn with_forwarding<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut dyn Forwarding, Time) -> R + Send + 'static,
    ) -> Result<R, ApiError> {
        let done = self.runtime.call(|node, now| node.forwarding().map(|table| command(table, now)))?;
        done.ok_or_else(|| {
            ApiError::usage(format!("nodes of the family '{}' find their routes themselves", self.config.family()))
                .with_hint(format!("take a node with {}", Family::able(|can| can.routes)))
        })
    }
}

fn no_face(text: &str) -> ApiError {
    ApiError::new(ErrorKind::NotFound, format!("there is no face '{text}'")).with_hint("`trib face` lists them")
}
fn refused(what: &str, error: &ForwardingError) -> ApiError {
    let refusal = ApiError::new(ErrorKind::Rejected, format!("cannot {what}: {error}"));
    match error {
        ForwardingError::NoFace(_) => refusal.with_hint("`trib face` lists them"),
        ForwardingError::NoStrategy(_) => refusal.with_hint("`trib strategy` lists those that can be chosen"),
        ForwardingError::Full => refusal.with_hint("raise 'routes' in [limits]"),
        _ => refusal,
    }
}
