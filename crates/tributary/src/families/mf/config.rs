//! The section [mf] of a config file.
use std::collections::{BTreeMap, BTreeSet};
use tributary_content::Name;
use tributary_core::{ByteCount, Duration};
use tributary_mf::{
    Config, Forwarding, MEMBERS_MAX, OWN_LABEL_BYTES_MAX, READERS_MAX, Reliability,
    config::{CustodyUntil, EndConfig, GroupConfig, HolRelief, ProxyConfig, Rebinding},
    ids::Guid,
};

use tributary_transport::messaging::{CHUNK_BYTES, NACK_TIMEOUT};

use crate::{
    config::{
        reader::{Located, Section},
        values::{set_duration, set_size, size},
    },
    family::Family,
};

/// Reads the weight of the access by a face.
pub(super) fn weight(section: &Section<'_>) -> Option<u8> {
    section.integer("weight", 1..=255).map(|weight| weight as u8)
}
/// Reads a section [[readers]]: the devices that may look up a name of the node. It is a mistake in the config of a
/// `foreign` family.
pub(super) fn readers(
    section: Section<'_>,
    foreign: Option<Family>,
    rules: &mut BTreeMap<Option<Name>, BTreeSet<Guid>>,
) {
    let name = section.parsed::<Name>("name", "write a name such as \"/lab/plans\", or no name for the node itself");
    let texts = section.texts("guids");
    section.require(&["guids"], "list the devices that may look it up; `trib status` shows the GUID of each");
    if let Some(family) = foreign {
        let hint = "only names of families \"mf\" and \"ndn\" have readers; remove the section";
        section.wrong("guids", format!("family {family} has no [[readers]]"), hint);
    }
    let devices: BTreeSet<Guid> = guids(&section, texts.into_iter().flatten()).into_iter().collect();
    if devices.len() > READERS_MAX {
        section.wrong("guids", format!("{} devices are listed", devices.len()), format!("list {READERS_MAX} at most"));
    }
    let is_known = rules.insert(name, devices).is_some();
    if is_known {
        section.wrong("name", "this name has readers already", "list all devices in one [[readers]]");
    }
    section.finish();
}

/// Reads a section [[group]]: the members of a group that the node owns. It is a mistake in the config of a `foreign`
/// family.
pub(super) fn group(section: Section<'_>, foreign: Option<Family>, groups: &mut BTreeMap<String, GroupConfig>) {
    let label = section.text("label");
    let members = guids(&section, section.texts("members").into_iter().flatten());
    let proxy = guids(&section, section.text("proxy").into_iter()).pop();
    section.require(&["label", "members"], "write a label such as \"sites\", and the GUIDs of its devices and groups");
    if let Some(family) = foreign {
        let hint = "only nodes of family \"mf\" own groups; remove the section";
        section.wrong("label", format!("family {family} has no [[group]]"), hint);
    }
    if members.len() > MEMBERS_MAX {
        let message = format!("{} members are listed", members.len());
        let hint = format!("list {MEMBERS_MAX} at most; larger groups are made of groups");
        section.wrong("members", message, hint);
    }
    if let Some(label) = label {
        let is_legal = (1..=OWN_LABEL_BYTES_MAX).contains(&label.value.len());
        let is_known = groups.insert(label.value.clone(), GroupConfig { members, proxy }).is_some();
        if is_known || !is_legal {
            let hint = format!("give each group a unique label of 1 to {OWN_LABEL_BYTES_MAX} bytes");
            section.problem(label.span, format!("'{}' cannot be its label", label.value), hint);
        }
    }
    section.finish();
}
fn guids(section: &Section<'_>, texts: impl Iterator<Item = Located<String>>) -> Vec<Guid> {
    let mut guids = Vec::new();
    for text in texts {
        match text.value.parse() {
            Ok(guid) => guids.push(guid),
            Err(()) => section.problem(text.span, format!("'{}' is no GUID", text.value), GUID_HINT),
        }
    }
    guids
}

const GUID_HINT: &str = "write the 40 hex digits that `trib status` shows on the device";

