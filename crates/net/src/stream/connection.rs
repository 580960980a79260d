//! One stream: bytes in, packets out, and the other way round.
use std::{
    collections::VecDeque,
    fmt,
    io::{self, ErrorKind, IoSlice, Read},
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use nix::errno::Errno;
use socket2::{SockRef, Socket, TcpKeepalive, Type};
use tungstenite::{
    HandshakeError, Message, WebSocket,
    handshake::{
        MidHandshake,
        client::ClientHandshake,
        server::{Callback, ErrorResponse, Request, Response, ServerHandshake},
    },
    http::{HeaderValue, StatusCode, header},
    protocol::WebSocketConfig,
};

use super::{Framing, PacketLength, StreamAddress};
use crate::platform;

tributary_core::declared! {
    /// A connected stream, or one that is being connected.
    pub(super) struct Connection {
        state: State = state,
        inbox: Inbox = Inbox::default(),
        outbox: Outbox = Outbox::default(),
        /// On a WebSocket: messages that wait for it.
        messages: VecDeque<Bytes> = VecDeque::new(),
        waiting_bytes: usize = 0,
        waiting_bytes_max: usize = waiting_bytes_max,
        pub(super) packets_dropped: u64 = 0,
    }
    fn new(state: State, waiting_bytes_max: usize) {}
}

enum State {
    /// The connect call is in progress; a handshake follows for a WebSocket.
    Connecting {
        socket: Socket,
        address: StreamAddress,
    },
    ClientHandshake(MidHandshake<ClientHandshake<Socket>>),
    ServerHandshake(MidHandshake<ServerHandshake<Socket, WebOrigins>>),
    Plain(Socket),
    Web(Box<WebSocket<Socket>>),
    /// Only between two other states.
    Broken,
}

/// What a look at a stream gave.
#[derive(Debug)]
pub(super) enum Progress {
    /// It is open; these packets arrived.
    Packets(Vec<Bytes>),
    /// It is not open yet.
    Pending,
    /// It is closed, and why.
    Closed(String),
}

/// After how long without an acknowledgement a TCP connection counts as broken (RFC 5482). A peer that loses its power
/// or its address closes nothing, and TCP's default is a quarter of an hour, or for ever where nothing is sent.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Read by one call at most.
const READ_BYTES: usize = 65_536;
/// Smallest read buffer: the longest packet fits.
const READ_BYTES_MIN: usize = 9_216;
/// From this length on packets go to the kernel from where they lie.
const GATHERED_BYTES_MIN: usize = 2_048;
/// Pieces that one call takes.
const PIECES_MAX: usize = 64;
/// Bytes read per turn, so that one busy stream does not starve others.
const LOOK_BYTES: usize = 4 * READ_BYTES;

impl Connection {
    /// Starts to connect to `address`.
    pub(super) fn dial(address: &StreamAddress, waiting_bytes_max: usize) -> io::Result<Self> {
        let target = address.socket_address()?;
        let socket = Socket::new(target.domain(), Type::STREAM, None)?;
        prepare(&socket)?;
        match socket.connect(&target) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
            Err(error) => return Err(error),
        }
        Ok(Connection::new(State::Connecting { socket, address: address.clone() }, waiting_bytes_max))
    }
    /// Takes over a socket that a listener at `address` has accepted. Web pages of `origins` may be there.
    pub(super) fn accepted(
        socket: Socket,
        address: &StreamAddress,
        origins: &WebOrigins,
        waiting_bytes_max: usize,
    ) -> io::Result<Self> {
        prepare(&socket)?;
        let state = match address {
            StreamAddress::Tcp(_) | StreamAddress::Unix(_) => State::Plain(socket),
            StreamAddress::WebSocket(_) => {
                let config = Some(web_config(waiting_bytes_max));
                State::ServerHandshake(ServerHandshake::start(socket, origins.clone(), config))
            }
        };
        Ok(Connection::new(state, waiting_bytes_max))
    }
    /// Whether packets can be sent.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Plain(_) | State::Web(_))
    }
    /// Whether it waits for the kernel to take bytes, or to finish connecting.
    pub(super) fn wants_write(&self) -> bool {
        self.waiting_bytes > 0 || matches!(self.state, State::Connecting { .. })
    }
    /// Queues one packet, which leaves with [`Connection::flush`]. A packet that exceeds the queue's limit is dropped.
    pub(super) fn push(&mut self, head: &[u8], body: &Bytes) {
        let length = head.len() + body.len();
        if !self.is_open() || self.waiting_bytes + length > self.waiting_bytes_max {
            self.packets_dropped += 1;
            return;
        }
        self.waiting_bytes += length;
        if let State::Web(_) = self.state {
            let message = if head.is_empty() { body.clone() } else { [head, body].concat().into() };
            self.messages.push_back(message);
        } else {
            self.outbox.push(head, body);
        }
    }
    /// Writes as much as the kernel accepts. An error shows at the next read.
    pub(super) fn flush(&mut self) {
        match &mut self.state {
            State::Plain(socket) => {
                while !self.outbox.is_empty() {
                    match self.outbox.write(socket) {
                        Ok(count) => self.waiting_bytes -= count,
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(_) => return self.outbox.keep(),
                    }
                }
            }
            State::Web(web) => {
                while let Some(message) = self.messages.front() {
                    match web.write(Message::Binary(message.clone())) {
                        Ok(()) => {
                            self.waiting_bytes -= message.len();
                            self.messages.pop_front();
                        }
                        Err(_) => break,
                    }
                }
                // The WebSocket keeps unwritten bytes, and the next turn writes them.
                let _ = web.flush();
            }
            State::Connecting { .. } | State::ClientHandshake(_) | State::ServerHandshake(_) | State::Broken => {}
        }
    }
    /// Reads available bytes after the kernel reported that the socket may be readable.
    pub(super) fn look(&mut self, framing: &dyn Framing) -> Progress {
        if !self.is_open() {
            match self.go_on_opening() {
                Ok(true) => {}
                Ok(false) => return Progress::Pending,
                Err(reason) => return Progress::Closed(reason),
            }
        }
        self.flush();
        let read = match &mut self.state {
            State::Web(web) => read_messages(web),
            State::Plain(socket) => read_packets(socket, &mut self.inbox, framing),
            _ => unreachable!("it is open"),
        };
        match read {
            Ok(packets) => Progress::Packets(packets),
            Err(reason) => Progress::Closed(reason),
        }
    }
    /// Continues to connect or shake hands; true once it is open.
    fn go_on_opening(&mut self) -> Result<bool, String> {
        let config = Some(web_config(self.waiting_bytes_max));
        self.state = match std::mem::replace(&mut self.state, State::Broken) {
            State::Connecting { socket, address } => {
                if let Some(error) = socket.take_error().map_err(text)? {
                    return Err(text(error));
                }
                if socket.peer_addr().is_err() {
                    self.state = State::Connecting { socket, address };
                    return Ok(false);
                }
                match &address {
                    StreamAddress::Tcp(_) | StreamAddress::Unix(_) => State::Plain(socket),
                    StreamAddress::WebSocket(host) => {
                        let request = tungstenite::ClientRequestBuilder::new(
                            format!("ws://{host}/").parse().map_err(|error| format!("{error}"))?,
                        );
                        let request = tungstenite::client::IntoClientRequest::into_client_request(request);
                        let request = request.map_err(text)?;
                        from_client(ClientHandshake::start(socket, request, config).map_err(text)?.handshake())?
                    }
                }
            }
            State::ClientHandshake(handshake) => from_client(handshake.handshake())?,
            State::ServerHandshake(handshake) => match handshake.handshake() {
                Ok(web) => State::Web(Box::new(web)),
                Err(HandshakeError::Interrupted(handshake)) => State::ServerHandshake(handshake),
                Err(HandshakeError::Failure(error)) => return Err(text(error)),
            },
            open => open,
        };
        Ok(self.is_open())
    }
}

