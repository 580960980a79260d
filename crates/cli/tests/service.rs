//! Daemons as services: readiness, reload and watchdog, levels and lines of the log, hooks, the unit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "real daemons take the time that they take")]

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::common::{
    self, Begun, Daemon, begin, config, file, has_program, lines, put, run, server_and_receiver, talk, trib, until,
};

/// The service manager's next notification.
fn events(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    let length = manager.recv(&mut buffer).expect("the service manager is told");
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}
/// The next that is not about the watchdog.
fn state_beside_watchdog(manager: &UnixDatagram) -> String {
    std::iter::repeat_with(|| events(manager)).find(|text| !text.contains("WATCHDOG=1")).unwrap()
}

#[test]
fn a_service_manager_learns_of_readiness_reload_life_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let socket = folder.join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let path = config(folder, "router", r#""router""#, 0, "");
    let mut command = trib(folder);
    command.args(["node", "--config", path.to_str().unwrap()]).stderr(Stdio::null());
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000");
    let node = Begun(command.spawn().unwrap());
    let ready = state_beside_watchdog(&manager);
    assert!(ready.contains("READY=1") && ready.contains("STATUS=node 'router' is running"), "{ready}");
    // It continues while the node's loop turns.
    for _ in 0..3 {
        assert!(events(&manager).contains("WATCHDOG=1"));
    }
    node.signal("HUP");
    let reloading = state_beside_watchdog(&manager);
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
    let ready = state_beside_watchdog(&manager);
    assert!(ready.contains("READY=1"), "{ready}");
    node.signal("TERM");
    let stopping = state_beside_watchdog(&manager);
    assert!(stopping.contains("STOPPING=1"), "{stopping}");
    assert_eq!(node.wait(), Some(0));
}

