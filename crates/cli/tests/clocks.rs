//! Wrong clocks: real daemons with another time of day, and with clock steps.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use crate::common::{Daemon, file, talk, trib, until};
use crate::roles::{FAMILIES, admit, authority, network, reload, status, trio};

/// Preloaded into a program, it moves the time of day by the seconds in the file that `SHIFT` names.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("SHIFT");
    char text[32] = "";
    int file = path && clock == CLOCK_REALTIME ? open(path, O_RDONLY) : -1;
    if (file < 0) return result;
    if (read(file, text, sizeof text - 1) > 0) time->tv_sec += atoll(text);
    close(file);
    return result;
}
"#;

/// The clock of one node.
pub(crate) struct Clock(pub(crate) Vec<(&'static str, PathBuf)>);

impl Clock {
    /// A clock that is `seconds` ahead of the true one.
    pub(crate) fn new(folder: &Path, label: &str, seconds: i64) -> Clock {
        let (library, source, shift) = (folder.join("clock.so"), folder.join("clock.c"), folder.join(label));
        if !library.exists() {
            fs::write(&source, SOURCE).unwrap();
            let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
            assert!(built.unwrap().success(), "the linker of Rust is there");
        }
        let clock = Clock(vec![("LD_PRELOAD", library), ("SHIFT", shift)]);
        clock.set(seconds);
        clock
    }
    fn set(&self, seconds: i64) {
        fs::write(&self.0[1].1, seconds.to_string()).unwrap();
    }
    fn start(&self, folder: &Path, config: &Path) -> Daemon {
        Daemon::start_with(trib(folder).envs(self.0.iter().cloned()), config).0
    }
}
/// As far ahead a clock is that shows January 1971.
pub(crate) fn in_1971() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    366 * 86_400 - i64::try_from(now.as_secs()).unwrap()
}

#[test]
fn nodes_join_and_publish_and_fetch_right_after_admission_though_their_clocks_are_wrong() {
    for [router, sender, receiver] in [[-86_400, 400, -600], [600, -600, 400], [0, 0, in_1971()], [0, in_1971(), 0]] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let original = file(folder);
        let authority = authority(folder, "network");
        for family in FAMILIES {
            let configs = trio(folder, family, &network(&authority, ""), &original);
            configs.iter().for_each(|config| drop(admit(folder, config, &["--names", "/lab"])));
            let clock = |label: &str, ahead| Clock::new(folder, &format!("{family}-{label}.shift"), ahead);
            let [router, sender, receiver] =
                [clock("router", router), clock("sender", sender), clock("receiver", receiver)];
            let _daemons = [router.start(folder, &configs[0]), sender.start(folder, &configs[1])];
            let copy = folder.join(format!("{family}-copy"));
            let name = format!("/lab/{family}");
            let arguments = ["get", &name, "--timeout", "30s", "--config", configs[2].to_str().unwrap(), "-o"];
            let got = trib(folder).envs(receiver.0.iter().cloned()).args(arguments).arg(&copy).output().unwrap();
            assert!(got.status.success(), "{family}: {}", talk(&got));
            assert_eq!(fs::read(&copy).unwrap(), fs::read(&original).unwrap());
        }
    }
}

#[test]
fn a_node_that_booted_in_1971_says_once_that_its_authority_corrects_its_clock_and_once_that_it_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = authority(folder, "network");
    let [router, ..] = trio(folder, "mf", &network(&authority, ""), &file(folder));
    admit(folder, &router, &[]);
    let clock = Clock::new(folder, "shift", in_1971());
    let router = clock.start(folder, &router);
    let notes = |word: &str| status(folder, "mf-router")["notes"].to_string().matches(word).count();
    until("the correction", || notes("counts until the clock is set") == 1);
    clock.set(0);
    reload(&router);
    until("the clock counts again", || notes("was set, and counts again") == 1);
    assert_eq!(notes("counts until the clock is set"), 1);
}
