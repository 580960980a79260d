//! quinn: a file on one QUIC stream, encrypted but not verified, written to a file (targets 2 and 5).
//!
//! One process a side, one runtime thread a side, windows and buffers so large that they are no limit on loopback.
use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
    rustls::{
        RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use super::Fetched;
use crate::Outcome;

/// The name in the throw-away certificate.
const SERVER_NAME: &str = "localhost";
/// Windows of the stream and of the connection.
const WINDOW_BYTES: u32 = 16 << 20;
/// Bytes per read and write.
const UNIT_BYTES: usize = 256 << 10;

/// Serves `file` to one client after the other with a certificate that it writes to `certificate`; passes `ready` the
/// address.
///
/// # Errors
/// If the file cannot be read or the socket fails.
pub(crate) fn serve(file: &Path, certificate: &Path, ready: impl FnOnce(SocketAddr)) -> Outcome {
    let file = File::open(file)?;
    let size = file.metadata()?.len();
    let signed = rcgen::generate_simple_self_signed([SERVER_NAME.to_string()])?;
    std::fs::write(certificate, signed.cert.der())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let mut config = ServerConfig::with_single_cert(vec![signed.cert.der().clone()], key)?;
    config.transport_config(transport());
    runtime()?.block_on(async {
        let endpoint = endpoint(Some(config))?;
        ready(endpoint.local_addr()?);
        while let Some(incoming) = endpoint.accept().await {
            let connection = incoming.await?;
            let mut stream = connection.open_uni().await?;
            let mut offset = 0;
            while offset < size {
                let mut unit = vec![0; UNIT_BYTES.min(usize::try_from(size - offset)?)];
                file.read_exact_at(&mut unit, offset)?;
                offset += unit.len() as u64;
                stream.write_chunk(unit.into()).await?;
            }
            stream.finish()?;
            connection.closed().await;
        }
        Ok(())
    })
}

/// Fetches `size` bytes from a server with the certificate of the file `certificate`, and writes them to `output`.
///
/// # Errors
/// If the connection fails or ends early, or the file cannot be written.
pub(crate) fn get(server: SocketAddr, certificate: &Path, output: &Path, size: u64) -> Outcome<Fetched> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(certificate)?))?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport());
    let mut file = File::create(output)?;
    runtime()?.block_on(async {
        let endpoint = endpoint(None)?;
        let start = Instant::now();
        let connection = endpoint.connect_with(config, server, SERVER_NAME)?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut unit: Vec<u8> = Vec::with_capacity(2 * UNIT_BYTES);
        let mut bytes = 0;
        while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
            bytes += chunk.bytes.len() as u64;
            unit.extend_from_slice(&chunk.bytes);
            if unit.len() >= UNIT_BYTES {
                file.write_all(&unit)?;
                unit.clear();
            }
        }
        file.write_all(&unit)?;
        let seconds = start.elapsed().as_secs_f64();
        connection.close(VarInt::from_u32(0), b"done");
        endpoint.wait_idle().await;
        if bytes == size {
            Ok(Fetched { bytes, seconds, hash: None })
        } else {
            Err(format!("the stream ended after {bytes} of {size} bytes").into())
        }
    })
}

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn endpoint(server: Option<ServerConfig>) -> Outcome<Endpoint> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    // Without privileges the system's limit stays.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(32 << 20));
    let _ = setsockopt(&socket, sockopt::SndBufForce, &(16 << 20));
    Ok(Endpoint::new(EndpointConfig::default(), server, socket, Arc::new(TokioRuntime))?)
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.stream_receive_window(WINDOW_BYTES.into());
    config.receive_window(WINDOW_BYTES.into());
    config.send_window(WINDOW_BYTES.into());
    config.keep_alive_interval(Some(Duration::from_secs(5)));
    Arc::new(config)
}
