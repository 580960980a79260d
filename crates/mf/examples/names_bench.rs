//! How the name service grows: `cargo run --release -p trib-mf --example names_bench [NAMES_MAX [ROUTERS]]`
//!
//! One device publishes 10², 10³ … names in one scope through its access router, all of them are listed in pages by another
//! one, and then all are held for three lifetimes. Client, front and replicas are those of real nodes; a link with a delay
//! of 20 ms each way joins them, and each message costs its bytes. Printed for each size: virtual time until all are kept,
//! messages and bytes to replicas, processor time of the whole service, messages and bytes for one renewal, pages of the
//! listing, memory, and the exponent of each between this size and the one before.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures wall-clock time and prints it"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use tributary_content::{MemoryObject, ObjectReader, SigningKey};
use tributary_core::{Duration, Time};
use tributary_mf::{
    ids::{Guid, NetworkAddress},
    resolver::{Answer, Asker, Front, GnrsClient, NameResolver, Records, Replica},
    wire::{NameMessage, RecordBody, Wire},
};

const LIFETIME: Duration = Duration::from_secs(30);
const DELAY: Duration = Duration::from_millis(20);

/// A message in transit.
enum Mail {
    Question(usize, NameMessage),
    Answer(usize, NameMessage),
    ToReplica(NetworkAddress, NameMessage),
    FromReplica(NetworkAddress, NameMessage),
}

struct Service {
    now: Time,
    front: Front,
    replicas: BTreeMap<NetworkAddress, Replica>,
    clients: Vec<(Asker, GnrsClient)>,
    mail: BTreeMap<(Time, u64), Mail>,
    number: u64,
    messages: u64,
    bytes: u64,
    pages: u64,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (max, routers) = (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(10));
    println!("{routers} routers, 5 replicas, 20 ms each way; exponents against the row before");
    println!(
        "{:>8} {:>14} {:>18} {:>18} {:>16} {:>20} {:>8} {:>16}",
        "names", "time s", "messages", "bytes", "CPU ms", "bytes per renewal", "pages", "memory MB"
    );
    let mut before: Option<[f64; 7]> = None;
    let mut names = 100;
    while names <= max {
        let row = measure(names, routers as u32);
        let cell = |at: usize, digits: usize| {
            let exponent = before.map_or(String::new(), |before| format!(" ({:.2})", (row[at] / before[at]).log10()));
            format!("{:.digits$}{exponent}", row[at])
        };
        println!(
            "{names:>8} {:>14} {:>18} {:>18} {:>16} {:>20} {:>8} {:>16}",
            cell(0, 2),
            cell(1, 0),
            cell(2, 0),
            cell(3, 0),
            cell(4, 0),
            row[5],
            cell(6, 1)
        );
        before = Some(row);
        names *= 10;
    }
}

fn measure(names: u64, routers: u32) -> [f64; 7] {
    let publisher = SigningKey::from_secret(&[9; 32]);
    let bodies: Vec<RecordBody> = (0..names)
        .map(|number| {
            let name = format!("/many/{number}").parse().expect("a name");
            let object = MemoryObject::new(name, vec![1; 10], &publisher).expect("small");
            RecordBody::Content(object.manifest().encode())
        })
        .collect();
    let resident = memory();
    let begin = Instant::now();
    let mut service = Service::new(routers);
    for body in bodies {
        service.clients[0].1.put(Time::ZERO, body);
    }
    let mut kept = BTreeSet::new();
    while (kept.len() as u64) < names {
        service.step();
        for answer in std::iter::from_fn(|| service.clients[0].1.poll_answer()) {
            match answer {
                Answer::Kept(guid, _) if guid != Guid::of_scope(&"/many".parse().expect("a name")) => {
                    kept.insert(guid);
                }
                Answer::Refused(_, refusal) => panic!("{}", refusal.reason()),
                _ => {}
            }
        }
    }
    let (time, messages, bytes) = (service.now, service.messages, service.bytes);
    let cpu = begin.elapsed();
    service.clients[1].1.watch(service.now, Guid::of_name(&"/many".parse().expect("a name")));
    let listed = 'listed: loop {
        service.step();
        while let Some(answer) = service.clients[1].1.poll_answer() {
            if let Answer::Found(_, records) = answer {
                break 'listed records.len() as u64;
            }
        }
    };
    assert_eq!(listed, names);
    let held = memory() - resident;
    let (before, end) = (service.bytes, service.now + LIFETIME * 3);
    while service.now < end {
        service.step();
    }
    let renewals = 9;
    assert!(service.replicas.values().any(|replica| replica.size().1 as u64 >= names));
    [
        time.since(Time::ZERO).as_secs_f64(),
        messages as f64,
        bytes as f64,
        cpu.as_secs_f64() * 1e3,
        (service.bytes - before) as f64 / f64::from(renewals),
        service.pages as f64,
        held,
    ]
}

