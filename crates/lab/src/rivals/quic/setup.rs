//! Configuration of quinn-proto: everything random comes from the seed or does not change lengths and times.
use std::{net::Ipv4Addr, sync::Arc};

use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, ServerConfig, TransportConfig, VarInt,
    congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig},
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
    rustls::{
        self, RootCertStore,
        client::Resumption,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
        version::TLS13,
    },
};
use tributary_core::{Duration, Random};

use super::QuicController;
use crate::rivals::ip::{IPV4_BYTES, UDP_BYTES};

/// The name in the certificate.
pub(super) const SERVER_NAME: &str = "mirror.example";

/// What every endpoint of a host has in common.
pub(super) fn endpoint_config(seed: u64) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    let mut random = Random::new(seed, SEED_STREAM);
    let mut rng_seed = [0; 32];
    for eight in rng_seed.chunks_exact_mut(8) {
        eight.copy_from_slice(&random.bits().to_le_bytes());
    }
    config.rng_seed(Some(rng_seed));
    config.cid_generator(move || Box::new(SeededIds(Random::new(seed, ID_STREAM))));
    config
}

/// The transport of both ends. Flow control is as wide as `window_bytes`; everything else that shapes the traffic
/// (initial window, ACK delay, packet and time threshold, pacing) is quinn's default.
pub(super) fn transport_config(controller: QuicController, window_bytes: u64, mtu_bytes: u32) -> Arc<TransportConfig> {
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
        QuicController::NewReno => Arc::new(NewRenoConfig::default()),
        QuicController::Cubic => Arc::new(CubicConfig::default()),
        QuicController::Bbr => Arc::new(BbrConfig::default()),
    };
    let window = VarInt::from_u64(window_bytes).unwrap_or(VarInt::MAX);
    let mut config = TransportConfig::default();
    config
        .congestion_controller_factory(factory)
        .stream_receive_window(window)
        .receive_window(window)
        .send_window(window_bytes)
        // The path carries full packets; probing for that would only cost a little.
        .initial_mtu((mtu_bytes as usize - IPV4_BYTES - UDP_BYTES) as u16)
        .mtu_discovery_config(None)
        // A silent path is judged by the downloader, for both rivals alike.
        .max_idle_timeout(None)
        // The spin bit is a random choice per connection.
        .allow_spin(false);
    Arc::new(config)
}

/// A server that proves itself with the lab's certificate.
pub(super) fn server_config(transport: Arc<TransportConfig>) -> ServerConfig {
    let (certificate, key) = certificate();
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is that of the certificate");
    // No connection is resumed, so no tickets; their packets would only add to the file's.
    tls.send_tls13_tickets = 0;
    let crypto = QuicServerConfig::try_from(tls).expect("ring has the suite of QUIC's first packets");
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport).migration(false).validation_token.sent(0);
    config
}

/// A client that trusts the lab's certificate and no other.
pub(super) fn client_config(transport: Arc<TransportConfig>, seed: u64) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate().0).expect("the lab's certificate is well-formed");
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = Resumption::disabled();
    let crypto = QuicClientConfig::try_from(tls).expect("ring has the suite of QUIC's first packets");
    let mut config = ClientConfig::new(Arc::new(crypto));
    let ids = std::sync::Mutex::new(SeededIds(Random::new(seed, FIRST_ID_STREAM)));
    config.initial_dst_cid_provider(Arc::new(move || {
        ids.lock().expect("nothing panics while it holds the lock").generate_cid()
    }));
    config.transport_config(transport);
    config
}

/// The same certificate in every run: key, serial number and signature scheme are fixed, so its length is as well.
///
/// The key guards nothing: it is printed here, and its only use is that handshakes have their true size.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut pkcs8 = PKCS8_ED25519.to_vec();
    pkcs8.extend_from_slice(&[0x42; 32]);
    let der = PrivatePkcs8KeyDer::from(pkcs8);
    let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&der, &rcgen::PKCS_ED25519)
        .expect("32 bytes of any value are a key");
    let mut params = rcgen::CertificateParams::new([SERVER_NAME.to_string()]).expect("the name is a valid DNS name");
    params.serial_number = Some(rcgen::SerialNumber::from(1));
    let certificate = params.self_signed(&key).expect("signing with a valid key does not fail");
    (certificate.der().clone(), PrivateKeyDer::Pkcs8(der))
}

/// Connection ids of eight bytes from the seed.
struct SeededIds(Random);

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.bits().to_le_bytes())
    }
    fn cid_len(&self) -> usize {
        8
    }
    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The seed of two hosts of one network differs by their address.
pub(super) fn host_seed(seed: u64, address: Ipv4Addr) -> u64 {
    seed ^ u64::from(address.to_bits()).rotate_left(32)
}

/// The prefix of the 32 bytes of a private Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// Random streams of one host.
const SEED_STREAM: u64 = 0x5155_4943_0001;
const ID_STREAM: u64 = 0x5155_4943_0002;
const FIRST_ID_STREAM: u64 = 0x5155_4943_0003;
