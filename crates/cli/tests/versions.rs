//! Files whose changes are published, and nodes that follow them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{Daemon, ask, config, server, server_and_receiver, until};

fn has(path: &Path, text: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
}
/// Replaces a file as careful programs do.
fn replace(path: &Path, text: &str) {
    let aside = path.with_extension("new");
    fs::write(&aside, text).unwrap();
    fs::rename(aside, path).unwrap();
}

fn a_file_that_changes_is_followed(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (server, receiver) = server_and_receiver(folder, family);
    let daemon = Daemon::start(folder, &receiver);
    let (original, copy) = (folder.join("original"), folder.join("copy"));
    fs::write(&original, "one").unwrap();
    ask(folder, "server", &["put", original.to_str().unwrap(), "/notes", "--watch"]);
    let follow = ["follow", "/notes", "-o", copy.to_str().unwrap(), "--every", "300ms"];
    assert_eq!(ask(folder, "receiver", &follow)[0]["queue"], "get-1");
    until("the first version", || has(&copy, "one"));

    fs::write(&original, "two, in place").unwrap();
    until("what was written in place", || has(&copy, "two, in place"));
    replace(&original, "three, by a rename");
    until("what was renamed", || has(&copy, "three, by a rename"));
    // A file with an older time is still a later version.
    replace(&original, "four, older");
    fs::File::options().append(true).open(&original).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    until("what has an older time", || has(&copy, "four, older"));

    // The follower is killed; it resumes on its own.
    drop(daemon);
    replace(&original, "five, while nobody looked");
    let _daemon = Daemon::start(folder, &receiver);
    until("what changed meanwhile", || has(&copy, "five, while nobody looked"));
    drop(server);
}
tributary_testkit::tests! {
    fn a_file_that_changes_is_followed_in_psi() = a_file_that_changes_is_followed("psi");
    fn a_file_that_changes_is_followed_in_ndn() = a_file_that_changes_is_followed("ndn");
    fn a_file_that_changes_is_followed_in_mobility_first() = a_file_that_changes_is_followed("mf");
}

#[test]
fn a_folder_that_another_one_replaces_is_still_watched() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    let _receiver = Daemon::start(folder, &receiver);
    let (site, copy) = (folder.join("site"), folder.join("copy"));
    let make = |at: &Path, text: &str| {
        fs::create_dir(at).unwrap();
        fs::write(at.join("index"), text).unwrap();
    };
    make(&site, "one");
    ask(folder, "server", &["put", site.to_str().unwrap(), "/site", "--watch"]);
    ask(folder, "receiver", &["follow", "/site", "-o", copy.to_str().unwrap(), "--every", "300ms"]);
    until("the first version", || has(&copy.join("index"), "one"));
    // As deployments do: the new folder is made aside, the old one is removed, and the new one replaces it.
    make(&folder.join("site.new"), "two");
    fs::rename(&site, folder.join("site.old")).unwrap();
    fs::rename(folder.join("site.new"), &site).unwrap();
    until("the other folder", || has(&copy.join("index"), "two"));
    fs::write(site.join("index"), "three").unwrap();
    until("what changes in it", || has(&copy.join("index"), "three"));
    // A file in it that is watched as well, and then no more.
    ask(folder, "server", &["put", site.join("index").to_str().unwrap(), "/index", "--watch"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    ask(folder, "server", &["rm", "/index"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    fs::create_dir(site.join("sub")).unwrap();
    fs::write(site.join("sub/page"), "four").unwrap();
    until("what comes in a folder that comes", || has(&copy.join("sub/page"), "four"));
}

#[test]
fn a_file_behind_links_is_published_anew_when_a_link_is_swapped() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_server, receiver) = server_and_receiver(folder, "psi");
    let _receiver = Daemon::start(folder, &receiver);
    // As Kubernetes mounts a ConfigMap: app.conf → ..data/app.conf, and ..data → the folder of a version.
    let (mount, copy) = (folder.join("mount"), folder.join("copy"));
    for version in ["one", "two"] {
        fs::create_dir_all(mount.join(format!("..{version}"))).unwrap();
        fs::write(mount.join(format!("..{version}/app.conf")), version).unwrap();
    }
    symlink("..one", mount.join("..data")).unwrap();
    symlink("..data/app.conf", mount.join("app.conf")).unwrap();
    ask(folder, "server", &["put", mount.join("app.conf").to_str().unwrap(), "/conf", "--watch"]);
    ask(folder, "receiver", &["follow", "/conf", "-o", copy.to_str().unwrap(), "--every", "300ms"]);
    until("the first version", || has(&copy, "one"));
    symlink("..two", mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    fs::remove_dir_all(mount.join("..one")).unwrap();
    until("the version behind the other link", || has(&copy, "two"));
    fs::write(mount.join("..two/app.conf"), "three").unwrap();
    until("what is written behind the links", || has(&copy, "three"));
}

fn a_mirror_serves_the_latest_version_when_its_publisher_has_gone(family: &str) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (_network, face) = server(folder, family);
    let start = |label: &str, roles: &str| -> (Daemon, PathBuf) {
        let config = config(folder, label, roles, 0, &face);
        (Daemon::start(folder, &config), config)
    };
    let (publisher, _) = start("publisher", r#""sender""#);
    let (_mirror, _) = start("mirror", r#""sender", "receiver""#);
    let (_receiver, _) = start("receiver", r#""receiver""#);
    // A folder in which one file changes and one appears.
    let (original, mirrored, copy) = (folder.join("site"), folder.join("mirrored"), folder.join("copy"));
    fs::create_dir(&original).unwrap();
    fs::write(original.join("index"), "one").unwrap();
    let put = ask(folder, "publisher", &["put", original.to_str().unwrap(), "/site", "--watch"]);
    let key = put.iter().find_map(|line| line["publisher"].as_str()).unwrap().to_string();
    ask(folder, "mirror", &["mirror", "/site", "-o", mirrored.to_str().unwrap(), "--every", "300ms"]);
    until("the first version", || has(&mirrored.join("site/index"), "one"));
    fs::write(original.join("index"), "two").unwrap();
    fs::write(original.join("more"), "a file that is new").unwrap();
    until("the second version", || has(&mirrored.join("site/index"), "two"));
    until("that it is served", || {
        let status = ask(folder, "mirror", &["status"]).pop().unwrap();
        status["published"].as_array().unwrap().iter().any(|of| of["name"] == "/site" && of["confirmed"] == true)
    });
    assert_eq!(publisher.stop(), Some(0));
    // Under the publisher's signature: the mirror does not have the secret key.
    let get = ["get", "/site", "-o", copy.to_str().unwrap(), "--publisher", &key, "--timeout", "30s"];
    let done = ask(folder, "receiver", &get).pop().unwrap();
    assert_eq!(done["event"], "done", "{done}");
    assert!(has(&copy.join("index"), "two") && has(&copy.join("more"), "a file that is new"));
}
tributary_testkit::tests! {
    a_mirror_serves_the_latest_version_when_its_publisher_has_gone:
    fn a_mirror_serves_the_latest_version_when_its_publisher_has_gone_in_psi("psi");
    fn a_mirror_serves_the_latest_version_when_its_publisher_has_gone_in_mobility_first("mf");
}
