//! Echo requests through whole networks in virtual time: ICN ping (RFC 9508) and traceroute (RFC 9507).
#![allow(clippy::unwrap_used, reason = "a test: a failed unwrap is a failed test")]
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

use tributary_content::{MemoryObject, Name, SigningKey};
use tributary_core::{
    Duration, FaceId, Rate,
    event::{EchoOutcome, EchoReport, Event},
    link::{LinkChange, LinkConfig, LinkState},
};
use tributary_ndn::{Config, NdnNode, router::labels::LabelScheme};
use tributary_sim::{Connection, Network, NodeIndex};
use tributary_transport::{Echoes, Endpoint, FaceOptions, echo::Echo};

/// Consumer 0 with links of 5 ms to routers 1 and 2, each with a producer at 10 and 20 ms: 3 and 4.
struct Diamond {
    net: Network<NdnNode>,
    nodes: Vec<NodeIndex>,
    links: Vec<Connection>,
    reported: Rc<RefCell<Vec<EchoReport>>>,
}

impl Diamond {
    fn new(set: impl Fn(usize, &mut Config)) -> Diamond {
        let mut net = Network::new(1);
        let nodes: Vec<NodeIndex> = (0..5)
            .map(|at| {
                let mut config = Config::new(&format!("node-{at}"), at as u64 + 1);
                set(at, &mut config);
                net.add_node(NdnNode::new(config))
            })
            .collect();
        let reported: Rc<RefCell<Vec<EchoReport>>> = Rc::default();
        let heard = Rc::clone(&reported);
        net.set_observer(move |_, _, event| {
            if let Event::Echo(report) = event {
                heard.borrow_mut().push(report.clone());
            }
        });
        let mut diamond = Diamond { net, nodes, links: Vec::new(), reported };
        for (from, to, millis) in [(0, 1, 5), (0, 2, 5), (1, 3, 10), (2, 4, 20)] {
            let wire = LinkConfig::new(Rate::from_mbps(100), Duration::from_millis(millis));
            let (near, far) = (FaceId(to as u32), FaceId(9));
            let ends = ((diamond.nodes[from], near), (diamond.nodes[to], far));
            diamond.links.push(diamond.net.connect(ends.0, ends.1, wire.clone(), wire));
            for (node, face) in [ends.0, ends.1] {
                let options = FaceOptions { mtu: 1472, rate: None };
                diamond.net.with(node, |node, now| node.add_face(now, face, options));
            }
            diamond.net.with(ends.0.0, |node, _| node.router_mut().add_route(&name("/lab"), near, from as u64));
        }
        for producer in [3, 4] {
            let key = SigningKey::from_secret(&[1; 32]);
            let object = MemoryObject::new(name("/lab/file"), vec![7; 3000], &key).unwrap();
            diamond.net.with(diamond.nodes[producer], |node, now| node.publish(now, Box::new(object)));
        }
        diamond
    }
    /// Sends one and waits until it ends.
    fn echo(&mut self, target: &str, path: Option<&str>, hop: Option<u8>) -> EchoReport {
        let consumer = self.nodes[0];
        let echo = Echo { target: name(target), path: path.map(Into::into), hop, patience: Duration::from_secs(1) };
        let id = self.net.with(consumer, |node, now| node.echo(now, &echo)).unwrap();
        let until = self.net.now() + Duration::from_millis(1_100);
        self.net.run_until(until);
        let reported = self.reported.take();
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(reported[0].echo, id);
        reported[0].clone()
    }
}
fn name(text: &str) -> Name {
    text.parse().unwrap()
}
fn application(producer: usize) -> EchoOutcome {
    EchoOutcome::Application(format!("node-{producer}"))
}

#[test]
fn pings_find_every_path_and_follow_the_one_that_is_named() {
    for scheme in [LabelScheme::Random, LabelScheme::Huffman] {
        let mut diamond = Diamond::new(|_, config| config.labels = scheme);
        let found: Vec<EchoReport> = (0..4).map(|_| diamond.echo("/lab/file", None, None)).collect();
        let paths: BTreeSet<&str> = found.iter().filter_map(|report| report.path.as_deref()).collect();
        assert_eq!(paths.len(), 2, "both paths are found: {found:?}");
        for known in &found[..2] {
            let path = known.path.as_deref();
            for _ in 0..3 {
                let report = diamond.echo("/lab/file", path, None);
                assert_eq!((&report.outcome, report.path.as_deref()), (&known.outcome, path));
                assert!(!report.path_failed);
                let expected = if report.outcome == application(3) { 30 } else { 50 };
                let millis = report.rtt.as_secs_f64() * 1e3;
                assert!((f64::from(expected)..f64::from(expected) + 1.0).contains(&millis), "{report:?}");
            }
        }
        assert_eq!(found[0].hops, if scheme == LabelScheme::Random { 2 } else { found[0].hops });
    }
}

