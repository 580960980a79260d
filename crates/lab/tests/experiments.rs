//! Small versions of the experiments: the shape of each result, and that the same seed gives the same bytes.
use tributary_lab::{Results, Scale, Settings, experiments};

fn run(name: &str, seed: u64, runs: u32) -> Results {
    let experiment = experiments::find(name).unwrap_or_else(|| panic!("there is no experiment {name}"));
    (experiment.run)(&Settings { seed, runs, scale: Scale::Small })
}
fn value(results: &Results, name: &str) -> f64 {
    let metric = results.metrics.get(name);
    metric.unwrap_or_else(|| panic!("no metric {name}: {:?}", results.metrics.keys())).value
}

#[test]
fn every_experiment_has_its_own_name_and_says_where_it_comes_from() {
    let mut names: Vec<_> = experiments::ALL.iter().map(|experiment| experiment.name).collect();
    assert!(experiments::ALL.iter().all(|experiment| !experiment.paper.is_empty() && experiment.runs > 0));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), experiments::ALL.len());
}

#[test]
fn three_sources_are_faster_and_vary_less_than_the_best_of_them() {
    let results = run("mmftp-multisource", 1, 4);
    for prefix in ["", "default-"] {
        let mean = |name: &str| value(&results, &format!("{prefix}{name}.seconds_mean"));
        let best = (1..=3).map(|n| mean(&format!("source-{n}"))).fold(f64::INFINITY, f64::min);
        assert!(mean("three-sources") < best * 0.9, "{prefix}: {} against {best}", mean("three-sources"));
        assert!(value(&results, &format!("{prefix}three-sources.utilisation")) <= 1.0);
    }
    assert!(results.metrics.keys().all(|name| !name.ends_with(".failed")), "every byte arrived in every run");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let bytes = |seed| serde_json::to_string(&run("mmftp-multisource", seed, 2)).expect("results can be written");
    let first = bytes(3);
    assert_eq!(first, bytes(3));
    assert_ne!(first, bytes(4));
}

#[test]
fn a_silent_source_costs_no_more_than_the_others_cannot_carry() {
    let results = run("mmftp-failure", 1, 2);
    for prefix in ["", "default-"] {
        let of = |name: &str| value(&results, &format!("{prefix}{name}"));
        assert!(of("failure.seconds_mean") > of("normal.seconds_mean"));
        assert!(of("failure.mbps@source-2") < 0.5, "it is silent");
        assert!(of("failure.rate_gain@source-1") > 0.0, "the others take over");
        assert!(of("failure.ideal_seconds") <= of("failure.seconds_mean"));
    }
    assert!(results.figures.iter().any(|figure| figure.name == "fig5-paper-publisher-2"));
}

#[test]
fn four_paths_are_not_slower_than_two() {
    let results = run("mmftp-multipath", 1, 2);
    for prefix in ["", "default-"] {
        assert!(value(&results, &format!("{prefix}four-paths.gain")) > 0.0);
    }
}

#[test]
fn caches_answer_more_the_larger_they_are() {
    let results = run("mmftp-cache", 1, 1);
    let hits = |setting: &str| value(&results, &format!("access-lru.hit_share@{setting}"));
    assert!(hits("cache5") <= hits("cache20") + 0.02 && hits("cache20") < hits("cache80"), "{results:?}");
    assert!(value(&results, "no-cache.hit_share@all") < 1e-9);
}

#[test]
fn every_path_of_a_growing_network_gets_an_identifier_and_every_fetch_ends() {
    let results = run("mmftp-scale", 1, 1);
    for (name, metric) in &results.metrics {
        if name.contains(".unreachable@") {
            assert!(metric.value < 0.5, "{name}");
        }
        if name.contains(".completed@") {
            assert!((metric.value - 1.0).abs() < 1e-9, "{name}");
        }
    }
}