/// The origins of web pages that may open a WebSocket. Other pages get 403; a client without an origin is no page.
///
/// A browser lets any page connect to this machine, and there it would count as one of its programs (RFC 6455 §10.2).
#[derive(Clone, Debug, Default)]
pub(super) struct WebOrigins(pub(super) Arc<[String]>);

impl Callback for WebOrigins {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let is_known = |origin: &HeaderValue| self.0.iter().any(|known| known.as_bytes() == origin.as_bytes());
        let given = request.headers().get_all(header::ORIGIN);
        match given.iter().find(|origin| !is_known(origin)) {
            None => Ok(response),
            Some(origin) => {
                tracing::debug!(?origin, "a web page may not connect; web_origins has others");
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = StatusCode::FORBIDDEN;
                Err(refusal)
            }
        }
    }
}

type ClientEnd =
    Result<(WebSocket<Socket>, tungstenite::handshake::client::Response), HandshakeError<ClientHandshake<Socket>>>;

fn from_client(end: ClientEnd) -> Result<State, String> {
    match end {
        Ok((web, _)) => Ok(State::Web(Box::new(web))),
        Err(HandshakeError::Interrupted(handshake)) => Ok(State::ClientHandshake(handshake)),
        Err(HandshakeError::Failure(error)) => Err(text(error)),
    }
}
fn read_packets(socket: &mut Socket, inbox: &mut Inbox, framing: &dyn Framing) -> Result<Vec<Bytes>, String> {
    let mut packets = Vec::new();
    let mut read = 0;
    let end = loop {
        let room = inbox.room();
        let room_bytes = room.len();
        let result = socket.read(room);
        match result {
            Ok(0) => break Err("the peer closed it".to_string()),
            Ok(count) => {
                inbox.filled += count;
                read += count;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => break Err(text(error)),
        }
        while inbox.filled > 0 {
            match framing.packet_length(inbox.bytes()) {
                PacketLength::Known(length) if length <= inbox.filled && length > 0 => packets.push(inbox.take(length)),
                PacketLength::Known(0) | PacketLength::Invalid => return Err("what arrived is no packet".into()),
                PacketLength::Known(_) | PacketLength::Unknown => break,
            }
        }
        // A short read has taken all there was.
        if read >= LOOK_BYTES || result.is_ok_and(|count| count < room_bytes) {
            break Ok(());
        }
    };
    // Packets before the end still count; the next read reports the end again.
    if packets.is_empty() { end.map(|()| packets) } else { Ok(packets) }
}

/// Bytes that have arrived and form no complete packet yet.
#[derive(Default)]
struct Inbox {
    /// They, and room behind them that need not be cleared again.
    buffer: BytesMut,
    filled: usize,
}
impl Inbox {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }
    /// Where the next bytes go.
    fn room(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.filled < READ_BYTES_MIN {
            self.buffer.truncate(self.filled);
            self.buffer.resize(self.filled + READ_BYTES, 0);
        }
        &mut self.buffer[self.filled..]
    }
    fn take(&mut self, length: usize) -> Bytes {
        self.filled -= length;
        self.buffer.split_to(length).freeze()
    }
}

