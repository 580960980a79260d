//! The paper's primitives as a program uses them: attach, send, recv, detach, get. Three nodes in one process:
//!
//! ```sh
//! cargo run -p trib-node --example messages
//! ```
use std::{error::Error, path::Path, sync::Arc};
use tributary::{
    Api, Flow, Get, LocalApi, NodeConfig, Notice, Output, Request, Term,
    messenger::{Messenger, MessengerOptions},
};
use tributary_core::Duration;
use tributary_transport::messaging::{Destination, GetOptions, InNetwork, Reliability, SendOptions};

fn node(
    folder: &Path,
    label: &str,
    roles: &str,
    listen: u16,
    peer: Option<u16>,
) -> Result<Arc<LocalApi>, Box<dyn Error>> {
    let face = peer.map_or(String::new(), |peer| format!("[[face]]\npeer = \"127.0.0.1:{peer}\"\n"));
    let text = format!(
        "[node]\nlabel = \"{label}\"\nfamily = \"mf\"\nroles = [{roles}]\nstate_dir = \"{label}\"\n\
         listen = [\"127.0.0.1:{listen}\"]\n{face}"
    );
    let api = LocalApi::start(NodeConfig::parse(label, &text, folder)?)?;
    api.wait_for_neighbour(Duration::from_secs(5))?;
    Ok(Arc::new(api))
}
fn port() -> std::io::Result<u16> {
    Ok(std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let at = port()?;
    let _router = node(folder.path(), "router", "\"router\", \"resolver\"", at, None)?;
    let hub = node(folder.path(), "hub", "\"sender\", \"receiver\"", port()?, Some(at))?;
    let sensor = node(folder.path(), "sensor", "\"sender\", \"receiver\"", port()?, Some(at))?;

    // attach: messages to this name reach the hub from now on; dropping the messenger detaches.
    let inbox = Messenger::open(Arc::clone(&hub), &["/home/readings".parse()?], MessengerOptions::default())?;
    let outbox = Messenger::open(Arc::clone(&sensor), &[], MessengerOptions::default())?;
    std::thread::sleep(Duration::from_millis(300));

    // send: sensor data needs no certainty, a command does.
    let to = Destination::Name("/home/readings".parse()?);
    let forget = SendOptions {
        reliability: Some(Reliability::DontCare),
        in_network: Some(InNetwork::Delegate),
        lifetime: Some(Duration::from_secs(3_600)),
        ..SendOptions::default()
    };
    outbox.send("/home/sensor/temperature".parse()?, "21.5", &to, &forget)?;
    let sure =
        SendOptions { reliability: Some(Reliability::Ack), chunk_bytes: Some(16 << 10), ..SendOptions::default() };
    let transfer = outbox.send("/home/sensor/alarm".parse()?, "door open", &to, &sure)?;

    // recv: verified messages, in memory.
    while let Some(message) = inbox.next(Duration::from_secs(2)) {
        println!("{}: {}", message.name, String::from_utf8_lossy(&message.bytes));
    }
    let report = outbox.report(transfer)?.unwrap_or_default();
    println!("the alarm is with {} of {}", report.delivered.len(), report.destinations);

    // attach and detach, also during receiving.
    inbox.attach(&"/home/alarms".parse()?)?;
    std::thread::sleep(Duration::from_millis(300));
    let alarms = Destination::Name("/home/alarms".parse()?);
    outbox.send("/home/sensor/smoke".parse()?, "none", &alarms, &sure)?;
    if let Some(message) = inbox.next(Duration::from_secs(2)) {
        println!("{}: {}", message.name, String::from_utf8_lossy(&message.bytes));
    }
    inbox.detach(&"/home/alarms".parse()?)?;

    // get: published objects are fetched by name, in any family.
    let file = folder.path().join("plan.txt");
    std::fs::write(&file, "heat from six to nine")?;
    let put = Request::Put {
        path: file,
        name: "/home/plan".into(),
        version: None,
        patience_ms: 5_000,
        term: Term::UntilRemoved,
        readers: Vec::new(),
        mirrors: Vec::new(),
    };
    hub.answers(put)?;
    let copy = folder.path().join("copy.txt");
    let get = Get::new("/home/plan", Output::Path(copy.clone()));
    sensor.ask(Request::Get(get), None, &mut |notice| {
        if let Notice::Done(done) = notice {
            println!("fetched '{}': {} bytes, verified", done.name, done.bytes);
        }
        Flow::Continue
    })?;
    println!("{}", std::fs::read_to_string(copy)?);

    // The same in memory, in small chunks, with a repeated request after half a second of silence.
    let options = GetOptions {
        chunk_bytes: Some(16 << 10),
        reliability: Some(Reliability::Ack),
        nack_timeout: Some(Duration::from_millis(500)),
        in_network: Some(InNetwork::Store),
    };
    let plan = outbox.get(&"/home/plan".parse()?, &options, Duration::from_secs(10))?;
    println!("in memory: {}", String::from_utf8_lossy(&plan.bytes));
    Ok(())
}
