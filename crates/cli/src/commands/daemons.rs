//! Which of the daemons on this machine a request is for.
use tributary::{
    Api, ApiError, ErrorKind, Family, Notice, Request, SocketApi, control::find_controls, views::StatusView,
};

use crate::{args::Control, tables};

/// A daemon that runs here, and its status.
pub(super) struct Running {
    pub(super) api: SocketApi,
    pub(super) status: StatusView,
}

/// The daemon that the arguments name, or the only one that runs, or the only one of several that can do it.
pub(super) fn connect(control: &Control, request: &Request) -> Result<SocketApi, ApiError> {
    let sockets = find_controls(control.control.as_deref())?;
    if let [socket] = &sockets[..] {
        return SocketApi::open(socket);
    }
    choose(running(&sockets)?, request)
}
/// All daemons that the arguments may mean, each with its status.
pub(super) fn all(control: &Control) -> Result<Vec<Running>, ApiError> {
    running(&find_controls(control.control.as_deref())?)
}

/// The status of the daemon that the arguments name, or of the only one that runs.
pub(super) fn only(control: &Control) -> Result<StatusView, ApiError> {
    status(&connect(control, &Request::Status)?)
}
pub(crate) fn status(api: &dyn Api) -> Result<StatusView, ApiError> {
    let status = api.answers(Request::Status)?.into_iter().find_map(|notice| match notice {
        Notice::Status(status) => Some(*status),
        _ => None,
    });
    status.ok_or_else(|| ApiError::new(ErrorKind::Protocol, "the daemon sends no status"))
}

/// The daemons that answer. A daemon that has just ended is left out, unless it is the only one.
fn running(sockets: &[std::path::PathBuf]) -> Result<Vec<Running>, ApiError> {
    let ask = |socket: &std::path::PathBuf| {
        let api = SocketApi::open(socket)?;
        Ok(Running { status: status(&api)?, api })
    };
    let answers: Vec<Result<Running, ApiError>> = sockets.iter().map(ask).collect();
    if answers.iter().all(Result::is_err) {
        return answers.into_iter().collect();
    }
    Ok(answers.into_iter().flatten().collect())
}
fn choose(running: Vec<Running>, request: &Request) -> Result<SocketApi, ApiError> {
    let able = |node: &&Running| can(&node.status, request);
    let labels = |nodes: &[&Running]| nodes.iter().map(|node| tables::node_words(&node.status)).collect::<Vec<_>>();
    let found: Vec<_> = running.iter().filter(able).collect();
    match &found[..] {
        [only] => Ok(only.api.clone()),
        [] => {
            let known = labels(&running.iter().collect::<Vec<_>>()).join(", ");
            let message = format!("none of the daemons that run here can do that: {known}");
            Err(ApiError::usage(message).with_hint("`trib status` shows more about them"))
        }
        [first, ..] => {
            let message =
                format!("{} daemons here can do that: {}; which one?", found.len(), labels(&found).join(", "));
            let hint = format!("name one: --control {}", first.status.label);
            Err(ApiError::usage(message).with_hint(hint))
        }
    }
}
/// Whether a node can answer a request, according to its status.
fn can(status: &StatusView, request: &Request) -> bool {
    let plays = |role: &str| status.roles.iter().any(|of| of == role);
    let abilities = status.family.parse::<Family>().ok().map(|family| family.profile().abilities);
    let has_messages = abilities.is_some_and(|abilities| abilities.messages);
    let has_transfer = |id: &str| status.transfers.iter().any(|transfer| transfer.id == id || transfer.name == id);
    let publishes = |name: &str| status.published.iter().any(|published| published.name == name);
    // What waits in the queue has no transfer.
    let is_fetched =
        |id: &str| has_transfer(id) || (id.starts_with("get-") || id.starts_with('/')) && plays("receiver");
    match request {
        Request::Put { .. } => plays("sender"),
        Request::Get(_) | Request::Begin(_) => plays("receiver"),
        Request::List { .. } => abilities.is_none_or(|abilities| abilities.listing),
        Request::Remove { name } => publishes(name),
        Request::Paths { name } => has_transfer(name),
        Request::Follow { id } => is_fetched(id),
        Request::Explain { id } => {
            let (of, _) = id.split_once('/').filter(|(of, _)| !of.is_empty()).unwrap_or((id, ""));
            has_transfer(id)
                || has_transfer(of)
                || publishes(id)
                || id.starts_with("path-") && !status.transfers.is_empty()
                || status.faces.iter().any(|face| face.id == *id || face.label.as_ref() == Some(id))
        }
        Request::Cancel { transfer }
        | Request::Pause { transfer }
        | Request::Resume { transfer }
        | Request::Move { transfer, .. } => is_fetched(transfer),
        Request::Transfers { transfer } => transfer.as_ref().map_or_else(|| plays("receiver"), |id| is_fetched(id)),
        Request::Limit { transfer, .. } => transfer.as_ref().map_or_else(|| plays("receiver"), |id| has_transfer(id)),
        Request::Ping(_) | Request::Traceroute(_) => abilities.is_some_and(|abilities| abilities.echo),
        Request::Cache => status.cache.is_some(),
        Request::Routes
        | Request::RouteAdd { .. }
        | Request::RouteRemove { .. }
        | Request::Strategies
        | Request::SetStrategy { .. }
        | Request::FaceOpen { .. }
        | Request::FaceClose { .. } => abilities.is_some_and(|abilities| abilities.routes),
        Request::Store
        | Request::Purge(_)
        | Request::StoreHold(_)
        | Request::StoreRelease(_)
        | Request::StoreExtend { .. } => has_messages && plays("router"),
        Request::Send(_) => has_messages && plays("sender"),
        Request::Recv(_) | Request::Attach { .. } | Request::Detach { .. } => has_messages && plays("receiver"),
        Request::Readers { .. } | Request::Groups | Request::GroupAdd { .. } | Request::GroupRemove { .. } => {
            has_messages
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_for_the_nodes_whose_roles_it_needs() {
        let status = |label: &str, family: &str, roles: &[&str]| StatusView {
            label: label.into(),
            family: family.into(),
            roles: roles.iter().map(ToString::to_string).collect(),
            ..StatusView::default()
        };
        let mut router = status("router", "psi", &["router", "resolver", "topology-manager"]);
        router.cache = Some(tributary::views::CacheView::default());
        let mut receiver = status("receiver", "psi", &["receiver"]);
        receiver.transfers =
            vec![tributary::views::TransferView { id: "transfer-1".into(), name: "/a".into(), ..Default::default() }];
        let (tower, phone) = (status("tower", "mf", &["router"]), status("phone", "mf", &["sender", "receiver"]));
        let nodes = [&router, &receiver, &tower, &phone];
        for (request, able) in [
            (Request::Cache, &["router"][..]),
            (Request::Store, &["tower"]),
            (Request::Explain { id: "/a".into() }, &["receiver"]),
            (Request::Explain { id: "transfer-1/path-2".into() }, &["receiver"]),
            (Request::Paths { name: "/a".into() }, &["receiver"]),
            (Request::Attach { name: "/a".into() }, &["phone"]),
            (Request::Remove { name: "/a".into() }, &[]),
            (Request::List { scope: "/".into(), patience_ms: 1 }, &["router", "receiver", "tower", "phone"]),
        ] {
            let found: Vec<_> = nodes.iter().filter(|node| can(node, &request)).map(|node| &node.label[..]).collect();
            assert_eq!(found, able, "{request:?}");
        }
    }
}
