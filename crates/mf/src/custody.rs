//! Answers to custodians about their chunks (RFC 5050 §5.10), collected for a moment, so that one message covers many
//! chunks.
use alloc::collections::{BTreeMap, BTreeSet};

use tributary_content::ObjectId;
use tributary_core::{Duration, Time};

use crate::{
    ids::{ChunkKey, Custodian, Flow, Token},
    wire::{ChunkHeader, ChunkRanges, CustodyState, TransportBody, TransportMessage},
};

/// How long answers to a custodian are collected.
const DELAY: Duration = Duration::from_millis(20);
/// Number of chunks that triggers a report at once, and maximum transfers with collected answers.
const CHUNKS_MAX: usize = 1_024;
const TRANSFERS_MAX: usize = 4_096;

/// The answer to a custodian about one chunk, or about a complete transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Whom.
    pub(crate) custodian: Custodian,
    /// The token of the transfer.
    pub(crate) token: Token,
    pub(crate) key: ChunkKey,
    /// Its state.
    pub(crate) state: CustodyState,
}

impl Answer {
    /// The answer to the custodian of a chunk, if it has one.
    pub(crate) fn to(header: &ChunkHeader, state: CustodyState) -> Option<Answer> {
        let (key, token) = header.key().zip(header.token())?;
        Some(Answer { custodian: header.custodian?, token, key, state })
    }
}

/// The receiver of an answer, its token, its transfer and its state. A later state of a chunk sorts behind an earlier
/// one.
type AnswerKey = (Custodian, u64, Flow, u32, ObjectId, u8);

/// Gathers answers.
#[derive(Default)]
pub(crate) struct Answers {
    answers: BTreeMap<AnswerKey, (CustodyState, BTreeSet<u32>)>,
    due: Option<Time>,
    /// Messages sent.
    pub(crate) messages: u64,
}

impl Answers {
    /// Says something soon.
    pub(crate) fn add(&mut self, now: Time, answer: Answer) {
        let Answer { custodian, token, key, state } = answer;
        let of = |state: CustodyState| (custodian, token.0, key.flow, key.transfer, key.object, state as u8);
        if state == CustodyState::Taken {
            // It may have been refused a moment ago.
            for earlier in [CustodyState::Refused, CustodyState::Lost] {
                if let Some((_, chunks)) = self.answers.get_mut(&of(earlier)) {
                    chunks.remove(&key.number);
                }
            }
        }
        let (_, chunks) = self.answers.entry(of(state)).or_insert_with(|| (state, BTreeSet::new()));
        chunks.insert(key.number);
        // The manifest is an object's last chunk: no more will follow.
        let is_last = key.number == 0;
        let is_much = is_last || chunks.len() >= CHUNKS_MAX || self.answers.len() >= TRANSFERS_MAX;
        let due = if is_much { now } else { now + DELAY };
        self.due = Some(self.due.map_or(due, |at| at.min(due)));
    }
    /// The next message to send now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(Custodian, Token, TransportMessage)> {
        self.due.filter(|due| *due <= now)?;
        while let Some(((custodian, token, flow, transfer, object, kind), (state, numbers))) = self.answers.pop_first()
        {
            if numbers.is_empty() {
                continue;
            }
            let is_complete_now = matches!(state, CustodyState::Over | CustodyState::Ready);
            let chunks = ChunkRanges::from_ascending(if is_complete_now { BTreeSet::new() } else { numbers.clone() });
            let reported = chunks.iter().last();
            let rest: BTreeSet<u32> =
                numbers.into_iter().filter(|number| !is_complete_now && Some(*number) > reported).collect();
            if !rest.is_empty() {
                self.answers.insert((custodian, token, flow, transfer, object, kind), (state, rest));
            }
            self.messages += 1;
            let message = TransportBody::Custody { flow, state, chunks }.about(transfer, object);
            return Some((custodian, Token(token), message));
        }
        self.due = None;
        None
    }
    /// When the next message is due.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }
}
