//! The keys of each section of a config file.
use nix::unistd::Group;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};
use tributary_content::{BlindingKey, Name, PublicKey};
use tributary_core::{Duration, PeerPlace, Rate, link::LinkConfig, printable};
use tributary_net::{StreamAddress, UnixAccess};
use tributary_transport::{ControllerKind, Coupling, PathMetric, TransferConfig};
use tributary_trust::{Access, Keys};
use tributary_web::Url;

use crate::{
    config::{
        FaceConfig, FacePolicyConfig, Faults, FetchConfig, HttpConfig, HttpMirror, HttpOrigin, Invitation, Limits,
        LogFormat, MirrorsConfig, NetworkConfig, NodeConfig, OriginKind, PeerAddress, Quota, QuotaEnd, QuotaPeriod,
        Role, ScheduledRate, Security, ServeConfig, Settings, SiteConfig, face_id, is_own, link, published_name,
        reader::Section,
        values::{RATE_HINT, SECRET_HINT, duration, read_secret, set_duration, set_size, size},
    },
    families::{Delivery, FaceSection},
    family::Family,
    log::LogLevel,
    paths::state_dir as usual_state_dir,
};

const PEER_HINT: &str = "write the line that `trib invite` prints there, or a host and a port, such as \"192.0.2.7:7001\", \
    \"router.example:7001\" or \"[fe80::1%eth0]:7001\"";
const ADDRESS_HINT: &str = "write an address and a port, such as \"127.0.0.1:7001\" or \"[::1]:7001\"";
const ORIGIN_HINT: &str =
    "write scheme, host and port if it is not the scheme's, as browsers do: \"https://example.org\"";
/// Maximum length of a label, so that it fits into a hello.
const LABEL_BYTES_MAX: usize = 32;

/// Whether a check of a config looks for the files that it publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disk {
    /// It does.
    Looked,
    /// It does not.
    NotLooked,
}

/// Reads `[node]`.
pub(super) fn head(section: Section<'_>, folder: &Path, has_network: bool) -> Option<NodeConfig> {
    let label = section.text("label");
    match &label {
        None if !section.has("label") => {
            section.missing("label", "give the node a name, such as label = \"attic\"");
        }
        Some(text) if text.value.is_empty() || text.value.len() > LABEL_BYTES_MAX => {
            let message = format!("'label' has {} bytes", text.value.len());
            section.problem(text.span.clone(), message, format!("write 1 to {LABEL_BYTES_MAX} bytes"));
        }
        // Other machines show it on their terminals.
        Some(text) if text.value.contains(printable::is_unsafe) => {
            let message = "'label' holds a control character, or one that changes the direction of text";
            section.problem(text.span.clone(), message, "write letters, digits and the like");
        }
        Some(_) | None => {}
    }
    let family = section.choice("family", &Family::ALL).unwrap_or_default();
    let roles = roles(&section);
    if let Some(role) = roles.iter().find(|role| !family.plays(**role)) {
        let hint = "its roles are \"router\", \"sender\" and \"receiver\"";
        section.wrong("roles", format!("family {family} has no {role}"), hint);
    }
    let state_dir = section.path("state_dir", folder);
    let control = section.path("control", folder);
    let key = section.path("key", folder);
    let seed = section.integer("seed", 0..=i64::MAX as u64);
    section.declare("log", || LogLevel::ALL.iter().map(|(word, _)| format!("`\"{word}\"`")).collect());
    let log = section.parsed("log", "write a level, or one for everything and others for modules: \"info,net=debug\"");
    let log_format = section.choice("log_format", &LogFormat::ALL);
    let state_dir = state_dir.or_else(|| usual_state_dir(&label.as_ref()?.value));
    let (listen, listen_streams) = listen(&section, family, state_dir.as_deref());
    let unix_access = unix_access(&section);
    let web_origins = web_origins(&section, &listen_streams);
    // In a network with an authority all neighbours authenticate, unless the config allows exceptions.
    let admits_programs_of_others = family.profile().is_standard && !has_network;
    let security = section.choice("security", &Security::ALL).unwrap_or(match admits_programs_of_others {
        true => Security::Preferred,
        false => Security::Encrypted,
    });
    if state_dir.is_none() && label.is_some() {
        let hint = "write state_dir = \"…\", or set HOME: what it keeps, such as its key, is its owner's alone";
        section.wrong("label", "there is no home folder for its state", hint);
    }
    section.finish();
    let label = label?.value;
    let settings = Settings::new(family, &label, &roles);
    let node = NodeConfig::new(&label, settings, roles, &state_dir?);
    Some(NodeConfig {
        control: control.unwrap_or_else(|| node.control.clone()),
        key: key.unwrap_or_else(|| node.key.clone()),
        seed,
        log,
        log_format,
        listen,
        listen_streams,
        unix_access,
        web_origins,
        security,
        ..node
    })
}

