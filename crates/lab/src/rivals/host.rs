//! A host: a rival's stack, a program on top, routes below.
use std::{collections::VecDeque, net::Ipv4Addr};

use tributary_core::{Datagram, FaceId, Node, Time, TimerId, Transmit, TransmitBuf, event::Event};

use super::{
    ip::{Ipv4Header, Routes},
    stack::{Stack, StackStats},
};

/// A program that uses a stack.
pub trait Application {
    /// Serves all connections: reads and writes as much as possible, and runs due timers.
    fn run(&mut self, now: Time, stack: &mut dyn Stack);
    /// When it wants to run next even if nothing arrives.
    fn poll_timeout(&self) -> Option<Time>;
    /// The next event.
    fn poll_event(&mut self) -> Option<Event>;
}

/// A node with one program.
pub struct Host<A> {
    addresses: Vec<Ipv4Addr>,
    routes: Routes,
    stack: Box<dyn Stack>,
    application: A,
    /// A packet for a different face than the last batch's.
    held: Option<(FaceId, Datagram)>,
    events: VecDeque<Event>,
}

impl<A: Application> Host<A> {
    /// A host that owns `addresses`.
    pub fn new(addresses: Vec<Ipv4Addr>, routes: Routes, stack: Box<dyn Stack>, application: A) -> Self {
        Host { addresses, routes, stack, application, held: None, events: VecDeque::new() }
    }
    /// The program.
    pub fn application(&self) -> &A {
        &self.application
    }
    /// What the stack has sent.
    pub fn stack_stats(&self) -> StackStats {
        self.stack.stats()
    }
    fn next_packet(&mut self, now: Time) -> Option<(FaceId, Datagram)> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            let (destination, packet) = self.stack.poll_packet(now)?;
            match self.routes.face(destination) {
                Some(face) => return Some((face, packet)),
                None => self.note_drop(FaceId(0), "no route to the address", packet.len()),
            }
        }
    }
    fn note_drop(&mut self, face: FaceId, reason: &'static str, bytes: usize) {
        self.events.push_back(Event::Dropped { face, reason, bytes: bytes as u32 });
    }
}

impl<A: Application> Node for Host<A> {
    fn handle_datagram(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let header = Ipv4Header::parse(datagram.header_bytes(), datagram.len());
        match header.and_then(|header| header.after_link(datagram.is_marked())) {
            Ok(header) if self.addresses.contains(&header.destination) => {
                self.stack.handle_packet(now, header, datagram.into_bytes());
                self.application.run(now, &mut *self.stack);
            }
            Ok(_) => self.note_drop(face, "not for this host", datagram.len()),
            Err(reason) => self.note_drop(face, reason, datagram.len()),
        }
    }
    fn handle_timeout(&mut self, now: Time) {
        self.stack.handle_timeout(now);
        self.application.run(now, &mut *self.stack);
    }
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let (face, packet) = self.next_packet(now)?;
        out.push_datagram(packet);
        while !out.is_full() {
            match self.next_packet(now) {
                Some((other, packet)) if other == face => out.push_datagram(packet),
                other => {
                    self.held = other;
                    break;
                }
            }
        }
        Some(Transmit { face })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        let stack = self.stack.poll_timeout().map(|due| (due, TimerId(0)));
        let application = self.application.poll_timeout().map(|due| (due, TimerId(1)));
        match (stack, application) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front().or_else(|| self.application.poll_event())
    }
}
