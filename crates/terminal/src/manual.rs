//! Manual pages of config files, made of the book's pages about their keys.
use std::{fmt::Write, fs, path::Path};
use tributary::ApiError;

/// A page of the book as a manual page.
pub struct Page {
    /// The file that it is about, such as `tributary.toml`.
    pub title: &'static str,
    /// A few words about that file.
    pub about: &'static str,
    /// The page, in Markdown.
    pub text: &'static str,
}

/// Writes them to a folder.
///
/// # Errors
/// [`ErrorKind::Io`](tributary::ErrorKind::Io) if one cannot be written.
pub fn write_to(pages: &[Page], folder: &Path) -> Result<(), ApiError> {
    let write = |page: &Page| fs::write(folder.join(format!("{}.5", page.title)), roff(page));
    pages
        .iter()
        .try_for_each(write)
        .map_err(|error| ApiError::io("write the manual pages to", folder.display(), &error))
}

/// The page in the language of man(7).
fn roff(page: &Page) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {} 5 \"\" \"trib {version}\" \"Tributary\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n",
        page.title,
        page.title.replace('-', "\\-"),
        page.about
    );
    let mut is_code = false;
    let mut is_head = false;
    for line in page.text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            is_code = !is_code;
            debug_assert!(is_code || fence.is_empty(), "a fence ends without a language");
            out.push_str(if is_code { ".PP\n.RS 4\n.nf\n" } else { ".fi\n.RE\n" });
        } else if is_code {
            let _ = writeln!(out, "{}", guarded(&escaped(line)));
        } else if let Some(heading) = line.strip_prefix('#') {
            let (depth, heading) =
                (1 + heading.chars().take_while(|c| *c == '#').count(), heading.trim_start_matches('#'));
            match depth {
                1 => {}
                2 => drop(writeln!(out, ".SH {}", in_line(heading.trim()).to_uppercase_outside_code())),
                _ => drop(writeln!(out, ".SS {}", in_line(heading.trim()))),
            }
        } else if line.starts_with("|--") || line.starts_with("| --") {
            // The row above it was the head of a table.
            is_head = false;
        } else if let Some(row) = line.strip_prefix('|') {
            let cells = cells(row);
            match (&cells[..], is_head) {
                ([key, takes, default, meaning], false) if *key != "key" => {
                    let default = if default.is_empty() { String::new() } else { format!("; default: {default}") };
                    let _ = write!(out, ".TP\n{}\n{}\n", in_line(key), guarded(&in_line(meaning)));
                    let _ = write!(out, ".br\nTakes {}\n", in_line(&format!("{takes}{default}.")));
                }
                ([first, rest @ ..], false) if !is_table_head(&cells) => {
                    let _ = write!(out, ".TP\n{}\n{}\n", in_line(first), guarded(&in_line(&rest.join(": "))));
                }
                _ => {}
            }
        } else if let Some(item) = line.strip_prefix("- ") {
            let _ = write!(out, ".IP \\(bu 2\n{}\n", guarded(&in_line(item)));
        } else if line.starts_with("<!--") {
        } else if line.is_empty() {
            out.push_str(".PP\n");
        } else {
            let _ = writeln!(out, "{}", guarded(&in_line(line)));
        }
    }
    out.push_str(".SH SEE ALSO\n.BR trib (1),\n.BR trib\\-node (1),\n.BR trib\\-config\\-check (1)\n");
    // Paragraphs that hold nothing are a warning of the formatter.
    let mut lines: Vec<&str> = Vec::new();
    for line in out.lines() {
        let follows_break = lines.last().is_some_and(|last| *last == ".PP" || last.starts_with(".S"));
        if line == ".PP" && follows_break {
            continue;
        }
        if lines.last() == Some(&".PP")
            && (line.starts_with(".S") || line.starts_with(".TP") || line.starts_with(".IP"))
        {
            lines.pop();
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

/// Whether a row names columns: its cells are single plain words.
fn is_table_head(cells: &[&str]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c.is_ascii_lowercase() || c == ' '))
}
fn cells(row: &str) -> Vec<&str> {
    row.trim_end().trim_end_matches('|').split(" | ").map(str::trim).collect()
}

/// Characters that mean something to the formatter, as themselves.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('`', "\\(ga")
}
/// A line that starts with a dot is not a request.
fn guarded(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.into() }
}
/// Links as their texts, code and emphasis in bold.
fn in_line(text: &str) -> String {
    let mut out = String::new();
    let mut is_bold = false;
    for (index, part) in linkless(text).split('`').enumerate() {
        if index > 0 {
            is_bold = !is_bold;
            out.push_str(if is_bold { "\\fB" } else { "\\fR" });
        }
        let shown = part.replace("\\|", "|");
        // Outside of code a hyphen is one, and an apostrophe is one.
        out.push_str(&if is_bold { escaped(&shown) } else { shown.replace('\\', "\\e") });
    }
    out
}
/// `[text](target)` as `text`.
fn linkless(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once("](").and_then(|(shown, target)| Some((shown, target.split_once(')')?.1))) {
            Some((shown, behind)) => {
                out.push_str(shown);
                rest = behind;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

/// Headings of manual pages are in capitals; keys in them are not.
trait Capitals {
    fn to_uppercase_outside_code(&self) -> String;
}
impl Capitals for String {
    fn to_uppercase_outside_code(&self) -> String {
        if self.contains("\\fB") { self.clone() } else { self.to_uppercase() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_of_the_book_is_an_entry_of_the_manual() {
        let of = |title, text| Page { title, about: "", text };
        let pages = [
            of("tributary.toml", include_str!("../pages/config.md")),
            of("tributary-scenario.toml", include_str!("../pages/scenario.md")),
        ];
        for page in &pages {
            let roff = roff(page);
            let keys: Vec<&str> =
                page.text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
            assert!(keys.len() > 20, "{}: {} keys", page.title, keys.len());
            for key in keys {
                let entry = format!(".TP\n\\fB{}\\fR", escaped(key));
                assert!(roff.contains(&entry), "{}: no entry {entry:?}", page.title);
            }
            assert!(!roff.contains("](") && !roff.contains('`') && !roff.contains("<!--"), "{}", page.title);
        }
    }
}
