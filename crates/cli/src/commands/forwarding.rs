//! `trib route`, `trib strategy` and `trib face`: the forwarding table of a node.
use tributary::{ApiError, Request};

use super::{answer::ask, executor::milliseconds, simple};
use crate::args::{Face, Route, Strategy};

pub(super) fn route(route: Route, json: bool) -> Result<(), ApiError> {
    match route {
        Route::List(control) => ask(&control, Request::Routes, json),
        Route::Add { prefix, face, cost, lifetime, control } => {
            let (prefix, lifetime_ms) = (prefix.to_string(), lifetime.map(milliseconds));
            ask(&control, Request::RouteAdd { prefix, face, cost, lifetime_ms }, json)
        }
        Route::Remove { prefix, face, control } => {
            ask(&control, Request::RouteRemove { prefix: prefix.to_string(), face }, json)
        }
    }
}
pub(super) fn strategy(strategy: Strategy, json: bool) -> Result<(), ApiError> {
    let (control, prefix, strategy) = match strategy {
        Strategy::List(control) => return ask(&control, Request::Strategies, json),
        Strategy::Set { prefix, strategy, control } => (control, prefix, Some(strategy)),
        Strategy::Unset(of) => (of.control, of.name, None),
    };
    ask(&control, Request::SetStrategy { prefix: prefix.to_string(), strategy }, json)
}
pub(super) fn face(face: Face, json: bool) -> Result<(), ApiError> {
    match face {
        Face::List(control) => simple::faces(&control, json),
        Face::Create { uri, control } => ask(&control, Request::FaceOpen { uri }, json),
        Face::Destroy { face, control } => ask(&control, Request::FaceClose { face }, json),
    }
}