#[test]
fn levels_of_modules_change_while_a_node_runs_and_its_lines_may_be_json() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = config(folder, "router", r#""router""#, 0, "");
    let text = fs::read_to_string(&path).unwrap().replace("[node]\n", "[node]\nlog_format = \"json\"\n");
    fs::write(&path, text).unwrap();
    let mut command = trib(folder);
    command.args(["node", "--config", path.to_str().unwrap()]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let node = Begun(child);
    let control = folder.join("router/control.sock");
    until("the control socket", || control.exists());
    let control = control.to_str().unwrap();
    let log = |levels: &[&str]| run(folder, &[&["log", "--control", control, "--json"], levels].concat());
    assert_eq!(lines(&log(&[]).stdout)[0]["levels"], "info");
    assert_eq!(lines(&log(&["warn,node=debug"]).stdout)[0]["levels"], "warn,node=debug");
    assert_eq!(lines(&log(&[]).stdout)[0]["levels"], "warn,node=debug");
    let wrong = log(&["warn,nodes=debug"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(talk(&wrong).contains("'nodes' is not a module"), "{}", talk(&wrong));
    // Its config is in force again.
    node.signal("HUP");
    until("the level of the config", || lines(&log(&[]).stdout)[0]["levels"] == "info");
    node.signal("TERM");
    assert_eq!(node.wait(), Some(0));
    let mut count = 0;
    for line in stderr.lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        let message = line["message"].as_str().unwrap();
        assert!(!message.starts_with(|first: char| first.is_ascii_digit()), "it has one timestamp: {line}");
        count += 1;
    }
    assert!(count >= 4, "{count} lines");
}

#[test]
fn a_command_runs_for_each_object_that_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    put(folder, &file(folder), "/lab/it's; rm -rf $HOME");
    let name = "/lab/it's; rm -rf $HOME";
    let marks = |mark: &str| format!("printf '%s|%s|%s' \"$TRIB_NAME\" \"$TRIB_OUTPUT\" \"$TRIB_BYTES\" > {mark}");
    let (copy, mark) = (folder.join("copy"), folder.join("mark"));
    let get = run(
        folder,
        &[
            "get",
            name,
            "--config",
            receiver.to_str().unwrap(),
            "-o",
            copy.to_str().unwrap(),
            "--on-done",
            &marks(mark.to_str().unwrap()),
        ],
    );
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    let written = fs::read_to_string(&mark).unwrap();
    let name = written.split('|').next().unwrap().to_string();
    assert_eq!(written, format!("{name}|{}|{}", copy.display(), common::SIZE));
    assert!(name.starts_with("/lab/it"), "{name}");

    // A node does so for its own fetches; and a failing command is reported.
    let of_node = folder.join("mark-of-node");
    let hook = format!("{}; exit 3", marks(of_node.to_str().unwrap()));
    let arguments = ["node", "--json", "--config", receiver.to_str().unwrap(), "--on-done", &hook];
    let (_node, _ready, _rest) = begin(folder, &arguments);
    let second = folder.join("second");
    let control = folder.join("receiver/control.sock");
    let detached = ["get", &name, "--detach", "-o", second.to_str().unwrap(), "--control", control.to_str().unwrap()];
    let get = run(folder, &detached);
    assert_eq!(get.status.code(), Some(0), "{}", talk(&get));
    until("the node's mark", || {
        fs::read_to_string(&of_node).is_ok_and(|text| text.ends_with(&common::SIZE.to_string()))
    });
    assert_eq!(fs::metadata(&second).unwrap().len(), common::SIZE as u64);
}

/// A command's output on a terminal of this many columns.
fn shown(folder: &Path, columns: usize, environment: &[(&str, &str)], command: &str) -> String {
    let script = format!("stty cols {columns} rows 40; {command}");
    let mut terminal = Command::new("script");
    terminal.args(["-qefc", &script, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm-256color");
    terminal.env("XDG_STATE_HOME", folder.join("home")).env_remove("TRIB_CONTROL").envs(environment.to_vec());
    let output = terminal.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
/// The texts between escape codes and line ends; their lengths are what a terminal shows of a line.
fn pieces(shown: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut rest = shown.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                // A sequence ends with a letter (ECMA-48).
                for c in rest.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            c => plain.push(c),
        }
    }
    plain.split(['\r', '\n']).map(|line| line.trim_end().to_string()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn progress_and_tables_fit_terminals_of_60_80_and_120_columns() {
    if !has_program("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    put(folder, &file(folder), "/lab/a-name-that-is-long-enough-to-be-cut");
    let program = env!("CARGO_BIN_EXE_trib");
    for columns in [60, 80, 120] {
        let copy = folder.join(format!("copy-{columns}"));
        let command = format!(
            "{program} get /lab/a-name-that-is-long-enough-to-be-cut --limit 30Mbps --config {} -o {}",
            receiver.display(),
            copy.display()
        );
        let shown = shown(folder, columns, &[], &command);
        assert_eq!(fs::metadata(&copy).unwrap().len(), common::SIZE as u64, "{shown}");
        let pieces = pieces(&shown);
        let is_bar = |line: &&String| line.contains('━') || line.contains('╸');
        assert!(pieces.iter().filter(is_bar).count() > 2, "no bars: {shown}");
        // Bars fill their lines, so that one follows the other: a piece that is not the start of a bar or a row is the
        // rest of a wrapped one. Sentences may wrap.
        let is_row = |line: &&String| line.starts_with(['━', '╸', ' ']) && !line.contains("written to");
        for line in pieces.iter().filter(is_row) {
            for line in line.chars().collect::<Vec<_>>().chunks(columns) {
                assert!(matches!(line[0], '━' | '╸' | ' '), "{columns}: {}", line.iter().collect::<String>());
            }
        }
    }
    let (daemon, _) = Daemon::start_ready(folder, &receiver);
    for columns in [60, 80] {
        let control = folder.join("receiver/control.sock");
        let table = shown(folder, columns, &[], &format!("{program} status --control {}", control.display()));
        let rows: Vec<String> = pieces(&table).into_iter().filter(|line| line.starts_with("  ")).collect();
        assert!(!rows.is_empty() && rows.iter().all(|row| row.chars().count() <= columns), "{rows:#?}");
    }
    daemon.stop();
}

#[test]
fn a_terminal_without_colours_gets_none() {
    if !has_program("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let wrong = folder.join("wrong.toml");
    fs::write(&wrong, "[node]\nlabel = \"a\"\nrole = [\"sender\"]\nlisten = [\"127.0.0.1:1\"]\n").unwrap();
    let command = format!("{} config check {}", env!("CARGO_BIN_EXE_trib"), wrong.display());
    assert!(shown(folder, 80, &[], &command).contains("\u{1b}["), "a terminal with colours gets some");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = shown(folder, 80, &[environment], &command);
        assert!(shown.contains("did you mean 'roles'?") && !shown.contains("\u{1b}["), "{environment:?}: {shown}");
    }
}

#[test]
fn the_unit_is_sandboxed_and_systemd_accepts_it() {
    if !has_program("systemd-analyze") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("tributary@router.service");
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/tributary@.service"));
    fs::write(&unit, text.unwrap().replace("/usr/bin/trib", env!("CARGO_BIN_EXE_trib"))).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&unit).output().unwrap();
        (output.status.success(), format!("{}{}", String::from_utf8_lossy(&output.stdout), talk(&output)))
    };
    // The score times ten.
    let (is_safe, report) = analyze(&["security", "--offline=true", "--threshold=29"]);
    assert!(is_safe, "{report}");
    let (_, report) = analyze(&["verify", "--man=no"]);
    assert!(!report.contains("tributary@router"), "{report}");
}

#[test]
fn the_doctor_finds_silent_neighbours_and_taken_ports_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    let checks = |arguments: &[&str]| {
        let doctor = run(folder, &[&["doctor", "--json"], arguments].concat());
        (doctor.status.code(), lines(&doctor.stdout))
    };
    let state_of = |checks: &[serde_json::Value], text: &str| {
        let found = checks.iter().find(|check| check["text"].as_str().is_some_and(|found| found.contains(text)));
        found.map(|check| (check["state"].as_str().unwrap().to_string(), check["hint"].is_string()))
    };
    // A separate node, whose neighbour answers.
    let (code, found) = checks(&["--config", receiver.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{found:#?}");
    assert_eq!(state_of(&found, "'server' answers"), Some(("ok".into(), false)), "{found:#?}");
    assert_eq!(state_of(&found, "resolves names"), Some(("ok".into(), false)), "{found:#?}");
    // A daemon whose neighbour does not run.
    let nobody = common::port();
    let alone = config(folder, "alone", r#""receiver""#, 0, &common::face(nobody, "psi"));
    let daemon = Daemon::start(folder, &alone);
    let control = folder.join("alone/control.sock");
    let (code, found) = checks(&["--control", control.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{found:#?}");
    assert_eq!(state_of(&found, &format!("127.0.0.1:{nobody}")), Some(("problem".into(), true)), "{found:#?}");
    daemon.stop();
    // A port that another program has.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().port();
    let config = config(folder, "second", r#""router""#, at, "");
    let (code, found) = checks(&["--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{found:#?}");
    assert_eq!(
        state_of(&found, &format!("cannot listen on 127.0.0.1:{at}")),
        Some(("problem".into(), true)),
        "{found:#?}"
    );
}

#[test]
fn the_status_fills_the_screen_and_leaves_the_terminal_as_it_was() {
    if !has_program("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    let _daemon = Daemon::start(folder, &receiver);
    let control = folder.join("receiver/control.sock");
    let command =
        format!("timeout -s INT 3 {} status --watch --control {}", env!("CARGO_BIN_EXE_trib"), control.display());
    let shown = shown(folder, 60, &[], &command);
    let (enter, leave) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    assert!(shown.contains(enter) && shown.trim_end().ends_with(leave), "{shown:?}");
    assert!(shown.matches("receiver (psi: receiver)").count() >= 2, "it is drawn anew: {shown:?}");
    assert!(shown.contains("face-1") && shown.contains("Ctrl-C ends"), "{shown:?}");
    // Without a terminal there is nothing to draw on.
    let piped = run(folder, &["status", "--watch", "--control", control.to_str().unwrap()]);
    assert_eq!(piped.status.code(), Some(2), "{}", talk(&piped));
}