/// Bytes that wait for the kernel.
#[derive(Default)]
struct Outbox {
    pieces: VecDeque<Bytes>,
    /// What follows them: heads and short packets.
    rest: BytesMut,
    /// Whether the kernel has not taken all of it.
    is_blocked: bool,
}
impl Outbox {
    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.rest.is_empty()
    }
    fn push(&mut self, head: &[u8], body: &Bytes) {
        self.rest.extend_from_slice(head);
        if self.is_blocked || body.len() < GATHERED_BYTES_MIN {
            return self.rest.extend_from_slice(body);
        }
        if !self.rest.is_empty() {
            self.pieces.push_back(self.rest.split().freeze());
        }
        self.pieces.push_back(body.clone());
    }
    /// Passes the kernel as many as it takes by one call.
    fn write(&mut self, socket: &Socket) -> io::Result<usize> {
        let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.rest[..]]);
        let pieces: Vec<IoSlice<'_>> =
            pieces.filter(|piece| !piece.is_empty()).take(PIECES_MAX).map(IoSlice::new).collect();
        let count = socket.send_vectored(&pieces)?;
        let mut left = count;
        while left > 0 {
            match self.pieces.front_mut() {
                Some(piece) if piece.len() <= left => {
                    left -= piece.len();
                    self.pieces.pop_front();
                }
                Some(piece) => piece.advance(std::mem::take(&mut left)),
                None => self.rest.advance(std::mem::take(&mut left)),
            }
        }
        self.is_blocked &= !self.rest.is_empty();
        Ok(count)
    }
    /// What the kernel does not take now may wait for long, and must not keep the buffers that it came in.
    fn keep(&mut self) {
        if std::mem::replace(&mut self.is_blocked, true) {
            return;
        }
        let length = self.pieces.iter().map(Bytes::len).sum::<usize>() + self.rest.len();
        let mut all = BytesMut::with_capacity(length);
        self.pieces.drain(..).for_each(|piece| all.extend_from_slice(&piece));
        all.extend_from_slice(&self.rest);
        self.rest = all;
    }
}

