//! One file per command that sends a daemon more than one request, and their common parts.
mod answer;
mod daemons;
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
    args::{Cli, Command, Group, declared},
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
        Command::Status(of) if of.watch => screen::run(&of.control, json),
        Command::Status(of) => simple::status(&of.control, json),
        Command::Doctor(doctor) => doctor::run(&doctor, json),
        Command::Follow(follow) => get::follow(&follow, json),
        Command::Mirror(mirror) => get::mirror(&mirror, json),
        Command::Paths(named) => ask(&named.control, Request::Paths { name: named.name.to_string() }, json),
        Command::Explain(explain) => ask(&explain.control, Request::Explain { id: explain.id }, json),
        Command::Ping(ping) => echo::ping(&ping, json),
        Command::Traceroute(trace) => echo::traceroute(&trace, json),
        Command::Cache(of) => ask(&of.control, Request::Cache, json),
        Command::Cancel(cancel) => ask(&cancel.control, Request::Cancel { transfer: cancel.transfer }, json),
        Command::Pause(pause) => ask(&pause.control, Request::Pause { transfer: pause.transfer }, json),
        Command::Transfers(of) => ask(&of.control, Request::Transfers { transfer: None }, json),
        Command::Move(of) => ask(&of.control, Request::Move { transfer: of.transfer, to: of.to }, json),
        Command::Resume(resume) => ask(&resume.control, Request::Resume { transfer: resume.transfer }, json),
        Command::Watch(of) => simple::watch(&of.control, json),
        Command::Limit(limit) => {
            let bits_per_second = limit.rate.0.map(|rate| rate.bits_per_second());
            ask(&limit.control, Request::Limit { transfer: limit.transfer, bits_per_second }, json)
        }
        Command::Send(send) => message::send(&send, json),
        Command::Recv(recv) => message::recv(&recv, json),
        Command::Attach(named) => ask(&named.control, Request::Attach { name: named.name.to_string() }, json),
        Command::Detach(named) => ask(&named.control, Request::Detach { name: named.name.to_string() }, json),
        Command::Readers(of) => {
            let name = of.name.map(|name| name.to_string());
            ask(&of.control, Request::Readers { name, readers: (!of.all).then_some(of.only) }, json)
        }
        Command::Group(Group::List(of)) => ask(&of.control, Request::Groups, json),
        Command::Group(Group::Add(of)) => {
            ask(&of.control, Request::GroupAdd { label: of.label, members: of.members }, json)
        }
        Command::Group(Group::Remove(of)) => {
            ask(&of.control, Request::GroupRemove { label: of.label, members: of.members }, json)
        }
        Command::Log(log) => {
            let request = |levels| Request::SetLog { levels: tributary::log::LogLevels::to_string(&levels) };
            ask(&log.control, log.levels.map_or(Request::Log, request), json)
        }
        Command::Store(of) => match of.command {
            None => ask(&of.control, Request::Store, json),
            Some(command) => {
                let (control, request) = command.into_request();
                ask(&control, request, json)
            }
        },
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
        Command::Completions(completions) => {
            arguments::print_completions(completions.shell, declared());
            Ok(())
        }
        Command::Man(man) => simple::man(&man.folder),
    }
}
