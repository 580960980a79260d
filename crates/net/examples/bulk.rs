//! How fast the driver alone moves bytes: one sender, one receiver, one thread each, over loopback.
//!
//! ```text
//! cargo run --release -p tributary-net --example bulk -- [BYTES] [none|copy|blake3|write] [DATAGRAM_BYTES] [WINDOW_BYTES] [HOPS]
//! ```
//! Each datagram has 16 bytes of header. `none` looks at headers only, `copy` joins payloads to 64 KiB, `blake3` hashes
//! those as well, `write` also writes them to a file, which is the least that a download costs. HOPS forwarders, one
//! thread each, put a new header in front of the shared payload. The receiver grants credit; nothing is sent twice, so
//! a lost datagram ends the run.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints wall-clock figures")]
use std::{
    collections::VecDeque,
    error::Error,
    fs::File,
    io::Write,
    sync::mpsc,
    time::{Duration as StdDuration, Instant},
};

use bytes::Bytes;
use tributary_core::{event::Event, *};
use tributary_net::{Driver, DriverConfig, FaceConfig, ListenConfig};

const HEADER: usize = 16;
const UNIT: usize = 64 << 10;
const ACK_EVERY: u64 = 256 << 10;

struct Sender {
    file: Bytes,
    sent: usize,
    granted: usize,
    face: Option<FaceId>,
    payload: usize,
}

