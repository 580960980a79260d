//! What a sender may send: the window that this end advertises, within the rate limits.
use tributary_core::{Duration, Rate, Time};
use tributary_transport::{fetches::LIMIT_BURST, limit::TokenBucket};

/// Target duration of a chunk under a rate limit, and of a window; two windows may be in flight. A window that is too
/// short for the round trip grows up to the maximum.
pub(super) const LIMITED_CHUNK: Duration = Duration::from_millis(50);
const LIMITED_WINDOW: Duration = Duration::from_millis(100);
const LIMITED_WINDOW_MAX: Duration = Duration::from_millis(400);
/// Maximum windows of an object under a limit: its source remembers where each starts.
const LIMITED_WINDOWS: u64 = 50_000;

/// The credit of the sender of one transfer.
#[derive(Default)]
pub(super) struct Credit {
    pub(super) limit: TokenBucket,
    /// Missing bytes that no sender has credit for.
    pub(super) ungranted: u64,
    /// The last acknowledged window: the sender may start two more, and a new one starts with a new window.
    pub(super) granted: Option<u32>,
    /// The chunk size that was requested.
    chunk_bytes: u32,
    /// Chunks of a window.
    pub(super) window_chunks: u16,
    /// Since when a request waits for the limit.
    pub(super) request_since: Option<Time>,
    /// Whether the sender has been stopped.
    pub(super) is_stopped: bool,
}

/// How full the receive buffer is, as one transfer sees it.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    /// Bytes that the transfer may buffer.
    pub(super) buffer: u64,
    /// Bytes that it has buffered.
    pub(super) buffered: u64,
    /// Bytes of its chunks.
    pub(super) chunk_bytes: u32,
    /// Configured maximum of chunks in a window.
    pub(super) window_chunks_max: u16,
}

impl Fill {
    pub(super) fn percent(self) -> u64 {
        self.buffered * 100 / self.buffer.max(1)
    }
    /// Chunks that fit.
    pub(super) fn room(self) -> u64 {
        self.buffer.saturating_sub(self.buffered) / u64::from(self.chunk_bytes.max(1))
    }
    /// Two windows may be in flight while two more are buffered.
    fn window_max(self) -> u16 {
        let quarter = self.buffer / u64::from(self.chunk_bytes.max(1)) / 4;
        u16::try_from(quarter.max(1)).unwrap_or(u16::MAX).min(self.window_chunks_max)
    }
}

