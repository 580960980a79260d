//! Both ways of each function: that of this system, and the portable one.
use std::{
    os::{fd::AsFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use nix::poll::{PollFd, PollFlags};
use socket2::{Domain, SockRef, Socket, Type};

use crate::Clock;

/// The tests of what every way promises.
macro_rules! promises {
    ($way:ident) => {
        mod $way {
            use super::{super::$way::*, *};

            #[test]
            fn a_waiting_thread_is_woken_and_then_waits_again() {
                let wake = Wake::new().expect("descriptors are left");
                let wait = |timeout| wait(&mut [PollFd::new(wake.as_fd(), PollFlags::POLLIN)], timeout);
                thread::scope(|scope| {
                    scope.spawn(|| wake.ring());
                    assert_eq!(wait(None), Ok(1));
                });
                // As many calls as one may make before the other looks.
                (0..1_000).for_each(|_| wake.ring());
                wake.clear();
                assert_eq!(wait(Some(Duration::ZERO)), Ok(0));
                wake.ring();
                assert_eq!(wait(Some(Duration::from_secs(1 << 30))), Ok(1));
            }

            #[test]
            fn a_wait_is_never_too_short() {
                let wake = Wake::new().expect("descriptors are left");
                sharpen_timers();
                let clock = Clock::new();
                let timeout = Duration::from_micros(1_200);
                assert_eq!(wait(&mut [PollFd::new(wake.as_fd(), PollFlags::POLLIN)], Some(timeout)), Ok(0));
                assert!(clock.now().since(tributary_core::Time::ZERO) >= timeout);
            }

            #[test]
            fn sockets_take_the_options_or_do_without() {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
                forgo_timestamps(&socket);
                force_receive_buffer(&socket, 10_000);
                force_send_buffer(&socket, 10_000);
                assert!(BUFFER_SHARE > 0 && BUFFER_LIMITS.iter().all(|limit| limit.contains('.')));
                let stream = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                assert!(limit_unacknowledged(&SockRef::from(&stream), Duration::from_secs(9)).is_ok());
            }

            #[test]
            fn files_are_read_and_changed_as_promised_or_not_at_all() {
                let file = tempfile::tempfile().expect("a temporary file");
                let bytes = [7; 16 << 10];
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).expect("writable");
                let mut read = [0; 16 << 10];
                if let Ok(count) = read_cached_at(&file, &mut read, 0) {
                    assert_eq!(read[..count], bytes[..count]);
                }
                let _ = allocate(&file, 0, 64 << 10);
                if punch_hole(&file, 4_096, 4_096).is_ok() {
                    std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 0).expect("readable");
                    assert!(read[4_096..8_192] == [0; 4_096] && read[..4_096] == bytes[..4_096]);
                }
                assert!(file.metadata().expect("readable").len() >= 16 << 10);
            }

            #[test]
            fn a_folder_is_opened_over_no_link_or_not_in_one_step() {
                let folder = tempfile::tempdir().expect("a temporary folder");
                std::fs::create_dir(folder.path().join("a")).expect("writable");
                std::os::unix::fs::symlink("a", folder.path().join("link")).expect("links can be made");
                let top = std::fs::File::open(folder.path()).expect("readable").into();
                let how = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
                let open = |below: &str| open_folder_beneath(&top, below.as_ref(), how).map(|opened| opened.is_ok());
                assert!(matches!(open("a"), None | Some(true)));
                assert!(["link", "..", "/"].iter().all(|below| matches!(open(below), None | Some(false))));
            }

            #[test]
            fn uptime_does_not_decrease_and_runs_are_offered_or_not() {
                let earlier = uptime();
                assert!(uptime() >= earlier);
                assert_eq!(segmentation(&1).is_some(), BUFFER_SHARE == 2, "both are Linux's");
                assert_eq!(codepoint(true, &2, &2).is_some(), BUFFER_SHARE == 2);
            }
        }
    };
}
promises!(system);
promises!(portable);

#[test]
fn the_user_of_a_peer_is_known() {
    let (near, _far) = UnixStream::pair().expect("a pair of sockets");
    assert_eq!(super::peer_uid(&near), Some(nix::unistd::geteuid().as_raw()));
}
