//! `trib demo`: a network of real daemons on loopback, a real file, and the result.
//!
//! | what | module |
//! |---|---|
//! | the network as data | [`topology`] |
//! | processes and their configs | [`network`] |
//! | failures while the transfer runs | [`script`] |
//! | MobilityFirst: a receiver that goes away and comes back | [`disconnection`] |
//! | the fluid bound | [`bound`] |
mod bound;
mod disconnection;
mod network;
mod script;
mod topology;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};
use tributary::{
    Api, ApiError, ErrorKind, Flow, Get, Notice, Output, Request,
    families::{Delivery, Resolution},
    load_key,
    preflight::{absolute, check_room},
    views::{DoneView, ProgressView, StatusView},
};
use tributary_content::PublicKey;
use tributary_core::{ByteCount, Duration};
use tributary_terminal::out;

use crate::{
    args::{Demo, Evil, Fail, FailKind},
    progress::Display,
    signals::Wish,
    tables,
};
use bound::Broken;
use disconnection::{Away, Stage};
use network::{LOOK, Network, NodeSettings, Settings};
use script::Script;
use topology::{Fetches, GATEWAY, IMPOSTER, RECEIVER, Topology, WEAK_PUBLISHER};

/// What the demo publishes.
const NAME: &str = "/demo/big";
/// How long the network may take to get ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How often the network is started again if another program took one of its ports.
const START_TRIES: usize = 3;
/// Paths per source that the receiver requests.
const PATHS_PER_SOURCE: u8 = 2;

/// Brings up the network, fetches, verifies, explains.
pub(crate) fn run(demo: &Demo, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    let fetches = if demo.second_fetch || demo.evil == Some(Evil::Cache) { Fetches::Twice } else { Fetches::Once };
    check(demo)?;
    let topology = topology::choose(demo.family, fetches, demo.evil);
    let (folder, _temporary) = folder(demo.keep.as_deref())?;
    let say = |text: &str| {
        if !json {
            out::talk(text);
        }
    };
    say(&format!("{}\n", topology.drawing));
    let (settings, publisher) = prepare(demo, &topology, fetches, &folder)?;
    let mut network = start(&topology, &settings, &folder, &wish)?;
    say(&format!(
        "{} daemons are up; '{NAME}' is published by {} of them",
        topology.nodes.len(),
        expected(demo, &topology).len()
    ));
    if demo.keep.is_some() {
        say(&format!("configs, logs and files stay in '{}'", network.folder.display()));
    }

    let mut display = Display::new(json);
    let away = (is_mobile(demo) && demo.evil.is_none() && !demo.second_fetch).then(|| Away::new(&demo.fail));
    let mut run =
        Run { demo, topology: &topology, network: &mut network, wish: &wish, publisher, away: away.flatten() };
    let mut done = run.fetch(&folder.join("received"), &mut display, &scripted(demo), Held::ByPublishers)?;
    let mut missed = run.away.take().map_or(Vec::new(), |away| away.judge(run.network, &mut done));
    let original = folder.join("original");
    compare(&original, &folder.join("received"))?;
    if fetches == Fetches::Twice {
        say(&format!("now a second time: the cache of {} has seen everything", topology.gateway()));
        let first = done;
        done = run.fetch(&folder.join("received-2"), &mut display, &[], Held::ByGateway)?;
        compare(&original, &folder.join("received-2"))?;
        let from_sources: u64 = done.sources.iter().map(|source| source.bytes).sum();
        done.more.insert("first_seconds".into(), first.seconds.into());
        done.more.insert("source_bytes".into(), from_sources.into());
    }
    missed.extend(expectations(demo, &topology, &done));
    done.more.insert("checks".into(), if missed.is_empty() { "passed".into() } else { missed.join("; ").into() });
    if json {
        out::data(&Notice::Done(done).to_line());
    } else {
        summary(&done).iter().for_each(|line| out::data(line));
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(ApiError::new(
            ErrorKind::Incomplete,
            format!("the demo did not behave as expected: {}", missed.join("; ")),
        )),
    }
}

