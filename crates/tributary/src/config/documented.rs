//! Compares the book's pages about config files and scenarios with what the parser reads: the same sections, the same
//! keys, the ranges and words of each, and for a node's config the defaults as well.
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// Keys by section, each with the values that it takes.
type Declared = BTreeMap<(String, &'static str), BTreeSet<String>>;

thread_local! {
    static DECLARED: RefCell<Declared> = RefCell::default();
}

/// The parser reads `key` in the section called `title`; it takes one of `takes`, unless that is empty.
pub(super) fn declare(title: &str, key: &'static str, takes: Vec<String>) {
    DECLARED.with_borrow_mut(|declared| declared.entry((title.into(), key)).or_default().extend(takes));
}
/// Everything that was read since the last call.
fn declared() -> Declared {
    DECLARED.take()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        path::Path,
    };

    use super::{Declared, declared};
    use crate::{config::NodeConfig, simulation::file::ScenarioFile};

    /// One row of a table of keys.
    #[derive(Clone, Debug)]
    struct Row {
        /// The section as the parser calls it.
        section: String,
        /// Its heading, such as `[face.egress]`.
        heading: String,
        key: String,
        takes: String,
        /// What stands in backticks in the column of defaults; `None` if the default has no literal.
        default: Option<String>,
    }

    /// The tables of a page: below each heading such as `[[face]]` rows of key, values, default, meaning.
    fn rows(page: &str) -> Vec<Row> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rows = Vec::new();
        let (mut section, mut heading) = (String::new(), String::new());
        for line in text.lines() {
            if line.starts_with('#') {
                let name = line.split('`').nth(1).unwrap_or_default();
                (section, heading) = (title(name), name.to_string());
            }
            let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
            let key = cells[0].strip_prefix('`').and_then(|key| key.strip_suffix('`'));
            if let ([_, takes, default, ..], Some(key), true) = (&cells[..], key, line.starts_with("| `")) {
                let default = default.strip_prefix('`').and_then(|default| default.strip_suffix('`'));
                let default = default.filter(|default| !default.contains('`'));
                let (takes, default) = (takes.to_string(), default.map(String::from));
                rows.push(Row { section: section.clone(), heading: heading.clone(), key: key.into(), takes, default });
            }
        }
        rows
    }
    /// `[face.egress]` as the parser calls it: `'egress' of [face]`.
    fn title(heading: &str) -> String {
        let path = heading.trim_matches(['[', ']']);
        let mut parts = path.split('.');
        let first = format!("[{}]", parts.next().unwrap_or_default());
        parts.fold(first, |outer, inner| format!("'{inner}' of {outer}"))
    }

    /// The keys of the page are those that the parser reads, and each row names the ranges and words of its key.
    fn compare(page: &str, rows: &[Row], declared: &Declared) {
        // Sections stand as headings, not as keys of the section that they are in.
        let headings: BTreeSet<&str> = rows.iter().map(|row| row.section.as_str()).collect();
        let is_section = |section: &str, key: &str| match section {
            "the file" => headings.contains(format!("[{key}]").as_str()),
            outer => headings.contains(format!("'{key}' of {outer}").as_str()),
        };
        let mut wrong = Vec::new();
        for ((section, key), takes) in declared {
            let row = rows.iter().find(|row| row.section == *section && row.key == *key);
            match row {
                None if is_section(section, key) => {}
                None => wrong.push(format!("missing: {section} {key}: {takes:?}")),
                Some(row) => {
                    let says = |takes: &str| row.takes.contains(&takes.replace("9223372036854775807", "2⁶³ − 1"));
                    let unsaid = takes.iter().filter(|takes| !says(takes));
                    wrong.extend(unsaid.map(|takes| format!("{section} {key} takes {takes}, not '{}'", row.takes)));
                }
            }
        }
        let is_declared = |row: &&Row| declared.keys().any(|(section, key)| *section == row.section && *key == row.key);
        wrong.extend(
            rows.iter().filter(|row| !is_declared(row)).map(|row| format!("not read: {} {}", row.section, row.key)),
        );
        assert!(wrong.is_empty(), "docs/reference/{page}:\n{}", wrong.join("\n"));
    }

    /// What a section cannot be without.
    const NEEDED: [(&str, &str); 15] = [
        ("[http]", "listen = \"127.0.0.1:8080\"\n"),
        ("[[http.mirror]]", "host = \"deb.example.org\"\nname = \"/mirror\"\n"),
        ("[network]", "authority = \"ed25519:8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"\n"),
        ("[[blind]]", "prefix = \"/a\"\nfile = \"secret\"\n"),
        ("[[face]]", "peer = \"192.0.2.7:7001\"\n"),
        ("[[publish]]", "name = \"/a\"\npath = \"a\"\n"),
        (
            "[[key_group]]",
            "label = \"lab\"\nkeys = [\"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"]\n",
        ),
        ("[[readers]]", "guids = [\"00112233445566778899aabbccddeeff00112233\"]\n"),
        ("[[group]]", "label = \"a\"\nmembers = [\"00112233445566778899aabbccddeeff00112233\"]\n"),
        ("[[shared_key]]", "prefix = \"/a\"\nfile = \"secret\"\n"),
        ("[[trust_anchor]]", "file = \"root.cert\"\n"),
        ("[face.egress.series]", "file = \"series.csv\"\nrate_mbps = \"rate\"\n"),
        ("[face.egress.bursts]", ""),
        ("[[face.policy.schedule]]", "from = \"08:00\"\nto = \"18:00\"\nrate = \"1Mbps\"\n"),
        ("[node]", "label = \"a\"\nlisten = [\"0.0.0.0:7001\"]\nstate_dir = \"state\"\n"),
    ];
    fn needed(heading: &str) -> &'static str {
        NEEDED.iter().find(|(of, _)| *of == heading).map_or("", |(_, text)| text)
    }
    /// A complete config of a family with one section, and `lines` in it.
    fn config(family: &str, heading: &str, lines: &str) -> String {
        let roles = match family {
            "psi" => r#""router", "resolver", "topology-manager", "sender", "receiver""#,
            "mf" => r#""router", "resolver", "sender", "receiver""#,
            _ => r#""router", "sender", "receiver""#,
        };
        let mut node = format!("[node]\n{}family = \"{family}\"\nroles = [{roles}]\n", needed("[node]"));
        if heading == "[node]" {
            // A key of the base gives way to the same one of the page.
            let is_other = |line: &&str| !lines.lines().any(|of| of.split(' ').next() == line.split(' ').next());
            node = node.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
            return node + lines;
        }
        let mut text = node;
        if heading.trim_start_matches('[').starts_with("face.") {
            text += "[[face]]\n";
            text += needed("[[face]]");
        }
        if heading == "[[http.mirror]]" {
            text += "[http]\n";
            text += needed("[http]");
        }
        text + heading + "\n" + needed(heading) + lines
    }

    #[test]
    fn the_page_about_config_keys_has_each_key_with_its_range_and_its_true_default() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("secret"), [7; 32]).expect("a file");
        for (file, golden) in [("root.cert", "ed25519.root.cert"), ("a.lvs", "blog.lvs")] {
            let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ndn/tests/golden").join(golden);
            std::fs::copy(golden, folder.path().join(file)).expect("a golden file of the ndn crate");
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.path().join("secret"), private).expect("it is ours");
        std::fs::write(folder.path().join("series.csv"), "t_s,rate\n0,1\n1,2\n").expect("a file");
        let parse = |text: &str| NodeConfig::parse("config", text, folder.path());
        let rows = rows("config.md");
        let headings: BTreeSet<&str> = rows.iter().map(|row| row.heading.as_str()).collect();
        assert!(headings.len() > 15, "{headings:?}");
        declared();
        let mut wrong = Vec::new();
        for heading in headings {
            // Each family reads sections of its own.
            let mut read_by = 0;
            for family in ["psi", "ndn", "mf"] {
                let Ok(plain) = parse(&config(family, heading, "")) else { continue };
                read_by += 1;
                for row in rows.iter().filter(|row| row.heading == heading) {
                    let Some(default) = &row.default else { continue };
                    if row.key == "family" && *default != format!("\"{family}\"") {
                        continue;
                    }
                    let text = config(family, heading, &format!("{} = {default}\n", row.key));
                    match parse(&text) {
                        Ok(stated) if stated == plain => {}
                        Ok(_) => {
                            wrong.push(format!("{heading} {} = {default} is not the default of {family}", row.key))
                        }
                        // A key of another family.
                        Err(errors) => assert!(errors.to_string().contains("unknown key"), "{heading}: {errors}"),
                    }
                }
            }
            assert!(read_by > 0, "{heading} is read by no family");
        }
        assert!(wrong.is_empty(), "docs/reference/config.md:\n{}", wrong.join("\n"));
        compare("config.md", &rows, &declared());
    }

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
    fn examples() -> std::path::PathBuf {
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
        const ELSEWHERE: [&str; 17] = [
            "network",
            "psi",
            "mf",
            "ndn",
            "transfer",
            "http",
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
                    ["face", "readers", "group", "shared_key", "key_group", "blind", "trust_anchor"].contains(&key)
                }
                _ => false,
            };
            if !is_elsewhere(&section) && !is_section && !is_of_config {
                here.entry((section, key)).or_default().extend(takes);
            }
        }
        compare("scenario.md", &rows("scenario.md"), &here);
    }

    #[test]
    fn headings_are_what_the_parser_calls_its_sections() {
        assert_eq!(title("[[face]]"), "[face]");
        assert_eq!(title("[face.egress.red]"), "'red' of 'egress' of [face]");
    }
}
