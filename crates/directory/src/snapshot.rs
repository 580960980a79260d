//! A range of a store that changes while a resolver reads it page by page.
use alloc::vec::Vec;

/// The state of a resolver's copy of a range. `C` is a change of the range.
///
/// The snapshot buffers changes during a reading until [`Snapshot::finish`], because pages may show an older or a newer
/// revision. When the buffer overflows, the range has to be read again.
#[derive(Debug)]
pub struct Snapshot<C>(State<C>);

#[derive(Debug)]
enum State<C> {
    Unread,
    /// By the request with this number.
    Reading {
        id: u64,
        changes: Vec<(u64, C)>,
        is_spoilt: bool,
    },
    /// As of this revision.
    Read(u64),
}

impl<C> Default for Snapshot<C> {
    fn default() -> Self {
        Snapshot(State::Unread)
    }
}

impl<C> Snapshot<C> {
    /// Starts a reading by this request.
    pub fn begin(&mut self, id: u64) {
        self.0 = State::Reading { id, changes: Vec::new(), is_spoilt: false };
    }
    /// Ends the reading, or forgets the copy.
    pub fn give_up(&mut self) {
        self.0 = State::Unread;
    }
    /// Whether the range must be read.
    pub fn is_unread(&self) -> bool {
        matches!(self.0, State::Unread)
    }
    /// Whether the copy is complete.
    pub fn is_read(&self) -> bool {
        matches!(self.0, State::Read(_))
    }
    /// Whether a reading is in progress.
    pub fn is_reading(&self) -> bool {
        matches!(self.0, State::Reading { .. })
    }
    /// Whether a reading by this request is in progress.
    pub fn expects(&self, request: u64) -> bool {
        matches!(self.0, State::Reading { id, .. } if id == request)
    }
    /// Returns the change if the caller must apply it now. A reading buffers up to `buffered_max` changes.
    pub fn on_change(&mut self, revision: u64, change: C, buffered_max: usize) -> Option<C> {
        match &mut self.0 {
            State::Read(known) => (revision > *known).then_some(change),
            State::Reading { changes, is_spoilt, .. } => {
                match changes.len() < buffered_max {
                    true => changes.push((revision, change)),
                    false => *is_spoilt = true,
                }
                None
            }
            State::Unread => None,
        }
    }
    /// All pages of the reading, which show this revision, have arrived. Returns the buffered changes in order, for
    /// [`Snapshot::on_change`]; `None` if the range has to be read again.
    pub fn finish(&mut self, revision: u64) -> Option<Vec<(u64, C)>> {
        match core::mem::replace(&mut self.0, State::Unread) {
            State::Reading { changes, is_spoilt: false, .. } => {
                self.0 = State::Read(revision);
                Some(changes)
            }
            _ => None,
        }
    }
}
