//! python-ndn as an independent codec, in both directions, over valid and invalid packets.
//!
//! Needs a Python with the package `python-ndn` (0.5.2); `TRIBUTARY_PYTHON` names the interpreter, by default
//! `python3`. Without it the tests print a message and pass, unless `TRIBUTARY_PEERS=required`.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test: a failed unwrap is a failed test")]
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

use tributary_core::Random;
use tributary_ndn::wire::{
    ContentType, Data, Interest, KeyLocator, LpPacket, MetaInfo, NackReason, NameView, PathTag, SignKey, SignatureInfo,
    SignatureType, VerifyKey, WireError,
    dataset::FacePersistency,
    dataset::{FaceEntry, FaceEvent},
    interest::with_parameters,
    packet_type,
    tlv::{Element, Reader},
    types,
};

const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python_ndn_oracle.py");

fn python() -> Option<String> {
    let python = std::env::var("TRIBUTARY_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import ndn.encoding"]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    assert_ne!(std::env::var("TRIBUTARY_PEERS").as_deref(), Ok("required"), "'{python}' cannot import ndn");
    eprintln!("skipped: '{python}' cannot import ndn (pip install python-ndn, or set TRIBUTARY_PYTHON)");
    None
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}
fn filled(bytes: &[u8]) -> String {
    if bytes.is_empty() { "empty".into() } else { hex(bytes) }
}
fn hexed(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "-".into(), filled)
}
fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// The keys of both sides.
fn keys() -> [SignKey; 5] {
    let ecdsa = SignKey::ecdsa(&[6; 32]).unwrap();
    [SignKey::Digest, SignKey::Hmac(b"secret".to_vec()), SignKey::ed25519(&[5; 32]), ecdsa, SignKey::Null]
}
/// Algorithm, key, nonce, time and sequence number of a signature, and whether it is right.
fn signature(info: Option<&SignatureInfo<'_>>, is_signed_by: impl Fn(&VerifyKey) -> bool) -> String {
    let Some(info) = info else { return "- - - - - -".into() };
    let locator = match info.key_locator {
        Some(KeyLocator::Name(name)) => filled(name.as_tlv()),
        Some(KeyLocator::Digest(digest)) => format!("digest:{}", filled(digest)),
        None => "-".into(),
    };
    // To python-ndn nonces are numbers.
    let nonce = info.nonce.map(|nonce| nonce.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte)));
    let [nonce, time, sequence] = [number(nonce), number(info.time), number(info.sequence)];
    let is_right = keys().iter().any(|key| is_signed_by(&key.verify_key()));
    format!("{} {locator} {nonce} {time} {sequence} {}", info.kind.number(), u8::from(is_right))
}

/// What this program sees in a packet, in the words of the oracle.
fn show(bytes: &[u8]) -> Result<String, WireError> {
    match packet_type(bytes) {
        Some(types::INTEREST) => {
            let i = Interest::decode(bytes)?;
            let hints = i.hints().map(|hint| filled(hint.as_tlv())).collect::<Vec<_>>().join(",");
            let signed = i.signature.map(|_| i.signature_value);
            Ok([
                "interest".into(),
                filled(i.name.as_tlv()),
                u8::from(i.can_be_prefix).to_string(),
                u8::from(i.must_be_fresh).to_string(),
                if hints.is_empty() { "-".into() } else { hints },
                number(i.nonce.map(|nonce| u32::from_be_bytes(nonce.0))),
                number(i.lifetime_millis),
                number(i.hop_limit),
                hexed(i.parameters),
                signature(i.signature.as_ref(), |key| i.is_signed_by(key)),
                hexed(signed),
            ]
            .join(" "))
        }
        Some(types::DATA) => {
            let d = Data::decode(bytes)?;
            Ok([
                "data".into(),
                filled(d.name.as_tlv()),
                d.content_type().number().to_string(),
                d.freshness().as_millis().to_string(),
                hexed(d.meta.and_then(|meta| meta.final_block_id)),
                hexed(d.content),
                signature(Some(&d.signature), |key| d.is_signed_by(key)),
                filled(d.signature_value),
            ]
            .join(" "))
        }
        _ => {
            let lp = LpPacket::decode(bytes)?;
            let acks = lp.acks.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
            Ok([
                "lp".into(),
                number(lp.sequence),
                number(lp.frag_index),
                number(lp.frag_count),
                hexed(lp.pit_token),
                number(lp.nack.map(NackReason::number)),
                number(lp.incoming_face),
                number(lp.next_hop_face),
                number(lp.cache_policy),
                number(lp.congestion_mark),
                if acks.is_empty() { "-".into() } else { acks },
                number(lp.tx_sequence),
                u8::from(lp.non_discovery).to_string(),
                hexed(lp.prefix_announcement),
                hexed(lp.fragment),
            ]
            .join(" "))
        }
    }
}
fn encode_again(bytes: &[u8]) -> (Vec<u8>, bool) {
    match packet_type(bytes) {
        Some(types::INTEREST) => {
            let packet = Interest::decode(bytes).unwrap();
            (packet.encode(), packet.is_canonical())
        }
        Some(types::DATA) => {
            let packet = Data::decode(bytes).unwrap();
            (packet.encode(), packet.is_canonical())
        }
        _ => {
            let packet = LpPacket::decode(bytes).unwrap();
            (packet.encode(), packet.is_canonical)
        }
    }
}