fn roles(section: &Section<'_>) -> BTreeSet<Role> {
    let words = Role::ALL.map(|(word, _)| format!("\"{word}\"")).join(", ");
    let Some(roles) = section.choices("roles", &Role::ALL) else {
        if !section.has("roles") {
            section.missing("roles", &format!("write roles = [..] with some of {words}"));
        }
        return BTreeSet::new();
    };
    roles.into_iter().map(|role| role.value).collect()
}

/// Where the node receives datagrams, and where streams; `unix:NAME` is a socket in its state folder.
fn listen(section: &Section<'_>, family: Family, state_dir: Option<&Path>) -> (Vec<SocketAddr>, Vec<StreamAddress>) {
    let Some(texts) = section.texts("listen") else {
        if !section.has("listen") {
            section.missing("listen", "write listen = [\"0.0.0.0:7001\"], or port 0 for any free port");
        }
        return (Vec::new(), Vec::new());
    };
    let mut known: Vec<PeerAddress> = Vec::new();
    for text in texts {
        let own = text.value.strip_prefix("unix:").filter(|name| !name.is_empty() && !name.starts_with('/'));
        let address = match (own, state_dir) {
            (Some(name), Some(folder)) => Some(PeerAddress::Stream(StreamAddress::Unix(folder.join(name)))),
            // The missing folder is reported already.
            (Some(_), None) => continue,
            (None, _) => section.parse::<PeerAddress>("listen", &text, ADDRESS_HINT),
        };
        let Some(address) = address else { continue };
        if address.named().is_some() {
            section.problem(text.span, format!("'{}' is not an address of this machine", text.value), ADDRESS_HINT);
            continue;
        }
        if known.contains(&address) && address.port() != Some(0) {
            section.problem(text.span, format!("{address} is listed twice"), "remove one of them");
            continue;
        }
        if !may_stream(section, text.span, &address, family) {
            continue;
        }
        known.push(address);
    }
    let datagrams = known.iter().filter_map(PeerAddress::datagrams).collect();
    (datagrams, known.iter().filter_map(|address| address.stream().cloned()).collect())
}
/// Who may connect to the Unix sockets of `listen`: `unix_mode` and `unix_group`.
fn unix_access(section: &Section<'_>) -> UnixAccess {
    let mut access = UnixAccess::default();
    if let Some(text) = section.text("unix_mode") {
        match u32::from_str_radix(&text.value, 8).ok().filter(|mode| *mode <= 0o777) {
            Some(mode) => access.mode = mode,
            None => {
                let hint = "write it as `chmod` does: \"0666\" for all users, \"0660\" for those of 'unix_group'";
                section.problem(text.span, format!("'{}' is no mode of a file", text.value), hint);
            }
        }
    }
    if let Some(text) = section.text("unix_group") {
        match Group::from_name(&text.value) {
            Ok(Some(group)) => access.group = Some(group.gid.as_raw()),
            Ok(None) | Err(_) => {
                let hint = "write the name of an existing group, or make it with groupadd";
                section.problem(text.span, format!("there is no group '{}' on this machine", text.value), hint);
            }
        }
    }
    access
}
fn web_origins(section: &Section<'_>, listen: &[StreamAddress]) -> Vec<String> {
    let texts = section.texts("web_origins").unwrap_or_default();
    for text in texts.iter().filter(|text| !is_origin(&text.value)) {
        section.problem(text.span.clone(), format!("'{}' is no origin of web pages", text.value), ORIGIN_HINT);
    }
    if !texts.is_empty() && !listen.iter().any(|address| matches!(address, StreamAddress::WebSocket(_))) {
        let hint = "remove it, or add a WebSocket such as \"ws://127.0.0.1:9696\" there";
        let message = "'web_origins' is for WebSockets, and 'listen' has none";
        section.wrong("web_origins", message, hint);
    }
    texts.into_iter().map(|text| text.value).collect()
}
/// Whether a browser could send this as a page's origin (RFC 6454 §6.2).
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").map_or("", |(_, host)| host);
    let is_legal = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
    !host.is_empty() && !host.contains(['/', '*']) && text.bytes().all(is_legal)
}
/// Whether a family can use an address; a problem if not.
fn may_stream(section: &Section<'_>, span: std::ops::Range<usize>, address: &PeerAddress, family: Family) -> bool {
    let may = !address.is_stream() || family.framing().is_some();
    if !may {
        section.problem(span, format!("'{address}' is a stream, but family {family} runs over UDP"), ADDRESS_HINT);
    }
    may
}

