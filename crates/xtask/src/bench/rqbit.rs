//! rqbit as a contender: a BitTorrent client that fetches from seeders on loopback.
use std::{
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{
    clear,
    rivals::{Source, TRANSFER_PATIENCE, check_length},
};
use crate::{
    Outcome,
    harness::{
        process::Process,
        rounds::{Contender, Sample},
        stage::{Stage, hash_of},
        tools,
    },
};

/// Bytes of a piece, the unit that BitTorrent verifies.
const PIECE_BYTES: usize = 1 << 20;
/// How long a seeder may take to check its copy and to listen.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// `count` seeders that run through all rounds; each fetch is a new process.
pub(super) fn rqbit<'a>(stage: &'a Stage, source: &Source, count: usize) -> Outcome<Contender<'a>> {
    let rqbit = tools::find("rqbit").ok_or_else(|| tools::missing("rqbit", "against rqbit in the same run"))?;
    let torrent = stage.path("rqbit.torrent");
    write_torrent(&torrent, source, None)?;
    let mut seeders = Vec::new();
    let mut peers = Vec::new();
    for index in 0..count {
        let [listen, control] = [free_port()?, free_port()?];
        let mut command = quiet(&rqbit, control);
        command.args(["--tcp-min-port", &listen.to_string(), "--tcp-max-port", &(listen + 1).to_string()]);
        command.args(["download", "--overwrite", "--disable-trackers", "--output-folder"]);
        command.arg(source.path.parent().ok_or("a source without a folder")?).arg(&torrent);
        let seeder = Process::spawn(&format!("rqbit-seeder-{index}"), stage, &mut command)?;
        while !seeder.line(START_PATIENCE)?.contains("100.00%") {}
        wait_for(SocketAddr::from(([127, 0, 0, 1], listen)))?;
        peers.push(format!("127.0.0.1:{listen}"));
        seeders.push(seeder);
    }
    let (source, folder) = (source.clone(), stage.path("rqbit-output"));
    let output = folder.join(source.name());
    let mut is_checked = false;
    Ok(Contender::new("rqbit", move || {
        clear(&output)?;
        let cpu = || seeders.iter().map(Process::cpu_seconds).sum::<Outcome<f64>>();
        let before = cpu()?;
        let mut command = quiet(&rqbit, free_port()?);
        command.args(["--disable-tcp-listen", "download", "--exit-on-finish", "--disable-trackers"]);
        command.arg("--initial-peers").arg(peers.join(",")).arg("--output-folder").arg(&folder).arg(&torrent);
        let client = Process::spawn("rqbit-client", stage, &mut command)?.finish(TRANSFER_PATIENCE)?;
        let server_cpu_seconds = cpu()? - before;
        check_length(&output, source.size)?;
        if !std::mem::replace(&mut is_checked, true) && hash_of(&output)? != source.hash {
            return Err("the received file differs from the published one".into());
        }
        clear(&output)?;
        Ok(Sample {
            bytes: source.size,
            seconds: printed_seconds(&client.lines)?,
            server_cpu_seconds,
            client_cpu_seconds: client.cpu_seconds,
            server_peak_bytes: seeders.iter().map(Process::peak_bytes).max().unwrap_or(0),
            client_peak_bytes: client.peak_bytes,
            ..Sample::default()
        })
    }))
}

/// rqbit with nothing but loopback, logging its steps with times on stdout.
fn quiet(rqbit: &Path, control: u16) -> Command {
    // Where it writes its log is not the same in all versions.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec "$0" "$@" 2>&1"#]).arg(rqbit).args(["--disable-dht", "--disable-upnp-port-forward"]);
    command.args(["--http-api-listen-addr", &format!("127.0.0.1:{control}")]).env("NO_COLOR", "1");
    command
}

/// The time from its first check of existing files to the last piece, by the times in its log.
fn printed_seconds(lines: &[String]) -> Outcome<f64> {
    let at = |what: &str| {
        let line = lines.iter().find(|line| line.contains(what));
        line.and_then(|line| time_of_day(line)).ok_or_else(|| format!("rqbit printed no '{what}'"))
    };
    let seconds = at("torrent finished downloading")? - at("Initial check results")?;
    Ok(if seconds < 0.0 { seconds + 86_400.0 } else { seconds })
}

/// The seconds of the day in `…2026-01-31T12:34:56.789Z…`.
fn time_of_day(line: &str) -> Option<f64> {
    let clock = line.split_once('Z')?.0.rsplit_once('T')?.1;
    let mut parts = clock.split(':').map(str::parse::<f64>);
    let [hours, minutes, seconds] = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// A torrent of one file (BEP 3), perhaps with a tracker.
pub(super) fn write_torrent(path: &Path, source: &Source, tracker: Option<&str>) -> Outcome {
    let mut file = File::open(&source.path)?;
    let mut hashes = Vec::new();
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    loop {
        piece.clear();
        Read::by_ref(&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            break;
        }
        hashes.extend_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, &piece).as_ref());
    }
    let mut torrent = File::create(path)?;
    let (size, name) = (source.size, source.name());
    write!(torrent, "d")?;
    if let Some(tracker) = tracker {
        write!(torrent, "8:announce{}:{tracker}", tracker.len())?;
    }
    write!(torrent, "4:infod6:lengthi{size}e4:name{}:{name}12:piece lengthi{PIECE_BYTES}e", name.len())?;
    write!(torrent, "6:pieces{}:", hashes.len())?;
    torrent.write_all(&hashes)?;
    Ok(torrent.write_all(b"ee")?)
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(address: SocketAddr) -> Outcome {
    let deadline = Instant::now() + START_PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > deadline {
            return Err(format!("nothing listens on {address}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn times_of_its_log_are_read_across_midnight() {
        let line = |time: &str, what: &str| format!("2026-11-22T{time}Z  INFO torrent{{id=0}}: {what}");
        let lines = |from, to| [line(from, "Initial check results: have 0"), line(to, "torrent finished downloading")];
        assert!((printed_seconds(&lines("01:56:10.517027", "01:56:10.994427")).unwrap() - 0.4774).abs() < 1e-6);
        assert!((printed_seconds(&lines("23:59:59.5", "00:00:01.0")).unwrap() - 1.5).abs() < 1e-6);
        assert!(printed_seconds(&[]).is_err());
    }

    #[test]
    fn a_torrent_is_what_bep_3_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        fs::write(&path, b"abc").unwrap();
        let torrent = folder.path().join("t");
        write_torrent(&torrent, &Source { path, size: 3, hash: String::new() }, None).unwrap();
        // SHA-1 of "abc": FIPS 180-1, appendix A.
        let sha1 = b"\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d";
        let expected =
            [&b"d4:infod6:lengthi3e4:name3:abc12:piece lengthi1048576e6:pieces20:"[..], sha1, b"ee"].concat();
        assert_eq!(fs::read(torrent).unwrap(), expected);
    }
}
