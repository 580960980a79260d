//! The messages about a wrong config, word for word.
use base64ct::{Base64, Encoding};
use std::path::Path;
use tributary::{NodeConfig, config::Drawing};
use tributary_content::{Name, PublicKey};
use tributary_core::{ByteCount, Duration, FaceId, Rate, link::Loss};
use tributary_mf::Forwarding;
use tributary_ndn::{Certificate, Data, LinkService, ManagementTrust, MarkingRule, SignKey, config::RegistrationScope};
use tributary_transport::ControllerKind;

const HEAD: &str = "[node]\nlabel = \"a\"\nroles = [\"router\"]\nlisten = [\"127.0.0.1:7001\"]\n";

fn parse(text: &str) -> Result<NodeConfig, String> {
    NodeConfig::parse("a.toml", text, Path::new("/etc")).map_err(|errors| errors.to_string())
}
/// The error of a config that is right but for `more`.
fn wrong(more: &str) -> String {
    parse(&format!("{HEAD}{more}")).expect_err(more)
}

#[test]
fn every_section_reaches_the_checked_config() {
    let text = r#"
        [node]
        label = "attic"
        family = "psi"
        roles = ["router", "topology-manager", "sender"]
        state_dir = "state"
        seed = 7
        listen = ["127.0.0.1:7001", "[::1]:7001"]
        [[face]]
        peer = "127.0.0.1:7002"
        local = "127.0.0.1:7001"
        mtu = 1400
        egress = { rate = "20Mbps", delay = "20ms", jitter = "1ms", loss = "1%", queue = "64KiB", duplicate = 0.5 }
        [[publish]]
        name = "/lab/big"
        path = "big.iso"
        version = 3
        [psi]
        cache_size = "1MiB"
        cache_policy = "lru"
        fid_kinds = ["bitmap", "list"]
        hello_interval = "100ms"
        topology_manager_priority = 9
        [transfer]
        controller = "loss-based"
        rto_min = "20ms"
        paths_per_source = 2
        metric = "latency"
        [limits]
        rate = "100Mbps"
    "#;
    let config = parse(text).unwrap();
    assert_eq!(config.control, Path::new("/etc/state/control.sock"));
    assert_eq!(config.publish[0].path, Path::new("/etc/big.iso"));
    assert_eq!(config.seed, Some(7));
    let link = config.faces[0].egress.as_ref().unwrap();
    assert_eq!((link.rate, link.delay), (Some(Rate::from_mbps(20)), Duration::from_millis(20)));
    assert_eq!((&link.loss, link.queue_bytes, link.mtu), (&Loss::Bernoulli(0.01), 65_536, 1_400));
    assert_eq!((config.psi().router, config.psi().resolver, config.psi().topology_manager), (true, false, Some(9)));
    assert_eq!(config.psi().cache_bytes, ByteCount(1 << 20));
    assert_eq!(config.psi().fid_kinds, ["bitmap", "list"]);
    assert_eq!(config.psi().transfer.rto_min, Duration::from_millis(20));
    assert_eq!((config.fetch.paths_per_source, config.limits.rate), (2, Some(Rate::from_mbps(100))));
}

#[test]
fn each_mistake_names_file_line_column_value_and_what_to_try() {
    for case in include_str!("mistakes.txt").trim_end().split("\n====\n") {
        let (more, expected) = case.split_once("\n----\n").unwrap();
        assert_eq!(wrong(more), expected, "{more}");
    }
}

