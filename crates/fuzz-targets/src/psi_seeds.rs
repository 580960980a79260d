//! Valid inputs of the PSI targets: what the nodes of a small domain send each other, and messages that are rare.
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use tributary_content::Name;
use tributary_core::{Duration, FaceId, NodeId, Rate, link::LinkConfig};
use tributary_psi::{
    Config, PsiNode,
    ids::ItemId,
    wire::{
        Answer, ControlBody, ControlPacket, DataHeader, Header, Limit, MatchKey, Message, MessageKey, Overtaken,
        PacketType, Refused, Rejection, Reply, Secrecy, Wire, unseal,
    },
};
use tributary_sim::Network;
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

use crate::seeds::{Seed, object};

const NETWORK_KEY: [u8; 32] = [0; 32];
/// Seeds of one kind at most.
const ALIKE_MAX: usize = 4;

/// All of them; requests come first among the messages.
pub(crate) fn all() -> Vec<Seed> {
    let mut seeds: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    let mut messages: BTreeMap<String, Message> = BTreeMap::new();
    for bytes in packets() {
        let header = Header::decode(&bytes).expect("nodes send packets");
        let body = &bytes[header.len()..];
        let mut add = |target, bytes: &[u8]| {
            let alike = seeds.entry(target).or_default();
            if alike.len() < ALIKE_MAX && !alike.iter().any(|known| known == bytes) {
                alike.push(bytes.to_vec());
            }
        };
        add("header", &bytes[..header.len()]);
        add("fid", &encoded(|out| header.fid.encode(out)));
        match header.packet_type {
            PacketType::Request => add("request", body),
            PacketType::Data => add("data_header", &body[..DataHeader::BYTES]),
            PacketType::Hello => add("hello", unseal(&NETWORK_KEY, body).expect("it is sealed")),
            PacketType::Beacon => add("beacon", unseal(&NETWORK_KEY, body).expect("it is sealed")),
            PacketType::Control => {
                let body = unseal(&NETWORK_KEY, body).expect("it is sealed");
                add("control_packet", body);
                add("sealed", body);
                let packet = ControlPacket::decode(body).expect("nodes send control packets");
                messages.extend(message(&packet).map(|message| (label(&message), message)));
            }
        }
    }
    messages.extend(rare().into_iter().map(|message| (format!("rare-{}", label(&message)), message)));
    for message in messages.values() {
        let (target, bytes) = match message {
            Message::LinkState(state) => ("link_state", encoded(|out| state.encode(out))),
            Message::Routes(routes) => ("routes", encoded(|out| routes.encode(out))),
            Message::PathRequest(request) => ("path_request", encoded(|out| request.encode(out))),
            Message::Offer(offer) => ("offer", encoded(|out| offer.encode(out))),
            _ => continue,
        };
        seeds.entry(target).or_default().push(bytes);
    }
    let numbered = seeds.into_iter().flat_map(|(target, alike)| {
        alike.into_iter().enumerate().map(move |(number, bytes)| (target, format!("seed-{number}"), bytes))
    });
    let mut messages: Vec<(String, Message)> = messages.into_iter().collect();
    messages.sort_by_key(|(label, _)| !label.starts_with("Request"));
    let messages = messages
        .into_iter()
        .map(|(label, message)| ("message", format!("seed-{label}"), encoded(|out| message.encode(out))));
    numbered.chain(messages).collect()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

/// The message of a control packet, if it is in one piece.
fn message(packet: &ControlPacket<'_>) -> Option<Message> {
    let ControlBody::Fragment { count: 1, payload, .. } = packet.body else { return None };
    let key = MessageKey { from: packet.from, boot: packet.boot, message: packet.message };
    Message::decode(&Secrecy::new(&NETWORK_KEY).reveal(&key.context(packet.to), payload).ok()?).ok()
}

/// The kind of a message, and what tells messages of that kind apart.
fn label(message: &Message) -> String {
    let word =
        |text: String| text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_string();
    let kind = word(format!("{message:?}"));
    match message {
        Message::Request(request) => format!("{kind}-{}", word(format!("{:?}", request.operation))),
        Message::Reply(reply) => format!("{kind}-{}", word(format!("{:?}", reply.answer))),
        Message::ScopeNotice(notice) => format!("{kind}-{}", word(format!("{:?}", notice.kind))),
        _ => kind,
    }
}

/// Messages that only large, full or failing domains send.
fn rare() -> [Message; 5] {
    let item = ItemId::new(&"/lab/x".parse::<Name>().expect("a name"));
    let entries = vec![(MatchKey::Subscription(NodeId(8), 3), 10), (MatchKey::Publisher(NodeId(5)), 11)];
    let full = Rejection::LimitReached(Limit::Records, 100_000);
    [
        Message::Overtaken(Overtaken { item, entries }),
        Message::Refused(Refused { transfer: 3, rejection: Rejection::LimitReached(Limit::Transfers, 9) }),
        Message::Reply(Reply { request: 11, answer: Answer::Rejected(full) }),
        Message::Reply(Reply { request: 11, answer: Answer::Stale { current: 99 } }),
        Message::Many(vec![Message::Sync { request: 15 }, Message::Ready { request: 15 }]),
    ]
}

/// Every packet of two routers that resolve names, a publisher and a receiver, which lists a scope and fetches an item
/// of it.
fn packets() -> Vec<Vec<u8>> {
    let mut network = Network::new(1);
    let log = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&log);
    network.set_tap(move |packet| heard.borrow_mut().push(packet.datagram.to_vec()));
    let nodes: Vec<_> = (0..4u8)
        .map(|number| {
            let mut config = Config::new(&format!("node-{number}"), number.into());
            (config.router, config.resolver) = (number < 2, number < 2);
            config.topology_manager = (number < 2).then_some(9 - number);
            config.lease = Duration::from_secs(3);
            network.add_node(PsiNode::new(config))
        })
        .collect();
    let link = LinkConfig::new(Rate::from_mbps(10), Duration::from_millis(2));
    for ([a, b], [near, far]) in [([0, 1], [1, 1]), ([0, 2], [2, 1]), ([1, 3], [2, 1])] {
        let ends = [(nodes[a], FaceId(near)), (nodes[b], FaceId(far))];
        network.connect(ends[0], ends[1], link.clone(), link.clone());
        for (node, face) in ends {
            network.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: link.rate }));
        }
    }
    let (publisher, receiver) = (nodes[2], nodes[3]);
    let (scope, name): (Name, Name) = ("/lab".parse().expect("a name"), "/lab/x".parse().expect("a name"));
    let pause = |network: &mut Network<PsiNode>, seconds: u64| {
        let end = network.now() + Duration::from_secs(seconds);
        network.run_until(end);
    };
    pause(&mut network, 2);
    network.with(publisher, |node, now| node.publish(now, Box::new(object("/lab/x", 5_000))));
    network.with(receiver, |node, now| node.watch(now, &scope));
    pause(&mut network, 2);
    let fetch = Fetch {
        name: name.clone(),
        opener: Box::new(tributary_content::MemoryOpener::new()),
        rate_limit: None,
        paths_per_source: 4,
        metric: PathMetric::Latency,
        patience: None,
    };
    network.with(receiver, |node, now| node.fetch(now, fetch));
    pause(&mut network, 4);
    network.with(publisher, |node, now| node.unpublish(now, &name));
    network.with(receiver, |node, now| node.unwatch(now, &scope));
    pause(&mut network, 4);
    drop(network);
    log.take()
}
