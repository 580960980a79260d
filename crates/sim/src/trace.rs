//! Fingerprints of runs.
use std::fmt;

use tributary_core::{Datagram, FaceId, Time, event::Event};

/// How much of a run goes into its trace hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TraceDepth {
    /// Nothing.
    Off,
    /// Times, places and lengths of all deliveries, the first bytes of each packet, and all events.
    #[default]
    Headers,
    /// As before, with all bytes of each packet.
    Full,
}

/// A running 64-bit hash of what happened. It detects differences and resists nobody.
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
        self.word(now.as_nanos());
        self.word(u64::from(place) << 32 | u64::from(face.0));
        self.word(datagram.len() as u64);
        let bytes_max = if self.depth == TraceDepth::Full { usize::MAX } else { HEADER_BYTES };
        let (head, body) = (datagram.head(), datagram.body());
        if head.len() >= bytes_max || head.is_empty() {
            let front = if head.is_empty() { body } else { head };
            self.bytes(&front[..front.len().min(bytes_max)]);
        } else {
            // The cut between head and body is not part of the packet, so words may straddle it.
            let front: Vec<u8> = head.iter().chain(body.iter()).take(bytes_max).copied().collect();
            self.bytes(&front);
        }
    }
    /// Folds in one event of participant `place`.
    pub fn on_event(&mut self, now: Time, place: u32, event: &Event) {
        if self.depth == TraceDepth::Off {
            return;
        }
        self.word(now.as_nanos());
        self.word(u64::from(place));
        // Writing into a hash cannot fail.
        let _ = fmt::write(self, format_args!("{event:?}"));
    }

    fn word(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * 0x9e37_79b9_7f4a_7c15;
        // Adding the word keeps a state of zero from swallowing what follows.
        self.state = ((product as u64) ^ ((product >> 64) as u64)).wrapping_add(word.rotate_left(32) | 1);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}
impl fmt::Write for TraceHash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// How many bytes of each packet [`TraceDepth::Headers`] looks at.
const HEADER_BYTES: usize = 32;
