//! Hierarchical names, written as NDN URIs.
use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use core::{fmt, str::FromStr};

/// A hierarchical name such as `/lab/images/debian.iso`.
///
/// It is kept as the NDN packet format encodes it (type, length and value of each component, back to back), so
/// names compare in NDN's canonical order, a prefix is a prefix of bytes, and a clone shares its bytes.
///
/// As text: components are separated by `/`; every byte that is not a letter, a digit or one of `-._~` is a percent
/// escape; a component of periods only has three more of them (`...` is the empty one); a component that is not
/// generic has its type number in front (`54=%05`), a digest is `sha256digest=` or `params-sha256=` and hex. The
/// short forms `seg=`, `off=`, `v=`, `t=` and `seq=` with a decimal number are read and shown as numbers of types.
/// NDN packet format 0.3, "NDN URI scheme"; NDN naming conventions, revision 3.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name {
    tlv: Bytes,
}

impl Name {
    /// Maximum components of a name.
    pub const COMPONENTS_MAX: usize = 32;
    /// Maximum bytes of the encoded components.
    pub const BYTES_MAX: usize = 1024;

    /// The name without components, `/`.
    pub const fn root() -> Self {
        Name { tlv: Bytes::new() }
    }
    /// The name whose components are encoded back to back in `tlv`: the value of an NDN Name element.
    ///
    /// # Errors
    /// [`NameError`] names the violated limit or rule; lengths and types in another than the shortest form are refused,
    /// so that a name has one encoding.
    pub fn from_tlv(tlv: impl Into<Bytes>) -> Result<Self, NameError> {
        let tlv = tlv.into();
        check_length(tlv.len())?;
        let (mut at, mut count) = (0, 0);
        while at < tlv.len() {
            let (kind, value, next) = read_component(&tlv, at).ok_or(NameError::Encoding { at })?;
            check_component(kind, value.len())?;
            count += 1;
            check_count(count)?;
            at = next;
        }
        Ok(Name { tlv })
    }
    /// This name and one more generic component; any bytes will do, even none.
    ///
    /// # Errors
    /// [`NameError`] if the name gets too long.
    pub fn child(&self, value: &[u8]) -> Result<Self, NameError> {
        self.typed_child(GENERIC, value)
    }
    /// This name and one more component of NDN type `kind` (1 to 65,535; 8 is generic).
    ///
    /// # Errors
    /// [`NameError`] if the name gets too long, the type is zero, or a digest does not have 32 bytes.
    pub fn typed_child(&self, kind: u16, value: &[u8]) -> Result<Self, NameError> {
        check_component(kind, value.len())?;
        check_count(self.len() + 1)?;
        let mut tlv = Vec::with_capacity(self.tlv.len() + value.len() + 6);
        tlv.extend_from_slice(&self.tlv);
        push_component(&mut tlv, kind, value);
        check_length(tlv.len())?;
        Ok(Name { tlv: tlv.into() })
    }

    /// The name without its last component; `None` for the root.
    pub fn parent(&self) -> Option<Name> {
        let mut start = None;
        let mut at = 0;
        while let Some((_, _, next)) = read_component(&self.tlv, at) {
            start = Some(at);
            at = next;
        }
        start.map(|start| Name { tlv: self.tlv.slice(..start) })
    }
    /// The first `count` components, or all if there are fewer.
    pub fn prefix(&self, count: usize) -> Name {
        let mut at = 0;
        for _ in 0..count {
            match read_component(&self.tlv, at) {
                Some((_, _, next)) => at = next,
                None => break,
            }
        }
        Name { tlv: self.tlv.slice(..at) }
    }
    /// Whether `other` starts with all components of this name; a name is a prefix of itself.
    pub fn is_prefix_of(&self, other: &Name) -> bool {
        other.tlv.starts_with(&self.tlv)
    }
    /// The value bytes of each component, first to last.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.typed_components().map(|(_, value)| value)
    }
    /// The NDN type and the value bytes of each component, first to last.
    pub fn typed_components(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (kind, value, next) = read_component(&self.tlv, at)?;
            at = next;
            Some((kind, value))
        })
    }
    /// The number of components.
    pub fn len(&self) -> usize {
        self.typed_components().count()
    }
    /// Whether this is the root.
    pub fn is_empty(&self) -> bool {
        self.tlv.is_empty()
    }
    /// The components in NDN encoding, back to back.
    pub fn as_tlv(&self) -> &Bytes {
        &self.tlv
    }
}

impl FromStr for Name {
    type Err = NameError;