fn generated(python: &str, seed: u64, count: u32) -> Vec<(Vec<u8>, String)> {
    let run = Command::new(python).args([ORACLE, "generate", &seed.to_string(), &count.to_string()]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    let lines: Vec<_> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(wire, shown)| (unhex(wire), shown.into()))
        .collect();
    assert_eq!(lines.len(), count as usize);
    lines
}
fn decoded(python: &str, packets: &[Vec<u8>]) -> Vec<String> {
    let mut child =
        Command::new(python).args([ORACLE, "decode"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = packets.iter().map(|packet| hex(packet) + "\n").collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let shown: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect();
    assert_eq!(shown.len(), packets.len());
    shown
}

#[test]
fn what_python_ndn_encodes_is_read_as_it_meant_it_and_comes_back() {
    let Some(python) = python() else { return };
    for (wire, meant) in generated(&python, 1, 3000) {
        assert_eq!(show(&wire).as_ref(), Ok(&meant), "{}", hex(&wire));
        assert_eq!(encode_again(&wire), (wire.clone(), true), "{}", hex(&wire));
        if let Some(types::INTEREST) = packet_type(&wire) {
            assert!(Interest::decode(&wire).unwrap().digest_is_right(), "{}", hex(&wire));
        }
    }
}

/// The rule by which this program refuses a packet that python-ndn 0.5.2 reads; `None` without a rule, which is a bug
/// on either side. "Format" is the NDN packet format 0.3, "LP" is NDNLPv2.
fn stricter(packet: &[u8], error: &WireError) -> Option<&'static str> {
    let is_lp = packet_type(packet) == Some(types::LP_PACKET);
    Some(match error {
        WireError::Number { .. } => "format, TLV encoding: types and lengths in their shortest form, no type 0",
        WireError::Short { .. } => "format, TLV encoding: no element reaches beyond the one that it lies in",
        WireError::Critical { .. } if is_lp => "LP: unknown headers make a packet unusable but for 800 to 959 by fours",
        WireError::Critical(_, 0..=31) => "format, evolvability: types up to 31 are critical, even ones too",
        WireError::Critical("SignatureInfo", _) => "format, evolvability: in Data's SignatureInfo too",
        WireError::Critical("ForwardingHint", _) => "format, evolvability: in ForwardingHint too",
        WireError::Length("CanBePrefix" | "MustBeFresh" | "NonDiscovery" | "PathProbe" | "PathFailed", _) => {
            "format, Interest, and LP: what says something by being there is empty"
        }
        WireError::Length("Nonce" | "HopLimit", _) => "format, Interest: nonces of 4 bytes, hop limits of 1",
        WireError::Length("Name of an Interest", _) => "format, Interest: at least one component",
        WireError::Length("digest component", _) => "format, Name: digests have 32 bytes",
        WireError::Length("FinalBlockId", _) => "format, Data: a FinalBlockId is one component",
        WireError::Length("SignatureNonce", _) => "format, signed Interest: at least one byte",
        WireError::Length("PitToken", _) => "LP: 1 to 32 bytes",
        // It has no field for sequence numbers, and passes over the others where they are out of its order.
        WireError::Length { .. } if is_lp => "LP: numbers have 1, 2, 4 or 8 bytes",
        WireError::Value { .. } if is_lp => "PTP: its own headers, which python-ndn passes over",
        WireError::Value("component type", _) => "format, Name: component types up to 65,535",
        WireError::Missing("Name" | "SignatureInfo" | "SignatureValue" | "SignatureType") => {
            "format, Data, Interest, signature: these are not optional"
        }
        WireError::Missing("CachePolicyType") => "LP: a cache policy has a type",
        WireError::Contradiction { .. } => "format, Interest: parameters, their digest and signatures go together",
        _ => return None,
    })
}

fn elements(bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    let mut reader = Reader::new("packet", bytes);
    std::iter::from_fn(move || reader.element().ok().flatten())
}

/// What python-ndn 0.5.2 refuses though the formats allow it; `None` if nothing is known.
fn laxer(packet: &[u8]) -> Option<&'static str> {
    if packet_type(packet) == Some(types::DATA) {
        let of_applications = elements(packet)
            .flat_map(|data| elements(data.value))
            .filter(|element| element.kind == types::META_INFO)
            .flat_map(|info| elements(info.value))
            .any(|element| (128..=252).contains(&element.kind));
        return of_applications
            .then_some("ndn-cxx: applications have the types 128 to 252 in a MetaInfo, odd ones too");
    }
    let is_interest = packet_type(packet) == Some(types::INTEREST);
    let nonce = is_interest.then(|| Interest::decode(packet).ok()?.signature?.nonce)??;
    (!matches!(nonce.len(), 1 | 2 | 4 | 8)).then_some("format, signed Interest: nonces are no numbers")
}

