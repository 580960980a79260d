//! Every role of the family, alone and together, under the conformance suite.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test: a failed unwrap is a failed test")]
use tributary_core::Time;
use tributary_psi::{Config, PsiNode};
use tributary_testkit::{
    conformance::{Conformance, add_faces, fetch, publish, run},
    trust::{self, Part},
};

fn everything(node: &mut PsiNode, now: Time) {
    publish(node, now);
    fetch(node, now);
}

fn examine(label: &'static str, set: fn(&mut Config), kick: fn(&mut PsiNode, Time)) {
    let make = move || {
        let mut config = Config::new(label, 7);
        set(&mut config);
        let mut node = PsiNode::new(config);
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
    examine("resolver", |config| config.resolver = true, |_, _| {});
}
#[test]
fn a_topology_manager_conforms() {
    examine("manager", |config| config.topology_manager = Some(1), |_, _| {});
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
    let set = |config: &mut Config| {
        config.router = true;
        config.resolver = true;
        config.topology_manager = Some(1);
    };
    examine("everything", set, everything);
}

#[test]
fn it_believes_whom_all_families_believe() {
    trust::run(
        |part, label, seed| {
            let mut config = Config::new(label, seed);
            (config.router, config.resolver) = (part == Part::Router, part == Part::Router);
            config.topology_manager = (part == Part::Router).then_some(1);
            PsiNode::new(config)
        },
        |_, _, _| {},
    );
}
