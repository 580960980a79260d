//! The number and sizes of segments, and the description of the object for the transfer.
use alloc::{boxed::Box, format, string::ToString, vec::Vec};

use tributary_content::Manifest;
use tributary_core::Time;

use super::{
    Foreign, Found, Known, Next, PATIENCE, REFUSED_MAX, Stage, final_of, final_segment, key_name,
    last_segment::EndSearch,
    unequal_segments::{GATHERED_BYTES_MAX, GATHERED_SEGMENTS_MAX, Gather},
};
use crate::{
    receiver::fetch,
    wire::{ContentType, Data, NameView, SignatureType, types},
};

/// How often the last segment may name a later one as the last: the object is still being published.
const LAST_MOVES_MAX: u32 = 8;
/// The packet size of an object assembled in memory.
const GATHERED_CUT: u16 = 8000;
/// Minimum bytes of a chunk; it has as many segments as that takes.
const CHUNK_BYTES_MIN: u32 = 256 << 10;

impl Foreign {
    /// The size of the object: known with one segment, otherwise the last segment decides.
    pub(super) fn measure(&mut self) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let last = if first.is_single { Some(0) } else { final_of(first) };
        match last {
            Some(0) => {
                let bytes = Data::decode(&first.packet).ok().and_then(|data| data.content).map_or(0, <[u8]>::len);
                self.describe(0, bytes)
            }
            Some(last) => Ok((Stage::Last { last }, None)),
            None => Ok((Stage::End { search: EndSearch::default() }, None)),
        }
    }
    /// Whether a segment is signed like the first one.
    pub(super) fn is_signed_like_first(&self, data: &Data<'_>) -> bool {
        self.first.as_ref().and_then(|first| first.key.as_ref()).is_some_and(|key| data.is_signed_by(key))
    }
    /// Takes a segment that may name the last one.
    pub(super) fn on_end(&mut self, data: &Data<'_>) -> Next {
        let is_like_first = self.is_signed_like_first(data);
        let Stage::End { search } = &mut self.stage else { return Err("it is known already".into()) };
        let number = search.next().unwrap_or_default();
        let mut search = core::mem::take(search);
        if data.content_type() == ContentType::Nack {
            search.on_missing();
        } else if !is_like_first {
            self.stage = Stage::End { search };
            return Err(format!("its segment {number} is not signed by the key of its first segment"));
        } else {
            match final_segment(data) {
                Some(last) if last == number => return self.on_last(last, data),
                Some(last) if last > number => return Ok((Stage::Last { last }, None)),
                Some(_) | None => search.on_segment(number),
            }
        }
        if search.next().is_none() {
            self.stage = Stage::End { search };
            self.give_up_end();
            return Ok((Stage::start(&self.object), None));
        }
        Ok((Stage::End { search }, None))
    }
    pub(super) fn on_last(&mut self, last: u64, data: &Data<'_>) -> Next {
        if !self.is_signed_like_first(data) {
            return Err("its last segment is not signed by the key of its first segment".into());
        }
        // Who publishes still has changed its mind since the first segment.
        if let Some(later) = final_segment(data).filter(|later| *later > last) {
            self.last_moves += 1;
            return match self.last_moves <= LAST_MOVES_MAX {
                true => Ok((Stage::Last { last: later }, None)),
                false => Err(format!("its FinalBlockId named segment {last} first and names segment {later} now")),
            };
        }
        self.describe(last, data.content.map_or(0, <[u8]>::len))
    }
    fn describe(&mut self, last: u64, tail: usize) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let Ok(data) = Data::decode(&first.packet) else { return Err("its first segment is damaged".into()) };
        let segment_bytes = data.content.map_or(0, <[u8]>::len);
        // An empty last segment adds nothing; the one before is as long as the first, or is found not to be.
        let (last, tail) = if tail == 0 && last > 0 { (last - 1, segment_bytes) } else { (last, tail) };
        if tail > segment_bytes || last > 0 && segment_bytes == 0 {
            return Self::gather(last);
        }
        let segments = last.checked_add(1).and_then(|segments| u32::try_from(segments).ok());
        let (Ok(bytes), Some(segments)) = (u16::try_from(segment_bytes), segments) else {
            return Err(format!("its segments have {segment_bytes} bytes, and the last is number {last}"));
        };
        let size = last * segment_bytes as u64 + tail as u64;
        self.settle(Cut { size, segments, bytes: bytes.max(1), tail: tail as u32 }, None)
    }
    /// Puts the segments together in memory, as they are of unequal sizes.
    fn gather(last: u64) -> Next {
        match Gather::new(last, PATIENCE) {
            Some(gather) => Ok((Stage::Gather { gather: Box::new(gather) }, None)),
            None => Err(format!(
                "its segments have unequal sizes, and of such ones {GATHERED_SEGMENTS_MAX} are put together at most; the \
                 last is number {last}"
            )),
        }
    }
    /// A segment of a known object has an unexpected size; true if all are assembled in memory from now on.
    pub(in crate::internals::receiver) fn on_uneven(&mut self) -> bool {
        let Stage::Known(known) = &self.stage else { return false };
        if known.gathered.is_some() {
            return false;
        }
        let last = u64::from(known.segments) - 1;
        self.is_confirmed = false;
        match Self::gather(last) {
            Ok((stage, _)) => self.enter(stage),
            Err(reason) => {
                self.obstacle = Some(reason);
                self.begin_anew();
            }
        }
        true
    }
    /// Takes a segment of unequal ones.
    pub(super) fn on_gathered(&mut self, now: Time, data: &Data<'_>) -> Found {
        let Stage::Gather { gather } = &self.stage else { return Found::Nothing };
        let number = data.name.last().filter(|last| last.kind == types::SEGMENT).and_then(|last| last.number());
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { return Found::Nothing };
        if data.name.parent().as_tlv() != self.versioned.as_tlv().as_ref() || !gather.wants(number) {
            return Found::Nothing;
        }
        let is_alike = self.first.as_ref().is_some_and(|first| first.kind == data.signature.kind);
        if !is_alike || !self.is_signed_like_first(data) {
            self.bad.insert(number);
            return self.refuse(format!("its segment {number} is not signed by the key of its first segment"));
        }
        if data.content_type() == ContentType::Nack {
            self.is_absent = true;
            return self.refuse(format!("its producer denies that its segment {number} exists"));
        }
        self.bad.remove(&number);
        (self.until, self.refused) = (None, 0);
        let Stage::Gather { gather } = &mut self.stage else { return Found::Nothing };
        if !gather.on_segment(now, number, data.content.unwrap_or(&[])) {
            let reason = format!(
                "its segments have unequal sizes, and together more than {GATHERED_BYTES_MAX} bytes: so many are put \
                 together in memory at most"
            );
            self.refused = REFUSED_MAX;
            return self.refuse(reason);
        }
        let missing = gather.missing();
        let Some(complete) = gather.take_complete() else {
            let is_more = missing > self.gathered_most;
            self.gathered_most = self.gathered_most.max(missing);
            return if is_more { Found::Progress } else { Found::Step };
        };
        let size = complete.len() as u64;
        let (segments, tail) = (size.div_ceil(GATHERED_CUT.into()).max(1), (size % u64::from(GATHERED_CUT)) as u32);
        let cut = Cut { size, segments: segments as u32, bytes: GATHERED_CUT, tail };
        match self.settle(cut, Some(complete)) {
            Ok((stage, advice)) => {
                self.enter(stage);
                advice.map_or(Found::Step, Found::Object)
            }
            Err(reason) => self.refuse(reason),
        }
    }
    /// Everything is known.
    fn settle(&mut self, cut: Cut, gathered: Option<Vec<u8>>) -> Next {
        let Some(first) = &self.first else { return Err("its first segment was forgotten".into()) };
        let Ok(data) = Data::decode(&first.packet) else { return Err("its first segment is damaged".into()) };
        let Cut { size, segments, bytes, tail } = cut;
        let versioned = self.versioned.clone();
        let version = NameView::from(&versioned).last().and_then(|part| part.number()).unwrap_or(0);
        let Some(chunk) = chunk_bytes(size, u32::from(bytes)) else {
            return Err(format!("{size} bytes in segments of {bytes} are more than can be numbered"));
        };
        let manifest = match Manifest::unsigned(self.object.clone(), version, size, chunk, first.publisher) {
            Ok(manifest) => manifest,
            Err(error) => return Err(error.to_string()),
        };
        let Some(key) = first.key.clone() else { return Err("no key is trusted".into()) };
        let advice = match first.kind {
            SignatureType::DigestSha256 => format!(
                "'{}' carries digests instead of signatures: it is undamaged, but its origin is unproven",
                self.object
            ),
            SignatureType::Hmac => {
                format!("'{}' carries no manifest; each of its segments is signed with the shared key", self.object)
            }
            _ => format!(
                "'{}' carries no manifest; each of its segments is signed by {}{}",
                self.object,
                key_name(&data).unwrap_or_default(),
                first.vouched
            ),
        };
        let producer = fetch::producer_of(&data);
        let (kind, is_single) = (first.kind, first.is_single);
        let segment_bytes = bytes;
        let known =
            Known { versioned, segments, segment_bytes, producer, manifest, gathered, tail, is_single, kind, key };
        Ok((Stage::Known(Box::new(known)), Some(advice)))
    }
}

/// How an object is cut.
struct Cut {
    size: u64,
    segments: u32,
    /// Bytes of every segment but the last.
    bytes: u16,
    /// Bytes of the last one.
    tail: u32,
}

/// Bytes of a chunk: complete segments, at least [`CHUNK_BYTES_MIN`], and not too many chunks. `None` if that is
/// impossible.
fn chunk_bytes(size: u64, segment_bytes: u32) -> Option<u32> {
    let segment_bytes = segment_bytes.max(1);
    let mut least = u64::from(CHUNK_BYTES_MIN).max(size.div_ceil(u64::from(Manifest::CHUNKS_MAX)));
    least = least.div_ceil(u64::from(segment_bytes)) * u64::from(segment_bytes);
    u32::try_from(least).ok().filter(|chunk| *chunk <= Manifest::CHUNK_SIZE_MAX)
}