/// The node that holds the bytes when a fetch starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    ByPublishers,
    ByGateway,
}

/// One run of a demo.
struct Run<'a> {
    demo: &'a Demo,
    topology: &'a Topology,
    network: &'a mut Network,
    wish: &'a Wish,
    publisher: PublicKey,
    /// What happens to a mobile receiver.
    away: Option<Away>,
}

impl Run<'_> {
    /// Fetches to `target` while things break.
    fn fetch(
        &mut self,
        target: &Path,
        display: &mut Display,
        fails: &[Fail],
        held: Held,
    ) -> Result<DoneView, ApiError> {
        let faulty: &[&str] = match self.demo.evil {
            Some(Evil::Source) => &[WEAK_PUBLISHER],
            Some(Evil::Imposter) => &[IMPOSTER],
            Some(Evil::Cache) | None => &[],
        };
        let mut script = Script::new(self.topology, fails, self.demo.loss, faulty);
        if held == Held::ByGateway && self.demo.evil.is_none() {
            let holders: Vec<_> = self.topology.publishers().chain([GATEWAY]).collect();
            script.timeline[0].1 = bound::capacity_from(self.topology, &holders, &Broken::default(), self.demo.loss);
        }
        let (mut before, mut bypassed) = (0.0, Vec::new());
        loop {
            let get = Request::Get(Get {
                publisher: Some(self.publisher.to_string()),
                ..Get::new(NAME, Output::Path(target.into()))
            });
            let api = self.network.api(RECEIVER)?;
            let mut latest = ProgressView::default();
            let (mut done, mut broke) = (None, Ok(()));
            let result = api.ask(get, None, &mut |notice| {
                match notice {
                    Notice::Done(view) => done = Some(view),
                    notice => {
                        if let Notice::CacheDistrusted { node, .. } = &notice {
                            bypassed.push(node.clone());
                        }
                        if let Notice::Progress(progress) = &notice {
                            latest = progress.clone();
                            broke = self.on_progress(&mut script, progress, before, display);
                        }
                        display.show(&notice);
                    }
                }
                if self.wish.is_made() || broke.is_err() { Flow::Stop } else { Flow::Continue }
            });
            display.end();
            self.wish.check()?;
            broke?;
            match (result, done) {
                (Ok(()), Some(mut done)) => {
                    before += done.seconds;
                    script.finish(&done)?;
                    self.judge(&mut done, before, &script.timeline);
                    name_bypassed(&mut done, bypassed);
                    return Ok(done);
                }
                (Ok(()), None) => return Err(ApiError::new(ErrorKind::Protocol, "the receiver ended without a word")),
                // The receiver was killed by the script: start it again and continue.
                (Err(_), _) if script.killed_receiver() => {
                    before += latest.seconds;
                    self.network.revive(RECEIVER)?;
                    let links = self.topology.links_of(RECEIVER).count();
                    wait(self.network, self.wish, "the receiver's neighbours", |network| {
                        let up = |status: StatusView| status.faces.iter().filter(|face| face.up).count();
                        network.status(RECEIVER).map_or(0, up) >= links
                    })?;
                }
                (Err(error), _) => return Err(error),
            }
        }
    }
    /// Carries out the failures and repairs that are due at this progress.
    fn on_progress(
        &mut self,
        script: &mut Script<'_>,
        progress: &ProgressView,
        before: f64,
        display: &mut Display,
    ) -> Result<(), ApiError> {
        script.progress(self.network, progress, before, display)?;
        let Some(away) = &mut self.away else { return Ok(()) };
        let mut stage = Stage { network: self.network, script, display, now: before + progress.seconds };
        away.progress(&mut stage, progress)
    }
    /// Adds the fluid bound and the transfer's ratio to it.
    fn judge(&self, done: &mut DoneView, seconds: f64, timeline: &[(f64, f64)]) {
        let mut add = |key: &str, value: f64| done.more.insert(key.into(), ((value * 1e6).round() / 1e6).into());
        add("payload_share", bound::PAYLOAD_SHARE);
        add("fluid_mbps", timeline[0].1);
        add("total_seconds", seconds);
        let bytes = done.bytes;
        if let Some(fluid) = bound::seconds(bytes, timeline).filter(|seconds| *seconds > 0.0) {
            add("fluid_seconds", fluid);
            add("ratio", seconds / fluid);
        }
        done.more.insert("seed".into(), self.demo.seed.into());
    }
}

