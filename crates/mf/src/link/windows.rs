//! A neighbour's advertised windows (paper §3.4.1): W_ad of the link, and one per destination, so that chunks of a slow
//! destination do not block others (§3.4.3).
//!
//! The CACKs of its chunks carry a destination's window. Until the first one has arrived, half of the link's window may
//! be used for it, and one chunk in any case.
use alloc::collections::{BTreeMap, VecDeque};
use core::mem;

use tributary_core::{Duration, Time};

use crate::{
    ids::{Guid, HopId},
    wire::Cack,
};

/// Maximum destinations whose windows are remembered.
const DESTINATIONS_MAX: usize = 1_024;
/// Chunks whose destinations are remembered, at most.
const HOPS_MAX: usize = 4_096;
/// The least time between two questions for a destination's window that does not open; doubles up to 16 times.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Each new measurement changes the mean departure time of a packet by this part of the difference.
const PACE_PARTS: u64 = 4;
/// A neighbour that forwards nothing for a while counts as at most this many times slower.
const STALLED_MAX: u64 = 8;

/// The queue at a neighbour for a destination and its drain rate, derived from the neighbour's windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Packets that were sent from here and have not left the neighbour.
    pub packets: u32,
    /// Nanoseconds per departing packet while others wait behind it; `None` if no queue was seen.
    pub pace: Option<u64>,
}

/// What a neighbour passes on for a destination.
#[derive(Default)]
struct Drain {
    /// The widest advertised window since chunks of this size exist, for which space is kept free: the window of a
    /// neighbour with an empty queue.
    widest: u32,
    largest: u32,
    /// Packets started, and how many of them have left the neighbour.
    begun: u64,
    left: u64,
    /// When packets last left while others stayed; `None` if none stayed.
    busy_since: Option<Time>,
    /// The last time it took for packets to leave, in nanoseconds for each, smoothed.
    pace: Option<u64>,
}

impl Drain {
    fn on_begin(&mut self, packets: u32) {
        self.begun += u64::from(packets);
        if packets > self.largest {
            (self.largest, self.widest) = (packets, 0);
        }
    }
    /// The neighbour advertises space for this many packets, after everything that was started here.
    fn on_room(&mut self, now: Time, room: u32) {
        self.widest = self.widest.max(room);
        let waiting = u64::from(self.widest - room);
        let left = self.begun.saturating_sub(waiting);
        if left <= self.left {
            return;
        }
        let packets = left - mem::replace(&mut self.left, left);
        if let Some(since) = self.busy_since {
            let sample = nanos(now.since(since)) / packets;
            self.pace = Some(match self.pace {
                Some(pace) => pace - pace / PACE_PARTS + sample / PACE_PARTS,
                None => sample,
            });
        }
        self.busy_since = (waiting > 0).then_some(now);
    }
    fn backlog(&self, now: Time) -> Backlog {
        let packets = u32::try_from(self.begun.saturating_sub(self.left)).unwrap_or(u32::MAX);
        // Nothing has left for longer than the whole queue should take, so it takes at least that long. The estimate
        // stops there, because a neighbour whose window shrank looks the same.
        let stalled = self.busy_since.map_or(0, |since| nanos(now.since(since)) / u64::from(packets.max(1)));
        let pace = self.pace.map(|pace| pace.max(stalled.min(pace.saturating_mul(STALLED_MAX))));
        Backlog { packets, pace }
    }
}

/// Whether a chunk may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Now.
    Open,
    /// Its destination's window is closed; chunks for another destination may go.
    DestinationFull,
    /// No chunk may go.
    LinkFull,
}

/// An advertised window and the chunks started since.
#[derive(Default)]
struct Window {
    packets: Option<u32>,
    /// The CSYN whose answer advertised it.
    as_of: u32,
    /// Started chunks: the chunk, the CSYN number that came next, and its packets. Hundreds may be in flight, and each
    /// departing packet needs the sum.
    begun: VecDeque<(HopId, u32, u32)>,
    begun_packets: u32,
}

