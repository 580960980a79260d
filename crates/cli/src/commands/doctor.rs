//! `trib doctor`: the obstacles of nodes on this machine, and their remedies.
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::Command,
};
use tributary::{
    Api, ApiError, ErrorKind, LocalApi, NodeConfig, Notice, Request, SocketApi, control::find_controls, time_of_day,
    views::StatusView,
};
use tributary_core::{ByteCount, Duration};

use super::{answer::print, daemons, executor::LOOK, load::load};
use crate::{args, tables};

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    /// All is well, or there is no finding.
    Ok,
    /// It works, but not as well as it could, or not for everybody.
    Warning,
    /// Something does not work.
    Problem,
}
impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        }
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    subject: String,
    state: State,
    text: String,
    hint: Option<String>,
}
fn finding(subject: impl Into<String>, state: State, text: impl Into<String>) -> Finding {
    Finding { subject: subject.into(), state, text: text.into(), hint: None }
}
impl Finding {
    fn with_hint(self, hint: impl Into<String>) -> Self {
        Finding { hint: Some(hint.into()), ..self }
    }
    fn notice(&self) -> Notice {
        Notice::Check {
            subject: self.subject.clone(),
            state: self.state.word().into(),
            text: self.text.clone(),
            hint: self.hint.clone(),
        }
    }
}

/// Examines this machine, its running daemons, or the node of a config. Fails if there is a problem.
pub(crate) fn run(doctor: &args::Doctor, json: bool) -> Result<(), ApiError> {
    let mut problems = 0;
    let mut show = |findings: Vec<Finding>| {
        for finding in findings {
            problems += usize::from(finding.state == State::Problem);
            print(&finding.notice(), json);
        }
    };
    show(vec![buffers(), clock(), devices()]);
    match &doctor.config {
        Some(path) => {
            let config = load(path)?;
            show(config.warnings().into_iter().map(|text| finding("config", State::Warning, text)).collect());
            // A service has its state elsewhere than this user's nodes.
            let of_label = find_controls(Some(Path::new(&config.label))).unwrap_or_default();
            let mut sockets = std::iter::once(&config.control).chain(&of_label);
            match sockets.find_map(|socket| SocketApi::open(socket).ok()) {
                Some(running) => show(of_node(&running, true)?),
                None => show(of_config(config)?),
            }
        }
        None => match daemons::all(&doctor.control) {
            Ok(nodes) => {
                for node in &nodes {
                    show(of_node(&node.api, true)?);
                }
            }
            Err(error) if doctor.control.control.is_none() && error.kind == ErrorKind::Gone => {
                let text = "no daemon runs here, so only the machine was examined";
                show(vec![finding("nodes", State::Ok, text).with_hint("examine a node with --config FILE")]);
            }
            Err(error) => return Err(error),
        },
    }
    match problems {
        0 => Ok(()),
        count => {
            let message = format!("{} found", tributary::views::counted(count, "problem"));
            Err(ApiError::new(ErrorKind::Incomplete, message).with_hint("each of them has a hint"))
        }
    }
}

