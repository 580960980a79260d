//! The status datasets.
use alloc::{format, vec::Vec};

use tributary_content::Name;
use tributary_core::Time;

use crate::{
    router::{Router, face::Face},
    wire::dataset::{
        FaceEntry, FaceFilter, GeneralStatus, RouteEntry, append_channel, append_fib_entry, append_rib_entry,
        append_strategy_choice, cs_info,
    },
};

impl Router {
    /// The content of a dataset; `None` for an unknown name.
    pub(super) fn dataset(&self, now: Time, module: &[u8], verb: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match (module, verb) {
            (b"status", b"general") => out = self.general_status(now).encode(),
            (b"faces", b"channels") => {
                self.management.channels.iter().for_each(|uri| append_channel(uri, &mut out));
            }
            (b"faces", b"list") => self.face_entries().iter().for_each(|entry| entry.append(&mut out)),
            (b"fib", b"list") => {
                for entry in self.fib.iter() {
                    let hops: Vec<(u64, u64)> =
                        entry.next_hops.iter().map(|hop| (u64::from(hop.face.0), hop.cost)).collect();
                    append_fib_entry(&entry.prefix, &hops, &mut out);
                }
            }
            (b"rib", b"list") => {
                for (prefix, routes) in self.rib.iter() {
                    let routes: Vec<RouteEntry> = routes
                        .iter()
                        .map(|route| RouteEntry {
                            face_id: u64::from(route.face.0),
                            origin: route.origin,
                            cost: route.cost,
                            flags: route.flags,
                            expiration_millis: route.expires.map(|expires| expires.since(now).as_millis() as u64),
                        })
                        .collect();
                    append_rib_entry(prefix, &routes, &mut out);
                }
            }
            (b"strategy-choice", b"list") => {
                for (prefix, strategy) in self.strategies() {
                    let name: Option<Name> = format!("/localhost/nfd/strategy/{strategy}/v=1").parse().ok();
                    name.into_iter().for_each(|name| append_strategy_choice(prefix, &name, &mut out));
                }
            }
            (b"cs", b"info") => {
                let (hits, misses) = self.cs.hits_and_misses;
                let flags = self.cs.switches().flags();
                out = cs_info(self.cs.limits().packets_max as u64, self.cs.len() as u64, flags, hits, misses);
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
    fn general_status(&self, now: Time) -> GeneralStatus {
        GeneralStatus {
            version: concat!("tributary ", env!("CARGO_PKG_VERSION")).into(),
            started_and_now_millis: (
                self.config.epoch.as_millis() as u64,
                (self.config.epoch + now.since(Time::ZERO)).as_millis() as u64,
            ),
            fib_entries: self.fib.len() as u64,
            pit_entries: self.pit.len() as u64,
            cs_entries: self.cs.len() as u64,
            counters: self.stats.counters,
            satisfied_and_not: self.stats.satisfied_and_not,
        }
    }
    fn face_entries(&self) -> Vec<FaceEntry> {
        self.faces.values().map(entry_of).collect()
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
