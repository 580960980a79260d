//! Fetches a changed file over its earlier version, and compares the bytes that the receiver's node gets with casync
//! (new chunks and the index) and rsync. Then measures the update of a folder of many files.
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use super::{Context, Findings, rivals::TRANSFER_PATIENCE};
use crate::{
    Outcome,
    harness::{
        figure::Figure,
        interrupt,
        process::Process,
        tools,
        trib::{Daemon, Done, Face, NodeSpec},
    },
    note,
};

const NAME: &str = "/bench/update";
const SIZE: usize = 64 << 20;
const MIB: usize = 1 << 20;
const FILES: usize = 99_000;
/// How long a publication may take to be confirmed.
const PUT_PATIENCE: Duration = Duration::from_secs(30);

/// A change of the file, and its name.
type Edit = (&'static str, fn(&[u8]) -> Vec<u8>);
const EDITS: &[Edit] = &[
    ("1 byte overwritten", |old| [&old[..7 * MIB], &[old[7 * MIB] ^ 1], &old[7 * MIB + 1..]].concat()),
    ("1 byte inserted in front", |old| [b"Z", old].concat()),
    ("1 MiB appended", |old| [old, &random(MIB, 2)[..]].concat()),
    ("16 MiB moved", |old| [&old[16 * MIB..48 * MIB], &old[..16 * MIB], &old[48 * MIB..]].concat()),
    ("10 bytes at 20 places", |old| {
        let parts = old.chunks(old.len().div_ceil(20));
        parts.flat_map(|part| [&part[..part.len() - 10], b"0123456789"].concat()).collect()
    }),
];

pub(super) fn run(context: &mut Context<'_>) -> Outcome<Findings> {
    let mut findings = Findings::default();
    let mut versions = vec![random(SIZE, 1)];
    for (_, edit) in EDITS {
        versions.push(edit(&versions[versions.len() - 1]));
    }
    let casync = by_program(&mut findings, "casync", || casync(context.stage.path("casync"), &versions))?;
    let rsync = by_program(&mut findings, "rsync", || rsync(context.stage.path("rsync"), &versions))?;
    for family in ["psi", "ndn", "mf"] {
        interrupt::check()?;
        note(&format!("  {family}"));
        let moved = ours(context, family, &versions)?;
        for (number, (edit, _)) in EDITS.iter().enumerate() {
            let mut figure = Figure::new(format!("{family}: {edit}"), "kB", vec![moved[number]]);
            figure = match (&casync, &rsync) {
                (Some(casync), _) => figure.rival("casync", vec![casync[number]]),
                (None, Some(rsync)) => figure.rival("rsync", vec![rsync[number]]),
                (None, None) => figure,
            };
            findings.figures.push(figure);
        }
    }
    note("  folder");
    folder(context, &mut findings)?;
    if let Some(rsync) = rsync {
        let list: Vec<String> = EDITS.iter().zip(rsync).map(|((edit, _), kb)| format!("{edit} {kb:.0} kB")).collect();
        findings.notes.push(format!("rsync: {}", list.join(", ")));
    }
    findings
        .notes
        .push("64 MiB of random bytes, each change made to the version before; all bytes of the face count".into());
    Ok(findings)
}

/// The figures of a program, if it is on PATH.
fn by_program(
    findings: &mut Findings,
    program: &str,
    measure: impl FnOnce() -> Outcome<Vec<f64>>,
) -> Outcome<Option<Vec<f64>>> {
    if tools::find(program).is_none() {
        findings.notes.push(tools::missing(program, "of it"));
        return Ok(None);
    }
    measure().map(Some)
}

/// A folder of [`FILES`] files of which ten change: seconds, kilobytes that move and are written, and other inodes.
fn folder(context: &Context<'_>, findings: &mut Findings) -> Outcome {
    let (stage, trib) = (&context.stage, &context.trib);
    let roles: &'static [&'static str] = &["sender", "router", "resolver", "topology-manager"];
    let publisher = NodeSpec { label: "folder-publisher".into(), family: Some("psi"), roles, ..NodeSpec::default() };
    let publisher = trib.node(stage, &publisher)?;
    let faces = vec![Face::to(publisher.address)];
    let roles: &'static [&'static str] = &["receiver"];
    let receiver =
        NodeSpec { label: "folder-receiver".into(), family: Some("psi"), roles, faces, ..NodeSpec::default() };
    let receiver = trib.node(stage, &receiver)?;
    let (source, target, rival) = (stage.path("folder"), stage.path("folder-copy"), stage.path("folder-rsync"));
    for number in 0..FILES {
        let path = file_of(&source, number);
        fs::create_dir_all(path.parent().unwrap_or(&source))?;
        fs::write(path, random(1_000 + number * 37 % 6_000, number as u8))?;
    }
    let mut ours = [0.0; 4];
    let mut theirs = None;
    for version in ["1", "2"] {
        if version == "2" {
            (0..10).try_for_each(|number| fs::write(file_of(&source, number * FILES / 10), random(2_000, 7)))?;
        }
        let mut put = trib.command();
        put.arg("put").arg(&source).args(["/bench/folder", "--json", "--object-version", version]);
        put.arg("--control").arg(&publisher.control);
        Process::spawn("put", stage, &mut put)?.finish(PUT_PATIENCE)?;
        let inodes = |folder: &Path| -> Vec<u64> {
            (0..FILES).map(|number| fs::metadata(file_of(folder, number)).map_or(0, |file| file.ino())).collect()
        };
        let (moved, written, before) = (received(&receiver)?, receiver.process.written_bytes()?, inodes(&target));
        let begin = Instant::now();
        trib.get_by(stage, &receiver, "/bench/folder", &target)?.finish(TRANSFER_PATIENCE)?;
        let changed = inodes(&target).iter().zip(&before).filter(|(now, before)| now != before).count();
        let written = receiver.process.written_bytes()? - written;
        ours = [begin.elapsed().as_secs_f64(), (received(&receiver)? - moved) / 1e3, written / 1e3, changed as f64];
        if tools::find("rsync").is_some() {
            let (begin, before) = (Instant::now(), inodes(&rival));
            let moved = rsync_once(&["-r", "--ignore-times", "--no-whole-file"], &source.join("folder"), &rival)?;
            let changed = inodes(&rival).iter().zip(&before).filter(|(now, before)| now != before).count();
            theirs = Some([begin.elapsed().as_secs_f64(), moved, changed as f64]);
        }
    }
    for (at, (what, unit)) in
        [("time", "s"), ("moved", "kB"), ("written", "kB"), ("other inodes", "files")].into_iter().enumerate()
    {
        let figure = Figure::new(format!("psi: {FILES} files, 10 changed: {what}"), unit, vec![ours[at]]);
        let rival = theirs.and_then(|[seconds, moved, changed]| [Some(seconds), Some(moved), None, Some(changed)][at]);
        findings.figures.push(rival.into_iter().fold(figure, |figure, rival| figure.rival("rsync", vec![rival])));
    }
    Ok(())
}
fn file_of(folder: &Path, number: usize) -> PathBuf {
    folder.join("folder").join(format!("{:03}", number / 1_000)).join(format!("{number:06}"))
}

