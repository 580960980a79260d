//! Metrics of real daemons, read by a real Prometheus.
//!
//! `.ci/peers` installs it. Without it the test is skipped with a message, or fails with `TRIBUTARY_PEERS=required`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::common::{self, file, has_program, http, http::Site, until};
use serde_json::{Value, json};

fn packaging() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")).unwrap()
}
fn metrics(site: &Site) -> String {
    let answer = site.ask_with("GET", "/metrics", "", "");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    answer.text()
}
/// The sum of a metric's values whose labels have these texts.
fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let is_it = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    text.lines().filter(is_it).map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn what_a_fetch_did_is_counted(family: &str) {
    let site = Site::new(family, "");
    common::put(site.path(), &file(site.path()), "/big");
    let begin = json!({"name": "/big", "output": {"path": site.path().join("copy")}});
    assert_eq!(site.ask("POST", "/transfers", &begin).status, 200);
    until("the fetch", || sum(&metrics(&site), "tributary_transfers_ended_total", &["result=\"done\""]) == 1.0);
    // The node's own counters may lag slightly behind those of transfers.
    until("the bytes", || sum(&metrics(&site), "tributary_face_bytes_total", &["direction=\"in\""]) >= 2_900_000.0);
    let text = metrics(&site);
    let family_label = format!("family=\"{family}\"");
    assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| line.contains(&family_label)), "{text}");
    for (name, labels, least) in [
        ("tributary_source_bytes_total", &["source=\"server\""][..], 2_900_000.0),
        ("tributary_path_bytes_total", &["source=\"server\""], 2_900_000.0),
        ("tributary_face_bytes_total", &["direction=\"in\""], 2_900_000.0),
        ("tributary_socket_bytes_total", &["direction=\"in\""], 2_900_000.0),
        ("tributary_face_up", &["neighbour=\""], 1.0),
        ("tributary_resolver_request_seconds_count", &["operation=\"find\""], 1.0),
        ("tributary_http_requests_total", &["kind=\"api\"", "status=\"200\""], 1.0),
        ("tributary_http_connections", &[], 1.0),
        ("tributary_uptime_seconds", &[], 0.001),
    ] {
        assert!(sum(&text, name, labels) >= least, "{name} {labels:?}\n{text}");
    }
    assert_eq!(sum(&text, "tributary_transfers_running", &[]), 0.0);
    // API and metrics agree.
    let stored = site.get("/transfers").json()[0]["sources"][0]["bytes"].as_f64().unwrap();
    assert_eq!(sum(&text, "tributary_source_bytes_total", &[]), stored);

    // OpenMetrics on request.
    let open = site.ask_with("GET", "/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n", "");
    assert!(open.field("content-type").unwrap().starts_with("application/openmetrics-text"), "{}", open.head);
    assert!(open.text().ends_with("# EOF\n"));
    assert_eq!(site.ask_with("POST", "/metrics", "", "").status, 405);
    assert_eq!(site.ask_with("GET", "/metrics", "Origin: http://evil.example\r\n", "").status, 403);
    if has_program("promtool") {
        let mut check = Command::new("promtool");
        let check =
            check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().unwrap();
        check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        assert!(output.status.success(), "{}{}", common::talk(&output), String::from_utf8_lossy(&output.stdout));
    }
}
tributary_testkit::tests! {
    fn what_a_fetch_did_is_counted_in_psi() = what_a_fetch_did_is_counted("psi");
    fn what_a_fetch_did_is_counted_in_ndn() = what_a_fetch_did_is_counted("ndn");
    fn what_a_fetch_did_is_counted_in_mobility_first() = what_a_fetch_did_is_counted("mf");
}

