//! Parts of folders over real daemons of each family.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use crate::common::{self, lines, put, server_and_receiver, talk};

/// Two small tables and 12 MB that are not wanted.
fn folder(at: &Path) {
    for inner in ["data/old", "pictures"] {
        fs::create_dir_all(at.join(inner)).unwrap();
    }
    let noise: Vec<u8> = (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (path, bytes) in [
        ("a.csv", &noise[..70_000]),
        ("data/b.csv", &noise[..300_000]),
        ("data/old/c.csv", &noise[5..50_000]),
        ("pictures/1", &noise),
        ("pictures/2", &noise[1..]),
        ("pictures/3", &noise[2..]),
    ] {
        fs::write(at.join(path), bytes).unwrap();
    }
}

fn only_what_is_wanted_of_a_folder_moves(family: &str) {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let original = home.join("original");
    folder(&original);
    let (_server, receiver) = server_and_receiver(home, family);
    put(home, &original, "/lab/set");
    let config = receiver.to_str().unwrap();
    let get = |more: &[&str]| {
        let mut command = common::trib(home);
        command.current_dir(home).arg("get").args(more).args(["--config", config, "--json"]).output().unwrap()
    };
    let done = |output: &std::process::Output| {
        assert_eq!(output.status.code(), Some(0), "{}", talk(output));
        lines(&output.stdout).into_iter().rfind(|line| line["event"] == "done").unwrap()
    };
    let moved = |done: &serde_json::Value| -> u64 {
        let sources = done["sources"].as_array().unwrap().iter();
        sources.map(|source| source["bytes"].as_u64().unwrap()).sum()
    };

    let got = done(&get(&["/lab/set", "--include", "*.csv", "--exclude", "old", "-o", "tables"]));
    let bytes = got["bytes"].as_u64().unwrap();
    assert!((370_000..371_000).contains(&bytes), "the total counts what is wanted: {got}");
    assert!(moved(&got) < 2_000_000, "{got}");
    assert_eq!(fs::read(home.join("tables/data/b.csv")).unwrap(), fs::read(original.join("data/b.csv")).unwrap());
    assert!(!home.join("tables/pictures").exists() && !home.join("tables/data/old").exists());
    let again = done(&get(&["/lab/set", "--include", "*.csv", "--exclude", "old", "-o", "tables"]));
    assert_eq!(moved(&again), 0, "it is there already: {again}");

    // A path below the name of the folder: a folder, and a file.
    let got = done(&get(&["/lab/set/data"]));
    assert!(moved(&got) < 2_000_000, "{got}");
    assert_eq!(fs::read(home.join("data/old/c.csv")).unwrap(), fs::read(original.join("data/old/c.csv")).unwrap());
    done(&get(&["/lab/set/a.csv", "-o", "copy.csv"]));
    assert_eq!(fs::read(home.join("copy.csv")).unwrap(), fs::read(original.join("a.csv")).unwrap());

    let nothing = get(&["/lab/set", "--include", "*.png", "-o", "nothing"]);
    assert!(talk(&nothing).contains("'*.png' matches nothing"), "{}", talk(&nothing));
    assert_eq!(common::class(nothing.status.code()), Some(1), "{}", talk(&nothing));
    let nowhere = get(&["/lab/set/nowhere"]);
    assert!(talk(&nowhere).contains("there is no 'nowhere' in the folder"), "{}", talk(&nowhere));
    assert!(!home.join("nothing").exists() && !home.join("nowhere").exists());
}

tributary_testkit::tests! {
    fn only_what_is_wanted_of_a_folder_moves_in_psi() = only_what_is_wanted_of_a_folder_moves("psi");
    fn only_what_is_wanted_of_a_folder_moves_in_ndn() = only_what_is_wanted_of_a_folder_moves("ndn");
    fn only_what_is_wanted_of_a_folder_moves_in_mobility_first() = only_what_is_wanted_of_a_folder_moves("mf");
}
