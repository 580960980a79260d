//! Small versions of the experiments: the shape of each result, and that the same seed gives the same bytes.
use tributary_lab::{Results, Scale, Settings, experiments};

fn run(name: &str, seed: u64, runs: u32) -> Results {
    run_at(Scale::Small, name, seed, runs)
}
fn run_at(scale: Scale, name: &str, seed: u64, runs: u32) -> Results {
    let experiment = experiments::find(name).unwrap_or_else(|| panic!("there is no experiment {name}"));
    experiment.run(&Settings { seed, runs, scale, ..Settings::default() })
}
/// Every packet is accounted for, the rivals' too, and no transport is faster than the links.
fn conserves_and_keeps_within_the_optimum(results: &Results) {
    for variant in ["mftp", "rivals"] {
        assert!(value(results, &format!("{variant}.unaccounted_packets")) < 0.5, "{variant}");
    }
    for (name, metric) in results.metrics.iter().filter(|(name, _)| name.contains("utilisation")) {
        assert!(metric.value <= 1.0, "{name}: {}", metric.value);
    }
    for (name, metric) in results.metrics.iter().filter(|(name, _)| name.contains("beyond_seconds_mean")) {
        assert!(metric.value >= 0.0, "{name}: {}", metric.value);
    }
}
/// The rows of a table, by the first column.
fn rows<'a>(results: &'a Results, table: &str, variant: &str) -> Vec<&'a Vec<String>> {
    let table = results.tables.iter().find(|of| of.name == table).expect("the table is there");
    table.rows.iter().filter(|row| row[0] == variant).collect()
}
/// Whether no two of some runs gave the same in a column.
fn differ(rows: &[&Vec<String>], column: usize) -> bool {
    rows.iter().enumerate().all(|(at, row)| rows[..at].iter().all(|other| other[column] != row[column]))
}
fn value(results: &Results, name: &str) -> f64 {
    let metric = results.metrics.get(name);
    metric.unwrap_or_else(|| panic!("no metric {name}: {:?}", results.metrics.keys())).value
}

#[test]
fn every_experiment_has_its_own_name_and_says_where_it_comes_from() {
    let mut names: Vec<_> = experiments::ALL.iter().map(|experiment| &experiment.name).collect();
    assert!(experiments::ALL.iter().all(|experiment| !experiment.paper.is_empty() && experiment.runs > 0));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), experiments::ALL.len());
}

#[test]
fn what_a_run_prints_has_the_names_and_units_that_others_read() {
    for (name, expected) in [
        ("mmftp-multisource", &["source-1.seconds_mean", "three-sources.seconds_mean"][..]),
        ("mmftp-failure", &["failure.seconds_mean", "failure.ideal_seconds"]),
        ("mmftp-multipath", &["four-paths.gain"]),
        ("ptp-tree-1", &["ptp.utilisation", "rfa-raaqm.utilisation", "ptp-paper.utilisation"]),
        ("mftp-wireless", &["mftp.goodput_mbps@rtt50-loss1", "optimum.goodput_mbps@rtt50-loss1"]),
    ] {
        let line: serde_json::Value = serde_json::from_str(&run(name, 1, 1).to_line()).expect("an object");
        let keys: Vec<&String> = line.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["experiment", "metrics", "runs", "seed"]);
        assert_eq!((&line["experiment"], &line["runs"], &line["seed"]), (&name.into(), &1.into(), &1.into()));
        let metrics = line["metrics"].as_object().expect("an object");
        expected.iter().for_each(|name| assert!(metrics.contains_key(*name), "{name}: {:?}", metrics.keys()));
        for (metric, reported) in metrics {
            let (variant, quantity) = metric.split_once('.').unwrap_or_else(|| panic!("{metric} has no variant"));
            let quantity = quantity.split('@').next().unwrap_or_default();
            assert!(!variant.is_empty() && !quantity.is_empty(), "{metric}");
            let keys: Vec<&String> = reported.as_object().expect("an object").keys().collect();
            assert_eq!(keys, ["paper", "unit", "value"]);
            let (value, unit) =
                (reported["value"].as_f64().expect("a number"), reported["unit"].as_str().expect("a text"));
            match unit {
                "share" => assert!((0.0..=1.0).contains(&value), "{metric}: {value}"),
                _ => assert!(!quantity.contains("utilisation"), "{metric} in {unit}"),
            }
            let of_unit = |word: &str| quantity.split('_').any(|part| part == word);
            assert!(!of_unit("mbps") || unit == "mbps", "{metric} in {unit}");
            assert!(!of_unit("seconds") || unit.starts_with("seconds"), "{metric} in {unit}");
        }
    }
    let mut results = Results::new("full", &Settings::default());
    results.metric("link.utilisation", 1.000_3, "share");
    results.metric("paths.gain", -0.1, "relative");
    let line = results.to_line();
    assert!(line.contains("\"value\":1.0}") && line.contains("\"value\":-0.1}"), "{line}");
}

