//! Answers in words and tables, for a person.
use tributary::{
    Family, Notice,
    config::QuotaPeriod,
    families::Delivery,
    views::{
        CacheView, DoneView, EchoView, FaceView, GrantView, GroupView, HeldView, MemberView, PathView, PingedPathView,
        PingedView, ProgressView, ReceivedView, RouteView, RttView, SentView, StatusView, StoreView, StrategyView,
        counted,
    },
};
use tributary_core::ByteCount;
use tributary_terminal::table::{plain, row, table};
use tributary_trust::UnixTime;

/// The lines for an answer.
pub(crate) fn answer(notice: &Notice) -> Vec<String> {
    words(notice).iter().map(|line| plain(line)).collect()
}
fn words(notice: &Notice) -> Vec<String> {
    match notice {
        Notice::Status(status) => self::status(status),
        Notice::Paths { transfer, name, paths } => {
            let mut lines = vec![format!("{transfer} fetches '{name}' over {}:", counted(paths.len(), "path"))];
            lines.extend(self::paths(paths));
            lines
        }
        Notice::Explanation { lines, .. } => lines.clone(),
        Notice::Cache(cache) => self::cache(cache),
        Notice::Done(done) => self::done(done),
        Notice::Ready { label, family, roles, listen, control, publisher, invitation, http: _ } => {
            let mut lines = vec![
                format!("node '{label}' ({family}: {}) listens on {}", roles.join(", "), listen.join(", ")),
                format!("  control socket {control}"),
                format!("  publishes with key {publisher}"),
            ];
            lines.extend(invitation.iter().map(|line| format!("  others connect with --peer {line}")));
            lines
        }
        Notice::Published { name, bytes, version, publisher, reference, confirmed } => {
            let what = published(*confirmed, name, *bytes, *version, publisher);
            vec![what, format!("  others fetch it with trib get '{reference}'")]
        }
        Notice::Unpublished { name } => vec![format!("'{name}' is withdrawn")],
        Notice::Entry { name, kind, .. } if kind == "scope" => vec![format!("{name}/")],
        Notice::Entry { name, publishers, bytes, .. } => {
            vec![format!("{name}  {}  {}", ByteCount(*bytes), counted(*publishers, "source"))]
        }
        Notice::Sending(sent) => vec![sending(sent)],
        Notice::Sent(sent) => self::sent(sent),
        Notice::Receiving { id, names } if names.is_empty() => vec![format!("receives messages to {id}")],
        Notice::Receiving { id, names } => vec![format!("receives messages to {} or {id}", names.join(", "))],
        Notice::Received(received) => self::received(received),
        Notice::NotReceived { name, reason } => vec![format!("{name}: not received: {reason}")],
        Notice::Echo(echo) => vec![self::echo(echo)],
        Notice::Pinged(pinged) => self::pinged(pinged),
        Notice::Traced { name, responder: Some(responder), hops } => {
            vec![format!("'{name}' is reached at {responder}, {} away", counted(*hops, "hop"))]
        }
        Notice::Attached { name, attached: true } => vec![format!("attached to '{name}'")],
        Notice::Attached { name, attached: false } => vec![format!("no longer attached to '{name}'")],
        Notice::Readers { name, readers } => vec![readers_line(name.as_deref(), readers.as_deref())],
        Notice::Groups { groups } if groups.is_empty() => vec!["no groups".into()],
        Notice::Groups { groups } => groups.iter().flat_map(group).collect(),
        Notice::Store(store) => self::store(store),
        Notice::Routes { routes } => self::routes(routes),
        Notice::Strategies { strategies, known } => self::strategies(strategies, known),
        Notice::FaceChanged { face, open: true } => vec![format!("{face} is open")],
        Notice::FaceChanged { face, open: false } => vec![format!("{face} is closed")],
        Notice::Check { subject, state, text, hint } => check(subject, state, text, hint.as_deref()),
        Notice::Log { levels, modules } => {
            vec![format!("logs {levels}"), format!("  modules with a separate level: {}", modules.join(", "))]
        }
        Notice::Cancelled { transfer } => vec![format!("{transfer} is stopped; verified chunks are kept")],
        Notice::Limited { transfer, bits_per_second } => vec![limited(transfer.as_deref(), *bits_per_second)],
        Notice::Config { file, label, family, roles, faces } => {
            let faces = counted(*faces, "face");
            vec![format!("'{file}' is right: node '{label}' ({family}: {}), {faces}", roles.join(", "))]
        }
        Notice::Key { public: line, .. } | Notice::Invitation { invitation: line, .. } => vec![line.clone()],
        Notice::Certificate { name, algorithm, issuer, not_before, not_after, has_key, .. } => {
            let issuer = issuer.as_deref().unwrap_or("nobody");
            let key = if *has_key { "its secret key is on this machine" } else { "without secret key" };
            vec![name.clone(), format!("  {algorithm}, signed by {issuer}, from {not_before} to {not_after}, {key}")]
        }
        Notice::Network { authority, revocations, members, .. } => network(authority, *revocations, members),
        Notice::Admitted { member, files } => admitted(member, files),
        Notice::Revoked { file, revocations, members } => revoked(file, *revocations, members),
        Notice::Note { text } => vec![text.clone()],
        Notice::Happened { seconds, transfer, what } => {
            let of = transfer.as_ref().map(|transfer| format!("{transfer}: ")).unwrap_or_default();
            happening(what).into_iter().map(|line| format!("{seconds:.1} s: {of}{line}")).collect()
        }
        Notice::Fetching { name, queue: Some(queue), waiting, transfer, .. } => vec![match waiting {
            true => format!("{queue} waits for its turn to fetch '{name}'"),
            false => format!("{transfer} fetches '{name}'"),
        }],
        Notice::Progress(progress) => vec![transfer_line(progress)],
        // What happens during a fetch is shown by the progress, and a listing's end needs no words.
        _ => Vec::new(),
    }
}

