//! The labels with which this router names its faces in path tags: random numbers, so that a consumer can name only the
//! faces that it has learned. PTP §4 A uses the identifier of the face itself; a consumer could then aim at any.
use alloc::{collections::VecDeque, vec::Vec};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use tributary_core::FaceId;

use crate::wire::{
    PathTag,
    huffman::{BOOKS_KEPT, BitStack, BitTag, CodeBook},
    signature::digest,
};

/// How a router writes its labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LabelScheme {
    /// Four random bytes: the label of an unknown face cannot be guessed. The default: see `SPEC.md` for the
    /// measurement that decided.
    #[default]
    Random,
    /// Huffman codes by how often each face is named: short, but easy to guess.
    Huffman,
}

/// Bytes of a random label.
pub const LABEL_BYTES: usize = 4;
/// Labels written between two code books.
const BOOK_LABELS: u64 = 4096;

tributary_core::declared! {
    /// A router's labels.
    #[derive(Clone, Debug)]
    pub struct Labels {
        secret: [u8; 16] = secret,
        by_label: HashMap<[u8; LABEL_BYTES], FaceId, FxBuildHasher> = HashMap::with_hasher(FxBuildHasher),
        /// The label of each face and its symbol in the code books.
        by_face: HashMap<FaceId, ([u8; LABEL_BYTES], usize), FxBuildHasher> = HashMap::with_hasher(FxBuildHasher),
        /// Faces in order of arrival: the symbols of the code books, and those that are free.
        faces: Vec<Option<FaceId>> = Vec::new(),
        free: Vec<usize> = Vec::new(),
        counts: Vec<u64> = Vec::new(),
        books: VecDeque<(u8, CodeBook)> = VecDeque::new(),
        /// Whether faces were added since the last book: the next one is made when a label is written. A sender with
        /// ever new addresses causes no new books.
        is_book_old: bool = true,
        written: u64 = 0,
        /// How many code books were made.
        pub books_made: u64 = 0,
    }
    /// No labels yet. `secret` must be random.
    pub fn new(secret: [u8; 16]) {}
}

