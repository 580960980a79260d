//! Ports for daemons of tests.
use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    sync::atomic::{AtomicU32, Ordering},
};

/// A port that is free for UDP and TCP. It lies outside the range from which the kernel chooses ports for unbound
/// sockets: such a socket could take it before the daemon that is to listen there.
pub fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        // Each process starts elsewhere.
        let number = std::process::id().wrapping_mul(97) + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (number % 20_000) as u16;
        let at = (Ipv4Addr::LOCALHOST, port);
        if UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok() {
            return port;
        }
    }
}
