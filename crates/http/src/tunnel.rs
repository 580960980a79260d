//! Arbitrary bytes in both directions: after `CONNECT` (RFC 9110 §9.3.6), or after `101 Switching Protocols` (§7.8),
//! such as a WebSocket.
use bytes::BytesMut;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tributary_core::Duration;

use crate::{
    exchange::{Frame, SEGMENT_BYTES},
    stream::{Inlet, Last, Outlet},
};

/// Bytes that were carried.
#[derive(Default, Debug)]
pub(crate) struct Carried {
    /// Out of the connection into the network.
    pub(crate) out: AtomicU64,
    /// Out of the network into the connection.
    pub(crate) into: AtomicU64,
}

/// Carries bytes between a connection and the other side of the network until both directions have ended, one breaks
/// off, or nothing has passed for `idle`.
///
/// # Errors
/// What broke off, in words.
pub(crate) async fn carry(
    connection: impl AsyncRead + AsyncWrite,
    mut inlet: Inlet,
    outlet: &mut Outlet,
    idle: Duration,
    carried: &Carried,
) -> Result<(), String> {
    let (mut from, mut to) = tokio::io::split(connection);
    let cut_off = |error: std::io::Error| format!("the connection broke off: {error}");
    let outward = async {
        let mut bytes = BytesMut::new();
        loop {
            bytes.reserve(SEGMENT_BYTES / 4);
            let mut limited = (&mut from).take(SEGMENT_BYTES as u64 / 2);
            let read = tokio::select! {
                read = limited.read_buf(&mut bytes) => read.map_err(cut_off)?,
                broken = outlet.broken() => return Err(broken.to_string()),
            };
            if read == 0 {
                return outlet.flush(Last::Yes).await.map_err(|broken| broken.to_string());
            }
            carried.out.fetch_add(read as u64, Ordering::Relaxed);
            outlet.push(&Frame::Data(bytes.split().freeze()));
            outlet.flush(Last::No).await.map_err(|broken| broken.to_string())?;
        }
    };
    let inward = async {
        loop {
            match inlet.next().await.map_err(|broken| broken.to_string())? {
                Some(Frame::Data(bytes)) => {
                    carried.into.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    to.write_all(&bytes).await.map_err(cut_off)?;
                }
                Some(_) => return Err("the other proxy sends what belongs into no tunnel".into()),
                None => return to.shutdown().await.map_err(cut_off),
            }
        }
    };
    let silence = async {
        let count = || carried.out.load(Ordering::Relaxed) + carried.into.load(Ordering::Relaxed);
        let mut last = count();
        loop {
            tokio::time::sleep(idle).await;
            let now = count();
            if now == last {
                return format!("nothing has passed for {idle:?}");
            }
            last = now;
        }
    };
    tokio::select! {
        result = async { tokio::try_join!(outward, inward) } => result.map(|_| ()),
        reason = silence => Err(reason),
    }
}
