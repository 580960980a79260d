//! Golden packets: bytes on the wire, written by hand and explained.
//!
//! ```text
//! == request, two names           starts a packet; the first one may go without a name
//! 01 0004                         # type, length: white space groups fields and means nothing
//! cafe f00d                       # nonce
//! == request that ends early
//! ! datagram ends inside length   the error that parsing must give
//! 01 00
//! ```

/// One packet of a golden file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoldenPacket {
    /// A description; empty without one in the file.
    pub name: String,
    /// The line where it starts, from 1.
    pub line: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// For a malformed packet, the error that parsing must return.
    pub error: Option<String>,
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
            let (name, bytes, error) = (name.trim().into(), Vec::new(), None);
            packets.push(GoldenPacket { name, line, bytes, error });
            continue;
        }
        let is_error = content.starts_with('!');
        let content = if is_error { content } else { content.split('#').next().unwrap_or("").trim() };
        if content.is_empty() {
            continue;
        }
        if packets.is_empty() {
            packets.push(GoldenPacket { name: String::new(), line, bytes: Vec::new(), error: None });
        }
        let Some(packet) = packets.last_mut() else { continue };
        if is_error {
            packet.error = Some(content[1..].trim().into());
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
        let packets =
            parse("# all\n01 0203 # a\n\n== two\n! ends early # really\nFf\n== empty\n").expect("it is well-formed");
        let summary: Vec<_> =
            packets.iter().map(|p| (p.name.as_str(), p.line, p.bytes.as_slice(), p.error.as_deref())).collect();
        let expected: [(&str, usize, &[u8], Option<&str>); 3] =
            [("", 2, &[1, 2, 3], None), ("two", 4, &[0xff], Some("ends early # really")), ("empty", 7, &[], None)];
        assert_eq!(summary, expected);
    }

    #[test]
    fn names_the_line_of_a_mistake() {
        assert_eq!(parse("00\n0g").map_err(|e| e.to_string()), Err("line 2: '0g' is not hex".into()));
        assert_eq!(parse("00 123").map_err(|e| e.to_string()), Err("line 1: '123' has an odd number of digits".into()));
    }
}
