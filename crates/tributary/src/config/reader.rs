//! Reads a TOML document key by key and keeps every problem with its place.
use std::{cell::RefCell, fmt::Display, ops::RangeInclusive, path::PathBuf, str::FromStr};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use tributary_content::PublicKey;

use super::error::Problem;

/// Whose behaviour a section describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The config of one node.
    Node,
    /// The common config of a scenario's nodes; keys that apply to only some of them are legal there.
    Common,
}

/// The problems found so far.
pub(crate) type Problems = RefCell<Vec<Problem>>;

/// Keys of earlier versions, why they were removed, and the remedy: a config that relied on one must not lose its
/// protection silently.
const GONE: [(&str, &str, &str); 2] = [
    ("network_key", "certificates have replaced the key that all nodes shared", AUTHORITY_HINT),
    ("domain_secret", "topology managers make the keys of capabilities themselves", AUTHORITY_HINT),
];
const AUTHORITY_HINT: &str = "remove the line; make an authority with `trib network new`, write its key into [network] of \
    each node, and admit each node with `trib network admit`";

/// One table of the document. Reading a key makes it known; [`Section::finish`] reports the keys that were never read.
pub struct Section<'a> {
    title: String,
    table: &'a DeTable<'a>,
    span: std::ops::Range<usize>,
    known: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

