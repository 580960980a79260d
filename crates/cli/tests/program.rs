//! The program from outside: exit codes, words on stdout and stderr, files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tributary_testkit::schema;

/// Runs `trib` with a separate state, without a terminal.
fn trib(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trib"))
        .args(arguments)
        .env("XDG_STATE_HOME", home)
        .env_remove("TRIB_CONTROL")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}
fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
/// Its `--json` line, checked against the schema.
fn json(output: &Output) -> serde_json::Value {
    let line = serde_json::from_str(&stdout(output)).unwrap();
    schema::check(&line);
    line
}
fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_config_is_right() {
    let home = home();
    let mut count = 0;
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let output = trib(home.path(), &["config", "check", path.to_str().unwrap()]);
            assert_eq!(code(&output), 0, "{}", stderr(&output));
            assert!(stdout(&output).contains("is right: node '"), "{}", stdout(&output));
            count += 1;
        }
    }
    assert!(count >= 3, "{count} examples");
}

#[test]
fn lines_that_an_example_comments_out_are_right_as_well() {
    let home = home();
    // The files that examples ask their readers to make.
    for key in ["home.key", "lab-names.key"].map(|key| home.path().join(key)) {
        std::fs::write(&key, [7; 32]).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let (chain, root) = (home.path().join("ndn-keys"), home.path().join("root.cert"));
    let (chain, root) = (chain.to_str().unwrap(), root.to_str().unwrap());
    for command in [&["new", "/lab/alice"][..], &["export", "/lab/alice", "-o", root]] {
        let made = trib(home.path(), &[&["ndn-key"], command, &["--keys", chain]].concat());
        assert_eq!(code(&made), 0, "{}", stderr(&made));
    }
    for entry in std::fs::read_dir(examples()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // A commented setting has the form "# key = value"; "…" is a placeholder for secrets.
        let is_setting = |line: &str| {
            line.strip_prefix("# ").is_some_and(|rest| {
                let key = rest.split(' ').next().unwrap_or_default();
                rest.starts_with('[')
                    || (rest.contains(" = ") && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
            })
        };
        let shown: Vec<_> = text
            .lines()
            .filter(|line| !line.contains("\"…\"") && !line.starts_with("# device"))
            .map(|line| if is_setting(line) { &line[2..] } else { line })
            .collect();
        // A published file must exist.
        std::fs::write(home.path().join("debian.iso"), "").unwrap();
        let copy = home.path().join("shown.toml");
        std::fs::write(&copy, shown.join("\n")).unwrap();
        let output = trib(home.path(), &["config", "check", copy.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}: {}", path.display(), stderr(&output));
    }
}

#[test]
fn a_wrong_config_is_a_usage_error_that_names_line_and_hint() {
    let home = home();
    let file = home.path().join("wrong.toml");
    std::fs::write(&file, "[node]\nlabel = \"a\"\nrole = [\"sender\"]\nlisten = [\"127.0.0.1:1\"]\n").unwrap();
    let file = file.to_str().unwrap();
    for command in [vec!["config", "check", file], vec!["node", "--config", file], vec!["get", "/a", "--config", file]]
    {
        let output = trib(home.path(), &command);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""), "{command:?}");
        let talk = stderr(&output);
        assert!(talk.contains("wrong.toml:3:1: unknown key 'role' in [node]"), "{talk}");
        assert!(talk.contains("did you mean 'roles'?"), "{talk}");
        assert_eq!(talk.matches("unknown key 'role'").count(), 1, "{talk}");
        assert!(talk.contains("wrong.toml' has 2 mistakes\n"), "{talk}");
        assert!(talk.contains("role = [\"sender\"]"), "{talk}");
        assert!(!talk.contains('\u{1b}'), "escape codes off a terminal: {talk}");
    }
    let output = trib(home.path(), &["config", "check", file, "--json"]);
    let line = json(&output);
    assert_eq!((&line["event"], &line["kind"]), (&"error".into(), &"usage".into()));
    let output = trib(home.path(), &["config", "check", "/nowhere.toml"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("cannot read config '/nowhere.toml'"), "{}", stderr(&output));
}

#[test]
fn what_a_node_could_not_do_is_told_by_its_config_with_the_line() {
    let home = home();
    let file = home.path().join("wrong.toml");
    let check = |text: String| {
        std::fs::write(&file, text).unwrap();
        let output = trib(home.path(), &["config", "check", file.to_str().unwrap(), "--json"]);
        (code(&output), stderr(&output))
    };
    let node = |label: &str, family: &str, roles: &str, more: &str| {
        format!("[node]\nlabel = {label}\nfamily = \"{family}\"\nroles = [{roles}]\nlisten = [\"127.0.0.1:0\"]\n{more}")
    };
    let publish = |name: &str| format!("[[publish]]\nname = \"{name}\"\npath = \"a\"\n");
    let twice = publish("/a") + &publish("/a");
    let face = |more: &str| format!("[[face]]\npeer = \"127.0.0.1:9\"\n{more}");
    std::fs::write(home.path().join("shared.key"), [7; 32]).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(home.path().join("shared.key"), private).unwrap();
    std::fs::write(home.path().join("a"), "what is published").unwrap();
    let shared_key = "[[shared_key]]\nprefix = \"/a\"\nfile = \"shared.key\"\n".to_string();
    for (text, notices) in [
        (node("\"a\\u001b[31m\"", "psi", "\"sender\"", ""), ":2:9: 'label' holds a control character"),
        (
            node("\"a\"", "psi", "\"receiver\"", &publish("/a")),
            ":6:1: a node without the role sender publishes nothing",
        ),
        (node("\"a\"", "psi", "\"sender\"", &publish("/")), ":7:8: a published name has at least one component"),
        (node("\"a\"", "psi", "\"sender\"", &twice), ":10:8: '/a' is published twice"),
        (
            node("\"a\"", "mf", "\"router\"", "[mf]\nstore_size = \"1GiB\"\nstore_flow_size = \"2GiB\"\n"),
            ":8:19: 'store_flow_size' is out of range\n  hint: it must be at most store_size",
        ),
        (node("\"a\"", "psi", "\"router\"", &(face("") + "egress = { rate = \"0bps\" }\n")), ":8:19: 'rate' is zero"),
        (node("\"a\"", "ndn", "\"router\"", &face("").repeat(2)), ":9:8: 127.0.0.1:9 is a neighbour already"),
        (
            node("\"a\"", "mf", "\"router\"", &(face("") + &face("local = \"127.0.0.1:0\"\n"))),
            ":9:8: 127.0.0.1:9 is a neighbour already",
        ),
        (node("\"a\"", "ndn", "\"router\"", "[psi]\n[limits]\n"), ":6:1: family ndn has no [psi]"),
        (node("\"a\"", "psi", "\"router\"", "[mf]\n"), ":6:1: family psi has no [mf]"),
        (node("\"a\"", "mf", "\"router\"", "[ndn]\n"), ":6:1: family mf has no [ndn]"),
        (node("\"a\"", "mf", "\"router\"", &shared_key), ":6:1: family mf has no [[shared_key]]"),
    ] {
        let (code, talk) = check(text);
        assert!(code == 2 && talk.contains(&format!("wrong.toml{notices}")), "{notices}: {talk}");
    }
    let uplinks = face("device = \"wwan0\"\n") + &face("device = \"wwan1\"\n") + &face("");
    for right in [
        node("\"a\"", "psi", "\"sender\"", &(publish("/a") + &publish("/b") + &uplinks + "[psi]\n")),
        node("\"a\"", "ndn", "\"router\"", &format!("{shared_key}[ndn]\n[transfer]\n")),
    ] {
        assert_eq!(check(right.clone()).0, 0, "{right}");
    }
}

#[test]
fn without_a_home_no_key_is_made_and_it_is_said_what_to_do() {
    let home = home();
    let example = std::fs::read_to_string(examples().join("receiver.toml")).unwrap();
    let file = home.path().join("receiver.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_trib"));
        command.args(["config", "check"]).arg(&file).env_remove("XDG_STATE_HOME").env_remove("HOME").output().unwrap()
    };
    let refused = check(&example);
    assert_eq!(code(&refused), 2, "{}", stdout(&refused));
    let notices = stderr(&refused);
    assert!(notices.contains("there is no home folder for its state") && notices.contains("or set HOME"), "{notices}");
    let taken = check(&example.replace("[node]\n", "[node]\nstate_dir = \"state\"\n"));
    assert_eq!(code(&taken), 0, "{}", stderr(&taken));
    let requested = Command::new(env!("CARGO_BIN_EXE_trib")).arg("status").env_clear().output().unwrap();
    assert_eq!(code(&requested), 2);
    assert!(stderr(&requested).contains("without a home folder none is found"), "{}", stderr(&requested));
}

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    let home = home();
    for wrong in [
        vec![],
        vec!["dance"],
        vec!["get"],
        vec!["get", "no-slash"],
        vec!["get", "/a", "--limit", "20"],
        vec!["get", "/a", "--publisher", "me"],
        vec!["get", "/a", "--family", "ccn"],
        vec!["get", "/a", "--config", "x", "--control", "y"],
        vec!["demo", "--fail", "sauce"],
        vec!["demo", "--loss", "200%"],
        vec!["limit", "0bps"],
        vec!["get", "/a", "--timeout", "0s"],
    ] {
        let output = trib(home.path(), &wrong);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""), "{wrong:?}");
        let output = trib(home.path(), &[&["--json"], &wrong[..]].concat());
        let line = json(&output);
        assert_eq!((code(&output), &line["event"], &line["kind"]), (2, &"error".into(), &"usage".into()), "{wrong:?}");
        let message = line["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains(['\n', '\u{1b}']), "{message}");
        assert!(!message.starts_with("error") && !message.contains("Usage:"), "{message}");
    }
    for help in [vec!["--help"], vec!["get", "--help"], vec!["--version"]] {
        let output = trib(home.path(), &help);
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{help:?}");
    }
    let help = stdout(&trib(home.path(), &["--help"]));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for code in
        ["0 done, or stored safely", "1 not found", "2 wrong usage", "3 incomplete", "4 refused", "5 disk", "6 daemon"]
    {
        assert!(words.contains(code), "{code}: {help}");
    }
    let refusal = stderr(&trib(home.path(), &["get", "/a", "--family", "ccn"]));
    assert!(refusal.contains("'ccn'") && refusal.contains("psi, ndn, mf"), "{refusal}");
}

