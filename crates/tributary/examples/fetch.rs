//! Fetches a name and shows its progress:
//!
//! ```sh
//! cargo run -p trib-node --example fetch -- /demo/big copy 127.0.0.1:7001
//! ```
use std::{error::Error, path::PathBuf};
use tributary::{Api, Flow, Get, LocalApi, NodeConfig, Notice, Output, Request};

/// Fetches `name` to `file` with a node of its own, whose neighbour is `router`, and returns the bytes from each
/// source.
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn fetch(
    name: &str,
    file: PathBuf,
    router: &str,
    state: &str,
) -> Result<Vec<(String, u64)>, Box<dyn Error>> {
    let config = format!(
        "[node]\nlabel = \"example-receiver\"\nroles = [\"receiver\"]\nlisten = [\"0.0.0.0:0\"]\nstate_dir = \"{state}\"\n\
         [[face]]\npeer = \"{router}\"\n"
    );
    let node = LocalApi::start(NodeConfig::parse("example", &config, &std::env::current_dir()?)?)?;
    // Without a publisher's key the first key seen for the name is trusted, and remembered.
    let get = Get { patience_ms: Some(10_000), ..Get::new(name, Output::Path(file)) };
    let mut sources = Vec::new();
    // `Flow::Stop` ends the fetch; verified data is kept, and the same fetch continues from there.
    node.ask(Request::Get(get), None, &mut |notice| {
        match notice {
            Notice::Progress(progress) => println!("{} of {} bytes", progress.stored_bytes, progress.bytes),
            Notice::Done(done) => {
                println!("{} bytes in {:.2} s, every byte verified", done.bytes, done.seconds);
                sources = done.sources.into_iter().map(|source| (source.id, source.bytes)).collect();
            }
            _ => {}
        }
        Flow::Continue
    })?;
    node.stop()?;
    Ok(sources)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file, router] = &arguments[..] else {
        return Err("usage: fetch NAME FILE ROUTER, such as: fetch /demo/big copy 127.0.0.1:7001".into());
    };
    // Where the keys of publishers are remembered.
    let state = std::env::temp_dir().join("tributary-example-receiver");
    for (source, bytes) in fetch(name, file.into(), router, &state.display().to_string())? {
        println!("  {bytes} bytes from {source}");
    }
    Ok(())
}
