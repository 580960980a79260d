//! Messages to devices, groups and names while devices are away and senders out of range or killed.
use tributary_mf::config::GroupConfig;
use tributary_transport::{
    Messaging,
    messaging::{AcceptOptions, Destination, SendOptions, SendReport, Spread, Storage},
};

use super::*;

/// ```text
///   d0, d1, s0 ── r1 ── r2 ── d2, d3, s1
/// ```
/// The devices of the group are d0 to d2, its owner is s0; d2 and d3 are attached to a name.
struct Village {
    domain: Domain,
    contents: BTreeMap<&'static str, MemoryContent>,
}

const DEVICES: [&str; 4] = ["d0", "d1", "d2", "d3"];
const PLACES: [(&str, &str); 6] = [("r1", "d0"), ("r1", "d1"), ("r1", "s0"), ("r2", "d2"), ("r2", "d3"), ("r2", "s1")];

impl Village {
    fn new(seed: u64) -> Village {
        Village::with(seed, |_| {})
    }
    /// `set` is for the hosts.
    fn with(seed: u64, set: impl Fn(&mut Config)) -> Village {
        let mut domain = Domain::new(seed);
        domain.router("r1");
        domain.router("r2");
        domain.link("r1", "r2", 100, ms(5));
        for (router, host) in PLACES {
            domain.node(host, |config| {
                config.outbox = host.starts_with('s');
                set(config);
            });
            domain.link(router, host, 20, ms(2));
        }
        let members = DEVICES[..3].iter().map(|device| domain.at(device).guid()).collect();
        domain.with("s0", |node, now| node.set_group(now, "fleet", Some(GroupConfig { members, proxy: None })));
        let mut village = Village { domain, contents: BTreeMap::new() };
        for device in DEVICES {
            let opener = MemoryOpener::new();
            village.contents.insert(device, opener.content());
            village.domain.with(device, |node, now| {
                Messaging::accept(node, now, Some(Box::new(opener)), &AcceptOptions::default());
                if device >= "d2" {
                    Messaging::attach(node, now, &name("/readings"));
                }
            });
        }
        village.domain.run(Duration::from_secs(3));
        village
    }
    fn send(&mut self, from: &str, path: &str, to: &Destination, options: &SendOptions) -> TransferId {
        let object = Box::new(object(path, random_bytes(100_000, path.len() as u64)));
        self.domain.with(from, |node, now| Messaging::send(node, now, object, to, options)).unwrap()
    }
    fn has(&self, device: &str, path: &str) -> bool {
        self.contents[device].finished(&name(path)).is_some()
    }
    fn report(&self, from: &str, id: TransferId) -> SendReport {
        Messaging::send_report(self.domain.at(from), self.domain.net.now(), id).unwrap()
    }
    fn notes(&self) -> Vec<String> {
        let events = self.domain.events.borrow();
        let note =
            |(_, _, event): &(_, _, Event)| if let Event::Note(text) = event { Some(text.clone()) } else { None };
        events.iter().filter_map(note).collect()
    }
}

/// A message on the disk of its sender or of a router arrives though the sender is killed.
#[test]
fn whatever_is_kept_arrives_at_all_for_whom_it_is_whoever_was_away_or_killed() {
    for seed in 1..25 {
        let mut village = Village::new(seed);
        let mut random = Random::new(seed, 5);
        let away: Vec<_> = PLACES.into_iter().filter(|_| random.chance(0.4)).collect();
        away.iter().for_each(|(router, host)| village.domain.cut(router, host));
        // Longer than the leases of present devices.
        village.domain.run(Duration::from_secs(if seed % 4 == 0 { 700 } else { 3 }));
        let device = Destination::Id(village.domain.at("d3").guid().to_string());
        let fleet = Destination::Id(village.domain.at("s0").group("fleet").to_string());
        let readings = Destination::Name(name("/readings"));
        let mut sent = Vec::new();
        for from in ["s0", "s1"] {
            for (what, to, spread, whom) in [
                ("device", &device, Spread::All, &DEVICES[3..]),
                ("fleet", &fleet, Spread::All, &DEVICES[..3]),
                ("nearest", &fleet, Spread::Nearest, &DEVICES[..3]),
                ("readings", &readings, Spread::All, &DEVICES[2..]),
            ] {
                let path = format!("/{from}/{what}");
                let id = village.send(from, &path, to, &SendOptions { spread, ..SendOptions::default() });
                sent.push((from, path, id, spread, whom));
            }
        }
        village.domain.run(Duration::from_secs(8));
        for (from, path, id, ..) in &sent {
            let report = village.report(from, *id);
            let is_kept = report.stored_chunks >= report.chunks || !report.delivered.is_empty();
            assert!(is_kept, "seed {seed}, {away:?}: {path} is kept by nobody: {report:?}");
        }
        for from in ["s0", "s1"] {
            if random.chance(0.7) {
                village.domain.kill(from);
                village.domain.run(ms(500));
                village.domain.restart(from);
            }
        }
        away.iter().for_each(|(router, host)| village.domain.mend(router, host));
        village.domain.run(Duration::from_secs(60));
        for (_, path, _, spread, whom) in &sent {
            let have = whom.iter().filter(|device| village.has(device, path)).count();
            let wanted = if *spread == Spread::Nearest { 1 } else { whom.len() };
            assert!(have >= wanted, "seed {seed}, {away:?}: {have} of {whom:?} have {path}: {:#?}", village.notes());
        }
    }
}