impl Window {
    fn on_window(&mut self, number: u32, packets: u32) {
        if number == 0 || number >= self.as_of {
            self.packets = Some(packets);
            self.as_of = self.as_of.max(number);
        }
        let as_of = self.as_of;
        self.keep(|_, next| next > as_of);
    }
    fn begin(&mut self, hop: HopId, next_csyn: u32, packets: u32) {
        self.begun.push_back((hop, next_csyn, packets));
        self.begun_packets += packets;
    }
    fn end(&mut self, hop: HopId) {
        self.keep(|known, _| known != hop);
    }
    fn keep(&mut self, is_kept: impl Fn(HopId, u32) -> bool) {
        let mut gone = 0;
        self.begun.retain(|(hop, next, packets)| {
            let is_kept = is_kept(*hop, *next);
            gone += if is_kept { 0 } else { *packets };
            is_kept
        });
        self.begun_packets -= gone;
    }
    fn clear(&mut self) {
        self.begun.clear();
        self.begun_packets = 0;
    }
}

#[derive(Default)]
struct Destination {
    window: Window,
    drain: Drain,
    /// Its last chunk on this hop.
    hop: HopId,
    used_at: Time,
    probe_at: Time,
    probes: u32,
    /// Whether its window was requested since its last chunk started or its window was advertised.
    is_requested: bool,
}

/// The windows of one neighbour.
#[derive(Default)]
pub(crate) struct Windows {
    link: Window,
    destinations: BTreeMap<Guid, Destination>,
    hops: BTreeMap<HopId, Guid>,
    hops_order: VecDeque<HopId>,
}

