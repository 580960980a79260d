//! What sits at one place of the simulated network: a host, guests, and the passing on of guests' packets.
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tributary_content::Name;
use tributary_core::{
    Datagram, FaceId, Node, Time, TimerId, TransferId, Transmit, TransmitBuf,
    event::{Event, TransferReport},
};

use super::guest::{self, GUEST_HEADER_BYTES, Guest, Route};
use tributary::families::BoxedNode;

/// One place in the network. See the [module](super) for its possible occupants.
pub struct SimulatedNode {
    /// Nothing at a place that only passes on the packets of guests.
    endpoint: Option<BoxedNode>,
    guests: Vec<Seated>,
    routes: Arc<Vec<Route>>,
    passing: VecDeque<(FaceId, Datagram)>,
    is_frozen: bool,
    /// Packets that were thrown away: a frozen node's, and guests' with nonsense in their header.
    dropped_packets: u64,
    serves: Arc<AtomicBool>,
}

pub(super) struct Seated {
    pub(super) guest: Box<dyn Guest>,
    /// The route of each of its faces.
    pub(super) routes: Vec<u16>,
}

/// Transfer numbers of guests start here: this bit, then the guest's index, then its own number.
const GUEST_TRANSFERS: u32 = 1 << 31;
const GUEST_SHIFT: u32 = 20;

impl SimulatedNode {
    pub(super) fn new(
        endpoint: Option<BoxedNode>,
        guests: Vec<Seated>,
        routes: Arc<Vec<Route>>,
        serves: Arc<AtomicBool>,
    ) -> Self {
        SimulatedNode {
            endpoint,
            guests,
            routes,
            passing: VecDeque::new(),
            is_frozen: false,
            dropped_packets: 0,
            serves,
        }
    }
    /// The endpoint at this place, if there is one.
    pub fn endpoint(&self) -> Option<&BoxedNode> {
        self.endpoint.as_ref()
    }
    /// The endpoint at this place, to command.
    pub fn endpoint_mut(&mut self) -> Option<&mut BoxedNode> {
        self.endpoint.as_mut()
    }
    /// Packets thrown away while it was frozen, and guests' packets with nonsense in their header.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_packets
    }
    pub(super) fn set_frozen(&mut self, frozen: bool) {
        self.is_frozen = frozen;
    }
    pub(super) fn set_serving(&mut self, serves: bool) {
        self.serves.store(serves, Ordering::Relaxed);
    }
    pub(super) fn serves(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.serves)
    }

    /// Starts a fetch at a guest.
    pub(super) fn fetch_as_guest(&mut self, now: Time, guest: usize, name: &Name) -> Option<TransferId> {
        let id = self.guests.get_mut(guest)?.guest.fetch(now, name)?;
        Some(guest_transfer(guest, id))
    }
    /// The report of a transfer by the endpoint or guest at this place.
    pub fn report(&self, now: Time, transfer: TransferId) -> Option<TransferReport> {
        if let Some((guest, id)) = of_guest(transfer) {
            return self.guests.get(guest)?.guest.report(now, id);
        }
        self.endpoint.as_ref()?.report(now, transfer)
    }
    /// Whether a guest's finished fetch was correct, if it was compared.
    pub(super) fn is_verified(&self, transfer: TransferId) -> Option<bool> {
        let (guest, id) = of_guest(transfer)?;
        self.guests.get(guest)?.guest.is_verified(id)
    }

    /// A packet between guests has arrived, or starts here and travels over `links` links.
    fn pass(&mut self, now: Time, links: u8, route_number: u16, datagram: Datagram) {
        let routes = Arc::clone(&self.routes);
        let Some(route) = routes.get(usize::from(route_number)) else {
            self.dropped_packets += 1;
            return;
        };
        match route.faces.get(usize::from(links)) {
            Some(face) => {
                let mut datagram = datagram.with_head(GUEST_HEADER_BYTES);
                datagram.head_mut()[..GUEST_HEADER_BYTES].copy_from_slice(&guest::header(links + 1, route_number));
                self.passing.push_back((*face, datagram));
            }
            None => match self.guests.get_mut(route.guest) {
                Some(seated) => seated.guest.handle_datagram(now, route.face, datagram.strip(GUEST_HEADER_BYTES)),
                None => self.dropped_packets += 1,
            },
        }
    }
    /// Takes the guests' packets; false if there were none.
    fn collect(&mut self, now: Time, batch: &mut TransmitBuf) -> bool {
        for index in 0..self.guests.len() {
            batch.clear();
            let seated = &mut self.guests[index];
            let Some(transmit) = seated.guest.poll_transmit(now, batch) else { continue };
            let route = seated.routes.get(transmit.face.0 as usize).copied();
            let datagrams: Vec<_> = batch.drain().collect();
            batch.clear();
            for datagram in datagrams {
                match route {
                    Some(route) => self.pass(now, 0, route, guest::wrap(datagram, route)),
                    None => self.dropped_packets += 1,
                }
            }
            return true;
        }
        false
    }
}

fn guest_transfer(guest: usize, id: TransferId) -> TransferId {
    TransferId(GUEST_TRANSFERS | ((guest as u32) << GUEST_SHIFT) | id.0)
}
fn of_guest(transfer: TransferId) -> Option<(usize, TransferId)> {
    let own = (1 << GUEST_SHIFT) - 1;
    let guest = ((transfer.0 & !GUEST_TRANSFERS) >> GUEST_SHIFT) as usize;
    (transfer.0 & GUEST_TRANSFERS != 0).then_some((guest, TransferId(transfer.0 & own)))
}

impl Node for SimulatedNode {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        if self.is_frozen {
            self.dropped_packets += 1;
            return;
        }
        if let Some((links, route)) = guest::parse(&datagram) {
            return self.pass(now, links, route, datagram);
        }
        match &mut self.endpoint {
            Some(endpoint) => endpoint.handle_datagram(now, face, datagram),
            None => self.dropped_packets += 1,
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        let is_due = |due: Option<(Time, TimerId)>| due.is_some_and(|(due, _)| due <= now);
        if let Some(endpoint) = &mut self.endpoint
            && is_due(endpoint.poll_timeout())
        {
            endpoint.handle_timeout(now);
        }
        for seated in &mut self.guests {
            if is_due(seated.guest.poll_timeout()) {
                seated.guest.handle_timeout(now);
            }
        }
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.is_frozen {
            return None;
        }
        loop {
            if let Some((face, datagram)) = self.passing.pop_front() {
                out.clear();
                out.push_datagram(datagram);
                return Some(Transmit { face });
            }
            if let Some(transmit) = self.endpoint.as_mut().and_then(|endpoint| endpoint.poll_transmit(now, out)) {
                return Some(transmit);
            }
            if self.guests.is_empty() || !self.collect(now, out) {
                return None;
            }
        }
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        if self.is_frozen {
            return None;
        }
        let endpoint = self.endpoint.as_ref().and_then(Node::poll_timeout);
        let guests = self.guests.iter().filter_map(|seated| seated.guest.poll_timeout());
        endpoint.into_iter().chain(guests).min_by_key(|(due, _)| *due)
    }
    fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.endpoint.as_mut().and_then(Node::poll_event) {
            return Some(event);
        }
        self.guests.iter_mut().enumerate().find_map(|(index, seated)| {
            Some(match seated.guest.poll_event()? {
                Event::Transfer(id, event) => Event::Transfer(guest_transfer(index, id), event),
                event => event,
            })
        })
    }
}