/// Reads `[network]`.
pub(super) fn network(section: Section<'_>, folder: &Path, node: &NodeConfig) -> Option<NetworkConfig> {
    let hint = "write the key that `trib network new` or `trib network show` prints";
    let authority = section.parsed::<PublicKey>("authority", hint);
    section.require(&["authority"], hint);
    let default = NetworkConfig::new(authority.unwrap_or(PublicKey([0; 32])), &node.state_dir);
    let certificate = section.path("certificate", folder).unwrap_or(default.certificate);
    let revoked = section.path("revoked", folder).unwrap_or(default.revoked);
    let access = section.choice("access", &[("closed", Access::Closed), ("open", Access::Open)]).unwrap_or_default();
    let tolerance = duration(&section, "clock_tolerance", Duration::from_secs(60), Duration::from_secs(7 * 86_400));
    let clock_tolerance = tolerance.unwrap_or(default.clock_tolerance);
    if node.security == Security::None {
        let message = "a network with an authority needs protected faces, and [node] has security = \"none\"";
        let hint = "remove 'security' from [node], or write \"authenticated\"";
        section.wrong("authority", message, hint);
    }
    section.finish();
    Some(NetworkConfig { authority: authority?, access, certificate, revoked, clock_tolerance })
}

/// One `[[face]]` of `node` after the earlier ones; keys of its family go into the node's settings.
pub(super) fn face(section: Section<'_>, folder: &Path, node: &mut NodeConfig) -> Option<FaceConfig> {
    let (family, publishes) = (node.family(), node.has_role(Role::Sender));
    let NodeConfig { listen, security, network, state_dir, settings, faces: before, .. } = node;
    let invitation = section.parsed::<Invitation>("peer", PEER_HINT);
    if let Some(Err(error)) = invitation.as_ref().map(|to| NetworkConfig::join(network, to, (family, state_dir))) {
        section.wrong("peer", error.to_string(), "ask whom you know there for another one");
    }
    let (address, invited, invited_until) =
        invitation.map_or((None, None, None), |to| (Some(to.address), to.key, to.until));
    let address = address.filter(|address| may_stream(&section, section.span_of("peer"), address, family));
    let peer = address.as_ref().and_then(PeerAddress::datagrams);
    section.require(&["peer"], "write the neighbour's address, such as peer = \"192.0.2.7:7001\"");
    if address.as_ref().is_some_and(|address| address.port() == Some(0)) {
        section.wrong("peer", "'peer' has port 0", "write the port it listens on");
    }
    let local = local_address(&section, listen, peer);
    let device = section.text("device").map(|text| text.value);
    let mtu = section.integer("mtu", 576..=65_507).map_or(FaceConfig::MTU, |mtu| mtu as u32);
    let base = LinkConfig { mtu, ..LinkConfig::default() };
    let egress = section.section("egress").map(|egress| link::read(egress, base, folder, link::Mtu::Given));
    if address.as_ref().is_some_and(PeerAddress::is_stream) {
        let keys = ["local", "device", "mtu", "egress", "security", "peer_key"];
        for key in keys.into_iter().filter(|key| section.has(key)) {
            let hint = match key {
                "security" | "peer_key" => "remove it; this program does not protect streams",
                _ => "remove it; streams have no datagrams to shape and to cut",
            };
            section.wrong(key, format!("'{key}' is for neighbours over UDP"), hint);
        }
    }
    let rate = link::rate(&section);
    let (peer_key, security) = protection(&section, invited, *security);
    let label = face_label(&section, before);
    let policy = section.section("policy").map(|policy| face_policy(policy, family)).unwrap_or_default();
    settings.of_family_mut().read_face(
        &section,
        &FaceSection {
            id: face_id(before.len()),
            place: address.as_ref().map_or(PeerPlace::Elsewhere, PeerAddress::place),
            is_stream: address.as_ref().is_some_and(PeerAddress::is_stream),
            rate: rate.or_else(|| egress.as_ref()?.rate),
            publishes,
        },
    );
    let face = address.map(|peer| FaceConfig {
        peer,
        local,
        device,
        mtu,
        rate,
        egress,
        security,
        peer_key,
        invited_until,
        label,
        policy,
    });
    if let Some(face) = &face {
        let source = |face: &FaceConfig| face.source(listen, face.peer.datagrams()?);
        let way = |face: &FaceConfig| (face.peer.clone(), face.device.clone(), source(face));
        if before.iter().any(|other| way(other) == way(face)) {
            let hint = "remove one of them, or give each its own 'local' or 'device'";
            section.wrong("peer", format!("{} is a neighbour already", face.peer), hint);
        }
        if let Some((message, hint)) = unreachable(face, listen) {
            section.wrong("peer", message, hint);
        }
    }
    section.finish();
    face
}

