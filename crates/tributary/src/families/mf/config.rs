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
        values::{duration, size},
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
    if !section.has("guids") {
        section.missing("guids", "list the devices that may look it up; `trib status` shows the GUID of each");
    }
    if let Some(family) = foreign {
        let hint = "only names of families \"mf\" and \"ndn\" have readers; remove the section".to_string();
        section.problem(section.span_of("guids"), format!("family {family} has no [[readers]]"), hint);
    }
    let devices: BTreeSet<Guid> = guids(&section, texts.into_iter().flatten()).into_iter().collect();
    if devices.len() > READERS_MAX {
        let message = format!("{} devices are listed", devices.len());
        section.problem(section.span_of("guids"), message, format!("list {READERS_MAX} at most"));
    }
    let is_known = rules.insert(name, devices).is_some();
    if is_known {
        let hint = "list all devices in one [[readers]]".to_string();
        section.problem(section.span_of("name"), "this name has readers already".into(), hint);
    }
    section.finish();
}

/// Reads a section [[group]]: the members of a group that the node owns. It is a mistake in the config of a `foreign`
/// family.
pub(super) fn group(section: Section<'_>, foreign: Option<Family>, groups: &mut BTreeMap<String, GroupConfig>) {
    let label = section.text("label");
    let members = guids(&section, section.texts("members").into_iter().flatten());
    let proxy = guids(&section, section.text("proxy").into_iter()).pop();
    for key in ["label", "members"].into_iter().filter(|key| !section.has(key)) {
        section.missing(key, "write a label such as \"sites\", and the GUIDs of its devices and groups");
    }
    if let Some(family) = foreign {
        let hint = "only nodes of family \"mf\" own groups; remove the section".to_string();
        section.problem(section.span_of("label"), format!("family {family} has no [[group]]"), hint);
    }
    if members.len() > MEMBERS_MAX {
        let message = format!("{} members are listed", members.len());
        let hint = format!("list {MEMBERS_MAX} at most; larger groups are made of groups");
        section.problem(section.span_of("members"), message, hint);
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
            Err(()) => section.problem(text.span, format!("'{}' is no GUID", text.value), GUID_HINT.into()),
        }
    }
    guids
}

const GUID_HINT: &str = "write the 40 hex digits that `trib status` shows on the device";