#[test]
fn a_wrong_head_says_what_is_missing() {
    let cases = [
        ("", "a.toml:1:1: the file has no '[node]'"),
        ("[node]\n", "a.toml:1:1: [node] has no 'label'"),
        ("[node]\nlabel = \"a\"\nroles = []\nlisten = [\"127.0.0.1:1\"]", "a.toml:3:9: 'roles' is empty"),
        ("[node]\nlabel = \"a\"\nroles = [\"sender\"]\nlisten = [\"x\"]", "a.toml:4:11: 'listen': 'x' has no port"),
        (
            "[node]\nlabel = \"a\"\nroles = [\"resolvr\"]\nlisten = [\"127.0.0.1:1\"]",
            "a.toml:3:10: 'roles' cannot be \"resolvr\"\n  hint: did you mean \"resolver\"?",
        ),
        ("[node]\nlabel = \"\"\nroles = [\"sender\"]\nlisten = [\"127.0.0.1:1\"]", "a.toml:2:9: 'label' has 0 bytes"),
        (
            "[node]\nfamily = \"ccn\"\nlabel = \"a\"\nroles = [\"sender\"]\nlisten = [\"127.0.0.1:1\"]",
            "a.toml:2:10: 'family' cannot be \"ccn\"\n  hint: did you mean \"ndn\"? ('family' takes psi, ndn, mf)",
        ),
        (
            "[node]\nfamily = \"ndn\"\nlabel = \"a\"\nroles = [\"resolver\"]\nlisten = [\"127.0.0.1:1\"]",
            "a.toml:4:9: family ndn has no resolver\n  hint: its roles are \"router\", \"sender\" and \"receiver\"",
        ),
        (
            "[node]\nlabel = \"a\"\nroles = [\"router\"]\nlisten = [\"tcp://127.0.0.1:1\"]",
            "a.toml:4:11: 'tcp://127.0.0.1:1' is a stream, but family psi runs over UDP",
        ),
    ];
    for (text, start) in cases {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(start), "{text}\n{error}");
    }
}

#[test]
fn an_ndn_node_has_streams_routes_and_registrations() {
    let text = r#"
        [node]
        label = "attic"
        family = "ndn"
        roles = ["sender"]
        listen = ["0.0.0.0:6363", "unix:///tmp/ndn.sock", "ws://127.0.0.1:9696"]
        web_origins = ["https://example.org", "http://localhost:8080"]
        unix_mode = "0660"
        unix_group = "root"
        [[face]]
        peer = "unix:///run/nfd.sock"
        [[face]]
        peer = "192.0.2.1:6363"
        local = "0.0.0.0:6363"
        routes = ["/lab", "/"]
        cost = 5
        [[face]]
        peer = "tcp://192.0.2.2:6363"
        register = "localhop"
        [ndn]
        segment_size = 4000
        signature = "ed25519"
        strategy = "pcon"
        selection = "latency"
        [transfer]
        controller = "path-specified"
    "#;
    let config = parse(text).unwrap();
    assert_eq!((config.listen.len(), config.listen_streams.len()), (1, 2));
    assert_eq!(config.web_origins, ["https://example.org", "http://localhost:8080"]);
    assert_eq!((config.unix_access.mode, config.unix_access.group), (0o660, Some(0)));
    let routes: Vec<_> = config.ndn().routes.iter().map(|of| (of.face.0, of.prefix.to_string(), of.cost)).collect();
    assert_eq!(routes, [(2, "/lab".to_string(), 5), (2, "/".to_string(), 5)]);
    let registrars: Vec<_> = config.ndn().registrars.iter().map(|of| (of.face.0, of.scope)).collect();
    assert_eq!(registrars, [(1, RegistrationScope::Localhost), (3, RegistrationScope::Localhop)]);
    assert_eq!((config.ndn().segment_bytes, config.ndn().strategy.as_str()), (4_000, "pcon"));
    let of_psi = parse(&format!("{HEAD}[transfer]\ncontroller = \"path-specified\"\nwatch_rivals = false\n")).unwrap();
    assert!(
        config.ndn().transfer == of_psi.psi().transfer
            && config.ndn().transfer.controller == ControllerKind::PathSpecified
    );
    let wrong = |from: &str, to: &str| parse(&text.replace(from, to)).unwrap_err();
    assert!(wrong("cost = 5", "cots = 5").contains("did you mean 'cost'?"));
    assert!(
        wrong("peer = \"unix:///run/nfd.sock\"", "peer = \"unix:///a\"\nmtu = 1400")
            .contains("'mtu' is for neighbours over UDP")
    );
    assert!(wrong("family = \"ndn\"", "family = \"mf\"").contains("unknown key 'routes'"));
    assert!(wrong("\"/lab\", ", "\"lab\", ").contains("'routes': a name starts with '/'"));
    for no_origin in
        ["example.org", "https://example.org/", "https://Example.org", "https://", "*", "null", "https://*.org"]
    {
        let error = wrong("https://example.org", no_origin);
        assert!(error.contains(&format!("'{no_origin}' is no origin of web pages")), "{error}");
    }
    assert!(wrong("0660", "0888").contains("'0888' is no mode of a file"));
    assert!(wrong("\"root\"", "\"no-such-group\"").contains("there is no group 'no-such-group' on this machine"));
    assert!(wrong("ws://", "tcp://").contains("a.toml:7:23: 'web_origins' is for WebSockets, and 'listen' has none"));
}

