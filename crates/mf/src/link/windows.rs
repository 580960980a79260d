//! The room of a neighbour (paper §3.4.1): W_ad of the link, and of each destination by itself, so that chunks of a
//! slow destination do not block those of another (§3.4.3).
//!
//! The CACKs of its chunks carry a destination's window. Until the first one has arrived, half of the link's window may
//! be used for it, and one chunk in any case.
use alloc::collections::{BTreeMap, VecDeque};

use tributary_core::{Duration, Time};

use crate::{
    ids::{Guid, HopId},
    wire::Cack,
};

/// Destinations whose windows are remembered at most.
const DESTINATIONS_MAX: usize = 1_024;
/// Chunks whose destinations are remembered, at most.
const HOPS_MAX: usize = 4_096;
/// The least time between two questions for a destination's window that does not open; doubles up to 16 times.
const PROBE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Whether a chunk may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Now.
    Open,
    /// Its destination has no room; chunks of another one may go.
    DestinationFull,
    /// No chunk has room.
    LinkFull,
}

/// One window and the chunks begun since it was advertised.
#[derive(Default)]
struct Window {
    packets: Option<u32>,
    /// The CSYN whose answer advertised it.
    as_of: u32,
    /// Chunks begun: the chunk, the CSYN number that came next, and its packets. Hundreds may be in flight, and each
    /// packet that leaves needs the sum.
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

struct Destination {
    window: Window,
    /// Its last chunk on this hop.
    hop: HopId,
    used_at: Time,
    probe_at: Time,
    probes: u32,
    /// Whether its window was requested since its last chunk began or its window was advertised.
    is_requested: bool,
}

/// The windows of one neighbour.
#[derive(Default)]
pub(super) struct Windows {
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
    pub(super) fn on_cack(&mut self, cack: &Cack) {
        self.link.on_window(cack.number, cack.window);
        let destination = self.hops.get(&cack.hop).and_then(|guid| self.destinations.get_mut(guid));
        let Some(destination) = destination else { return };
        if cack.destination_window != Cack::UNKNOWN {
            destination.window.on_window(cack.number, cack.destination_window);
            destination.is_requested = false;
        } else if destination.is_requested && cack.number > destination.window.as_of && !cack.has(0) {
            // Without its first packet the neighbour does not know the chunk's destination, and advertises no window.
            destination.window.packets = None;
        }
    }
    /// A chunk begins; `next_csyn` is the number of the next CSYN.
    pub(super) fn begin(&mut self, now: Time, hop: HopId, guid: Guid, next_csyn: u32, packets: u32) {
        self.link.begin(hop, next_csyn, packets);
        if !self.destinations.contains_key(&guid) && self.destinations.len() >= DESTINATIONS_MAX {
            let idle = self.destinations.iter().filter(|(_, known)| known.window.begun.is_empty());
            let oldest = idle.min_by_key(|(_, known)| known.used_at).map(|(guid, _)| *guid);
            oldest.map(|guid| self.destinations.remove(&guid));
        }
        let destination = self.destinations.entry(guid).or_insert_with(|| Destination {
            window: Window::default(),
            hop,
            used_at: now,
            probe_at: Time::MAX,
            probes: 0,
            is_requested: false,
        });
        destination.window.begin(hop, next_csyn, packets);
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
    /// A chunk is over, or was refused: it uses no unadvertised room any more.
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
    /// Packets of any destination that may begin.
    pub(super) fn link_room(&self) -> u32 {
        self.link.packets.unwrap_or(0).saturating_sub(self.link.begun_packets)
    }
    /// Packets that may begin for a destination, whatever the link has room for.
    pub(super) fn destination_room(&self, guid: &Guid) -> u32 {
        let Some(Destination { window, .. }) = self.destinations.get(guid) else { return u32::MAX };
        match window.packets {
            Some(packets) => packets.saturating_sub(window.begun_packets),
            None if window.begun.is_empty() => u32::MAX,
            None => (self.link.packets.unwrap_or(0) / 2).saturating_sub(window.begun_packets),
        }
    }
    /// Whether a chunk may begin.
    pub(super) fn room(&self, guid: &Guid, packets: u32) -> Room {
        if self.link_room() < packets {
            Room::LinkFull
        } else if self.destination_room(guid) < packets {
            Room::DestinationFull
        } else {
            Room::Open
        }
    }
    /// A chunk waits for a destination's window: the window is requested if it does not open by itself.
    pub(super) fn on_blocked(&mut self, now: Time, guid: &Guid, rto: Duration) {
        if let Some(destination) = self.destinations.get_mut(guid).filter(|known| known.probe_at == Time::MAX) {
            destination.probe_at = now + probe_interval(rto, destination.probes);
        }
    }
    /// A destination whose window is to be requested now, as its last chunk.
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
        windows.on_cack(&Cack {
            state: CackState::Partial,
            hop: HopId(hop),
            number,
            window,
            destination_window,
            duplicates: 0,
            first_missing: 0,
            bitmap: Vec::new(),
        });
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