#[test]
fn changed_packets_are_read_alike_or_refused_by_a_rule_that_python_ndn_does_not_enforce() {
    let Some(python) = python() else { return };
    let mut random = Random::new(7, 1);
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for (wire, _) in (2..6).flat_map(|seed| generated(&python, seed, 3000)) {
        // The content of a link packet's fragment is a separate packet; changing it leaves the link's fields alone.
        let mut bytes = wire;
        match random.below(4) {
            0 => bytes.truncate(1 + random.below(bytes.len() as u64 - 1) as usize),
            1 => bytes.push(random.bits() as u8),
            _ => {
                for _ in 0..=random.below(3) {
                    let at = 1 + random.below(bytes.len().min(80) as u64 - 1) as usize;
                    bytes[at] = if random.chance(0.5) { random.bits() as u8 } else { bytes[at] ^ 1 << random.below(8) };
                }
            }
        }
        packets.push(bytes);
    }
    let theirs = decoded(&python, &packets);
    let (mut both, mut neither, mut rules, mut disputed) = (0, 0, BTreeMap::<_, u32>::new(), Vec::new());
    // It reads headers of link packets in ascending order only; put in order they must mean the same to it.
    let mut shuffled: Vec<(String, Vec<u8>)> = Vec::new();
    for (packet, theirs) in packets.iter().zip(theirs) {
        let known = match (show(packet), theirs.as_str()) {
            (Ok(_), "error") => laxer(packet),
            (Ok(ours), _) if ours == theirs => {
                both += 1;
                continue;
            }
            (Ok(ours), _) if LpPacket::decode(packet).is_ok_and(|lp| !lp.is_canonical) => {
                shuffled.push((ours, encode_again(packet).0));
                continue;
            }
            (Ok(_), _) => None,
            (Err(_), "error") => {
                neither += 1;
                continue;
            }
            (Err(error), _) => stricter(packet, &error),
        };
        match known {
            Some(rule) => *rules.entry(rule).or_default() += 1,
            None => disputed.push(format!("{}\n  ours   {:?}\n  theirs {theirs}", hex(packet), show(packet))),
        }
    }
    let in_order: Vec<Vec<u8>> = shuffled.iter().map(|(_, packet)| packet.clone()).collect();
    for ((ours, packet), theirs) in shuffled.iter().zip(decoded(&python, &in_order)) {
        assert_eq!(*ours, theirs, "in order: {}", hex(packet));
    }
    assert!(disputed.is_empty(), "{} differences without a rule:\n{}", disputed.len(), disputed.join("\n"));
    eprintln!("{both} read alike, {neither} refused by both, by rules that only one has: {rules:#?}");
    assert!(both > 300 && neither > 300, "the changes must leave some of each kind: {both} {neither}");
}

