//! The header of cross traffic.
use tributary_core::{Datagram, Time};

/// The header of every packet of cross traffic.
/// ```text
///   0      1               9                              17       18         21
///   ┌──────┬───────────────┬──────────────────────────────┬────────┬──────────┬──────────
///   │ kind │ number        │ when sent, nanoseconds       │ marked │ reserved │ padding …
///   └──────┴───────────────┴──────────────────────────────┴────────┴──────────┴──────────
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A packet without an answer.
    Plain {
        /// Its number.
        number: u64,
        /// When it was sent.
        sent: Time,
    },
    /// The sink answers it.
    Data {
        /// Its number.
        number: u64,
        /// When it was sent.
        sent: Time,
    },
    /// The answer.
    Ack {
        /// The number of the packet that it answers.
        number: u64,
        /// When that was sent.
        sent: Time,
        /// Whether it arrived marked.
        marked: bool,
    },
}

impl Packet {
    /// Bytes of the header, and of the shortest packet.
    pub const BYTES: usize = 21;

    /// The header's bytes.
    pub fn encode(self) -> [u8; Packet::BYTES] {
        let (kind, number, sent, marked) = match self {
            Packet::Plain { number, sent } => (KIND_PLAIN, number, sent, false),
            Packet::Data { number, sent } => (KIND_DATA, number, sent, false),
            Packet::Ack { number, sent, marked } => (KIND_ACK, number, sent, marked),
        };
        let mut bytes = [0; Packet::BYTES];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&number.to_be_bytes());
        bytes[9..17].copy_from_slice(&sent.as_nanos().to_be_bytes());
        bytes[17] = u8::from(marked);
        bytes
    }
    /// Reads a packet; `None` if it does not belong to cross traffic.
    pub fn decode(datagram: &Datagram) -> Option<Packet> {
        let bytes = datagram.header_bytes().get(..Packet::BYTES)?;
        let word = |at: usize| bytes[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (number, sent) = (word(1), Time::from_nanos(word(9)));
        match (bytes[0], bytes[17]) {
            (KIND_PLAIN, 0) => Some(Packet::Plain { number, sent }),
            (KIND_DATA, 0) => Some(Packet::Data { number, sent }),
            (KIND_ACK, marked @ (0 | 1)) => Some(Packet::Ack { number, sent, marked: marked == 1 }),
            _ => None,
        }
    }
}

// Numbers with which no family's packets start, so that a stray packet is refused everywhere.
const KIND_PLAIN: u8 = 0xf0;
const KIND_DATA: u8 = 0xf1;
const KIND_ACK: u8 = 0xf2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let (number, sent) = (u64::MAX - 1, Time::from_nanos(0x0102_0304_0506_0708));
        for packet in [
            Packet::Plain { number, sent },
            Packet::Data { number, sent },
            Packet::Ack { number, sent, marked: false },
            Packet::Ack { number, sent, marked: true },
        ] {
            assert_eq!(Packet::decode(&Datagram::from(&packet.encode()[..])), Some(packet));
            assert_eq!(Packet::decode(&Datagram::from(&packet.encode()[..20])), None);
        }
        assert_eq!(Packet::decode(&Datagram::from(&[0; 21][..])), None);
    }
}