impl Windows {
    /// The link's window before the first CACK.
    pub(super) fn set_first(&mut self, packets: u32) {
        if self.link.as_of == 0 {
            self.link.packets = Some(packets);
        }
    }
    pub(super) fn on_cack(&mut self, now: Time, cack: &Cack) {
        self.link.on_window(cack.number, cack.window);
        let destination = self.hops.get(&cack.hop).and_then(|guid| self.destinations.get_mut(guid));
        let Some(destination) = destination else { return };
        if cack.destination_window != Cack::UNKNOWN {
            destination.window.on_window(cack.number, cack.destination_window);
            let room = cack.destination_window.saturating_sub(destination.window.begun_packets);
            destination.drain.on_room(now, room);
            destination.is_requested = false;
        } else if destination.is_requested && cack.number > destination.window.as_of && !cack.has(0) {
            // Without its first packet the neighbour does not know the chunk's destination, and advertises no window.
            destination.window.packets = None;
        }
    }
    /// A chunk starts; `next_csyn` is the number of the next CSYN.
    pub(super) fn begin(&mut self, now: Time, hop: HopId, guid: Guid, next_csyn: u32, packets: u32) {
        self.link.begin(hop, next_csyn, packets);
        if !self.destinations.contains_key(&guid) && self.destinations.len() >= DESTINATIONS_MAX {
            let idle = self.destinations.iter().filter(|(_, known)| known.window.begun.is_empty());
            let oldest = idle.min_by_key(|(_, known)| known.used_at).map(|(guid, _)| *guid);
            oldest.map(|guid| self.destinations.remove(&guid));
        }
        let destination = self.destinations.entry(guid).or_default();
        destination.window.begin(hop, next_csyn, packets);
        destination.drain.on_begin(packets);
        (destination.hop, destination.used_at) = (hop, now);
        (destination.probe_at, destination.probes, destination.is_requested) = (Time::MAX, 0, false);
        if self.hops.insert(hop, guid).is_none() {
            self.hops_order.push_back(hop);
        }
        if self.hops_order.len() > HOPS_MAX
            && let Some(old) = self.hops_order.pop_front()
        {
            self.hops.remove(&old);
        }
    }
    /// A chunk has ended or was refused: it no longer uses unadvertised space.
    pub(super) fn end(&mut self, hop: HopId) {
        self.link.end(hop);
        if let Some(destination) = self.hops.get(&hop).and_then(|guid| self.destinations.get_mut(guid)) {
            destination.window.end(hop);
        }
    }
    /// The neighbour is away: nothing is in flight, and its windows are requested again.
    pub(super) fn suspend(&mut self) {
        self.link.clear();
        self.destinations.clear();
    }
    /// Packets of any destination that may start.
    pub(crate) fn link_room(&self) -> u32 {
        self.link.packets.unwrap_or(0).saturating_sub(self.link.begun_packets)
    }
    /// Packets that may start for a destination, regardless of the link's window.
    pub(crate) fn destination_room(&self, guid: &Guid) -> u32 {
        let Some(Destination { window, .. }) = self.destinations.get(guid) else { return u32::MAX };
        match window.packets {
            Some(packets) => packets.saturating_sub(window.begun_packets),
            None if window.begun.is_empty() => u32::MAX,
            None => (self.link.packets.unwrap_or(0) / 2).saturating_sub(window.begun_packets),
        }
    }
    /// The queue at the neighbour for a destination.
    pub(crate) fn backlog(&self, now: Time, guid: &Guid) -> Backlog {
        self.destinations.get(guid).map(|destination| destination.drain.backlog(now)).unwrap_or_default()
    }
    /// Whether a chunk may start.
    pub(super) fn room(&self, guid: &Guid, packets: u32) -> Room {
        if self.link_room() < packets {
            Room::LinkFull
        } else if self.destination_room(guid) < packets {
            Room::DestinationFull
        } else {
            Room::Open
        }
    }
    /// A chunk waits for a destination's window: the window is requested unless it opens without that.
    pub(super) fn on_blocked(&mut self, now: Time, guid: &Guid, rto: Duration) {
        if let Some(destination) = self.destinations.get_mut(guid).filter(|known| known.probe_at == Time::MAX) {
            destination.probe_at = now + probe_interval(rto, destination.probes);
        }
    }
    /// A destination whose window must be requested now, as its last chunk.
    pub(super) fn poll_probe(&mut self, now: Time) -> Option<HopId> {
        let due = self.destinations.values_mut().find(|destination| destination.probe_at <= now)?;
        due.probes = (due.probes + 1).min(4);
        // Requested again if a chunk still waits then.
        due.probe_at = Time::MAX;
        due.is_requested = true;
        Some(due.hop)
    }
    /// When to call [`Windows::poll_probe`].
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.destinations.values().map(|destination| destination.probe_at).min().filter(|at| *at < Time::MAX)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
fn probe_interval(rto: Duration, probes: u32) -> Duration {
    (rto * 2).max(PROBE_INTERVAL_MIN) * 2u32.pow(probes)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::wire::CackState;

    const SLOW: Guid = Guid([1; 20]);
    const FAST: Guid = Guid([2; 20]);

    fn announce(windows: &mut Windows, hop: u32, number: u32, window: u32, destination_window: u32) {
        announce_at(windows, Time::ZERO, hop, number, (window, destination_window));
    }

    fn announce_at(windows: &mut Windows, now: Time, hop: u32, number: u32, (window, destination_window): (u32, u32)) {
        let cack = Cack {
            state: CackState::Partial,
            hop: HopId(hop),
            number,
            window,
            destination_window,
            duplicates: 0,
            marked: 0,
            first_missing: 0,
            bitmap: Vec::new(),
        };
        windows.on_cack(now, &cack);
    }

    #[test]
    fn what_waits_at_a_neighbour_and_how_fast_it_leaves_follows_from_its_windows() {
        let (mut windows, ms) = (Windows::default(), Time::from_millis);
        windows.set_first(2_000);
        let tell = |windows: &mut Windows, at, hop, number, room| {
            announce_at(windows, ms(at), hop, number, (1_000, room));
            windows.backlog(ms(at), &SLOW)
        };
        assert_eq!(windows.backlog(ms(0), &SLOW), Backlog::default(), "nothing is known");
        windows.begin(ms(0), HopId(1), SLOW, 1, 100);
        assert_eq!(tell(&mut windows, 5, 1, 1, 900).packets, 0, "it is not known that it could be wider");
        assert_eq!(tell(&mut windows, 10, 1, 0, 1_000).packets, 0);
        for (hop, number) in [(2, 2), (3, 3), (4, 4)] {
            windows.begin(ms(10), HopId(hop), SLOW, number, 100);
        }
        assert_eq!(windows.backlog(ms(10), &SLOW), Backlog { packets: 300, pace: None }, "none has left");
        assert_eq!(tell(&mut windows, 20, 4, 4, 700).packets, 300);
        // One leaves each 50 ms. The time of the first one is unknown.
        assert_eq!(tell(&mut windows, 60, 2, 0, 800), Backlog { packets: 200, pace: None });
        assert_eq!(tell(&mut windows, 110, 3, 0, 900), Backlog { packets: 100, pace: Some(500_000) });
        assert_eq!(windows.backlog(ms(310), &SLOW).pace, Some(2_000_000), "it stands still");
        assert_eq!(tell(&mut windows, 160, 4, 0, 1_000), Backlog { packets: 0, pace: Some(500_000) });
        assert_eq!(windows.backlog(ms(900), &SLOW).pace, Some(500_000), "it had nothing to do");
    }

    #[test]
    fn a_destination_without_room_leaves_the_link_to_others() {
        let mut windows = Windows::default();
        windows.set_first(1_000);
        windows.begin(Time::ZERO, HopId(1), SLOW, 1, 300);
        assert_eq!(windows.room(&SLOW, 300), Room::DestinationFull, "half of the window before anything is told");
        announce(&mut windows, 1, 1, 700, 200);
        assert_eq!(windows.room(&SLOW, 200), Room::Open);
        assert_eq!(windows.room(&SLOW, 201), Room::DestinationFull);
        assert_eq!(windows.room(&FAST, 700), Room::Open, "nothing is known of it");
        assert_eq!(windows.room(&FAST, 701), Room::LinkFull);
        announce(&mut windows, 1, 0, 700, Cack::UNKNOWN);
        assert_eq!(windows.room(&SLOW, 201), Room::DestinationFull, "what is not told changes nothing");
    }

    #[test]
    fn what_was_begun_since_the_window_was_told_counts_once() {
        let mut windows = Windows::default();
        windows.set_first(1_000);
        windows.begin(Time::ZERO, HopId(1), SLOW, 1, 300);
        announce(&mut windows, 1, 1, 900, 600);
        windows.begin(Time::ZERO, HopId(2), SLOW, 2, 300);
        assert_eq!((windows.link_room(), windows.destination_room(&SLOW)), (600, 300));
        announce(&mut windows, 2, 2, 600, 300);
        assert_eq!((windows.link_room(), windows.destination_room(&SLOW)), (600, 300));
        windows.begin(Time::ZERO, HopId(3), SLOW, 3, 300);
        windows.end(HopId(3));
        assert_eq!((windows.link_room(), windows.destination_room(&SLOW)), (600, 300));
    }

    #[test]
    fn a_window_that_does_not_open_is_asked_for_less_and_less_often() {
        let mut windows = Windows::default();
        windows.set_first(1_000);
        windows.begin(Time::ZERO, HopId(9), SLOW, 1, 300);
        let (mut now, mut requested) = (Time::ZERO, Vec::new());
        while requested.len() < 3 {
            windows.on_blocked(now, &SLOW, Duration::from_millis(20));
            now = windows.poll_timeout().expect("it is blocked");
            assert_eq!(windows.poll_probe(now), Some(HopId(9)));
            requested.push(now.since(Time::ZERO).as_millis());
        }
        assert_eq!(requested, [100, 300, 700]);
    }
}
