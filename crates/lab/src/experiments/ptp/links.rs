//! Use of each link by each scheme, as a table and as a drawing: the paper's figures 13, 14, 16 and 17.
use super::variants::Runs;
use crate::{
    Results, Table,
    figures::{Bar, BarGroup, Chart, bars},
    stats::{confidence, mean},
};

/// A link whose utilisation is reported.
pub(super) struct Link {
    /// Its ends as Data passes them, and when, if that matters.
    pub(super) label: String,
    pub(super) rate_kbps: u64,
    /// The rate that counts as full use; a link without one is not drawn.
    pub(super) full_kbps: u64,
}

impl Link {
    /// A link over which Interests go from `from` to `to`.
    pub(super) fn new(from: u8, to: u8, rate_kbps: u64, full_kbps: u64) -> Link {
        Link { label: format!("{to}-{from}"), rate_kbps, full_kbps }
    }
}

/// The report on the use of links.
pub(super) struct Use<'a> {
    /// What the network is called.
    pub(super) title: &'a str,
    /// What counts as all of a link.
    pub(super) full: &'a str,
    /// The text below the drawing.
    pub(super) caption: &'a str,
    pub(super) links: &'a [Link],
}

impl Use<'_> {
    /// Reports it; `kbps` returns a run's rate on each of the links.
    pub(super) fn tell<T>(&self, results: &mut Results, main: &[&Runs<T>], kbps: impl Fn(&T) -> &[f64]) {
        let of = |runs: &Runs<T>, at: usize, by: u64| runs.of(|run| kbps(run)[at] / by as f64);
        let full = format!("{} (kbit/s)", self.full);
        let columns = ["scheme", "link", "rate (kbit/s)", &full, "measured (kbit/s)"];
        let mut table = Table::new("links", &[&columns[..], &["measured / rate", "95 % confidence (±)"]].concat());
        for runs in main {
            for (at, link) in self.links.iter().enumerate() {
                let shares = of(runs, at, link.rate_kbps);
                table.push(vec![
                    runs.variant.scheme.name.into(),
                    link.label.clone(),
                    format!("{}", link.rate_kbps),
                    format!("{}", link.full_kbps),
                    format!("{:.1}", mean(&shares) * link.rate_kbps as f64),
                    format!("{:.4}", mean(&shares)),
                    format!("{:.4}", confidence(&shares)),
                ]);
            }
        }
        results.tables.push(table);
        let drawn = self.links.iter().enumerate().filter(|(_, link)| link.full_kbps > 0);
        let groups = drawn.map(|(at, link)| {
            let bar = |runs: &&Runs<T>| {
                let shares = of(runs, at, link.full_kbps);
                Bar::of(&shares)
            };
            BarGroup { label: link.label.clone(), bars: main.iter().map(bar).collect() }
        });
        let groups: Vec<BarGroup> = groups.collect();
        let chart = Chart {
            size: (if groups.len() > 9 { 1200 } else { 900 }, 400),
            y_to: 1.0,
            ..Chart::new(
                &format!("{}: use of each link", self.title),
                "link, towards the consumer",
                &format!("measured / {}", self.full),
            )
        };
        let names: Vec<&str> = main.iter().map(|runs| runs.variant.scheme.label).collect();
        results.captioned(
            "links",
            format!("Throughput of each link on the wire, means with 95 % confidence intervals. {}", self.caption),
            bars(&chart, &names, &groups),
        );
    }
}
