//! Why a transfer, a path, a source or a name is as it is, in sentences.
use tributary_core::{
    ByteCount, Duration, Rate, Time, TransferId,
    event::{PathReport, PathState, TransferReport},
};

use crate::{
    error::{ApiError, ErrorKind},
    family::Family,
    views::{FaceView, QuotaPeriod, StatusView, counted, source_name},
};

/// A transfer known to the node.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its number.
    pub(crate) transfer: TransferId,
    /// Name of the object.
    pub(crate) name: String,
    /// Its account.
    pub(crate) report: TransferReport,
    /// When the account was made.
    pub(crate) now: Time,
}

/// Explains `id`: `transfer-1`, `path-2` (of the latest transfer), `transfer-1/path-2`, a source's name, or a name.
pub(crate) fn explain(id: &str, transfers: &[Known], status: &StatusView) -> Result<Vec<String>, ApiError> {
    let is_face = |face: &&FaceView| face.id == id || face.label.as_deref() == Some(id);
    if let Some(face) = status.faces.iter().find(is_face) {
        return Ok(about_face(face, transfers));
    }
    if id.starts_with('/') {
        return Ok(about_name(id, transfers, status));
    }
    let (of, part) = match id.split_once('/') {
        Some((transfer, part)) => (transfers.iter().find(|known| known.transfer.to_string() == transfer), part),
        None => match transfers.iter().find(|known| known.transfer.to_string() == id) {
            Some(known) => return Ok(about_transfer(known)),
            None => (transfers.last(), id),
        },
    };
    let known = of.ok_or_else(|| unknown(id, transfers))?;
    if let Some(path) = known.report.paths.iter().find(|path| path.path.to_string() == part) {
        return Ok(about_path(known, path));
    }
    let sources = &known.report.sources;
    match sources.iter().find(|of| of.source.to_string() == part || source_name(&known.report, of.source) == part) {
        Some(source) => Ok(about_source(known, source)),
        None => Err(unknown(id, transfers)),
    }
}

fn unknown(id: &str, transfers: &[Known]) -> ApiError {
    let known: Vec<_> = transfers.iter().map(|known| known.transfer.to_string()).collect();
    let path = transfers.last().and_then(|latest| latest.report.paths.first()).map(|path| format!(" ({})", path.path));
    let hint = match known.is_empty() {
        true => "this node has fetched nothing yet; a name such as /lab/big can be explained at any time".into(),
        false => format!(
            "ask about {}, a path{} or a source of the latest one, or a name",
            known.join(", "),
            path.unwrap_or_default()
        ),
    };
    ApiError::new(ErrorKind::NotFound, format!("there is nothing called '{id}' here")).with_hint(hint)
}

fn about_face(face: &FaceView, transfers: &[Known]) -> Vec<String> {
    let called = face.label.as_ref().map(|label| format!(" ('{label}')")).unwrap_or_default();
    let neighbour = if face.neighbour.is_empty() { "an unknown neighbour" } else { &face.neighbour };
    let answers = if face.up { "answers" } else { "does not answer" };
    let mut lines = vec![format!("{}{called} leads to {neighbour}, which {answers}.", face.id)];
    lines.extend(face.problem.as_ref().map(|problem| format!("Problem: {problem}.")));
    match &face.policy {
        None => lines.push("It has no policy: fetches use it like any other face.".into()),
        Some(policy) => {
            if policy.cost > 0 {
                lines.push(format!("It costs {}: paths over cheaper faces are filled first.", policy.cost));
            }
            if policy.backup {
                lines.push("It is a backup: fetches use it while no other path answers.".into());
            }
            lines.extend(policy.quota.as_ref().map(|quota| {
                let per = match quota.per {
                    QuotaPeriod::Day => "today",
                    QuotaPeriod::Month => "this month",
                };
                let (used, all) = (ByteCount(quota.used_bytes), ByteCount(quota.bytes));
                format!("{used} of {all} have passed {per} ({}).", percent(quota.used_bytes, quota.bytes))
            }));
            lines.extend(policy.limit_mbps.map(|mbps| format!("Its schedule limits it to {mbps:.1} Mbit/s now.")));
            lines.extend(policy.closed.as_ref().map(|reason| format!("Nothing is fetched over it: {reason}.")));
        }
    }
    let number = |path: &PathReport| path.face.is_some_and(|of| of.to_string() == face.id);
    for known in transfers.iter().filter(|known| known.report.ended.is_none()) {
        lines.extend(known.report.paths.iter().filter(|path| number(path)).map(|path| path_line(known, path)));
    }
    lines
}

