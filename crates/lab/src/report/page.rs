//! One self-contained HTML page.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{Metric, Results, experiments};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.7rem}h3{font-size:1rem;margin:1.2rem 0 .2rem}small{color:#777}h2{margin-top:3rem;border-bottom:2px solid #0072b2;padding-bottom:.2rem}\
table{border-collapse:collapse;margin:1rem 0;font-size:.92rem}th,td{padding:.25rem .8rem;text-align:left;\
border-bottom:1px solid #ddd}td.number{text-align:right;font-variant-numeric:tabular-nums}\
figure{margin:1.5rem 0}figcaption{color:#555;font-size:.92rem}svg{max-width:100%;height:auto}\
code{background:#f2f2f2;padding:.1rem .3rem;border-radius:3px}nav a{margin-right:1.2rem}\
p{max-width:48rem}";

/// The page of all `results`.
pub fn page(results: &[Results]) -> String {
    let mut html = String::new();
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n<title>Tributary: the lab</title>\n");
    put(&mut html, format_args!("<style>{STYLE}</style>\n<h1>Tributary: the lab</h1>\n"));
    html.push_str(
        "<p>Experiments in virtual time with the very code that runs as daemons. Each shows its paper's results next \
         to ours. The same command with the same seed gives the same bytes, this page included.</p>\n",
    );
    html.push_str("<nav>");
    for of in results {
        put(&mut html, format_args!("<a href=\"#{0}\">{0}</a>", escape(&of.experiment)));
    }
    html.push_str("</nav>\n");
    overview(&mut html, results);
    for of in results {
        section(&mut html, of);
    }
    html.push_str("</html>\n");
    html
}

fn overview(html: &mut String, results: &[Results]) {
    if results.len() < 2 || !results.iter().flat_map(|of| of.metrics.values()).any(|metric| metric.paper.is_some()) {
        return;
    }
    html.push_str("<h2>Figures from the papers</h2>\n<table><tr><th>experiment</th><th>figure</th><th>who</th>");
    html.push_str("<th>case</th><th>paper</th><th>here</th><th>here ÷ paper</th></tr>\n");
    for of in results {
        let variants = variants(of);
        for (name, metric) in of.metrics.iter().filter(|(_, metric)| metric.paper.is_some()) {
            let (who, quantity, case) = place(name, &variants);
            let words = [&of.experiment, &formatted(quantity, metric), &who, &case];
            html.push_str("<tr>");
            words.into_iter().for_each(|word| put(html, format_args!("<td>{}</td>", escape(word))));
            let paper = metric.paper.unwrap_or(f64::NAN);
            for value in [paper, metric.value, metric.value / paper] {
                let text = if value.is_finite() { number(value) } else { String::new() };
                put(html, format_args!("<td class=\"number\">{text}</td>"));
            }
            html.push_str("</tr>\n");
        }
    }
    html.push_str("</table>\n");
}

fn section(html: &mut String, of: &Results) {
    let experiment = experiments::find(&of.experiment);
    let (title, paper) = experiment.map_or(("", ""), |experiment| (&experiment.title, &experiment.paper));
    put(html, format_args!("<h2 id=\"{0}\">{0}</h2>\n<p><strong>{1}</strong>", escape(&of.experiment), escape(title)));
    put(html, format_args!(" <em>({})</em></p>\n", escape(paper)));
    put(
        html,
        format_args!(
            "<p>Command: <code>trib lab run {} --seed {} --runs {}</code></p>\n",
            escape(&of.experiment),
            of.seed,
            of.runs
        ),
    );
    for note in &of.notes {
        put(html, format_args!("<p>{}</p>\n", escape(note)));
    }
    for figure in &of.figures {
        put(
            html,
            format_args!("<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n", figure.svg, escape(&figure.caption)),
        );
    }
    quantities(html, of);
    html.push_str("<h3>Parameters</h3>\n<table>\n");
    for (name, value) in &of.parameters {
        put(html, format_args!("<tr><td>{}</td><td>{}</td></tr>\n", escape(name), escape(value)));
    }
    html.push_str("</table>\n");
}

/// The actors of a comparison: the prefix of the variants' names, and the display name. The paper's own controller has
/// no prefix.
const ACTORS: [(&str, &str); 5] = [
    ("default", "the product's default"),
    ("tcp-reno", "TCP Reno"),
    ("tcp-cubic", "TCP Cubic"),
    ("quic-cubic", "QUIC Cubic"),
    ("quic-bbr", "QUIC BBR"),
];

/// Values by row and column.
#[derive(Default)]
struct Cells<'a> {
    cells: BTreeMap<(String, String), &'a Metric>,
}

impl Cells<'_> {
    fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = self.cells.keys().map(|(row, _)| row.as_str()).collect();
        rows.dedup();
        // The optimum, which bounds all others, comes last.
        rows.sort_by_key(|row| *row == "optimum");
        rows
    }
    fn columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = self.cells.keys().map(|(_, column)| column.as_str()).collect();
        columns.sort_by_key(|column| natural(column));
        columns.dedup();
        columns
    }
    /// A value with its confidence interval, if known, and the paper's value, if it states one.
    fn text(&self, row: &str, column: &str, spread: Option<&Cells<'_>>) -> String {
        let key = (row.to_owned(), column.to_owned());
        let Some(metric) = self.cells.get(&key) else { return String::new() };
        let spread = spread.and_then(|spread| spread.cells.get(&key)).filter(|spread| spread.value >= 0.0);
        let spread = spread.map(|spread| format!(" ± {}", number(spread.value))).unwrap_or_default();
        let paper = metric.paper.map(|paper| format!(" <small>paper {}</small>", number(paper))).unwrap_or_default();
        format!("{}{spread}{paper}", number(metric.value))
    }
}