#[test]
fn traceroutes_name_each_neighbour_on_the_path_and_end_at_the_target() {
    let mut diamond = Diamond::new(|_, _| {});
    for _ in 0..2 {
        let path = diamond.echo("/lab/file", None, None);
        let (router, producer) = if path.outcome == application(3) { (1, 3) } else { (2, 4) };
        let path = path.path;
        let first = diamond.echo("/lab/file", path.as_deref(), Some(1));
        assert_eq!(first.outcome, EchoOutcome::HopLimit(format!("node-{router}")));
        assert!((10.0..11.0).contains(&(first.rtt.as_secs_f64() * 1e3)), "{first:?}");
        for hop in [2, 3, 64] {
            assert_eq!(diamond.echo("/lab/file", path.as_deref(), Some(hop)).outcome, application(producer));
        }
    }
}

#[test]
fn a_cache_answers_for_what_it_has_and_a_forwarder_for_itself() {
    let mut diamond = Diamond::new(|_, _| {});
    let segment = "/lab/file/v=1/seg=0";
    assert!(matches!(diamond.echo(segment, None, None).outcome, EchoOutcome::Application(_)));
    // A fetch leaves the segments in the caches of the routers and of the consumer's node, which is emptied again.
    let opener = tributary_content::MemoryOpener::new();
    let fetch = tributary_transport::Fetch {
        name: name("/lab/file"),
        opener: Box::new(opener),
        rate_limit: None,
        paths_per_source: 4,
        metric: tributary_transport::PathMetric::Hops,
        patience: Some(Duration::from_secs(5)),
    };
    diamond.net.with(diamond.nodes[0], |node, now| node.fetch(now, fetch));
    let until = diamond.net.now() + Duration::from_secs(2);
    diamond.net.run_until(until);
    diamond.net.with(diamond.nodes[0], |node, _| node.router_mut().erase_cache(&Name::root(), 1000));
    let outcomes: Vec<EchoOutcome> = (0..4).map(|_| diamond.echo(segment, None, None).outcome).collect();
    let by_cache =
        |outcome: &EchoOutcome| matches!(outcome, EchoOutcome::Object(node) if node == "node-1" || node == "node-2");
    assert!(outcomes.iter().any(by_cache), "{outcomes:?}");
    diamond.net.with(diamond.nodes[0], |node, _| node.router_mut().add_route(&name("/node-2"), FaceId(2), 0));
    assert_eq!(diamond.echo("/node-2", None, None).outcome, EchoOutcome::Forwarder("node-2".into()));
    assert_eq!(diamond.echo("/node-0", None, None).outcome, EchoOutcome::Forwarder("node-0".into()));
}

#[test]
fn names_without_a_route_are_refused_at_once_and_silence_ends_with_patience() {
    let mut diamond = Diamond::new(|_, _| {});
    let refused = diamond.echo("/nowhere", None, None);
    assert!(matches!(refused.outcome, EchoOutcome::Unreachable(_)) && refused.rtt < Duration::from_millis(1));
    // The routers know no way to it: their Nack comes back.
    diamond.net.with(diamond.nodes[0], |node, _| node.router_mut().add_route(&name("/else"), FaceId(1), 0));
    let refused = diamond.echo("/else", None, None);
    assert!(matches!(refused.outcome, EchoOutcome::Unreachable(_)), "{refused:?}");
    let silent = diamond.echo("/lab/file", Some("01234567>89abcdef"), None);
    assert!(silent.path_failed && matches!(silent.outcome, EchoOutcome::Application(_)), "by name: {silent:?}");
    for link in diamond.links.clone() {
        diamond.net.change(link, LinkChange::State(LinkState::Down));
    }
    let silent = diamond.echo("/lab/file", None, None);
    assert_eq!((silent.outcome, silent.rtt), (EchoOutcome::Silence, Duration::from_secs(1)));
}

#[test]
fn nodes_that_answer_no_echoes_are_passed_by() {
    let mut diamond = Diamond::new(|at, config| {
        if at == 1 || at == 2 {
            (config.echoes_per_second, config.path_tags) = (0, false);
        }
    });
    assert_eq!(diamond.echo("/lab/file", None, Some(1)).outcome, EchoOutcome::Silence);
    let reached = diamond.echo("/lab/file", None, Some(2));
    assert!(matches!(reached.outcome, EchoOutcome::Application(_)));
    assert_eq!(reached.hops, 1, "the tag covers the consumer's side up to the forwarder that knows none");
    let path = reached.path.as_deref();
    for _ in 0..3 {
        assert_eq!(diamond.echo("/lab/file", path, None).outcome, reached.outcome);
    }
}

#[test]
fn one_neighbour_has_so_many_answers_a_second_and_others_have_their_own() {
    let mut diamond = Diamond::new(|_, config| config.echoes_per_second = 10);
    let consumer = diamond.nodes[0];
    let echo = Echo { target: name("/lab/file"), path: None, hop: Some(1), patience: Duration::from_secs(1) };
    for _ in 0..60 {
        diamond.net.with(consumer, |node, now| node.echo(now, &echo)).unwrap();
    }
    let until = diamond.net.now() + Duration::from_millis(1_500);
    diamond.net.run_until(until);
    let reported = diamond.reported.take();
    let answers = reported.iter().filter(|report| matches!(report.outcome, EchoOutcome::HopLimit(_)));
    assert_eq!(answers.count(), 20, "ten of each of the two routers");
    let dropped = |at: usize| diamond.net.node(diamond.nodes[at]).router().stats.dropped["too many echo requests"];
    assert_eq!((dropped(1), dropped(2)), (20, 20));
}
