//! Type, length, value: the one structure of all NDN packets. NDN packet format 0.3, "TLV encoding".
//!
//! ```text
//!  type    1, 3, 5 or 9 bytes, in the shortest form     1 to 2³² − 1
//!  length  1, 3, 5 or 9 bytes, in the shortest form     bytes of the value
//!  value
//! ```
//! A number below 253 is one byte; 253, 254 and 255 announce 2, 4 or 8 more bytes. Elements of unknown type are
//! ignored, unless their type is critical: at most 31, or odd.
use alloc::vec::Vec;

use super::WireError;

/// One element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element<'a> {
    /// Its type.
    pub kind: u32,
    /// Its value.
    pub value: &'a [u8],
    /// Its start in the reader's input.
    pub start: usize,
    /// Its end there.
    pub end: usize,
}

/// Reads elements one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    field: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader of the elements in `bytes`, the value of an element called `field` in errors.
    pub fn new(field: &'static str, bytes: &'a [u8]) -> Self {
        Reader { field, bytes, at: 0 }
    }
    /// The next element; `None` at the end.
    ///
    /// # Errors
    /// [`WireError::Number`] for a type or length out of form, [`WireError::Short`] for one that is cut.
    pub fn element(&mut self) -> Result<Option<Element<'a>>, WireError> {
        let start = self.at;
        if start >= self.bytes.len() {
            return Ok(None);
        }
        let kind = self.number()?;
        let kind = u32::try_from(kind).ok().filter(|kind| *kind != 0);
        let kind = kind.ok_or(WireError::Number(self.field, start))?;
        let length = self.number()?;
        let left = self.bytes.len() - self.at;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= left)
            .ok_or(WireError::Short(self.field, length, left))?;
        let value = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(Some(Element { kind, value, start, end: self.at }))
    }
    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn number(&mut self) -> Result<u64, WireError> {
        let rest = &self.bytes[self.at..];
        match read_number(rest) {
            Some((number, length)) => {
                self.at += length;
                Ok(number)
            }
            None => {
                let needs = rest.first().map_or(1, |first| number_bytes(*first));
                if rest.len() < needs {
                    Err(WireError::Short(self.field, needs as u64, rest.len()))
                } else {
                    Err(WireError::Number(self.field, self.at))
                }
            }
        }
    }
}

/// Reads elements with a fixed order, and applies the rules for unknown ones.
#[derive(Clone, Debug)]
pub struct Sequence<'a> {
    reader: Reader<'a>,
    order: &'static [u32],
    position: usize,
    /// Types of other protocols, critical or not.
    ignored: Option<core::ops::RangeInclusive<u32>>,
    is_canonical: bool,
}

impl<'a> Sequence<'a> {
    /// A reader of the elements in `bytes`, which may come in this `order`, each at most once.
    pub fn new(field: &'static str, bytes: &'a [u8], order: &'static [u32]) -> Self {
        Sequence { reader: Reader::new(field, bytes), order, position: 0, ignored: None, is_canonical: true }
    }
    /// Ignores unknown elements of these types though they are critical.
    pub fn ignore(&mut self, kinds: core::ops::RangeInclusive<u32>) {
        self.ignored = Some(kinds);
    }
    /// The next element of a known type; `None` at the end.
    ///
    /// # Errors
    /// As for [`Reader::element`], and [`WireError::Critical`].
    pub fn element(&mut self) -> Result<Option<Element<'a>>, WireError> {
        while let Some(element) = self.reader.element()? {
            match self.order[self.position..].iter().position(|kind| *kind == element.kind) {
                Some(skipped) => {
                    self.position += skipped + 1;
                    return Ok(Some(element));
                }
                None if is_critical(element.kind)
                    && !self.ignored.as_ref().is_some_and(|ignored| ignored.contains(&element.kind)) =>
                {
                    return Err(WireError::Critical(self.reader.field, element.kind));
                }
                None => self.is_canonical = false,
            }
        }
        Ok(None)
    }
    /// Reads a number and notes if it is not in the shortest form.
    ///
    /// # Errors
    /// As for [`integer`].
    pub fn integer(&mut self, field: &'static str, element: &Element<'_>) -> Result<u64, WireError> {
        let value = integer(field, element.value)?;
        self.is_canonical &= element.value.len() == integer_bytes(value);
        Ok(value)
    }
    /// Takes a decoded part of it, and notes if it will not be re-emitted unchanged.
    pub fn part<T>(&mut self, (part, is_canonical): (T, bool)) -> T {
        self.is_canonical &= is_canonical;
        part
    }
    /// Whether everything so far will be re-emitted unchanged.
    pub fn is_canonical(&self) -> bool {
        self.is_canonical
    }
}