/// Tables of all quantities: those with only one value for each variant in one table, and for each other quantity a
/// table with a row for each variant and a column for each case and setting.
fn quantities(html: &mut String, of: &Results) {
    let variants = variants(of);
    let mut quantities: BTreeMap<&str, Cells<'_>> = BTreeMap::new();
    for (name, metric) in &of.metrics {
        let (row, quantity, column) = place(name, &variants);
        quantities.entry(quantity).or_default().cells.insert((row, column), metric);
    }
    let spread_of = |quantity: &str| {
        let base = quantity.strip_suffix("_mean").unwrap_or(quantity);
        quantities.get(format!("{base}_confidence").as_str())
    };
    let is_spread = |quantity: &str| {
        let base = quantity.strip_suffix("_confidence");
        base.is_some_and(|base| [base, &format!("{base}_mean")].iter().any(|base| quantities.contains_key(base)))
    };
    let heading = |quantity: &str, cells: &Cells<'_>| {
        cells.cells.values().next().map_or_else(String::new, |metric| escape(&formatted(quantity, metric)))
    };
    let shown = || quantities.iter().filter(|(quantity, _)| !is_spread(quantity));
    let single: Vec<_> = shown().filter(|(_, cells)| cells.columns() == [""]).collect();
    if !single.is_empty() {
        let mut rows: Vec<&str> = single.iter().flat_map(|(_, cells)| cells.rows()).collect();
        rows.sort_by_key(|row| (*row == "optimum", *row));
        rows.dedup();
        let columns: Vec<_> = single.iter().map(|(quantity, cells)| heading(quantity, cells)).collect();
        table(html, &columns, &rows, |row, column| {
            let (quantity, cells) = single[column];
            cells.text(row, "", spread_of(quantity))
        });
    }
    for (quantity, cells) in shown().filter(|(_, cells)| cells.columns() != [""]) {
        put(html, format_args!("<h3>{}</h3>\n", heading(quantity, cells)));
        let (rows, columns, spread) = (cells.rows(), cells.columns(), spread_of(quantity));
        let names = |of: &[&str]| of.iter().map(|name| escape(name)).collect::<Vec<_>>();
        // A table that is too wide for a page is transposed.
        if columns.len() > COLUMNS_MAX && rows.len() < columns.len() {
            table(html, &names(&rows), &columns, |column, row| cells.text(rows[row], column, spread));
        } else {
            table(html, &names(&columns), &rows, |row, column| cells.text(row, columns[column], spread));
        }
    }
}
const COLUMNS_MAX: usize = 8;