/// Whether the kernel grants sockets the buffers that fast transfers need.
fn buffers() -> Finding {
    let limit = |kind: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/core/{kind}_max")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let Some((receive, send)) = limit("rmem").zip(limit("wmem")) else {
        return finding("buffers", State::Ok, "the kernel does not tell its limits");
    };
    let text = format!("sockets may have {} to receive and {} to send", ByteCount(receive), ByteCount(send));
    if receive.min(send) >= BUFFER_BYTES {
        return finding("buffers", State::Ok, text);
    }
    let hint = format!(
        "fast transfers lose packets with less than {}: sysctl -w net.core.rmem_max={BUFFER_BYTES} net.core.wmem_max={BUFFER_BYTES}, \
         and the same lines in /etc/sysctl.d/60-tributary.conf",
        ByteCount(BUFFER_BYTES)
    );
    finding("buffers", State::Warning, text).with_hint(hint)
}
/// Whether the clock can be right: certificates and versions depend on it.
fn clock() -> Finding {
    let now = time_of_day();
    if now.0 < CLOCK_MIN {
        let text = format!("this machine's clock shows {now}");
        return finding("clock", State::Problem, text).with_hint("set the clock: certificates count as not valid yet");
    }
    let printed = Command::new("timedatectl").args(["show", "--property=NTPSynchronized", "--value"]).output();
    let answer = printed.ok().filter(|output| output.status.success());
    match answer.map(|output| String::from_utf8_lossy(&output.stdout).trim() == "yes") {
        Some(true) => finding("clock", State::Ok, format!("it is {now}, synchronised")),
        Some(false) => finding("clock", State::Warning, format!("it is {now}, not synchronised"))
            .with_hint("timedatectl set-ntp true; a clock that runs off makes certificates end early or late"),
        None => finding("clock", State::Ok, format!("it is {now}; whether it is synchronised is not known")),
    }
}
/// Whether the devices carry packets of the usual size.
fn devices() -> Finding {
    let entries = fs::read_dir("/sys/class/net").map(|entries| entries.flatten().collect::<Vec<_>>());
    let mtu = |entry: &fs::DirEntry| -> Option<(String, u32)> {
        let mtu = fs::read_to_string(entry.path().join("mtu")).ok()?.trim().parse().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), mtu))
    };
    let mut devices: Vec<_> = entries.unwrap_or_default().iter().filter_map(mtu).collect();
    devices.sort();
    let narrow: Vec<_> = devices.iter().filter(|(_, mtu)| *mtu < MTU_MIN).collect();
    match &narrow[..] {
        [] if devices.is_empty() => finding("mtu", State::Ok, "the devices are not shown here"),
        [] => {
            let words: Vec<_> = devices.iter().map(|(device, mtu)| format!("{device} {mtu}")).collect();
            finding("mtu", State::Ok, format!("packets of devices: {} bytes", words.join(", ")))
        }
        [(device, mtu), ..] => {
            finding("mtu", State::Warning, format!("{device} carries packets of {mtu} bytes, less than {MTU_MIN}"))
                .with_hint(format!("ip link set {device} mtu {MTU_MIN}, or expect more packets for the same bytes"))
        }
    }
}

