//! The section [psi] of a config file.
use tributary_core::Duration;
use tributary_psi::Config;

use crate::config::{
    reader::{Scope, Section},
    values::{set_duration, set_size},
};

const LOCATION_HINT: &str = "write latitude and longitude in degrees, such as \"37.98, 23.73\"";

/// Reads the section into `psi`.
pub(super) fn read(section: &Section<'_>, psi: &mut Config, scope: Scope) {
    psi.location = section.parsed("location", LOCATION_HINT).or(psi.location);
    set_size(section, "cache_size", (0, 1 << 40), &mut psi.cache_bytes.0);
    if let Some(policy) = section.choice("cache_policy", &CACHE_POLICIES) {
        psi.cache_policy = policy.into();
    }
    if let Some(kinds) = section.choices("fid_kinds", &FID_KINDS) {
        psi.fid_kinds = kinds.into_iter().map(|kind| kind.value.into()).collect();
    }
    let short = (Duration::from_millis(10), Duration::from_secs(60));
    set_duration(section, "hello_interval", short, &mut psi.hello_interval);
    set_duration(section, "pending_lifetime", short, &mut psi.pending_lifetime);
    set_duration(section, "lease", (Duration::from_secs(1), Duration::from_secs(86_400)), &mut psi.lease);
    section.set_integer("replicas", 1..=8, &mut psi.replicas);
    let limits = &mut psi.limits;
    for (key, limit) in [
        ("records_max", &mut limits.records_max),
        ("children_max", &mut limits.children_max),
        ("publishers_max", &mut limits.publishers_max),
        ("subscriptions_max", &mut limits.subscriptions_max),
        ("scope_subscribers_max", &mut limits.scope_subscribers_max),
        ("requests_max", &mut limits.requests_max),
        ("clients_max", &mut limits.clients_max),
        ("wishes_max", &mut limits.wishes_max),
        ("transfers_max", &mut limits.transfers_max),
        ("nodes_max", &mut limits.nodes_max),
        ("links_max", &mut limits.links_max),
        ("pending_packets_max", &mut limits.pending_packets_max),
    ] {
        section.set_integer(key, 1..=100_000_000, limit);
    }
    if let Some(priority) = section.integer("topology_manager_priority", 0..=255) {
        if psi.topology_manager.is_some() {
            psi.topology_manager = Some(priority as u8);
        } else if scope == Scope::Node {
            let hint = "add \"topology-manager\" to roles of [node], or remove this line";
            let message = "'topology_manager_priority' is set, but the node is no topology manager";
            section.wrong("topology_manager_priority", message, hint);
        }
    }
}

const CACHE_POLICIES: [(&str, &str); 4] = [
    ("object-oriented", "object-oriented"),
    ("object-oriented-strict", "object-oriented-strict"),
    ("lru", "lru"),
    ("fifo", "fifo"),
];
const FID_KINDS: [(&str, &str); 3] = [("bloom", "bloom"), ("bitmap", "bitmap"), ("list", "list")];