/// The address that a face sends from: one of `listen`.
fn local_address(section: &Section<'_>, listen: &[SocketAddr], peer: Option<SocketAddr>) -> Option<SocketAddr> {
    let local = section.parsed::<SocketAddr>("local", ADDRESS_HINT);
    if let Some(local) = local.filter(|local| !listen.is_empty() && !listen.contains(local)) {
        let known: Vec<_> = listen.iter().map(ToString::to_string).collect();
        let hint = format!("listen has {}; add it there", known.join(", "));
        section.wrong("local", format!("{local} is not in 'listen' of [node]"), hint);
    }
    if let (Some(peer), None) = (peer, local)
        && !listen.is_empty()
        && !listen.iter().any(|address| address.is_ipv4() == peer.is_ipv4())
    {
        let kind = if peer.is_ipv4() { "IPv4" } else { "IPv6" };
        let hint = format!("add an {kind} address to 'listen' of [node]");
        section.wrong("peer", format!("{peer} is {kind}, but 'listen' has no {kind} address"), hint);
    }
    local
}

/// The key that a neighbour has to prove, and the protection of the face, in a node with this one.
fn protection(section: &Section<'_>, invited: Option<PublicKey>, security: Security) -> (Option<PublicKey>, Security) {
    let peer_key = section.parsed::<PublicKey>("peer_key", "write the key that `trib status` of the neighbour shows");
    if peer_key.is_some() && invited.is_some_and(|invited| Some(invited) != peer_key) {
        let message = "'peer_key' is another key than that of the invitation in 'peer'";
        section.wrong("peer_key", message, "remove one of them");
    }
    let peer_key = peer_key.or(invited);
    let of_face = section.choice("security", &Security::ALL);
    let of_face = of_face.unwrap_or_else(|| secured(security, peer_key.as_ref()));
    if security == Security::None && of_face != Security::None {
        let hint = "write security = \"encrypted\" in [node], and \"none\" at the others";
        let message = "[node] has security = \"none\", so that no face is protected";
        section.wrong("security", message, hint);
    }
    let is_required = matches!(of_face, Security::Encrypted | Security::Authenticated);
    if peer_key.is_some() && !is_required {
        let hint = "write security = \"encrypted\" here".to_string();
        let span = section.span_of(if section.has("peer_key") { "peer_key" } else { "peer" });
        section.problem(span, "a neighbour with a key needs a face that is protected", hint);
    }
    (peer_key, of_face)
}

/// The protection of a face without its own setting: the holder of a key can prove it.
pub(super) fn secured(security: Security, peer_key: Option<&PublicKey>) -> Security {
    if peer_key.is_some() && security == Security::Preferred { Security::Encrypted } else { security }
}

/// Reads the label of a face, which no other has.
fn face_label(section: &Section<'_>, before: &[FaceConfig]) -> Option<String> {
    let label = section.text("label").map(|text| text.value);
    if let Some(label) = label.as_deref()
        && (label.is_empty()
            || label.starts_with("face-")
            || before.iter().any(|other| other.label.as_deref() == Some(label)))
    {
        let hint = "write a word that no other face has, such as label = \"fibre\"";
        section.wrong("label", format!("'{label}' cannot tell this face from others"), hint);
    }
    label
}