fn about_transfer(known: &Known) -> Vec<String> {
    let report = &known.report;
    let (id, name) = (known.transfer, &known.name);
    let seconds = report.ended.unwrap_or(known.now).since(report.started).as_secs_f64();
    let mut lines = Vec::new();
    lines.push(match (report.ended, report.bytes) {
        (None, 0) => format!("{id} has waited for '{name}' for {seconds:.1} s: no source has given its manifest yet."),
        (None, bytes) => {
            let rate: f64 = active(report).map(|path| path.rate.mbps()).sum();
            let left = bytes.saturating_sub(report.stored_bytes);
            let wait = match rate > 0.0 {
                true => format!("about {:.0} s are left", left as f64 * 8.0 / 1e6 / rate),
                false => "nothing arrives now".into(),
            };
            format!("{id} fetches '{name}': {} at {rate:.1} Mbit/s; {wait}.", progress(report))
        }
        (Some(_), bytes) if bytes > 0 && report.stored_bytes >= bytes => {
            format!("{id} fetched '{name}' in {seconds:.1} s: all {} are verified.", ByteCount(bytes))
        }
        (Some(_), _) => format!("{id} ended after {seconds:.1} s without all of '{name}': {}.", progress(report)),
    });
    if let Some(reason) = &report.failure {
        lines.push(format!("Why: {reason}."));
    }
    if report.resumed_bytes > 0 {
        lines.push(format!("{} of it were verified by an earlier run.", ByteCount(report.resumed_bytes)));
    }
    if report.cached_bytes > 0 {
        lines.push(format!("{} came from caches on the way.", ByteCount(report.cached_bytes)));
    }
    if report.sources.is_empty() && report.ended.is_none() {
        lines.push("No source is known: the name is not published, or no resolver answers.".into());
    }
    lines.extend(report.sources.iter().map(|source| source_line(known, source)));
    lines.extend(report.paths.iter().map(|path| path_line(known, path)));
    lines
}

fn about_source(known: &Known, source: &tributary_core::event::SourceReport) -> Vec<String> {
    let mut lines = vec![source_line(known, source)];
    let paths: Vec<_> = known.report.paths.iter().filter(|path| path.source == source.source).collect();
    if paths.is_empty() {
        lines.push("The network has offered no path to it.".into());
    }
    lines.extend(paths.into_iter().map(|path| path_line(known, path)));
    lines
}

fn about_path(known: &Known, path: &PathReport) -> Vec<String> {
    let mut lines = vec![path_line(known, path)];
    let window = ByteCount(path.window_bytes);
    match (path.state, path.rtt) {
        (PathState::Active, Some(rtt)) => {
            let possible = Rate::over(path.window_bytes, rtt).map_or(0.0, |rate| rate.mbps());
            lines.push(format!(
                "Its window of {window} at a round-trip time of {} allows {possible:.1} Mbit/s; {} are under way.",
                show(rtt),
                ByteCount(path.in_flight_bytes),
            ));
            if path.in_flight_bytes * 10 < path.window_bytes * 8 {
                lines.push("The window is not full: a rate limit, the end of the object, or memory for chunks that wait holds it back.".into());
            } else {
                lines.push("The window is full: the path itself is what limits it.".into());
            }
        }
        (PathState::Done, _) => lines.push("The transfer has ended.".into()),
        (PathState::Active, None) => lines.push("It has not answered a request yet.".into()),
        (PathState::Idle, _) if path.bytes > 0 => lines.push("It is ready and has no request to answer now.".into()),
        (PathState::Idle, _) => lines.push("It is ready and has had no request yet.".into()),
        (PathState::Silent, _) => {
            lines.push("Its requests have moved to other paths; it is probed and used again when it answers.".into());
        }
        (PathState::Closed, _) => lines.push("It is no longer used.".into()),
    }
    let shares = |other: &&PathReport| other.path != path.path && other.groups.iter().any(|g| path.groups.contains(g));
    let sharing: Vec<String> =
        known.report.paths.iter().filter(shares).map(|other| format!("{} ({})", other.path, other.label)).collect();
    if !sharing.is_empty() {
        lines.push(format!("It shares a link with {}, and is coupled with them.", sharing.join(", ")));
    }
    if let (Some(rtt), Some(rtt_min)) = (path.rtt, path.rtt_min) {
        let queue = rtt.saturating_sub(rtt_min);
        lines.push(format!(
            "The round-trip time is {} now and {} at best: {} of it are queues.",
            show(rtt),
            show(rtt_min),
            show(queue)
        ));
    }
    if path.requested_packets > 0 {
        lines.push(format!(
            "Of {} requested packets, {} were declared lost ({}).",
            path.requested_packets,
            path.lost_packets,
            percent(path.lost_packets, path.requested_packets)
        ));
    }
    if let Some(face) = path.face {
        lines.push(format!("Its requests leave this node by {face}."));
    }
    if !path.label.is_empty() {
        lines.push(format!("It leads over {}.", path.label));
    }
    lines
}

