//! `trib status --watch`: the status of a node on the whole screen, redrawn every second.
use console::Term;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    time::Instant,
};
use tributary::{
    Api, ApiError, Notice, Request,
    views::{ProgressView, StatusView},
};
use tributary_core::{ByteCount, Duration};

use super::daemons;
use tributary_terminal::table;

use crate::{args::Control, signals::Wish, tables};

/// Time from one drawing to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Another screen, without a cursor; and back to the one before (xterm's private modes).
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Shows a daemon until Ctrl-C.
pub(crate) fn run(control: &Control, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    let api = daemons::connect(control, &Request::Status)?;
    if json || !std::io::stdout().is_terminal() {
        let message = "--watch draws on a terminal, and standard output is not one";
        return Err(ApiError::usage(message).with_hint("`trib watch --json` reports events to programs"));
    }
    let terminal = Term::stdout();
    let screen = Screen::enter()?;
    let mut before = Sample::default();
    while !wish.is_made() {
        let now = sample(&api)?;
        let (rows, columns) = terminal.size();
        screen.draw(&page(&now, &before, usize::from(columns), usize::from(rows)))?;
        before = now;
        wish.wait(before.at.map_or(Duration::ZERO, |drawn| INTERVAL.saturating_sub(drawn.elapsed())));
    }
    Ok(())
}

/// A terminal that shows another screen. Dropping it shows the one before again.
struct Screen;
impl Screen {
    fn enter() -> Result<Screen, ApiError> {
        write(ENTER)?;
        Ok(Screen)
    }
    fn draw(&self, lines: &[String]) -> Result<(), ApiError> {
        // Each line is cleared behind its text, and the rest of the screen behind the last one: nothing flickers.
        let text: Vec<String> = lines.iter().map(|line| format!("{line}\u{1b}[K")).collect();
        write(&format!("\u{1b}[H{}\u{1b}[J", text.join("\r\n")))
    }
}
impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
    }
}
fn write(text: &str) -> Result<(), ApiError> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| ApiError::io("draw on", "the terminal", &error))
}

/// A node's status at a time.
#[derive(Default)]
struct Sample {
    at: Option<Instant>,
    status: StatusView,
    transfers: Vec<ProgressView>,
}

#[expect(clippy::disallowed_methods, reason = "rates on a screen use the viewer's clock")]
fn sample(api: &dyn Api) -> Result<Sample, ApiError> {
    let mut sample = Sample { at: Some(Instant::now()), ..Sample::default() };
    for notice in api.answers(Request::Status)?.into_iter().chain(api.answers(Request::Transfers { transfer: None })?) {
        match notice {
            Notice::Status(status) => sample.status = *status,
            Notice::Progress(progress) => sample.transfers.push(progress),
            _ => {}
        }
    }
    Ok(sample)
}