/// Reads `[face.policy]`.
fn face_policy(section: Section<'_>, family: Family) -> FacePolicyConfig {
    let bytes = size(&section, "quota", 1, 1 << 60);
    let per = section.choice("quota_per", &QuotaPeriod::ALL);
    let at_end = section.choice("quota_end", &QuotaEnd::ALL);
    for key in ["quota_per", "quota_end"].into_iter().filter(|key| bytes.is_none() && section.has(key)) {
        section.wrong(key, format!("'{key}' needs 'quota'"), "write how many bytes, such as quota = \"20GiB\"");
    }
    let quota = bytes.map(|bytes| Quota {
        bytes,
        per: per.unwrap_or(QuotaPeriod::Month),
        at_end: at_end.unwrap_or(QuotaEnd::Stop),
    });
    let mut schedule = Vec::new();
    for part in section.sections("schedule") {
        if family.profile().delivery != Delivery::Multipath {
            let hint = "write 'rate' in [limits], which limits all fetches together";
            let message = format!("nodes of family {family} do not limit single faces: routers choose the paths");
            section.wrong("schedule", message, hint);
        }
        let [from, to] = ["from", "to"].map(|key| {
            part.declare(key, || vec!["00:00 to 24:00".into()]);
            part.read(key, "write a time of day such as \"08:30\"", minute_of_day)
        });
        let rate = part.read("rate", RATE_HINT, str::parse::<Rate>);
        part.require(&["from", "to", "rate"], "a limit has 'from', 'to' and 'rate'");
        if let (Some(from), Some(to), Some(rate)) = (from, to, rate) {
            schedule.push(ScheduledRate { from, to, rate });
        }
        part.finish();
    }
    let policy = FacePolicyConfig {
        cost: section.integer("cost", 0..=u64::from(u32::MAX)).map_or(0, |cost| cost as u32),
        is_backup: section.flag("backup").unwrap_or(false),
        quota,
        schedule,
    };
    section.finish();
    policy
}

/// The minute of a day, from a text such as `08:30`; `24:00` is its end.
fn minute_of_day(text: &str) -> Result<u16, String> {
    let wrong = || format!("'{text}' is no time of day from 00:00 to 24:00");
    let number = |digits: &str| match digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse::<u16>().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let (hour, minute) = (number(hour)?, number(minute)?);
    if minute < 60 && hour * 60 + minute <= 24 * 60 { Ok(hour * 60 + minute) } else { Err(wrong()) }
}

/// Why no datagram can reach this neighbour and return, in any network, and the remedy.
pub(super) fn unreachable(face: &FaceConfig, listen: &[SocketAddr]) -> Option<(String, String)> {
    let peer = face.peer.datagrams()?;
    let is_itself = |own: &SocketAddr| {
        let is_ip =
            own.ip() == peer.ip() || own.ip().is_unspecified() && own.is_ipv4() == peer.is_ipv4() && is_own(peer.ip());
        own.port() == peer.port() && own.port() != 0 && is_ip
    };
    if let Some(own) = listen.iter().find(|own| is_itself(own)) {
        let message = format!("{peer} is this node itself: 'listen' of [node] has {own}");
        return Some((message, "write the address of another node, or remove this [[face]]".into()));
    }
    let source = face.source(listen, peer)?;
    if source.ip().is_loopback() && !is_own(peer.ip()) {
        let all = if peer.is_ipv4() { "0.0.0.0" } else { "[::]" };
        let message = format!("{peer} is on another machine, which nothing reaches from {source}");
        let hint = format!("write listen = [\"{all}:{}\"] in [node] to use all interfaces", source.port());
        return Some((message, hint));
    }
    None
}

/// One `[[blind]]` after those before.
pub(super) fn blind(section: Section<'_>, folder: &Path, blind: &mut BTreeMap<Name, BlindingKey>) {
    let prefix: Option<Name> = section.parsed("prefix", "write a name such as \"/lab\"");
    let file = section.path("file", folder);
    section.require(&["prefix", "file"], "each [[blind]] has a prefix and the file of a key");
    let secret = file.and_then(|file| section.kept("file", read_secret(&file), SECRET_HINT));
    let key = secret.map(|secret| BlindingKey::from_secret(&secret));
    if let (Some(prefix), Some(key)) = (prefix, key)
        && blind.insert(prefix, key).is_some()
    {
        section.wrong("prefix", "there is another key for this prefix", "write another prefix");
    }
    section.finish();
}

