//! Runs a scenario in virtual time: two publishers, a receiver with two links, and a link that fails.
//!
//! ```sh
//! cargo run -p trib-lab --example simulate
//! ```
use std::error::Error;
use tributary_lab::simulation::{Outcome, Simulation, file::ScenarioFile};

/// What `trib sim` reads from a file. `simulation::Scenario` builds the same piece by piece.
const SCENARIO: &str = r#"
node = [
    { label = "hub", roles = ["router", "resolver", "topology-manager"] },
    { label = "north", roles = ["sender"] }, { label = "south", roles = ["sender"] },
    { label = "home", roles = ["receiver"] },
]
link = [
    { ends = ["north", "hub"], rate = "100Mbps", delay = "5ms" },
    { ends = ["south", "hub"], rate = "100Mbps", delay = "5ms" },
    { name = "lte", ends = ["hub", "home"], rate = "20Mbps", delay = "30ms", loss = "1%" },
    { name = "dsl", ends = ["hub", "home"], rate = "10Mbps", delay = "15ms" },
]
publish = [
    { node = "north", name = "/lab/file", size = "10MB" },
    { node = "south", name = "/lab/file", size = "10MB" },
]
fetch = [{ node = "home", name = "/lab/file", start = "2s" }]
fault = [{ link = "dsl", state = "down", at = "3s", until = "4s" }]
"#;

/// Runs it once. The same seed gives the same outcome on every machine.
pub(crate) fn simulate(seed: u64) -> Result<Outcome, Box<dyn Error>> {
    let file = ScenarioFile::parse("example", SCENARIO, ".".as_ref(), Some(seed))?;
    Ok(Simulation::run(&file.scenario)?)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    for seed in 1..=3 {
        let outcome = simulate(seed)?;
        let transfer = &outcome.transfers[0];
        let (seconds, mbps) = (transfer.seconds().unwrap_or(f64::NAN), transfer.mbps().unwrap_or(f64::NAN));
        println!("seed {seed}: complete: {}, {seconds:.2} s, {mbps:.1} Mbit/s", outcome.is_complete());
    }
    Ok(())
}