/// Adds the bypassed caches, and on how many paths: each path has a notice.
fn name_bypassed(done: &mut DoneView, mut caches: Vec<String>) {
    if caches.is_empty() {
        return;
    }
    done.more.insert("bypassed_times".into(), caches.len().into());
    caches.sort_unstable();
    caches.dedup();
    done.more.insert("bypassed_caches".into(), caches.into());
}

/// Refuses features that a family's demo does not have.
fn check(demo: &Demo) -> Result<(), ApiError> {
    let refused = |what: &str, hint: &str| {
        Err(ApiError::usage(format!("the demo of {} does not show {what}", demo.family)).with_hint(hint))
    };
    let fails = |kind| demo.fail.iter().any(|fail| fail.kind == kind);
    if !fails(FailKind::Tm) && !fails(FailKind::Resolver) {
        return Ok(());
    }
    match demo.family.profile().resolution {
        Resolution::Servers => Ok(()),
        Resolution::Routers => {
            refused("that failure", "names are held by the routers: --fail router kills one of them")
        }
        Resolution::Routes => refused("that failure", "that network has no resolver: --fail router kills a forwarder"),
    }
}
/// Whether the receiver goes away while it fetches, and the network stores its chunks until it returns.
fn is_mobile(demo: &Demo) -> bool {
    demo.family.profile().delivery == Delivery::Custody
}
/// The failures that happen at a percentage of progress; a separate script has a mobile receiver's absence.
fn scripted(demo: &Demo) -> Vec<Fail> {
    let is_away = |fail: &Fail| is_mobile(demo) && matches!(fail.kind, FailKind::Link | FailKind::Router);
    demo.fail.iter().filter(|fail| !is_away(fail)).copied().collect()
}

/// The working folder of the demo, and the guard that removes it at the end.
fn folder(keep: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>), ApiError> {
    match keep {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| ApiError::io("make the folder", folder.display(), &error))?;
            Ok((absolute(folder)?, None))
        }
        None => {
            let made = tempfile::Builder::new().prefix("trib-demo-").tempdir();
            let made =
                made.map_err(|error| ApiError::io("make a folder in", std::env::temp_dir().display(), &error))?;
            Ok((made.path().into(), Some(made)))
        }
    }
}

/// Makes the file and assigns the nodes' tasks.
fn prepare(
    demo: &Demo,
    topology: &Topology,
    fetches: Fetches,
    folder: &Path,
) -> Result<(Settings, PublicKey), ApiError> {
    let original = folder.join("original");
    // The published file, the received file, and in some demos the imposter's file and the second fetch's.
    let files = 2 + u64::from(demo.evil == Some(Evil::Imposter)) + u64::from(fetches == Fetches::Twice);
    check_room(&original, demo.size.0.saturating_mul(files))?;
    network::write_random(&original, demo.size.0, demo.seed)?;
    // One key for all: they publish the same object, not three that happen to have the same bytes.
    let key = folder.join("publisher.key");
    let publisher = load_key(&key)?.public();
    let mut nodes: BTreeMap<_, _> = topology
        .publishers()
        .map(|label| {
            let publish = Some((NAME.to_string(), original.clone(), key.clone()));
            (label, NodeSettings { publish, faults: String::new() })
        })
        .collect();
    match demo.evil {
        Some(Evil::Source) => nodes.entry(WEAK_PUBLISHER).or_default().faults = "corrupt_chunks = 0.5".into(),
        Some(Evil::Imposter) => {
            let other = folder.join("other");
            network::write_random(&other, demo.size.0, demo.seed.wrapping_add(1))?;
            let publish = Some((NAME.to_string(), other, folder.join("imposter.key")));
            nodes.insert(IMPOSTER, NodeSettings { publish, faults: String::new() });
        }
        Some(Evil::Cache) => nodes.entry(topology.gateway()).or_default().faults = "corrupt_cache = 0.5".into(),
        None => {}
    }
    let mut transfer = match demo.family.profile().delivery {
        Delivery::Custody => String::new(),
        Delivery::Multipath => format!("paths_per_source = {PATHS_PER_SOURCE}"),
    };
    if topology.nodes.iter().any(|node| node.label == GATEWAY) {
        // All paths share the gateway's link, which is wide; if coupled they would take one path's share of it.
        transfer.push_str("\ncoupling = \"uncoupled\"");
    }
    let cache_bytes = (demo.size.0 * 2).max(64 << 20);
    Ok((Settings { loss: demo.loss, cache_bytes, transfer, http: demo.http, nodes }, publisher))
}