impl Service {
    fn new(routers: u32) -> Service {
        let addresses: Vec<NetworkAddress> = (1..=routers).map(NetworkAddress).collect();
        let mut front = Front::new(Guid::NONE, 5);
        front.handle_members(Time::ZERO, addresses.clone());
        let client = |number: u8| {
            let key = SigningKey::from_secret(&[number; 32]);
            let asker = Asker { guid: Guid::of(&key.public(), b""), address: NetworkAddress(100) };
            let mut client = GnrsClient::new(key, "host", LIFETIME, 0);
            client.on_reachable(Time::ZERO);
            (asker, client)
        };
        Service {
            now: Time::ZERO,
            front,
            replicas: addresses.into_iter().map(|address| (address, Replica::new(1_000_000))).collect(),
            clients: (1..=2).map(client).collect(),
            mail: BTreeMap::new(),
            number: 0,
            messages: 0,
            bytes: 0,
            pages: 0,
        }
    }
    fn send(&mut self, mail: Mail) {
        self.number += 1;
        self.mail.insert((self.now + DELAY, self.number), mail);
    }
    /// Advances to the next event.
    fn step(&mut self) {
        self.collect();
        let timers =
            self.clients.iter().filter_map(|(_, client)| client.poll_timeout()).chain(self.front.poll_timeout());
        let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
        let next = timers.chain(mail).min().expect("renewals never end");
        self.now = self.now.max(next);
        while let Some(entry) = self.mail.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let now = self.now;
            match entry.remove() {
                Mail::Question(client, message) => {
                    self.front.handle_question(now, self.clients[client].0, message);
                }
                Mail::Answer(client, message) => self.clients[client].1.handle_message(now, message),
                Mail::ToReplica(to, message) => {
                    let from = Asker { guid: Guid::NONE, address: NetworkAddress(100) };
                    self.replicas.get_mut(&to).expect("a member").handle(now, from, message);
                }
                Mail::FromReplica(from, message) => self.front.handle_answer(now, from, message),
            }
        }
        self.front.handle_timeout(self.now);
        self.clients.iter_mut().for_each(|(_, client)| client.handle_timeout(self.now));
        self.replicas.values_mut().for_each(|replica| replica.handle_timeout(self.now));
        self.collect();
    }
    fn collect(&mut self) {
        for client in 0..self.clients.len() {
            while let Some(message) = self.clients[client].1.poll_message() {
                self.send(Mail::Question(client, message));
            }
        }
        while let Some((to, message)) = self.front.poll_message() {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            (self.messages, self.bytes) = (self.messages + 1, self.bytes + bytes.len() as u64);
            self.send(Mail::ToReplica(to, message));
        }
        let addresses: Vec<NetworkAddress> = self.replicas.keys().copied().collect();
        for address in addresses {
            while let Some((_, message)) = self.replicas.get_mut(&address).and_then(Records::poll_message) {
                self.send(Mail::FromReplica(address, message));
            }
        }
        while let Some((to, message)) = self.front.poll_answer() {
            let client = self.clients.iter().position(|(asker, _)| *asker == to).expect("a client asked");
            self.pages += u64::from(client == 1);
            self.send(Mail::Answer(client, message));
        }
    }
}

/// Resident memory in megabytes.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = status.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a number");
    pages * 4_096.0 / 1e6
}
