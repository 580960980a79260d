//! A packet of an object.
use alloc::vec::Vec;

use tributary_content::ObjectId;

use super::{Reader, WireError};

/// The fields between the common header (whose FID is the forward FID) and the payload of a Data packet.
///
/// ```text
/// tag 4 | packet 4 | stream key 6 | origin 2 | payload
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// The tag of the request that it answers.
    pub tag: u32,
    /// Its number in the object; see [`super::Request`].
    pub packet: u32,
    /// The object and the packet size that it is cut into: the key under which caches keep it.
    pub stream: StreamKey,
    /// Low bits of the id of the node that sent it: a cache's if `FLAG_CACHED` is set, else the source's.
    pub origin: u16,
}

/// An object together with the size of its packets, in six bytes. A receiver verifies content by hashes,
/// so a collision costs a repeated request and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamKey(pub [u8; 6]);

impl StreamKey {
    /// The key of `object` in packets of `packet_bytes`.
    pub fn new(object: &ObjectId, packet_bytes: u16) -> StreamKey {
        let mut input = [0; 18];
        input[..16].copy_from_slice(&object.0);
        input[16..].copy_from_slice(&packet_bytes.to_be_bytes());
        let hash = blake3::hash(&input);
        StreamKey(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

impl DataHeader {
    /// Its length.
    pub const BYTES: usize = 16;

    /// Reads it at the start of `bytes`; the payload follows at [`DataHeader::BYTES`].
    ///
    /// # Errors
    /// [`WireError::Short`] if it is cut.
    pub fn decode(bytes: &[u8]) -> Result<DataHeader, WireError> {
        let mut reader = Reader::new(bytes);
        Ok(DataHeader {
            tag: reader.u32("tag")?,
            packet: reader.u32("packet")?,
            stream: StreamKey(reader.array("stream key")?),
            origin: reader.u16("origin")?,
        })
    }
    /// It as it is sent.
    pub fn to_bytes(&self) -> [u8; DataHeader::BYTES] {
        let mut bytes = [0; DataHeader::BYTES];
        bytes[..4].copy_from_slice(&self.tag.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.packet.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.stream.0);
        bytes[14..].copy_from_slice(&self.origin.to_be_bytes());
        bytes
    }
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
}