/// The lines of a screen of this size. The most important come first; the rest is omitted, and counted.
fn page(now: &Sample, before: &Sample, columns: usize, rows: usize) -> Vec<String> {
    let status = &now.status;
    let seconds = now.at.zip(before.at).map(|(now, before)| now.duration_since(before).as_secs_f64());
    let mut lines = vec![
        format!(
            "{} ({}: {})  trib {}  up {}",
            status.label,
            status.family,
            status.roles.join(", "),
            status.version,
            tables::uptime(status.uptime_seconds)
        ),
        String::new(),
    ];
    lines.extend(faces(now, before, seconds, columns));
    let running: Vec<_> = now.transfers.iter().filter(|transfer| transfer.running).collect();
    let ended: Vec<_> = now.transfers.iter().rev().filter(|transfer| !transfer.running).take(ENDED_MAX).collect();
    if !running.is_empty() || !ended.is_empty() {
        lines.push("transfers".into());
        for transfer in running.iter().chain(&ended) {
            lines.push(transfer_line(transfer, columns));
            if transfer.running {
                lines.extend(transfer.paths.iter().map(|path| format!("      {}", tables::path_in_short(path))));
            }
        }
        lines.push(String::new());
    }
    if let Some(cache) = &status.cache {
        lines.push(tables::cache_line(cache));
    }
    if !status.published.is_empty() {
        let bytes = status.published.iter().map(|published| published.bytes).sum();
        lines.push(format!("publishes {} names, {}", status.published.len(), ByteCount(bytes)));
    }
    let shown = lines.len() + 2;
    if shown < rows {
        lines.push(String::new());
        let notes = status.notes.iter().rev().take(rows - shown).collect::<Vec<_>>();
        lines.extend(notes.into_iter().rev().map(|note| format!("note: {note}")));
    }
    let room = rows.saturating_sub(1);
    if lines.len() > room {
        let left_out = lines.len() - room + 1;
        lines.truncate(room.saturating_sub(1));
        lines.push(format!("… {left_out} more lines; a taller terminal shows them"));
    }
    lines.push("Ctrl-C ends".into());
    lines.iter().map(|line| table::cut(&table::plain(line), columns)).collect()
}
fn faces(now: &Sample, before: &Sample, seconds: Option<f64>, columns: usize) -> Vec<String> {
    if now.status.faces.is_empty() {
        return Vec::new();
    }
    let earlier: BTreeMap<&str, (u64, u64)> =
        before.status.faces.iter().map(|face| (&face.id[..], (face.sent_bytes, face.received_bytes))).collect();
    let rate = |now: u64, before: Option<u64>| match (before, seconds) {
        (Some(before), Some(seconds)) if seconds > 0.0 => {
            format!("{:.1}", now.saturating_sub(before) as f64 * 8.0 / 1e6 / seconds)
        }
        _ => "–".into(),
    };
    let mut rows = vec![table::row(["face", "neighbour", "state", "rtt", "in Mbit/s", "out Mbit/s", "dropped", "why"])];
    rows.extend(now.status.faces.iter().map(|face| {
        let before = earlier.get(&face.id[..]);
        vec![
            tables::face_words(face),
            if face.neighbour.is_empty() { "–".into() } else { face.neighbour.clone() },
            if face.up { "up" } else { "silent" }.into(),
            face.rtt_ms.map_or("–".into(), |rtt| format!("{rtt:.1} ms")),
            rate(face.received_bytes, before.map(|(_, received)| *received)),
            rate(face.sent_bytes, before.map(|(sent, _)| *sent)),
            face.dropped_packets.to_string(),
            face.problem.clone().unwrap_or_default(),
        ]
    }));
    let mut lines = table::table_within(&rows, Some(columns));
    lines.push(String::new());
    lines
}
fn transfer_line(transfer: &ProgressView, columns: usize) -> String {
    let cells = (columns / 5).clamp(6, 30);
    let share = if transfer.bytes == 0 { 0.0 } else { transfer.stored_bytes as f64 / transfer.bytes as f64 };
    let full = (share * cells as f64) as usize;
    let bar = format!("{}{}", "━".repeat(full.min(cells)), "·".repeat(cells - full.min(cells)));
    let state = match (&transfer.failure, transfer.running) {
        _ if transfer.paused => "paused".to_string(),
        _ if transfer.waiting => "waits for its turn".to_string(),
        (Some(reason), _) => format!("failed: {reason}"),
        (None, false) => "done".to_string(),
        (None, true) => format!("{:.1} Mbit/s, {}", transfer.mbps, tables::eta(transfer)),
    };
    format!("  {bar} {:3.0} % {} {state}", share * 100.0, transfer.name)
}

/// Ended transfers that are shown, the latest ones.
const ENDED_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use tributary::views::{FaceView, PathView};

    #[test]
    fn the_screen_fits_terminals_of_every_size_and_quotes_what_peers_are_called() {
        let face = |id: u32, received_bytes| FaceView {
            id: format!("face-{id}"),
            neighbour: "north\u{1b}[2J-with-a-long-name-of-its-own".into(),
            up: true,
            rtt_ms: Some(12.5),
            received_bytes,
            ..FaceView::default()
        };
        let path = PathView { id: "path-37840".into(), source: "pub-a".into(), mbps: 19.0, ..PathView::default() };
        let transfer = ProgressView {
            transfer: "transfer-1".into(),
            name: "/lab/images/a-rather-long-name-of-a-file.iso".into(),
            bytes: 1_000,
            stored_bytes: 500,
            running: true,
            mbps: 8.0,
            paths: vec![path; 9],
            ..ProgressView::default()
        };
        let at = |seconds| {
            #[expect(clippy::disallowed_methods, reason = "only differences count")]
            let start = Instant::now();
            Some(start + Duration::from_secs(seconds))
        };
        let status = |received| StatusView {
            label: "receiver".into(),
            faces: (1..=3).map(|id| face(id, received)).collect(),
            notes: vec!["a note".into(); 20],
            ..StatusView::default()
        };
        let before = Sample { at: at(10), status: status(0), transfers: Vec::new() };
        let now = Sample { at: at(11), status: status(1_000_000), transfers: vec![transfer] };
        for (columns, rows) in [(40, 10), (60, 24), (80, 24), (120, 50), (200, 80)] {
            let page = page(&now, &before, columns, rows);
            assert!(page.len() <= rows, "{} of {rows} rows", page.len());
            assert!(page.iter().all(|line| line.chars().count() <= columns), "{columns}: {page:#?}");
            assert!(page.iter().all(|line| !line.contains('\u{1b}')), "{page:#?}");
        }
        let page = page(&now, &before, 120, 50);
        assert!(page.iter().any(|line| line.contains("face-1") && line.contains("8.0")), "{page:#?}");
        assert!(page.iter().any(|line| line.contains("50 %") && line.contains("8.0 Mbit/s")), "{page:#?}");
    }
}