fn read_messages(web: &mut WebSocket<Socket>) -> Result<Vec<Bytes>, String> {
    let mut packets = Vec::new();
    let mut read = 0;
    let end = loop {
        if read >= LOOK_BYTES {
            break Ok(());
        }
        match web.read() {
            Ok(Message::Binary(packet)) => {
                read += packet.len();
                packets.push(packet);
            }
            // Pings are answered by the library; text means nothing here.
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
            Err(error) => break Err(text(error)),
        }
    };
    if packets.is_empty() { end.map(|()| packets) } else { Ok(packets) }
}
fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    if !socket.local_addr()?.is_unix() {
        socket.set_tcp_nodelay(true)?;
        platform::limit_unacknowledged(&SockRef::from(socket), SILENCE_MAX)?;
        let probes = TcpKeepalive::new().with_time(SILENCE_MAX / 3).with_interval(SILENCE_MAX / 3);
        socket.set_tcp_keepalive(&probes)?;
    }
    Ok(())
}
fn web_config(waiting_bytes_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .write_buffer_size(0)
        .max_write_buffer_size(waiting_bytes_max.max(READ_BYTES))
        .max_message_size(Some(READ_BYTES))
        .max_frame_size(Some(READ_BYTES))
}
fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.state {
            State::Connecting { socket, .. } | State::Plain(socket) => socket.as_fd(),
            State::Web(web) => web.get_ref().as_fd(),
            State::ClientHandshake(handshake) => handshake.get_ref().get_ref().as_fd(),
            State::ServerHandshake(handshake) => handshake.get_ref().get_ref().as_fd(),
            State::Broken => unreachable!("a closed connection is forgotten at once"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::Domain;

    #[test]
    fn what_waits_leaves_in_its_order_however_little_the_kernel_takes() {
        let (here, mut there) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair of sockets");
        here.set_nonblocking(true).expect("a socket");
        there.set_nonblocking(true).expect("a socket");
        here.set_send_buffer_size(20_000).expect("a socket");
        let (mut outbox, mut sent, mut came, mut random) = (Outbox::default(), Vec::new(), Vec::new(), 7u32);
        let mut below = |most: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % most
        };
        let mut take = |most: usize, came: &mut Vec<u8>| {
            let mut some = vec![0; most];
            let count = there.read(&mut some).unwrap_or(0);
            came.extend_from_slice(&some[..count]);
        };
        for round in 0..3_000 {
            let (head, body) = (vec![1; below(30) as usize], Bytes::from(vec![round as u8; below(9_000) as usize]));
            outbox.push(&head, &body);
            sent.extend_from_slice(&head);
            sent.extend_from_slice(&body);
            while !outbox.is_empty() {
                if outbox.write(&here).is_err() {
                    outbox.keep();
                    break;
                }
            }
            take(below(20_000) as usize, &mut came);
        }
        while came.len() < sent.len() {
            take(50_000, &mut came);
            let _ = outbox.write(&here);
        }
        assert!(came == sent && !outbox.is_blocked);
    }
}
