//! The encoding of XML files: by byte-order mark, by declaration, else UTF-8.
use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use tributary::config::recordings::encoding::{NotText, decode};

/// The text of an XML file: its byte-order mark counts, then `encoding` in its declaration, else it is UTF-8 (XML 1.0,
/// section 4.3.3 and appendix F).
///
/// Encodings have the names of the WHATWG, which reads ISO-8859-1 as windows-1252: they differ in control characters
/// that no topology contains.
pub(super) fn xml(bytes: &[u8]) -> Result<Cow<'_, str>, NotText> {
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

/// The encoding in an XML declaration, if present.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, order: fn(u16) -> [u8; 2], mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        mark.into_iter().chain(text.encode_utf16()).flat_map(order).collect()
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
