//! The head that the repository stores with the payload of a chunk.
use alloc::vec::Vec;

use tributary_core::Duration;

use crate::wire::ChunkHeader;

/// The first byte of a head: a flag for a copy, and one for heads with the end of their lifetime, which earlier
/// versions did not write.
pub(super) const HEAD_DELEGATED: u8 = 1;
const HEAD_ENDS: u8 = 2;

/// The head stored with a payload: flags, end in milliseconds of the repository's clock, the chunk's header.
pub(super) fn encode_head(delegated: bool, ends_at: Duration, header: &ChunkHeader) -> Vec<u8> {
    let mut head = Vec::with_capacity(header.len() + 9);
    head.push(HEAD_ENDS | if delegated { HEAD_DELEGATED } else { 0 });
    head.extend_from_slice(&u64::try_from(ends_at.as_millis()).unwrap_or(u64::MAX).to_be_bytes());
    header.encode(&mut head);
    head
}
/// Whether it is a delegated copy, the end of its lifetime if the head has one, and the header.
pub(super) fn decode_head(head: &[u8]) -> Option<(bool, Option<Duration>, ChunkHeader)> {
    let (flags, mut rest) = head.split_first()?;
    let mut ends_at = None;
    if flags & HEAD_ENDS != 0 {
        let (millis, header) = rest.split_first_chunk()?;
        (ends_at, rest) = (Some(Duration::from_millis(u64::from_be_bytes(*millis))), header);
    }
    Some((flags & HEAD_DELEGATED != 0, ends_at, ChunkHeader::decode(rest).ok()?.0))
}
