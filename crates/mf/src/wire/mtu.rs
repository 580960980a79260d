//! Probes whether datagrams of a size arrive (RFC 8899), and answers, on one link.
use alloc::vec::Vec;

use tributary_transport::MtuProbe;

use super::{PacketType, Reader, WireError, Writer};

/// `type 1 | 0: a probe, 1: its answer 1 | number 4`; zeros fill a probe up to the probed size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MtuMessage {
    /// A probe that tests datagrams of its own length.
    Probe(MtuProbe),
    /// The probe with this number has arrived.
    Answer(u32),
}

impl MtuMessage {
    /// Bytes of an answer, and minimum of a probe.
    pub const BYTES: usize = 6;

    /// Reads a whole packet.
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<MtuMessage, WireError> {
        let mut reader = Reader::new(bytes);
        PacketType::Mtu.expect(&mut reader)?;
        let is_answer = reader.choice("probe or answer", |byte| (byte < 2).then_some(byte == 1))?;
        let number = reader.u32("number")?;
        if is_answer {
            reader.end()?;
            return Ok(MtuMessage::Answer(number));
        }
        match reader.rest().iter().find(|byte| **byte != 0) {
            Some(found) => Err(WireError::Value { field: "padding", found: u64::from(*found) }),
            None => {
                let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                Ok(MtuMessage::Probe(MtuProbe { number, size }))
            }
        }
    }
    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number, size) = match self {
            MtuMessage::Probe(probe) => (0, probe.number, probe.size as usize),
            MtuMessage::Answer(number) => (1, *number, MtuMessage::BYTES),
        };
        let end = out.len() + size.max(MtuMessage::BYTES);
        out.put(&[PacketType::Mtu.first_byte(), kind]);
        out.put_u32(number);
        out.resize(end, 0);
    }
}