    /// Reads an NDN URI, with or without `ndn:` in front; one `/` at the end is allowed.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let path = text.strip_prefix("ndn:").unwrap_or(text);
        let path = path.strip_prefix('/').ok_or(NameError::NoSlash)?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut tlv = Vec::with_capacity(path.len().min(Self::BYTES_MAX));
        if text.ends_with("//") {
            return Err(NameError::EmptyComponent { position: 1 + path.split('/').count() });
        }
        if !path.is_empty() {
            for (index, component) in path.split('/').enumerate() {
                check_count(index + 1)?;
                if component.is_empty() {
                    return Err(NameError::EmptyComponent { position: index + 1 });
                }
                let (kind, value) = parse_component(component)?;
                check_component(kind, value.len())?;
                push_component(&mut tlv, kind, &value);
                check_length(tlv.len())?;
            }
        }
        Ok(Name { tlv: tlv.into() })
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("/");
        }
        for (kind, value) in self.typed_components() {
            f.write_str("/")?;
            match DIGESTS.iter().find(|(_, digest)| *digest == kind) {
                Some((prefix, _)) => {
                    write!(f, "{prefix}=")?;
                    value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                    continue;
                }
                None if kind == GENERIC => {}
                None => write!(f, "{kind}=")?,
            }
            if value.iter().all(|byte| *byte == b'.') {
                f.write_str("...")?;
            }
            for byte in value {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
                    write!(f, "{}", char::from(*byte))?;
                } else {
                    write!(f, "%{byte:02X}")?;
                }
            }
        }
        Ok(())
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({self})")
    }
}

/// Why something is not a name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text does not start with a slash.
    #[error("a name starts with '/', such as /lab/images/debian.iso")]
    NoSlash,
    /// There are too many components.
    #[error("a name has at most {max} components", max = Name::COMPONENTS_MAX)]
    TooManyComponents,
    /// The components are too long together.
    #[error("a name has at most {max} bytes, not {have}", max = Name::BYTES_MAX)]
    TooLong {
        /// Bytes of the encoded components.
        have: usize,
    },
    /// Two slashes in a row.
    #[error("component {position} of the name is empty; an empty component is written as '...'")]
    EmptyComponent {
        /// Which one, from 1.
        position: usize,
    },
    /// A component of one or two periods.
    #[error("'{component}' is not a component of a name; periods alone are written with three more of them")]
    Periods {
        /// The component as written.
        component: String,
    },
    /// A percent sign that two hex digits do not follow.
    #[error("'{component}' has a '%' without two hex digits; a percent sign itself is written as %25")]
    Escape {
        /// The component as written.
        component: String,
    },
    /// The text before `=` names no type.
    #[error("'{prefix}=' names no type of component (1 to 65535); an equals sign itself is written as %3D")]
    UnknownType {
        /// The text before the sign.
        prefix: String,
    },
    /// A short form such as `v=` without a decimal number.
    #[error("'{component}' needs a decimal number after the equals sign")]
    Number {
        /// The component as written.
        component: String,
    },
    /// A digest component that does not have 32 bytes.
    #[error("a digest component has 32 bytes (64 hex digits), not {have}")]
    Digest {
        /// Bytes present.
        have: usize,
    },
    /// The encoded form is cut short, or a number is not in its shortest form.
    #[error("the encoded name is malformed at byte {at}")]
    Encoding {
        /// Where the malformed component starts.
        at: usize,
    },
}

const GENERIC: u16 = 8;
/// Components whose value is a digest, shown in hex.
const DIGESTS: [(&str, u16); 2] = [("sha256digest", 1), ("params-sha256", 2)];
/// Components whose value is a number.
const NUMBERS: [(&str, u16); 5] = [("seg", 50), ("off", 52), ("v", 54), ("t", 56), ("seq", 58)];

fn check_length(have: usize) -> Result<(), NameError> {
    if have > Name::BYTES_MAX { Err(NameError::TooLong { have }) } else { Ok(()) }
}
fn check_count(have: usize) -> Result<(), NameError> {
    if have > Name::COMPONENTS_MAX { Err(NameError::TooManyComponents) } else { Ok(()) }
}
fn check_component(kind: u16, length: usize) -> Result<(), NameError> {
    match kind {
        0 => Err(NameError::UnknownType { prefix: "0".into() }),
        1 | 2 if length != 32 => Err(NameError::Digest { have: length }),
        _ if length > Name::BYTES_MAX => Err(NameError::TooLong { have: length }),
        _ => Ok(()),
    }
}

