//! Publishes a file in an existing network until standard input ends:
//!
//! ```sh
//! trib node --config examples/router.toml
//! cargo run -p trib-node --example publish -- SOME_FILE /demo/big 127.0.0.1:7001
//! ```
use std::{error::Error, io::Read, path::PathBuf};
use tributary::{Api, LocalApi, NodeConfig, Notice, Request, Term};

/// Publishes `file` as `name` with a node of its own, whose neighbour is `router`. It stays published for the node's
/// lifetime.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn publish(file: PathBuf, name: &str, router: &str, state: &str) -> Result<LocalApi, Box<dyn Error>> {
    // The same text as in a config file; `NodeConfig::load` reads one.
    let config = format!(
        "[node]\nlabel = \"example-publisher\"\nroles = [\"sender\"]\nlisten = [\"0.0.0.0:0\"]\nstate_dir = \"{state}\"\n\
         [[face]]\npeer = \"{router}\"\n"
    );
    let node = LocalApi::start(NodeConfig::parse("example", &config, &std::env::current_dir()?)?)?;
    let request = Request::Put {
        path: file,
        name: name.into(),
        version: None,
        patience_ms: 10_000,
        term: Term::ThisRun,
        readers: Vec::new(),
        mirrors: Vec::new(),
    };
    for notice in node.answers(request)? {
        if let Notice::Published { name, bytes, publisher, confirmed, .. } = notice {
            println!("{name}: {bytes} bytes, key {publisher}, confirmed: {confirmed}");
        }
    }
    Ok(node)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, router] = &arguments[..] else {
        return Err("usage: publish FILE NAME ROUTER, such as: publish film.mkv /demo/big 127.0.0.1:7001".into());
    };
    // Where its key is kept.
    let state = std::env::temp_dir().join("tributary-example-publisher");
    let node = publish(file.into(), name, router, &state.display().to_string())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    // Started tasks finish in order.
    node.stop()?;
    Ok(())
}