#[test]
fn what_is_done_about_a_link_is_told_for_one_face_or_for_all() {
    let head = HEAD.replace("roles", "family = \"ndn\"\nroles");
    let face = "[[face]]\npeer = \"127.0.0.1:7002\"\n";
    let all = "[ndn.faces]\nrate = \"20Mbps\"\nreliability = \"on\"\nmarking = \"codel\"\nmarking_target = \"9ms\"\n\
               shaping = \"on\"\nshaping_slack = \"3ms\"\nshaping_interests_max = 99\n";
    let config = parse(&format!("{head}{face}reliability = \"off\"\n{all}")).unwrap();
    let (others, one) = (config.ndn().link_service, config.ndn().link_services[&FaceId(1)]);
    assert_eq!((others.rate, others.reliability.is_some()), (Some(Rate::from_mbps(20)), true));
    let (target, interval) = (Duration::from_millis(9), Duration::from_millis(100));
    assert_eq!(others.marking, MarkingRule::Codel { target, interval });
    let shaping = others.shaping.unwrap();
    assert_eq!((shaping.slack, shaping.interests_max), (Duration::from_millis(3), 99));
    assert_eq!(one, LinkService { reliability: None, ..others });
    // A face has its link's rate, by default the emulated one's, in every family.
    let emulated = "[face.egress]\nrate = \"8Mbps\"\n";
    let rate = |text: &str| parse(text).unwrap().ndn().link_services[&FaceId(1)].rate;
    assert_eq!(rate(&format!("{head}{face}marking = \"linear\"\n{emulated}")), Some(Rate::from_mbps(8)));
    assert_eq!(rate(&format!("{head}{face}rate = \"5Mbps\"\n{emulated}")), Some(Rate::from_mbps(5)));
    assert_eq!(parse(&format!("{HEAD}{face}rate = \"5Mbps\"\n")).unwrap().faces[0].rate, Some(Rate::from_mbps(5)));
    let wrong = |more: &str| parse(&format!("{head}{face}{more}")).expect_err(more);
    for (more, expected) in [
        ("rate = \"0bps\"", "a.toml:8:8: 'rate' is zero: nothing would pass"),
        ("marking = \"codel\"", "a.toml:8:11: 'marking' needs the rate of the link"),
        ("shaping = \"on\"", "a.toml:8:11: 'shaping' needs the rate of the link"),
        (
            "rate = \"1Mbps\"\nmarking = \"linear\"\nmarking_target = \"1ms\"",
            "a.toml:10:18: 'marking_target' is of another rule",
        ),
        ("rate = \"1Mbps\"\nmarking = \"linear\"\nmarking_high = \"1ms\"", "a.toml:10:16: 1ms is not above 10ms"),
        (
            "relaibility = \"on\"",
            "a.toml:8:1: unknown key 'relaibility' in [face]\n  hint: did you mean 'reliability'?",
        ),
        ("route = [\"/\"]", "did you mean 'routes'?"),
        ("[ndn]\nregion = [\"/net\"]", "did you mean 'regions'?"),
        ("[ndn.faces]\nmakring = \"codel\"", "did you mean 'marking'?"),
    ] {
        assert!(wrong(more).contains(expected), "{more}: {}", wrong(more));
    }
    let stream = "[[face]]\npeer = \"tcp://127.0.0.1:1\"\nreliability = \"on\"\n";
    assert!(wrong(stream).contains("'reliability' is for neighbours over UDP"));
    assert!(parse(&format!("{HEAD}{face}reliability = \"on\"")).unwrap_err().contains("unknown key 'reliability'"));
}

