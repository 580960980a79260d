//! The library's examples work as documented.
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/fetch.rs"]
mod fetch;
#[allow(dead_code, reason = "its main is for people")]
#[path = "../../examples/publish.rs"]
mod publish;

use tributary::{LocalApi, NodeConfig};

#[test]
fn what_one_example_publishes_another_one_fetches() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let at = format!("127.0.0.1:{}", tributary_testkit::port());
    let router = format!(
        "[node]\nlabel = \"router\"\nroles = [\"router\", \"resolver\", \"topology-manager\"]\nlisten = [\"{at}\"]\n\
         state_dir = \"router\"\n"
    );
    let _router = LocalApi::start(NodeConfig::parse("router", &router, folder.path()).unwrap()).unwrap();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    std::fs::write(path("original"), &bytes).unwrap();
    let _publisher = publish::publish(path("original"), "/demo/big", &at, path("p").to_str().unwrap()).unwrap();
    let sources = fetch::fetch("/demo/big", path("copy"), &at, path("r").to_str().unwrap()).unwrap();
    assert_eq!(sources, [("example-publisher".to_string(), 1_000_000)]);
    assert!(std::fs::read(path("copy")).unwrap() == bytes);
}