#[test]
fn what_nobody_came_for_in_its_lifetime_is_deleted_with_a_word() {
    let mut village = Village::new(1);
    village.domain.cut("r2", "d3");
    village.domain.run(Duration::from_secs(3));
    let to = Destination::Id(village.domain.at("d3").guid().to_string());
    let lifetime = Some(Duration::from_secs(5));
    let id = village.send("s0", "/short", &to, &SendOptions { lifetime, ..SendOptions::default() });
    village.send("s0", "/long", &to, &SendOptions::default());
    village.domain.run(Duration::from_secs(2));
    let report = village.report("s0", id);
    assert_eq!((report.stored_chunks, report.kept_for, report.kept_here), (report.chunks, lifetime, 0));
    village.domain.run(Duration::from_secs(2 * 3_600));
    village.domain.mend("r2", "d3");
    village.domain.run(Duration::from_secs(30));
    assert!(!village.has("d3", "/short") && village.has("d3", "/long"), "two hours are not its lifetime");
    let expired = village.notes().into_iter().filter(|text| text.contains("'/short' has expired")).count();
    assert_eq!(expired, 1, "{:#?}", village.notes());
}

#[test]
fn a_source_ends_an_hour_after_routers_keep_its_message_for_those_who_are_away() {
    let mut village = Village::new(1);
    village.domain.cut("r2", "d2");
    village.domain.run(Duration::from_secs(3));
    let fleet = Destination::Id(village.domain.at("s0").group("fleet").to_string());
    let id = village.send("s0", "/fleet", &fleet, &SendOptions::default());
    for (seconds, is_over) in [(60, false), (2 * 3_600, true)] {
        village.domain.run(Duration::from_secs(seconds));
        let report = village.report("s0", id);
        assert_eq!((report.is_over, report.delivered.len()), (is_over, 2));
        assert!(report.is_kept(Storage::OfRouters), "{report:?}");
    }
    village.domain.mend("r2", "d2");
    village.domain.run(Duration::from_secs(30));
    assert!(village.has("d2", "/fleet"));
}

#[test]
fn who_has_detached_gets_nothing_more_though_an_earlier_life_attached_it() {
    let mut village = Village::new(2);
    for device in ["d2", "d3"] {
        village.domain.kill(device);
        village.domain.run(Duration::from_secs(2));
        village.domain.restart(device);
    }
    village.domain.run(Duration::from_secs(3));
    village.domain.with("d2", |node, now| Messaging::detach(node, now, &name("/readings")));
    village.domain.run(Duration::from_secs(3));
    let id = village.send("s0", "/one", &Destination::Name(name("/readings")), &SendOptions::default());
    village.domain.run(Duration::from_secs(3));
    assert_eq!(village.report("s0", id).destinations, 1);
}

/// Bytes each way in an hour on the link of a host, IP and UDP headers included: from the router, to it.
fn bytes_in_an_hour(village: &mut Village, host: &str) -> [u64; 2] {
    let connection = village.domain.connection("r2", host);
    let count = |village: &Village| {
        [connection.a_to_b, connection.b_to_a].map(|link| {
            let stats = village.domain.net.link_stats(link);
            stats.in_bytes + stats.in_packets * 28
        })
    };
    let before = count(village);
    village.domain.run(Duration::from_secs(3_600));
    let after = count(village);
    [after[0] - before[0], after[1] - before[1]]
}

/// The host d3 is attached to a name, and its router keeps messages for others.
#[test]
fn an_idle_host_costs_little_with_its_router_and_without_and_less_on_a_battery() {
    for (battery, most) in [(false, 100_000), (true, 25_000)] {
        let mut village = Village::with(3, |config| {
            if battery {
                config.save_battery();
            }
        });
        village.domain.cut("r2", "d2");
        village.domain.run(Duration::from_secs(2));
        village.send("s0", "/readings/1", &Destination::Name(name("/readings")), &SendOptions::default());
        village.domain.run(Duration::from_secs(120));
        let idle = bytes_in_an_hour(&mut village, "d3");
        village.domain.kill("r2");
        village.domain.run(Duration::from_secs(600));
        let [_, search] = bytes_in_an_hour(&mut village, "d3");
        println!(
            "on a battery: {battery}; bytes in an hour, from the router, to it, and to one that is gone: {idle:?}, {search}"
        );
        assert!(idle.into_iter().chain([search]).all(|bytes| bytes <= most), "{idle:?} and {search} of {most}");
    }
}
