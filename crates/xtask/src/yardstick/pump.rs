//! A bare UDP pump: the maximum speed of a file over UDP without loss (target 1).
//!
//! ```text
//!  0        8       16                 datagram bytes
//!  ├ offset ┼ zero  ┼ payload ────────┤
//! ```
//! The server reads the file, gathers a header in front of each payload, and sends runs with one GSO call; the client
//! takes GRO's batches, hashes and writes them, and grants credit each MiB. One thread a side; nothing is sent twice,
//! so a lost datagram ends the run.
use std::{
    fs::File,
    io::{ErrorKind, IoSlice},
    net::{SocketAddr, UdpSocket},
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};

use super::Fetched;
use crate::Outcome;

/// Bytes in front of each payload.
const HEADER_BYTES: usize = 16;
/// The maximum number of bytes in flight.
const WINDOW_BYTES: u64 = 6 << 20;
/// Bytes between two grants of credit.
const CREDIT_BYTES: u64 = 1 << 20;
/// The maximum number of bytes in one run: the payload of one IPv4 packet.
const BATCH_BYTES_MAX: usize = 65_507;
/// The maximum number of datagrams in one run, as older kernels permit.
const BATCH_DATAGRAMS_MAX: usize = 64;
/// Bytes hashed and written at once: a few runs, so that little is left over and moved.
const UNIT_BYTES: usize = 256 << 10;
/// A client's first message.
const HELLO: &[u8] = b"GET!";

/// Serves `file` in datagrams of `datagram` bytes to one client after the other, and passes `ready` the address.
///
/// # Errors
/// If the file cannot be read or the socket fails.
pub(crate) fn serve(file: &Path, datagram: usize, ready: impl FnOnce(SocketAddr)) -> Outcome {
    let file = File::open(file)?;
    let size = file.metadata()?.len();
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // Without privileges the system's limit stays.
    let _ = setsockopt(&socket, sockopt::SndBufForce, &(16 << 20));
    ready(socket.local_addr()?);
    loop {
        let mut hello = [0; 16];
        let (length, peer) = socket.recv_from(&mut hello)?;
        if &hello[..length] == HELLO {
            socket.set_read_timeout(Some(Duration::from_secs(5)))?;
            if let Err(error) = send_file(&socket, peer, &file, size, datagram)
                && !is_timeout(error.as_ref())
            {
                return Err(error);
            }
            socket.set_read_timeout(None)?;
        }
    }
}

fn send_file(socket: &UdpSocket, peer: SocketAddr, file: &File, size: u64, datagram: usize) -> Outcome {
    let payload = datagram - HEADER_BYTES;
    let batch_payload = payload * (BATCH_BYTES_MAX / datagram).clamp(1, BATCH_DATAGRAMS_MAX);
    let peer = SockaddrStorage::from(peer);
    let segment = [u16::try_from(datagram)?];
    let gso = [ControlMessage::UdpGsoSegments(&segment[0])];
    let mut buffer = vec![0; batch_payload];
    let (mut offset, mut granted) = (0_u64, WINDOW_BYTES);
    while offset < size {
        while offset >= granted {
            let mut credit = [0; 16];
            let (length, _) = socket.recv_from(&mut credit)?;
            if length == 8 {
                granted = granted.max(u64::from_le_bytes(credit[..8].try_into()?) + WINDOW_BYTES);
            }
        }
        let length = batch_payload.min(usize::try_from(size - offset).unwrap_or(usize::MAX));
        let bytes = &mut buffer[..length];
        file.read_exact_at(bytes, offset)?;
        let mut heads = [[0_u8; HEADER_BYTES]; BATCH_DATAGRAMS_MAX];
        for (head, index) in heads.iter_mut().zip(0_u64..) {
            head[..8].copy_from_slice(&(offset + index * payload as u64).to_le_bytes());
        }
        let mut slices = [IoSlice::new(&[]); 2 * BATCH_DATAGRAMS_MAX];
        let mut count = 0;
        for (head, body) in heads.iter().zip(bytes.chunks(payload)) {
            slices[count] = IoSlice::new(head);
            slices[count + 1] = IoSlice::new(body);
            count += 2;
        }
        let control = if count > 2 { &gso[..] } else { &[] };
        sendmsg(socket.as_raw_fd(), &slices[..count], control, MsgFlags::empty(), Some(&peer))?;
        offset += length as u64;
    }
    Ok(())
}

/// Fetches `size` bytes in datagrams of `datagram` bytes and writes them to `output`.
///
/// # Errors
/// If a datagram was lost, or the file or the socket fails.
pub(crate) fn get(server: SocketAddr, output: &Path, size: u64, datagram: usize) -> Outcome<Fetched> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(32 << 20));
    setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let file = File::create(output)?;
    let mut buffer = vec![0; 1 << 16];
    let mut unit: Vec<u8> = Vec::with_capacity(2 * UNIT_BYTES);
    let mut hasher = blake3::Hasher::new();
    let (mut got, mut written, mut granted) = (0_u64, 0_u64, 0_u64);
    let start = Instant::now();
    socket.send(HELLO)?;
    while got < size {
        let length = socket.recv(&mut buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => format!("the pump has stalled at {got} bytes: a datagram was lost"),
            _ => error.to_string(),
        })?;
        for datagram in buffer[..length].chunks(datagram) {
            let offset = u64::from_le_bytes(datagram[..8].try_into()?);
            if offset != got {
                return Err(format!("the pump got offset {offset} instead of {got}: a datagram was lost").into());
            }
            let payload = &datagram[HEADER_BYTES..];
            unit.extend_from_slice(payload);
            got += payload.len() as u64;
        }
        // Whole power-of-two subtrees are hashed at once, which BLAKE3 needs for its full speed.
        let usable = if got >= size { unit.len() } else { unit.len() / UNIT_BYTES * UNIT_BYTES };
        if usable > 0 {
            hasher.update(&unit[..usable]);
            file.write_all_at(&unit[..usable], written)?;
            written += usable as u64;
            unit.drain(..usable);
        }
        if got >= granted + CREDIT_BYTES || got >= size {
            granted = got;
            socket.send(&got.to_le_bytes())?;
        }
    }
    let hash = hasher.finalize().to_hex().to_string();
    Ok(Fetched { bytes: got, seconds: start.elapsed().as_secs_f64(), hash: Some(hash) })
}

fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
}
