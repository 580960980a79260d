//! The kernel's own TCP with one of its congestion controls: zeros over one connection, neither verified nor written
//! (targets 10 and 11).
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};

use super::Fetched;
use crate::Outcome;

/// Bytes per write and read.
const UNIT_BYTES: usize = 64 << 10;
/// How long a client waits for the next bytes at a time.
const LOOK: Duration = Duration::from_millis(20);

/// Sends `size` bytes to each client by `congestion`; passes `ready` the address.
///
/// # Errors
/// If the kernel does not have that congestion control, or no socket can be opened.
pub(crate) fn serve(listen: SocketAddr, congestion: &str, size: u64, ready: impl FnOnce(SocketAddr)) -> Outcome {
    let listener = listen_by(listen, congestion)?;
    ready(listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        // A client that has seen enough ends its own thread only.
        thread::spawn(move || drop(send(&stream, size)));
    }
    Ok(())
}
/// A socket whose connections use `congestion`.
///
/// # Errors
/// If the kernel does not have that congestion control, or the socket cannot be opened.
pub(crate) fn listen_by(listen: SocketAddr, congestion: &str) -> Outcome<TcpListener> {
    let listener = TcpListener::bind(listen)?;
    // Connections take it from the socket that accepts them.
    setsockopt(&listener, sockopt::TcpCongestion, &OsString::from(congestion))
        .map_err(|error| format!("the kernel has no congestion control '{congestion}' for this process: {error}"))?;
    Ok(listener)
}
fn send(mut stream: &TcpStream, size: u64) -> io::Result<()> {
    let unit = vec![0; UNIT_BYTES];
    let mut left = size;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(unit.len());
        stream.write_all(&unit[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// Receives `size` bytes, or as many as arrive within `seconds_max`; the measured time starts before the connection.
///
/// # Errors
/// If the server cannot be reached, or ends too early.
pub(crate) fn get(server: SocketAddr, size: u64, seconds_max: Option<f64>) -> Outcome<Fetched> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut unit = vec![0; UNIT_BYTES];
    let mut bytes = 0;
    while bytes < size && seconds_max.is_none_or(|most| start.elapsed().as_secs_f64() < most) {
        match stream.read(&mut unit) {
            Ok(0) => return Err(format!("the connection ended after {bytes} of {size} bytes").into()),
            Ok(length) => bytes += length as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Fetched { bytes, seconds: start.elapsed().as_secs_f64(), hash: None })
}
