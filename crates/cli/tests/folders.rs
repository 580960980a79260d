//! A folder that was fetched before: only changed files cross the network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path, process::Output};

use crate::common::{lines, put, run, server_and_receiver, talk};

const FILES: usize = 2_000;

/// Bytes of file `number` in a version of it.
fn bytes(number: usize, version: u64) -> Vec<u8> {
    let mut state = number as u64 * 7_919 + version;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(100_000 + number % 500).collect()
}
fn moved(output: &Output) -> (u64, u64) {
    assert_eq!(output.status.code(), Some(0), "{}", talk(output));
    let done = lines(&output.stdout).pop().unwrap();
    let paths = done["paths"].as_array().unwrap();
    (paths.iter().map(|path| path["bytes"].as_u64().unwrap()).sum(), done["bytes"].as_u64().unwrap())
}
fn path(root: &Path, number: usize) -> std::path::PathBuf {
    root.join(format!("part-{}/file-{number}", number % 20))
}

fn only_what_changed_in_a_folder_is_fetched_again(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let root = folder.join("tree");
    for number in 0..FILES {
        let path = path(&root, number);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes(number, 1)).unwrap();
    }
    let (_server, receiver) = server_and_receiver(folder, family);
    let target = folder.join("copy");
    let get = || {
        let arguments =
            ["get", "/tree", "-o", target.to_str().unwrap(), "--json", "--config", receiver.to_str().unwrap()];
        run(folder, &arguments)
    };
    let check = |version: &dyn Fn(usize) -> u64| {
        for number in 0..FILES {
            assert!(fs::read(path(&target, number)).unwrap() == bytes(number, version(number)), "file {number}");
        }
    };
    put(folder, &root, "/tree");
    let (first, size) = moved(&get());
    assert!(first >= size);
    check(&|_| 1);
    // A repetition moves nothing.
    assert_eq!(moved(&get()).0, 0);

    // Three files change, one of them in its length, so that all later ones have other offsets in the object.
    let changed = [100, 1_000, 1_700];
    for number in changed {
        let extra = if number == 100 { vec![1; 12_345] } else { Vec::new() };
        fs::write(path(&root, number), [bytes(number, 2), extra].concat()).unwrap();
    }
    put(folder, &root, "/tree");
    let (second, size) = moved(&get());
    assert!(second * 100 <= size, "{second} of {size} bytes");
    assert!(second > 0);
    for number in (0..FILES).filter(|number| *number != 100) {
        let version = if changed.contains(&number) { 2 } else { 1 };
        assert!(fs::read(path(&target, number)).unwrap() == bytes(number, version), "file {number}");
    }
    assert_eq!(fs::read(path(&target, 100)).unwrap().len(), bytes(100, 2).len() + 12_345);
}
tributary_testkit::tests! {
    only_what_changed_in_a_folder_is_fetched_again:
    fn only_what_changed_in_a_folder_is_fetched_again_in_psi("psi");
    fn only_what_changed_in_a_folder_is_fetched_again_in_ndn("ndn");
    fn only_what_changed_in_a_folder_is_fetched_again_in_mobility_first("mf");
}
