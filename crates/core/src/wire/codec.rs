//! Packets as tables: each field is declared once, with its name in errors and its codec, for reading and for writing.
use alloc::{string::String, vec::Vec};

use super::{Reader, WireError, Writer};

/// Where packets are written.
pub type Output = Vec<u8>;

/// A packet, or a part of one that has fields.
pub trait Wire: Sized {
    /// Reads it.
    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError>;
    /// Appends it to `out`.
    fn encode(&self, out: &mut Vec<u8>);
    /// It alone.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
    /// Reads it from bytes that are nothing else.
    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let read = Self::read(&mut reader)?;
        reader.end()?;
        Ok(read)
    }
}

/// The encoding of a field in packets.
pub trait Codec<T> {
    /// Reads it; errors name `field`.
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<T, WireError>;
    /// Appends it to `out`.
    fn write(&self, value: &T, out: &mut Vec<u8>);
}

/// A field that one function reads and another one writes.
pub struct Of<T>(pub fn(&mut Reader<'_>, &'static str) -> Result<T, WireError>, pub fn(&T, &mut Vec<u8>));
impl<T> Codec<T> for Of<T> {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<T, WireError> {
        self.0(reader, field)
    }
    fn write(&self, value: &T, out: &mut Vec<u8>) {
        self.1(value, out);
    }
}

/// One byte.
pub const U8: Of<u8> = Of(|reader, field| reader.u8(field), |value, out| out.put_u8(*value));
/// Two bytes.
pub const U16: Of<u16> = Of(|reader, field| reader.u16(field), |value, out| out.put_u16(*value));
/// Four bytes.
pub const U32: Of<u32> = Of(|reader, field| reader.u32(field), |value, out| out.put_u32(*value));
/// Eight bytes.
pub const U64: Of<u64> = Of(|reader, field| reader.u64(field), |value, out| out.put_u64(*value));

/// The fields of a [`Wire`].
pub struct Own;
impl<T: Wire> Codec<T> for Own {
    fn read(&self, reader: &mut Reader<'_>, _: &'static str) -> Result<T, WireError> {
        T::read(reader)
    }
    fn write(&self, value: &T, out: &mut Vec<u8>) {
        value.encode(out);
    }
}

/// Bytes of a fixed number.
pub struct Bytes;
impl<const N: usize> Codec<[u8; N]> for Bytes {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<[u8; N], WireError> {
        reader.array(field)
    }
    fn write(&self, value: &[u8; N], out: &mut Vec<u8>) {
        out.put(value);
    }
}

/// A byte string behind a 2-byte length of at most this.
pub struct Blob(pub usize);
impl Codec<Vec<u8>> for Blob {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<u8>, WireError> {
        reader.blob(field, self.0).map(Vec::from)
    }
    fn write(&self, value: &Vec<u8>, out: &mut Vec<u8>) {
        out.put_blob(value);
    }
}

/// UTF-8 text behind a 2-byte length of at most this.
pub struct Text(pub usize);
impl Codec<String> for Text {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<String, WireError> {
        reader.text(field, self.0)
    }
    fn write(&self, value: &String, out: &mut Vec<u8>) {
        out.put_blob(value.as_bytes());
    }
}

/// One of these, by its place among them, in one byte.
pub struct Choice<T: 'static>(pub &'static [T]);
impl<T: Copy + PartialEq> Codec<T> for Choice<T> {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<T, WireError> {
        reader.choice(field, |found| self.0.get(usize::from(found)).copied())
    }
    fn write(&self, value: &T, out: &mut Vec<u8>) {
        out.put_count8(self.0.iter().position(|known| known == value).unwrap_or_default());
    }
}