fn published(confirmed: bool, name: &str, bytes: u64, version: u64, publisher: &str) -> String {
    let state = if confirmed { "published" } else { "offered (not confirmed yet)" };
    format!("{state} '{name}': {}, version {version}, key {publisher}", ByteCount(bytes))
}
fn check(subject: &str, state: &str, text: &str, hint: Option<&str>) -> Vec<String> {
    let found = format!("{state:<8} {subject}: {text}");
    [found].into_iter().chain(hint.map(|hint| format!("         do: {hint}"))).collect()
}
fn readers_line(name: Option<&str>, readers: Option<&[String]>) -> String {
    let what = name.map_or_else(|| "where this device is".into(), |name| format!("'{name}'"));
    match readers {
        None => format!("everybody may look up {what}"),
        Some(readers) => format!("only {} may look up {what}", readers.join(", ")),
    }
}
fn routes(routes: &[RouteView]) -> Vec<String> {
    if routes.is_empty() {
        return vec!["no routes".into()];
    }
    let mut rows = vec![row(["prefix", "face", "cost", "origin", "expires in"])];
    rows.extend(routes.iter().map(|route| {
        let expires = route.expires_seconds.map_or("–".into(), |left| format!("{left:.0} s"));
        vec![route.prefix.clone(), route.face.clone(), route.cost.to_string(), route.origin.clone(), expires]
    }));
    table(&rows)
}
fn strategies(strategies: &[StrategyView], known: &[String]) -> Vec<String> {
    let mut rows = vec![row(["prefix", "strategy"])];
    rows.extend(strategies.iter().map(|of| vec![of.prefix.clone(), of.strategy.clone()]));
    let mut lines = table(&rows);
    lines.push(format!("can be chosen: {}", known.join(", ")));
    lines
}
fn limited(transfer: Option<&str>, bits_per_second: Option<u64>) -> String {
    let what = transfer.unwrap_or("all transfers together");
    match bits_per_second {
        Some(bits) => format!("{what}: at most {}", tributary_core::Rate::from_bits_per_second(bits)),
        None => format!("{what}: no limit"),
    }
}