impl Credit {
    pub(super) fn new(window_chunks: u16, limit: Option<Rate>) -> Credit {
        Credit { limit: TokenBucket::new(limit, LIMIT_BURST), window_chunks, ..Credit::default() }
    }
    /// A mirror delivered `bytes` bytes, which are deducted from the senders' credit.
    pub(super) fn on_mirror(&mut self, now: Time, shared: &mut TokenBucket, bytes: u64) {
        self.ungranted = self.ungranted.saturating_sub(bytes);
        self.limit.on_pass(now, bytes);
        shared.on_pass(now, bytes);
    }
    /// When the limits admit more; `shared` is the limit over all transfers.
    pub(super) fn ready_at(&self, shared: &TokenBucket) -> Time {
        self.limit.ready_at().max(shared.ready_at())
    }
    /// The narrower of the limits.
    pub(super) fn rate(&self, shared: &TokenBucket) -> Option<Rate> {
        self.limit.rate().into_iter().chain(shared.rate()).min()
    }
    /// Whether acknowledging this window allows the sender to send more.
    pub(super) fn grants(&self, window: u32) -> bool {
        self.ungranted > 0 && self.granted.is_none_or(|granted| granted < window)
    }
    /// Makes the first windows of a request fit the limits and the buffer.
    pub(super) fn fit(&mut self, shared: &TokenBucket, chunk_bytes: u32, size: u64, buffer: u64) {
        if let Some(rate) = self.rate(shared) {
            self.window_chunks = self.window_chunks.min(limited_window(rate, LIMITED_WINDOW, chunk_bytes, size));
        }
        let room = u16::try_from(buffer / u64::from(chunk_bytes.max(1))).unwrap_or(u16::MAX).max(1);
        self.window_chunks = self.window_chunks.min(room);
    }
    /// A request for `missing` bytes was sent when `window` was the latest one: it grants the first two windows.
    pub(super) fn on_request(
        &mut self,
        now: Time,
        shared: &mut TokenBucket,
        missing: u64,
        window: Option<u32>,
        chunk_bytes: u32,
    ) {
        (self.ungranted, self.granted, self.chunk_bytes) = (missing, window, chunk_bytes);
        self.grant(now, shared, 2 * u64::from(self.window_chunks), chunk_bytes);
    }
    /// A cache answers with chunks of its own size, which may be larger.
    pub(super) fn on_cut(&mut self, now: Time, shared: &mut TokenBucket, chunk_bytes: u32) {
        if chunk_bytes > self.chunk_bytes {
            self.grant(now, shared, 2 * u64::from(self.window_chunks), chunk_bytes - self.chunk_bytes);
        }
    }
    /// Chunks of the next window; 0 stops the sender. `ready` is the time since which the limits have admitted more.
    ///
    /// Window notice (reference/mobilityfirst): below 50 % of the buffer increase, from 50 to 80 % decrease, above
    /// stop.
    pub(super) fn advised_window(&self, now: Time, shared: &TokenBucket, ready: Time, size: u64, fill: Fill) -> u16 {
        let (own, most) = (self.window_chunks, fill.window_max());
        match (fill.percent(), self.rate(shared)) {
            (0..50, Some(rate)) => {
                let chunks = |time| limited_window(rate, time, fill.chunk_bytes, size).min(most);
                // The window could have opened earlier: it is too short for the round trip.
                let is_late = now.since(ready) > LIMIT_BURST;
                let wanted = if is_late { own.saturating_mul(2) } else { own };
                wanted.clamp(chunks(LIMITED_WINDOW), chunks(LIMITED_WINDOW_MAX))
            }
            (0..50, None) => own.saturating_mul(2).min(most),
            // The previous window may still arrive, and must fit in addition to this one.
            (50..=80, _) => {
                let left = fill.room().saturating_sub(u64::from(own));
                (own / 2).max(1).min(u16::try_from(left).unwrap_or(u16::MAX))
            }
            _ => 0,
        }
    }
    /// `window` is acknowledged, and the following ones may have this many chunks.
    pub(super) fn on_advice(
        &mut self,
        now: Time,
        shared: &mut TokenBucket,
        window: u32,
        window_chunks: u16,
        chunk_bytes: u32,
    ) {
        self.window_chunks = window_chunks;
        let granted_until = self.granted.map_or(0, |granted| u64::from(granted) + 1);
        let windows = (u64::from(window) + 1).saturating_sub(granted_until);
        self.grant(now, shared, windows * u64::from(window_chunks), chunk_bytes);
        self.granted = self.granted.max(Some(window));
    }
    fn grant(&mut self, now: Time, shared: &mut TokenBucket, chunks: u64, chunk_bytes: u32) {
        let bytes = chunks.saturating_mul(u64::from(chunk_bytes)).min(self.ungranted);
        self.ungranted -= bytes;
        self.pass(now, shared, bytes);
    }
    /// Counts bytes that arrive outside the windows against the limits.
    pub(super) fn pass(&mut self, now: Time, shared: &mut TokenBucket, bytes: u64) {
        self.limit.on_pass(now, bytes);
        shared.on_pass(now, bytes);
    }
}

/// Chunks of a window with this duration under a limit.
fn limited_window(rate: Rate, time: Duration, chunk_bytes: u32, size: u64) -> u16 {
    let bytes = rate.bytes_in(time).max(size / LIMITED_WINDOWS);
    u16::try_from((bytes / u64::from(chunk_bytes.max(1))).max(1)).unwrap_or(u16::MAX)
}