#[test]
fn three_sources_are_faster_and_vary_less_than_the_best_of_them() {
    // A burst of congestion is rare: files of full size meet some in twelve runs, small ones do not.
    let results = run_at(Scale::Full, "mmftp-multisource", 1, 12);
    for prefix in ["", "default-"] {
        let mean = |name: &str| value(&results, &format!("{prefix}{name}.seconds_mean"));
        let best = (1..=3).map(|n| mean(&format!("source-{n}"))).fold(f64::INFINITY, f64::min);
        assert!(mean("three-sources") < best * 0.9, "{prefix}: {} against {best}", mean("three-sources"));
        let variance = |name: &str| value(&results, &format!("{prefix}{name}.seconds_variance"));
        let least = (1..=3).map(|n| variance(&format!("source-{n}"))).fold(f64::INFINITY, f64::min);
        // One burst in twelve runs makes nearly all of it: 0.25 to 0.33 with seed 1, 0.001 with seed 2.
        assert!(variance("three-sources") < least * 0.4, "{prefix}: {} against {least}", variance("three-sources"));
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
fn every_file_of_a_run_has_the_same_bytes_when_it_runs_again() {
    let files = |folder: &str| {
        let folder = std::env::temp_dir().join(format!("tributary-lab-{}-{folder}", std::process::id()));
        let written = tributary_lab::report::write(&run("mftp-m2m", 5, 1), &folder).expect("a temporary folder");
        let read = |path: &std::path::PathBuf| {
            let name = path.file_name().expect("a file has a name").to_os_string();
            (name, std::fs::read(path).expect("it was written"))
        };
        let files: Vec<_> = written.iter().map(read).collect();
        std::fs::remove_dir_all(folder).expect("it was made");
        files
    };
    let (first, second) = (files("a"), files("b"));
    assert!(first.len() >= 4);
    assert!(first == second, "the same seed gives the same bytes");
}

#[test]
fn losses_on_the_last_hop_cost_mftp_no_more_than_three_percent() {
    let results = run("mftp-wireless", 1, 1);
    for rtt in [10, 50, 100] {
        let of = |name: &str| value(&results, &format!("{name}@rtt{rtt}-loss1"));
        assert!(of("mftp.goodput_mbps") > of("quic-cubic.goodput_mbps"), "{rtt} ms");
        let kept = value(&results, &format!("mftp.kept@rtt{rtt}"));
        assert!(kept >= 0.97, "{rtt} ms: {kept}");
        // Without loss smoltcp's Cubic is not crippled by its loss recovery, because its window is made to measure.
        let clean = value(&results, &format!("tcp-cubic.utilisation@rtt{rtt}-loss0"));
        assert!(clean > 0.5, "{rtt} ms: {clean}; the object is small, and most of the time slow start");
    }
    conserves_and_keeps_within_the_optimum(&results);
}

#[test]
fn next_to_nothing_is_lost_beyond_an_outage_and_the_network_is_ahead_of_the_receiver() {
    let results = run("mftp-disconnection", 1, 6);
    for outage in ["outage10", "outage30"] {
        assert!(value(&results, &format!("mftp.interrupted@{outage}")) >= 1.0);
        assert!(value(&results, &format!("mftp.lost_seconds_max@{outage}")) <= 0.1, "{outage}");
        assert!(value(&results, &format!("mftp.failed@{outage}")) < 0.5);
    }
    let results = run("mftp-proactive", 1, 6);
    let lost = |variant: &str| value(&results, &format!("{variant}.lost_seconds_mean@outage10"));
    assert!(lost("proactive") < lost("proactive-timer") && lost("proactive-timer") < lost("receiver-driven-3s"));
}

#[test]
fn pages_load_faster_than_over_tcp_and_quic() {
    let results = run("mftp-web", 1, 2);
    for loss in ["loss0", "loss1"] {
        for quantity in ["plt_seconds_median", "plt_seconds_max"] {
            let of = |variant: &str| value(&results, &format!("{variant}.{quantity}@{loss}"));
            for rival in ["tcp-cubic", "quic-cubic", "quic-bbr"] {
                assert!(of("mftp") < of(rival), "{quantity}, {loss}: {} against {rival}'s {}", of("mftp"), of(rival));
            }
        }
        let median = value(&results, &format!("mftp.plt_seconds_median@{loss}"));
        assert!(median >= value(&results, &format!("optimum.plt_seconds_median@{loss}")));
    }
    conserves_and_keeps_within_the_optimum(&results);
}

#[test]
fn a_slow_destination_does_not_hold_up_a_fast_one_and_equal_ones_get_equal_parts() {
    let results = run("mftp-hol", 1, 2);
    let of = |name: &str| value(&results, name);
    assert!(of("blocked.fast_mbps") < 0.5 * of("relieved.fast_mbps"), "{}", of("blocked.fast_mbps"));
    assert!(of("relieved.fast_utilisation") > 0.9, "{}", of("relieved.fast_utilisation"));
    assert!(of("relieved.jain@alike") > 0.98 && of("relieved.jain@alike") > of("blocked.jain@alike"));
    assert!(of("relieved.unaccounted_packets@alike") + of("quic-cubic.unaccounted_packets@alike") < 0.5);
    assert!(results.metrics.iter().all(|(name, metric)| !name.contains("utilisation") || metric.value <= 1.0));
    assert!(differ(&rows(&results, "rates", "relieved"), 3), "each run begins at moments of its own");
}

#[test]
fn a_receiver_that_moves_loses_little_and_each_journey_is_another() {
    let results = run("mftp-mobility", 1, 2);
    for gap in ["gap0", "gap1", "gap5"] {
        let beyond = value(&results, &format!("mftp.beyond_seconds_mean@{gap}"));
        assert!(beyond < 2.0, "{gap}: {beyond}");
        assert!(value(&results, &format!("mftp.failed@{gap}")) < 0.5);
    }
    assert!(value(&results, "mftp.utilisation@synthetic") > 0.9);
    conserves_and_keeps_within_the_optimum(&results);
    let (runs, times) = (rows(&results, "times", "mftp"), 3);
    let of = |gap: &str| runs.iter().copied().filter(|row| row[1] == gap).collect::<Vec<_>>();
    assert!(["gap0", "gap1", "gap5"].iter().all(|gap| of(gap).len() == 2 && differ(&of(gap), times)));
}

#[test]
fn devices_that_meet_a_gateway_use_their_meetings() {
    let results = run("mftp-contacts", 1, 1);
    assert!(value(&results, "mftp.complete@synthetic") >= value(&results, "optimum.complete@synthetic"));
    for rival in ["tcp-cubic", "quic-cubic", "quic-bbr"] {
        let beyond = |variant: &str| value(&results, &format!("{variant}.beyond_seconds_mean@synthetic"));
        assert!(beyond("mftp") < beyond(rival), "{rival}: {} against {}", beyond("mftp"), beyond(rival));
    }
    conserves_and_keeps_within_the_optimum(&results);
}

#[test]
fn a_killed_router_loses_nothing_of_its_store_and_sensors_need_not_stay_awake() {
    let results = run("mftp-store", 1, 3);
    assert!(value(&results, "kill.chunks_durable@5mb") >= 1.0);
    assert!(value(&results, "kill.chunks_durable@5mb") < 6.0, "it is killed while it stores, not afterwards");
    assert!(value(&results, "kill.chunks_lost@5mb") + value(&results, "kill.chunks_gone_later@5mb") < 0.5);
    assert!(value(&results, "kill.failed@5mb") < 0.5);
    assert!(value(&results, "modest.held_share_min@cap10mb") > 0.99);
    conserves_and_keeps_within_the_optimum(&results);
    assert!(differ(&rows(&results, "kills", "5mb"), 8) && differ(&rows(&results, "pressure", "cap10mb"), 5));
    let results = run("mftp-m2m", 1, 1);
    let of = |name: &str| value(&results, name);
    assert!(of("stored.delivered@away") > 0.9);
    assert!(of("unstored.delivered@away") < of("stored.delivered@away"));
    assert!(of("forgotten.delivered@away") < of("stored.delivered@away"));
    for setting in ["away", "patchy", "patient"] {
        for way in ["delegated", "stored"] {
            assert!(of(&format!("{way}.promised_and_lost@{setting}")) < 0.5, "{way}@{setting}");
        }
    }
    let awake = |way: &str| of(&format!("{way}.awake_seconds_per_reading@patient"));
    assert!(awake("delegated") < awake("stored") / 2.0, "{} against {}", awake("delegated"), awake("stored"));
    conserves_and_keeps_within_the_optimum(&results);
}

#[test]
fn a_file_to_many_leaves_its_source_once_and_is_there_before_a_connection_to_each_has_brought_it() {
    let results = run("mftp-multicast", 1, 1);
    for setting in ["n10-loss0", "n10-loss1"] {
        for scale in ["small", "large"] {
            let of = |what: &str| value(&results, &format!("{what}@{setting}"));
            assert!(of(&format!("{scale}.failed")) < 0.5, "{scale} {setting}");
            assert!(of(&format!("{scale}.copies_mean")) < 2.0, "{scale} {setting}");
            assert!(of(&format!("{scale}.seconds_mean")) < of("quic-bbr.seconds_mean"), "{scale} {setting}");
            assert!(of(&format!("{scale}.seconds_mean")) > of("optimum.seconds_mean"), "{scale} {setting}");
        }
    }
    // A router that forgets leaves its receivers without a part; routers answer them, where they may.
    let again = |scale: &str| value(&results, &format!("{scale}.sent_again_mean@n4-forgetful"));
    assert!(again("large") <= again("small"), "{} against {}", again("large"), again("small"));
    assert!(value(&results, "large.failed@n4-forgetful") + value(&results, "small.failed@n4-forgetful") < 0.5);
    conserves_and_keeps_within_the_optimum(&results);
}

#[test]
fn a_silent_source_costs_no_more_than_the_others_cannot_carry() {
    let results = run("mmftp-failure", 1, 2);
    for (prefix, most) in [("", 1.2), ("default-", 1.05)] {
        let of = |name: &str| value(&results, &format!("{prefix}{name}"));
        assert!(of("failure.seconds_mean") > of("normal.seconds_mean"));
        let ratio = of("failure.seconds_mean") / of("failure.ideal_seconds");
        assert!(ratio < most, "{prefix}: {ratio} times what the others and the rest of its time allow");
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
fn a_coupled_transfer_takes_its_share_of_a_bottleneck_and_an_uncoupled_one_more() {
    let results = run("mmftp-friendliness", 1, 1);
    for prefix in ["", "default-"] {
        let of = |name: &str| value(&results, &format!("{prefix}{name}"));
        for bottleneck in ["shared", "partly"] {
            let (linked, uncoupled) =
                (of(&format!("linked.jain@{bottleneck}")), of(&format!("uncoupled.jain@{bottleneck}")));
            assert!(linked > 0.98 && linked > uncoupled, "{prefix}{bottleneck}: {linked} against {uncoupled}");
        }
        for bottleneck in ["shared", "partly", "disjoint"] {
            let used = of(&format!("linked.utilisation@{bottleneck}"));
            assert!((0.97..=1.001).contains(&used), "{prefix}{bottleneck}: {used}");
        }
    }
}

#[test]
fn two_paths_chosen_by_state_or_place_beat_the_one_that_has_the_fewest_hops() {
    let results = run("mmftp-selection", 1, 10);
    let seconds = |name: &str| value(&results, &format!("{name}.seconds_mean"));
    let (hops, optimum) = (seconds("hops"), seconds("optimum"));
    for chosen in ["capacity-two-paths", "place-two-paths"] {
        assert!(seconds(chosen) < hops && seconds(chosen) > optimum, "{chosen}: {} against {hops}", seconds(chosen));
    }
}

#[test]
fn marks_reach_the_receiver_and_keep_the_queue_short_without_losses() {
    let results = run("mmftp-in-network", 1, 1);
    for prefix in ["", "default-"] {
        let of = |name: &str| value(&results, &format!("{prefix}{name}"));
        for marking in ["codel-mark", "red-mark", "threshold-mark"] {
            assert!(of(&format!("{marking}.marked")) > 0.0, "{prefix}{marking}");
            assert!(of(&format!("{marking}.queue_ms_mean")) < of("drop-tail.queue_ms_mean"), "{prefix}{marking}");
            // Only when a flow starts; RED drops every packet while its average is beyond twice the upper threshold.
            let dropped = of(&format!("{marking}.dropped"));
            // With the default window that happens in one run of six, and costs the link for seconds: a weakness of the window
            // that docs/results/psi.md names.
            let is_caught = prefix == "default-" && marking == "red-mark";
            let starts = match (is_caught, marking) {
                (true, _) => 0.25,
                (false, "red-mark") => 0.1,
                (false, _) => 0.002,
            };
            assert!(dropped <= of("drop-tail.dropped").max(starts), "{prefix}{marking}: {dropped}");
            assert!(is_caught || of(&format!("{marking}.utilisation")) > 0.7, "{prefix}{marking}");
        }
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
