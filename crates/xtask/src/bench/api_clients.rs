//! A fetch over a link of 200 Mbit/s while 1,000 clients ask the receiver's API for its status every second, and 200
//! more listen to its events, compared with the same fetch without them.
//!
//! The clients run in this process, on the same machine: their processor time slows the fetch too.
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    runtime::Runtime,
};

use super::{
    Context, Findings, clear,
    ours::NAME,
    rivals::{Source, TRANSFER_PATIENCE},
};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        rounds::{Contender, Sample, take_turns},
        stage::Stage,
        trib::{Daemon, Done, Face, NodeSpec, Trib},
    },
};

/// Clients that request the status.
const CLIENTS: usize = 1_000;
/// Clients that listen to events.
const STREAMS: usize = 200;
/// Time from one question of a client to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// The link to the receiver.
const LINK: &str = "rate = \"200Mbps\", delay = \"5ms\", queue = \"512KiB\"";
/// The maximum size in bytes; a fetch then takes ten seconds.
const SIZE_MAX: u64 = 256 << 20;

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let source = Source::make(&mut context.stage, context.arguments.size.0.min(SIZE_MAX))?;
    let (stage, trib) = (&context.stage, &context.trib);
    let receiver_at = stage.address()?;
    let publisher = NodeSpec::new("api-publisher", &["sender", "router", "resolver", "topology-manager"])
        .face(Face { egress: Some(LINK.into()), ..Face::to(receiver_at) })
        .publish(NAME, &source.path)
        .start(trib, stage)?;
    let listen = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let receiver = NodeSpec::new("api-receiver", &["receiver"])
        .listen(receiver_at)
        .face(Face::to(publisher.address))
        .sections(format!("[http]\nlisten = \"{listen}\"\nconnections = 2000\n"))
        .start(trib, stage)?;
    publisher.wait_until_published()?;
    receiver.wait_until_neighbours(1)?;

    let load = Arc::new(Load::default());
    let mut contenders = [
        Contender::new("with clients", || {
            let crowd = Crowd::start(listen, &load)?;
            let sample = fetch(trib, stage, &source, &publisher, &receiver);
            drop(crowd);
            sample
        }),
        Contender::new("alone", || fetch(trib, stage, &source, &publisher, &receiver)),
    ];
    take_turns(context.arguments.rounds(), &mut contenders, || stage.warm(source.size));
    let mut findings = Findings::default();
    findings.notes.extend(contenders.iter().filter_map(Contender::failure));
    let [with, alone] = &contenders;
    if !with.is_complete() || !alone.is_complete() {
        return Err("a fetch was not complete".into());
    }
    let rate = Figure::new("rate of the fetch", "MB/s", with.values(Sample::rate));
    findings.figures.push(rate.rival("without clients", alone.values(Sample::rate)));
    let cpu = |contender: &Contender<'_>| contender.values(|sample| sample.client_cpu_seconds / sample.seconds);
    findings.figures.push(Figure::new("CPU of the receiver", "cores", cpu(with)).rival("without clients", cpu(alone)));
    findings.figures.push(Figure::new("answers", "a second", load.rates()));
    findings.figures.push(Figure::new("slowest of 100 answers", "ms", load.slow()));
    let (failed, events) = (load.failed.load(Ordering::Relaxed), load.events.load(Ordering::Relaxed));
    findings.notes.push(format!(
        "{CLIENTS} clients ask every {PAUSE:?}, {STREAMS} listen: {events} events heard, {failed} requests failed"
    ));
    Ok(findings)
}

fn fetch(trib: &Trib, stage: &Stage, source: &Source, publisher: &Daemon, receiver: &Daemon) -> Outcome<Sample> {
    let output = stage.path("api-output");
    clear(&output)?;
    let before = (publisher.process.cpu_seconds()?, receiver.process.cpu_seconds()?);
    let ended = trib.get_by(stage, receiver, NAME, &output)?.finish(TRANSFER_PATIENCE)?;
    let done = Done::read(&ended.lines)?;
    let after = (publisher.process.cpu_seconds()?, receiver.process.cpu_seconds()?);
    source.take(&output)?;
    Ok(Sample {
        bytes: done.bytes,
        seconds: done.seconds,
        server_cpu_seconds: after.0 - before.0,
        client_cpu_seconds: after.1 - before.1,
        ..Sample::default()
    })
}

/// What the clients of all rounds met.
#[derive(Default)]
struct Load {
    events: AtomicU64,
    failed: AtomicU64,
    /// The duration of each round, and its response times in milliseconds.
    rounds: Mutex<Vec<(f64, Vec<f64>)>>,
}
impl Load {
    fn rates(&self) -> Vec<f64> {
        self.of_rounds(|(seconds, times)| times.len() as f64 / seconds)
    }
    fn slow(&self) -> Vec<f64> {
        self.of_rounds(|(_, times)| {
            let mut sorted = times.clone();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN)
        })
    }
    fn of_rounds(&self, of: impl Fn(&(f64, Vec<f64>)) -> f64) -> Vec<f64> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner).iter().map(of).collect()
    }
}

/// Clients that run until this is dropped.
struct Crowd {
    runtime: Option<Runtime>,
    load: Arc<Load>,
    times: Arc<Mutex<Vec<f64>>>,
    since: Instant,
}
impl Crowd {
    fn start(at: SocketAddr, load: &Arc<Load>) -> Outcome<Crowd> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let times = Arc::<Mutex<Vec<f64>>>::default();
        for client in 0..CLIENTS {
            let (times, load) = (Arc::clone(&times), Arc::clone(load));
            // Their requests are spread over time.
            let first = PAUSE * client as u32 / CLIENTS as u32;
            runtime.spawn(async move {
                tokio::time::sleep(first).await;
                while ask(at, &times).await.is_err() {
                    load.failed.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        for _ in 0..STREAMS {
            let load = Arc::clone(load);
            runtime.spawn(async move {
                if listen(at, &load).await.is_err() {
                    load.failed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // All are connected when the fetch starts.
        std::thread::sleep(PAUSE * 2);
        times.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(Crowd { runtime: Some(runtime), load: Arc::clone(load), times, since: Instant::now() })
    }
}
impl Drop for Crowd {
    fn drop(&mut self) {
        let seconds = self.since.elapsed().as_secs_f64();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
        let times = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        self.load.rounds.lock().unwrap_or_else(PoisonError::into_inner).push((seconds, times));
    }
}

/// Requests the status repeatedly on one connection.
async fn ask(at: SocketAddr, times: &Mutex<Vec<f64>>) -> Outcome {
    let mut stream = BufReader::new(TcpStream::connect(at).await?);
    let request = format!("GET /api/v1/status HTTP/1.1\r\nHost: {at}\r\n\r\n");
    loop {
        let begun = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let (mut line, mut length, mut is_good) = (String::new(), 0, false);
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Err("the connection ended".into());
            }
            is_good |= line.starts_with("HTTP/1.1 200");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if !is_good {
            return Err("another status than 200".into());
        }
        times.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE.saturating_sub(begun.elapsed())).await;
    }
}
/// Listens to events.
async fn listen(at: SocketAddr, load: &Load) -> Outcome {
    let mut stream = BufReader::new(TcpStream::connect(at).await?);
    stream.write_all(format!("GET /api/v1/events HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).await?;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("the stream ended".into());
        }
        if line.starts_with("data: ") {
            load.events.fetch_add(1, Ordering::Relaxed);
        }
    }
}
