//! `trib route`, `trib strategy` and `trib face`: the forwarding table of a node.
use tributary::{ApiError, Request};

use super::{answer::ask, simple};
use crate::args::{Face, Route, Strategy};

pub(super) fn route(route: Route, json: bool) -> Result<(), ApiError> {
    match route {
        Route::List(of) => ask(&of.control, Request::Routes, json),
        Route::Add(add) => {
            let request = Request::RouteAdd {
                prefix: add.prefix.to_string(),
                face: add.face,
                cost: add.cost,
                lifetime_ms: add.lifetime.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            };
            ask(&add.control, request, json)
        }
        Route::Remove(of) => {
            ask(&of.control, Request::RouteRemove { prefix: of.prefix.to_string(), face: of.face }, json)
        }
    }
}
pub(super) fn strategy(strategy: Strategy, json: bool) -> Result<(), ApiError> {
    match strategy {
        Strategy::List(of) => ask(&of.control, Request::Strategies, json),
        Strategy::Set(set) => {
            let request = Request::SetStrategy { prefix: set.prefix.to_string(), strategy: Some(set.strategy) };
            ask(&set.control, request, json)
        }
        Strategy::Unset(of) => {
            ask(&of.control, Request::SetStrategy { prefix: of.name.to_string(), strategy: None }, json)
        }
    }
}
pub(super) fn face(face: Face, json: bool) -> Result<(), ApiError> {
    match face {
        Face::List(of) => simple::faces(&of.control, json),
        Face::Create(create) => ask(&create.control, Request::FaceOpen { uri: create.uri }, json),
        Face::Destroy(of) => ask(&of.control, Request::FaceClose { face: of.face }, json),
    }
}
