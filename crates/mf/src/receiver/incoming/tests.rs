use tributary_content::{MemoryObject, MemoryOpener, ObjectReader, SigningKey};

use super::{super::tests::fetch_of, *};

/// A fetch that trusts one key only, after its source has announced the objects of each round: true for the wanted
/// file, false for another publisher's. Returns the number of requests, and the report.
fn announced(rounds: &[&[bool]]) -> (usize, TransferReport) {
    let name: Name = "/lab/file".parse().expect("a name");
    let file = |honest: bool| {
        let key = SigningKey::from_secret(&[if honest { 7 } else { 66 }; 32]);
        let bytes = Bytes::from(alloc::vec![u8::from(honest); 5_000]);
        MemoryObject::new(name.clone(), bytes, &key).expect("fits").manifest().clone()
    };
    let opener = MemoryOpener::pinned(file(true).publisher);
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    let id = receiver.fetch(Time::ZERO, fetch_of(&name, opener), GetOptions::default());
    receiver.set_attached(Time::ZERO, true);
    let device = Announcer { guid: Guid([1; 20]), label: "source".into() };
    let mut requests = 0;
    for (round, files) in (1..).zip(rounds) {
        let found: Vec<_> = files.iter().map(|honest| (device.clone(), file(*honest))).collect();
        receiver.handle_announcements(Time::from_millis(round), &name, &found, Announced::All);
        requests += core::iter::from_fn(|| receiver.poll_message()).count();
    }
    (requests, receiver.report(Time::from_millis(100), id).expect("it runs"))
}

#[test]
fn who_announces_what_is_wanted_is_asked_whatever_else_it_announces_or_did() {
    for rounds in [&[&[false, true][..]][..], &[&[true, false]], &[&[false], &[true]], &[&[false], &[true, false]]] {
        let (requests, report) = announced(rounds);
        assert_eq!(requests, 1, "{rounds:?}");
        assert!(report.sources.iter().all(|source| source.distrusted.is_none()), "{rounds:?}: {report:?}");
    }
    let (requests, report) = announced(&[&[false]]);
    assert!(requests == 0 && report.sources[0].distrusted.is_some(), "nobody has what is wanted: {report:?}");
}

#[test]
fn who_has_the_chosen_bytes_under_another_key_is_never_reported_as_distrusted() {
    let name: Name = "/lab/file".parse().expect("a name");
    let file = |key: u8, byte: u8| {
        let bytes = Bytes::from(alloc::vec![byte; 5_000]);
        MemoryObject::new(name.clone(), bytes, &SigningKey::from_secret(&[key; 32])).expect("fits").manifest().clone()
    };
    let announcer = |number: u8| Announcer { guid: Guid([number; 20]), label: format!("device-{number}") };
    // A copy and another file come first; then the object of the trusted key's owner.
    let (copy, other, own) = (file(66, 1), file(67, 2), file(7, 1));
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    let id = receiver.fetch(Time::ZERO, fetch_of(&name, MemoryOpener::pinned(own.publisher)), GetOptions::default());
    receiver.set_attached(Time::ZERO, true);
    let mut found = Vec::from([(announcer(1), copy), (announcer(2), other)]);
    receiver.handle_announcements(Time::from_millis(1), &name, &found, Announced::All);
    let distrusted = |receiver: &mut Receiver| {
        let events = core::iter::from_fn(|| receiver.poll_event());
        let label =
            |(_, event)| if let TransferEvent::SourceDistrusted { label, .. } = event { Some(label) } else { None };
        events.filter_map(label).collect::<Vec<String>>()
    };
    assert_eq!(distrusted(&mut receiver), [""; 0], "nothing is chosen yet");
    found.push((announcer(3), own));
    receiver.handle_announcements(Time::from_millis(2), &name, &found, Announced::All);
    assert_eq!(distrusted(&mut receiver), ["device-2"]);
    let report = receiver.report(Time::from_millis(3), id).expect("it runs");
    let named: Vec<bool> = report.sources.iter().map(|source| source.distrusted.is_some()).collect();
    assert_eq!(named, [false, true, false]);
}

#[test]
fn who_is_the_first_that_can_be_asked_is_asked() {
    let (name, mut sources) = ("/lab/file".parse::<Name>().expect("a name"), Vec::new());
    let file = |version| {
        let (key, bytes) = (SigningKey::from_secret(&[7; 32]), Bytes::from(alloc::vec![version as u8; 4]));
        let kind = tributary_content::ObjectKind::File;
        let made = MemoryObject::with_options(name.clone(), bytes, &key, version, kind, 4_096);
        made.expect("fits").manifest().clone()
    };
    let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
    receiver.fetch(Time::ZERO, fetch_of(&name, MemoryOpener::new()), GetOptions::default());
    receiver.set_attached(Time::ZERO, true);
    // The first source starts and switches to a new version; the second one still has the version of the transfer.
    for (number, version) in [(1, 1), (1, 2), (2, 1)] {
        let device = Announcer { guid: Guid([number; 20]), label: String::new() };
        receiver.handle_announcements(Time::from_millis(1), &name, &[(device, file(version))], Announced::All);
        sources.extend(core::iter::from_fn(|| receiver.poll_message()).map(|message| message.to));
    }
    let content = Guid::of_content(&SigningKey::from_secret(&[7; 32]).public(), &name);
    assert_eq!(sources, [content, Guid([2; 20])]);
}
