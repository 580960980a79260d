//! The routes, each with the request that it makes to the node. Everything else about a route (its parameters, the
//! types of its query, its description) is read from the schema of requests, and its answer from the schema of events.
use hyper::Method;

/// The answer of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// One object, this event.
    One(&'static str),
    /// One object, a part of the event `status`: the value of this field, which may be null.
    PartOfStatus(&'static str),
    /// A list with any number of objects, these events.
    Many(&'static [&'static str]),
    /// A stream of objects as they occur, including these events.
    Stream(&'static [&'static str]),
    /// The stream of the node's events, which all its clients share.
    Watch,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Below [`super::ROOT`]. A component in braces is a field of the request.
    pub(crate) path: &'static str,
    /// The request, as its field `op` has it.
    pub(crate) op: &'static str,
    pub(crate) answers: Answers,
}

const fn route(method: Method, path: &'static str, op: &'static str, answers: Answers) -> Route {
    Route { method, path, op, answers }
}

/// Events of a fetch that is followed.
const FETCH: &[&str] = &[
    "fetching",
    "started",
    "source",
    "path",
    "path-state",
    "progress",
    "source-distrusted",
    "source-closed",
    "forwarder-distrusted",
    "cache-distrusted",
    "note",
    "published",
    "waiting",
    "done",
    "error",
];

/// All routes. Each request of the control socket has at least one, which a test checks.
pub(crate) const ROUTES: &[Route] = &[
    route(Method::GET, "/status", "status", Answers::One("status")),
    route(Method::GET, "/faces", "status", Answers::PartOfStatus("faces")),
    route(Method::GET, "/publications", "status", Answers::PartOfStatus("published")),
    route(Method::GET, "/resolver", "status", Answers::PartOfStatus("resolver")),
    route(Method::GET, "/links", "status", Answers::PartOfStatus("links")),
    route(Method::GET, "/counters", "status", Answers::PartOfStatus("counters")),
    route(Method::GET, "/notes", "status", Answers::PartOfStatus("notes")),
    route(Method::GET, "/network", "status", Answers::PartOfStatus("network")),
    route(Method::GET, "/transfers", "transfers", Answers::Many(&["progress"])),
    route(Method::POST, "/transfers", "begin", Answers::One("fetching")),
    route(Method::GET, "/transfers/{transfer}", "transfers", Answers::One("progress")),
    route(Method::DELETE, "/transfers/{transfer}", "cancel", Answers::One("cancelled")),
    route(Method::POST, "/transfers/{transfer}/pause", "pause", Answers::One("cancelled")),
    route(Method::POST, "/transfers/{transfer}/resume", "resume", Answers::One("fetching")),
    route(Method::POST, "/transfers/{transfer}/move", "move", Answers::One("fetching")),
    route(Method::PUT, "/transfers/{transfer}/limit", "limit", Answers::One("limited")),
    route(Method::PUT, "/limit", "limit", Answers::One("limited")),
    route(Method::GET, "/follow", "follow", Answers::Stream(FETCH)),
    route(Method::POST, "/get", "get", Answers::Stream(FETCH)),
    route(Method::GET, "/paths", "paths", Answers::Many(&["paths"])),
    route(Method::GET, "/explanation", "explain", Answers::One("explanation")),
    route(Method::POST, "/publications", "put", Answers::Many(&["published", "note"])),
    route(Method::DELETE, "/publications", "remove", Answers::One("unpublished")),
    route(Method::GET, "/names", "list", Answers::Many(&["entry", "listed", "note"])),
    route(Method::GET, "/cache", "cache", Answers::One("cache")),
    route(Method::GET, "/store", "store", Answers::One("store")),
    route(Method::DELETE, "/store", "purge", Answers::One("store")),
    route(Method::POST, "/store/hold", "store-hold", Answers::One("store")),
    route(Method::POST, "/store/release", "store-release", Answers::One("store")),
    route(Method::POST, "/store/extend", "store-extend", Answers::One("store")),
    route(Method::GET, "/routes", "routes", Answers::One("routes")),
    route(Method::POST, "/routes", "route-add", Answers::One("routes")),
    route(Method::DELETE, "/routes", "route-remove", Answers::One("routes")),
    route(Method::GET, "/strategies", "strategies", Answers::One("strategies")),
    route(Method::PUT, "/strategies", "set-strategy", Answers::One("strategies")),
    route(Method::POST, "/faces", "face-open", Answers::One("face-changed")),
    route(Method::DELETE, "/faces/{face}", "face-close", Answers::One("face-changed")),
    route(Method::GET, "/log", "log", Answers::One("log")),
    route(Method::PUT, "/log", "set-log", Answers::One("log")),
    route(Method::POST, "/ping", "ping", Answers::Stream(&["echo", "pinged", "error"])),
    route(Method::POST, "/traceroute", "traceroute", Answers::Stream(&["echo", "traced", "error"])),
    route(Method::POST, "/messages", "send", Answers::Stream(&["sending", "note", "waiting", "sent", "error"])),
    route(
        Method::POST,
        "/inbox",
        "recv",
        Answers::Stream(&["receiving", "received", "not-received", "progress", "note", "waiting", "error"]),
    ),
    route(Method::PUT, "/attachments", "attach", Answers::One("attached")),
    route(Method::DELETE, "/attachments", "detach", Answers::One("attached")),
    route(Method::PUT, "/readers", "readers", Answers::One("readers")),
    route(Method::GET, "/groups", "groups", Answers::One("groups")),
    route(Method::POST, "/groups/{label}/members", "group-add", Answers::One("groups")),
    route(Method::DELETE, "/groups/{label}/members", "group-remove", Answers::One("groups")),
    route(Method::PUT, "/faces/{face}/link", "link", Answers::One("note")),
    route(Method::GET, "/events", "watch", Answers::Watch),
];