/// Brings the network up and waits until the name can be fetched.
fn start(topology: &Topology, settings: &Settings, folder: &Path, wish: &Wish) -> Result<Network, ApiError> {
    let mut tries = 1;
    loop {
        let started = Network::start(topology, settings, folder).and_then(|mut network| {
            wait(&mut network, wish, "the network", |network| is_ready(topology, settings, network))?;
            Ok(network)
        });
        match started {
            // Another program may have taken a free port before its use.
            Err(error) if tries < START_TRIES && error.message.contains("already in use") => tries += 1,
            started => return started,
        }
    }
}
fn is_ready(topology: &Topology, settings: &Settings, network: &Network) -> bool {
    topology.nodes.iter().all(|node| {
        let Some(status) = network.status(node.label) else { return false };
        let publishes = settings.nodes.get(node.label).is_some_and(|of| of.publish.is_some());
        let is_published = status.published.iter().any(|of| of.name == NAME && of.confirmed);
        let links = topology.links_of(node.label).count();
        status.faces.iter().filter(|face| face.up).count() >= links && (!publishes || is_published)
    })
}
/// Waits until `done`, and checks processes and signals while it waits.
fn wait(network: &mut Network, wish: &Wish, what: &str, done: impl Fn(&Network) -> bool) -> Result<(), ApiError> {
    let mut waited = Duration::ZERO;
    while !done(network) {
        wish.check()?;
        network.check()?;
        if waited >= READY_PATIENCE {
            let message = format!("{what} did not get ready within {READY_PATIENCE:?}");
            let hint = "run it again with --keep DIR and read DIR/*/node.log";
            return Err(ApiError::new(ErrorKind::Incomplete, message).with_hint(hint));
        }
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
    Ok(())
}

/// Byte for byte, because the demo promises so.
fn compare(original: &Path, received: &Path) -> Result<(), ApiError> {
    let open = |path: &Path| match File::open(path) {
        Ok(file) => Ok(BufReader::with_capacity(1 << 20, file)),
        Err(error) => Err(ApiError::io("open", path.display(), &error)),
    };
    let unread = |path: &Path, error| ApiError::io("read", path.display(), &error);
    let (mut a, mut b) = (open(original)?, open(received)?);
    let mut offset = 0;
    loop {
        let of_a = a.fill_buf().map_err(|error| unread(original, error))?;
        let of_b = b.fill_buf().map_err(|error| unread(received, error))?;
        let length = of_a.len().min(of_b.len());
        if of_a[..length] != of_b[..length] || length == 0 && of_a.len() != of_b.len() {
            let message = format!("the received file differs from the published one, after byte {offset}");
            return Err(ApiError::new(ErrorKind::Incomplete, message));
        }
        if length == 0 {
            return Ok(());
        }
        a.consume(length);
        b.consume(length);
        offset += length as u64;
    }
}

/// The publishers whose bytes should arrive.
fn expected(demo: &Demo, topology: &Topology) -> Vec<&'static str> {
    topology.publishers().filter(|label| demo.evil != Some(Evil::Imposter) || *label != IMPOSTER).collect()
}

