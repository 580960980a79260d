//! Neighbours and their keys: invitations, first use, and what happens when somebody else answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use crate::common::{Daemon, ask, class, config, put, run, server, talk};

/// Fetches with a node of its own; gives its exit code by [`class`], and what it says.
fn get(folder: &Path, name: &str, config: &Path, more: &[&str]) -> (Option<i32>, String) {
    let out = folder.join("copy");
    let fetch = ["get", name, "--config", config.to_str().unwrap(), "-o", out.to_str().unwrap(), "--overwrite"];
    let got = run(folder, &[&fetch[..], &["--timeout", "3s"], more].concat());
    (class(got.status.code()), talk(&got))
}

/// The server gets another key, as somebody on the path has; its address stays.
fn with_another_key(folder: &Path, server: Daemon) -> Daemon {
    assert_eq!(server.stop(), Some(0));
    std::fs::remove_file(folder.join("server/key")).unwrap();
    Daemon::start(folder, &folder.join("server.toml"))
}

#[test]
fn a_peer_is_known_by_its_invitation_or_its_first_key_in_all_families() {
    for family in ["psi", "ndn", "mf"] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::write(folder.join("file"), "what is fetched").unwrap();
        let (server, face) = server(folder, family);
        put(folder, &folder.join("file"), "/before");
        let status = ask(folder, "server", &["status"]);
        let printed = status[0]["invitation"].as_str().unwrap();
        let invited = ask(folder, "server", &["invite", "--host", "localhost", "--for", "1h"]);
        let invitation = invited[0]["invitation"].as_str().unwrap();
        assert!(invitation.contains("@localhost:") && invitation.contains(&format!("?family={family}&until=")));
        let by_address = config(folder, "by-address", r#""receiver""#, 0, &face);
        let by_line = config(folder, "by-line", r#""receiver""#, 0, &face);
        let invite = |line| ["--peer", line];

        // The first contact is told of once, and with an invitation there is none.
        let (code, said) = get(folder, "/before", &by_address, &[]);
        assert_eq!((code, said.matches("trusted at first use").count()), (Some(0), 1), "{family}: {said}");
        for (config, more) in
            [(&by_address, &[][..]), (&by_line, &invite(invitation)), (&by_line, &invite(printed)), (&by_line, &[])]
        {
            let (code, said) = get(folder, "/before", config, more);
            assert_eq!((code, said.contains("first use")), (Some(0), false), "{family} {more:?}: {said}");
        }

        // Whoever answers under another key gets nothing, and the person both keys and the command.
        let _server = with_another_key(folder, server);
        put(folder, &folder.join("file"), "/after");
        let new = ask(folder, "server", &["invite"])[0]["invitation"].as_str().unwrap().to_string();
        let key_of = |line: &str| line[7..71].to_string();
        for (config, more) in [(&by_address, &[][..]), (&by_line, &invite(printed)), (&by_line, &[])] {
            let (code, said) = get(folder, "/after", config, more);
            let has_both = said.contains(&key_of(printed)) && said.contains(&key_of(&new));
            assert_eq!((code, has_both), (Some(1), true), "{family} {more:?}: {said}");
        }
        let (_, said) = get(folder, "/after", &by_address, &[]);
        let command = said.split('`').find(|part| part.starts_with("trib key accept ")).unwrap();
        let accepted = run(folder, &command.split(' ').skip(1).collect::<Vec<_>>());
        assert_eq!(accepted.status.code(), Some(0), "{command}: {}", talk(&accepted));
        for (config, more) in [(&by_address, &[][..]), (&by_line, &invite(&new)), (&by_line, &[])] {
            let (code, said) = get(folder, "/after", config, more);
            assert_eq!(code, Some(0), "{family} {more:?}: {said}");
        }
    }
}

#[test]
fn an_invitation_that_has_ended_or_is_for_others_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, face) = server(folder, "psi");
    let line = ask(folder, "server", &["invite"])[0]["invitation"].as_str().unwrap().to_string();
    let receiver = config(folder, "receiver", r#""receiver""#, 0, &face);
    for (line, says) in [
        (format!("{line}&until=1"), "has ended"),
        (line.replace("psi", "mf"), "it is mf, and this node is of family psi"),
        (line.replace("trib://", "trib://0"), "the key in the invitation is wrong"),
    ] {
        let (code, said) = get(folder, "/a", &receiver, &["--peer", &line]);
        assert!(code == Some(2) && said.contains(says), "{line}: {said}");
    }
    let control = folder.join("server/control.sock");
    let drawn = run(folder, &["invite", "--qr", "--control", control.to_str().unwrap()]);
    assert!(talk(&drawn).contains('▄') && String::from_utf8_lossy(&drawn.stdout).starts_with("trib://"));
}
