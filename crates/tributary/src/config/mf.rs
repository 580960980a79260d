//! The section [mf] of a config file.
use tributary_core::{ByteCount, Duration};
use tributary_mf::{
    Config,
    config::{HolRelief, Rebinding},
    wire::Reliability,
};

use super::{
    reader::Section,
    sections::{KEY_HINT, duration, key_from_hex, size},
};

/// Reads the weight of the access by a face.
pub(super) fn weight(section: &Section<'_>) -> Option<u8> {
    section.integer("weight", 1..=255).map(|weight| weight as u8)
}
/// Reads the section into `mf`.
pub(super) fn settings(section: &Section<'_>, mf: &mut Config) {
    let set = |value: Option<Duration>, field: &mut Duration| *field = value.unwrap_or(*field);
    let millisecond = Duration::from_millis(1);
    let day = Duration::from_secs(86_400);
    if let Some(key) = section.read("network_key", KEY_HINT, key_from_hex) {
        mf.network_key = key;
    }
    set(duration(section, "hello_interval", millisecond * 10, Duration::from_secs(60)), &mut mf.hello_interval);
    set(duration(section, "search_interval", millisecond * 5, Duration::from_secs(60)), &mut mf.search_interval);
    set(duration(section, "binding_lifetime", Duration::from_secs(1), day), &mut mf.binding_lifetime);
    if let Some(replicas) = section.integer("replicas", 1..=16) {
        mf.replicas = replicas as u8;
    }
    if let Some(packets) = section.integer("buffer_packets", 64..=1_000_000) {
        mf.buffer_packets = packets as u32;
    }
    let reliefs = [("windows", HolRelief::Windows), ("proxy", HolRelief::Proxy), ("off", HolRelief::Off)];
    mf.relief = section.choice("blocking_relief", &reliefs).unwrap_or(mf.relief);
    if let Some(bytes) = size(section, "cache_size", 0, 1 << 40) {
        mf.cache_bytes = ByteCount(bytes);
    }
    if let Some(bytes) = size(section, "store_size", 0, 1 << 44) {
        mf.proxy.enabled = bytes > 0;
        mf.proxy.capacity = ByteCount(bytes);
        mf.proxy.flow_capacity = mf.proxy.flow_capacity.min(mf.proxy.capacity);
    }
    if let Some(bytes) = size(section, "store_flow_size", 0, 1 << 44) {
        mf.proxy.flow_capacity = ByteCount(bytes);
    }
    set(duration(section, "store_lifetime", Duration::from_secs(1), day * 365), &mut mf.proxy.lifetime);
    set(duration(section, "storage_timer", millisecond * 10, day), &mut mf.proxy.timer);
    let ways = [("watch", Rebinding::Watch), ("timer", Rebinding::Timer), ("never", Rebinding::Never)];
    mf.proxy.rebinding = section.choice("rebinding", &ways).unwrap_or(mf.proxy.rebinding);
    if let Some(bytes) = size(section, "chunk_size", 1 << 10, 8 << 20) {
        mf.transfer.chunk_bytes = bytes as u32;
    }
    let kinds = [("nack", Reliability::Nack), ("ack", Reliability::Ack), ("dont-care", Reliability::DontCare)];
    mf.transfer.reliability = section.choice("reliability", &kinds).unwrap_or(mf.transfer.reliability);
    set(duration(section, "nack_timeout", millisecond * 50, day), &mut mf.transfer.nack_timeout);
    let delegations = [("access-router", true), ("off", false)];
    mf.transfer.delegate = section.choice("delegation", &delegations).unwrap_or(mf.transfer.delegate);
    // The relations between fields; each field by itself is in range here.
    if let Err(error) = mf.check() {
        let message = format!("'{}' is out of range", error.field);
        section.problem(section.span_of(error.field), message, format!("it must be {}", error.range));
    }
}
