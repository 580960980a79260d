//! One UDP socket with GSO and GRO.
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg},
};
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tributary_core::{Duration, Time};

use crate::{
    batch::{Batch, SEGMENTS_MAX},
    clock::Clock,
    config::DriverConfig,
    ecn::CE,
    error::DriverError,
    platform,
    stats::DriverStats,
};

/// A bound, non-blocking socket and its queue.
pub(crate) struct UdpPort {
    socket: Socket,
    state: UdpSocketState,
    pub(crate) local: SocketAddr,
    /// Datagrams of one GSO call; 1 after the kernel or a device refused GSO.
    pub(crate) segments_max: usize,
    /// Whether the kernel takes ECN bits.
    takes_ecn: bool,
    /// With the time since which each batch waits.
    backlog: VecDeque<(Time, Route, Batch)>,
    clock: Clock,
    backlog_bytes: usize,
    backlog_bytes_max: usize,
    pub(crate) is_readable: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) shortfall_bytes: u64,
}

/// A datagram that waited for the kernel longer than this is marked: the target of CoDel (RFC 8289 §4.4).
const SOJOURN_MAX: Duration = Duration::from_millis(5);

/// Source and destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) peer: SockaddrStorage,
    /// Our address, on an unbound socket; `None` leaves it to the routing table.
    pub(crate) source: Option<IpAddr>,
}