/// Type, value and end of the component at `at`; `None` at the end of the name or if the component is malformed.
fn read_component(tlv: &[u8], at: usize) -> Option<(u16, &[u8], usize)> {
    let (kind, at) = read_number(tlv, at)?;
    let (length, at) = read_number(tlv, at)?;
    let end = at + usize::from(length);
    Some((kind, tlv.get(at..end)?, end))
}
fn read_number(tlv: &[u8], at: usize) -> Option<(u16, usize)> {
    match *tlv.get(at)? {
        253 => {
            let number = u16::from_be_bytes([*tlv.get(at + 1)?, *tlv.get(at + 2)?]);
            (number >= 253).then_some((number, at + 3))
        }
        254 | 255 => None,
        short => Some((u16::from(short), at + 1)),
    }
}
fn push_component(tlv: &mut Vec<u8>, kind: u16, value: &[u8]) {
    push_number(tlv, kind);
    push_number(tlv, u16::try_from(value.len()).expect("check_component came before"));
    tlv.extend_from_slice(value);
}
fn push_number(tlv: &mut Vec<u8>, number: u16) {
    match u8::try_from(number) {
        Ok(short) if short < 253 => tlv.push(short),
        _ => {
            tlv.push(253);
            tlv.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn parse_component(component: &str) -> Result<(u16, Vec<u8>), NameError> {
    let Some((prefix, value)) = component.split_once('=') else {
        return Ok((GENERIC, unescape(component, component)?));
    };
    if let Some((_, kind)) = DIGESTS.iter().find(|(name, _)| *name == prefix) {
        let mut digest = [0; 32];
        return match crate::hex::decode(value, &mut digest) {
            Some(()) => Ok((*kind, digest.to_vec())),
            None => Err(NameError::Digest { have: value.len() / 2 }),
        };
    }
    if let Some((_, kind)) = NUMBERS.iter().find(|(name, _)| *name == prefix) {
        let decimal = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = if decimal { value.parse().ok() } else { None };
        let number: u64 = number.ok_or_else(|| NameError::Number { component: component.into() })?;
        return Ok((*kind, shortest(number)));
    }
    let canonical = prefix.bytes().all(|byte| byte.is_ascii_digit()) && !prefix.starts_with('0');
    match prefix.parse() {
        Ok(kind) if canonical => Ok((kind, unescape(value, component)?)),
        _ => Err(NameError::UnknownType { prefix: prefix.into() }),
    }
}
/// An NDN NonNegativeInteger: 1, 2, 4 or 8 bytes.
fn shortest(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let length = match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    bytes[8 - length..].to_vec()
}
fn unescape(text: &str, component: &str) -> Result<Vec<u8>, NameError> {
    if text.bytes().all(|byte| byte == b'.') {
        return match text.len().checked_sub(3) {
            Some(periods) => Ok(alloc::vec![b'.'; periods]),
            None => Err(NameError::Periods { component: component.into() }),
        };
    }
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)];
            let mut escaped = [0];
            let digits = core::str::from_utf8(&digits).unwrap_or("");
            crate::hex::decode(digits, &mut escaped)
                .ok_or_else(|| NameError::Escape { component: component.into() })?;
            value.push(escaped[0]);
        } else {
            value.push(byte);
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{
        format,
        string::{String, ToString},
    };
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn text_follows_the_ndn_uri_scheme() {
        for (typed, shown) in [
            ("/", "/"),
            ("ndn:/", "/"),
            ("/lab/images/debian.iso", "/lab/images/debian.iso"),
            ("ndn:/lab/", "/lab"),
            ("/a b/ü", "/a%20b/%C3%BC"),
            ("/%2f%2F", "/%2F%2F"),
            ("/%41", "/A"),
            ("/.../....", "/.../...."),
            ("/a%3Db", "/a%3Db"),
            ("/54=123", "/54=123"),
            ("/8=x", "/x"),
            ("/v=5", "/54=%05"),
            ("/seg=0/off=256/t=65536/seq=4294967296", "/50=%00/52=%01%00/56=%00%01%00%00/58=%00%00%00%01%00%00%00%00"),
            ("/65535=...", "/65535=..."),
        ] {
            assert_eq!(name(typed).to_string(), shown, "{typed}");
            assert_eq!(name(shown), name(typed));
        }
        let digest = format!("/sha256digest={}", "0a".repeat(32));
        assert_eq!(name(&digest).to_string(), digest);
        assert_eq!(name("/...").components().next(), Some(&b""[..]));
        assert_eq!(name("/....").components().next(), Some(&b"."[..]));
    }

    #[test]
    fn what_is_not_a_name_is_refused_with_the_rule_that_it_breaks() {
        use NameError::*;
        let cases: [(&str, NameError); 15] = [
            ("", NoSlash),
            ("lab", NoSlash),
            ("ndn:lab", NoSlash),
            ("//", EmptyComponent { position: 2 }),
            ("/a//b", EmptyComponent { position: 2 }),
            ("/a//", EmptyComponent { position: 3 }),
            ("/a/../b", Periods { component: "..".into() }),
            ("/54=.", Periods { component: "54=.".into() }),
            ("/100%", Escape { component: "100%".into() }),
            ("/%4", Escape { component: "%4".into() }),
            ("/%zz", Escape { component: "%zz".into() }),
            ("/a=b", UnknownType { prefix: "a".into() }),
            ("/0=b", UnknownType { prefix: "0".into() }),
            ("/v=x", Number { component: "v=x".into() }),
            ("/sha256digest=00", Digest { have: 1 }),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Name>(), Err(error), "{text}");
        }
        for text in ["/08=x", "/65536=x", "/+8=x", "/=x", "/v=+1", "/v=", "/v=18446744073709551616", "/1=x"] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_hold_exactly() {
        assert_eq!(name(&"/a".repeat(32)).len(), 32);
        assert_eq!("/a".repeat(33).parse::<Name>(), Err(NameError::TooManyComponents));
        assert_eq!(name(&"/a".repeat(32)).child(b"a"), Err(NameError::TooManyComponents));
        // Four bytes of the 1,024 go to the type and the length.
        let longest = name(&format!("/{}", "a".repeat(1020)));
        assert_eq!(longest.as_tlv().len(), Name::BYTES_MAX);
        assert_eq!(format!("/{}", "a".repeat(1021)).parse::<Name>(), Err(NameError::TooLong { have: 1025 }));
        assert_eq!(longest.child(b""), Err(NameError::TooLong { have: 1026 }));
        assert_eq!(Name::root().child(&[0; 70_000]), Err(NameError::TooLong { have: 70_000 }));
    }

    #[test]
    fn parents_and_prefixes_follow_components_and_not_bytes() {
        let image = name("/lab/images/debian.iso");
        assert_eq!(image.parent(), Some(name("/lab/images")));
        assert_eq!(name("/lab").parent(), Some(Name::root()));
        assert_eq!(Name::root().parent(), None);
        assert!(Name::root().is_prefix_of(&image) && name("/lab").is_prefix_of(&image) && image.is_prefix_of(&image));
        assert!(!name("/la").is_prefix_of(&image) && !image.is_prefix_of(&name("/lab")));
        assert_eq!(image.prefix(1), name("/lab"));
        assert_eq!(image.prefix(9), image);
        assert_eq!(name("/lab").child(b"images").and_then(|n| n.child(b"debian.iso")), Ok(image));
    }

    #[test]
    fn order_is_ndns_canonical_order() {
        // Order: types before values, shorter values first, then by bytes; a prefix precedes its extensions.
        let ordered = ["/", "/7=z", "/b", "/b/a", "/c", "/aa", "/54=a", "/300=a"];
        let names: Vec<Name> = ordered.iter().map(|text| name(text)).collect();
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn an_encoding_that_is_not_the_shortest_is_refused() {
        assert_eq!(Name::from_tlv(&[8u8, 1, b'a'][..]), Ok(name("/a")));
        for bad in [&[8u8][..], &[8, 2, b'a'], &[253, 0, 8, 1, b'a'], &[8, 253, 0, 1, b'a'], &[254, 0, 0, 0, 8, 0]] {
            assert_eq!(Name::from_tlv(Bytes::copy_from_slice(bad)), Err(NameError::Encoding { at: 0 }), "{bad:?}");
        }
        assert!(Name::from_tlv(&[0u8, 0][..]).is_err());
    }

    proptest! {
        #[test]
        fn any_name_survives_its_text_and_its_encoding(
            parts in prop::collection::vec((3u16.., prop::collection::vec(any::<u8>(), 0..20)), 0..20),
        ) {
            let mut made = Name::root();
            for (kind, value) in &parts {
                made = made.typed_child(*kind, value).expect("within the limits");
            }
            prop_assert_eq!(made.to_string().parse::<Name>().expect("shown text parses"), made.clone());
            prop_assert_eq!(Name::from_tlv(made.as_tlv().clone()).expect("own encoding parses"), made.clone());
            prop_assert_eq!(made.len(), parts.len());
            prop_assert!(made.components().eq(parts.iter().map(|(_, value)| &value[..])));
        }

        #[test]
        fn any_text_gives_a_name_that_shows_stable_text_or_an_error(text in "/?[ -~/%=.é]{0,60}") {
            if let Ok(read) = text.parse::<Name>() {
                let shown = read.to_string();
                prop_assert_eq!(shown.parse::<Name>().expect("shown text parses"), read);
            }
        }

        #[test]
        fn prefixes_agree_with_a_comparison_component_by_component(a in "(/[ab]{1,2}){0,3}", b in "(/[ab]{1,2}){0,4}") {
            let parts = |text: &str| -> Vec<String> { text.split('/').skip(1).map(String::from).collect() };
            let expected = parts(&b).starts_with(&parts(&a));
            let read = |text: &str| if text.is_empty() { Name::root() } else { name(text) };
            prop_assert_eq!(read(&a).is_prefix_of(&read(&b)), expected);
        }
    }
}
