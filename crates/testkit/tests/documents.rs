//! Documents name only existing things: tests and modules of `SPEC.md`, files, and the targets of links.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
/// All files below a folder whose name ends so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        // Crates have links to the pages that their programs contain.
        if entry.file_type().unwrap().is_symlink() {
            continue;
        }
        let is_made = ["target", "corpus", "node_modules"].iter().any(|made| name == *made);
        if entry.file_type().unwrap().is_dir() && !is_made && !name.to_string_lossy().starts_with('.') {
            found.extend(files(&path, end));
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// What the sources of a folder define.
struct Code {
    folder: PathBuf,
    functions: BTreeSet<String>,
    /// Functions, types, constants and inline modules.
    items: BTreeSet<String>,
    /// Names of modules that are files or folders.
    modules: BTreeSet<String>,
    /// Names of files.
    files: BTreeSet<String>,
}

impl Code {
    fn of(folder: &Path) -> Code {
        let mut code = Code {
            folder: folder.into(),
            functions: BTreeSet::new(),
            items: BTreeSet::new(),
            modules: BTreeSet::new(),
            files: BTreeSet::new(),
        };
        for file in files(folder, ".rs") {
            let text = fs::read_to_string(&file).unwrap();
            code.functions.extend(names_after(&text, "fn "));
            for keyword in ["fn ", "struct ", "enum ", "trait ", "const ", "static ", "type ", "mod ", "macro_rules! "]
            {
                code.items.extend(names_after(&text, keyword));
            }
            let inside = file.strip_prefix(folder).unwrap();
            let folders = inside.parent().into_iter().flat_map(Path::iter);
            code.modules.extend(folders.chain(file.file_stem()).map(|name| name.to_string_lossy().into_owned()));
            code.files.insert(file.file_name().unwrap().to_string_lossy().into_owned());
        }
        code
    }
    /// Whether `a::b::c` leads somewhere: modules as far as there are files, then something that is defined in there.
    fn has(&self, path: &[&str]) -> bool {
        let mut folder = self.folder.join("src");
        for (index, name) in path.iter().enumerate() {
            let (inner, file) = (folder.join(name), folder.join(format!("{name}.rs")));
            if inner.is_dir() || file.is_file() {
                folder = inner;
                continue;
            }
            let code = if folder.is_dir() { Code::of(&folder) } else { Code::of(folder.parent().unwrap()) };
            return path[index..].iter().all(|name| code.items.contains(*name));
        }
        true
    }
}
/// The words that follow a keyword.
fn names_after(text: &str, keyword: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut parts = text.split(keyword);
    let mut before = parts.next().unwrap_or_default();
    let mut names = Vec::new();
    for part in parts {
        if !before.ends_with(is_word) {
            names.push(part.chars().take_while(|letter| is_word(*letter)).collect());
        }
        before = part;
    }
    names
}
/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
/// Rows of the tables of a document, as pairs of heading and cell.
fn cells(text: &str) -> Vec<(String, String)> {
    let mut heads: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(row) = line.strip_prefix('|') else {
            heads.clear();
            continue;
        };
        let row: Vec<String> =
            row.trim_end().trim_end_matches('|').split(" | ").map(|cell| cell.trim().into()).collect();
        if heads.is_empty() {
            heads = row;
        } else if !line.contains("|---") {
            found.extend(heads.iter().cloned().zip(row));
        }
    }
    found
}
/// Names of tests are sentences.
fn is_sentence(word: &str) -> bool {
    word.split('_').count() > 3 && is_path(word) && !word.contains("::")
}
fn is_path(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:".contains(&byte))
}

