//! The encoding of files that other programs wrote: by byte-order mark, else UTF-8, else windows-1252.
use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding, UTF_8, WINDOWS_1252};

/// Why the bytes of a file are no text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotText {
    /// The line, from 1 on.
    pub line: usize,
    /// The error.
    pub message: String,
}

/// The text of a line-based file and, if its encoding had to be guessed, a note on that.
///
/// These formats name no encoding. A byte-order mark decides (UTF-8 or UTF-16) and is removed; without one the file is
/// UTF-8 if valid, else windows-1252, a superset of the printable part of ISO-8859-1: the tools in C++ that read these
/// files pass bytes through, so old lists of places in Latin-1 exist.
///
/// # Errors
/// [`NotText`] names the line that is no text.
pub fn text(bytes: &[u8]) -> Result<(Cow<'_, str>, Option<String>), NotText> {
    let (text, note) = match Encoding::for_bom(bytes) {
        Some((encoding, mark)) => (decode(encoding, &bytes[mark..])?, None),
        None => match std::str::from_utf8(bytes) {
            Ok(text) => (Cow::Borrowed(text), None),
            Err(error) => {
                let line = line_of(bytes, error.valid_up_to());
                let note = format!("line {line} is not UTF-8; the file is read as windows-1252 (ISO-8859-1)");
                (decode(WINDOWS_1252, bytes)?, Some(note))
            }
        },
    };
    match text.find('\0') {
        Some(at) => Err(NotText {
            line: line_of(text.as_bytes(), at),
            message: "there is a zero byte: this is not a text file".into(),
        }),
        None => Ok((text, note)),
    }
}

/// The text of `bytes` in this encoding.
///
/// # Errors
/// [`NotText`] names the line of the first byte that the encoding does not have.
pub fn decode<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Result<Cow<'a, str>, NotText> {
    let wrong = |line| NotText { line, message: format!("a byte is no {}", encoding.name()) };
    if encoding == UTF_8 {
        let text = std::str::from_utf8(bytes);
        return text.map(Cow::Borrowed).map_err(|error| wrong(line_of(bytes, error.valid_up_to())));
    }
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len()).unwrap_or(usize::MAX);
    let mut text = String::with_capacity(room.min(bytes.len().saturating_mul(3) + 16));
    match decoder.decode_to_string_without_replacement(bytes, &mut text, true).0 {
        DecoderResult::InputEmpty => Ok(Cow::Owned(text)),
        DecoderResult::OutputFull | DecoderResult::Malformed(..) => Err(wrong(line_of(text.as_bytes(), text.len()))),
    }
}

/// The line, from 1 on, that holds this offset.
fn line_of(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, order: fn(u16) -> [u8; 2], mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        mark.into_iter().chain(text.encode_utf16()).flat_map(order).collect()
    }

    #[test]
    fn a_byte_order_mark_decides_and_is_taken_off() {
        let plain = "a: Köln €\n";
        let marked = format!("\u{feff}{plain}");
        for bytes in [
            plain.into(),
            marked.into_bytes(),
            utf16(plain, u16::to_le_bytes, true),
            utf16(plain, u16::to_be_bytes, true),
        ] {
            assert_eq!(text(&bytes), Ok((plain.into(), None)), "{bytes:x?}");
        }
    }

    #[test]
    fn a_text_that_is_not_utf_8_is_latin_1_and_says_so() {
        let (text, note) = text(b"a\nK\xf6ln\n").expect("it is Latin-1");
        assert_eq!((&*text, note.is_some_and(|note| note.starts_with("line 2 is not UTF-8"))), ("a\nKöln\n", true));
    }

    #[test]
    fn a_zero_byte_is_no_text() {
        assert_eq!(text(b"a\nb\0").map_err(|error| error.line), Err(2));
    }
}
