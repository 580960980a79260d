//! Parts of objects over real daemons of each family.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use crate::common::{self, file, lines, put, server_and_receiver, talk};

fn ranges_of_an_object_come_alone(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let original = file(folder);
    let bytes = fs::read(&original).unwrap();
    let (_server, receiver) = server_and_receiver(folder, family);
    put(folder, &original, "/big");
    let config = receiver.to_str().unwrap();
    let get = |more: &[&str]| {
        let mut command = common::trib(folder);
        command.current_dir(folder).args(["get", "/big", "--config", config]).args(more).output().unwrap()
    };

    let got = get(&["--range", "1000-1999", "-o", "-"]);
    assert_eq!(got.status.code(), Some(0), "{}", talk(&got));
    assert!(got.stdout == bytes[1000..2000]);
    let got = get(&["--range", "-500,2000000-2000009,0-0", "-o", "-"]);
    let meant = [&bytes[..1], &bytes[2_000_000..2_000_010], &bytes[bytes.len() - 500..]].concat();
    assert!(got.stdout == meant, "{}", talk(&got));

    // To a file; the report counts the bytes of the range, and few more crossed the network.
    let got = get(&["--range", "2500000-2500999", "-o", "part", "--json"]);
    assert_eq!(got.status.code(), Some(0), "{}", talk(&got));
    let done = lines(&got.stdout).pop().unwrap();
    assert_eq!((&done["event"], &done["bytes"]), (&"done".into(), &1000.into()), "{done}");
    let of_paths: u64 = done["paths"].as_array().unwrap().iter().map(|path| path["bytes"].as_u64().unwrap()).sum();
    assert!(of_paths < 700_000, "{done}");
    let again = get(&["--range", "0-9", "-o", "part"]);
    assert!(common::class(again.status.code()) == Some(2) && talk(&again).contains("--overwrite"), "{}", talk(&again));

    let beyond = get(&["--range", "5000000-", "-o", "-"]);
    assert!(talk(&beyond).contains("none of them in the range 5000000-"), "{}", talk(&beyond));
    assert!(beyond.stdout.is_empty() && common::class(beyond.status.code()) == Some(2));
    let nonsense = get(&["--range", "9-1", "-o", "-"]);
    assert!(
        common::class(nonsense.status.code()) == Some(2) && talk(&nonsense).contains("is not a range"),
        "{}",
        talk(&nonsense)
    );
}

tributary_testkit::tests! {
    fn ranges_of_an_object_come_alone_in_psi() = ranges_of_an_object_come_alone("psi");
    fn ranges_of_an_object_come_alone_in_ndn() = ranges_of_an_object_come_alone("ndn");
    fn ranges_of_an_object_come_alone_in_mobility_first() = ranges_of_an_object_come_alone("mf");
}