#[test]
fn what_becomes_of_a_face_is_read_by_python_ndn_as_we_meant_it() {
    let Some(python) = python() else { return };
    let face = FaceEntry {
        face_id: 300,
        uri: "udp4://192.0.2.1:6363".into(),
        local_uri: "internal://".into(),
        is_local: true,
        persistency: FacePersistency::OnDemand,
        flags: 4,
        ..FaceEntry::default()
    };
    let events = [FaceEvent::Created, FaceEvent::Destroyed, FaceEvent::Up, FaceEvent::Down];
    let theirs = decoded(&python, &events.map(|event| face.notification(event)));
    let rest = "300 udp4://192.0.2.1:6363 internal:// local on_demand 4";
    assert_eq!(theirs, ["created", "destroyed", "up", "down"].map(|kind| format!("face {kind} {rest}")));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_we_encode_is_read_by_python_ndn_as_we_meant_it() {
    let Some(python) = python() else { return };
    let mut random = Random::new(3, 1);
    let random = &mut random;
    let bytes =
        |random: &mut Random, max: u64| -> Vec<u8> { (0..random.below(max)).map(|_| random.bits() as u8).collect() };
    let value = |random: &mut Random| random.bits() >> random.below(60);
    let mut packets = Vec::new();
    for _ in 0..1000 {
        let mut name = tributary_content::Name::root();
        for _ in 0..=random.below(6) {
            let kind = [8, 8, 32, 50, 54, 4000][random.below(6) as usize];
            name = name.typed_child(kind, &bytes(random, 30)).unwrap();
        }
        let (parameters, nonce, digest) = (bytes(random, 100), random.bits().to_be_bytes(), [random.bits() as u8; 32]);
        let locators = [None, Some(KeyLocator::Name(NameView::from(&name))), Some(KeyLocator::Digest(&digest))];
        let plain = SignatureInfo {
            key_locator: locators[random.below(3) as usize],
            ..SignatureInfo::new(SignatureType::DigestSha256)
        };
        let dated = SignatureInfo {
            nonce: random.chance(0.5).then_some(&nonce[..]),
            time: random.chance(0.5).then(|| value(random)),
            sequence: random.chance(0.5).then(|| value(random)),
            ..plain
        };
        let (mut hints, hint) = (Vec::new(), NameView::from(&name).as_tlv());
        for _ in 0..random.below(3) {
            hints.extend([&[7, hint.len() as u8], hint].concat());
        }
        let interest = Interest {
            can_be_prefix: random.chance(0.5),
            must_be_fresh: random.chance(0.5),
            forwarding_hint: (!hints.is_empty() && hint.len() < 253).then_some(&hints[..]),
            nonce: random.chance(0.7).then(|| random.bits().into()),
            lifetime_millis: random.chance(0.5).then(|| value(random)),
            hop_limit: random.chance(0.5).then(|| random.bits() as u8),
            parameters: Some(&parameters),
            signature: Some(dated),
            ..Interest::new(NameView::from(&name))
        };
        let [for_interest, for_data] = [(); 2].map(|()| keys()[random.below(5) as usize].clone());
        let unsigned = Interest { signature: None, ..interest.clone() };
        let interest = match random.below(3) {
            0 => with_parameters(&interest, Some(&for_interest)),
            1 => with_parameters(&unsigned, None),
            _ => Interest { parameters: None, ..unsigned }.encode(),
        };
        let (content, last) = (bytes(random, 2000), [50, 2, random.bits() as u8, 7]);
        let meta = MetaInfo {
            content_type: random.chance(0.5).then(|| ContentType::from(value(random))),
            freshness_millis: random.chance(0.5).then(|| value(random) >> 20),
            final_block_id: random.chance(0.5).then_some(&last),
        };
        let data = Data {
            meta: random.chance(0.8).then_some(meta),
            signature: plain,
            ..Data::new(NameView::from(&name), &content)
        };
        let data = data.sign(&for_data);
        let (token, reasons) = (bytes(random, 32), [0, 50, 100, 150, value(random)]);
        packets.push(
            LpPacket {
                sequence: random.chance(0.5).then(|| random.bits()),
                frag_index: random.chance(0.5).then(|| value(random)),
                frag_count: random.chance(0.5).then(|| value(random)),
                pit_token: Some(&token[..]).filter(|token| !token.is_empty()),
                nack: random.chance(0.5).then(|| NackReason::from(reasons[random.below(5) as usize])),
                incoming_face: random.chance(0.5).then(|| value(random)),
                next_hop_face: random.chance(0.5).then(|| value(random)),
                cache_policy: random.chance(0.5).then(|| value(random)),
                congestion_mark: random.chance(0.5).then(|| value(random)),
                acks: (0..random.below(4)).map(|_| random.bits()).collect(),
                tx_sequence: random.chance(0.5).then(|| random.bits()),
                non_discovery: random.chance(0.5),
                prefix_announcement: random.chance(0.3).then_some(&data[..]),
                fragment: random.chance(0.9).then_some(&interest[..]),
                // PTP's own headers, which others must ignore.
                tag: random.chance(0.5).then(|| PathTag::parse(&[7; 12]).unwrap()),
                probe: random.chance(0.5),
                ..LpPacket::default()
            }
            .encode(),
        );
        packets.extend([interest, data]);
    }
    let theirs = decoded(&python, &packets);
    for (packet, theirs) in packets.iter().zip(&theirs) {
        assert_eq!(show(packet).as_ref(), Ok(theirs), "{}", hex(packet));
    }
    let right = theirs.iter().filter(|theirs| !theirs.starts_with("lp") && theirs.split(' ').rev().nth(1) == Some("1"));
    assert!(right.count() > 1_200, "all Data and a third of the Interests are signed");
}
