//! How well the driver keeps the rate and delay of emulated links on real sockets, and its cost.
//!
//! ```text
//! cargo run --release -p trib-net --example shaped -- [SECONDS] [MBPS ...]
//! ```
//! For each rate one face offers 1.2 times the rate for some seconds; the receiver measures the arrivals. Lateness is
//! the time from when a packet should have arrived, by the emulated link, to when the receiving node got it.
#![expect(clippy::print_stdout, reason = "a benchmark prints wall-clock figures")]
use std::{error::Error, thread, time::Duration as StdDuration};

use bytes::Bytes;
use tributary_core::{event::Event, link::LinkConfig, *};
use tributary_net::{Driver, DriverConfig, FaceConfig, ListenConfig};

const LEN: usize = 1_444;
/// Bytes of a datagram on the emulated link: with IPv4 and UDP headers.
const WIRE: u64 = 1_472;
const DELAY: Duration = Duration::from_millis(10);

/// Sends a datagram every `gap`.
struct Source {
    gap: Duration,
    next: Time,
    body: Bytes,
}
impl Node for Source {
    fn handle_datagram(&mut self, _: Time, _: FaceId, _: Datagram) {}
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time, out: &mut TransmitBuf) -> Option<Transmit> {
        while self.next <= now && !out.is_full() {
            self.next += self.gap;
            out.push(b"", self.body.clone());
        }
        (!out.is_empty()).then_some(Transmit { face: FaceId(1) })
    }
    fn poll_timeout(&self) -> Option<(Time, TimerId)> {
        Some((self.next, TimerId(1)))
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

#[derive(Default)]
struct Sink {
    arrivals: Vec<Time>,
}
impl Node for Sink {
    fn handle_datagram(&mut self, now: Time, _: FaceId, _: Datagram) {
        self.arrivals.push(now);
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, _: Time, _: &mut TransmitBuf) -> Option<Transmit> {
        None
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
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().map_or(Ok(2.0), |text| text.parse())?;
    let mut rates = args.map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    if rates.is_empty() {
        rates = vec![8, 20, 100, 500, 1_000];
    }
    for mbps in rates {
        let rate = Rate::from_mbps(mbps);
        let listen = vec![ListenConfig::new("127.0.0.1:0".parse()?)];
        let sink = Driver::spawn(Sink::default, DriverConfig { listen, ..DriverConfig::default() }, |_, _| {})?;
        // Deep enough to bridge the moments when the scheduler runs other threads.
        let queue_bytes = rate.bytes_in(Duration::from_millis(40)).max(50_000);
        let link = LinkConfig { queue_bytes, ..LinkConfig::new(rate, DELAY) };
        let face = FaceConfig { link: Some(link), ..FaceConfig::new(FaceId(1), sink.listen_addrs()[0]) };
        let make = move || {
            let gap = Rate::from_bits_per_second(rate.bits_per_second() / 10 * 12).time_for(WIRE);
            Source { gap, next: Time::ZERO, body: Bytes::from(vec![0; LEN]) }
        };
        let cpu = cpu_seconds();
        let source = Driver::spawn(make, DriverConfig { faces: vec![face], ..DriverConfig::default() }, |_, _| {})?;
        thread::sleep(StdDuration::from_secs_f64(seconds));
        let sent = source.stop()?;
        let arrivals = sink.call(|node, _| std::mem::take(&mut node.arrivals))?;
        let cpu = cpu_seconds() - cpu;
        sink.stop()?;
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            return Err("nothing arrived".into());
        };
        let measured = (arrivals.len() - 1) as f64 * WIRE as f64 * 8.0 / last.since(*first).as_secs_f64();
        // Against the earliest line that no arrival is before.
        let ideal = |index: usize| rate.time_for(index as u64 * WIRE);
        let offset = (0..arrivals.len()).map(|i| (arrivals[i] - ideal(i)).as_nanos()).min().unwrap_or(0);
        let mut late: Vec<u64> =
            (0..arrivals.len()).map(|i| ((arrivals[i] - ideal(i)).as_nanos() - offset) / 1_000).collect();
        late.sort_unstable();
        let link = sent.faces[0].link.ok_or("the face is shaped")?;
        println!(
            "{mbps} Mbit/s: measured / configured {:.4}; late µs p50 {} p99 {} max {}; {} delivered, {} dropped by the queue; \
             {:.1} % CPU, {:.1} datagrams per send call",
            measured / rate.bits_per_second() as f64,
            late[late.len() / 2],
            late[late.len() * 99 / 100],
            late[late.len() - 1],
            arrivals.len(),
            link.dropped_packets,
            100.0 * cpu / seconds,
            sent.out_datagrams as f64 / sent.send_calls as f64,
        );
    }
    Ok(())
}