#[test]
fn each_test_and_module_that_a_spec_names_exists() {
    let root = repository();
    let all = Code::of(&root.join("crates"));
    let mut wrong = Vec::new();
    let specs = files(&root.join("crates"), "SPEC.md");
    assert!(specs.len() >= 3, "{specs:?}");
    for spec in &specs {
        let text = fs::read_to_string(spec).unwrap();
        let own = Code::of(spec.parent().unwrap());
        let exists = |word: &str| {
            let path: Vec<&str> = word.split("::").collect();
            let other = root.join("crates").join(path[0].trim_start_matches("tributary_"));
            let (first, rest) = (path[0], &path[1..]);
            own.has(&path)
                || other.join("src").is_dir() && Code::of(&other).has(rest)
                // A single word may belong to any crate that a SPEC mentions, such as the lab's experiments.
                || rest.is_empty() && (all.modules.contains(first) || all.items.contains(first))
        };
        for (head, cell) in cells(&text) {
            for word in quoted(&cell) {
                let is_there = if is_sentence(word) {
                    all.functions.contains(word)
                } else if word.ends_with(".rs") && !word.contains(['/', ' ']) {
                    all.files.contains(word)
                } else if ["module", "shown by"].contains(&head.as_str()) && is_path(word) {
                    exists(word)
                        || head == "shown by" && text.contains(&format!("`{word}` of `["))
                        || is_field(&all, word)
                } else {
                    true
                };
                if !is_there {
                    wrong.push(format!("{}: '{head}' names `{word}`", spec.strip_prefix(&root).unwrap().display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "there is no such thing:\n{}", wrong.join("\n"));
}
/// A setting or a field, which is no item: somewhere a line begins so.
fn is_field(all: &Code, word: &str) -> bool {
    let begins = [format!("{word}: "), format!("pub {word}: "), format!("pub(crate) {word}: ")];
    files(&all.folder, ".rs").iter().any(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().any(|line| begins.iter().any(|begin| line.trim_start().starts_with(begin)))
    })
}

/// The documents that people read.
fn documents() -> Vec<PathBuf> {
    let root = repository();
    let at_root = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = at_root.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    found.extend(["docs", "fuzz", "crates"].iter().flat_map(|folder| files(&root.join(folder), ".md")));
    found
}
/// Headings as forges and mdBook make anchors of them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: char| letter.is_alphanumeric() || "-_ ".contains(letter);
    let anchor =
        |heading: &str| heading.to_lowercase().chars().filter(|l| kept(*l)).collect::<String>().replace(' ', "-");
    headings.map(anchor).collect()
}
/// The targets of `[text](target)` and of `src="target"`, outside of blocks of code.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        if is_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for (open, close) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')] {
            let ends = prose.split(open).skip(1).filter_map(|rest| rest.split_once(close));
            found.extend(ends.map(|(target, _)| target.to_string()));
        }
    }
    found
}

#[test]
fn links_of_documents_lead_somewhere() {
    let root = repository();
    let mut wrong = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let shown = document.strip_prefix(&root).unwrap().display().to_string();
        for target in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let has_anchor = || anchors(&fs::read_to_string(&file).unwrap()).contains(anchor);
            if !file.exists() || !anchor.is_empty() && !has_anchor() {
                wrong.push(format!("{shown}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nowhere:\n{}", wrong.join("\n"));
}

/// The page that a newcomer reads first: few rows, each with the command that measures it again.
#[test]
fn each_of_at_most_forty_results_has_its_command_commit_and_date() {
    let text = fs::read_to_string(repository().join("docs/results.md")).unwrap();
    let rows: Vec<Vec<&str>> =
        text.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect()).collect();
    let is_figure = |row: &&Vec<&str>| row.len() == 5 && row[4] != "commit, date |";
    let figures: Vec<_> = rows.iter().filter(is_figure).collect();
    assert!((20..=40).contains(&figures.len()), "{} rows", figures.len());
    for row in figures {
        let (commits, date) = row[4].trim_end_matches(" |").rsplit_once(", ").unwrap_or_else(|| panic!("{row:?}"));
        let is_commit = |text: &str| text.len() == 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_date = date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        assert!(row[3].contains('`') && commits.split(", ").all(is_commit) && is_date, "{row:?}");
    }
}

#[test]
fn files_that_documents_name_are_there() {
    let root = repository();
    let mut wrong = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for word in text.split(['`', ' ', '\n', '(', ')', ',', ';', '"', '#']) {
            let word = word.trim_end_matches(['.', ':', '/']);
            let is_file =
                ["crates/", "docs/", "examples/", "fuzz/", ".ci/"].iter().any(|begin| word.starts_with(begin));
            // Those with a place for something else, such as FAMILY, are patterns.
            let is_pattern = word.contains(['*', '…', '<', '{', '|']) || word.chars().any(|l| l.is_ascii_uppercase());
            let is_named = word.ends_with(".md") || !is_pattern;
            let places = [root.clone(), document.parent().unwrap().into()];
            if is_file && is_named && !word.contains("FAMILY") && !places.iter().any(|at| at.join(word).exists()) {
                wrong.push(format!("{}: {word}", document.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(wrong.is_empty(), "there is no such file:\n{}", wrong.join("\n"));
}
