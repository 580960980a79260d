//! The structure of the façade, read from its sources: layers that use only lower layers, no circles, and one place
//! that distinguishes families.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The modules of the façade from bottom to top; each uses only those before it.
const LAYERS: [&str; 23] = [
    "error",
    "state_file",
    "path_serde",
    "family",
    "preflight",
    "paths",
    "log",
    "request",
    "views",
    "notice",
    "api",
    "config",
    "fault",
    "families",
    "config_file",
    "node",
    "authority",
    "simulated",
    "operations",
    "local",
    "control",
    "messenger",
    "lib",
];

/// Files that may name the variants of `Family` and `Settings`: their declarations, their values, and the only match.
const FAMILIES_DISTINGUISHED: [&str; 3] =
    ["tributary/src/family.rs", "tributary/src/config/settings.rs", "tributary/src/families/mod.rs"];

#[test]
fn no_module_of_the_facade_uses_what_stands_above_it() {
    let sources = Sources::read(&crates().join("tributary/src"));
    let layer = |module: &[String]| {
        let top = module.first().map_or("lib", String::as_str);
        let found = LAYERS.iter().position(|layer| *layer == top);
        found.unwrap_or_else(|| panic!("the module '{top}' has no place in LAYERS"))
    };
    let mut upward = Vec::new();
    for (user, used) in sources.uses() {
        if layer(&user) < layer(&used) {
            upward.push(format!(
                "{} uses {}",
                user.join("::"),
                if used.is_empty() { "lib".into() } else { used.join("::") }
            ));
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

#[test]
fn only_the_platform_module_asks_for_the_operating_system() {
    const QUESTIONS: [&str; 6] =
        ["target_os", "target_family", "target_env", "target_vendor", "cfg(unix", "cfg(windows"];
    let asks = |code: &PathBuf| {
        let text = without_comments(&fs::read_to_string(code).expect("sources are readable"));
        QUESTIONS.iter().any(|question| text.contains(question))
    };
    let mut asking: BTreeSet<String> = BTreeSet::new();
    for file in rust_files(&crates()).iter().filter(|file| asks(file)) {
        let below = file.strip_prefix(crates()).expect("it is below");
        asking.insert(below.parent().unwrap_or(below).display().to_string());
    }
    // This test names them.
    assert_eq!(asking.into_iter().collect::<Vec<_>>(), ["net/src/platform", "tributary/tests/suite"]);
}

#[test]
fn no_files_of_the_facade_and_of_the_program_use_each_other_in_a_circle() {
    for sources in ["tributary/src", "cli/src"] {
        let sources = Sources::read(&crates().join(sources));
        let mut uses: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (user, used) in sources.uses() {
            uses.entry(user).or_default().insert(used);
        }
        // Modules that use no remaining one are removed until nothing is left, or only circles are.
        loop {
            let left: BTreeSet<Module> = uses.keys().cloned().collect();
            uses.values_mut().for_each(|used| used.retain(|module| left.contains(module)));
            uses.retain(|_, used| !used.is_empty());
            if uses.len() == left.len() {
                break;
            }
        }
        assert!(uses.is_empty(), "circles among {uses:#?}");
    }
}

#[test]
fn families_are_distinguished_in_one_place_only() {
    let mut found = Vec::new();
    for folder in ["tributary/src", "cli/src", "http/src", "lab/src"] {
        // Experiments name the family of each node that they add; they decide nothing by it.
        let may_name = folder == "lab/src";
        for path in rust_files(&crates().join(folder)) {
            let name = path.strip_prefix(crates()).unwrap().display().to_string();
            // A family's folder may name the family.
            if FAMILIES_DISTINGUISHED.contains(&name.as_str()) || name.starts_with("tributary/src/families/") {
                continue;
            }
            let text = without_comments(without_tests(&fs::read_to_string(&path).unwrap()));
            let distinguishes = |line: &&str| {
                let variants = ["Psi", "Ndn", "Mf"];
                let by_variant = variants.iter().any(|variant| {
                    line.contains(&format!("Family::{variant}")) || line.contains(&format!("Settings::{variant}"))
                });
                let decides = ["=>", "==", "!=", "matches!", "if let"].iter().any(|sign| line.contains(sign));
                let by_word = ["\"psi\"", "\"ndn\"", "\"mf\""].iter().any(|word| line.contains(word));
                by_variant && (decides || !may_name) || by_word && !may_name
            };
            found.extend(text.lines().filter(distinguishes).map(|line| format!("{name}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "ask the family's profile instead: {found:#?}");
}

/// Dependencies cost every build; nothing else reports one that no code names.
#[test]
fn every_dependency_of_a_crate_is_used() {
    let mut unused = Vec::new();
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path()) {
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let read = |part: &str, code: fn(&str) -> &str| -> String {
            let folder = folder.join(part);
            let files = if folder.is_dir() { rust_files(&folder) } else { Vec::new() };
            // Tests of several crates share files.
            let shared = files.iter().flat_map(|path| {
                let text = fs::read_to_string(path).unwrap();
                let paths = text.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next());
                paths
                    .map(|shared| path.parent().unwrap().join(shared))
                    .filter(|shared| shared.is_file())
                    .collect::<Vec<_>>()
            });
            let files = files.iter().cloned().chain(shared);
            files.map(|path| without_comments(code(&fs::read_to_string(path).unwrap()))).collect()
        };
        let product = read("src", without_tests);
        let all = ["src", "tests", "examples"].map(|part| read(part, |text| text)).concat();
        for (section, code) in [("dependencies", &product), ("dev-dependencies", &all)] {
            let names = manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten();
            let words: BTreeSet<&str> =
                code.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).collect();
            let missing = names.filter(|(name, _)| !words.contains(name.replace('-', "_").as_str()));
            unused.extend(missing.map(|(name, _)| format!("{}: {name} of [{section}]", folder.display())));
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

/// The scanner itself: which forms it counts as a use.
#[test]
fn uses_are_found_in_trees_in_paths_and_through_reexports() {
    let sources = Sources::of(&[
        ("", "pub mod a; mod b; pub use a::Thing;"),
        ("a", "mod inner; pub use inner::{Inner, more::*}; pub struct Thing;"),
        ("a/inner", "use super::Thing; // crate::b::Never\nfn f() { crate::b::call(\"crate::a\"); }"),
        ("b", "use crate::{a::{self, Inner}, Thing};\n#[cfg(test)]\nmod tests { use crate::a::Never; }"),
    ]);
    let uses: Vec<String> =
        sources.uses().iter().map(|(user, used)| format!("{} > {}", user.join("/"), used.join("/"))).collect();
    assert_eq!(uses, ["a/inner > a", "a/inner > b", "b > a", "b > a/inner"]);
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().into()
}
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(rust_files(&path)),
            false => files.extend(path.extension().is_some_and(|kind| kind == "rs").then_some(path)),
        }
    }
    files.sort();
    files
}

/// A module by its path from the root of its crate, which is the empty path.
type Module = Vec<String>;

/// The modules of a crate: the definitions of each, and its re-exports.
struct Sources {
    texts: BTreeMap<Module, String>,
    reexports: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Sources {
    fn read(folder: &Path) -> Sources {
        let mut texts = BTreeMap::new();
        for path in rust_files(folder) {
            let name = path.strip_prefix(folder).unwrap().with_extension("");
            let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_string()).collect();
            if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
                module.pop();
            }
            texts.insert(module, fs::read_to_string(&path).unwrap());
        }
        Sources::with(texts)
    }
    fn of(files: &[(&str, &str)]) -> Sources {
        let module = |path: &str| path.split('/').filter(|part| !part.is_empty()).map(String::from).collect();
        Sources::with(files.iter().map(|(path, text)| (module(path), text.to_string())).collect())
    }
    fn with(texts: BTreeMap<Module, String>) -> Sources {
        let bare = |text: &String| without_strings(&without_comments(without_tests(text)));
        let texts: BTreeMap<Module, String> = texts.iter().map(|(module, text)| (module.clone(), bare(text))).collect();
        let mut sources = Sources { texts, reexports: BTreeMap::new() };
        for (module, text) in &sources.texts {
            let mut handed_on = BTreeMap::new();
            for (tree, _) in statements(text).into_iter().filter(|(_, is_public)| *is_public) {
                for path in expand(&tree) {
                    let name = path.last().cloned().unwrap_or_default();
                    handed_on.insert(name, sources.absolute(module, &path).unwrap_or_default());
                }
            }
            sources.reexports.insert(module.clone(), handed_on);
        }
        sources
    }
    /// A path in `module` as a path from the root; `None` if it leads out of the crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let first = path.first()?;
        let (mut base, rest) = match first.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                (module[..module.len().checked_sub(ups)?].to_vec(), &path[ups..])
            }
            child => {
                let child = module.iter().chain([&child.to_string()]).cloned().collect::<Vec<_>>();
                self.texts.contains_key(&child).then(|| (module.clone(), path))?
            }
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }
    /// The module that declares the item at a path, beyond all re-exports.
    fn home(&self, path: &[String]) -> Module {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let depth = (0..=path.len()).rev().find(|depth| self.texts.contains_key(&path[..*depth])).unwrap_or(0);
            let module = path[..depth].to_vec();
            let Some(item) = path.get(depth) else { return module };
            match self.reexports.get(&module).and_then(|handed_on| handed_on.get(item)) {
                Some(at) if !at.is_empty() => path = at.iter().chain(&path[depth + 1..]).cloned().collect(),
                _ => return module,
            }
        }
        panic!("{path:?} is handed on in a circle");
    }
    /// Which module uses which, each once. A re-export alone is no use.
    fn uses(&self) -> BTreeSet<(Module, Module)> {
        let mut uses = BTreeSet::new();
        for (module, text) in &self.texts {
            let mut paths = Vec::new();
            let mut rest = text.clone();
            for (tree, is_public) in statements(text) {
                rest = rest.replacen(&tree, "", 1);
                if !is_public {
                    paths.extend(expand(&tree));
                }
            }
            paths.extend(inline(&rest));
            for path in paths {
                if let Some(path) = self.absolute(module, &path) {
                    let home = self.home(&path);
                    if home != *module {
                        uses.insert((module.clone(), home));
                    }
                }
            }
        }
        uses
    }
}

/// The trees of the `use` statements, and whether each of them is public.
fn statements(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let before = text[..at].trim_end_matches(' ');
        let is_start = at == 0 || text[..at].ends_with([' ', '\n', ';', '{']);
        let Some(end) = text[at..].find(';').filter(|_| is_start) else { continue };
        found.push((text[at + 4..at + end].to_string(), before.ends_with("pub") || before.ends_with("pub(crate)")));
    }
    found
}
/// The paths of a tree such as `a::{b, c::{self, D}}`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let parts = |path: &str| -> Vec<String> {
        let names = path.split("::").map(|part| part.split(" as ").next().unwrap_or_default().trim());
        names.filter(|part| !part.is_empty() && *part != "*").map(String::from).collect()
    };
    let Some((prefix, inside)) = tree.split_once('{') else { return vec![parts(tree)] };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let (mut depth, mut start, mut branches) = (0, 0, Vec::new());
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&inside[start..]);
    let prefix = parts(prefix);
    let below = branches.into_iter().filter(|branch| !branch.trim().is_empty()).flat_map(expand);
    let complete = |path: Vec<String>| {
        let path = path.into_iter().filter(|part| part != "self");
        prefix.iter().cloned().chain(path).collect()
    };
    below.map(complete).collect()
}
/// The paths of two parts or more in code.
fn inline(text: &str) -> Vec<Vec<String>> {
    let words = text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':'));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with("::"));
    paths.map(|path| path.split("::").filter(|part| !part.is_empty()).map(String::from).collect()).collect()
}
/// All before the tests at the end of a file.
fn without_tests(text: &str) -> &str {
    let modules = text.match_indices("#[cfg(test)]").map(|(at, _)| at);
    let is_inline = |at: &usize| text[*at..].lines().nth(1).is_some_and(|line| line.trim_end().contains('{'));
    modules.into_iter().find(is_inline).map_or(text, |at| &text[..at])
}
fn without_comments(text: &str) -> String {
    let code = |line: &'_ str| -> String {
        let at =
            line.match_indices("//").map(|(at, _)| at).find(|at| line[..*at].matches('"').count().is_multiple_of(2));
        at.map_or(line, |at| &line[..at]).to_string()
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}
fn without_strings(text: &str) -> String {
    let text = text.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
    text.split('"').step_by(2).collect::<Vec<_>>().join("")
}