/// The state of a running node's neighbours and resolvers.
fn of_node(api: &dyn Api, is_daemon: bool) -> Result<Vec<Finding>, ApiError> {
    let status = daemons::status(api)?;
    let label = &status.label;
    let mut findings = Vec::new();
    if is_daemon {
        let program = env!("CARGO_PKG_VERSION");
        findings.push(match status.version == program {
            true => finding(
                label,
                State::Ok,
                format!("runs version {program}, up for {}", tables::uptime(status.uptime_seconds)),
            ),
            false => {
                finding(label, State::Warning, format!("runs version {}, this program is {program}", status.version))
                    .with_hint(format!("start the daemon again: systemctl restart tributary@{label}"))
            }
        });
    }
    let shortfall = status.counters.get("driver: socket buffer shortfall in bytes").copied().unwrap_or(0);
    if shortfall > 0 {
        let text = format!("its sockets have {} less buffer than they asked for", ByteCount(shortfall));
        findings.push(finding(label, State::Warning, text).with_hint("raise the limits as in the line 'buffers'"));
    }
    findings.extend(faces(&status));
    findings.extend(
        firewall(&status.listen).map(|found| Finding { subject: format!("{label}: {}", found.subject), ..found }),
    );
    if status.faces.iter().any(|face| face.up) {
        findings.extend(resolvers(api, &status));
    }
    Ok(findings)
}
/// Whether the neighbours answer, and the packet sizes that reach them.
fn faces(status: &StatusView) -> Vec<Finding> {
    let label = &status.label;
    if status.faces.is_empty() {
        let text = "it has no neighbours: none are in its config, and none came to it";
        return vec![finding(label, State::Ok, text)];
    }
    let one = |face: &tributary::views::FaceView| {
        let subject = format!("{label}: {}", face.id);
        let who = if face.neighbour.is_empty() { "a neighbour without a name" } else { &face.neighbour };
        match (face.up, &face.problem) {
            (true, _) => match face.mtu.filter(|mtu| *mtu < MTU_MIN - HEADERS_BYTES) {
                None => finding(subject, State::Ok, format!("'{who}' answers")),
                Some(mtu) => finding(subject, State::Warning, format!("datagrams of only {mtu} bytes reach '{who}'"))
                    .with_hint(
                        "a tunnel or a firewall on the way drops larger ones; transfers work, with more packets",
                    ),
            },
            // A command that ran a node for a moment, for example.
            (false, _) if face.unsolicited => finding(subject, State::Ok, format!("'{who}' came, and has left")),
            (false, Some(problem)) => finding(subject, State::Problem, format!("'{who}' cannot be reached: {problem}"))
                .with_hint(UNREACHED_HINT),
            (false, None) if face.received_packets == 0 => {
                let text = format!("'{who}' is silent: {} packets were sent, none came back", face.sent_packets);
                finding(subject, State::Problem, text).with_hint(UNREACHED_HINT)
            }
            (false, None) => finding(subject, State::Problem, format!("'{who}' no longer answers"))
                .with_hint("it has stopped, or the network between has changed"),
        }
    };
    status.faces.iter().map(one).collect()
}
/// Whether the resolvers of names answer.
fn resolvers(api: &dyn Api, status: &StatusView) -> Option<Finding> {
    let family: tributary::Family = status.family.parse().ok()?;
    if !family.profile().abilities.listing {
        return None;
    }
    let request = Request::List { scope: "/".into(), patience_ms: RESOLVER_PATIENCE_MS };
    let subject = format!("{}: names", status.label);
    Some(match api.answers(request) {
        Ok(_) => finding(subject, State::Ok, "the network resolves names"),
        Err(error) if error.kind == ErrorKind::NotFound => finding(subject, State::Ok, "the network resolves names"),
        Err(error) => {
            let hint = error
                .hint
                .unwrap_or_else(|| "does a node of the network have the role resolver, and can it be reached?".into());
            finding(subject, State::Problem, format!("names cannot be resolved: {}", error.message)).with_hint(hint)
        }
    })
}
/// Whether the firewall of this machine drops packets to a node's ports, as far as nft shows it, which needs root.
fn firewall(listen: &[String]) -> Option<Finding> {
    let rules = Command::new("nft").args(["list", "ruleset"]).output().ok().filter(|output| output.status.success())?;
    let ports = listen.iter().filter_map(|text| text.parse::<SocketAddr>().ok()).map(|address| address.port());
    dropped(&String::from_utf8_lossy(&rules.stdout), &ports.collect::<Vec<_>>())
}
/// The ports whose incoming packets the rules drop without an exception.
fn dropped(rules: &str, ports: &[u16]) -> Option<Finding> {
    let drops = rules.lines().any(|line| line.contains("hook input") && line.contains("policy drop"));
    let is_named = |port: &u16| {
        let accepting = rules.lines().filter(|line| line.contains("dport") && line.contains("accept"));
        let words =
            |line: &str| line.split(|c: char| !c.is_ascii_digit() && c != '-').map(String::from).collect::<Vec<_>>();
        accepting.flat_map(words).any(|word| match word.split_once('-') {
            Some((first, last)) => {
                first.parse::<u16>().is_ok_and(|first| first <= *port)
                    && last.parse::<u16>().is_ok_and(|last| *port <= last)
            }
            None => word.parse() == Ok(*port),
        })
    };
    let blocked: Vec<_> = ports.iter().filter(|port| drops && !is_named(port)).map(ToString::to_string).collect();
    if blocked.is_empty() {
        return None;
    }
    let text = format!("the firewall drops what arrives, and no rule accepts port {}", blocked.join(", "));
    let hint = format!(
        "neighbours that come to this node need: nft add rule inet filter input udp dport {} accept",
        blocked[0]
    );
    Some(finding("firewall", State::Warning, text).with_hint(hint))
}