#[test]
fn the_alert_rules_are_right_and_fire_when_they_should() {
    if !has_program("promtool") {
        return;
    }
    for arguments in [["check", "rules", "tributary.rules.yml"], ["test", "rules", "tributary.rules.test.yml"]] {
        let output = Command::new("promtool").args(arguments).current_dir(packaging().join("prometheus")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}{}", common::talk(&output), String::from_utf8_lossy(&output.stdout));
    }
    // The page names only metrics that some node exports.
    let page = include_str!("../../../docs/reference/metrics.md");
    let is_other = |letter: char| !(letter.is_ascii_lowercase() || letter == '_');
    let known: BTreeSet<&str> = page.split(is_other).collect();
    for of in ["prometheus/tributary.rules.yml", "grafana/tributary.json"] {
        let text = fs::read_to_string(packaging().join(of)).unwrap();
        let words = text.split(is_other);
        for metric in words.filter(|word| word.starts_with("tributary_")) {
            assert!(known.contains(metric.trim_end_matches("_bucket")), "{of} asks for {metric}");
        }
    }
}

struct Prometheus(Child, SocketAddr);
impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
impl Prometheus {
    fn query(&self, expression: &str) -> Value {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = http::ask(self.1, "GET", &format!("/api/v1/query?query={encoded}"), "", "").json();
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].clone()
    }
}

#[test]
fn a_real_prometheus_scrapes_a_node_and_answers_every_query_of_the_board() {
    if !has_program("prometheus") {
        return;
    }
    let site = Site::new("psi", "token_file = \"token\"\n");
    common::put(site.path(), &file(site.path()), "/big");
    let at = site.path();
    let rules = packaging().join("prometheus/tributary.rules.yml");
    let text = format!(
        "global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}\nrule_files: [{}]\nscrape_configs:\n  - job_name: \
         tributary\n    authorization: {{credentials_file: {}}}\n    static_configs: [{{targets: [\"{}\"]}}]\n",
        rules.display(),
        at.join("token").display(),
        site.address
    );
    fs::write(at.join("prometheus.yml"), text).unwrap();
    let address: SocketAddr = ([127, 0, 0, 1], common::port()).into();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", at.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", at.join("tsdb").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let prometheus = Prometheus(child, address);
    until("Prometheus", || std::net::TcpStream::connect(address).is_ok());
    until("a scrape", || {
        let ready = http::ask(address, "GET", "/-/ready", "", "").status == 200;
        ready && prometheus.query("up{job=\"tributary\"}")[0]["value"][1] == "1"
    });
    // Something to see: a fetch that runs during the observation.
    let token = fs::read_to_string(at.join("token")).unwrap();
    let fields = format!("Authorization: Bearer {}\r\n", token.trim());
    let begin = json!({"name": "/big", "output": {"path": at.join("copy")}, "limit_bits_per_second": 2_000_000});
    assert_eq!(site.ask_with("POST", "/api/v1/transfers", &fields, &begin.to_string()).status, 200);
    until("a rate", || {
        let rate = prometheus.query("sum(rate(tributary_source_bytes_total[5s])) * 8");
        rate[0]["value"][1].as_str().is_some_and(|rate| rate.parse::<f64>().unwrap() > 500_000.0)
    });

    let board: Value =
        serde_json::from_str(&fs::read_to_string(packaging().join("grafana/tributary.json")).unwrap()).unwrap();
    let (mut asked, mut answered, mut empty) = (0, 0, Vec::new());
    for panel in board["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let filled = expression.replace("$instance", ".*").replace("$__rate_interval", "5s");
            let result = prometheus.query(&filled);
            asked += 1;
            match result.as_array().unwrap().is_empty() {
                true => empty.push(expression),
                false => answered += 1,
            }
        }
    }
    // A receiver of psi has no cache, no store and no tables; nothing was listed or dropped.
    let may_be_empty = ["cache", "store", "table_entries", "dropped_packets"];
    empty.retain(|expression| !may_be_empty.iter().any(|word| expression.contains(word)));
    assert!(empty.is_empty() && asked > 30 && answered > 20, "{answered} of {asked}: {empty:?}");
    let rules = http::ask(address, "GET", "/api/v1/rules", "", "").json();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 15);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}
