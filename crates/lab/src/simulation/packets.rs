//! Captures of the packets of links.
use crate::capture::{Capture, Interface};
use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc};

use super::{Host, Scenario, Simulation};

/// A capture in progress; call [`Packets::finish`] after the run.
pub struct Packets(Rc<RefCell<State>>);

struct State {
    capture: Option<Capture<Box<dyn io::Write>>>,
    error: Option<io::Error>,
}

impl Packets {
    /// Captures both directions of the named links into `out`, in the pcapng format, at the moment of arrival. It takes
    /// the place of any other tap of the network.
    ///
    /// # Errors
    /// If `out` cannot be written. Links that do not exist are an error of kind `NotFound` that names them.
    pub fn start(
        simulation: &mut Simulation,
        scenario: &Scenario,
        links: &[String],
        out: Box<dyn io::Write>,
    ) -> io::Result<Packets> {
        let mut interfaces = Vec::new();
        let mut numbers = BTreeMap::new();
        for name in links {
            let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no link '{name}'"));
            let spec = scenario.link(name).ok_or_else(unknown)?;
            let connection = simulation.connection(name).ok_or_else(unknown)?;
            let [a, b] = &spec.ends;
            let places = simulation.node(a).zip(simulation.node(b));
            let (a_index, b_index) = places.ok_or_else(unknown)?;
            let port = port(scenario, a, b);
            for (link, from, to, name) in [
                (connection.a_to_b, a_index, b_index, format!("{a} to {b}")),
                (connection.b_to_a, b_index, a_index, format!("{b} to {a}")),
            ] {
                if numbers.insert(link, interfaces.len()).is_none() {
                    interfaces.push(Interface { name, from, to, port });
                }
            }
        }
        let capture = Capture::new(out, interfaces)?;
        let state = Rc::new(RefCell::new(State { capture: Some(capture), error: None }));
        let taken = Rc::clone(&state);
        simulation.network_mut().set_tap(move |seen| {
            let Some(number) = numbers.get(&seen.link) else { return };
            let State { capture, error } = &mut *taken.borrow_mut();
            if let Some(capture) = capture.as_mut().filter(|_| error.is_none()) {
                *error = capture.record(seen.time, *number, seen.datagram).err();
            }
        });
        Ok(Packets(state))
    }
    /// Ends the capture; returns its number of packets.
    ///
    /// # Errors
    /// If a packet could not be written.
    pub fn finish(self) -> io::Result<u64> {
        let State { capture, error } = &mut *self.0.borrow_mut();
        if let Some(error) = error.take() {
            return Err(error);
        }
        let Some(capture) = capture.take() else { return Ok(0) };
        let packets = capture.packets();
        capture.finish()?;
        Ok(packets)
    }
}

/// The UDP port by which a dissector recognises a link's family.
fn port(scenario: &Scenario, a: &str, b: &str) -> u16 {
    let family =
        scenario.nodes.iter().filter(|node| node.label == a || node.label == b).find_map(|node| match &node.host {
            Host::Endpoint(config) => Some(config.family()),
            Host::Bare => None,
        });
    family.map_or(PORT_OTHER, |family| family.profile().capture_port)
}

/// The port of links between nodes of no family.
const PORT_OTHER: u16 = 7009;
