//! The encoding of foreign files: by byte-order mark, by XML declaration, else UTF-8.
use std::borrow::Cow;

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Why the bytes of a file are no text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NotText {
    /// The line, from 1 on.
    pub(crate) line: usize,
    /// The error.
    pub(crate) message: String,
}

/// The text of a line-based file and, if its encoding had to be guessed, a note on that.
///
/// These formats name no encoding. A byte-order mark decides (UTF-8 or UTF-16) and is taken off; without one the file is
/// UTF-8 if it can be, else windows-1252, a superset of the printable part of ISO-8859-1: the tools in C++ that read these
/// files pass bytes through, so old lists of places in Latin-1 exist.
pub(crate) fn text(bytes: &[u8]) -> Result<(Cow<'_, str>, Option<String>), NotText> {
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

/// The text of an XML file: its byte-order mark counts, then `encoding` in its declaration, else it is UTF-8 (XML 1.0,
/// section 4.3.3 and appendix F).
///
/// Encodings have the names of the WHATWG, which reads ISO-8859-1 as windows-1252: they differ in control characters
/// that no topology contains.
pub(crate) fn xml(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return decode(encoding, &bytes[mark..]);
    }
    match bytes {
        [b'<', 0, ..] => return decode(UTF_16LE, bytes),
        [0, b'<', ..] => return decode(UTF_16BE, bytes),
        _ => {}
    }
    let Some(label) = declared(bytes) else { return decode(UTF_8, bytes) };
    match Encoding::for_label(label) {
        // The declaration itself is in single bytes: some program has converted the file and left the declaration.
        Some(encoding) if encoding == UTF_16LE || encoding == UTF_16BE => decode(UTF_8, bytes),
        Some(encoding) => decode(encoding, bytes),
        None => {
            let label = String::from_utf8_lossy(label);
            let message = format!("its encoding '{label}' is not known; convert it to UTF-8, for example by iconv");
            Err(NotText { line: 1, message })
        }
    }
}

/// The encoding in an XML declaration, if there is one.
fn declared(bytes: &[u8]) -> Option<&[u8]> {
    let head = bytes.strip_prefix(b"<?xml")?;
    let head = &head[..find(&head[..head.len().min(DECLARATION_BYTES_MAX)], b"?>")?];
    let value = &head[find(head, b"encoding")? + b"encoding".len()..];
    let value = value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let quote = value.first().filter(|quote| matches!(quote, b'"' | b'\''))?;
    let value = &value[1..];
    Some(&value[..value.iter().position(|byte| byte == quote)?])
}
/// Bytes searched for the end of an XML declaration.
const DECLARATION_BYTES_MAX: usize = 1024;

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn decode<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Result<Cow<'a, str>, NotText> {
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

    #[test]
    fn xml_is_in_the_encoding_that_it_declares() {
        let declared = |label: &str, bytes: &[u8]| {
            let head = format!("<?xml version=\"1.0\" encoding = '{label}' ?>\n<a>");
            xml(&[head.as_bytes(), bytes].concat()).map(|text| text.rsplit('>').next().unwrap_or("").to_string())
        };
        assert_eq!(declared("ISO-8859-1", b"\xf6").as_deref(), Ok("ö"));
        assert_eq!(declared("iso-8859-15", b"\xa4").as_deref(), Ok("€"));
        assert_eq!(declared("windows-1252", b"\x80").as_deref(), Ok("€"));
        assert_eq!(declared("utf-8", "ö".as_bytes()).as_deref(), Ok("ö"));
        assert_eq!(declared("UTF-16", "ö".as_bytes()).as_deref(), Ok("ö"), "converted, and the declaration left");
        assert_eq!(declared("utf-8", b"\xf6").map_err(|error| error.line), Err(2));
        let unknown = declared("x-nobody-knows", b"a").expect_err("there is no such encoding");
        assert!(unknown.line == 1 && unknown.message.contains("'x-nobody-knows'"), "{unknown:?}");
        let xml_of = "<?xml version='1.0' encoding='UTF-16'?><a>ö</a>";
        for (order, mark) in [
            (u16::to_le_bytes as fn(u16) -> [u8; 2], true),
            (u16::to_be_bytes, true),
            (u16::to_le_bytes, false),
            (u16::to_be_bytes, false),
        ] {
            assert_eq!(xml(&utf16(xml_of, order, mark)).as_deref(), Ok(xml_of));
        }
        assert!(xml(&utf16(xml_of, u16::to_le_bytes, true)[..21]).is_err(), "half a character is left");
    }
}