/// One `[[trust]]` after those before.
pub(super) fn trust(section: Section<'_>, blind: &BTreeMap<Name, BlindingKey>, trust: &mut Keys) {
    let prefix: Option<Name> = section.parsed("prefix", "write a name such as \"/lab\"");
    let publisher: Option<PublicKey> =
        section.parsed("publisher", "`trib key show` prints it, ed25519:…, where the publisher is");
    section.require(&["prefix", "publisher"], "each [[trust]] has a prefix and a publisher's key");
    // Objects below it have blinded names.
    let prefix = prefix.and_then(|prefix| published_name(blind, &prefix).ok());
    if let (Some(prefix), Some(publisher)) = (prefix, publisher)
        && trust.insert(prefix, publisher).is_some()
    {
        section.wrong("prefix", "there is another publisher for this prefix", "write another prefix");
    }
    section.finish();
}

/// One `[[key_group]]` after those before.
pub(super) fn key_group(section: Section<'_>, groups: &mut BTreeMap<String, Vec<PublicKey>>) {
    let (label, keys) = (section.text("label"), section.texts("keys"));
    section.require(&["label", "keys"], "each [[key_group]] has a label and keys");
    let members = section.keys(keys, READER_HINT);
    if let Some(label) = label {
        let problem = if groups.contains_key(&label.value) {
            Some("there is another group of this label")
        } else if label.value.is_empty() || label.value.starts_with("ed25519:") || label.value.contains('/') {
            Some("a label is a word such as \"lab\"")
        } else {
            None
        };
        match problem {
            Some(reason) => {
                section.problem(label.span, reason, "write another label");
            }
            None => drop(groups.insert(label.value, members)),
        }
    }
    section.finish();
}
pub(super) const READER_HINT: &str = "`trib key show` prints a reader's key, ed25519:…, where the reader is";

/// Reads `[transfer]`.
pub(super) fn transfer(section: Section<'_>, transfer: &mut TransferConfig, fetch: &mut FetchConfig) {
    let controllers = [
        ("loss-based", ControllerKind::LossBased),
        ("path-specified", ControllerKind::PathSpecified),
        ("model-based", ControllerKind::ModelBased),
    ];
    let couplings = [
        ("uncoupled", Coupling::Uncoupled),
        ("linked-increase", Coupling::LinkedIncrease),
        ("linked-increase-compensated", Coupling::LinkedIncreaseCompensated),
        ("normalised", Coupling::Normalised),
    ];
    transfer.controller = section.choice("controller", &controllers).unwrap_or(transfer.controller);
    transfer.coupling = section.choice("coupling", &couplings).unwrap_or(transfer.coupling);
    section.set_integer("request_packets_max", 1..=64, &mut transfer.request_packets_max);
    let millisecond = Duration::from_millis(1);
    set_duration(
        &section,
        "request_duration",
        (Duration::from_micros(1), Duration::from_secs(1)),
        &mut transfer.request_duration,
    );
    if let Some(watches) = section.flag("watch_rivals") {
        transfer.watch_rivals = watches;
    }
    section.set_integer("window_initial_packets", 1..=256, &mut transfer.window_initial_packets);
    set_size(&section, "window_bytes_max", (64 << 10, 1 << 32), &mut transfer.window_bytes_max);
    set_duration(&section, "rto_min", (millisecond, Duration::from_secs(60)), &mut transfer.rto_min);
    set_duration(&section, "rto_initial", (millisecond, Duration::from_secs(60)), &mut transfer.rto_initial);
    set_duration(&section, "rto_max", (millisecond, Duration::from_secs(600)), &mut transfer.rto_max);
    set_duration(
        &section,
        "probe_interval_max",
        (millisecond, Duration::from_secs(600)),
        &mut transfer.probe_interval_max,
    );
    section.set_integer("reorder_packets", 1..=1000, &mut transfer.reorder_packets);
    set_size(&section, "assembly_bytes_max", (1 << 20, 1 << 40), &mut transfer.assembly_bytes_max);
    set_size(&section, "storing_bytes_max", (1, 1 << 40), &mut transfer.storing_bytes_max);
    if let Some(bytes) = section.integer("packet_bytes", 64..=60_000) {
        transfer.packet_bytes = Some(bytes as u16);
    }
    section.set_integer("paths_per_source", 1..=16, &mut fetch.paths_per_source);
    fetch.metric = section.choice("metric", &PathMetric::ALL).unwrap_or(fetch.metric);
    set_duration(&section, "patience", (Duration::from_millis(100), Duration::from_secs(86_400)), &mut fetch.patience);
    // Checks the relations between fields; each single field is in range here.
    if let Err(error) = transfer.check() {
        section.wrong(error.field, format!("'{}' is out of range", error.field), format!("it must be {}", error.range));
    }
    section.finish();
}