impl Node for Sender {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        if let Ok(grant) = datagram.header_bytes().try_into() {
            self.face = Some(face);
            self.granted = self.granted.max(u64::from_le_bytes(grant) as usize);
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let end = self.granted.min(self.file.len());
        while self.sent < end && !out.is_full() {
            let len = self.payload.min(self.file.len() - self.sent);
            let mut head = [0; HEADER];
            head[..8].copy_from_slice(&(self.sent as u64).to_le_bytes());
            out.push(&head, self.file.slice(self.sent..self.sent + len));
            self.sent += len;
        }
        (!out.is_empty()).then_some(Transmit { face: self.face? })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

struct Receiver {
    total: u64,
    window: u64,
    got: u64,
    acked: Option<u64>,
    unit: Vec<u8>,
    copies: bool,
    hasher: Option<blake3::Hasher>,
    file: Option<File>,
    done: Option<Event>,
}

impl Receiver {
    fn finish_unit(&mut self) {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.unit);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.unit).expect("the file takes it");
        }
        self.unit.clear();
    }
}
impl Node for Receiver {
    fn handle_datagram(&mut self, _: Time, _: FaceId, datagram: Datagram) {
        let bytes = datagram.header_bytes();
        let offset = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        assert_eq!(offset, self.got, "a datagram was lost or overtaken");
        let payload = &bytes[HEADER..];
        self.got += payload.len() as u64;
        if self.copies {
            self.unit.extend_from_slice(payload);
            if self.unit.len() >= UNIT {
                self.finish_unit();
            }
        }
        if self.got == self.total {
            self.finish_unit();
            let hash = self.hasher.as_ref().map(|hasher| hasher.finalize().to_hex().to_string());
            self.done = Some(Event::Note(hash.unwrap_or_default()));
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        if self.acked.is_some_and(|acked| self.got < acked + ACK_EVERY && self.got < self.total) {
            return None;
        }
        if self.acked == Some(self.total) {
            return None;
        }
        self.acked = Some(self.got);
        out.push(&(self.got + self.window).to_le_bytes(), Bytes::new());
        Some(Transmit { face: FaceId(1) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.done.take()
    }
}

/// Passes datagrams between its uplink, face 1, and the one unsolicited peer.
struct Forwarder {
    downlink: Option<FaceId>,
    up: VecDeque<Datagram>,
    down: VecDeque<Datagram>,
}

impl Node for Forwarder {
    fn handle_datagram(&mut self, _: Time, face: FaceId, datagram: Datagram) {
        if face == FaceId(1) {
            let mut datagram = datagram.with_head(HEADER);
            // Where a hop count would be.
            datagram.head_mut()[HEADER - 1] = datagram.head()[HEADER - 1].wrapping_add(1);
            self.down.push_back(datagram);
        } else {
            self.downlink = Some(face);
            self.up.push_back(datagram);
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        let queues = [(Some(FaceId(1)), &mut self.up), (self.downlink, &mut self.down)];
        let (face, queue) = queues.into_iter().find(|(face, queue)| face.is_some() && !queue.is_empty())?;
        while !out.is_full()
            && let Some(datagram) = queue.pop_front()
        {
            out.push_datagram(datagram);
        }
        Some(Transmit { face: face? })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

/// CPU seconds of this process, from the kernel's ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        args.get(index).map_or(Ok(ByteCount(default)), |text| text.parse::<ByteCount>()).map(|count| count.0)
    };
    let total = number(0, 1 << 30)?;
    let mode = args.get(1).map_or("none", String::as_str);
    let datagram = number(2, 1_472)? as usize;
    let window = number(3, 2 << 20)?;
    let hops = number(4, 0)?;

    let directory = tempfile::tempdir()?;
    let file = (mode == "write").then(|| File::create(directory.path().join("out"))).transpose()?;
    let hasher = matches!(mode, "blake3" | "write").then(blake3::Hasher::new);
    let source = Bytes::from((0..total).map(|i| (i ^ i >> 9) as u8).collect::<Vec<_>>());

    let listen = ListenConfig { mtu: datagram as u32, ..ListenConfig::new("127.0.0.1:0".parse()?) };
    let config =
        DriverConfig { listen: vec![listen.clone()], thread_name: "bulk-sender".into(), ..DriverConfig::default() };
    let make = move || Sender { file: source, sent: 0, granted: 0, face: None, payload: datagram - HEADER };
    let sender = Driver::spawn(make, config, |_, _| {})?;

    let mut upstream = sender.listen_addrs()[0];
    let mut forwarders = Vec::new();
    for _ in 0..hops {
        let config = DriverConfig {
            faces: vec![FaceConfig::new(FaceId(1), upstream)],
            listen: vec![listen.clone()],
            thread_name: "bulk-forwarder".into(),
            ..DriverConfig::default()
        };
        let make = || Forwarder { downlink: None, up: VecDeque::new(), down: VecDeque::new() };
        let forwarder = Driver::spawn(make, config, |_, _| {})?;
        upstream = forwarder.listen_addrs()[0];
        forwarders.push(forwarder);
    }

    let (done, wait) = mpsc::channel();
    let face = FaceConfig::new(FaceId(1), upstream);
    let config = DriverConfig { faces: vec![face], thread_name: "bulk-receiver".into(), ..DriverConfig::default() };
    let copies = mode != "none";
    let make = move || {
        let unit = Vec::with_capacity(2 * UNIT);
        Receiver { total, window, got: 0, acked: None, unit, copies, hasher, file, done: None }
    };
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    let receiver = Driver::spawn(make, config, move |_, event| {
        if let Event::Note(hash) = event {
            let _ = done.send(hash);
        }
    })?;
    for warning in receiver.warnings() {
        println!("warning: {warning}");
    }
    let hash = wait.recv_timeout(StdDuration::from_secs(60));
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_start);
    let (sent, got) = (sender.stop()?, receiver.stop()?);
    hash.map_err(|_| "the transfer stands still: a datagram was lost; try a smaller window")?;

    println!(
        "{mode}, {hops} hops: {total} bytes in {seconds:.3} s: {:.0} MB/s, {:.2} CPU s/GiB in all",
        total as f64 / seconds / 1e6,
        cpu / (total as f64 / f64::from(1 << 30)),
    );
    println!(
        "sender: {:.1} datagrams per send call, {} waits; receiver: {:.1} datagrams per buffer, {} receive calls, {} waits, {} buffers",
        sent.out_datagrams as f64 / sent.send_calls as f64,
        sent.wait_calls,
        got.in_datagrams as f64 / got.gro_buffers.max(1) as f64,
        got.receive_calls,
        got.wait_calls,
        got.buffers_allocated,
    );
    println!("profile: perf record -g --call-graph dwarf -- <this command>; perf report --comm bulk-receiver");
    Ok(())
}