impl Route {
    /// The fields of the request that the path carries, if it has this shape. `None` if it has not.
    pub(crate) fn fields<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
        let (mut of_route, mut given) = (self.path.split('/'), path.split('/'));
        let mut fields = Vec::new();
        loop {
            match (of_route.next(), given.next()) {
                (None, None) => return Some(fields),
                (Some(component), Some(text)) => match component.strip_prefix('{') {
                    Some(field) if !text.is_empty() => fields.push((field.trim_end_matches('}'), text)),
                    None if component == text => {}
                    Some(_) | None => return None,
                },
                (Some(_), None) | (None, Some(_)) => return None,
            }
        }
    }
    /// The names of these fields.
    #[cfg(test)]
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|component| component.strip_prefix('{')?.strip_suffix('}'))
    }
    /// Whether the fields that the path does not carry are in the query; else they are in a body.
    pub(crate) fn has_query(&self) -> bool {
        self.method == Method::GET || self.method == Method::DELETE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tributary::Request;

    #[test]
    fn every_request_of_the_control_socket_has_a_route() {
        // serde lists all operations when it meets another one.
        let error = serde_json::from_str::<Request>(r#"{"op":"?"}"#).expect_err("no operation").to_string();
        let list = error.split_once("expected one of").expect("a list").1;
        let operations: BTreeSet<&str> = list.split('`').skip(1).step_by(2).collect();
        let routed: BTreeSet<&str> = ROUTES.iter().map(|route| route.op).collect();
        assert!(operations.len() > 25, "{operations:?}");
        assert_eq!(routed, operations);
    }

    #[test]
    fn no_two_routes_claim_the_same_request() {
        let shapes: Vec<String> = ROUTES
            .iter()
            .map(|route| {
                let shape = route.path.split('/').map(|part| if part.starts_with('{') { "*" } else { part });
                format!("{} {}", route.method, shape.collect::<Vec<_>>().join("/"))
            })
            .collect();
        assert_eq!(shapes.iter().collect::<BTreeSet<_>>().len(), shapes.len(), "{shapes:?}");
    }

    #[test]
    fn paths_carry_fields_and_match_whole() {
        let limit = ROUTES.iter().find(|route| route.path == "/transfers/{transfer}/limit").expect("it is there");
        assert_eq!(limit.fields("/transfers/transfer-1/limit"), Some(vec![("transfer", "transfer-1")]));
        for path in ["/transfers/limit", "/transfers//limit", "/transfers/a/limit/", "/transfers/a/b/limit", "/"] {
            assert_eq!(limit.fields(path), None, "{path}");
        }
    }
}
