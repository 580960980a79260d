//! `trib ping` and `trib traceroute`: answers are printed as they come.
use tributary::{
    ApiError, Flow, Request,
    echo::{EchoPath, Ping, Traceroute},
};

use super::{milliseconds, print, worker};
use crate::args;

/// `trib ping`.
pub(crate) fn ping(ping: &args::Ping, json: bool) -> Result<(), ApiError> {
    let request = Request::Ping(Ping {
        name: ping.name.to_string(),
        count: ping.count,
        interval_ms: milliseconds(ping.interval),
        timeout_ms: milliseconds(ping.timeout),
        path: path(&ping.path),
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
        path: path(&trace.path),
    });
    ask(&trace.worker, request, json)
}

fn ask(of: &args::Worker, request: Request, json: bool) -> Result<(), ApiError> {
    worker(of)?.ask(request, None, &mut |told| {
        print(&told, json);
        Flow::Continue
    })
}
fn path(text: &str) -> EchoPath {
    match text {
        "same" => EchoPath::Same,
        "any" => EchoPath::Any,
        given => EchoPath::Given(given.into()),
    }
}