impl<'a> Section<'a> {
    /// The document's root table.
    pub(crate) fn root(document: &'a Spanned<DeTable<'a>>, problems: &'a Problems) -> Self {
        Section { title: "the file".into(), table: document.get_ref(), span: 0..0, known: RefCell::default(), problems }
    }
    /// The table under `key`, if present.
    pub fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(self.inner(key, table, value.span())),
            other => {
                self.wrong_type(key, value, other, "a table");
                None
            }
        }
    }
    /// The tables of the array of tables under `key`.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            let hint = format!("write [[{key}]] in front of each of them");
            self.problem(value.span(), format!("'{key}' is one table, but there may be several"), hint);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for entry in array.iter() {
            match entry.get_ref() {
                DeValue::Table(table) => sections.push(self.inner(key, table, entry.span())),
                other => self.wrong_type(key, entry, other, "a table"),
            }
        }
        sections
    }
    /// A text.
    pub fn text(&self, key: &'static str) -> Option<Located<String>> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some(Located { value: text.to_string(), span: value.span() }),
            other => {
                self.wrong_type(key, value, other, "a text in quotes");
                None
            }
        }
    }
    /// A file or folder, taken relative to `base`.
    pub fn path(&self, key: &'static str, base: &std::path::Path) -> Option<PathBuf> {
        let text = self.text(key)?;
        if text.value.is_empty() {
            self.problem(text.span, format!("'{key}' is empty"), "write a path");
            return None;
        }
        Some(base.join(text.value))
    }
    /// A text that a type can read.
    pub fn parsed<T: FromStr<Err: Display>>(&self, key: &'static str, hint: &str) -> Option<T> {
        let text = self.text(key)?;
        self.parse(key, &text, hint)
    }
    /// A text that `read` understands.
    pub fn read<T, E: Display>(&self, key: &'static str, hint: &str, read: impl Fn(&str) -> Result<T, E>) -> Option<T> {
        let text = self.text(key)?;
        self.keep(key, text.span, hint, read(&text.value))
    }
    /// One of a few words.
    pub fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        self.declare(key, || choices.iter().map(|(word, _)| format!("`\"{word}\"`")).collect());
        let text = self.text(key)?;
        self.choose(key, &text, choices)
    }
    /// A list of such words.
    pub fn choices<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<Vec<Located<T>>> {
        self.declare(key, || choices.iter().map(|(word, _)| format!("`\"{word}\"`")).collect());
        let texts = self.texts(key)?;
        Some(
            texts
                .into_iter()
                .filter_map(|text| {
                    let span = text.span.clone();
                    self.choose(key, &text, choices).map(|value| Located { value, span })
                })
                .collect(),
        )
    }
    /// A list of texts, at least one.
    pub fn texts(&self, key: &'static str) -> Option<Vec<Located<String>>> {
        let value = self.value(key)?;
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(key, value, value.get_ref(), "a list such as [\"…\", \"…\"]");
            return None;
        };
        if array.is_empty() {
            self.problem(value.span(), format!("'{key}' is empty"), "write at least one entry");
        }
        let mut texts = Vec::new();
        for entry in array.iter() {
            match entry.get_ref() {
                DeValue::String(text) => texts.push(Located { value: text.to_string(), span: entry.span() }),
                other => self.wrong_type(key, entry, other, "a text in quotes"),
            }
        }
        Some(texts)
    }
    /// An integer within `range`.
    pub fn integer(&self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.declare(key, || vec![format!("{} to {}", range.start(), range.end())]);
        let value = self.value(key)?;
        let legal = format!("an integer from {} to {}", range.start(), range.end());
        let DeValue::Integer(number) = value.get_ref() else {
            self.wrong_type(key, value, value.get_ref(), &legal);
            return None;
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                self.problem(value.span(), format!("'{key}' cannot be {}", number.as_str()), format!("write {legal}"));
                None
            }
        }
    }
    /// Sets `field` to an integer within `range`, if `key` is present.
    pub fn set_integer<T: TryFrom<u64>>(&self, key: &'static str, range: RangeInclusive<u64>, field: &mut T) {
        if let Some(Ok(number)) = self.integer(key, range).map(T::try_from) {
            *field = number;
        }
    }
    /// `true` or `false`.
    pub fn flag(&self, key: &'static str) -> Option<bool> {
        self.declare(key, || vec!["true".into(), "false".into()]);
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                self.wrong_type(key, value, other, "true or false");
                None
            }
        }
    }
    /// A probability, written `"1%"`, `0.01` or `"0.01"`.
    pub fn share(&self, key: &'static str) -> Option<f64> {
        let value = self.value(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Float(number) => number.as_str().to_string(),
            DeValue::Integer(number) => number.as_str().to_string(),
            other => {
                self.wrong_type(key, value, other, "a share such as \"1%\" or 0.01");
                return None;
            }
        };
        let share = parse_share(&text);
        self.keep(key, value.span(), "write a share from 0 to 1, such as \"1%\" or 0.01", share)
    }
    /// A number within `range`, with or without a point.
    pub fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        self.declare(key, || vec![format!("{} to {}", range.start(), range.end())]);
        let value = self.value(key)?;
        let legal = format!("a number from {} to {}", range.start(), range.end());
        let text = match value.get_ref() {
            DeValue::Float(number) => number.as_str().to_string(),
            DeValue::Integer(number) => number.as_str().to_string(),
            other => {
                self.wrong_type(key, value, other, &legal);
                return None;
            }
        };
        match text.replace('_', "").parse::<f64>() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                self.problem(value.span(), format!("'{key}' cannot be {text}"), format!("write {legal}"));
                None
            }
        }
    }
    /// Reads `text`, the value of `key`, as another type.
    pub fn parse<T: FromStr<Err: Display>>(&self, key: &'static str, text: &Located<String>, hint: &str) -> Option<T> {
        self.keep(key, text.span.clone(), hint, text.value.parse())
    }
    /// Says that a key is missing.
    pub fn missing(&self, key: &'static str, hint: &str) {
        self.problem(self.span.clone(), format!("{} has no '{key}'", self.title), hint);
    }
    /// Whether `key` is present, with any value.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }
    /// The place of `key`'s value; the section itself if the key is missing.
    pub fn span_of(&self, key: &str) -> std::ops::Range<usize> {
        self.table.get(key).map_or(self.span.clone(), |value| value.span())
    }
    /// Records the permitted values of `key` for the tests that compare the book's pages with the parser
    /// (`documented`). Without them it does nothing.
    pub fn declare(&self, key: &'static str, takes: impl FnOnce() -> Vec<String>) {
        #[cfg(any(test, feature = "documented"))]
        super::documented::declare(&self.title, key, takes());
        #[cfg(not(any(test, feature = "documented")))]
        let _ = (key, takes);
    }
    /// Says which of `keys` are missing.
    pub fn require(&self, keys: &[&'static str], hint: &str) {
        keys.iter().filter(|key| !self.has(key)).for_each(|key| self.missing(key, hint));
    }
    /// Keeps a problem.
    pub fn problem(&self, span: std::ops::Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.borrow_mut().push(Problem { span, message: message.into(), hint: hint.into() });
    }
    /// Keeps a problem of the value of `key`; of the section itself if the key is missing.
    pub fn wrong(&self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.problem(self.span_of(key), message, hint);
    }
    /// The value read from what `key` names, or `None` and a problem.
    pub fn kept<T>(&self, key: &str, result: Result<T, String>, hint: &str) -> Option<T> {
        result.map_err(|message| self.wrong(key, message, hint)).ok()
    }
    /// The keys among `texts`; each of the others is a problem.
    pub(crate) fn keys(&self, texts: Option<Vec<Located<String>>>, hint: &str) -> Vec<PublicKey> {
        let key = |text: Located<String>| {
            let key = text.value.parse::<PublicKey>();
            key.map_err(|error| self.problem(text.span, format!("'{}' is no key: {error}", text.value), hint)).ok()
        };
        texts.into_iter().flatten().filter_map(key).collect()
    }
    /// Reports the keys that were never read, each with the nearest known one.
    pub fn finish(self) {
        let known = self.known.into_inner();
        for (key, _) in self.table.iter() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            if let Some((_, because, hint)) = GONE.iter().find(|(gone, ..)| *gone == name) {
                let message = format!("'{name}' of {} has gone: {because}", self.title);
                self.problems.borrow_mut().push(Problem { span: key.span(), message, hint: (*hint).into() });
                continue;
            }
            let hint = match nearest(name, &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("known here: {}", known.join(", ")),
            };
            let message = format!("unknown key '{name}' in {}", self.title);
            self.problems.borrow_mut().push(Problem { span: key.span(), message, hint });
        }
    }

    fn inner(&self, key: &str, table: &'a DeTable<'a>, span: std::ops::Range<usize>) -> Section<'a> {
        let title = if self.title == "the file" { format!("[{key}]") } else { format!("'{key}' of {}", self.title) };
        Section { title, table, span, known: RefCell::default(), problems: self.problems }
    }
    fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.known.borrow_mut().push(key);
        self.declare(key, Vec::new);
        self.table.get(key)
    }
    fn choose<T: Copy>(&self, key: &str, text: &Located<String>, choices: &[(&str, T)]) -> Option<T> {
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text.value) {
            return Some(*value);
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let hint = match nearest(&text.value, &words) {
            Some(near) => format!("did you mean \"{near}\"? ('{key}' takes {})", words.join(", ")),
            None => format!("'{key}' takes {}", words.join(", ")),
        };
        self.problem(text.span.clone(), format!("'{key}' cannot be \"{}\"", text.value), hint);
        None
    }
    fn keep<T, E: Display>(
        &self,
        key: &str,
        span: std::ops::Range<usize>,
        hint: &str,
        result: Result<T, E>,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(span, format!("'{key}': {error}"), hint);
                None
            }
        }
    }
    fn wrong_type(&self, key: &str, at: &Spanned<DeValue<'_>>, found: &DeValue<'_>, expected: &str) {
        self.problem(at.span(), format!("'{key}' must be {expected}, not {}", in_words(found)), "");
    }
}

/// A value and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the file.
    pub span: std::ops::Range<usize>,
}

/// Reads a probability as people type it: `1%`, `0.5 %`, `0.01`.
///
/// # Errors
/// A sentence that names the expected form.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(number) => (number.trim_end(), 0.01),
        None => (trimmed, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=1.0).contains(&(number * scale)) => Ok(number * scale),
        _ => Err(format!("'{text}' is not a share from 0 to 1, such as 1% or 0.01")),
    }
}

/// The known word most similar to `word`; `None` if none is similar.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let limit = word.chars().count() / 3 + 1;
    known
        .iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

fn in_words(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
