//! Fingerprints of runs.
use std::fmt;

use tributary_core::{Datagram, FaceId, Time, event::Event};

/// The level of detail in a run's trace hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TraceDepth {
    /// Nothing.
    Off,
    /// Times, places and lengths of all deliveries, the first bytes of each packet (of its head, if it has one), and all
    /// events.
    #[default]
    Headers,
    /// As before, with all bytes of each packet, wherever its head ends.
    Full,
}

/// A running 64-bit hash of events. It detects differences; it does not resist an attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceHash {
    state: u64,
    depth: TraceDepth,
}

impl TraceHash {
    /// The hash of nothing.
    pub fn new(depth: TraceDepth) -> Self {
        TraceHash { state: 0x243f_6a88_85a3_08d3, depth }
    }
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.state
    }
    /// Folds in one packet that arrived at participant `place`.
    pub fn on_packet(&mut self, now: Time, place: u32, face: FaceId, datagram: &Datagram) {
        if self.depth == TraceDepth::Off {
            return;
        }
        self.pair(now.as_nanos(), u64::from(place) << 32 | u64::from(face.0));
        if self.depth == TraceDepth::Full {
            self.bytes(&datagram.to_vec());
            return;
        }
        // The bytes of a payload are left alone: they are in no cache, and waiting for them would dominate the cost.
        let header = datagram.header_bytes();
        match header.first_chunk() {
            Some(front) => self.block(front, datagram.len() as u64),
            None => {
                let mut front = [0; HEADER_BYTES];
                front[..header.len()].copy_from_slice(header);
                self.block(&front, datagram.len() as u64);
            }
        }
    }
    /// Folds in one event of participant `place`.
    pub fn on_event(&mut self, now: Time, place: u32, event: &Event) {
        if self.depth == TraceDepth::Off {
            return;
        }
        self.pair(now.as_nanos(), u64::from(place));
        // Writing into a hash cannot fail.
        let _ = fmt::write(self, format_args!("{event:?}"));
    }

    /// Folds in `front`, zeros behind a shorter packet's end, and the packet's length.
    fn block(&mut self, front: &[u8; HEADER_BYTES], len: u64) {
        let word = |index: usize| u64::from_le_bytes(front[index * 8..][..8].try_into().expect("a word has 8 bytes"));
        // Only the last product depends on the state before.
        let front =
            mix(word(0) ^ KEYS[0], word(1) ^ KEYS[1]) ^ mix(word(2) ^ KEYS[2], word(3) ^ KEYS[3]).rotate_left(29);
        self.pair(front, len);
    }
    fn pair(&mut self, a: u64, b: u64) {
        // Adding keeps a state of zero from swallowing later input.
        self.state = mix(self.state ^ a, KEYS[0] ^ b).wrapping_add(a.rotate_left(32) ^ b | 1);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.pair(u64::from_le_bytes(word), chunk.len() as u64);
        }
    }
}
impl fmt::Write for TraceHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// How many bytes of each packet [`TraceDepth::Headers`] looks at.
const HEADER_BYTES: usize = 32;
/// Odd numbers without a pattern: digits of the golden ratio and of π.
const KEYS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345, 0xa409_3822_299f_31d1];