impl Route {
    pub(crate) fn new(peer: SocketAddr) -> Self {
        Route { peer: peer.into(), source: None }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    /// The kernel has it, or it was too long, dropped and counted.
    Done,
    /// The kernel takes no more at the moment.
    Blocked,
    /// The kernel refused at least one datagram of it, which was dropped and counted.
    Refused(Errno),
}

impl UdpPort {
    /// Opens and binds a socket. An unspecified address and port zero let the kernel choose.
    pub(crate) fn open(local: SocketAddr, device: Option<&str>, config: &DriverConfig) -> Result<Self, DriverError> {
        let failed = |operation: &'static str| {
            move |error: io::Error| DriverError::Refused(format!("cannot {operation} on {local}: {error}"))
        };
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("make a UDP socket"))?;
        if local.is_ipv6() {
            socket.set_only_v6(true).map_err(failed("restrict the socket to IPv6"))?;
        }
        if let Some(device) = device {
            let hint = "list devices with `ip link`; binding to one may need root";
            platform::bind_device(&socket, device).map_err(|error| {
                DriverError::Refused(format!("cannot bind {local} to device '{device}': {error}; hint: {hint}"))
            })?;
        }
        let mut warnings = Vec::new();
        let mut shortfall_bytes = 0;
        for (kind, wanted_bytes) in
            [(Buffer::Receive, config.receive_buffer_bytes), (Buffer::Send, config.send_buffer_bytes)]
        {
            let granted = kind.size(&socket, wanted_bytes);
            if granted < wanted_bytes {
                shortfall_bytes += (wanted_bytes - granted) as u64;
                warnings.push(format!(
                    "{} buffer of {local} has {granted} of {wanted_bytes} bytes, fast transfers may lose packets; \
                     raise it with `sysctl -w {}={wanted_bytes}`",
                    kind.name(),
                    kind.sysctl(),
                ));
            }
        }
        socket.bind(&local.into()).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::AddrInUse => format!(
                    "address already in use; hint: find who has it with `ss -ulpn 'sport = :{}'`, or choose another port",
                    local.port()
                ),
                ErrorKind::AddrNotAvailable => {
                    "no interface has this address; hint: list them with `ip addr`".into()
                }
                _ => return failed("bind")(error),
            };
            DriverError::Refused(format!("cannot bind {local}: {why}"))
        })?;
        let state = UdpSocketState::new((&socket).into()).map_err(failed("set options"))?;
        platform::forgo_timestamps(&socket);
        let bound = socket.local_addr().map_err(failed("ask for the address"))?;
        let local = bound.as_socket().unwrap_or(local);
        let segments_max = state.max_gso_segments().clamp(1, SEGMENTS_MAX);
        Ok(UdpPort {
            socket,
            state,
            local,
            segments_max,
            takes_ecn: true,
            backlog: VecDeque::new(),
            clock: Clock::new(),
            backlog_bytes: 0,
            backlog_bytes_max: config.backlog_bytes_max,
            is_readable: true,
            warnings,
            shortfall_bytes,
        })
    }
    /// An address that lets the kernel choose, of the family of `peer`.
    pub(crate) fn any_local(peer: SocketAddr) -> SocketAddr {
        if peer.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() }
    }
    /// Whether datagrams wait until the kernel takes them.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }
    /// Fills buffers with arrived datagrams; returns their number, zero if no datagram waits.
    pub(crate) fn receive(&self, buffers: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        match self.state.recv((&self.socket).into(), buffers, meta) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }
    /// Whether the socket takes datagrams at every address of the machine, so that answers must name the addressed one.
    pub(crate) fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }
    /// Sends a batch, now or when the kernel takes it. The batch is empty afterwards.
    pub(crate) fn send(&mut self, route: &Route, batch: &mut Batch, stats: &mut DriverStats) -> Sent {
        if batch.parts.is_empty() {
            return Sent::Done;
        }
        if self.backlog.is_empty() {
            let sent = self.try_send(route, batch, stats);
            if sent != Sent::Blocked {
                batch.clear();
                return sent;
            }
        }
        if self.backlog_bytes + batch.bytes > self.backlog_bytes_max {
            stats.backlog_drops += batch.parts.len() as u64;
            batch.clear();
            return Sent::Blocked;
        }
        self.backlog_bytes += batch.bytes;
        self.backlog.push_back((self.clock.now(), *route, std::mem::take(batch)));
        Sent::Blocked
    }
    /// Sends waiting datagrams, as far as the kernel takes them.
    pub(crate) fn flush(&mut self, stats: &mut DriverStats) {
        while let Some((since, route, mut batch)) = self.backlog.pop_front() {
            // This is the queue in front of the link when it is the bottleneck.
            if batch.ecn != 0 && self.clock.now().since(since) > SOJOURN_MAX {
                batch.ecn = CE;
            }
            if self.try_send(&route, &batch, stats) == Sent::Blocked {
                self.backlog.push_front((since, route, batch));
                return;
            }
            self.backlog_bytes -= batch.bytes;
        }
    }

    fn try_send(&mut self, route: &Route, batch: &Batch, stats: &mut DriverStats) -> Sent {
        if batch.parts.len() > self.segments_max {
            return self.send_singles(route, batch, stats);
        }
        stats.send_calls += 1;
        match self.send_message(route, batch) {
            Ok(_) => {
                stats.gso_calls += u64::from(batch.parts.len() > 1);
                stats.out_datagrams += batch.parts.len() as u64;
                stats.out_bytes += batch.bytes as u64;
                Sent::Done
            }
            Err(Errno::EAGAIN) => {
                stats.send_blocked += 1;
                Sent::Blocked
            }
            Err(Errno::EMSGSIZE) if batch.parts.len() == 1 => {
                stats.oversize_drops += 1;
                Sent::Done
            }
            // Without GSO it is seen whether the kernel minds the length, the device or the peer.
            Err(error) if batch.parts.len() > 1 => {
                let refused_before = stats.oversize_drops + stats.send_errors;
                let sent = self.send_singles(route, batch, stats);
                let is_about_gso = matches!(error, Errno::EIO | Errno::EINVAL | Errno::EOPNOTSUPP);
                if is_about_gso && stats.oversize_drops + stats.send_errors == refused_before {
                    tracing::warn!(local = %self.local, %error, "segmentation offload is refused, sending one by one");
                    self.segments_max = 1;
                }
                sent
            }
            // That address is no longer one of ours; the routing table may know another one.
            Err(Errno::EINVAL | Errno::EADDRNOTAVAIL) if route.source.is_some() => {
                self.try_send(&Route { source: None, ..*route }, batch, stats)
            }
            Err(Errno::EINVAL) if batch.ecn != 0 && self.takes_ecn => {
                tracing::debug!(local = %self.local, "the kernel takes no ECN bits");
                self.takes_ecn = false;
                self.try_send(route, batch, stats)
            }
            Err(error) => {
                tracing::debug!(local = %self.local, %error, "a datagram was refused");
                stats.send_errors += 1;
                Sent::Refused(error)
            }
        }
    }
    /// One system call for the whole batch, with its length of a segment and its source where they are needed.
    fn send_message(&self, route: &Route, batch: &Batch) -> nix::Result<usize> {
        let mut slices = [IoSlice::new(&[]); 2 * SEGMENTS_MAX];
        let count = batch.gather(&mut slices);
        let segment = batch.segment as u16;
        let (v4, v6);
        let class = i32::from(batch.ecn);
        // Only those that are used are sent.
        let mut control = [ControlMessage::ScmRights(&[]); 3];
        let mut used = 0;
        if batch.parts.len() > 1 {
            control[0] = platform::segmentation(&segment).ok_or(Errno::EOPNOTSUPP)?;
            used = 1;
        }
        if batch.ecn != 0
            && self.takes_ecn
            && let Some(codepoint) = platform::codepoint(self.local.is_ipv4(), &batch.ecn, &class)
        {
            control[used] = codepoint;
            used += 1;
        }
        match route.source {
            Some(IpAddr::V4(source)) => {
                let spec_dst = nix::libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) };
                v4 = nix::libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: spec_dst,
                    ipi_addr: nix::libc::in_addr { s_addr: 0 },
                };
                control[used] = ControlMessage::Ipv4PacketInfo(&v4);
                used += 1;
            }
            Some(IpAddr::V6(source)) => {
                // The scope of the peer's address selects the link of a link-local source.
                v6 = nix::libc::in6_pktinfo {
                    ipi6_addr: nix::libc::in6_addr { s6_addr: source.octets() },
                    ipi6_ifindex: 0,
                };
                control[used] = ControlMessage::Ipv6PacketInfo(&v6);
                used += 1;
            }
            None => {}
        }
        sendmsg(self.socket.as_raw_fd(), &slices[..count], &control[..used], MsgFlags::empty(), Some(&route.peer))
    }
    fn send_singles(&mut self, route: &Route, batch: &Batch, stats: &mut DriverStats) -> Sent {
        let mut outcome = Sent::Done;
        for single in batch.singles() {
            match self.try_send(route, &single, stats) {
                Sent::Done => {}
                Sent::Blocked => {
                    self.backlog_bytes += single.bytes;
                    self.backlog.push_back((self.clock.now(), *route, single));
                }
                refused @ Sent::Refused(_) => outcome = refused,
            }
        }
        outcome
    }
}
impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Clone, Copy)]
enum Buffer {
    Receive,
    Send,
}

impl Buffer {
    fn name(self) -> &'static str {
        match self {
            Buffer::Receive => "receive",
            Buffer::Send => "send",
        }
    }
    fn sysctl(self) -> &'static str {
        match self {
            Buffer::Receive => platform::BUFFER_LIMITS[0],
            Buffer::Send => platform::BUFFER_LIMITS[1],
        }
    }
    /// Requests `bytes` bytes, with privileges if there are any, and returns the granted size.
    fn size(self, socket: &Socket, wanted_bytes: usize) -> usize {
        let (plain, is_forced) = match self {
            Buffer::Receive => {
                (socket.set_recv_buffer_size(wanted_bytes), platform::force_receive_buffer(socket, wanted_bytes))
            }
            Buffer::Send => {
                (socket.set_send_buffer_size(wanted_bytes), platform::force_send_buffer(socket, wanted_bytes))
            }
        };
        if plain.is_err() && !is_forced {
            return 0;
        }
        let granted = match self {
            Buffer::Receive => socket.recv_buffer_size(),
            Buffer::Send => socket.send_buffer_size(),
        };
        granted.unwrap_or(0) / platform::BUFFER_SHARE
    }
}