#[test]
fn what_tables_hold_and_who_commands_a_forwarder_are_keys() {
    let head = HEAD.replace("roles", "family = \"ndn\"\nroles");
    let keys = "cache_packets_max = 9\nfaces_max = 10\nfib_entries_max = 11\nroutes_max = 12\npit_entries_max = 400\n\
                pit_faces_per_entry_max = 13\npit_lifetime_max = \"9s\"\ndead_nonces_max = 14\n\
                dead_nonce_lifetime = \"7s\"\nqueue_packets_max = 16\nqueue_bytes_max = \"1MiB\"\n\
                pit_bytes_max = \"2MiB\"\nreassembly_packets_max = 17\nreassembly_patience = \"1s\"\n";
    let ndn = parse(&format!("{head}[ndn]\n{keys}")).unwrap().ndn().clone();
    let limits = ndn.limits;
    assert_eq!((ndn.cache_packets_max, limits.faces_max, limits.fib_entries_max), (Some(9), 10, 11));
    assert_eq!((limits.routes_max, limits.pit.entries_max, limits.pit.entries_per_face_max), (12, 400, 100));
    assert_eq!((limits.pit.in_records_max, limits.pit.lifetime_max), (13, Duration::from_secs(9)));
    assert_eq!(limits.pit.bytes_max, 2 << 20);
    assert_eq!((limits.dead_nonces_max, limits.dead_nonce_lifetime), (14, Duration::from_secs(7)));
    assert_eq!((limits.face.queue_packets_max, limits.face.queue_bytes_max), (16, 1 << 20));
    let reassembly = limits.face.reassembly;
    assert_eq!((reassembly.packets_max, reassembly.patience), (17, Duration::from_secs(1)));
    let notices = parse(&format!("{head}[ndn]\n{keys}pit_entries_per_face_max = 399\n")).unwrap().ndn().clone();
    assert_eq!(notices.limits.pit.entries_per_face_max, 399);
    let wrong = |more: &str| parse(&format!("{head}[ndn]\n{more}")).expect_err(more);
    let beyond = wrong(&format!("{keys}pit_entries_per_face_max = 401\n"));
    assert!(beyond.contains("one face cannot have more than all 400 entries"), "{beyond}");

    // The certificate of an Ed25519 key, as a packet and as text.
    let key = SignKey::ed25519(&[7; 32]);
    let named: Name = "/operator/KEY/1".parse().unwrap();
    let of = (&named, &key.verify_key());
    let packet = Certificate::issue(of, (b"self", 1), (&named, &key), (0, 4_000_000_000)).unwrap().packet().to_vec();
    let folder = tempfile::tempdir().unwrap();
    let text = Base64::encode_string(&packet);
    let (line, rest) = text.split_at(64);
    let framed = format!("-----BEGIN NDN CERT-----\nName: /operator/KEY\n\n{line}\n{rest}\n-----END NDN CERT-----\n");
    for (file, bytes) in [("raw", packet.clone()), ("text", text.clone().into()), ("framed", framed.into())] {
        std::fs::write(folder.path().join(file), bytes).unwrap();
    }
    std::fs::write(folder.path().join("no"), Data::new((&named).into(), b"").sign(&SignKey::Digest)).unwrap();
    let read = |more: &str| {
        let text = format!("{head}[ndn]\n{more}");
        NodeConfig::parse("a.toml", &text, folder.path()).map_err(|errors| errors.to_string())
    };
    let trusted = read("management = \"keys\"\nmanagement_keys = [\"raw\", \"text\", \"framed\"]")
        .unwrap()
        .ndn()
        .management
        .clone();
    assert_eq!(trusted, ManagementTrust::Keys(vec![key.verify_key(); 3]));
    let SignKey::Ed25519(ed25519) = SignKey::ed25519(&[6; 32]) else { panic!("another key") };
    let shown = PublicKey(ed25519.verifying_key().to_bytes());
    let trusted =
        read(&format!("management = \"keys\"\nmanagement_keys = [\"{shown}\"]")).unwrap().ndn().management.clone();
    assert_eq!(trusted, ManagementTrust::Keys(vec![SignKey::Ed25519(ed25519).verify_key()]));
    assert_eq!(read("management = \"off\"").unwrap().ndn().management, ManagementTrust::Nobody);
    assert_eq!(read("").unwrap().ndn().management, ManagementTrust::AnyLocal);
    for (more, expected) in [
        ("management = \"keys\"", "a.toml:7:14: the keys are missing"),
        ("management_keys = [\"raw\"]", "a.toml:7:19: these keys are not used"),
        ("management = \"keys\"\nmanagement_keys = [\"none\"]", "cannot read"),
        ("management = \"keys\"\nmanagement_keys = [\"ed25519:12\"]", "hex digits"),
        ("management = \"keys\"\nmanagement_keys = [\"no\"]", "is no certificate: its content is no key"),
    ] {
        let found = read(more).unwrap_err();
        assert!(found.contains(expected), "{more}: {found}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_lines() {
    let error = wrong("[psi]\nreplicas = 0\n[transfer]\nmetric = \"best\"\n");
    let lines: Vec<_> = error.lines().filter(|line| line.starts_with("a.toml")).collect();
    assert_eq!(lines, ["a.toml:6:12: 'replicas' cannot be 0", "a.toml:8:10: 'metric' cannot be \"best\""]);
}

#[test]
fn text_that_is_no_toml_is_told_with_its_line() {
    let error = wrong("[psi\n");
    assert!(error.starts_with("a.toml:5:5: this is not TOML: "), "{error}");
}

#[test]
fn the_drawing_shows_the_line_and_no_escape_codes() {
    let text = format!("{HEAD}[psi]\nreplicas = 9\n");
    let errors = NodeConfig::parse("a.toml", &text, Path::new("/etc")).unwrap_err();
    let drawn = errors.render(Drawing::Plain, 100);
    assert!(drawn.contains("a.toml:6:12: 'replicas' cannot be 9"), "{drawn}");
    assert!(drawn.contains("replicas = 9") && drawn.contains("help: write an integer from 1 to 8"), "{drawn}");
    assert!(!drawn.contains('\u{1b}'), "{drawn}");
}

#[test]
fn no_text_makes_the_reader_panic() {
    // Every prefix of a config, and every config with one line missing.
    let text =
        format!("{HEAD}[[face]]\npeer = \"127.0.0.1:1\"\n[face.egress]\nrate = \"1Mbps\"\n[psi]\nreplicas = 3\n");
    for end in 0..text.len() {
        let _ = parse(&text[..end]);
    }
    let lines: Vec<_> = text.lines().collect();
    for skipped in 0..lines.len() {
        let kept: Vec<_> = lines.iter().enumerate().filter(|(at, _)| *at != skipped).map(|(_, line)| *line).collect();
        let _ = parse(&kept.join("\n"));
    }
    for text in
        ["\u{0}", "node = 1", "[[node]]", "[node]\nroles = 1", "[node]\nlisten = [1]", "face = [1]", "é = \"ü\""]
    {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_network_without_an_authority_is_legal_and_worth_a_warning() {
    for family in ["psi", "mf", "ndn"] {
        let head = HEAD.replace("roles", &format!("family = \"{family}\"\nroles"));
        let open = parse(&head).unwrap().warnings();
        assert!(open.len() == 1 && open[0].contains("trib network new"), "{family}: {open:?}");
        let key = tributary_content::SigningKey::from_secret(&[9; 32]).public();
        let authority = format!("{head}[network]\nauthority = \"{key}\"\n");
        assert_eq!(parse(&authority).unwrap().warnings(), [""; 0], "{family}");
    }
}

#[test]
fn an_api_that_nobody_can_use_is_worth_a_warning() {
    let warns = |http: &str| {
        let warnings = parse(&format!("{HEAD}[http]\n{http}")).unwrap().warnings();
        warnings.iter().any(|warning| warning.contains("'token_file'"))
    };
    assert!(warns("listen = \"0.0.0.0:80\""));
    for fine in ["listen = \"127.0.0.1:80\"", "listen = \"[::1]:80\"", "listen = \"0.0.0.0:80\"\napi = false"] {
        assert!(!warns(fine), "{fine}");
    }
    assert!(!warns("listen = \"0.0.0.0:80\"\ntoken_file = \"token\""));
}

#[test]
fn a_password_over_plain_http_is_worth_a_warning() {
    let head = HEAD.replace("roles = [", "family = \"mf\"\nroles = [\"router\", \"resolver\", ");
    let warns = |endpoint: &str, user: &str| {
        let text = format!("{head}[resolver]\nengine = \"etcd\"\nendpoints = [\"{endpoint}\"]\n{user}");
        let warnings = parse(&text).unwrap().warnings();
        warnings.iter().any(|warning| warning.contains("the password of 'trib' unencrypted"))
    };
    let user = "user = \"trib\"\npassword_file = \"password\"\n";
    assert!(warns("http://192.0.2.7:2379", user) && warns("http://etcd.example:2379", user));
    assert!(!warns("http://192.0.2.7:2379", "") && !warns("https://192.0.2.7:2379", user));
    for here in ["127.0.0.1", "[::1]", "localhost"] {
        assert!(!warns(&format!("http://{here}:2379"), user), "{here}");
    }
}

#[test]
fn a_shared_key_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, [7; 32]).unwrap();
    let head = HEAD.replace("roles", "family = \"ndn\"\nroles");
    let text = format!("{head}[[shared_key]]\nprefix = \"/a\"\nfile = \"secret\"\n");
    for (mode, is_refused) in [(0o640, true), (0o600, false)] {
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = NodeConfig::parse("a.toml", &text, folder.path()).err().map(|errors| errors.to_string());
        assert_eq!(refused.is_some_and(|text| text.contains("chmod 600")), is_refused, "{mode:o}");
    }
}

#[test]
fn weights_and_readers_of_mobilityfirst_are_read_and_mistakes_in_them_are_named() {
    let guid = "00112233445566778899aabbccddeeff00112233";
    let head = HEAD.replace("roles", "family = \"mf\"\nroles");
    let face = |weight: &str| format!("[[face]]\npeer = \"127.0.0.1:7002\"\nweight = {weight}\n");
    let readers = format!("[[readers]]\nname = \"/lab/plans\"\nguids = [\"{guid}\"]\n");
    let own = readers.replace("name = \"/lab/plans\"\n", "");
    let config = parse(&format!("{head}{}{readers}{own}", face("64"))).unwrap();
    assert_eq!(config.mf().weights.values().copied().collect::<Vec<_>>(), [64]);
    let of: Vec<_> = config.mf().readers.iter().map(|(name, devices)| (name.is_some(), devices.len())).collect();
    assert_eq!(of, [(false, 1), (true, 1)]);
    let open = config.warnings();
    assert!(open.len() == 2 && open[0].contains("can look up every name"), "{open:?}");
    assert!(open[1].contains("no authority") && open[1].contains("trib network new"), "{open:?}");
    let wrong = |text: String| parse(&format!("{head}{text}")).expect_err("a mistake");
    assert!(wrong(face("0")).contains("'weight'") && wrong(face("256")).contains("'weight'"));
    assert!(wrong(readers.replace(guid, "0011")).contains("'0011' is no GUID"));
    assert!(wrong(format!("{readers}{readers}")).contains("has readers already"));
    assert!(wrong("[[readers]]\nname = \"/lab\"\n".into()).contains("'guids'"));
    assert!(parse(&format!("{HEAD}{readers}")).expect_err("of psi").contains("has no [[readers]]"));
    let group = format!("[[group]]\nlabel = \"sites\"\nmembers = [\"{guid}\"]\nproxy = \"{guid}\"\n");
    let config = parse(&format!("{head}{group}{}", group.replace("sites", "all"))).unwrap();
    let of = |label: &str| config.mf().groups.get(label).map(|group| (group.members.len(), group.proxy.is_some()));
    assert_eq!([of("sites"), of("all")], [Some((1, true)); 2]);
    assert!(wrong(format!("{group}{group}")).contains("'sites' cannot be its label"));
    assert!(wrong(group.replace("sites", "")).contains("'' cannot be its label"));
    assert!(wrong(group.replace("label = \"sites\"\n", "")).contains("'label'"));
    assert!(wrong(group.replace(&format!("[\"{guid}\"]"), "[\"0011\"]")).contains("'0011' is no GUID"));
    assert!(parse(&format!("{HEAD}{group}")).expect_err("of psi").contains("has no [[group]]"));
    assert!(parse(&format!("{HEAD}{}", face("64"))).expect_err("of psi").contains("unknown key 'weight'"));
}

#[test]
fn what_a_mobilityfirst_node_does_with_its_links_its_store_and_its_windows_can_be_chosen() {
    let head = HEAD.replace("roles", "family = \"mf\"\nroles");
    let mf = |text: &str| parse(&format!("{head}[mf]\n{text}")).map(|config| config.mf().clone());
    let chosen =
        mf("forwarding = \"store-and-forward\"\ncsyn_packets = 65535\nstore_ratio = 2.5\nmulticast_threshold = 7\n\
         window_chunks = 32\nreceive_buffer_size = \"16MiB\"\ndepleted_percent = 40\nreport_delay = \"20ms\"\n");
    let chosen = chosen.unwrap();
    assert_eq!((chosen.hop.forwarding, chosen.hop.csyn_packets), (Forwarding::StoreAndForward, 65_535));
    assert_eq!((chosen.store_ratio, chosen.transfer.multicast_threshold, chosen.transfer.window_chunks), (2.5, 7, 32));
    assert_eq!((chosen.transfer.buffer_bytes.0, chosen.proxy.depleted_percent), (16 << 20, 40));
    assert_eq!(chosen.proxy.report_delay, Duration::from_millis(20));
    for (wrong, words) in [
        ("forwarding = \"fast\"", "store-and-forward"),
        ("csyn_packets = 0", "from 1 to 65535"),
        ("store_ratio = 0.5", "'store_ratio'"),
        ("window_chunks = 257", "from 1 to 256"),
        ("receive_buffer_size = \"10KiB\"", "from 1 MiB"),
        ("depleted_percent = 101", "from 0 to 100"),
        ("report_delay = \"2h\"", "'report_delay'"),
        ("depleted_percents = 4", "depleted_percent"),
        ("store_size = \"1GiB\"\nstore_source_size = \"2GiB\"", "at most store_size"),
        ("store_size = \"1GiB\"\nstore_flow_size = \"2GiB\"", "at most store_size"),
    ] {
        let notices = mf(wrong).expect_err(wrong);
        assert!(notices.contains(words), "{wrong}: {notices}");
    }
}

#[test]
fn nobody_has_a_small_store_for_itself_unless_that_is_chosen() {
    let head = HEAD.replace("roles", "family = \"mf\"\nroles");
    let mib = |text: &str| {
        let proxy = parse(&format!("{head}[mf]\n{text}")).unwrap().mf().proxy.clone();
        [proxy.capacity, proxy.flow_capacity, proxy.source_capacity].map(|bytes| bytes.0 >> 20)
    };
    assert_eq!(mib(""), [1_024, 100, 512]);
    assert_eq!(mib("store_size = \"40MiB\"\n"), [40, 10, 20]);
    assert_eq!(mib("store_size = \"20MiB\"\n"), [20, 5, 10]);
    assert_eq!(mib("store_size = \"2MiB\"\n"), [2, 2, 2], "fewer than four chunks have no shares");
    assert_eq!(mib("store_size = \"8GiB\"\n"), [8_192, 100, 4_096]);
    assert_eq!(mib("store_size = \"20MiB\"\nstore_flow_size = \"20MiB\"\n"), [20, 20, 20]);
    assert_eq!(mib("store_size = \"20MiB\"\nstore_source_size = \"6MiB\"\n"), [20, 5, 6]);
}

#[test]
fn every_cache_policy_of_the_router_can_be_chosen() {
    for policy in ["object-oriented", "object-oriented-strict", "lru", "fifo"] {
        assert_eq!(parse(&format!("{HEAD}[psi]\ncache_policy = \"{policy}\"\n")).unwrap().psi().cache_policy, policy);
    }
}

#[test]
fn a_node_that_listens_on_all_addresses_reaches_others_and_not_itself() {
    let all = HEAD.replace("127.0.0.1:7001", "0.0.0.0:7001");
    for peer in ["192.0.2.7:7001", "127.0.0.1:7002", "router.example:7001"] {
        parse(&format!("{all}[[face]]\npeer = \"{peer}\"\n")).expect(peer);
    }
    let itself = parse(&format!("{all}[[face]]\npeer = \"127.0.0.1:7001\"\n")).expect_err("it listens there");
    assert!(itself.starts_with("a.toml:6:8: 127.0.0.1:7001 is this node itself"), "{itself}");
    let name =
        parse(&HEAD.replace("127.0.0.1:7001", "router.example:7001")).expect_err("a name is nobody's to listen on");
    assert!(name.contains("'router.example:7001' is not an address of this machine"), "{name}");
}

#[test]
fn another_peer_takes_the_place_of_the_only_one_and_keeps_its_settings() {
    let head = HEAD.replace("127.0.0.1:7001", "0.0.0.0:0");
    let config = |faces: &str| parse(&format!("{head}{faces}")).expect(faces);
    let face = "[[face]]\npeer = \"127.0.0.1:7001\"\nmtu = 1200\n";
    let mut one = config(face);
    one.set_peer("router.lan").expect("it is a name");
    assert_eq!((one.faces[0].peer.to_string().as_str(), one.faces[0].mtu), ("router.lan:7001", 1_200));
    let two = format!("{face}[[face]]\npeer = \"127.0.0.1:7002\"\n");
    let refused = config(&two).set_peer("router.lan").expect_err("which of them?").to_string();
    assert_eq!(refused, "the config has 2 [[face]] sections, and exactly one can be given another peer");
    assert!(config(face).set_peer("tcp://router.lan").is_err(), "PSI runs over UDP");
    let mut near = parse(&format!("{HEAD}[[face]]\npeer = \"127.0.0.1:7002\"\n")).expect("it is right");
    let refused = near.set_peer("192.0.2.7").expect_err("it listens on loopback only").to_string();
    assert!(refused.contains("nothing reaches from 127.0.0.1:7001"), "{refused}");
}

#[test]
fn what_is_to_be_published_and_is_not_there_is_told_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.toml");
    let text = HEAD.replace("router", "sender") + "[[publish]]\nname = \"/a\"\npath = \"gone\"\n";
    std::fs::write(&path, &text).expect("it is written");
    let errors = NodeConfig::load(&path).expect_err("there is no such file").to_string();
    assert!(errors.contains("a.toml:7:8: cannot publish '") && errors.contains("No such file"), "{errors}");
    std::fs::write(folder.path().join("gone"), b"here").expect("it is written");
    NodeConfig::load(&path).expect("it is there");
}

#[test]
fn a_list_publishes_many_and_its_mistakes_are_told_with_their_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("lists")).expect("it is new");
    let (config, list) = (folder.path().join("a.toml"), folder.path().join("lists/all"));
    let load = |more: &str| {
        let text = HEAD.replace("router", "sender") + "[[publish]]\nlist = \"lists/all\"\n" + more;
        std::fs::write(&config, text).expect("it is written");
        NodeConfig::load(&config).map_err(|errors| errors.to_string())
    };
    // The same config again and again, as a daemon reads it at each start.
    for _ in 0..2 {
        let missing = load("").expect_err("there is no list");
        assert!(missing.contains("a.toml:6:8: cannot read '") && missing.contains("No such file"), "{missing}");
    }
    let bad = b"# all of them\n\n/a\tone\n/b one\n/c\tgone\n/a\tone\nd\tone\n/e\t\n\xff\tone\n/f\tone\n/\tone";
    std::fs::write(&list, bad).expect("it is written");
    std::fs::write(folder.path().join("lists/one"), b"1").expect("it is written");
    for _ in 0..2 {
        let errors = load("").expect_err("most lines are wrong");
        for mistake in [
            "all:4: there is no tab",
            "all:5: cannot publish '",
            "all:6: '/a' is published twice",
            "all:7: 'd': ",
            "all:8: '/e' has no path",
            "all:9: the name is not UTF-8",
            "all:11: a published name has at least one component",
        ] {
            assert!(errors.contains(mistake), "{mistake}: {errors}");
        }
        assert_eq!(errors.matches("hint: each line is NAME<TAB>PATH").count(), 7, "{errors}");
    }
    std::fs::write(&list, "/x one\n".repeat(1_000)).expect("it is written");
    let errors = load("").expect_err("all lines are wrong");
    assert!(errors.contains("all:10: ") && !errors.contains("all:11: ") && errors.contains(": 990 more"), "{errors}");
    std::fs::write(&list, "/a\tone\n/b\tone\n").expect("it is written");
    let read = load("").expect("all lines are right").publish;
    assert_eq!(read.iter().map(|of| of.name.to_string()).collect::<Vec<_>>(), ["/a", "/b"]);
    assert_eq!(read[1].path, folder.path().join("lists/one"));
    let twice = load("[[publish]]\nname = \"/a\"\npath = \"lists/one\"\n").expect_err("the list has it");
    assert!(twice.contains(":8:8: '/a' is published twice"), "{twice}");
    let both = load("version = 3\n").expect_err("a list has no version");
    assert!(both.contains(":7:11: 'version' is of one object"), "{both}");
    let few = load("[limits]\npublications = 1\n").expect_err("the list is longer");
    assert!(few.contains(":7:1: the config publishes 2 objects"), "{few}");
}
