//! Path tags as bits, with short codes for the faces that are named often. PTP §4 A leaves it open whether that pays.
//!
//! ```text
//!  value of the header   unused bits of the last byte, 0 to 7 (one byte) │ bits, the first router's item last
//!  item of one router    2 bits: which of its last four code books │ code of the face
//! ```
//! A stack whose top is at the end grows and shrinks without moving the rest. Each item's bits are reversed, so that
//! items can be read from the end. The codes are canonical Huffman codes of at most [`CODE_BITS_MAX`] bits over the
//! faces' frequencies.
use alloc::{collections::BinaryHeap, vec, vec::Vec};
use core::cmp::Reverse;

use super::{WireError, tlv::Writer};

/// Bits of the longest code.
pub const CODE_BITS_MAX: u8 = 15;
/// Bits that all items of a tag may have together.
pub const TAG_BITS_MAX: usize = 1016;
/// Code books that a router keeps, so that tags outlive a change of the book.
pub const BOOKS_KEPT: usize = 4;

/// A tag of bits in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitTag<'a> {
    unused: u8,
    bytes: &'a [u8],
}

impl<'a> BitTag<'a> {
    /// Checks the value of the header. Unused bits must be zero, so that a tag has one form.
    ///
    /// # Errors
    /// [`WireError`] if there are more bits than a tag may have, or more unused bits than the last byte can have.
    pub fn parse(value: &'a [u8]) -> Result<Self, WireError> {
        let length = WireError::Length("PathTagBits", value.len());
        let (&unused, bytes) = value.split_first().ok_or(length.clone())?;
        if bytes.len() * 8 > TAG_BITS_MAX {
            return Err(length);
        }
        let last = bytes.last().copied();
        let is_legal = match last {
            Some(last) => unused < 8 && last & ((1 << unused) - 1) == 0,
            None => unused == 0,
        };
        if is_legal {
            Ok(BitTag { unused, bytes })
        } else {
            Err(WireError::Value("unused bits of PathTagBits", u64::from(unused)))
        }
    }
    /// Whether no bit is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Appends the header.
    pub(crate) fn encode(&self, kind: u32, out: &mut Vec<u8>) {
        out.put_head(kind, 1 + self.bytes.len());
        out.push(self.unused);
        out.extend_from_slice(self.bytes);
    }
    /// A copy to change.
    pub fn to_stack(self) -> BitStack {
        BitStack { bytes: self.bytes.to_vec(), bits: self.bytes.len() * 8 - usize::from(self.unused) }
    }
}

/// A tag of bits that grows and shrinks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BitStack {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitStack {
    /// The tag to send.
    pub fn value(&self) -> Vec<u8> {
        let padding = self.bytes.len() * 8 - self.bits;
        let mut value = vec![u8::try_from(padding).unwrap_or_default()];
        value.extend_from_slice(&self.bytes);
        value
    }
    /// Bits in it.
    pub fn bits(&self) -> usize {
        self.bits
    }
    /// Adds one router's item; false if the stack is full.
    pub fn push(&mut self, book: u8, code: Code) -> bool {
        if self.bits + 2 + usize::from(code.bits) > TAG_BITS_MAX {
            return false;
        }
        // Last in, first out: bits are pushed in reverse order of reading.
        (0..code.bits).for_each(|bit| self.push_bit(code.value >> bit & 1));
        (0..2).for_each(|bit| self.push_bit(u16::from(book) >> bit & 1));
        true
    }
    /// Removes the last item, written with one of `books`. `None`, with the stack unchanged, if no code matches.
    pub fn pop<'b>(&mut self, book: impl FnOnce(u8) -> Option<&'b CodeBook>) -> Option<usize> {
        let mut rest = self.clone();
        let number = rest.pop_bit()? << 1 | rest.pop_bit()?;
        let book = book(u8::try_from(number).ok()?)?;
        let mut code = Code { value: 0, bits: 0 };
        while code.bits < CODE_BITS_MAX {
            code = Code { value: code.value << 1 | rest.pop_bit()?, bits: code.bits + 1 };
            if let Some(symbol) = book.symbol(code) {
                *self = rest;
                return Some(symbol);
            }
        }
        None
    }
    fn push_bit(&mut self, bit: u16) {
        if self.bits.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit != 0) << (7 - self.bits % 8);
        }
        self.bits += 1;
    }
    fn pop_bit(&mut self) -> Option<u16> {
        self.bits = self.bits.checked_sub(1)?;
        let place = 7 - self.bits % 8;
        let last = self.bytes.last_mut()?;
        let bit = *last >> place & 1;
        *last &= !(1 << place);
        if self.bits.is_multiple_of(8) {
            self.bytes.pop();
        }
        Some(u16::from(bit))
    }
}

/// The code of one face: its bits, the first in the highest place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Code {
    /// The bits.
    pub value: u16,
    /// How many.
    pub bits: u8,
}

/// Codes for faces, by how often they are named.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeBook {
    codes: Vec<Code>,
    /// Codes in order, with their symbols, to read.
    sorted: Vec<(u8, u16, usize)>,
}