/// Reads the section into `mf`.
pub(super) fn settings(section: &Section<'_>, mf: &mut Config) {
    let (millisecond, day) = (Duration::from_millis(1), Duration::from_secs(86_400));
    if section.choice("power", &[("mains", false), ("battery", true)]) == Some(true) {
        mf.save_battery();
    }
    set_duration(section, "idle_interval", (millisecond * 10, Duration::from_secs(60)), &mut mf.idle_interval);
    set_duration(section, "search_interval_max", (millisecond * 5, day), &mut mf.search_interval_max);
    set_duration(section, "attachment_lifetime", (Duration::from_secs(1), day * 30), &mut mf.attachment_lifetime);
    set_duration(section, "hello_interval", (millisecond * 10, Duration::from_secs(60)), &mut mf.hello_interval);
    set_duration(section, "search_interval", (millisecond * 5, Duration::from_secs(60)), &mut mf.search_interval);
    set_duration(section, "binding_lifetime", (Duration::from_secs(1), day), &mut mf.binding_lifetime);
    section.set_integer("replicas", 1..=16, &mut mf.replicas);
    section.set_integer("records_max", 1_000..=100_000_000, &mut mf.records_max);
    section.set_integer("routers_max", 1..=1_000_000, &mut mf.routers_max);
    section.set_integer("buffer_packets", 64..=1_000_000, &mut mf.buffer_packets);
    let reliefs = [("windows", HolRelief::Windows), ("proxy", HolRelief::Proxy), ("off", HolRelief::Off)];
    mf.relief = section.choice("blocking_relief", &reliefs).unwrap_or(mf.relief);
    set_size(section, "cache_size", (0, 1 << 40), &mut mf.cache_bytes.0);
    section.set_integer("pending_requests_max", 0..=1_000_000, &mut mf.pending_requests_max);
    set_duration(section, "pending_lifetime", (millisecond * 10, Duration::from_secs(600)), &mut mf.pending_lifetime);
    let forwardings = [("cut-through", Forwarding::CutThrough), ("store-and-forward", Forwarding::StoreAndForward)];
    mf.hop.forwarding = section.choice("forwarding", &forwardings).unwrap_or(mf.hop.forwarding);
    section.set_integer("csyn_packets", 1..=u64::from(u16::MAX), &mut mf.hop.csyn_packets);
    set_size(section, "partial_size", (0, 1 << 40), &mut mf.hop.partial_bytes_max.0);
    mf.store_ratio = section.number("store_ratio", 1.0..=1_000.0).unwrap_or(mf.store_ratio);
    storage(section, &mut mf.proxy);
    transfers(section, &mut mf.transfer);
    // The relations between fields; each single field is in range here.
    if let Err(error) = mf.check() {
        let (key, range) = match error.field {
            "flow_capacity" => ("store_flow_size", "at most store_size"),
            "chunk_bytes" => ("chunk_size", error.range),
            field => (field, error.range),
        };
        section.wrong(key, format!("'{key}' is out of range"), format!("it must be {range}"));
    }
}
/// Settings of the storage proxy.
fn storage(section: &Section<'_>, proxy: &mut ProxyConfig) {
    let (millisecond, day) = (Duration::from_millis(1), Duration::from_secs(86_400));
    if let Some(bytes) = size(section, "store_size", 0, 1 << 44) {
        *proxy = ProxyConfig::with_capacity(ByteCount(bytes));
    }
    if let Some(bytes) = size(section, "store_flow_size", 0, 1 << 44) {
        proxy.flow_capacity = ByteCount(bytes);
        // Allowing one flow more than half allows its source as much.
        proxy.source_capacity = proxy.source_capacity.max(proxy.flow_capacity);
        proxy.destination_capacity = proxy.destination_capacity.max(proxy.flow_capacity);
    }
    for (key, share) in
        [("store_source_size", &mut proxy.source_capacity), ("store_receiver_size", &mut proxy.destination_capacity)]
    {
        if let Some(bytes) = size(section, key, 0, 1 << 44) {
            *share = ByteCount(bytes);
            if *share > proxy.capacity {
                section.wrong(key, format!("'{key}' is out of range"), "it must be at most store_size");
            }
        }
    }
    section.set_integer("depleted_percent", 0..=100, &mut proxy.depleted_percent);
    set_duration(section, "report_delay", (millisecond, Duration::from_secs(60)), &mut proxy.report_delay);
    set_duration(section, "store_lifetime", (Duration::from_secs(1), day * 365), &mut proxy.lifetime);
    set_duration(section, "storage_timer", (millisecond * 10, day), &mut proxy.timer);
    let custody = [("disk", CustodyUntil::Disk), ("hop", CustodyUntil::Hop)];
    proxy.custody = section.choice("custody", &custody).unwrap_or(proxy.custody);
    section.set_integer("custody_objects", 1..=100_000, &mut proxy.custody_objects);
    set_size(section, "custody_size", (1 << 10, 1 << 40), &mut proxy.custody_bytes.0);
    set_duration(section, "custody_timeout", (millisecond * 10, day), &mut proxy.custody_timeout);
    set_duration(section, "custody_timeout_max", (millisecond * 10, day), &mut proxy.custody_timeout_max);
    let ways = [("watch", Rebinding::Watch), ("timer", Rebinding::Timer), ("never", Rebinding::Never)];
    proxy.rebinding = section.choice("rebinding", &ways).unwrap_or(proxy.rebinding);
}
/// How objects are sent and fetched.
fn transfers(section: &Section<'_>, transfer: &mut EndConfig) {
    set_size(
        section,
        "chunk_size",
        (u64::from(*CHUNK_BYTES.start()), u64::from(*CHUNK_BYTES.end())),
        &mut transfer.chunk_bytes,
    );
    transfer.reliability = section.choice("reliability", &Reliability::ALL).unwrap_or(transfer.reliability);
    set_duration(section, "nack_timeout", (*NACK_TIMEOUT.start(), *NACK_TIMEOUT.end()), &mut transfer.nack_timeout);
    let day = Duration::from_secs(86_400);
    set_duration(section, "message_lifetime", (Duration::from_secs(1), day * 49), &mut transfer.message_lifetime);
    section.set_integer("window_chunks", 1..=u64::from(transfer.window_chunks_max), &mut transfer.window_chunks);
    set_size(section, "receive_buffer_size", (1 << 20, 1 << 40), &mut transfer.buffer_bytes.0);
    section.set_integer("multicast_threshold", 0..=u64::from(u16::MAX), &mut transfer.multicast_threshold);
    let delegations = [("access-router", true), ("off", false)];
    transfer.delegate = section.choice("delegation", &delegations).unwrap_or(transfer.delegate);
}
