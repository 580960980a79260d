//! What `CONNECT` opens (RFC 9110 §9.3.6): bytes both ways, whatever they are; TLS most often.
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tributary_transport::messaging::Delivery;

use crate::{
    exchange::SEGMENT_BYTES,
    segments::{CREDIT_PATIENCE, Credit, Receiver, Sender},
};

/// How long a tunnel may carry nothing the one way before it is taken down.
pub(crate) const PATIENCE: tributary_core::Duration = CREDIT_PATIENCE;
/// Segments of a tunnel are acknowledged: who gets nothing of one cannot know that there is one.
pub(crate) const DELIVERY: Delivery = Delivery::Ack;

/// Carries bytes between a connection and the other side of the network until both ways have ended, or one breaks off.
///
/// # Errors
/// What broke off, in words.
pub(crate) async fn carry(
    connection: impl AsyncRead + AsyncWrite,
    mut sender: Sender,
    mut receiver: Receiver,
    mut credit: Credit,
) -> Result<(), String> {
    let (mut from, mut to) = tokio::io::split(connection);
    let told = |error: std::io::Error| format!("the connection broke off: {error}");
    let outward = async move {
        let (mut bytes, mut taken) = (BytesMut::new(), sender.taken.clone());
        loop {
            bytes.reserve(SEGMENT_BYTES / 16);
            let mut limited = (&mut from).take(SEGMENT_BYTES as u64);
            let read = tokio::select! {
                read = limited.read_buf(&mut bytes) => read.map_err(told)?,
                () = Sender::gone(&mut taken) => return Err("the other side has gone".into()),
            };
            sender.send_part(read == 0, bytes.split().freeze()).await?;
            if read == 0 {
                return Ok(());
            }
        }
    };
    let inward = async move {
        loop {
            let (head, body) = receiver.next().await.ok_or("nothing more has come through the network")?;
            if let Some(reason) = head.failure {
                return Err(reason);
            }
            to.write_all(&body).await.map_err(told)?;
            credit.take();
            if head.is_last {
                credit.end();
                return to.shutdown().await.map_err(told);
            }
        }
    };
    tokio::try_join!(outward, inward).map(|_| ())
}
