//! `trib ping` and `trib traceroute`: answers are printed as they arrive.
use tributary::{
    ApiError, Flow, Request,
    request::{EchoPath, Ping, Traceroute},
};

use super::{
    answer::print,
    executor::{milliseconds, worker},
};
use crate::{args, signals::Wish};

/// `trib ping`.
pub(crate) fn ping(ping: &args::Ping, json: bool) -> Result<(), ApiError> {
    let request = Request::Ping(Ping {
        name: ping.name.to_string(),
        count: ping.count,
        interval_ms: milliseconds(ping.interval),
        timeout_ms: milliseconds(ping.timeout),
        path: path(&ping.path, &ping.worker)?,
    });
    ask(&ping.worker, request, json)
}

/// `trib traceroute`.
pub(crate) fn traceroute(trace: &args::Traceroute, json: bool) -> Result<(), ApiError> {
    let request = Request::Traceroute(Traceroute {
        name: trace.name.to_string(),
        hops_max: trace.max_hops,
        tries: trace.count,
        timeout_ms: milliseconds(trace.timeout),
        path: path(&trace.path, &trace.worker)?,
    });
    ask(&trace.worker, request, json)
}

fn ask(of: &args::Worker, mut request: Request, json: bool) -> Result<(), ApiError> {
    worker(of, &mut request, &Wish::default())?.api().ask(request, None, &mut |notice| {
        print(&notice, json);
        Flow::Continue
    })
}
/// The path of the requests. A path starts with a label of the node that named it, which changes at each of its starts.
fn path(text: &str, of: &args::Worker) -> Result<EchoPath, ApiError> {
    match text {
        "same" => Ok(EchoPath::Same),
        "any" => Ok(EchoPath::Any),
        given if of.config.is_some() => {
            let message = format!("no node that begins only now can follow the path '{given}'");
            Err(ApiError::usage(message).with_hint("ask the daemon that named it, without --config"))
        }
        given => Ok(EchoPath::Given(given.into())),
    }
}
