//! MFTP §5.3: forty web pages with their dependencies.
use std::{collections::BTreeMap, sync::Arc};
use tributary_content::{MemoryObject, Name, ObjectKind, SigningKey};
use tributary_core::{
    Duration,
    event::{Event, TransferEvent},
};

use super::{
    network::{LABELS, LAST_HOP_KBPS, RIVALS, START, describe, figure_7, record_conservation},
    nodes::Nodes,
};
use crate::{
    Results, Settings, Table, comparison,
    figures::{Chart, Series, Style, lines},
    optimum::MFTP_PAYLOAD_SHARE,
    page::{Page, PageLoad, pages},
    rivals::Rival,
    simulation::{Scenario, object, parallel},
    stats::{mean, median, quantile},
};

/// Chunk size of pages and of a browser's requests: small, so that a page is parsed while it arrives (paper §3.1:
/// negotiated). Unverified bytes are not parsed; records of TLS are as long at most.
const CHUNK_BYTES: u32 = 16 << 10;
const RTT: Duration = Duration::from_millis(50);

/// A page, and its objects as they are published.
struct Site {
    page: Arc<Page>,
    objects: Vec<(usize, MemoryObject)>,
}

fn sites(count: usize) -> Vec<Site> {
    let key = SigningKey::from_secret(&[0x57; 32]);
    let site = |(number, page): (usize, Page)| {
        let objects = page.objects().map(|(object_number, bytes)| {
            let name = name(number, object_number);
            let bytes = object(&name.to_string(), bytes.max(1) as usize, object_number as u64).bytes().clone();
            let object = MemoryObject::with_options(name, bytes, &key, 1, ObjectKind::File, CHUNK_BYTES);
            (object_number, object.expect("its chunks are of a legal size"))
        });
        Site { objects: objects.collect(), page: Arc::new(page) }
    };
    pages().into_iter().take(count).enumerate().map(site).collect()
}
fn name(page: usize, object: usize) -> Name {
    format!("/web/{page}/{object}").parse().expect("the name is right")
}

fn scenario(seed: u64, loss: f64) -> Scenario {
    let mut scenario = figure_7(seed, RTT, loss, &|config| config.transfer.chunk_bytes = CHUNK_BYTES);
    scenario.limit = START + Duration::from_secs(300);
    scenario
}

/// Seconds until the last byte of the last object, and unaccounted packets.
fn ours(number: usize, site: &Site, scenario: &Scenario) -> (Option<f64>, u64) {
    let mut nodes = Nodes::new(scenario);
    for (_, object) in &site.objects {
        nodes.publish("n1", object.clone());
    }
    nodes.net.run_until(START);
    let mut load = PageLoad::new(Arc::clone(&site.page));
    load.start(START);
    let (browser, limit) = (nodes.place("n4"), scenario.limit);
    let mut open = BTreeMap::new();
    while load.ended().is_none() && nodes.net.now() < limit {
        while let Some(object) = load.poll_fetch() {
            let (id, content) = nodes.fetch("n4", name(number, object));
            open.insert(id, (object, content));
        }
        let due = load.poll_timeout().map_or(limit, |due| due.min(limit));
        for (time, node, event) in nodes.run_to_event(due) {
            let Event::Transfer(id, event) = event else { continue };
            if let (TransferEvent::ChunkStored { .. }, Some((object, _))) = (&event, open.get(&id))
                && node == browser
            {
                load.on_first_bytes(time, *object);
            }
            if node != browser || event != TransferEvent::Completed {
                continue;
            }
            if let Some((object, content)) = open.remove(&id) {
                let right = site.objects.iter().find(|(of, _)| *of == object).map(|(_, right)| right.bytes());
                assert!(content.finished(&name(number, object)).as_ref() == right, "bytes are those of the page");
                load.on_object(time, object);
            }
        }
        load.handle_timeout(nodes.net.now());
    }
    (load.ended().map(|end| end.since(START).as_secs_f64()), nodes.unaccounted_packets())
}

