//! Which user is at the other end of a connection that does not leave this machine.
//!
//! A node takes commands from its owner: the user that it runs as, and root. A Unix socket reports the user of its peer
//! (`SO_PEERCRED`); for a loopback TCP connection the kernel's table has the owner of the other end's socket.
use std::{
    fs,
    io::{BufRead, BufReader},
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
};

use nix::unistd::geteuid;

use crate::platform;

/// Whether the user at the other end of a Unix stream socket is the owner of this process, or root.
pub fn is_unix_peer_owner(socket: &impl AsFd) -> bool {
    platform::peer_uid(socket).is_some_and(is_owner)
}

/// Whether the other end `peer` of a TCP connection to `own` on this machine belongs to the owner of this process, or
/// root. False if the kernel has no entry, as for a peer in another network namespace, or no table, as on macOS.
pub fn is_tcp_peer_owner(own: SocketAddr, peer: SocketAddr) -> bool {
    // A socket of IPv6 may carry a connection of IPv4.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let opened = tables.iter().filter_map(|table| fs::File::open(table).ok());
    opened.into_iter().any(|table| uid_in(BufReader::new(table), peer, own).is_some_and(is_owner))
}

fn is_owner(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

/// The user of the socket that is at `local` and connected to `remote`, by a table of `/proc/net`.
fn uid_in(table: impl BufRead, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
    table.lines().map_while(Result::ok).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = address_of(fields.next()?)? == plain(local) && address_of(fields.next()?)? == plain(remote);
        if !is_it {
            return None;
        }
        let uid = fields.nth(4)?.parse().ok()?;
        // Once its program has closed a socket, the table shows inode 0 and user 0 for any owner.
        (fields.nth(1)? != "0").then_some(uid)
    })
}

/// An address as the kernel prints it: words of 32 bits in the order of the machine, and the port in hex.
fn address_of(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let mut bytes = Vec::with_capacity(16);
    for word in ip.as_bytes().chunks(8) {
        let word = u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}
fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, TcpStream},
        os::unix::{net::UnixStream, process::CommandExt},
        process::Command,
    };

    #[test]
    fn the_kernel_says_whose_the_other_end_of_a_local_connection_is() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        assert!(is_unix_peer_owner(&one));
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(address).expect("a port");
            let port = listener.local_addr().expect("it is bound").port();
            let ip: IpAddr = if address.starts_with("127") || address == "[::]:0" {
                [127, 0, 0, 1].into()
            } else {
                "::1".parse().expect("an address")
            };
            let client = TcpStream::connect((ip, port)).expect("it listens");
            let (accepted, peer) = listener.accept().expect("it was dialled");
            let own = accepted.local_addr().expect("it is bound");
            assert!(is_tcp_peer_owner(own, peer), "{address}");
            drop(client);
            let nobody = SocketAddr::new(peer.ip(), 1);
            assert!(!is_tcp_peer_owner(own, nobody));
        }
    }

    #[test]
    fn another_user_is_no_owner() {
        if !geteuid().is_root() {
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("it is bound");
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}; read -r line <&3", own.port());
        let mut client = Command::new("bash").args(["-c", &script]).uid(65_534).spawn().expect("bash is there");
        let (accepted, peer) = listener.accept().expect("it dials");
        // Root runs this test, so the owner is root.
        assert!(!is_tcp_peer_owner(own, peer));
        drop(accepted);
        client.wait().expect("it ends when the connection does");
    }

    #[test]
    fn lines_that_make_no_sense_name_nobody() {
        let table =
            "  sl  local_address\n   0: 0100007F:1F90 0100007F:C350 01 0:0 0:0 0 1000 0 77\n garbage\n 1: X:1 Y:2";
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let found = |local, remote| uid_in(table.as_bytes(), at(local), at(remote));
        if cfg!(target_endian = "little") {
            assert_eq!(found(8_080, 50_000), Some(1_000));
            let closed = "0: 0100007F:1F90 0100007F:C350 05 0:0 0:0 0 0 0 0";
            assert_eq!(uid_in(closed.as_bytes(), at(8_080), at(50_000)), None, "a closed socket is nobody's");
        }
        assert_eq!((found(50_000, 8_080), found(8_080, 1)), (None, None));
    }
}
