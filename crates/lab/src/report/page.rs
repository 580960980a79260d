//! One self-contained HTML page.
use std::{collections::BTreeMap, fmt::Write};

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
        "<p>Experiments in virtual time with the very code that runs as daemons. Each shows what its paper told \
         beside what came out here. The same command with the same seed gives the same bytes, this page included.</p>\n",
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
    let rows: Vec<_> = results
        .iter()
        .flat_map(|of| of.metrics.iter().map(move |(name, metric)| (of, name, metric)))
        .filter(|(.., metric)| metric.paper.is_some())
        .collect();
    if rows.is_empty() || results.len() < 2 {
        return;
    }
    html.push_str(
        "<h2>Where the papers tell a figure</h2>\n<table><tr><th>experiment</th><th>figure</th><th>unit</th>",
    );
    html.push_str("<th>paper</th><th>here</th></tr>\n");
    for (of, name, metric) in rows {
        put(html, format_args!("<tr><td>{}</td>", escape(&of.experiment)));
        cells(html, name, metric);
    }
    html.push_str("</table>\n");
}
fn cells(html: &mut String, name: &str, metric: &Metric) {
    let paper = metric.paper.map(number).unwrap_or_default();
    put(
        html,
        format_args!(
            "<td><code>{}</code></td><td>{}</td><td class=\"number\">{paper}</td><td class=\"number\">{}</td></tr>\n",
            escape(name),
            escape(&metric.unit),
            number(metric.value)
        ),
    );
}

fn section(html: &mut String, of: &Results) {
    let experiment = experiments::ALL.iter().find(|experiment| experiment.name == of.experiment);
    let (title, paper) = experiment.map_or(("", ""), |experiment| (experiment.title, experiment.paper));
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

/// A table for each quantity: a row per variant, a column per setting; the paper's value beside ours where it has one.
fn quantities(html: &mut String, of: &Results) {
    let mut quantities: BTreeMap<(&str, &str), Cells<'_>> = BTreeMap::new();
    for (name, metric) in &of.metrics {
        let (variant, rest) = name.split_once('.').unwrap_or((name, ""));
        let (quantity, setting) = rest.split_once('@').unwrap_or((rest, ""));
        quantities.entry((quantity, &metric.unit)).or_default().insert((variant, setting), metric);
    }
    for ((quantity, unit), cells) in quantities {
        let mut settings: Vec<&str> = cells.keys().map(|(_, setting)| *setting).collect();
        settings.sort_by_key(|setting| natural(setting));
        settings.dedup();
        let mut variants: Vec<&str> = cells.keys().map(|(variant, _)| *variant).collect();
        variants.dedup();
        let told = if unit == "count" { String::new() } else { format!(" ({})", escape(unit)) };
        put(html, format_args!("<h3>{}{told}</h3>\n<table><tr><th></th>", escape(&quantity.replace('_', " "))));
        for setting in &settings {
            put(html, format_args!("<th>{}</th>", escape(setting)));
        }
        html.push_str("</tr>\n");
        for variant in variants {
            put(html, format_args!("<tr><td><code>{}</code></td>", escape(variant)));
            for setting in &settings {
                let cell = cells.get(&(variant, *setting)).map(|metric| {
                    let paper = metric.paper.map(|paper| format!(" <small>paper {}</small>", number(paper)));
                    format!("{}{}", number(metric.value), paper.unwrap_or_default())
                });
                put(html, format_args!("<td class=\"number\">{}</td>", cell.unwrap_or_default()));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</table>\n");
    }
}
/// By variant and setting.
type Cells<'a> = BTreeMap<(&'a str, &'a str), &'a Metric>;
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
    fn a_page_holds_everything_and_loads_nothing() {
        let settings = Settings { seed: 3, runs: 2, scale: crate::Scale::Small };
        let mut results = Results::new("mmftp-multisource", &settings);
        results.beside("three-sources.seconds_mean", 3.0, "seconds", 3.07);
        results.note("a < b & c");
        results.figures.push(Figure { name: "x".into(), caption: "what to see".into(), svg: "<svg></svg>".into() });
        let page = page(&[results]);
        for part in ["paper 3.070", "3.000", "a &lt; b &amp; c", "<svg>", "--seed 3 --runs 2", "what to see"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("http"), "nothing is loaded from elsewhere");
    }
}