impl Labels {
    /// Assigns a face its label. A returning face has the same label again.
    pub fn add(&mut self, face: FaceId) {
        if self.by_face.contains_key(&face) {
            return;
        }
        let symbol = match self.free.pop() {
            Some(free) => {
                (self.faces[free], self.counts[free]) = (Some(face), 0);
                free
            }
            None => {
                self.faces.push(Some(face));
                self.counts.push(0);
                self.faces.len() - 1
            }
        };
        for attempt in 0u32.. {
            let hash = digest(&[&self.secret, &face.0.to_be_bytes(), &attempt.to_be_bytes()]);
            let label = *hash.first_chunk().expect("a digest has 32 bytes");
            if !self.by_label.contains_key(&label) {
                self.by_label.insert(label, face);
                self.by_face.insert(face, (label, symbol));
                break;
            }
        }
        self.is_book_old = true;
    }
    /// Forgets a face; tags that name it lead nowhere.
    pub fn remove(&mut self, face: FaceId) {
        if let Some((label, symbol)) = self.by_face.remove(&face) {
            self.by_label.remove(&label);
            self.faces[symbol] = None;
            self.free.push(symbol);
        }
    }
    /// The label of a face.
    pub fn label(&self, face: FaceId) -> Option<[u8; LABEL_BYTES]> {
        self.by_face.get(&face).map(|(label, _)| *label)
    }
    /// The tag with the label of `face` in front; `None` if it gets too long.
    pub fn push(&self, tag: PathTag<'_>, face: FaceId) -> Option<Vec<u8>> {
        tag.pushed(&self.by_face.get(&face)?.0)
    }
    /// The face that the first label names, and the rest of the tag; `None` if no label of this router is in front.
    pub fn pop<'a>(&self, tag: PathTag<'a>) -> Option<(FaceId, PathTag<'a>)> {
        let (label, rest) = tag.pop(LABEL_BYTES)?;
        let label: [u8; LABEL_BYTES] = label.try_into().ok()?;
        Some((*self.by_label.get(&label)?, rest))
    }
    /// As [`Labels::push`], for tags of bits.
    pub fn push_bits(&mut self, tag: Option<BitTag<'_>>, face: FaceId) -> Option<BitStack> {
        let symbol = self.by_face.get(&face)?.1;
        if self.is_book_old {
            self.new_book();
        }
        let mut stack = tag.map_or_else(BitStack::default, |tag| tag.to_stack());
        let (number, book) = self.books.back()?;
        let pushed = stack.push(*number, book.code(symbol)?);
        self.counts[symbol] += 1;
        self.written += 1;
        if self.written.is_multiple_of(BOOK_LABELS) {
            self.new_book();
        }
        pushed.then_some(stack)
    }
    /// As [`Labels::pop`], for tags of bits.
    pub fn pop_bits(&self, tag: BitTag<'_>) -> Option<(FaceId, BitStack)> {
        let mut stack = tag.to_stack();
        let book = |number| self.books.iter().find(|(kept, _)| *kept == number).map(|(_, book)| book);
        let symbol = stack.pop(book)?;
        Some(((*self.faces.get(symbol)?)?, stack))
    }
    fn new_book(&mut self) {
        self.is_book_old = false;
        self.books_made += 1;
        let number = self.books.back().map_or(0, |(number, _)| (number + 1) % BOOKS_KEPT as u8);
        self.books.push_back((number, CodeBook::new(&self.counts)));
        if self.books.len() > BOOKS_KEPT {
            self.books.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_their_own_face_only_and_differ_between_routers() {
        let (mut a, mut b) = (Labels::new([1; 16]), Labels::new([2; 16]));
        (0..100).for_each(|face| {
            a.add(FaceId(face));
            b.add(FaceId(face));
        });
        let tag = b.push(PathTag::EMPTY, FaceId(7)).unwrap();
        let tag = a.push(PathTag::parse(&tag).unwrap(), FaceId(3)).unwrap();
        let (face, rest) = a.pop(PathTag::parse(&tag).unwrap()).unwrap();
        assert_eq!((face, b.pop(rest).unwrap().0), (FaceId(3), FaceId(7)));
        assert!(b.pop(PathTag::parse(&tag).unwrap()).is_none(), "another router's label means nothing here");
        a.remove(FaceId(3));
        assert!(a.pop(PathTag::parse(&tag).unwrap()).is_none());
        a.add(FaceId(3));
        assert_eq!(a.pop(PathTag::parse(&tag).unwrap()).map(|(face, _)| face), Some(FaceId(3)));
    }

    #[test]
    fn faces_that_come_and_go_have_no_code_book_made() {
        let mut labels = Labels::new([1; 16]);
        for face in 0..20_000 {
            labels.add(FaceId(face));
            if face >= 100 {
                labels.remove(FaceId(face - 100));
            }
        }
        assert_eq!((labels.books.len(), labels.faces.len()), (0, 101));
        let written = labels.push_bits(None, FaceId(19_999)).unwrap().value();
        assert_eq!(labels.books.len(), 1);
        let popped = labels.pop_bits(BitTag::parse(&written).unwrap());
        assert_eq!(popped.map(|(face, _)| face), Some(FaceId(19_999)));
    }

    #[test]
    fn codes_outlive_some_changes_of_the_book() {
        let mut labels = Labels::new([1; 16]);
        (0..5).for_each(|face| labels.add(FaceId(face)));
        let early = labels.push_bits(None, FaceId(2)).unwrap().value();
        for _ in 0..2 * BOOK_LABELS {
            labels.push_bits(None, FaceId(4)).unwrap();
        }
        let late = labels.push_bits(None, FaceId(4)).unwrap();
        assert_eq!(late.bits(), 3, "two bits name the book, one the face that is named always");
        let popped = labels.pop_bits(BitTag::parse(&early).unwrap());
        assert_eq!(popped.map(|(face, rest)| (face, rest.bits())), Some((FaceId(2), 0)));
    }
}
