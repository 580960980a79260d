//! Storage for packets, while only their numbers move.
use alloc::vec::Vec;

use crate::Datagram;

/// Packets by number; the numbers of those that left are used again, last one first.
#[derive(Clone, Debug, Default)]
pub(super) struct Shelf {
    packets: Vec<Option<Datagram>>,
    free: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u32);

impl Shelf {
    #[inline]
    pub(super) fn put(&mut self, datagram: Datagram) -> Place {
        if let Some(place) = self.free.pop() {
            self.packets[place.0 as usize] = Some(datagram);
            return place;
        }
        self.packets.push(Some(datagram));
        Place(u32::try_from(self.packets.len() - 1).expect("fewer than 2^32 packets fit into memory"))
    }
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }
    #[inline]
    pub(super) fn take(&mut self, place: Place) -> Datagram {
        self.free.push(place);
        self.packets[place.0 as usize].take().expect("a place is taken once")
    }
    #[inline]
    pub(super) fn packet_mut(&mut self, place: Place) -> &mut Datagram {
        self.packets[place.0 as usize].as_mut().expect("a place holds a packet until it is taken")
    }
}
