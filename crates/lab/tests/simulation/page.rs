//! The book's page about scenario files, compared with what the parser reads.
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tributary::config::documented::{Declared, declared};
use tributary_lab::simulation::file::ScenarioFile;
use tributary_testkit::key_tables::{Row, compare, rows};

/// Scenarios that together have each section, and each variant of a section.
fn scenarios() -> Vec<String> {
    let everything = std::fs::read_to_string(examples().join("everything.toml")).expect("the example");
    let topologies = [
        "generate = \"grid\"\nrows = 2\ncolumns = 2",
        "generate = \"tree\"\ndepth = 1\nfanout = 2",
        "generate = \"waxman\"\nplaces = 3\ncomponent = \"largest\"",
        "file = \"data/Abilene.graphml\"\nformat = \"graphml\"",
    ];
    let mut all = vec![everything];
    all.extend(topologies.map(|topology| format!("[topology]\n{topology}\n")));
    all
}
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/sim")
}

#[test]
fn the_page_about_scenario_keys_has_each_key_with_its_range() {
    declared();
    for text in scenarios() {
        if let Err(error) = ScenarioFile::parse("scenario", &text, &examples(), None) {
            panic!("{error}\n{text}");
        }
    }
    // How nodes work is on the page about config keys, and so are the parameters of queues and of bursts.
    const ELSEWHERE: [&str; 19] = [
        "network",
        "psi",
        "mf",
        "ndn",
        "transfer",
        "http",
        "origin",
        "site",
        "resolver",
        "serve",
        "mirrors",
        "limits",
        "faults",
        "bursts",
        "red",
        "codel",
        "threshold",
        "series",
        "faces",
    ];
    const LINKS: [&str; 2] = ["'link' of [topology]", "'back' of [link]"];
    let is_elsewhere = |title: &str| {
        let path: Vec<&str> = title.split(" of ").map(|part| part.trim_matches(['\'', '[', ']'])).collect();
        path.iter().any(|part| ELSEWHERE.contains(part))
    };
    let mut here: Declared = BTreeMap::new();
    for ((section, key), takes) in declared() {
        // Every link has the same keys.
        let section = if LINKS.contains(&section.as_str()) { "[link]".into() } else { section };
        let is_section = ELSEWHERE.contains(&key) || ["link", "back"].contains(&key) && section != "[fault]";
        // Each node of a scenario is made from a config, whose own sections are read then as well.
        let is_of_config = match section.as_str() {
            "[node]" => !["label", "family", "roles"].contains(&key),
            "the file" => {
                ["face", "readers", "group", "shared_key", "key_group", "blind", "trust", "trust_anchor"].contains(&key)
            }
            _ => false,
        };
        if !is_elsewhere(&section) && !is_section && !is_of_config {
            here.entry((section, key)).or_default().extend(takes);
        }
    }
    // A link has each key of `[face.egress]`, which are on the page about config keys.
    let egress = rows("config.md").into_iter().filter(|row| row.heading == "[face.egress]");
    let egress = egress.map(|row| Row { section: "[link]".into(), ..row });
    let page: Vec<Row> = rows("scenario.md").into_iter().chain(egress).collect();
    compare("scenario.md", &page, &here);
}