/// Kilobytes that reach the receiver's node with each change.
fn ours(context: &Context<'_>, family: &'static str, versions: &[Vec<u8>]) -> Outcome<Vec<f64>> {
    let (stage, trib) = (&context.stage, &context.trib);
    let roles: &'static [&'static str] = match family {
        "psi" => &["sender", "router", "resolver", "topology-manager"],
        "mf" => &["sender", "router", "resolver"],
        _ => &["sender", "router"],
    };
    let label = format!("{family}-publisher");
    let publisher = trib.node(stage, &NodeSpec { label, family: Some(family), roles, ..NodeSpec::default() })?;
    let more = if family == "ndn" { "routes = [\"/\"]\n".into() } else { String::new() };
    let receiver = NodeSpec {
        label: format!("{family}-receiver"),
        family: Some(family),
        roles: &["receiver"],
        faces: vec![Face { more, ..Face::to(publisher.address) }],
        ..NodeSpec::default()
    };
    let receiver = trib.node(stage, &receiver)?;
    let (file, target) = (stage.path("version"), stage.path(&format!("{family}-copy")));
    let mut moved = Vec::new();
    for (number, bytes) in versions.iter().enumerate() {
        fs::write(&file, bytes)?;
        let mut put = trib.command();
        put.arg("put").arg(&file).args([NAME, "--json", "--object-version", &(number + 1).to_string()]);
        put.arg("--control").arg(&publisher.control);
        Process::spawn("put", stage, &mut put)?.finish(PUT_PATIENCE)?;
        let before = received(&receiver)?;
        let got = trib.get_by(stage, &receiver, NAME, &target)?.finish(TRANSFER_PATIENCE)?;
        Done::read(&got.lines)?;
        if fs::read(&target)? != *bytes {
            return Err(format!("{family}: version {} is not what was published", number + 1).into());
        }
        moved.push((received(&receiver)? - before) / 1e3);
    }
    Ok(moved.split_off(1))
}
/// Bytes received over all faces.
fn received(daemon: &Daemon) -> Outcome<f64> {
    let status = daemon.status()?;
    let faces = status["faces"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(faces.iter().filter_map(|face| face["received_bytes"].as_u64()).sum::<u64>() as f64)
}

/// Kilobytes of the new chunks in a store, and of the index, with each change.
fn casync(folder: PathBuf, versions: &[Vec<u8>]) -> Outcome<Vec<f64>> {
    let (source, index, store) = (folder.join("source"), folder.join("a.caibx"), folder.join("store.castr"));
    fs::create_dir_all(&store)?;
    let mut moved = Vec::new();
    let mut before = 0;
    for bytes in versions {
        fs::write(&source, bytes)?;
        let made = Command::new("casync").arg("make").arg("--store").arg(&store).arg(&index).arg(&source).output()?;
        if !made.status.success() {
            return Err(format!("casync failed: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        let stored = bytes_below(&store)?;
        moved.push((stored - before + fs::metadata(&index)?.len()) as f64 / 1e3);
        before = stored;
    }
    Ok(moved.split_off(1))
}
fn bytes_below(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Kilobytes that rsync sends and receives with each change.
fn rsync(folder: PathBuf, versions: &[Vec<u8>]) -> Outcome<Vec<f64>> {
    let (source, target) = (folder.join("source"), folder.join("target"));
    fs::create_dir_all(&folder)?;
    let mut moved = Vec::new();
    for bytes in versions {
        fs::write(&source, bytes)?;
        moved.push(rsync_once(&["--no-whole-file", "--ignore-times"], &source, &target)?);
    }
    Ok(moved.split_off(1))
}
fn rsync_once(options: &[&str], source: &Path, target: &Path) -> Outcome<f64> {
    let said = Command::new("rsync").args(options).arg("--stats").arg(source).arg(target).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let number = |what: &str| -> Option<f64> {
        let line = said.lines().find_map(|line| line.strip_prefix(what))?;
        line.trim().replace(',', "").parse().ok()
    };
    let bytes = number("Total bytes sent:").zip(number("Total bytes received:"));
    let (sent, received) = bytes.ok_or_else(|| format!("rsync does not say what it moved: {said}"))?;
    Ok((sent + received) / 1e3)
}

fn random(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
    bytes
}
