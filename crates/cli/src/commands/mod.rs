//! One file per command that sends a daemon more than one request, and their common parts.
mod answer;
pub(crate) mod daemons;
mod doctor;
mod echo;
mod executor;
mod forwarding;
mod gateway;
mod get;
mod http_proxy;
pub(crate) mod laboratory;
mod load;
mod message;
mod ndn_key;
mod network;
mod node;
mod put;
mod screen;
mod simple;
mod web;

use tributary::{ApiError, Request};
use tributary_terminal::arguments;

use self::answer::ask;
use crate::{
    args::{Cli, Command, Group, RateLimit, declared},
    demo,
};

/// Carries out a command.
pub(crate) fn run(cli: Cli) -> Result<(), ApiError> {
    let json = cli.json;
    match cli.command {
        Command::Demo(demo) => demo::run(&demo, json),
        Command::Node(node) => node::run(&node, cli.debug, json),
        Command::Put(put) => put::run(&put, json),
        Command::Get(get) => get::run(&get, json),
        Command::Ls(ls) => simple::ls(&ls, json),
        Command::Rm(named) => ask(&named.control, Request::Remove { name: named.name.to_string() }, json),
        Command::Status { watch: true, control } => screen::run(&control, json),
        Command::Status { watch: false, control } => simple::status(&control, json),
        Command::Doctor(doctor) => doctor::run(&doctor, json),
        Command::Follow(follow) => get::follow(&follow, json),
        Command::Mirror(mirror) => get::mirror(&mirror, json),
        Command::Paths(named) => ask(&named.control, Request::Paths { name: named.name.to_string() }, json),
        Command::Explain { id, control } => ask(&control, Request::Explain { id }, json),
        Command::Ping(ping) => echo::ping(&ping, json),
        Command::Traceroute(trace) => echo::traceroute(&trace, json),
        Command::Cache(control) => ask(&control, Request::Cache, json),
        Command::Cancel(cancel) => ask(&cancel.control, Request::Cancel { transfer: cancel.transfer }, json),
        Command::Pause(pause) => ask(&pause.control, Request::Pause { transfer: pause.transfer }, json),
        Command::Transfers(control) => ask(&control, Request::Transfers { transfer: None }, json),
        Command::Move { transfer, to, control } => ask(&control, Request::Move { transfer, to }, json),
        Command::Resume(resume) => ask(&resume.control, Request::Resume { transfer: resume.transfer }, json),
        Command::Watch(control) => simple::watch(&control, json),
        Command::Limit { rate: RateLimit(rate), transfer, control } => {
            let bits_per_second = rate.map(|rate| rate.bits_per_second());
            ask(&control, Request::Limit { transfer, bits_per_second }, json)
        }
        Command::Send(send) => message::send(&send, json),
        Command::Recv(recv) => message::recv(&recv, json),
        Command::Attach(named) => ask(&named.control, Request::Attach { name: named.name.to_string() }, json),
        Command::Detach(named) => ask(&named.control, Request::Detach { name: named.name.to_string() }, json),
        Command::Readers { name, only, all, control } => {
            let name = name.map(|name| name.to_string());
            ask(&control, Request::Readers { name, readers: (!all).then_some(only) }, json)
        }
        Command::Group(Group::List(control)) => ask(&control, Request::Groups, json),
        Command::Group(Group::Add(of)) => {
            ask(&of.control, Request::GroupAdd { label: of.label, members: of.members }, json)
        }
        Command::Group(Group::Remove(of)) => {
            ask(&of.control, Request::GroupRemove { label: of.label, members: of.members }, json)
        }
        Command::Log { levels, control } => {
            let request = |levels| Request::SetLog { levels: tributary::log::LogLevels::to_string(&levels) };
            ask(&control, levels.map_or(Request::Log, request), json)
        }
        Command::Store { command: None, control } => ask(&control, Request::Store, json),
        Command::Store { command: Some(command), .. } => {
            let (control, request) = command.into_request();
            ask(&control, request, json)
        }
        Command::Route(route) => forwarding::route(route, json),
        Command::Strategy(strategy) => forwarding::strategy(strategy, json),
        Command::Face(face) => forwarding::face(face, json),
        Command::Gateway(gateway) => gateway::run(&gateway, json),
        Command::HttpProxy(proxy) => http_proxy::run(&proxy, json),
        Command::Lab(lab) => laboratory::run("lab", &lab, json),
        Command::Sim(sim) => laboratory::run("sim", &sim, json),
        Command::Config(config) => simple::config(&config, json),
        Command::Invite(invite) => simple::invite(&invite, json),
        Command::Key(key) => simple::key(&key, json),
        Command::NdnKey(command) => ndn_key::run(&command, json),
        Command::Network(network) => network::run(&network, json),
        Command::Completions { shell } => {
            arguments::print_completions(shell, declared());
            Ok(())
        }
        Command::Man { folder } => simple::man(&folder),
    }
}