/// Reads `[limits]`.
pub(super) fn limits(section: Section<'_>) -> Limits {
    let mut limits = Limits { rate: section.parsed("rate", RATE_HINT), ..Limits::default() };
    section.set_integer("control_clients", 1..=1_000, &mut limits.control_clients);
    set_size(&section, "control_line_size", (4 << 10, 16 << 20), &mut limits.control_line_bytes);
    section.set_integer("publications", 1..=1_000_000, &mut limits.publications);
    section.set_integer("transfers", 1..=10_000, &mut limits.transfers);
    section.set_integer("queue_transfers", 1..=10_000, &mut limits.queue_transfers);
    section.set_integer("lookups", 16..=65_536, &mut limits.lookups);
    if limits.rate == Some(Rate::from_bits_per_second(0)) {
        section.wrong("rate", "'rate' of [limits] is zero: nothing would pass", "leave 'rate' out for no limit");
    }
    section.finish();
    limits
}

/// Reads `[http]`.
pub(super) fn http(section: Section<'_>, folder: &Path, state_dir: &Path) -> Option<HttpConfig> {
    let hint = "write a host's address and a port, such as listen = \"127.0.0.1:8080\"";
    let listen = section.parsed::<SocketAddr>("listen", hint);
    section.require(&["listen"], hint);
    let cache = section.path("cache", folder).unwrap_or_else(|| state_dir.join("http"));
    let mut http = HttpConfig::new(listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0))), cache);
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    set_duration(&section, "cache_age", (second, day * 3_650), &mut http.cache_age_max);
    set_duration(&section, "patience", (second, day), &mut http.patience);
    set_duration(&section, "fresh", (Duration::ZERO, day * 365), &mut http.fresh);
    set_duration(&section, "head_timeout", (second, day), &mut http.head_timeout);
    set_size(&section, "cache_size", (1 << 20, 1 << 50), &mut http.cache_bytes_max);
    set_size(&section, "cache_reserve", (0, 1 << 50), &mut http.cache_reserve_bytes);
    set_size(&section, "read_ahead", (64 << 10, 1 << 30), &mut http.read_ahead_bytes);
    section.set_integer("connections", 1..=100_000, &mut http.connections_max);
    http.api = section.flag("api").unwrap_or(http.api);
    set_size(&section, "upload_size", (1 << 10, 1 << 50), &mut http.upload_bytes_max);
    http.token_file = section.path("token_file", folder);
    http.cross_site = section.flag("cross_site").unwrap_or(http.cross_site);
    http.hosts = section.texts("hosts").unwrap_or_default().into_iter().map(|host| host.value).collect();
    for mirror in section.sections("mirror") {
        let (host, name) =
            (mirror.text("host"), mirror.parsed::<Name>("name", "write a name such as \"/mirror/debian\""));
        mirror.require(&["host", "name"], "each mirror has a host and a name");
        if let (Some(host), Some(name)) = (host, name) {
            http.mirrors.push(HttpMirror { host: host.value, name });
        }
        mirror.finish();
    }
    section.finish();
    Some(http)
}

