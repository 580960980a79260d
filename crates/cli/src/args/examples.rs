//! Examples at the end of each command's help. A test parses each of them.
use tributary_terminal::arguments::Examples;

/// Lines of examples by command, with the words between `trib` and the first argument as the key.
pub(super) const EXAMPLES: &Examples = &[
    ("demo", &["trib demo", "trib demo --family mf", "trib demo --fail source@30 --loss 1%"]),
    (
        "node",
        &[
            "trib node --config /etc/tributary/router.toml",
            "trib node --config node.toml --on-done 'mv \"$TRIB_OUTPUT\" /srv/complete/'",
        ],
    ),
    (
        "put",
        &[
            "trib put debian.iso /lab/images/debian.iso --control publisher",
            "trib put plans /lab/plans --for readers.keys --config publisher.toml",
            "trib put plans /lab/plans --watch",
            "trib put debian.iso /lab/images/debian.iso --mirror https://a.example.org/debian.iso",
        ],
    ),
    (
        "get",
        &[
            "trib get /lab/images/debian.iso -o debian.iso",
            "trib get /lab/film.mp4 -o - --config receiver.toml | mpv -",
            "trib get /lab/images --include '*.csv' --exclude 'old/**' -o tables",
            "trib get /lab/images/doc/manual.pdf",
            "trib get /lab/images/debian.iso --no-mirrors",
            "trib get /lab/images/debian.iso --detach --limit 20Mbps",
            "trib get https://a.example.org/x.iso --mirror https://b.example.org/x.iso --interface eth0 --interface wwan0",
        ],
    ),
    ("ls", &["trib ls /lab", "trib ls --json"]),
    (
        "follow",
        &[
            "trib follow transfer-1",
            "trib follow /lab/images/debian.iso -o debian.iso",
            "trib follow /lab/images/debian.iso --on-done 'notify-send \"$TRIB_NAME\"'",
        ],
    ),
    (
        "mirror",
        &["trib mirror /lab/images/debian.iso -o mirror", "trib mirror /lab/a /lab/b --every 30s --control receiver"],
    ),
    ("transfers", &["trib transfers", "trib transfers --json"]),
    ("move", &["trib move get-2 first"]),
    ("rm", &["trib rm /lab/images/debian.iso"]),
    ("status", &["trib status", "trib status --watch", "trib status --control router --json"]),
    ("paths", &["trib paths /lab/images/debian.iso"]),
    ("explain", &["trib explain transfer-1", "trib explain transfer-1/path-2"]),
    ("ping", &["trib ping /lab/images/debian.iso -c 3"]),
    ("traceroute", &["trib traceroute /lab/images/debian.iso"]),
    ("cache", &["trib cache --control router"]),
    (
        "send",
        &[
            "trib send firmware.bin /home/firmware --to /home/lamps",
            "echo 21.5 | trib send - /roof/temperature --to /home/readings --lifetime 1h",
        ],
    ),
    ("recv", &["trib recv --attach /home/readings -o inbox", "trib recv --attach /home/lamps --count 1"]),
    ("attach", &["trib attach /home/readings"]),
    ("detach", &["trib detach /home/readings"]),
    (
        "readers",
        &["trib readers /lab/plans --only 00112233445566778899aabbccddeeff00112233", "trib readers /lab/plans --all"],
    ),
    ("group list", &["trib group list"]),
    ("group add", &["trib group add sites 00112233445566778899aabbccddeeff00112233"]),
    ("group remove", &["trib group remove sites"]),
    ("store", &["trib store --control router", "trib store --json"]),
    ("store hold", &["trib store hold --to /home/readings", "trib store hold --all --control router"]),
    ("store release", &["trib store release --all"]),
    ("store extend", &["trib store extend 48h --to /home/readings", "trib store extend 12h --object 7f83b165"]),
    ("store purge", &["trib store purge --to /home/readings", "trib store purge --object 7f83b165 --control router"]),
    ("route list", &["trib route list --control router"]),
    ("route add", &["trib route add /lab face-2", "trib route add / uplink --cost 10 --for 1h --control router"]),
    ("route remove", &["trib route remove /lab face-2"]),
    ("strategy list", &["trib strategy list"]),
    ("strategy set", &["trib strategy set /lab multicast"]),
    ("strategy unset", &["trib strategy unset /lab"]),
    ("face list", &["trib face list --control router"]),
    ("face create", &["trib face create udp4://192.0.2.1:6363"]),
    ("face destroy", &["trib face destroy face-3"]),
    ("log", &["trib log", "trib log info,net=debug --control router"]),
    ("doctor", &["trib doctor", "trib doctor --config /etc/tributary/router.toml"]),
    ("watch", &["trib watch", "trib watch --json"]),
    ("cancel", &["trib cancel transfer-1"]),
    ("pause", &["trib pause transfer-1"]),
    ("resume", &["trib resume transfer-1"]),
    ("limit", &["trib limit 20Mbps", "trib limit none --transfer transfer-1"]),
    ("http-proxy browser", &["trib http-proxy browser --config browser.toml --listen 127.0.0.1:3128"]),
    (
        "http-proxy server",
        &["trib http-proxy server --config server.toml --name /http/www.example.org --origin http://127.0.0.1:80"],
    ),
    ("gateway", &["trib gateway --config receiver.toml --listen 127.0.0.1:8080"]),
    ("lab", &["trib lab list", "trib lab run mmftp-failure --runs 2"]),
    ("sim", &["trib sim scenario.toml --runs 20 --json"]),
    ("config check", &["trib config check /etc/tributary/router.toml"]),
    ("invite", &["trib invite", "trib invite --host router.example.org --for 7d --qr --control router"]),
    (
        "key accept",
        &[
            "trib key accept router.example.org:7001 ed25519:8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c receiver.toml",
        ],
    ),
    ("key new", &["trib key new publisher.key"]),
    ("key show", &["trib key show publisher.key"]),
    ("ndn-key new", &["trib ndn-key new /lab/alice --algorithm ecdsa"]),
    ("ndn-key show", &["trib ndn-key show /lab/alice"]),
    ("ndn-key export", &["trib ndn-key export /lab/alice -o alice.cert"]),
    ("ndn-key import", &["trib ndn-key import bob.cert"]),
    ("ndn-key sign", &["trib ndn-key sign alice.cert --as /lab -o signed.cert"]),
    ("network new", &["trib network new network"]),
    ("network admit", &["trib network admit router.toml --network network --for 90d"]),
    ("network revoke", &["trib network revoke attic --network network"]),
    ("network show", &["trib network show --network network"]),
    ("completions", &["trib completions bash > ~/.local/share/bash-completion/completions/trib"]),
    ("man", &["trib man ~/.local/share/man/man1"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::declared;
    use tributary_terminal::arguments::examples_of;

    /// The words of a line as a shell splits them, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" | mpv").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
        let line = line.split_once("trib ").map_or(line, |(_, rest)| rest);
        let mut words = vec!["trib".to_string()];
        let mut quoted = false;
        for part in line.split(' ') {
            let was_quoted = quoted;
            quoted ^= part.matches('\'').count() % 2 == 1;
            let part = part.replace('\'', "");
            match words.last_mut() {
                Some(last) if was_quoted => *last = format!("{last} {part}"),
                _ => words.push(part),
            }
        }
        words
    }
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name()).trim_start().to_string();
            if inner.has_subcommands() {
                leaves(inner, &path, found);
            }
            if !inner.has_subcommands() || inner.is_args_conflicts_with_subcommands_set() {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_command_has_examples_and_each_is_right() {
        let mut commands = Vec::new();
        leaves(&declared(), "", &mut commands);
        for command in &commands {
            assert!(!examples_of(command, EXAMPLES).is_empty(), "'{command}' has no example");
        }
        for (command, lines) in EXAMPLES {
            assert!(commands.iter().any(|known| known == command), "there is no command '{command}'");
            for line in *lines {
                let parsed = declared().try_get_matches_from(words(line));
                assert!(parsed.is_ok(), "{line}: {}", parsed.map_or_else(|error| error.to_string(), |_| String::new()));
                assert!(line.contains(&format!("trib {command}")), "{line} is no example of '{command}'");
            }
        }
    }
}