/// Whether an element of an unknown type makes the packet unusable.
pub fn is_critical(kind: u32) -> bool {
    kind <= 31 || kind % 2 == 1
}

/// Elements that may be ignored stand behind the name. NDN packet format 0.3, "Interest Packet" and "Data Packet".
pub(super) fn before_name() -> WireError {
    WireError::Contradiction("an element stands before the name")
}

/// The only element in `bytes`, which must be of type `kind`.
///
/// # Errors
/// [`WireError::Missing`], [`WireError::Trailing`], and as for [`Reader::element`].
pub fn only<'a>(field: &'static str, bytes: &'a [u8], kind: u32) -> Result<&'a [u8], WireError> {
    let mut reader = Reader::new(field, bytes);
    match reader.element()? {
        Some(element) if element.kind == kind => match reader.rest().len() {
            0 => Ok(element.value),
            extra => Err(WireError::Trailing(extra)),
        },
        _ => Err(WireError::Missing(field)),
    }
}

/// The type or length at the start of `bytes`, and the bytes that it takes; `None` if it is cut or not in its shortest
/// form.
pub fn read_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    if first < 253 {
        return Some((u64::from(first), 1));
    }
    let (number, least, length) = match first {
        253 => (u64::from(u16::from_be_bytes(*bytes.get(1..)?.first_chunk()?)), 253, 3),
        254 => (u64::from(u32::from_be_bytes(*bytes.get(1..)?.first_chunk()?)), 0x1_0000, 5),
        _ => (u64::from_be_bytes(*bytes.get(1..)?.first_chunk()?), 0x1_0000_0000, 9),
    };
    (number >= least).then_some((number, length))
}
fn number_bytes(first: u8) -> usize {
    match first {
        0..=252 => 1,
        253 => 3,
        254 => 5,
        255 => 9,
    }
}

/// A NonNegativeInteger: 1, 2, 4 or 8 bytes, big-endian.
///
/// # Errors
/// [`WireError::Length`] for any other length.
pub fn integer(field: &'static str, value: &[u8]) -> Result<u64, WireError> {
    Ok(match *value {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(WireError::Length(field, value.len())),
    })
}
/// Bytes of a NonNegativeInteger in its shortest form.
pub fn integer_bytes(value: u64) -> usize {
    match value {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}
/// Bytes of a type or length.
pub fn number_len(number: u64) -> usize {
    match number {
        0..253 => 1,
        253..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}
/// Bytes of an element with a value of `value_len` bytes.
pub fn element_len(kind: u32, value_len: usize) -> usize {
    number_len(u64::from(kind)) + number_len(value_len as u64) + value_len
}

/// Appends elements.
pub trait Writer {
    /// A type or length.
    fn put_number(&mut self, number: u64);
    /// Type and length; the value follows.
    fn put_head(&mut self, kind: u32, length: usize);
    /// A complete element.
    fn put_element(&mut self, kind: u32, value: &[u8]);
    /// A complete element whose value is a NonNegativeInteger in its shortest form.
    fn put_integer(&mut self, kind: u32, value: u64);
    /// A complete element whose value `fill` appends.
    fn put_nested(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>));
}

impl Writer for Vec<u8> {
    fn put_number(&mut self, number: u64) {
        let bytes = number.to_be_bytes();
        match number_len(number) {
            1 => self.push(bytes[7]),
            3 => {
                self.push(253);
                self.extend_from_slice(&bytes[6..]);
            }
            5 => {
                self.push(254);
                self.extend_from_slice(&bytes[4..]);
            }
            _ => {
                self.push(255);
                self.extend_from_slice(&bytes);
            }
        }
    }
    fn put_head(&mut self, kind: u32, length: usize) {
        self.put_number(u64::from(kind));
        self.put_number(length as u64);
    }
    fn put_element(&mut self, kind: u32, value: &[u8]) {
        self.put_head(kind, value.len());
        self.extend_from_slice(value);
    }
    fn put_integer(&mut self, kind: u32, value: u64) {
        let length = integer_bytes(value);
        self.put_head(kind, length);
        self.extend_from_slice(&value.to_be_bytes()[8 - length..]);
    }
    fn put_nested(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.len();
        fill(self);
        let length = self.len() - start;
        let mut head = Vec::with_capacity(9);
        head.put_head(kind, length);
        // The head is short and the value of a nested element too; moving it costs less than counting beforehand.
        self.splice(start..start, head);
    }
}

/// Declares an enum of numbers on the wire; `Other` is any that has no name here.
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$variant_meta:meta])* $number:literal => $variant:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum $type {
            $($(#[$variant_meta])* $variant,)*
            /// An unknown number.
            Other(u64),
        }
        impl $type {
            /// Its number on the wire.
            pub fn number(self) -> u64 {
                match self {
                    $($type::$variant => $number,)*
                    $type::Other(number) => number,
                }
            }
        }
        impl From<u64> for $type {
            fn from(number: u64) -> Self {
                match number {
                    $($number => $type::$variant,)*
                    other => $type::Other(other),
                }
            }
        }
    };
}
pub(super) use numbered;

