//! The fast-path request (paper §III-B2): object, packets, and the route of the answer.
use alloc::vec::Vec;

use tributary_content::ObjectId;

use super::{Fid, Fields, Reader, WireError, Writer};

/// Maximum packets named by one request, over all its ranges. This also limits amplification: a request is answered
/// with at most this many packets.
pub const REQUEST_PACKETS_MAX: usize = 64;
/// Maximum ranges of a request.
pub const REQUEST_RANGES_MAX: usize = 16;

/// A fast-path request, behind the common header whose FID is the reverse FID.
///
/// ```text
/// tag 4 | object id 16 | packet size 2 | capability 8 | forward FID (kind and length 1, salt 1, bytes)
/// | number of ranges 1 | ranges: first packet 4, count 1
/// ```
/// A range of 1 in each request is the paper's form. Packets are numbered chunk by chunk: chunk `c` of an object
/// whose chunks have `p` packets each starts at packet `c · p`, and packets of the hash list are numbered from
/// [`tributary_transport::TREE_PACKET_FIRST`] on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Chosen by the receiver, returned in every answer.
    pub tag: u32,
    /// Which object.
    pub object: ObjectId,
    /// Payload bytes of a packet (the last one of a chunk may be shorter); never zero.
    pub packet_bytes: u16,
    /// Proof that the topology manager handed out this pair of FIDs.
    pub capability: [u8; 8],
    /// The route of the answer.
    pub forward: Fid,
    /// Ranges of consecutive packets: first packet and count (1 to 64).
    pub ranges: Vec<(u32, u8)>,
}

impl Request {
    /// Reads the request in `bytes`, which follow the common header.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Request, WireError> {
        let mut reader = Reader::new(bytes);
        let tag = reader.u32("tag")?;
        let object = ObjectId(reader.array("object id")?);
        let packet_bytes = reader.u16("packet size")?;
        if packet_bytes == 0 {
            return Err(WireError::Value { field: "packet size", found: 0 });
        }
        let capability = reader.array("capability")?;
        let forward = reader.fid("forward FID")?;
        let count = reader.u8("number of ranges")?;
        if count == 0 || usize::from(count) > REQUEST_RANGES_MAX {
            return Err(WireError::Value { field: "number of ranges", found: u64::from(count) });
        }
        let mut ranges = Vec::with_capacity(usize::from(count));
        let mut packets = 0;
        for _ in 0..count {
            let first = reader.u32("first packet")?;
            let count = reader.u8("packet count")?;
            packets += usize::from(count);
            if count == 0 || packets > REQUEST_PACKETS_MAX || first.checked_add(u32::from(count)).is_none() {
                return Err(WireError::Value { field: "packet count", found: u64::from(count) });
            }
            ranges.push((first, count));
        }
        reader.end()?;
        Ok(Request { tag, object, packet_bytes, capability, forward, ranges })
    }
    /// Appends the request to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.tag);
        out.extend_from_slice(&self.object.0);
        out.put_u16(self.packet_bytes);
        out.extend_from_slice(&self.capability);
        self.forward.encode(out);
        out.put_count8(self.ranges.len());
        for (first, count) in &self.ranges {
            out.put_u32(*first);
            out.put_u8(*count);
        }
    }
}
