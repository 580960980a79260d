//! Measures the reordering of a path.

/// The largest number of packets out of order that a path can teach its loss detection to wait for.
const PACKETS_MAX: u64 = 512;
/// The measured reordering is forgotten unless the path shows it again within this many losses (RFC 8985 §7.2: 16
/// recoveries).
const LOSSES_KEPT: u32 = 16;

/// The number of later requested packets whose arrival declares a packet lost. A packet that arrives after it was
/// declared lost raises it; a margin that reordering has not needed for 16 losses is removed.
///
/// RFC 8985 restarts from the minimum, so that a path with steady reordering loses a packet needlessly every 16
/// recoveries. Here it falls to the reordering that packets in time have shown too.
#[derive(Clone, Debug)]
pub(crate) struct Reordering {
    /// How many packets must have overtaken one that is lost.
    pub(crate) packets: u64,
    packets_min: u64,
    /// Maximum lateness of a packet, in packets, since the last decrease.
    gap_max: u64,
    losses: u32,
}

impl Reordering {
    /// Starts with `packets_min`, and never falls below.
    pub(crate) fn new(packets_min: u32) -> Reordering {
        let packets = u64::from(packets_min);
        Reordering { packets, packets_min: packets, gap_max: 0, losses: 0 }
    }
    /// Takes notice of a packet that `gap` packets had overtaken, and was waited for.
    pub(crate) fn on_overtaken(&mut self, gap: u64) {
        self.gap_max = self.gap_max.max(gap);
    }
    /// A packet that had been declared lost arrived after `gap` later ones.
    pub(crate) fn on_late(&mut self, gap: u64) {
        self.on_overtaken(gap);
        self.packets = self.packets.max(self.needed());
    }
    /// Takes notice of losses within one round trip.
    pub(crate) fn on_loss(&mut self) {
        self.losses += 1;
        if self.losses == LOSSES_KEPT {
            self.packets = self.packets.min(self.needed());
            self.losses = 0;
            self.gap_max = 0;
        }
    }
    fn needed(&self) -> u64 {
        (self.gap_max + self.gap_max / 4).min(PACKETS_MAX).max(self.packets_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_late_answer_taught_is_forgotten_after_sixteen_losses_without() {
        let mut reordering = Reordering::new(3);
        reordering.on_late(200);
        assert_eq!(reordering.packets, 250);
        (0..16).for_each(|_| reordering.on_loss());
        // The first sixteen started with it.
        assert_eq!(reordering.packets, 250);
        (0..15).for_each(|_| reordering.on_loss());
        assert_eq!(reordering.packets, 250);
        reordering.on_loss();
        assert_eq!(reordering.packets, 3);
    }

    #[test]
    fn what_the_path_goes_on_showing_is_kept() {
        let mut reordering = Reordering::new(3);
        reordering.on_late(200);
        for _ in 0..100 {
            reordering.on_overtaken(40);
            reordering.on_loss();
        }
        assert_eq!(reordering.packets, 50);
    }

    #[test]
    fn no_gap_teaches_more_than_the_most_and_none_less_than_the_least() {
        let mut reordering = Reordering::new(600);
        reordering.on_late(10_000);
        assert_eq!(reordering.packets, 600);
        let mut reordering = Reordering::new(3);
        reordering.on_late(1);
        assert_eq!(reordering.packets, 3);
        reordering.on_late(10_000);
        assert_eq!(reordering.packets, 512);
    }
}