fn about_name(name: &str, transfers: &[Known], status: &StatusView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(published) = status.published.iter().find(|of| of.name == name) {
        let size = ByteCount(published.bytes);
        lines.push(match published.confirmed {
            true => format!("This node publishes '{name}' ({size}), and the resolver has confirmed it."),
            false => format!("This node offers '{name}' ({size}), but no resolver has confirmed it yet."),
        });
        match &published.unreadable {
            Some(reason) => lines.push(format!("It cannot be served: {reason}. Publish it again.")),
            None if published.changed => {
                lines.push("The file has changed on disk since, so requests for it may fail. Publish it again.".into());
            }
            None => {}
        }
    }
    for known in transfers.iter().filter(|known| known.name == name) {
        lines.extend(about_transfer(known));
    }
    if lines.is_empty() {
        lines.push(format!("This node neither publishes '{name}' nor has it fetched it."));
        if status.family.parse().map_or(true, |family: Family| family.profile().abilities.listing) {
            lines.push("`trib ls` shows what the network offers.".into());
        }
    }
    let silent: Vec<_> = status.faces.iter().filter(|face| !face.up).map(|face| face.id.clone()).collect();
    match (status.faces.is_empty(), silent.len() == status.faces.len()) {
        (true, _) => lines.push("This node has no faces, so it can reach no other node.".into()),
        (false, true) => lines.push("No neighbour answers, so this node can reach no other node.".into()),
        (false, false) if !silent.is_empty() => lines.push(format!("No neighbour answers on {}.", silent.join(", "))),
        (false, false) => {}
    }
    lines
}

fn source_line(known: &Known, source: &tributary_core::event::SourceReport) -> String {
    let name = source_name(&known.report, source.source);
    let bytes = ByteCount(source.bytes);
    let paths = known.report.paths.iter().filter(|path| path.source == source.source);
    match source.distrusted.as_ref().or(source.closed.as_ref()) {
        Some(reason) => format!("Source {name} was dropped: {reason}. It had delivered {bytes}."),
        None => format!("Source {name} has delivered {bytes} over {}.", counted(paths.count(), "path")),
    }
}

fn path_line(known: &Known, path: &PathReport) -> String {
    let source = source_name(&known.report, path.source);
    let why = if path.reason.is_empty() { String::new() } else { format!(" ({})", path.reason) };
    let rate = match path.state {
        PathState::Active => format!(" at {:.1} Mbit/s", path.rate.mbps()),
        PathState::Idle | PathState::Done | PathState::Silent | PathState::Closed => String::new(),
    };
    let rtt = path.rtt.map(|rtt| format!(", round trip {}", show(rtt))).unwrap_or_default();
    let hops = counted(path.hops, "link");
    let bytes = ByteCount(path.bytes);
    format!("{} to {source} over {hops} is {}{why}{rate}: {bytes} so far{rtt}.", path.path, path.state)
}

