//! What our figures are measured against: programs of our own that run as processes of `xtask` itself.
pub(crate) mod http;
pub(crate) mod pump;
pub(crate) mod quic;
pub(crate) mod tcp;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::{Outcome, print_line};

/// The ends of the yardsticks. Servers print one line, `ready ADDRESS`, and run until they are stopped; clients print
/// one JSON object with `bytes` and `seconds`.
#[derive(Subcommand, Debug)]
pub(crate) enum Yardstick {
    /// Serve a file by the bare UDP pump.
    PumpServe {
        /// The file.
        file: PathBuf,
        /// Bytes of a datagram.
        #[arg(long, default_value_t = DATAGRAM_BYTES)]
        datagram: usize,
    },
    /// Fetch a file from the bare UDP pump, hash it with BLAKE3 and write it.
    PumpGet {
        /// Where the server is.
        server: SocketAddr,
        /// Where to write.
        output: PathBuf,
        /// How many bytes the file has.
        size: u64,
        /// Bytes of a datagram; the server's.
        #[arg(long, default_value_t = DATAGRAM_BYTES)]
        datagram: usize,
    },
    /// Serve a file by quinn.
    QuicServe {
        /// The file.
        file: PathBuf,
        /// Where to write the certificate.
        certificate: PathBuf,
    },
    /// Fetch a file by quinn on one stream and write it.
    QuicGet {
        /// Where the server is.
        server: SocketAddr,
        /// The server's certificate.
        certificate: PathBuf,
        /// Where to write.
        output: PathBuf,
        /// How many bytes the file has.
        size: u64,
    },
    /// Serve bytes by the kernel's TCP.
    TcpServe {
        /// Where to listen.
        listen: SocketAddr,
        /// The kernel's congestion control, such as cubic or bbr.
        congestion: String,
        /// How many bytes each client gets.
        size: u64,
    },
    /// Fetch bytes by the kernel's TCP.
    TcpGet {
        /// Where the server is.
        server: SocketAddr,
        /// How many bytes it sends.
        size: u64,
        /// Stop after this many seconds and count the bytes received by then.
        #[arg(long)]
        seconds_max: Option<f64>,
    },
    /// Serve the files of a folder by HTTP/1.1 with ranges.
    HttpServe {
        /// The folder.
        folder: PathBuf,
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// The kernel's congestion control, such as cubic or bbr [default: the system's].
        #[arg(long)]
        congestion: Option<String>,
    },
    /// Fetch a file by HTTP/1.1 and write it; bytes missing when a connection is closed are requested over a new one.
    HttpGet {
        /// Where the server is.
        server: SocketAddr,
        /// The name of the file.
        name: String,
        /// Where to write.
        output: PathBuf,
        /// How many bytes the file has.
        size: u64,
        /// Close a connection that has been silent for this many seconds.
        #[arg(long)]
        timeout: f64,
        /// Give it up too as soon as this host's address towards the server is another one.
        #[arg(long)]
        follow: bool,
    },
}

/// Bytes of a datagram in the pump of the targets: 16 of header and 1,384 of payload.
pub(crate) const DATAGRAM_BYTES: usize = 1_400;

/// What a client prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fetched {
    /// Bytes received and written.
    pub(crate) bytes: u64,
    /// From the first request to the last byte written.
    pub(crate) seconds: f64,
    /// BLAKE3 of the bytes, if the client computes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) hash: Option<String>,
}

impl Yardstick {
    /// Runs one end.
    ///
    /// # Errors
    /// Errors of the server or client.
    pub(crate) fn run(self) -> Outcome {
        let ready = |address| print_line(&format!("ready {address}"));
        match self {
            Yardstick::PumpServe { file, datagram } => pump::serve(&file, datagram, ready),
            Yardstick::PumpGet { server, output, size, datagram } => {
                outcome_of(&pump::get(server, &output, size, datagram)?)
            }
            Yardstick::QuicServe { file, certificate } => quic::serve(&file, &certificate, ready),
            Yardstick::QuicGet { server, certificate, output, size } => {
                outcome_of(&quic::get(server, &certificate, &output, size)?)
            }
            Yardstick::TcpServe { listen, congestion, size } => tcp::serve(listen, &congestion, size, ready),
            Yardstick::TcpGet { server, size, seconds_max } => outcome_of(&tcp::get(server, size, seconds_max)?),
            Yardstick::HttpServe { folder, listen, congestion } => {
                http::serve(&folder, listen, congestion.as_deref(), ready)
            }
            Yardstick::HttpGet { server, name, output, size, timeout, follow } => {
                let patience = Duration::try_from_secs_f64(timeout)?;
                outcome_of(&http::Download { server, name, output, size, patience, follow }.run()?)
            }
        }
    }
}

fn outcome_of(fetched: &Fetched) -> Outcome {
    print_line(&serde_json::to_string(fetched)?);
    Ok(())
}
