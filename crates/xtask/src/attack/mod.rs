//! `cargo xtask attack`: the effects of unknown senders and forgers on real daemons on loopback.
//!
//! ```text
//!   publisher ── 100 Mbit/s ── relay ── receiver         the relay is a path that an attacker reads and writes
//!       ▲                                   ▲
//!       └──────── flood, 20,000/s ──────────┘
//! ```
//! For each family and each kind of flood: the rate of a file with and without the flood, and the publisher's
//! additional memory and log lines. For newcomers at several distances: the delay that a flood of handshakes adds. For
//! each message of the family, from an unproven address: the bytes that leave per byte received. And whether a stranger
//! with a daemon of its own deceives anybody (`plays`). A limit that does not hold is printed, and fails the command.
mod flood;
mod ground;
mod plays;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use tributary_core::ByteCount;

use self::{
    flood::{Flood, Kind},
    ground::Ground,
    plays::{Play, Theatre},
};
use crate::{
    Outcome,
    harness::{interrupt, stage::Stage, trib::Trib},
    note, print_line,
};

/// What to attack, and how.
#[derive(Args, Debug)]
pub(crate) struct AttackArguments {
    /// Families to attack.
    #[arg(long, value_delimiter = ',', default_value = "psi,ndn,mf")]
    family: Vec<Family>,
    /// Leave out all kinds of flood but these.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Kind>>,
    /// How the nodes protect their faces, a word of the config: with `none` the attacks on packets succeed.
    #[arg(long, default_value = "encrypted")]
    security: String,
    /// Play only the attacks of a stranger with a daemon of its own, and without the protections: all of them succeed.
    #[arg(long)]
    unprotected: bool,
    /// Packets of a flood a second.
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
    /// Bytes that are fetched during each flood.
    #[arg(long, default_value = "32MiB")]
    size: ByteCount,
    /// The program to attack. Default: built from this workspace.
    #[arg(long)]
    trib: Option<PathBuf>,
}

/// A family, in the word of the config.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Family {
    Psi,
    Ndn,
    Mf,
}

impl Family {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Family::Psi => "psi",
            Family::Ndn => "ndn",
            Family::Mf => "mf",
        }
    }
}

/// The least share of the rate without a flood.
const GOODPUT_MIN: f64 = 0.9;
/// What the publisher's memory may grow by during a flood.
const MEMORY_MAX: u64 = 16 << 20;
/// What its log may grow by.
const LOG_MAX: u64 = 64 << 10;
/// Bytes that may be sent per byte received from an address that has proven nothing.
const AMPLIFICATION_MAX: f64 = 3.0;

pub(crate) fn run(arguments: &AttackArguments) -> Outcome {
    interrupt::listen()?;
    let trib = Trib::find(arguments.trib.as_deref(), Some(&arguments.security))?;
    let mut stage = Stage::new(&std::env::temp_dir())?;
    let (file, _) = stage.source(arguments.size.0)?;
    let mut broken = 0;
    let mut judge = |holds: bool| {
        broken += u32::from(!holds);
        if holds { "ok" } else { "BROKEN" }
    };
    let (strange, is_protected) = (Stage::new(&std::env::temp_dir())?, !arguments.unprotected);
    for family in &arguments.family {
        let theatre = Theatre { trib: &trib, family: *family, honest: &stage, strange: &strange, is_protected };
        for (play, text) in Play::ALL {
            print_line(&format!("{:4} {text:28} {}", family.word(), judge(!theatre.play(play)?)));
        }
    }
    for family in arguments.family.iter().filter(|_| is_protected) {
        let word = family.word();
        let ground = Ground::new(&trib, &stage, *family, &file)?;
        let measured = ground.amplification()?;
        let worst =
            measured.iter().max_by(|a, b| a.factor().total_cmp(&b.factor())).ok_or("a family without messages")?;
        let verdict = judge(worst.factor() <= AMPLIFICATION_MAX);
        let (count, name, factor) = (measured.len(), &worst.name, worst.factor());
        print_line(&format!(
            "{word:4} {count} messages of strangers      at most {factor:.2} bytes out per byte in ({name})  {verdict}"
        ));
        let alone = (0..ALONE).map(|_| ground.fetch(Duration::ZERO)).collect::<Outcome<Vec<_>>>()?;
        let (least, most) =
            alone.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), s| (least.min(*s), most.max(*s)));
        print_line(&format!("{word:4} {ALONE} fetches without a flood         {least:.2} to {most:.2} s"));
        for kind in Kind::ALL.iter().filter(|kind| arguments.only.as_ref().is_none_or(|only| only.contains(kind))) {
            let before = (ground.memory(), ground.log_bytes());
            let flood = Flood::start(*kind, *family, &ground, arguments.rate)?;
            let seconds = ground.fetch(Duration::ZERO);
            let sent = flood.stop();
            // What a flood left behind must not fall to the next one.
            std::thread::sleep(REST);
            let memory = ground.memory().saturating_sub(before.0);
            let log = ground.log_bytes().saturating_sub(before.1);
            let share = seconds.as_ref().map_or(0.0, |seconds| least / seconds);
            if let Err(error) = &seconds {
                note(&format!("  {error}"));
            }
            let verdict = judge(share >= GOODPUT_MIN && memory <= MEMORY_MAX && log <= LOG_MAX);
            let mib = memory as f64 / f64::from(1 << 20);
            print_line(&format!(
                "{word:4} {kind:28} goodput {share:.3}, memory +{mib:.1} MiB, log +{log} bytes, {sent} packets/s  {verdict}"
            ));
        }
        drop(ground);
        for delay in NEWCOMERS {
            let ground = Ground::new(&trib, &stage, *family, &file)?;
            let alone = ground.fetch(delay)?;
            let flood = Flood::start(Kind::HandshakesFromMany, *family, &ground, arguments.rate)?;
            let seconds = ground.fetch(delay).unwrap_or(f64::INFINITY);
            let sent = flood.stop();
            let verdict = judge(seconds - alone <= JOIN_MAX);
            print_line(&format!(
                "{word:4} a newcomer {:3} ms away          has the file after {seconds:.1} s, without a flood {alone:.1} s, \
                 {sent} packets/s  {verdict}",
                delay.as_millis()
            ));
        }
    }
    if broken > 0 {
        return Err(format!("{broken} attacks exceed their limits").into());
    }
    Ok(())
}

/// Fetches without a flood; the fastest is the reference.
const ALONE: usize = 5;
const REST: Duration = Duration::from_millis(500);
/// Round trips of newcomers.
const NEWCOMERS: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(120), Duration::from_millis(300), Duration::from_millis(600)];
/// Seconds that a flood may keep a newcomer from joining.
const JOIN_MAX: f64 = 15.0;