fn progress(report: &TransferReport) -> String {
    format!("{} of {} verified", ByteCount(report.stored_bytes), ByteCount(report.bytes))
}
fn active(report: &TransferReport) -> impl Iterator<Item = &PathReport> {
    report.paths.iter().filter(|path| path.state == PathState::Active)
}
fn show(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
fn percent(part: u64, total: u64) -> String {
    if total == 0 { "0 %".into() } else { format!("{:.1} %", part as f64 * 100.0 / total as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::{FaceView, PublishedView};
    use tributary_core::{PathId, SourceId, event::SourceReport};

    fn known() -> Known {
        let path = |number, state, reason: &str| PathReport {
            path: PathId(number),
            source: SourceId(0),
            label: "attic, hall".into(),
            face: None,
            hops: 2,
            groups: vec![],
            state,
            reason: reason.into(),
            bytes: 1 << 20,
            cached_bytes: 0,
            requested_packets: 200,
            lost_packets: 2,
            in_flight_bytes: 100_000,
            window_bytes: 100_000,
            rate: Rate::from_mbps(20),
            rtt: Some(Duration::from_millis(40)),
            rtt_min: Some(Duration::from_millis(30)),
        };
        let source = SourceReport { label: "attic".into(), bytes: 2 << 20, ..SourceReport::default() };
        let report = TransferReport {
            bytes: 4 << 20,
            stored_bytes: 2 << 20,
            sources: vec![source],
            paths: vec![path(1, PathState::Active, ""), path(2, PathState::Silent, "no answer for 300 ms")],
            ..TransferReport::default()
        };
        Known { transfer: TransferId(3), name: "/a".into(), report, now: Time::from_millis(1_000) }
    }
    fn ask(id: &str) -> String {
        explain(id, &[known()], &StatusView::default()).unwrap().join("\n")
    }

    #[test]
    fn says_why_a_path_is_silent_and_what_limits_an_active_one() {
        assert!(ask("path-2").starts_with(
            "path-2 to attic over 2 links is silent (no answer for 300 ms): 1 MiB so far, round trip 40.0 ms."
        ));
        assert!(ask("transfer-3/path-1").contains("allows 20.0 Mbit/s"), "{}", ask("path-1"));
        assert!(ask("path-1").contains("10.0 ms of it are queues"));
        assert!(ask("path-1").contains("The window is full"));
        assert!(ask("attic").contains("2 MiB over 2 paths"));
        assert!(ask("transfer-3").contains("2 MiB of 4 MiB verified at 20.0 Mbit/s; about 1 s are left"));
    }

    #[test]
    fn says_where_a_name_stands() {
        let face = FaceView { id: "face-1".into(), ..FaceView::default() };
        let published = PublishedView { name: "/b".into(), bytes: 5, ..PublishedView::default() };
        let status = StatusView { faces: vec![face], published: vec![published], ..StatusView::default() };
        let lines = explain("/b", &[], &status).unwrap();
        assert!(lines[0].contains("no resolver has confirmed"), "{lines:?}");
        assert!(lines[1].contains("No neighbour answers"), "{lines:?}");
        let unreadable = Some("'/file' is gone since it was published".into());
        let published = PublishedView { unreadable, ..status.published[0].clone() };
        let status = StatusView { published: vec![published], ..status };
        let lines = explain("/b", &[], &status).unwrap();
        assert!(lines[1].contains("cannot be served: '/file' is gone"), "{lines:?}");
        assert!(explain("/c", &[], &status).unwrap()[0].contains("neither publishes"));
        assert!(ask("/a").contains("transfer-3 fetches '/a'"));
    }

    #[test]
    fn says_why_a_transfer_and_a_source_of_it_ended() {
        let mut known = known();
        let why = "its file was changed at the source after it was published";
        known.report.ended = Some(Time::from_millis(1_000));
        known.report.failure = Some(format!("no usable source of '/a' is left: 'attic': {why}"));
        known.report.sources[0].closed = Some(why.into());
        for id in ["transfer-3", "attic"] {
            let lines = explain(id, &[known.clone()], &StatusView::default()).unwrap();
            assert!(lines.iter().any(|line| line.contains(why)), "{lines:?}");
        }
    }

    #[test]
    fn an_unknown_id_says_what_there_is() {
        let error = explain("path-9", &[known()], &StatusView::default()).unwrap_err();
        assert!(error.to_string().contains("transfer-3"), "{error}");
        assert!(explain("path-9", &[], &StatusView::default()).unwrap_err().to_string().contains("fetched nothing"));
    }
}