/// Something that happened at a node, in words.
fn happening(what: &Notice) -> Vec<String> {
    vec![match what {
        Notice::Progress(progress) => match (&progress.failure, progress.running) {
            _ if progress.paused => format!("'{}' is paused", progress.name),
            (Some(reason), _) => format!("ended: {reason}"),
            (None, false) => format!("'{}' is complete", progress.name),
            (None, true) => progress_line(progress),
        },
        Notice::Started { bytes, resumed_bytes } => {
            format!("{}, {} of it here already", ByteCount(*bytes), ByteCount(*resumed_bytes))
        }
        Notice::Source { id, .. } => format!("source {id}"),
        Notice::SourceDistrusted { id, reason } => format!("source {id} is distrusted: {reason}"),
        Notice::SourceClosed { id, reason } => format!("source {id} is no longer used: {reason}"),
        Notice::ForwarderDistrusted { id, reason } => format!("{id} is avoided: {reason}"),
        Notice::CacheDistrusted { node, reason } => format!("the cache of {node} is bypassed: {reason}"),
        Notice::Path { id, source } => format!("{id} to {source}"),
        Notice::PathState { id, state, reason } => format!("{id} is {state}: {reason}"),
        Notice::Neighbour { face, node, up } => {
            format!("{face}: neighbour {node} {}", if *up { "answers" } else { "no longer answers" })
        }
        Notice::Error { message, .. } => message.clone(),
        other => return words(other),
    }]
}

fn received(received: &ReceivedView) -> Vec<String> {
    match &received.text {
        // No line of a text can be mistaken for a notice.
        Some(text) => {
            format!("{}: {}", received.name, text.replace('\n', "\n    ")).lines().map(String::from).collect()
        }
        None => {
            let (bytes, output) = (ByteCount(received.bytes), &received.output);
            vec![format!("{}: {bytes}, every byte verified, written to {output}", received.name)]
        }
    }
}

fn admitted(member: &MemberView, files: &[String]) -> Vec<String> {
    let roles = if member.roles.is_empty() { "host".into() } else { member.roles.join(", ") };
    let names = if member.names.is_empty() { String::new() } else { format!(", owns {}", member.names.join(", ")) };
    let (label, until, serial) = (&member.label, UnixTime(member.until), member.serial);
    let mut lines = vec![format!("admitted '{label}' as {roles}{names}, until {until} (number {serial})")];
    lines.extend(files.iter().map(|file| format!("  certificate: {file}")));
    lines
}

fn revoked(file: &str, revocations: u64, members: &[MemberView]) -> Vec<String> {
    let one = |member: &MemberView| format!("revoked number {} of '{}'", member.serial, member.label);
    let mut lines: Vec<String> = members.iter().map(one).collect();
    if lines.is_empty() {
        lines.push("no further certificate is revoked".into());
    }
    lines.push(format!("list {revocations} of revocations, for every node: {file}"));
    lines
}

fn network(authority: &str, revocations: u64, members: &[MemberView]) -> Vec<String> {
    let mut lines = vec![authority.to_string()];
    if members.is_empty() {
        return lines;
    }
    lines.push(format!("certificates (list {revocations} of revocations):"));
    let mut rows = vec![row(["number", "label", "roles", "owns", "until", "state", "key"])];
    rows.extend(members.iter().map(|member| {
        vec![
            member.serial.to_string(),
            member.label.clone(),
            if member.roles.is_empty() { "host".into() } else { member.roles.join(", ") },
            if member.names.is_empty() { "–".into() } else { member.names.join(", ") },
            UnixTime(member.until).to_string(),
            member.state.clone(),
            member.key.clone(),
        ]
    }));
    lines.extend(table(&rows));
    lines
}
/// What a certificate allows, in a few words.
fn grant(grant: &GrantView) -> String {
    let roles = if grant.roles.is_empty() { "host".into() } else { grant.roles.join(", ") };
    let names = if grant.names.is_empty() { String::new() } else { format!(", owns {}", grant.names.join(", ")) };
    let until = grant.until.map_or(", without a certificate".into(), |until| format!(", until {}", UnixTime(until)));
    format!("{roles}{names}{until}")
}