/// A count of at most this in one byte, and that many items, with their name in errors. Further items are not written.
pub struct List8<C>(pub usize, pub &'static str, pub C);
impl<T, C: Codec<T>> Codec<Vec<T>> for List8<C> {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<T>, WireError> {
        reader.list(field, self.0, |reader| self.2.read(reader, self.1))
    }
    fn write(&self, value: &Vec<T>, out: &mut Vec<u8>) {
        out.put_count8(value.len().min(self.0));
        value.iter().take(self.0).for_each(|item| self.2.write(item, out));
    }
}

/// The largest count in two bytes.
pub const COUNT_MAX: usize = 0xffff;
/// Like [`List8`], with a count in two bytes.
pub struct List16<C>(pub usize, pub &'static str, pub C);
impl<T, C: Codec<T>> Codec<Vec<T>> for List16<C> {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<T>, WireError> {
        match reader.u16(field)? {
            count if usize::from(count) <= self.0 => (0..count).map(|_| self.2.read(reader, self.1)).collect(),
            count => Err(WireError::Value { field, found: count.into() }),
        }
    }
    fn write(&self, value: &Vec<T>, out: &mut Vec<u8>) {
        out.put_count16(value.len().min(self.0));
        value.iter().take(self.0).for_each(|item| self.2.write(item, out));
    }
}

/// 0, or 1 and a value, in one byte.
pub struct Optional<C>(pub C);
impl<T, C: Codec<T>> Codec<Option<T>> for Optional<C> {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Option<T>, WireError> {
        match reader.choice(field, |byte| (byte < 2).then_some(byte == 1))? {
            true => self.0.read(reader, field).map(Some),
            false => Ok(None),
        }
    }
    fn write(&self, value: &Option<T>, out: &mut Vec<u8>) {
        out.put_u8(u8::from(value.is_some()));
        value.iter().for_each(|value| self.0.write(value, out));
    }
}

/// Two fields, each with its name in errors.
pub struct Pair<A, B>(pub &'static str, pub A, pub &'static str, pub B);
impl<T, U, A: Codec<T>, B: Codec<U>> Codec<(T, U)> for Pair<A, B> {
    fn read(&self, reader: &mut Reader<'_>, _: &'static str) -> Result<(T, U), WireError> {
        Ok((self.1.read(reader, self.0)?, self.3.read(reader, self.2)?))
    }
    fn write(&self, (first, second): &(T, U), out: &mut Vec<u8>) {
        self.1.write(first, out);
        self.3.write(second, out);
    }
}

/// Messages in one message: a count of at most this in two bytes, then the length in two bytes and the bytes of each. The
/// second number is the kind of the enclosing message: messages do not nest.
pub struct Messages(pub usize, pub u8);
impl<T: Wire> Codec<Vec<T>> for Messages {
    fn read(&self, reader: &mut Reader<'_>, field: &'static str) -> Result<Vec<T>, WireError> {
        let count = reader.u16(field)?;
        // Each has at least two bytes of length.
        if usize::from(count) > self.0.min(reader.rest().len() / 2) {
            return Err(WireError::Value { field, found: count.into() });
        }
        let each = |_| match reader.blob("message", COUNT_MAX)? {
            [kind, ..] if *kind == self.1 => Err(WireError::Value { field: "message kind", found: self.1.into() }),
            bytes => T::decode(bytes),
        };
        (0..count).map(each).collect()
    }
    fn write(&self, value: &Vec<T>, out: &mut Vec<u8>) {
        out.put_count16(value.len().min(self.0));
        for message in value.iter().take(self.0) {
            let mut bytes = Vec::with_capacity(256);
            message.encode(&mut bytes);
            out.put_blob(&bytes);
        }
    }
}

/// Declares a type and its packet at once: each field has its codec and its name in errors behind its type, and the fields
/// stand in the order of the packet. An enum begins with the number of its variant, in one byte.
///
/// ```
/// use tributary_core::{wire::{Wire, codec::{U8, U32}}, wire_table};
/// wire_table! {
///     /// The body of a message.
///     #[derive(PartialEq, Debug)]
///     enum Body("kind of body") {
///         0 => Sync,
///         1 => Kept(replicas: u8 = U8 => "replicas"),
///         7 => Said {
///             by: u8 = U8 => "author",
///             at: u32 = U32 => "time",
///         },
///     }
/// }
/// let mut bytes = Vec::new();
/// Body::Said { at: 3, by: 2 }.encode(&mut bytes);
/// assert_eq!(bytes, [7, 2, 0, 0, 0, 3]);
/// assert_eq!(Body::decode(&bytes), Ok(Body::Said { at: 3, by: 2 }));
/// assert_eq!(Body::decode(&[2]).unwrap_err().to_string(), "kind of body cannot be 2");
/// ```
#[macro_export]
macro_rules! wire_table {
    ($(#[$meta:meta])* $vis:vis struct $type:ident {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $of:ty = $codec:expr => $name:literal,)*
    }) => {
        $(#[$meta])*
        $vis struct $type { $($(#[$field_meta])* $field_vis $field: $of,)* }
        impl $crate::wire::Wire for $type {
            fn read(reader: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                Ok($type { $($field: $crate::wire::Codec::read(&$codec, reader, $name)?),* })
            }
            fn encode(&self, out: &mut $crate::wire::codec::Output) {
                $($crate::wire::Codec::write(&$codec, &self.$field, out);)*
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $type:ident($kind:literal) {
        $($(#[$variant_meta:meta])* $tag:literal => $variant:ident
            $({ $($(#[$field_meta:meta])* $field:ident: $of:ty = $codec:expr => $name:literal,)* })?
            $(( $($part:ident: $part_of:ty = $part_codec:expr => $part_name:literal),* ))?,)*
    }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$variant_meta])* $variant $({ $($(#[$field_meta])* $field: $of,)* })? $(( $($part_of),* ))?,)*
        }
        impl $type {
            /// Reads the fields of the variant `kind`.
            fn read_fields(kind: u8, reader: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                Ok(match kind {
                    $($tag => $type::$variant
                        $({ $($field: $crate::wire::Codec::read(&$codec, reader, $name)?),* })?
                        $(( $($crate::wire::Codec::read(&$part_codec, reader, $part_name)?),* ))?,)*
                    kind => return Err($crate::wire::WireError::Value { field: $kind, found: kind.into() }),
                })
            }
            /// The kind of the variant; appends its fields to `out`.
            fn write_fields(&self, out: &mut $crate::wire::codec::Output) -> u8 {
                match self {
                    $($type::$variant $({ $($field),* })? $(( $($part),* ))? => {
                        $($($crate::wire::Codec::write(&$codec, $field, out);)*)?
                        $($($crate::wire::Codec::write(&$part_codec, $part, out);)*)?
                        $tag
                    })*
                }
            }
        }
        impl $crate::wire::Wire for $type {
            fn read(reader: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                $type::read_fields(reader.u8($kind)?, reader)
            }
            fn encode(&self, out: &mut $crate::wire::codec::Output) {
                let at = out.len();
                out.push(0);
                out[at] = self.write_fields(out);
            }
        }
    };
}
