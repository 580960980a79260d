//! The status datasets.
use alloc::{format, vec::Vec};

use tributary_content::Name;
use tributary_core::Time;

use crate::{
    router::{Router, face::Face, rib::Route},
    wire::{
        control::types as control,
        dataset::{CHANNEL, ENTRY, FaceEntry, FaceFilter, RECORD},
        tlv::Writer,
        types,
    },
};

impl Router {
    /// The content of a dataset; `None` for an unknown name.
    pub(super) fn dataset(&self, module: &[u8], verb: &[u8]) -> Option<Vec<u8>> {
        let now = self.now;
        let mut out = Vec::new();
        match (module, verb) {
            (b"status", b"general") => self.append_general_status(&mut out),
            (b"faces", b"channels") => {
                for uri in &self.management.channels {
                    out.put_nested(CHANNEL, |out| out.put_element(control::LOCAL_URI, uri.as_bytes()));
                }
            }
            (b"faces", b"list") => self.face_entries().iter().for_each(|entry| entry.append(&mut out)),
            (b"fib", b"list") => {
                for entry in self.fib.iter() {
                    append_entry(&entry.prefix, &mut out, |out| {
                        for hop in &entry.next_hops {
                            out.put_nested(RECORD, |out| {
                                out.put_integer(control::FACE_ID, u64::from(hop.face.0));
                                out.put_integer(control::COST, hop.cost);
                            });
                        }
                    });
                }
            }
            (b"rib", b"list") => {
                for (prefix, routes) in self.rib.iter() {
                    append_entry(prefix, &mut out, |out| {
                        routes.iter().for_each(|route| out.put_nested(RECORD, |out| append_route(now, route, out)));
                    });
                }
            }
            (b"strategy-choice", b"list") => {
                for (prefix, strategy) in self.strategies() {
                    let name: Option<Name> = format!("/localhost/nfd/strategy/{strategy}/v=1").parse().ok();
                    let Some(name) = name else { continue };
                    append_entry(prefix, &mut out, |out| {
                        out.put_nested(control::STRATEGY, |out| out.put_element(types::NAME, name.as_tlv()));
                    });
                }
            }
            (b"cs", b"info") => {
                let (hits, misses) = self.cs.hits_and_misses;
                out.put_nested(ENTRY, |out| {
                    out.put_integer(control::CAPACITY, self.cs.limits.packets_max as u64);
                    out.put_integer(control::FLAGS, self.cs.switches.flags());
                    out.put_integer(135, self.cs.len() as u64);
                    out.put_integer(129, hits);
                    out.put_integer(130, misses);
                });
            }
            _ => return None,
        }
        Some(out)
    }
    /// Content of `faces/query`.
    pub(super) fn faces_that_fit(&self, filter: &FaceFilter) -> Vec<u8> {
        let mut out = Vec::new();
        self.face_entries().iter().filter(|entry| filter.fits(entry)).for_each(|entry| entry.append(&mut out));
        out
    }
    fn append_general_status(&self, out: &mut Vec<u8>) {
        let (fib, pit) = (self.fib.len() as u64, self.pit.len() as u64);
        out.put_element(128, concat!("tributary ", env!("CARGO_PKG_VERSION")).as_bytes());
        // Milliseconds since 1970 when it started, and now.
        out.put_integer(129, self.config.epoch.as_millis() as u64);
        out.put_integer(130, (self.config.epoch + self.now.since(Time::ZERO)).as_millis() as u64);
        // This forwarder has no name tree and measurements: its FIB entries replace them.
        for (kind, entries) in [(131, fib + pit), (132, fib), (133, pit), (134, 0), (135, self.cs.len() as u64)] {
            out.put_integer(kind, entries);
        }
        self.stats.counters.append(out);
        out.put_integer(153, self.stats.satisfied_and_not.0);
        out.put_integer(154, self.stats.satisfied_and_not.1);
    }
    fn face_entries(&self) -> Vec<FaceEntry> {
        self.faces.values().map(entry_of).collect()
    }
}

/// Appends an entry about a prefix; `rest` appends what follows the name.
fn append_entry(prefix: &Name, out: &mut Vec<u8>, rest: impl FnOnce(&mut Vec<u8>)) {
    out.put_nested(ENTRY, |out| {
        out.put_element(types::NAME, prefix.as_tlv());
        rest(out);
    });
}
fn append_route(now: Time, route: &Route, out: &mut Vec<u8>) {
    out.put_integer(control::FACE_ID, u64::from(route.face.0));
    out.put_integer(control::ORIGIN, route.origin);
    out.put_integer(control::COST, route.cost);
    out.put_integer(control::FLAGS, route.flags);
    if let Some(expires) = route.expires {
        out.put_integer(control::EXPIRATION_PERIOD, expires.since(now).as_millis() as u64);
    }
}
/// A face in the management protocol.
pub(super) fn entry_of(face: &Face) -> FaceEntry {
    FaceEntry {
        face_id: u64::from(face.id.0),
        uri: face.uri(),
        local_uri: face.local_uri(),
        is_local: face.is_local(),
        persistency: face.profile.persistency,
        mtu: face.profile.mtu.map(|mtu| mtu as u64),
        flags: face.flags(),
        counters: face.counters,
    }
}