pub(in crate::experiments) fn run(settings: &Settings, results: &mut Results) {
    let sites = sites(settings.choose(40, 4));
    let mut table = Table::new(
        "pages",
        &["variant", "loss", "page", "objects", "bytes", "seconds_min", "seconds_mean", "seconds_max", "bound_seconds"],
    );
    let bytes_per_second = LAST_HOP_KBPS as f64 * 1000.0 / 8.0 * MFTP_PAYLOAD_SHARE;
    // There and back: both wired links, and the last hop.
    let round_trip = RTT + Duration::from_micros(200) + Duration::from_millis(2);
    let bounds: Vec<f64> =
        sites.iter().map(|site| site.page.bound(round_trip, bytes_per_second).as_secs_f64()).collect();
    let mut unaccounted = [0; 4];
    for loss in [0.0, 0.01] {
        let setting = format!("loss{}", (loss * 100.0) as u32);
        let items: Vec<(usize, u32)> =
            (0..sites.len()).flat_map(|site| (0..settings.runs).map(move |run| (site, run))).collect();
        let mut all: Vec<Vec<Vec<f64>>> = Vec::new();
        let mut failed = [0; 4];
        for (variant, (failed, unaccounted)) in failed.iter_mut().zip(&mut unaccounted).enumerate() {
            let seconds = parallel::map(&items, |(site, run)| {
                let scenario = scenario(settings.seed_of(*site as u64 + 1, *run), loss);
                match variant.checked_sub(1) {
                    None => ours(*site, &sites[*site], &scenario),
                    Some(rival) => {
                        let page = &sites[*site].page;
                        comparison::page_seconds(RIVALS[rival].0, &scenario, "n1", "n4", page, START)
                    }
                }
            });
            let mut of_pages = vec![Vec::new(); sites.len()];
            for ((site, _), (seconds, lost)) in items.iter().zip(seconds) {
                *unaccounted += lost;
                match seconds {
                    Some(seconds) => of_pages[*site].push(seconds),
                    None => *failed += 1,
                }
            }
            all.push(of_pages);
        }
        for (variant, of_pages) in all.iter().enumerate() {
            let name = variant.checked_sub(1).map_or("mftp", |rival| RIVALS[rival].0.name());
            tell(results, name, &setting, of_pages, failed[variant]);
            for ((site, seconds), bound) in sites.iter().zip(of_pages).zip(&bounds) {
                let mut row = vec![name.to_string(), format!("{loss}"), site.page.name.clone()];
                row.extend([format!("{}", site.objects.len()), format!("{}", site.page.bytes())]);
                let values = [quantile(seconds, 0.0), mean(seconds), quantile(seconds, 1.0), *bound];
                row.extend(values.map(|value| format!("{value:.4}")));
                table.push(row);
            }
        }
        compare(results, &setting, &all);
        results.metric(format!("optimum.plt_seconds_median@{setting}"), median(&bounds), "seconds");
        figure(results, loss, &all, &bounds);
    }
    record_conservation(results, "mftp", unaccounted[0]);
    record_conservation(results, "rivals", unaccounted[1..].iter().sum());
    results.tables.push(table);
    notes(results, &sites);
}

fn tell(results: &mut Results, variant: &str, setting: &str, of_pages: &[Vec<f64>], failed: u32) {
    let means: Vec<f64> = of_pages.iter().map(|seconds| mean(seconds)).collect();
    let spreads: Vec<f64> = of_pages
        .iter()
        .filter(|seconds| !seconds.is_empty())
        .map(|seconds| quantile(seconds, 1.0) - quantile(seconds, 0.0))
        .collect();
    let all: Vec<f64> = of_pages.concat();
    let mut put = |quantity: &str, value: f64| {
        results.metric(format!("{variant}.{quantity}@{setting}"), value, "seconds");
    };
    put("plt_seconds_median", median(&means));
    put("plt_seconds_mean", mean(&means));
    put("plt_seconds_max", quantile(&all, 1.0));
    put("plt_spread_seconds_mean", mean(&spreads));
    put("plt_spread_seconds_max", quantile(&spreads, 1.0));
    results.metric(format!("{variant}.failed@{setting}"), f64::from(failed), "count");
}

