//! What the parser reads, noted for tests that compare the book's pages about config files and scenarios with it.
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

/// Keys by section, each with its permitted values.
pub type Declared = BTreeMap<(String, &'static str), BTreeSet<String>>;

thread_local! {
    static DECLARED: RefCell<Declared> = RefCell::default();
}

/// The parser reads `key` in the section called `title`; it accepts one of `takes`, or any value if that is empty.
pub(super) fn declare(title: &str, key: &'static str, takes: Vec<String>) {
    DECLARED.with_borrow_mut(|declared| declared.entry((title.into(), key)).or_default().extend(takes));
}
/// Everything that this thread has read since the last call.
pub fn declared() -> Declared {
    DECLARED.take()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};
    use tributary_testkit::key_tables::{Row, compare, rows};

    use super::declared;
    use crate::config::NodeConfig;

    /// What a section cannot be without.
    const NEEDED: [(&str, &str); 19] = [
        (
            "[site]",
            "peers = [\"trib://8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c@192.0.2.7:7001\"]\n",
        ),
        ("[http]", "listen = \"127.0.0.1:8080\"\n"),
        ("[[http.mirror]]", "host = \"deb.example.org\"\nname = \"/mirror\"\n"),
        ("[[origin.replace]]", "from = \"a\"\nto = \"b\"\n"),
        ("[[origin]]", "path = \"/pypi\"\nurl = \"https://index.example.org\"\n"),
        ("[network]", "authority = \"ed25519:8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"\n"),
        ("[[blind]]", "prefix = \"/a\"\nfile = \"secret\"\n"),
        (
            "[[trust]]",
            "prefix = \"/a\"\npublisher = \"ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\"\n",
        ),
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
            // A key of the page replaces the same key of the base.
            let is_other = |line: &&str| !lines.lines().any(|of| of.split(' ').next() == line.split(' ').next());
            node = node.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
            return node + lines;
        }
        let mut text = node;
        if heading.trim_start_matches('[').starts_with("face.") {
            text += "[[face]]\n";
            text += needed("[[face]]");
        }
        if matches!(heading, "[[http.mirror]]" | "[[origin]]" | "[[origin.replace]]" | "[site]") {
            text += "[http]\n";
            text += needed("[http]");
        }
        if heading == "[[origin.replace]]" {
            text += "[[origin]]\n";
            text += needed("[[origin]]");
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
            // Each family has its sections.
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
        // A `[[face]]` has each key of `[ndn.faces]`.
        let faces = rows.iter().filter(|row| row.heading == "[ndn.faces]").cloned();
        let faces = faces.map(|row| Row { section: "[face]".into(), ..row });
        let rows: Vec<Row> = rows.iter().cloned().chain(faces).collect();
        compare("config.md", &rows, &declared());
    }
}