/// What the demo should have shown and did not.
fn expectations(demo: &Demo, topology: &Topology, done: &DoneView) -> Vec<String> {
    let mut missed = Vec::new();
    let is_plain = !is_mobile(demo) && demo.evil.is_none() && demo.fail.is_empty() && !demo.second_fetch;
    let sources = done.sources.iter().filter(|source| source.bytes > 0).count();
    let paths = done.paths.iter().filter(|path| path.bytes > 0).count();
    // A file of a few chunks need not use everything.
    if is_plain && demo.size >= SIZE_FOR_ALL_PATHS && (sources < 3 || paths < 4) {
        missed.push(format!("{sources} sources and {paths} paths delivered, not 3 and 4"));
    }
    let source = |label: &str| done.sources.iter().find(|source| source.id.starts_with(label));
    let is_named = |label: &str| source(label).is_some_and(|source| source.distrusted.is_some());
    match demo.evil {
        Some(Evil::Source) if !is_named(WEAK_PUBLISHER) => {
            missed.push(format!("{WEAK_PUBLISHER} sent wrong bytes and was not named"));
        }
        Some(Evil::Imposter) if source(IMPOSTER).is_some_and(|source| source.bytes > 0) => {
            missed.push(format!("{IMPOSTER} offered another file and was trusted"));
        }
        Some(Evil::Imposter) if !is_named(IMPOSTER) => {
            missed.push(format!("{IMPOSTER} offered another file and was not named"));
        }
        Some(Evil::Cache) if !done.more.contains_key("bypassed_caches") => {
            missed.push(format!("the cache of {} sent wrong bytes and was not named", topology.gateway()));
        }
        Some(Evil::Source | Evil::Imposter | Evil::Cache) | None => {}
    }
    if demo.second_fetch && demo.evil.is_none() {
        let from_sources: u64 = done.sources.iter().map(|source| source.bytes).sum();
        if from_sources * 20 > done.bytes {
            missed.push(format!("{} of the second fetch came from the sources", ByteCount(from_sources)));
        }
    }
    missed
}

/// From this size on every source and path must have its part.
const SIZE_FOR_ALL_PATHS: ByteCount = ByteCount(8_000_000);

/// The result for a person.
fn summary(done: &DoneView) -> Vec<String> {
    let number = |key: &str| done.more.get(key).and_then(serde_json::Value::as_f64);
    let mut lines = vec![format!(
        "'{}': {} in {:.2} s, {:.1} Mbit/s, verified and compared byte for byte",
        done.name,
        ByteCount(done.bytes),
        number("total_seconds").unwrap_or(done.seconds),
        done.mbps
    )];
    lines.extend(tables::deliveries(done));
    if let (Some(fluid), Some(ratio), Some(mbps)) = (number("fluid_seconds"), number("ratio"), number("fluid_mbps")) {
        lines.push(format!(
            "fluid bound: {fluid:.2} s at {mbps:.1} Mbit/s (maximum flow over the links, of which {:.1} % are payload); \
             the transfer took {ratio:.3} of it",
            bound::PAYLOAD_SHARE * 100.0
        ));
    }
    if let (Some(away), Some(stored), Some(lost)) =
        (number("away_seconds"), number("stored_chunks"), number("lost_seconds"))
    {
        let restored = number("restored_chunks");
        let kill = restored.map_or(String::new(), |chunks| format!(", {chunks:.0} were there again after its kill"));
        lines.push(format!(
            "the receiver was away for {away:.0} s: its access router kept {stored:.0} chunks{kill}; {lost:.2} s were \
             lost beyond the absence and the time that the bytes take"
        ));
    }
    let best = done.paths.iter().max_by(|a, b| a.mbps.total_cmp(&b.mbps));
    let several = done.paths.iter().filter(|path| path.bytes > 0).count() > 1;
    if let Some(best) = best.filter(|best| best.mbps > 0.0 && several) {
        lines.push(format!(
            "all paths together were {:.1} times as fast as the best one ({} to {}, {:.1} Mbit/s)",
            done.mbps / best.mbps,
            best.id,
            best.source,
            best.mbps
        ));
    }
    lines
}
