//! How a fetch is shown while it runs: bars on a terminal, plain lines in a pipe, JSON lines for a program.
use indicatif::{ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, io::IsTerminal};
use tributary::{Notice, views::ProgressView};

use crate::{out, tables};

/// Shows one fetch.
pub(crate) struct Display(Kind);

enum Kind {
    Json,
    Lines(Lines),
    Bars(Bars),
}

impl Display {
    /// JSON lines on stdout, else bars if stderr is a terminal, else plain lines on stderr.
    pub(crate) fn new(json: bool) -> Self {
        Display(match (json, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Json,
            (false, true) => Kind::Bars(Bars::new()),
            (false, false) => Kind::Lines(Lines::default()),
        })
    }
    /// Shows one thing.
    pub(crate) fn show(&mut self, notice: &Notice) {
        match &mut self.0 {
            Kind::Json => out::data(&notice.to_line()),
            Kind::Lines(lines) => lines.show(notice),
            Kind::Bars(bars) => bars.show(notice),
        }
    }
    /// A sentence between the rest; programs do not get it, since they have the events.
    pub(crate) fn say(&mut self, text: &str) {
        match &mut self.0 {
            Kind::Json => {}
            Kind::Lines(_) | Kind::Bars(_) => out::talk(text),
        }
    }
    /// Leaves the terminal as it was.
    pub(crate) fn end(&mut self) {
        if let Kind::Bars(bars) = &mut self.0 {
            bars.end();
        }
    }
}

/// What changes during a fetch, in a sentence; `None` for what the bars and lines show anyway.
fn sentence(notice: &Notice) -> Option<String> {
    let text = match notice {
        Notice::Started { bytes, resumed_bytes } if *resumed_bytes > 0 => {
            let (bytes, resumed) = (tributary_core::ByteCount(*bytes), tributary_core::ByteCount(*resumed_bytes));
            format!("going on: {resumed} of {bytes} are verified already")
        }
        Notice::SourceDistrusted { id, reason } => format!("source {id} was dropped: {reason}"),
        Notice::SourceClosed { id, reason } => format!("source {id} was dropped: {reason}"),
        Notice::ForwarderDistrusted { id, reason } => format!("paths through {id} are avoided: {reason}"),
        Notice::CacheDistrusted { node, reason } => format!("cache {node} is bypassed: {reason}"),
        Notice::PathState { id, state, reason } if state == "silent" || state == "closed" => {
            format!("{id} is {state}: {reason}")
        }
        Notice::Note { text } => text.clone(),
        _ => return None,
    };
    Some(tables::plain(&text))
}

/// One line a second.
#[derive(Default)]
struct Lines {
    next_seconds: f64,
}
impl Lines {
    fn show(&mut self, notice: &Notice) {
        match notice {
            // The transfer's own time decides, so no clock is needed; it restarts with a new transfer.
            Notice::Fetching { .. } => self.next_seconds = 1.0,
            Notice::Progress(progress) if progress.seconds >= self.next_seconds => {
                self.next_seconds = progress.seconds.floor() + 1.0;
                out::talk(&tables::progress_line(progress));
            }
            Notice::Done(_) => tables::answer(notice).iter().for_each(|line| out::talk(line)),
            notice => sentence(notice).iter().for_each(|text| out::talk(text)),
        }
    }
}

/// A bar for the total, for each source and for each path.
struct Bars {
    total: ProgressBar,
    sources: BTreeMap<String, ProgressBar>,
    paths: BTreeMap<String, ProgressBar>,
}
impl Bars {
    fn new() -> Self {
        let total = bar("{bar:32} {msg}");
        Bars { total, sources: BTreeMap::new(), paths: BTreeMap::new() }
    }
    fn show(&mut self, notice: &Notice) {
        match notice {
            Notice::Progress(progress) => self.progress(progress),
            Notice::Done(_) => {
                self.end();
                tables::answer(notice).iter().for_each(|line| out::talk(line));
            }
            notice => sentence(notice).iter().for_each(|text| out::talk(text)),
        }
    }
    fn progress(&mut self, progress: &ProgressView) {
        use tributary_core::ByteCount;
        self.total.set_length(progress.bytes.max(1));
        self.total.set_position(progress.stored_bytes);
        self.total.set_message(if progress.bytes == 0 {
            tables::progress_line(progress)
        } else {
            format!(
                "{} of {}  {:.1} Mbit/s  {}",
                ByteCount(progress.stored_bytes),
                ByteCount(progress.bytes),
                progress.mbps,
                tables::eta(progress)
            )
        });
        // Shares are of the largest, so that bars compare.
        let most = progress.sources.iter().map(|source| source.bytes).max().unwrap_or(0).max(1);
        for source in &progress.sources {
            let bar = self.sources.entry(source.id.clone()).or_insert_with(|| bar("  {bar:30} {msg}"));
            bar.set_length(most);
            bar.set_position(source.bytes);
            let state = source.distrusted.as_ref().or(source.closed.as_ref());
            let state = state.map_or(String::new(), |reason| format!("  dropped: {reason}"));
            let (id, bytes, mbps) = (&source.id, ByteCount(source.bytes), source.mbps);
            bar.set_message(tables::plain(&format!("source {id}  {bytes}  {mbps:.1} Mbit/s{state}")));
        }
        let most = progress.paths.iter().map(|path| path.bytes).max().unwrap_or(0).max(1);
        for path in &progress.paths {
            let bar = self.paths.entry(path.id.clone()).or_insert_with(|| bar("    {bar:28} {msg}"));
            bar.set_length(most);
            bar.set_position(path.bytes);
            let why = if path.reason.is_empty() { String::new() } else { format!(" ({})", path.reason) };
            bar.set_message(tables::plain(&format!("{}{why}", tables::path_words(path))));
        }
    }
    fn end(&mut self) {
        for bar in self.sources.values().chain(self.paths.values()).chain([&self.total]) {
            bar.finish_and_clear();
        }
    }
}

fn bar(template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates above are legal");
    out::BARS.add(ProgressBar::new(1).with_style(style.progress_chars("━╸ ")))
}