/// Whether the node of a config could run: its ports are free, and neighbours answer it.
fn of_config(config: NodeConfig) -> Result<Vec<Finding>, ApiError> {
    let label = config.label.clone();
    let mut findings = Vec::new();
    for address in config.listen.iter().filter(|address| address.port() != 0) {
        if let Err(error) = UdpSocket::bind(address) {
            let hint = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    format!("another program has the port: ss -ulpn 'sport = :{}'", address.port())
                }
                std::io::ErrorKind::AddrNotAvailable => "no device of this machine has the address: ip address".into(),
                std::io::ErrorKind::PermissionDenied => "ports below 1024 take root, or CAP_NET_BIND_SERVICE".into(),
                _ => "see `listen` in its config".into(),
            };
            findings
                .push(finding(&label, State::Problem, format!("cannot listen on {address}: {error}")).with_hint(hint));
        }
    }
    if let Err(error) = writable(&config.state_dir) {
        let text = format!("cannot write its state to '{}': {error}", config.state_dir.display());
        findings.push(finding(&label, State::Problem, text).with_hint("as which user does it run?"));
    }
    if !findings.is_empty() {
        return Ok(findings);
    }
    let has_neighbours = !config.faces.is_empty();
    let api = LocalApi::start(config)?;
    let mut waited = Duration::ZERO;
    while has_neighbours && waited < NEIGHBOUR_PATIENCE && !api.wait_for_neighbour(LOOK)? {
        waited += LOOK;
    }
    findings.push(finding(&label, State::Ok, "it starts"));
    findings.extend(of_node(&api, false)?);
    api.stop()?;
    Ok(findings)
}
fn writable(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    tempfile::tempfile_in(folder).map(drop)
}

/// What to check when a neighbour is silent.
const UNREACHED_HINT: &str = "does a node listen there (`trib status` on that machine)? does a route lead there (ip route get \
    ADDRESS)? do the firewalls of both machines and between them let its UDP port pass? have both the same keys and `security`?";
/// Buffer size that a node requests for each of its sockets.
const BUFFER_BYTES: u64 = 8 << 20;
/// What every link of IPv6 carries (RFC 8200 §5).
const MTU_MIN: u32 = 1_280;
/// IPv6, UDP, and space for a tunnel's header: nodes start with 1,200 bytes, as QUIC does (RFC 9000 §14), and probe for
/// more.
const HEADERS_BYTES: u32 = 80;
/// A clock before 2025 has lost its time.
const CLOCK_MIN: u64 = 1_735_689_600;
const RESOLVER_PATIENCE_MS: u64 = 3_000;
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firewall_that_drops_is_reported_for_the_ports_that_no_rule_accepts() {
        let open =
            "table inet filter {\n chain input {\n type filter hook input priority filter; policy accept;\n }\n}\n";
        assert_eq!(dropped(open, &[7001]), None);
        let closed = open.replace("policy accept;", "policy drop;\n udp dport { 53, 6000-6999 } accept");
        let found = dropped(&closed, &[6363, 53, 7001]).expect("7001 is dropped");
        assert!(found.text.ends_with("no rule accepts port 7001"), "{found:?}");
        assert!(found.hint.is_some_and(|hint| hint.contains("udp dport 7001 accept")));
        let opened = closed.replace("53,", "53, 7001,");
        assert_eq!(dropped(&opened, &[6363, 53, 7001]), None);
    }

    #[test]
    fn silent_neighbours_are_problems_that_say_what_to_do() {
        let face = |up, received_packets, problem: Option<&str>| tributary::views::FaceView {
            id: "face-1".into(),
            neighbour: "192.0.2.7:7001".into(),
            up,
            received_packets,
            problem: problem.map(String::from),
            mtu: Some(1_400),
            ..Default::default()
        };
        let left = tributary::views::FaceView { unsolicited: true, ..face(false, 5, None) };
        for (face, state, words) in [
            (left, State::Ok, "has left"),
            (face(true, 9, None), State::Ok, "answers"),
            (face(false, 0, None), State::Problem, "none came back"),
            (face(false, 5, None), State::Problem, "no longer answers"),
            (face(false, 0, Some("Network is unreachable")), State::Problem, "Network is unreachable"),
        ] {
            let status = StatusView { faces: vec![face], ..StatusView::default() };
            let found = faces(&status);
            assert_eq!(found[0].state, state, "{found:?}");
            assert!(found[0].text.contains(words), "{found:?}");
            assert_eq!(found[0].hint.is_none(), state == State::Ok, "{found:?}");
        }
    }
}
