//! The tables of keys in the book's pages, compared with a parser: the same sections, the same keys, the ranges and
//! words of each.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Keys by section, each with the values that the parser accepts.
pub type Declared = BTreeMap<(String, &'static str), BTreeSet<String>>;

/// One row of a table of keys.
#[derive(Clone, Debug)]
pub struct Row {
    /// The section as the parser calls it.
    pub section: String,
    /// Its heading, such as `[face.egress]`.
    pub heading: String,
    /// The key.
    pub key: String,
    /// The values that it accepts.
    pub takes: String,
    /// The text in backticks in the column of defaults; `None` if the default has no literal.
    pub default: Option<String>,
}

/// The tables of a page: below each heading such as `[[face]]` rows of key, values, default, meaning.
///
/// # Panics
/// If the page does not exist.
pub fn rows(page: &str) -> Vec<Row> {
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
///
/// # Panics
/// If the two differ.
pub fn compare(page: &str, rows: &[Row], declared: &Declared) {
    // Sections are headings, not keys of their parent section.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_what_the_parser_calls_its_sections() {
        assert_eq!(title("[[face]]"), "[face]");
        assert_eq!(title("[face.egress.red]"), "'red' of 'egress' of [face]");
    }
}