/// One `[[origin]]`.
pub(super) fn origin(section: Section<'_>) -> Option<HttpOrigin> {
    let hint = "write an address such as \"https://index.example.org\", without a question mark";
    let url = |text: &str| {
        let url =
            text.trim_end_matches('/').parse::<Url>().map_err(|error| format!("'{text}' is no address: {error}"))?;
        let is_plain = matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none();
        is_plain.then_some(url).ok_or_else(|| format!("'{text}' is no address of a web server"))
    };
    let first = section.read("url", hint, url);
    let mirrors = section.texts("mirrors").unwrap_or_default();
    let mirrors: Vec<Url> = mirrors
        .into_iter()
        .filter_map(|text| url(&text.value).map_err(|why| section.problem(text.span, why, hint)).ok())
        .collect();
    section.require(&["url"], hint);
    let host = section.text("host").map(|host| host.value);
    let path = section.text("path").map(|path| path.value.trim_end_matches('/').to_string());
    if path.as_ref().is_some_and(|path| !path.is_empty() && !path.starts_with('/') || path.contains(['%', '?', '#'])) {
        section.wrong("path", "'path' is no path", "write it as clients request it, such as path = \"/pypi\"");
    }
    if path.is_none() && host.is_none() && first.is_some() {
        let hint = "write path = \"/pypi\", or host = \"deb.example.org\" for clients that use the gateway as a proxy";
        section.missing("path", hint);
        return None;
    }
    let named = section.parsed::<Name>("name", "write a name such as \"/origin/pypi\"");
    let usual = || format!("/origin/{}", first.as_ref()?.host_str()?).parse().ok();
    let (mut fresh, mut stale) = (Duration::from_secs(60), Duration::from_secs(7 * 86_400));
    let mut peer_patience = Duration::from_millis(500);
    let year = Duration::from_secs(365 * 86_400);
    set_duration(&section, "fresh", (Duration::ZERO, year), &mut fresh);
    set_duration(&section, "stale", (Duration::ZERO, year), &mut stale);
    set_duration(&section, "peer_patience", (Duration::ZERO, Duration::from_secs(60)), &mut peer_patience);
    let mut replace = Vec::new();
    for part in section.sections("replace") {
        let (from, to) = (part.text("from"), part.text("to"));
        part.require(&["from", "to"], "a replacement has 'from' and 'to'");
        let pair = from.filter(|from| !from.value.is_empty()).zip(to);
        replace.extend(pair.map(|(from, to)| (from.value, to.value)));
        part.finish();
    }
    let origin = HttpOrigin {
        replace,
        host,
        path: path.unwrap_or_default(),
        hosts: section.texts("hosts").unwrap_or_default().into_iter().map(|host| host.value).collect(),
        kind: section.choice("kind", &OriginKind::ALL).unwrap_or_default(),
        name: named.or_else(usual).unwrap_or_else(Name::root),
        urls: first.into_iter().chain(mirrors).collect(),
        fresh,
        stale,
        peer_patience,
    };
    section.finish();
    Some(origin).filter(|origin| !origin.urls.is_empty())
}

/// Reads `[site]` of a node with or without a network that admits nodes.
pub(super) fn site(section: Section<'_>, has_network: bool) -> SiteConfig {
    let mut site = SiteConfig::default();
    if let Some(name) = section.text("name") {
        if name.value.is_empty() || name.value.len() > LABEL_BYTES_MAX || name.value.contains(printable::is_unsafe) {
            let hint = format!("write 1 to {LABEL_BYTES_MAX} bytes, such as name = \"lab\"");
            section.wrong("name", "'name' cannot be shown to other members", &hint);
        }
        site.name = name.value;
    }
    site.access = section.choice("access", &[("closed", Access::Closed), ("open", Access::Open)]).unwrap_or_default();
    for text in section.texts("peers").unwrap_or_default() {
        let peer = section.parse::<Invitation>("peers", &text, PEER_HINT);
        let is_stream = peer.as_ref().is_some_and(|peer| peer.address.is_stream());
        if is_stream {
            section.problem(text.span, "members are named by the addresses of their nodes over UDP", PEER_HINT);
        }
        site.peers.extend(peer.filter(|_| !is_stream));
    }
    site.discovery = section.flag("discovery").unwrap_or(site.discovery);
    if site.admits_none(has_network) {
        let hint = "invite each member: add [network], or members' lines of `trib invite` to 'peers'; or write access = \"open\" \
            where everybody on the segment is trusted";
        section.missing("access", hint);
    }
    section.finish();
    site
}

/// Reads `[serve]`.
pub(super) fn serve(section: Section<'_>) -> ServeConfig {
    let serve = ServeConfig {
        fetched: section.flag("fetched").unwrap_or(false),
        bytes_max: size(&section, "size_max", 1, 1 << 50),
        age_max: duration(&section, "age_max", Duration::from_secs(1), Duration::from_secs(366 * 24 * 3_600)),
    };
    section.finish();
    serve
}

/// Reads `[mirrors]`.
pub(super) fn mirrors(section: Section<'_>) -> MirrorsConfig {
    let usual = MirrorsConfig::default();
    let mirrors = MirrorsConfig {
        used: section.flag("use").unwrap_or(usual.used),
        private: section.flag("private").unwrap_or(usual.private),
    };
    section.finish();
    mirrors
}

/// Reads `[faults]`.
pub(super) fn faults(section: Section<'_>) -> Faults {
    let faults = Faults {
        corrupt_chunks: section.share("corrupt_chunks").unwrap_or(0.0),
        corrupt_cache: section.share("corrupt_cache").unwrap_or(0.0),
    };
    section.finish();
    faults
}