fn echo(echo: &EchoView) -> String {
    let number = echo.hop.map_or(echo.number, u32::from);
    let who = echo.responder.as_deref().unwrap_or_default();
    let what = match echo.outcome.as_str() {
        "application" => format!("{who} serves it"),
        "forwarder" => format!("{who} is it"),
        "object" => format!("{who} has it in its cache"),
        "hop-limit" => who.to_string(),
        "unreachable" => format!("unreachable: {}", echo.reason.as_deref().unwrap_or_default()),
        _ => "*  no answer".to_string(),
    };
    let rtt = echo.rtt_ms.map_or_else(String::new, |rtt| format!("  {rtt:.3} ms"));
    let path = echo.path.as_deref().map_or_else(String::new, |path| format!("  path {path}"));
    let failed = if echo.path_failed { "  (the path could not be followed to its end)" } else { "" };
    format!("{number:>3}  {what}{rtt}{path}{failed}")
}
fn pinged(pinged: &PingedView) -> Vec<String> {
    let loss = pinged.loss * 100.0;
    let mut lines =
        vec![format!("'{}': {} of {} answered, {loss:.1} % lost", pinged.name, pinged.answered, pinged.sent)];
    let times = |rtt: &RttView| format!("{:.3} / {:.3} / {:.3} / {:.3} ms", rtt.min, rtt.mean, rtt.max, rtt.deviation);
    if let Some(rtt) = &pinged.rtt_ms {
        lines.push(format!("round trip, least / mean / most / deviation: {}", times(rtt)));
    }
    if pinged.paths.len() > 1 {
        let path = |path: &PingedPathView| {
            let answers = counted(path.answered, "answer");
            format!("  {} to {}: {answers}, {}", path.path, path.responder, times(&path.rtt_ms))
        };
        lines.extend(pinged.paths.iter().map(path));
    }
    lines
}
/// A node in a few words: its label, family and roles.
pub(crate) fn node_words(status: &StatusView) -> String {
    plain(&format!("{} ({}: {})", status.label, status.family, status.roles.join(", ")))
}
/// A node in a line, for a list of several.
pub(crate) fn node_line(status: &StatusView) -> String {
    let up = status.faces.iter().filter(|face| face.up).count();
    let running = status.transfers.iter().filter(|transfer| transfer.running).count();
    format!(
        "{}: {up} of {} answering, publishes {}, {}, up for {}",
        node_words(status),
        counted(status.faces.len(), "neighbour"),
        counted(status.published.len(), "object"),
        if running == 1 { "1 fetch".into() } else { format!("{running} fetches") },
        uptime(status.uptime_seconds)
    )
}
/// A time since a start, in the two largest units.
pub(crate) fn uptime(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}
/// A face by its number, and its label if it has one.
pub(crate) fn face_words(face: &FaceView) -> String {
    face.label.as_ref().map_or(face.id.clone(), |label| format!("{} ({label})", face.id))
}
/// The faces of a node, and their properties.
pub(crate) fn faces(status: &StatusView) -> Vec<String> {
    if status.faces.is_empty() {
        return vec!["no faces".into()];
    }
    let mut rows = vec![row(["face", "neighbour", "state", "rtt", "mtu", "rate", "sent", "received", "dropped"])];
    rows.extend(status.faces.iter().map(|face| {
        vec![
            face_words(face),
            if face.neighbour.is_empty() { "–".into() } else { face.neighbour.clone() },
            if face.up { "up" } else { "silent" }.into(),
            milliseconds(face.rtt_ms),
            face.mtu.map_or("–".into(), |mtu| mtu.to_string()),
            face.rate_mbps.map_or("–".into(), rate),
            ByteCount(face.sent_bytes).to_string(),
            ByteCount(face.received_bytes).to_string(),
            face.dropped_packets.to_string(),
        ]
    }));
    let mut lines = table(&rows);
    lines.extend(status.faces.iter().filter_map(policy));
    let granted =
        |face: &FaceView| Some(format!("{}: '{}' is {}", face.id, face.neighbour, grant(face.grant.as_ref()?)));
    lines.extend(status.faces.iter().filter_map(granted));
    let problem = |face: &FaceView| Some(format!("{}: {}", face.id, face.problem.as_ref()?));
    lines.extend(status.faces.iter().filter_map(problem));
    lines
}
fn status(status: &StatusView) -> Vec<String> {
    let mut lines = vec![
        format!(
            "node '{}' ({}: {}), id {}, listens on {}",
            status.label,
            status.family,
            status.roles.join(", "),
            status.node,
            status.listen.join(", ")
        ),
        format!("trib {}, up for {}", status.version, uptime(status.uptime_seconds)),
    ];
    if let Some(network) = &status.network {
        let access = if network.open { "open" } else { "closed" };
        let own = match (&network.grant, &network.problem) {
            (Some(grant), _) => format!("this node is {}", self::grant(grant)),
            (None, problem) => {
                format!("others do not admit this node: {}", problem.as_deref().unwrap_or("for no known reason"))
            }
        };
        lines.push(format!("network of {}, {access}; {own}", network.authority));
    }
    if !status.faces.is_empty() {
        lines.push("faces:".into());
        lines.extend(faces(status));
    }
    if let Some(cache) = &status.cache {
        lines.push(cache_line(cache));
    }
    for published in &status.published {
        let state = if published.confirmed { "confirmed" } else { "not confirmed yet" };
        let changed = match &published.unreadable {
            Some(reason) => format!("; it cannot be served: {reason}: publish it again"),
            None if published.changed => "; it was changed on the disk since: publish it again".into(),
            None => String::new(),
        };
        lines.push(format!("publishes '{}': {}, {state}{changed}", published.name, ByteCount(published.bytes)));
    }
    for transfer in &status.transfers {
        let verb = if transfer.running { "fetches" } else { "ended with" };
        let (stored, bytes) = (ByteCount(transfer.stored_bytes), ByteCount(transfer.bytes));
        let failure = transfer.failure.as_ref().map_or_else(String::new, |reason| format!("; it failed: {reason}"));
        lines.push(format!("{} {verb} '{}': {stored} of {bytes}{failure}", transfer.id, transfer.name));
    }
    lines.extend(status.resolver.iter().map(|(subject, state)| format!("{subject}: {state}")));
    let tables = status.tables.iter().filter(|(_, entries)| **entries > 0);
    lines.extend(tables.map(|(table, entries)| format!("entries of {}: {entries}", table.replace('_', " "))));
    let latencies = status.latencies.iter().filter(|(_, times)| times.count() > 0);
    lines.extend(latencies.map(|(operation, times)| {
        let mean = times.sum_seconds * 1e3 / times.count() as f64;
        format!("time to {operation}: {mean:.1} ms on average of {}", times.count())
    }));
    let counters = status.counters.iter().filter(|(_, count)| **count > 0);
    lines.extend(counters.map(|(name, count)| format!("count of {name}: {count}")));
    lines.extend(status.notes.iter().map(|note| format!("note: {note}")));
    lines
}
fn cache(cache: &CacheView) -> Vec<String> {
    let mut lines = vec![cache_line(cache)];
    if !cache.objects.is_empty() {
        let mut rows = vec![row(["object", "packets", "bytes", "hits"])];
        rows.extend(cache.objects.iter().map(|object| {
            let bytes = ByteCount(object.bytes).to_string();
            vec![object.key.clone(), object.packets.to_string(), bytes, object.hits.to_string()]
        }));
        lines.extend(table(&rows));
    }
    lines
}
pub(crate) fn cache_line(cache: &CacheView) -> String {
    let requested = cache.hits + cache.misses;
    let share = if requested == 0 { 0.0 } else { cache.hits as f64 * 100.0 / requested as f64 };
    let (used, capacity) = (ByteCount(cache.used_bytes), ByteCount(cache.capacity_bytes));
    format!(
        "cache ({}): {used} of {capacity}, {} of {requested} packets found ({share:.1} %)",
        cache.policy, cache.hits
    )
}
fn sending(sent: &SentView) -> String {
    let custodians: Vec<String> =
        sent.custodians.iter().map(|(guid, chunks)| format!("{chunks} by {}", short(guid))).collect();
    let custodians = if custodians.is_empty() { String::new() } else { format!(" ({})", custodians.join(", ")) };
    let kept = sent.kept_until().filter(|_| sent.stored_chunks > 0).unwrap_or_default();
    format!(
        "{}: {} of {} chunks have left, {} stored on the way{custodians}{kept}; {} of {} receivers have everything",
        sent.transfer,
        sent.sent_chunks,
        sent.chunks,
        sent.stored_chunks,
        sent.delivered.len(),
        sent.destinations
    )
}
fn sent(sent: &SentView) -> Vec<String> {
    let (bytes, seconds) = (ByteCount(sent.bytes), sent.seconds);
    let (whom, all) = (sent.delivered.len(), sent.destinations as usize);
    let until = sent.kept_until().unwrap_or_default();
    let end = match (whom, all.saturating_sub(whom)) {
        (0, _) if sent.stored_chunks == 0 => "it has left this node".into(),
        (0, _) if sent.kept_here == sent.stored_chunks => {
            format!("this device keeps it{until} and sends it on as soon as it can")
        }
        (0, 0 | 1) => format!("the network keeps it for the receiver{until}"),
        (0, away) => format!("the network keeps it for {away} receivers{until}"),
        (1, 0) => "the receiver has verified every byte".into(),
        (_, 0) => format!("{whom} receivers have verified every byte"),
        (_, away) => {
            format!("{whom} of {all} receivers have verified every byte; the network keeps it for {away}{until}")
        }
    };
    let mut lines = vec![format!("sent '{}' to {}: {bytes} in {seconds:.2} s; {end}", sent.name, sent.to)];
    for (guid, chunks) in &sent.custodians {
        lines.push(format!("  kept by {guid}: {}", counted(*chunks, "chunk")));
    }
    if sent.repeated_chunks > 0 {
        lines.push(format!("  sent again: {}", counted(sent.repeated_chunks, "chunk")));
    }
    lines
}
fn group(group: &GroupView) -> Vec<String> {
    let GroupView { label, guid, members, proxy } = group;
    let proxy = proxy.as_ref().map_or(String::new(), |proxy| format!(", spread by {proxy}"));
    let mut lines = vec![format!("{label}: {guid}, {}{proxy}", counted(members.len(), "member"))];
    lines.extend(members.iter().map(|member| format!("  {member}")));
    lines
}
fn store(store: &StoreView) -> Vec<String> {
    if store.capacity_bytes == 0 {
        return vec!["this node stores nothing for others".into()];
    }
    let (used, capacity) = (ByteCount(store.used_bytes), ByteCount(store.capacity_bytes));
    let mut lines = vec![format!("store: {used} of {capacity}")];
    if !store.held.is_empty() {
        let mut rows =
            vec![row(["for", "from", "object", "chunks", "bytes", "priority", "since", "until", "state", "because"])];
        rows.extend(store.held.iter().map(|held| {
            vec![
                short(&held.destination),
                short(&held.source),
                held.name.clone().unwrap_or_else(|| short(&held.object)),
                held.chunks.to_string(),
                ByteCount(held.bytes).to_string(),
                held.priority.to_string(),
                format!("{:.0} s ago", held.age_seconds),
                match held.on_hold == held.chunks {
                    true => "on hold".into(),
                    false => format!("in {:.0} s", held.left_seconds),
                },
                custody(held),
                held.reason.clone(),
            ]
        }));
        lines.extend(table(&rows));
    }
    lines
}
/// The state of the chunks that this router is the custodian of.
fn custody(held: &HeldView) -> String {
    let to: Vec<String> = held.in_transit_to.iter().map(|guid| short(guid)).collect();
    let in_transit =
        || format!("{} in transit to {} for {:.0} s", held.in_transit, to.join(", "), held.in_transit_seconds);
    let parts = [
        (held.waiting > 0).then(|| format!("{} waiting", held.waiting)),
        (held.resting > 0).then(|| format!("{} refused, tried again", held.resting)),
        (held.in_transit > 0).then(in_transit),
        (held.on_hold > 0 && held.on_hold < held.chunks).then(|| format!("{} on hold", held.on_hold)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
/// The beginning of an identifier, long enough to distinguish those on one screen.
fn short(id: &str) -> String {
    id.chars().take(12).collect()
}
fn done(done: &DoneView) -> Vec<String> {
    let checked = if done.verified { "every byte verified" } else { "not verified: no checksum is known" };
    let mut lines = vec![format!(
        "fetched '{}': {} in {:.2} s, {:.1} Mbit/s, {checked}",
        done.name,
        ByteCount(done.bytes),
        done.seconds,
        done.mbps
    )];
    if let Some(output) = &done.output {
        lines.push(format!("  written to {output}"));
    }
    lines.extend(deliveries(done));
    lines
}
/// The bytes of each source and path.
pub(crate) fn deliveries(done: &DoneView) -> Vec<String> {
    let mut lines = Vec::new();
    // Of a part of a folder, its index is delivered beyond the part's own bytes.
    let delivered = done.sources.iter().map(|source| source.bytes).sum::<u64>() + done.cached_bytes;
    let all = done.bytes.max(done.resumed_bytes + delivered);
    let share = |bytes: u64| if all == 0 { 0.0 } else { bytes as f64 * 100.0 / all as f64 };
    let mut rows = vec![row(["source", "bytes", "share", "Mbit/s", ""])];
    for source in &done.sources {
        let note = source.distrusted.as_ref().or(source.closed.as_ref());
        let note = note.map_or(String::new(), |reason| format!("dropped: {reason}"));
        let bytes = ByteCount(source.bytes).to_string();
        rows.push(vec![source.id.clone(), bytes, percent(share(source.bytes)), rate(source.mbps), note]);
    }
    let bypassed = done.more.get("bypassed_times").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if done.cached_bytes > 0 || bypassed > 0 {
        let bytes = ByteCount(done.cached_bytes).to_string();
        let note = match bypassed {
            0 => String::new(),
            count => match done.family.parse::<Family>().map(|family| family.profile().delivery) {
                // The network chooses one path for each source, and requests bypass all copies.
                Ok(Delivery::Custody) => "gave wrong bytes, bypassed".into(),
                _ => format!("gave wrong bytes, bypassed on {count} of {} paths", done.paths.len()),
            },
        };
        rows.push(vec!["caches".into(), bytes, percent(share(done.cached_bytes)), String::new(), note]);
    }
    if done.resumed_bytes > 0 {
        let (bytes, note) = (ByteCount(done.resumed_bytes).to_string(), "verified by an earlier run".into());
        rows.push(vec!["this disk".into(), bytes, percent(share(done.resumed_bytes)), String::new(), note]);
    }
    lines.extend(table(&rows));
    lines.extend(paths(&done.paths));
    lines.push(format!(
        "requested again: {}; duplicates: {}",
        ByteCount(done.retransmitted),
        ByteCount(done.duplicate_bytes)
    ));
    lines
}
/// What fetches may take over a face.
fn policy(face: &FaceView) -> Option<String> {
    let policy = face.policy.as_ref()?;
    let mut words = Vec::new();
    if policy.cost > 0 {
        words.push(format!("costs {}", policy.cost));
    }
    if policy.backup {
        words.push("backup".into());
    }
    words.extend(policy.quota.as_ref().map(|quota| {
        let per = match quota.per {
            QuotaPeriod::Day => "today",
            QuotaPeriod::Month => "this month",
        };
        format!("{} of {} used {per}", ByteCount(quota.used_bytes), ByteCount(quota.bytes))
    }));
    words.extend(policy.limit_mbps.map(|mbps| format!("limited to {} Mbit/s now", rate(mbps))));
    words.extend(policy.closed.clone());
    Some(format!("{}: {}", face.id, if words.is_empty() { "no limit now".into() } else { words.join("; ") }))
}
fn paths(paths: &[PathView]) -> Vec<String> {
    let mut rows = vec![row(["path", "source", "links", "face", "bytes", "Mbit/s", "rtt", "loss", "state", "over"])];
    rows.extend(paths.iter().map(|path| {
        let state =
            if path.reason.is_empty() { path.state.clone() } else { format!("{} ({})", path.state, path.reason) };
        vec![
            path.id.clone(),
            path.source.clone(),
            path.hops.to_string(),
            path.face.clone().unwrap_or_else(|| "-".into()),
            ByteCount(path.bytes).to_string(),
            rate(path.mbps),
            milliseconds(path.rtt_ms),
            percent(path.loss * 100.0),
            state,
            path.via.clone(),
        ]
    }));
    table(&rows)
}

/// A transfer or a fetch of the queue, in a list of them.
fn transfer_line(progress: &ProgressView) -> String {
    let place = progress.queue.as_ref().filter(|queue| **queue != progress.transfer);
    let place = place.map(|queue| format!(" ({queue})")).unwrap_or_default();
    let how_far = format!("{} of {}", ByteCount(progress.stored_bytes), ByteCount(progress.bytes));
    let state = match (&progress.failure, progress.running) {
        _ if progress.paused => format!("paused: {how_far}"),
        _ if progress.waiting => "waits for its turn".into(),
        (_, true) => format!("{how_far} at {} Mbit/s, {}", rate(progress.mbps), eta(progress)),
        (Some(reason), false) => format!("failed: {reason}"),
        (None, false) => format!("done: {}", ByteCount(progress.bytes)),
    };
    format!("{}{place} '{}': {state}", progress.transfer, progress.name)
}

/// The progress of a transfer in one line, for pipes and logs.
pub(crate) fn progress_line(progress: &ProgressView) -> String {
    use std::fmt::Write;
    if progress.bytes == 0 {
        return format!("waiting for a source of '{}' ({:.0} s)", progress.name, progress.seconds);
    }
    let mut line = format!(
        "{} of {} ({}) at {} Mbit/s, {}",
        ByteCount(progress.stored_bytes),
        ByteCount(progress.bytes),
        percent(progress.stored_bytes as f64 * 100.0 / progress.bytes as f64),
        rate(progress.mbps),
        eta(progress)
    );
    for source in &progress.sources {
        let state = if source.distrusted.is_some() { " distrusted" } else { "" };
        let _ = write!(line, " | {}{state} {}", source.id, rate(source.mbps));
    }
    for path in &progress.paths {
        let _ = write!(line, " | {}", path_words(path));
    }
    plain(&line)
}
/// A path in a few words.
pub(crate) fn path_words(path: &PathView) -> String {
    let (rate, rtt, loss) = (rate(path.mbps), milliseconds(path.rtt_ms), percent(path.loss * 100.0));
    format!("{} to {} {} {rate} Mbit/s rtt {rtt} loss {loss}", path.id, path.source, path.state)
}
/// The same for a narrow terminal: important columns first, the rest may be cut off.
pub(crate) fn path_in_short(path: &PathView) -> String {
    let (rate, rtt) = (rate(path.mbps), milliseconds(path.rtt_ms));
    let state = if path.state == "active" { String::new() } else { format!(" {}", path.state) };
    format!("{} {} {rate} Mbit/s{state} {rtt}", path.id, path.source)
}
/// How long a transfer will take still.
pub(crate) fn eta(progress: &ProgressView) -> String {
    if progress.mbps <= 0.0 {
        return "nothing arrives now".into();
    }
    format!("{:.0} s left", progress.bytes.saturating_sub(progress.stored_bytes) as f64 * 8.0 / 1e6 / progress.mbps)
}

fn milliseconds(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.1} ms"))
}
fn percent(value: f64) -> String {
    format!("{value:.1} %")
}
fn rate(mbps: f64) -> String {
    format!("{mbps:.1}")
}

#[cfg(test)]
mod tests;
