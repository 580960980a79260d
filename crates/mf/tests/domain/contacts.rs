//! Contacts shorter than a chunk: a hop's received part outlives the contact and the nodes at both ends.
use tributary_mf::sender::SendOptions;
use tributary_transport::{Messaging, messaging::AcceptOptions};

use super::*;

const SIZE: usize = 200_000;
const RATE: u64 = 64_000;
/// What leaves for an object, of its size: greetings, names and routes of each contact with it.
const RATIO_MAX: f64 = 1.15;

/// Which nodes restart between two contacts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reboots {
    None,
    Sender,
    Receiver,
    Both,
}

/// ```text
///   source ── a ─ 64 kbit/s, now and then ─ b ── phone
/// ```
/// Returns the contacts that an object needs, and the bytes that leave `a` for it during contacts.
fn contacts(seed: u64, (contact, gap): (Duration, Duration), reboots: Reboots) -> (u64, u64) {
    let mut domain = Domain::drawn_with(seed, &["source --100,1-- a*", "b* --100,1-- phone"], |_, config| {
        config.proxy.lifetime = Duration::from_secs(7 * 86_400);
    });
    let link = LinkConfig { queue_bytes: 8_000, ..LinkConfig::new(Rate::from_bits_per_second(RATE), ms(20)) };
    domain.link_with("a", "b", link);
    let opener = MemoryOpener::new();
    let content = opener.content();
    domain.with("phone", |node, now| {
        Messaging::accept(node, now, Some(Box::new(opener)), &AcceptOptions::default());
    });
    ["a", "b", "phone"].iter().for_each(|label| domain.keep_partials(label));
    domain.run(Duration::from_secs(30));
    domain.cut("a", "b");
    domain.run(Duration::from_secs(5));
    let (to, object) = (domain.at("phone").guid(), object("/film", random_bytes(SIZE, 1)));
    domain.with("source", |node, now| {
        use tributary_content::store::ObjectReader;
        let id = object.manifest().publication_id();
        node.offer(Box::new(object));
        let options = SendOptions {
            lifetime: Some(Duration::from_secs(7 * 86_400)),
            ..SendOptions::new(&node.config().transfer)
        };
        node.send(now, id, to, options).unwrap();
    });
    domain.run(Duration::from_secs(5));
    domain.kill("source");
    let (mut used, mut sent) = (0, 0);
    while content.finished(&name("/film")).is_none() && used < 12 {
        domain.run(gap);
        for (label, others) in [("a", Reboots::Sender), ("b", Reboots::Receiver)] {
            if reboots == others || reboots == Reboots::Both {
                domain.kill(label);
                domain.restart(label);
            }
        }
        domain.run(ms(500));
        let before = domain.net.link_stats(domain.connection("a", "b").a_to_b).out_bytes;
        domain.mend("a", "b");
        let end = domain.net.now() + contact;
        while domain.net.now() < end && content.finished(&name("/film")).is_none() {
            domain.run(ms(50));
        }
        domain.cut("a", "b");
        sent += domain.net.link_stats(domain.connection("a", "b").a_to_b).out_bytes - before;
        used += 1;
    }
    (used, sent)
}

/// `CONTACTS=all` prints the table of docs/results/mf.md.
#[test]
fn a_chunk_longer_than_a_contact_goes_on_in_the_next_one() {
    let is_table = std::env::var_os("CONTACTS").is_some();
    let lengths: &[u64] = if is_table { &[5, 10, 20] } else { &[10] };
    let gaps: &[u64] = if is_table { &[1, 12, 70, 600, 3_600] } else { &[1, 70, 3_600] };
    for seconds in lengths {
        let contact = Duration::from_secs(*seconds);
        let ideal = (SIZE as f64 * 8.0 / RATE as f64 / contact.as_secs_f64()).ceil() as u64;
        for gap in gaps {
            for reboots in [Reboots::None, Reboots::Sender, Reboots::Receiver, Reboots::Both] {
                let (used, sent) = contacts(seconds * 10 + gap, (contact, Duration::from_secs(*gap)), reboots);
                let ratio = sent as f64 / SIZE as f64;
                println!("| {seconds} s | {gap} s | {reboots:?} | {used} / {ideal} | {ratio:.2} |");
                // In 5 s hellos, names and routes take a fifth of the link's capacity.
                let is_short = *seconds < 10;
                assert!(
                    is_short || used <= ideal + 1 && ratio <= RATIO_MAX,
                    "{used} contacts, {ratio:.3} times the size"
                );
            }
        }
    }
}
