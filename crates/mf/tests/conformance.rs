//! Every role of the family, alone and together, under the conformance suite.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]
use tributary_content::MemoryOpener;
use tributary_core::Time;
use tributary_mf::{Config, MfNode};
use tributary_testkit::{
    conformance::{self, Conformance, add_faces, fetch, run},
    trust::{self, Part},
};

fn publish(node: &mut MfNode, now: Time) {
    conformance::publish(node, now);
    node.accept(Box::new(MemoryOpener::new()));
}
fn everything(node: &mut MfNode, now: Time) {
    publish(node, now);
    fetch(node, now);
}

fn examine(label: &'static str, set: fn(&mut Config), kick: fn(&mut MfNode, Time)) {
    let make = move || {
        let mut config = Config::new(label, 7);
        set(&mut config);
        let mut node = MfNode::new(config);
        add_faces(&mut node, Time::ZERO);
        node
    };
    run(make, &Conformance { kick: Some(kick), ..Conformance::default() });
}

#[test]
fn a_router_conforms() {
    examine("router", |config| config.router = true, |_, _| {});
}
#[test]
fn a_resolver_conforms() {
    examine("resolver", |config| (config.router, config.resolver) = (true, true), |_, _| {});
}
#[test]
fn a_sender_conforms() {
    examine("sender", |_| {}, publish);
}
#[test]
fn a_receiver_conforms() {
    examine("receiver", |_| {}, fetch);
}
#[test]
fn all_roles_in_one_node_conform() {
    examine("everything", |config| (config.router, config.resolver) = (true, true), everything);
}

#[test]
fn it_believes_whom_all_families_believe() {
    trust::run(
        |part, label, seed| {
            let mut config = Config::new(label, seed);
            (config.router, config.resolver) = (part == Part::Router, part == Part::Router);
            MfNode::new(config)
        },
        |_, _, _| {},
    );
}
