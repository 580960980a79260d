//! How a fetch is shown while it runs: bars on a terminal, plain lines in a pipe, JSON lines for a program.
use indicatif::{ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, io::IsTerminal};
use tributary::{Notice, views::ProgressView};
use tributary_terminal::out;
use tributary_terminal::table;

use crate::{hook::Hook, tables};

/// Shows one fetch.
pub(crate) struct Display {
    kind: Kind,
    hook: Option<Hook>,
    done: Option<Notice>,
}

enum Kind {
    Json,
    Lines(Lines),
    Bars(Bars),
}

impl Display {
    /// JSON lines on stdout, else bars if stderr is a terminal, else plain lines on stderr.
    pub(crate) fn new(json: bool) -> Self {
        let kind = match (json, std::io::stderr().is_terminal()) {
            (true, _) => Kind::Json,
            (false, true) => Kind::Bars(Bars::new()),
            (false, false) => Kind::Lines(Lines::default()),
        };
        Display { kind, hook: None, done: None }
    }
    /// Runs a command once the fetch is done and its files are in place.
    pub(crate) fn with_hook(self, hook: Option<Hook>) -> Self {
        Display { hook, ..self }
    }
    /// Shows a notice.
    pub(crate) fn show(&mut self, notice: &Notice) {
        if let Notice::Done(_) = notice {
            self.done = Some(notice.clone());
        }
        match &mut self.kind {
            Kind::Json => out::data(&notice.to_line()),
            Kind::Lines(lines) => lines.show(notice),
            Kind::Bars(bars) => bars.show(notice),
        }
    }
    /// A sentence between the rest; programs do not get it, since they have the events.
    pub(crate) fn print_line(&mut self, text: &str) {
        match &mut self.kind {
            Kind::Json => {}
            Kind::Lines(_) | Kind::Bars(_) => out::talk(text),
        }
    }
    /// Leaves the terminal as it was, and runs the hook.
    pub(crate) fn end(&mut self) {
        if let Kind::Bars(bars) = &mut self.kind {
            bars.end();
        }
        if let Some((hook, done)) = self.hook.take().zip(self.done.take()) {
            hook.on(&done);
        }
    }
}

/// A change during a fetch, as a sentence; `None` if the bars and lines show it anyway.
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
    Some(table::plain(&text))
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
    /// Of the terminal.
    columns: usize,
    /// Of the total's bar.
    cells: usize,
    total: ProgressBar,
    sources: BTreeMap<String, ProgressBar>,
    paths: BTreeMap<String, ProgressBar>,
}
impl Bars {
    fn new() -> Self {
        let columns = usize::from(console::Term::stderr().size().1);
        let cells = columns.saturating_sub(WORDS_COLUMNS).clamp(BAR_MIN, BAR_MAX);
        let total = bar(0, cells);
        Bars { columns, cells, total, sources: BTreeMap::new(), paths: BTreeMap::new() }
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
            let bar = self.sources.entry(source.id.clone()).or_insert_with(|| bar(2, self.cells));
            bar.set_length(most);
            bar.set_position(source.bytes);
            let state = source.distrusted.as_ref().or(source.closed.as_ref());
            let state = state.map_or(String::new(), |reason| format!("  dropped: {reason}"));
            let (id, bytes, mbps) = (&source.id, ByteCount(source.bytes), source.mbps);
            bar.set_message(table::plain(&format!("source {id}  {bytes}  {mbps:.1} Mbit/s{state}")));
        }
        let most = progress.paths.iter().map(|path| path.bytes).max().unwrap_or(0).max(1);
        for path in &progress.paths {
            let bar = self.paths.entry(path.id.clone()).or_insert_with(|| bar(4, self.cells));
            bar.set_length(most);
            bar.set_position(path.bytes);
            let why = if path.reason.is_empty() { String::new() } else { format!(" ({})", path.reason) };
            let words = if self.columns < WIDE { tables::path_in_short(path) } else { tables::path_words(path) };
            bar.set_message(table::plain(&format!("{words}{why}")));
        }
    }
    fn end(&mut self) {
        for bar in self.sources.values().chain(self.paths.values()).chain([&self.total]) {
            bar.finish_and_clear();
        }
    }
}

/// Columns of the words next to a bar.
const WORDS_COLUMNS: usize = 48;
/// Columns of the longest and of the shortest bar.
const BAR_MAX: usize = 32;
const BAR_MIN: usize = 8;
/// Terminals from this width on fit all columns of a path.
const WIDE: usize = 100;

/// A bar that ends where one without indent does, and words that end at the edge of the terminal.
fn bar(indent: usize, cells: usize) -> ProgressBar {
    let (blank, cells) = (" ".repeat(indent), cells - indent);
    let style = ProgressStyle::with_template(&format!("{blank}{{bar:{cells}}} {{wide_msg}}"));
    let style = style.expect("the template is legal");
    out::BARS.add(ProgressBar::new(1).with_style(style.progress_chars("━╸ ")))
}