/// How the value of an element is read, and how the element is appended.
pub(super) struct Form<T>(pub fn(&[u8]) -> Result<T, WireError>, pub fn(u32, &T, &mut Vec<u8>));

/// Declares a type of optional elements: type number, field, type and [`Form`] of each. The reader accepts them in any order
/// and keeps the last of repeated ones; the writer follows the order of the declaration.
macro_rules! element_table {
    ($(#[$meta:meta])* pub struct $type:ident {
        $($(#[$field_meta:meta])* $kind:path => $field:ident: $of:ty = $form:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        pub struct $type { $($(#[$field_meta])* pub $field: Option<$of>,)* }
        impl $type {
            /// Takes an element; false if it is of an unknown type.
            fn take(&mut self, element: &$crate::wire::tlv::Element<'_>) -> Result<bool, $crate::wire::WireError> {
                match element.kind {
                    $($kind => self.$field = Some($form.0(element.value)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
            /// Appends the elements.
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.iter().for_each(|value| $form.1($kind, value, out));)*
            }
        }
    };
}
pub(super) use element_table;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_in_their_shortest_form_only() {
        for (bytes, number) in [
            (&[0u8][..], Some(0)),
            (&[252], Some(252)),
            (&[253, 0, 253], Some(253)),
            (&[253, 0, 252], None),
            (&[253, 255, 255], Some(65_535)),
            (&[253, 1], None),
            (&[254, 0, 1, 0, 0], Some(65_536)),
            (&[254, 0, 0, 255, 255], None),
            (&[255, 0, 0, 0, 1, 0, 0, 0, 0], Some(1 << 32)),
            (&[255, 0, 0, 0, 0, 255, 255, 255, 255], None),
            (&[], None),
        ] {
            assert_eq!(read_number(bytes).map(|(number, _)| number), number, "{bytes:?}");
        }
    }

    #[test]
    fn unknown_elements_are_ignored_unless_critical_and_known_ones_keep_their_order() {
        let read = |bytes: &'static [u8]| {
            let mut sequence = Sequence::new("test", bytes, &[40, 42]);
            let mut kinds = Vec::new();
            loop {
                match sequence.element() {
                    Ok(Some(element)) => kinds.push(element.kind),
                    Ok(None) => break Ok((kinds, sequence.is_canonical())),
                    Err(error) => break Err(error),
                }
            }
        };
        assert_eq!(read(&[40, 0, 42, 0]), Ok((alloc::vec![40, 42], true)));
        assert_eq!(read(&[40, 0, 44, 0, 42, 0]), Ok((alloc::vec![40, 42], false)));
        assert_eq!(read(&[42, 0, 40, 0]), Ok((alloc::vec![42], false)));
        assert_eq!(read(&[40, 0, 45, 0]), Err(WireError::Critical("test", 45)));
        assert_eq!(read(&[30, 0]), Err(WireError::Critical("test", 30)));
        assert_eq!(read(&[0, 0]), Err(WireError::Number("test", 0)));
        assert_eq!(read(&[40, 3, 1]), Err(WireError::Short("test", 3, 1)));
    }

    proptest! {
        #[test]
        fn any_number_comes_back(number in any::<u64>(), shift in 0u32..64) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            bytes.put_number(number);
            prop_assert_eq!(bytes.len(), number_len(number));
            prop_assert_eq!(read_number(&bytes), Some((number, bytes.len())));
            let mut bytes = Vec::new();
            bytes.put_integer(1, number);
            prop_assert_eq!(only("x", &bytes, 1).and_then(|value| integer("x", value)), Ok(number));
        }
    }
}