fn table(html: &mut String, columns: &[String], rows: &[&str], cell: impl Fn(&str, usize) -> String) {
    html.push_str("<table><tr><th></th>");
    columns.iter().for_each(|column| put(html, format_args!("<th>{column}</th>")));
    html.push_str("</tr>\n");
    for row in rows {
        put(html, format_args!("<tr><td>{}</td>", escape(row)));
        (0..columns.len())
            .for_each(|column| put(html, format_args!("<td class=\"number\">{}</td>", cell(row, column))));
        html.push_str("</tr>\n");
    }
    html.push_str("</table>\n");
}
fn variants(of: &Results) -> BTreeSet<&str> {
    of.metrics.keys().map(|name| name.split_once('.').map_or(name.as_str(), |(variant, _)| variant)).collect()
}
/// The parts of a value's name: variant, quantity, and case with setting.
fn place<'a>(name: &'a str, variants: &BTreeSet<&str>) -> (String, &'a str, String) {
    let (variant, rest) = name.split_once('.').unwrap_or((name, ""));
    let (quantity, setting) = rest.split_once('@').unwrap_or((rest, ""));
    let (who, case) = actor(variant, variants);
    let case = [case.as_str(), setting].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    (who, quantity, case)
}
/// A quantity in words, with its unit.
fn formatted(quantity: &str, metric: &Metric) -> String {
    let unit = if metric.unit == "count" { String::new() } else { format!(" ({})", metric.unit) };
    format!("{}{unit}", quantity.replace('_', " "))
}
/// The actor of a variant, and its case: `default-source-1` with `source-1` is the default in the case `source-1`. A
/// name without such a pair is its own actor.
fn actor(variant: &str, variants: &BTreeSet<&str>) -> (String, String) {
    let prefixed = |case: &str| ACTORS.iter().any(|(prefix, _)| variants.contains(format!("{prefix}-{case}").as_str()));
    for (prefix, name) in ACTORS {
        let case = variant.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        if let Some(case) = case.filter(|case| variants.contains(case)) {
            return (name.into(), case.into());
        }
        if variant == prefix {
            return (name.into(), String::new());
        }
    }
    if prefixed(variant) { ("the paper's controller".into(), variant.into()) } else { (variant.into(), String::new()) }
}
/// A text with its numbers as numbers, so that `rtt50` comes before `rtt100`.
fn natural(text: &str) -> Vec<(u64, char)> {
    let mut key: Vec<(u64, char)> = Vec::new();
    for letter in text.chars() {
        match (letter.to_digit(10), key.last_mut()) {
            (Some(digit), Some((value, '#'))) => *value = value.saturating_mul(10).saturating_add(u64::from(digit)),
            (Some(digit), _) => key.push((u64::from(digit), '#')),
            (None, _) => key.push((0, letter)),
        }
    }
    key
}

fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("writing into a string does not fail");
}
/// Four digits that mean something.
fn number(value: f64) -> String {
    let size = value.abs();
    let digits = if size >= 1000.0 {
        0
    } else if size >= 100.0 {
        1
    } else if size >= 10.0 {
        2
    } else {
        3
    };
    format!("{value:.digits$}")
}
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, figures::Figure};

    #[test]
    fn settings_stand_in_the_order_of_their_numbers() {
        let mut settings = ["rtt100-loss0", "rtt50-loss1", "rtt50-loss0", "all"];
        settings.sort_by_key(|text| natural(text));
        assert_eq!(settings, ["all", "rtt50-loss0", "rtt50-loss1", "rtt100-loss0"]);
    }

    #[test]
    fn who_is_compared_has_a_row_and_each_case_a_column() {
        let variants = ["source-1", "default-source-1", "quic-bbr-source-1", "optimum", "quic-cubic", "mftp"];
        let variants = variants.into();
        let of = |variant| actor(variant, &variants);
        assert_eq!(of("source-1"), ("the paper's controller".into(), "source-1".into()));
        assert_eq!(of("default-source-1"), ("the product's default".into(), "source-1".into()));
        assert_eq!(of("quic-bbr-source-1"), ("QUIC BBR".into(), "source-1".into()));
        assert_eq!(of("quic-cubic"), ("QUIC Cubic".into(), String::new()));
        assert_eq!(of("mftp"), ("mftp".into(), String::new()));
    }

    #[test]
    fn a_mean_has_its_interval_in_its_cell() {
        let mut results = Results::new(
            "mmftp-selection",
            &Settings { seed: 1, runs: 2, scale: crate::Scale::Small, ..Settings::default() },
        );
        results.metric("hops.seconds_mean", 3.0, "seconds");
        results.metric("hops.seconds_confidence", 0.25, "seconds");
        let page = page(&[results]);
        assert!(page.contains("3.000 ± 0.250") && !page.contains("confidence"), "{page}");
    }

    #[test]
    fn a_page_holds_everything_and_loads_nothing() {
        let settings = Settings { seed: 3, runs: 2, scale: crate::Scale::Small, ..Settings::default() };
        let mut results = Results::new("mmftp-multisource", &settings);
        results.comparison("three-sources.seconds_mean", 3.0, "seconds", 3.07);
        results.note("a < b & c");
        results.figures.push(Figure { name: "x".into(), caption: "what to see".into(), svg: "<svg></svg>".into() });
        let page = page(&[results]);
        for part in ["paper 3.070", "3.000", "a &lt; b &amp; c", "<svg>", "--seed 3 --runs 2", "what to see"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
    }
}
