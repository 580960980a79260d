//! The forwarding decision: which faces an FID names, and whether it names this node.
use alloc::vec::Vec;

use tributary_core::FaceId;

use super::{
    Face, Router,
    labels::{BLOOM_BYTES_MIN, FILL_MAX, SALTS, filter_words},
    reason,
    view::FidView,
};
use crate::wire::{BitmapNumbers, FID_BYTES_MAX, Fid, FidKind};

impl Router {
    /// Decides where to send a packet with this FID that arrived on face number `arrived`, or that this node made
    /// itself: afterwards the faces are in `self.matches`.
    pub(super) fn decide(&mut self, fid: FidView<'_>, arrived: Option<usize>) -> Result<Ports, &'static str> {
        if self.memo.holds(&fid, arrived) {
            return Ok(self.memo.ports);
        }
        self.match_fid(fid)?;
        if let Some(index) = arrived {
            self.matches[index / 64] &= !(1 << (index % 64));
        }
        let is_local = self.take_local();
        let ports = self.ports_of_matches(is_local);
        if ports.copies == 0 && !is_local {
            return Err("fid matches nothing here");
        }
        if ports.copies > self.config.copies_max {
            return Err("fid matches too many faces");
        }
        self.memo.keep(&fid, arrived, ports);
        Ok(ports)
    }
    /// The face by which a packet with this FID leaves this node; `None` unless it is exactly one.
    pub fn face_of(&mut self, fid: &Fid) -> Option<FaceId> {
        self.match_fid(FidView::of(fid)).ok()?;
        let is_local = self.take_local();
        let ports = self.ports_of_matches(is_local);
        self.faces.get(ports.first).filter(|_| ports.copies == 1).map(|face| face.id)
    }
    /// Sets `self.matches` to the ports (faces that are up, and last the node itself) that the FID names.
    pub(super) fn match_fid(&mut self, fid: FidView<'_>) -> Result<(), &'static str> {
        self.memo.forget();
        self.matches.fill(0);
        match fid.kind {
            FidKind::Bloom => {
                let len = fid.bytes.len();
                if len < BLOOM_BYTES_MIN || fid.salt >= SALTS {
                    return Err(reason::SHAPE);
                }
                let filter = filter_words(fid.bytes);
                if is_overfull(&filter[..len.div_ceil(8)], len) {
                    return Err(reason::OVERFULL);
                }
                self.tables.match_bloom(&filter, len, fid.salt, &mut self.matches);
            }
            FidKind::List => self.tables.match_list(fid.bytes, fid.salt, &mut self.matches),
            FidKind::Bitmap => {
                let table = self.bitmaps.iter().find(|table| table.numbers.epoch == fid.salt);
                table.ok_or("fid of an unknown bitmap epoch")?.match_bits(fid.bytes, &mut self.matches);
            }
        }
        self.matches.iter_mut().zip(&self.up).for_each(|(matched, up)| *matched &= up);
        Ok(())
    }
    /// Removes this node from `self.matches`; returns whether it was there.
    pub(super) fn take_local(&mut self) -> bool {
        let local_index = self.faces.len();
        let local_bit = 1 << (local_index % 64);
        let is_local = self.matches[local_index / 64] & local_bit != 0;
        self.matches[local_index / 64] &= !local_bit;
        is_local
    }
    pub(super) fn ports_of_matches(&self, is_local: bool) -> Ports {
        let words = || self.matches.iter().enumerate().filter(|(_, word)| **word != 0);
        let first = words().next().map_or(0, |(index, word)| index * 64 + word.trailing_zeros() as usize);
        Ports { copies: words().map(|(_, word)| word.count_ones() as usize).sum(), first, is_local }
    }
}

/// The destinations of a packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Ports {
    /// How many faces it leaves by.
    pub(super) copies: usize,
    /// The index of the first of them.
    pub(super) first: usize,
    /// Whether it is for this node, too.
    pub(super) is_local: bool,
}

tributary_core::declared! {
    /// The last decision: packets come in batches of one path, which then needs no second decision. Its faces are those
    /// in [`Router::matches`].
    #[derive(Clone)]
    pub(super) struct Memo {
        kind: FidKind = FidKind::List,
        salt: u8 = 0,
        len: usize = 0,
        bytes: [u8; FID_BYTES_MAX] = [0; FID_BYTES_MAX],
        arrived: Option<usize> = None,
        ports: Ports = Ports::default(),
    }
}

impl Memo {
    /// Whether the decision is about `fid` that arrived by this face; an empty FID never is.
    fn holds(&self, fid: &FidView<'_>, arrived: Option<usize>) -> bool {
        self.len > 0
            && self.arrived == arrived
            && self.salt == fid.salt
            && self.kind == fid.kind
            && self.bytes[..self.len] == *fid.bytes
    }
    fn keep(&mut self, fid: &FidView<'_>, arrived: Option<usize>, ports: Ports) {
        self.len = fid.bytes.len();
        (self.kind, self.salt) = (fid.kind, fid.salt);
        self.bytes[..self.len].copy_from_slice(fid.bytes);
        (self.arrived, self.ports) = (arrived, ports);
    }
    pub(super) fn forget(&mut self) {
        self.len = 0;
    }
}

/// Whether more than the share [`FILL_MAX`] of a filter's bits is set.
pub(crate) fn is_overfull(words: &[u64], filter_bytes: usize) -> bool {
    let set: u32 = words.iter().map(|word| word.count_ones()).sum();
    f64::from(set) > FILL_MAX * (filter_bytes * 8) as f64
}

/// The bits of this node's ports in one numbering of the domain.
#[derive(Default)]
pub(super) struct BitmapTable {
    pub(super) numbers: BitmapNumbers,
    bits: Vec<Option<u16>>,
}

impl BitmapTable {
    pub(super) fn rebuild(&mut self, faces: &[Face]) {
        let bit = |face: &Face| self.numbers.faces.iter().find(|(id, _)| *id == face.id).map(|(_, bit)| *bit);
        self.bits = faces.iter().map(bit).chain([self.numbers.local]).collect();
    }
    fn match_bits(&self, bitmap: &[u8], matches: &mut [u64]) {
        for (i, bit) in self.bits.iter().enumerate() {
            let Some(bit) = bit.map(usize::from) else { continue };
            if bitmap.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0) {
                matches[i / 64] |= 1 << (i % 64);
            }
        }
    }
}
