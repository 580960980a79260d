//! Rivals on the links of a scenario: what they take for the download that one of ours takes there.
use std::collections::BTreeMap;
use tributary::simulation::{Fault, Scenario};
use tributary_core::{
    Time,
    link::{LinkChange, LinkState},
};

use crate::rivals::{Content, DownloadConfig, Plan, Rival, outcome, run_download};

/// The rivals that stand in the tables: the commonest today, and the one that loss does not fool.
pub const RIVALS: [Rival; 2] = [Rival::TcpCubic, Rival::QuicBbr];

/// Seconds that a rival takes for `bytes` bytes from `sources` to `receiver`, from `start` on: over one connection from
/// one source, as a download manager does from several. Links, queues, congestion and faults are those of the scenario;
/// a publisher that stops serving is a server that cannot be reached, because a connection that stays open and silent is
/// the same to its client. `None` if bytes were wrong or did not all arrive.
///
/// # Panics
/// If a name in the scenario means nothing.
pub fn seconds(
    rival: Rival,
    scenario: &Scenario,
    sources: &[&str],
    receiver: &str,
    bytes: u64,
    start: Time,
) -> Option<f64> {
    let content = Content { seed: scenario.seed, bytes };
    let mut plan = Plan::new();
    let mut nodes = BTreeMap::new();
    let servers: Vec<_> = sources.iter().map(|_| plan.server(rival, content)).collect();
    nodes.extend(sources.iter().copied().zip(servers.iter().copied()));
    let config = if sources.len() == 1 { DownloadConfig::single() } else { DownloadConfig::default() };
    let client = plan.client(rival, content, &servers, DownloadConfig { start, ..config });
    nodes.insert(receiver, client);
    for node in &scenario.nodes {
        nodes.entry(&node.label).or_insert_with(|| plan.router());
    }
    for link in &scenario.links {
        let [a, b] = [&link.ends[0], &link.ends[1]].map(|end| nodes[end.as_str()]);
        plan.connect(a, b, link.forward.clone(), link.backward.clone());
    }
    let (mut net, connections) = plan.build(scenario.seed);
    for planned in &scenario.faults {
        let (label, state) = match &planned.fault {
            Fault::StopServing { node } => (node, LinkState::Down),
            Fault::ServeAgain { node } => (node, LinkState::Up),
            other => panic!("no rival is compared under {other:?}"),
        };
        for (link, connection) in scenario.links.iter().zip(&connections) {
            if link.ends.contains(label) {
                net.change_at(planned.at, *connection, LinkChange::State(state));
            }
        }
    }
    run_download(&mut net, client, scenario.limit);
    let outcome = outcome(&net, client, &servers);
    outcome.seconds.filter(|_| outcome.bytes == bytes && outcome.wrong_bytes == 0)
}