impl CodeBook {
    /// A book for symbols `0..counts.len()` that occur so often; symbols that never occurred have codes too.
    /// At most 2¹⁴ symbols have codes, the first ones.
    pub fn new(counts: &[u64]) -> CodeBook {
        let counts = &counts[..counts.len().min(1 << (CODE_BITS_MAX - 1))];
        let mut scaled: Vec<u64> = counts.iter().map(|count| count.saturating_add(1).min(1 << 48)).collect();
        let lengths = loop {
            let lengths = code_lengths(&scaled);
            if lengths.iter().all(|bits| *bits <= CODE_BITS_MAX) {
                break lengths;
            }
            // Flatter counts give shorter codes; after enough rounds all are equal.
            scaled.iter_mut().for_each(|count| *count = *count / 4 + 1);
        };
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|symbol| (lengths[*symbol], *symbol));
        let mut codes = vec![Code { value: 0, bits: 0 }; lengths.len()];
        let (mut next, mut bits_before) = (0u32, 0);
        for symbol in order {
            let bits = lengths[symbol];
            next <<= bits - bits_before;
            codes[symbol] = Code { value: u16::try_from(next).unwrap_or(u16::MAX), bits };
            next += 1;
            bits_before = bits;
        }
        let mut sorted: Vec<_> =
            codes.iter().enumerate().map(|(symbol, code)| (code.bits, code.value, symbol)).collect();
        sorted.sort_unstable();
        CodeBook { codes, sorted }
    }
    /// The code of a symbol.
    pub fn code(&self, symbol: usize) -> Option<Code> {
        self.codes.get(symbol).copied()
    }
    fn symbol(&self, code: Code) -> Option<usize> {
        let key = (code.bits, code.value);
        let found = self.sorted.binary_search_by_key(&key, |(bits, value, _)| (*bits, *value)).ok()?;
        Some(self.sorted[found].2)
    }
}

/// Huffman's algorithm; a single symbol has a code of one bit.
fn code_lengths(counts: &[u64]) -> Vec<u8> {
    let mut parents = vec![usize::MAX; counts.len()];
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        counts.iter().enumerate().map(|(symbol, count)| Reverse((*count, symbol))).collect();
    if heap.len() == 1 {
        return vec![1];
    }
    while let (Some(Reverse((first, a))), Some(Reverse((second, b)))) = (heap.pop(), heap.pop()) {
        let joined = parents.len();
        parents.push(usize::MAX);
        (parents[a], parents[b]) = (joined, joined);
        if heap.is_empty() {
            break;
        }
        heap.push(Reverse((first + second, joined)));
    }
    let depth = |symbol: usize| {
        let (mut at, mut depth) = (symbol, 0u8);
        while let Some(parent) = parents.get(at).copied().filter(|parent| *parent != usize::MAX) {
            at = parent;
            depth = depth.saturating_add(1);
        }
        depth
    };
    (0..counts.len()).map(depth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_named_often_is_short() {
        let book = CodeBook::new(&[1000, 100, 10, 1]);
        let bits: Vec<u8> = (0..4).filter_map(|symbol| book.code(symbol)).map(|code| code.bits).collect();
        assert_eq!(bits, [1, 2, 3, 3]);
        assert_eq!(CodeBook::new(&[5]).code(0), Some(Code { value: 0, bits: 1 }));
        assert_eq!(CodeBook::new(&[]).code(0), None);
    }

    #[test]
    fn a_tag_takes_no_more_bits_than_the_limit() {
        let book = CodeBook::new(&[1; 8]);
        let mut stack = BitStack::default();
        let pushed = (0..TAG_BITS_MAX).take_while(|_| stack.push(0, book.code(0).unwrap())).count();
        assert_eq!((pushed, stack.bits()), (TAG_BITS_MAX / 5, TAG_BITS_MAX / 5 * 5));
        let most = [&[0][..], &[0xff; TAG_BITS_MAX / 8]].concat();
        assert_eq!(BitTag::parse(&most).unwrap().to_stack().bits(), TAG_BITS_MAX);
        let beyond = [&most[..], &[0xff]].concat();
        assert_eq!(BitTag::parse(&beyond), Err(WireError::Length("PathTagBits", beyond.len())));
    }

    proptest! {
        #[test]
        fn codes_are_free_of_prefixes_and_short_enough(counts in proptest::collection::vec(0u64..u64::MAX, 1..300)) {
            let book = CodeBook::new(&counts);
            // Kraft: a complete code fills the space exactly, a single symbol half of it.
            let filled: u32 = book.codes.iter().map(|code| 1 << (CODE_BITS_MAX - code.bits)).sum();
            prop_assert_eq!(filled, if counts.len() == 1 { 1 << 14 } else { 1 << 15 });
            prop_assert!(book.codes.iter().all(|code| (1..=CODE_BITS_MAX).contains(&code.bits)));
        }
        #[test]
        fn any_path_comes_off_as_it_went_on(
            hops in proptest::collection::vec((0usize..20, 0u8..4), 0..30),
            counts in proptest::collection::vec(0u64..1000, 20),
        ) {
            let books: Vec<CodeBook> = (1..5).map(|n| CodeBook::new(&counts.iter().map(|c| c / n).collect::<Vec<_>>())).collect();
            let mut stack = BitStack::default();
            for (symbol, book) in &hops {
                prop_assert!(stack.push(*book, books[usize::from(*book)].code(*symbol).unwrap()));
                let value = stack.value();
                prop_assert_eq!(BitTag::parse(&value).unwrap().to_stack(), stack.clone());
            }
            for (symbol, book) in hops.iter().rev() {
                let popped = stack.pop(|number| { assert_eq!(number, *book); books.get(usize::from(number)) });
                prop_assert_eq!(popped, Some(*symbol));
            }
            prop_assert_eq!(stack, BitStack::default());
        }
        #[test]
        fn any_bytes_are_a_tag_or_not_and_pop_stops(value in proptest::collection::vec(any::<u8>(), 0..140)) {
            let book = CodeBook::new(&[5, 4, 3, 2, 1]);
            if let Ok(tag) = BitTag::parse(&value) {
                let mut stack = tag.to_stack();
                prop_assert_eq!(stack.value(), value);
                while stack.pop(|_| Some(&book)).is_some() {}
            }
        }
    }
}