/// How much longer pages take with each rival, page by page.
fn compare(results: &mut Results, setting: &str, all: &[Vec<Vec<f64>>]) {
    for ((rival, _), of_pages) in RIVALS.iter().zip(&all[1..]) {
        let pairs = all[0].iter().zip(of_pages);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| mean(theirs) / mean(ours).max(1e-9)).collect();
        let faster = ratios.iter().filter(|ratio| **ratio > 1.0).count() as f64 / ratios.len().max(1) as f64;
        let name = rival.name();
        let ratio = format!("{name}.plt_ratio_median@{setting}");
        // "About 30 % higher" on small pages without loss.
        match (rival, setting) {
            (Rival::TcpCubic, "loss0") => results.comparison(ratio, median(&ratios), "times", 1.3),
            _ => results.metric(ratio, median(&ratios), "times"),
        }
        results.metric(format!("{name}.plt_ratio_min@{setting}"), quantile(&ratios, 0.0), "times");
        results.metric(format!("{name}.pages_where_mftp_is_faster@{setting}"), faster, "share");
    }
}

fn figure(results: &mut Results, loss: f64, all: &[Vec<Vec<f64>>], bounds: &[f64]) {
    let mut series: Vec<Series> = Vec::new();
    // Ordered by the pages' lower bounds, to keep the curves readable.
    let mut order: Vec<usize> = (0..bounds.len()).collect();
    order.sort_by(|a, b| bounds[*a].total_cmp(&bounds[*b]));
    let place = |index: usize| index as f64 + 1.0;
    for (index, label) in LABELS.into_iter().enumerate() {
        let of = |page: usize| &all[index][page];
        let points = order.iter().enumerate().map(|(at, page)| (place(at), mean(of(*page)))).collect();
        let ranges = order.iter().enumerate().map(|(at, page)| {
            // Side by side, so that the ranges do not overlap.
            (place(at) + (index as f64 - 1.5) * 0.15, quantile(of(*page), 0.0), quantile(of(*page), 1.0))
        });
        series.push(Series::new(label, points).styled(Style::Marked).with_ranges(ranges.collect()));
    }
    let points = order.iter().enumerate().map(|(at, page)| (place(at), bounds[*page])).collect();
    series.push(Series::new("bound", points).dashed().coloured(6));
    let title = format!("Page load times of forty pages, 50 ms, {} % loss", loss * 100.0);
    let mut chart = Chart::new(&title, "page, by its least time", "page load time (s)");
    chart.size = (980, 460);
    results.captioned(
        format!("fig11-loss{}", (loss * 100.0) as u32),
        "The paper's Fig. 11: mean of five runs, with least and most. The bound knows dependencies, computations, \
                  one round trip for each object and the rate of the last hop, but no other object on it.",
        lines(&chart, &series),
    );
}

fn notes(results: &mut Results, sites: &[Site]) {
    let objects: usize = sites.iter().map(|site| site.objects.len()).sum();
    let bytes: u64 = sites.iter().map(|site| site.page.bytes()).sum();
    results.parameter("pages", format!("{}, of {objects} objects and {:.1} MB", sites.len(), bytes as f64 / 1e6));
    describe(results);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_no_faster_than_its_bound() {
        let site = sites(1).remove(0);
        let (seconds, unaccounted) = ours(0, &site, &scenario(1, 0.0));
        let bound = site.page.bound(RTT, LAST_HOP_KBPS as f64 * 125.0).as_secs_f64();
        let seconds = seconds.expect("it loads");
        assert!(seconds >= bound && seconds < bound + 2.0, "{seconds} against {bound}");
        assert_eq!(unaccounted, 0);
    }
}