#[test]
fn without_a_daemon_every_question_says_how_to_start_one() {
    let home = home();
    for question in [
        vec!["status"],
        vec!["ls"],
        vec!["cache"],
        vec!["paths", "/a"],
        vec!["explain", "path-1"],
        vec!["rm", "/a"],
        vec!["get", "/a"],
        vec!["put", "/etc/hosts", "/a"],
    ] {
        let output = trib(home.path(), &question);
        assert_eq!((code(&output), stdout(&output).as_str()), (6, ""), "{question:?}");
        assert!(stderr(&output).contains("error: no daemon runs here"), "{}", stderr(&output));
        assert!(stderr(&output).contains("trib node --config FILE"), "{}", stderr(&output));
    }
    let output = trib(home.path(), &["status", "--control", "/nowhere.sock"]);
    assert!(stderr(&output).contains("there is no '/nowhere.sock'"), "{}", stderr(&output));
}

#[test]
fn a_key_is_made_once_shown_alike_and_never_overwritten() {
    let home = home();
    let file = home.path().join("key");
    let file = file.to_str().unwrap();
    let made = trib(home.path(), &["key", "new", file]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert!(stdout(&made).starts_with("ed25519:"));
    assert_eq!(stdout(&trib(home.path(), &["key", "show", file])), stdout(&made));
    assert_eq!(code(&trib(home.path(), &["key", "new", file])), 2);
    assert_eq!(stdout(&trib(home.path(), &["key", "show", file])), stdout(&made));
    let line = json(&trib(home.path(), &["key", "show", file, "--json"]));
    assert_eq!(line["public"], stdout(&made).trim());
    assert_eq!(code(&trib(home.path(), &["key", "show", "/nowhere"])), 5);
    let folder = trib(home.path(), &["key", "show", home.path().to_str().unwrap()]);
    assert_eq!(code(&folder), 5);
    let notices = format!("cannot read the key file '{}': is a directory", home.path().display());
    assert!(stderr(&folder).contains(&notices), "{}", stderr(&folder));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let home = home();
    let commands = ["demo", "node", "put", "get", "ls", "rm", "status", "paths", "explain", "cache", "config", "key"];
    for shell in ["bash", "zsh", "fish"] {
        let output = trib(home.path(), &["completions", shell]);
        assert_eq!(code(&output), 0);
        for command in commands {
            assert!(stdout(&output).contains(command), "{command} in {shell}");
        }
    }
    let folder = home.path().join("man");
    let output = trib(home.path(), &["man", folder.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for command in commands {
        assert!(folder.join(format!("trib-{command}.1")).is_file(), "{command}");
    }
    let page = std::fs::read_to_string(folder.join("trib-get.1")).unwrap();
    assert!(page.contains("publisher") && page.contains("130 interrupted"), "{page}");
}

#[test]
fn json_and_a_stream_do_not_share_stdout() {
    let home = home();
    let output = trib(home.path(), &["get", "/a", "-o", "-", "--json"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("would mix lines and bytes"), "{}", stderr(&output));
}

#[test]
fn what_the_disk_refuses_is_said_before_any_neighbour_is_waited_for() {
    let home = home();
    let config = |name: &str| examples().join(name).to_str().unwrap().to_string();
    let missing = home.path().join("missing");
    let (file, inside) = (missing.to_str().unwrap(), missing.join("copy"));
    let (publisher, receiver, mobile) = (config("publisher.toml"), config("receiver.toml"), config("mobile-host.toml"));
    for arguments in [
        &["put", file, "/demo/big", "--config", &publisher][..],
        &["get", "/demo/big", "--config", &receiver, "-o", inside.to_str().unwrap()],
        &["send", file, "/demo/big", "--to", "/demo/them", "--config", &mobile],
    ] {
        let output = trib(home.path(), arguments);
        assert_eq!(code(&output), 5, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("No such file or directory"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("neighbour"), "{}", stderr(&output));
    }
    let long = format!("/demo/{}", "n".repeat(256));
    let output = trib(home.path(), &["get", &long, "--config", &receiver]);
    let notices =
        "the last part has 256 bytes\n  hint: choose another target with -o, whose last part has at most 255 bytes";
    assert!(code(&output) == 5 && stderr(&output).contains(notices), "{}", stderr(&output));
    assert!(!stderr(&output).contains("neighbour"), "{}", stderr(&output));
}

#[test]
fn lab_and_sim_continue_as_the_program_on_the_path_with_all_words() {
    use std::os::unix::fs::PermissionsExt;
    let (home, folder) = (home(), home());
    let script = folder.path().join("trib-lab");
    std::fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 3\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The built program may have the real one next to it; a copy does not.
    let program = folder.path().join("bin/trib");
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_trib"), &program).unwrap();
    let run = |path: &str, words: &[&str]| {
        Command::new(&program).args(words).env("PATH", path).env("XDG_STATE_HOME", home.path()).output().unwrap()
    };
    let path = folder.path().to_str().unwrap();
    for (words, continued) in [
        (&["lab", "run", "mmftp-failure", "--runs", "2", "--json"][..], "lab\nrun\nmmftp-failure\n--runs\n2\n--json\n"),
        (&["--json", "sim", "a.toml"], "sim\n--json\na.toml\n"),
        (&["sim", "--help"], "sim\n--help\n"),
    ] {
        let output = run(path, words);
        assert_eq!((stdout(&output).as_str(), code(&output)), (continued, 3), "{}", stderr(&output));
    }
    let output = run("/nowhere", &["lab", "list"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("tributary-lab"), "{}", stderr(&output));
}
