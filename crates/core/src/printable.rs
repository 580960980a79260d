//! Text from other nodes, made safe to display.
//!
//! Labels, reasons, file names and messages may come from any node in the network. A control character in them could
//! move a terminal's cursor, change its title or start a new line; a bidirectional override can make one name look like
//! another. Every output of a peer's text goes through [`escape`], or checks [`is_unsafe`].
use alloc::{borrow::Cow, string::String};
use core::fmt::Write;

/// Whether a character changes how the text around it is shown, or is not shown itself: control characters (C0, DEL, C1),
/// separators of lines, bidirectional marks, embeddings, overrides and isolates, and characters of no width except the two
/// joiners, which scripts need.
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// `text` with every unsafe character spelt out, as `\n` or `\u{202e}`: one line, shown in the order in which it is written.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_but(text, "")
}

/// The same, except that the characters of `kept` stay, such as the tab in a table.
pub fn escape_but<'a>(text: &'a str, kept: &str) -> Cow<'a, str> {
    let is_escaped = |character: char| is_unsafe(character) && !kept.contains(character);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(replace(text, is_escaped, |character, escaped| escaped.extend(character.escape_default())))
}

/// A JSON text without unsafe characters: `\u202e` is the same string with a visible escape.
///
/// `json` is a complete JSON text in which such characters occur only inside strings and ASCII control characters are
/// escaped, as serialisers write it.
pub fn escape_json(json: String) -> String {
    let is_escaped = |character: char| is_unsafe(character) && !character.is_ascii();
    if !json.contains(is_escaped) {
        return json;
    }
    replace(&json, is_escaped, |character, escaped| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    })
}

/// `text` with the output of `spell` in place of each character that `is_escaped`.
fn replace(text: &str, is_escaped: impl Fn(char) -> bool, spell: impl Fn(char, &mut String)) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_escaped(character) {
            true => spell(character, &mut escaped),
            false => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn what_moves_a_cursor_begins_a_line_or_turns_text_around_is_spelt_out() {
        for (text, shown) in [
            ("attic", "attic"),
            ("Küche 台所 👩\u{200d}🔬", "Küche 台所 👩\u{200d}🔬"),
            ("\u{1b}[2Ja\rb\nc\u{7f}", "\\u{1b}[2Ja\\rb\\nc\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("invoice\u{202e}fdp.exe", "invoice\\u{202e}fdp.exe"),
            ("\u{2066}a\u{2069}\u{2028}\u{feff}", "\\u{2066}a\\u{2069}\\u{2028}\\u{feff}"),
        ] {
            assert_eq!(escape(text), shown);
        }
        assert_eq!(escape_but("a\tb\u{7}", "\t"), "a\tb\\u{7}");
    }

    #[test]
    fn json_says_the_same_and_shows_what_it_is() {
        let json = "{\"label\":\"a\u{202e}b\u{85}\u{e0041}\"}".to_string();
        assert_eq!(escape_json(json), "{\"label\":\"a\\u202eb\\u0085\\udb40\\udc41\"}");
    }
}
