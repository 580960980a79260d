//! Golden packets: bytes on the wire, written by hand and explained.
//!
//! ```text
//! == request, two names           starts a packet; the first one may go without a name
//! 01 0004                         # type, length: white space groups fields and means nothing
//! cafe f00d                       # nonce
//! > Request { nonce: 3405705229 }   what it says, as `Debug` writes it; long values go on in further such lines
//! == request that ends early
//! ! datagram ends inside length   the error that parsing must give
//! 01 00
//! ```
use std::fmt::{Debug, Display};

/// One packet of a golden file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoldenPacket {
    /// A description; empty without one in the file.
    pub name: String,
    /// The line where it starts, from 1.
    pub line: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The decoded value, as `Debug` writes it.
    pub value: Option<String>,
    /// For a malformed packet, the error that parsing must return.
    pub error: Option<String>,
}

impl GoldenPacket {
    fn named(name: &str, line: usize) -> GoldenPacket {
        GoldenPacket { name: name.into(), line, bytes: Vec::new(), value: None, error: None }
    }
    /// The difference between what the file says of the packet and how it is decoded, or its bytes and how it is encoded
    /// again; `None` if there is none.
    pub fn difference<'a, T: Debug, E: Display>(
        &'a self,
        decode: impl Fn(&'a [u8]) -> Result<T, E>,
        encode: impl Fn(&T, &mut Vec<u8>),
    ) -> Option<String> {
        let found = match decode(&self.bytes) {
            Err(error) => format!("! {error}"),
            Ok(value) => {
                let mut again = Vec::new();
                encode(&value, &mut again);
                if again != self.bytes {
                    return Some(format!("line {}, {}: it is encoded as {again:02x?}", self.line, self.name));
                }
                format!("> {value:?}")
            }
        };
        let told = self.error.as_ref().map(|error| format!("! {error}"));
        let told = told.or_else(|| self.value.as_ref().map(|value| format!("> {value}")));
        (told.as_ref() != Some(&found)).then(|| format!("line {}, {}:\n{found}", self.line, self.name))
    }
    /// The same for a packet that knows its end: no shorter one and none with a byte more is decoded.
    pub fn difference_or_end<T: Debug, E: Display>(
        &self,
        decode: impl Fn(&[u8]) -> Result<T, E>,
        encode: impl Fn(&T, &mut Vec<u8>),
    ) -> Option<String> {
        let difference = self.difference(&decode, encode);
        if difference.is_some() || self.error.is_some() {
            return difference;
        }
        let longer = [&self.bytes[..], &[0]].concat();
        let mut others = (0..self.bytes.len()).map(|cut| &self.bytes[..cut]).chain([&longer[..]]);
        let wrong = others.find(|bytes| decode(bytes).is_ok())?;
        Some(format!("line {}, {}: {} bytes are decoded too", self.line, self.name, wrong.len()))
    }
}

/// A golden file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// Something else than hex digits.
    #[error("line {line}: '{text}' is not hex")]
    NotHex {
        /// The line, from 1.
        line: usize,
        /// The group.
        text: String,
    },
    /// Half a byte.
    #[error("line {line}: '{text}' has an odd number of digits")]
    OddDigits {
        /// The line, from 1.
        line: usize,
        /// The group.
        text: String,
    },
}

/// Reads all packets of a golden file.
///
/// # Errors
/// [`GoldenError`] names the line.
pub fn parse(text: &str) -> Result<Vec<GoldenPacket>, GoldenError> {
    let mut packets: Vec<GoldenPacket> = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if let Some(name) = content.strip_prefix("==") {
            packets.push(GoldenPacket::named(name.trim(), line));
            continue;
        }
        let is_told = content.starts_with(['!', '>']);
        let content = if is_told { content } else { content.split('#').next().unwrap_or("").trim() };
        if content.is_empty() {
            continue;
        }
        if packets.is_empty() {
            packets.push(GoldenPacket::named("", line));
        }
        let Some(packet) = packets.last_mut() else { continue };
        if is_told {
            let told = if content.starts_with('!') { &mut packet.error } else { &mut packet.value };
            let before = told.take().map_or(String::new(), |before| before + " ");
            *told = Some(before + content[1..].trim());
            continue;
        }
        for group in content.split_whitespace() {
            let digits: Option<Vec<u8>> = group.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
            let digits = digits.ok_or_else(|| GoldenError::NotHex { line, text: group.into() })?;
            if digits.len() % 2 == 1 {
                return Err(GoldenError::OddDigits { line, text: group.into() });
            }
            packet.bytes.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
        }
    }
    Ok(packets)
}

/// The bytes of a file or literal with a single packet.
///
/// # Panics
/// If it cannot be read, or has more than one packet.
#[track_caller]
pub fn bytes(text: &str) -> Vec<u8> {
    let packets = parse(text).unwrap_or_else(|error| panic!("{error}"));
    assert!(packets.len() <= 1, "{} packets where one was expected", packets.len());
    packets.into_iter().next().map(|packet| packet.bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_names_and_errors() {
        let packets = parse("# all\n01 0203 # a\n> A\n> B\n\n== two\n! ends early # really\nFf\n== empty\n")
            .expect("it is well-formed");
        assert_eq!(packets[0].value.as_deref(), Some("A B"));
        let summary: Vec<_> =
            packets.iter().map(|p| (p.name.as_str(), p.line, p.bytes.as_slice(), p.error.as_deref())).collect();
        let expected: [(&str, usize, &[u8], Option<&str>); 3] =
            [("", 2, &[1, 2, 3], None), ("two", 6, &[0xff], Some("ends early # really")), ("empty", 9, &[], None)];
        assert_eq!(summary, expected);
    }

    #[test]
    fn names_the_line_of_a_mistake() {
        assert_eq!(parse("00\n0g").map_err(|e| e.to_string()), Err("line 2: '0g' is not hex".into()));
        assert_eq!(parse("00 123").map_err(|e| e.to_string()), Err("line 1: '123' has an odd number of digits".into()));
    }
}