/// Reads the section into `mf`.
pub(super) fn settings(section: &Section<'_>, mf: &mut Config) {
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
    let (millisecond, day) = (Duration::from_millis(1), Duration::from_secs(86_400));
    if section.choice("power", &[("mains", false), ("battery", true)]) == Some(true) {
        mf.save_battery();
    }
    set(duration(section, "idle_interval", millisecond * 10, Duration::from_secs(60)), &mut mf.idle_interval);
    set(duration(section, "search_interval_max", millisecond * 5, day), &mut mf.search_interval_max);
    set(duration(section, "attachment_lifetime", Duration::from_secs(1), day * 30), &mut mf.attachment_lifetime);
    set(duration(section, "hello_interval", millisecond * 10, Duration::from_secs(60)), &mut mf.hello_interval);
    set(duration(section, "search_interval", millisecond * 5, Duration::from_secs(60)), &mut mf.search_interval);
    set(duration(section, "binding_lifetime", Duration::from_secs(1), day), &mut mf.binding_lifetime);
    if let Some(replicas) = section.integer("replicas", 1..=16) {
        mf.replicas = replicas as u8;
    }
    if let Some(records) = section.integer("records_max", 1_000..=100_000_000) {
        mf.records_max = records as u32;
    }
    if let Some(routers) = section.integer("routers_max", 1..=1_000_000) {
        mf.routers_max = routers as u32;
    }
    if let Some(packets) = section.integer("buffer_packets", 64..=1_000_000) {
        mf.buffer_packets = packets as u32;
    }
    let reliefs = [("windows", HolRelief::Windows), ("proxy", HolRelief::Proxy), ("off", HolRelief::Off)];
    mf.relief = section.choice("blocking_relief", &reliefs).unwrap_or(mf.relief);
    if let Some(bytes) = size(section, "cache_size", 0, 1 << 40) {
        mf.cache_bytes = ByteCount(bytes);
    }
    if let Some(requests) = section.integer("pending_requests_max", 0..=1_000_000) {
        mf.pending_requests_max = requests as u32;
    }
    set(duration(section, "pending_lifetime", millisecond * 10, Duration::from_secs(600)), &mut mf.pending_lifetime);
    let forwardings = [("cut-through", Forwarding::CutThrough), ("store-and-forward", Forwarding::StoreAndForward)];
    mf.hop.forwarding = section.choice("forwarding", &forwardings).unwrap_or(mf.hop.forwarding);
    if let Some(packets) = section.integer("csyn_packets", 1..=u64::from(u16::MAX)) {
        mf.hop.csyn_packets = packets as u16;
    }
    if let Some(bytes) = size(section, "partial_size", 0, 1 << 40) {
        mf.hop.partial_bytes_max = ByteCount(bytes);
    }
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
        section.problem(section.span_of(key), format!("'{key}' is out of range"), format!("it must be {range}"));
    }
}
/// Settings of the storage proxy.
fn storage(section: &Section<'_>, proxy: &mut ProxyConfig) {
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
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
                let hint = "it must be at most store_size".to_string();
                section.problem(section.span_of(key), format!("'{key}' is out of range"), hint);
            }
        }
    }
    if let Some(percent) = section.integer("depleted_percent", 0..=100) {
        proxy.depleted_percent = percent as u8;
    }
    set(duration(section, "report_delay", millisecond, Duration::from_secs(60)), &mut proxy.report_delay);
    set(duration(section, "store_lifetime", Duration::from_secs(1), day * 365), &mut proxy.lifetime);
    set(duration(section, "storage_timer", millisecond * 10, day), &mut proxy.timer);
    let custody = [("disk", CustodyUntil::Disk), ("hop", CustodyUntil::Hop)];
    proxy.custody = section.choice("custody", &custody).unwrap_or(proxy.custody);
    if let Some(objects) = section.integer("custody_objects", 1..=100_000) {
        proxy.custody_objects = objects as u32;
    }
    if let Some(bytes) = size(section, "custody_size", 1 << 10, 1 << 40) {
        proxy.custody_bytes = ByteCount(bytes);
    }
    let custody_timeouts =
        [("custody_timeout", &mut proxy.custody_timeout), ("custody_timeout_max", &mut proxy.custody_timeout_max)];
    for (key, timeout) in custody_timeouts {
        set(duration(section, key, millisecond * 10, day), timeout);
    }
    let ways = [("watch", Rebinding::Watch), ("timer", Rebinding::Timer), ("never", Rebinding::Never)];
    proxy.rebinding = section.choice("rebinding", &ways).unwrap_or(proxy.rebinding);
}
/// How objects are sent and fetched.
fn transfers(section: &Section<'_>, transfer: &mut EndConfig) {
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
    if let Some(bytes) = size(section, "chunk_size", u64::from(*CHUNK_BYTES.start()), u64::from(*CHUNK_BYTES.end())) {
        transfer.chunk_bytes = bytes as u32;
    }
    transfer.reliability = section.choice("reliability", &Reliability::ALL).unwrap_or(transfer.reliability);
    set(duration(section, "nack_timeout", *NACK_TIMEOUT.start(), *NACK_TIMEOUT.end()), &mut transfer.nack_timeout);
    let day = Duration::from_secs(86_400);
    set(duration(section, "message_lifetime", Duration::from_secs(1), day * 49), &mut transfer.message_lifetime);
    if let Some(chunks) = section.integer("window_chunks", 1..=u64::from(transfer.window_chunks_max)) {
        transfer.window_chunks = chunks as u16;
    }
    if let Some(bytes) = size(section, "receive_buffer_size", 1 << 20, 1 << 40) {
        transfer.buffer_bytes = ByteCount(bytes);
    }
    if let Some(members) = section.integer("multicast_threshold", 0..=u64::from(u16::MAX)) {
        transfer.multicast_threshold = members as u16;
    }
    let delegations = [("access-router", true), ("off", false)];
    transfer.delegate = section.choice("delegation", &delegations).unwrap_or(transfer.delegate);
}
