use tributary_content::{MemoryObject, MemoryOpener, ObjectKind, ObjectReader, SigningKey};

use super::*;

#[test]
fn what_there_is_no_room_for_is_refused_unless_all_waits_for_it() {
    let bytes: Bytes = (0..100_000u32).map(|number| (number / 7) as u8).collect();
    let (name, key) = ("/lab/file".parse().expect("a name"), SigningKey::from_secret(&[7; 32]));
    let object = MemoryObject::with_options(name, bytes.clone(), &key, 1, ObjectKind::File, 10_000).expect("fits");
    let mut reassembly = Reassembly::new(object.manifest().clone(), &mut MemoryOpener::new()).expect("it opens");
    let room = 12_000;
    let take = |reassembly: &mut Reassembly, number: u32| {
        let first = (number as usize - 1) * 5_000;
        let left = room - reassembly.buffered.min(room);
        let payload = bytes.slice(first..first + 5_000).into();
        reassembly.take(number, (5_000, 21), &payload, Origin::Source(SourceId(1)), left)
    };
    let taken = [20, 18, 16, 14].map(|number| take(&mut reassembly, number));
    assert_eq!(taken, [Taken::Kept, Taken::Kept, Taken::Refused, Taken::Refused]);
    assert_eq!([2, 1, 3].map(|number| take(&mut reassembly, number)), [Taken::Kept, Taken::Kept, Taken::Refused]);
    assert_eq!((reassembly.buffered, take(&mut reassembly, 20)), (20_000, Taken::Duplicate));
    assert_eq!((reassembly.shed(7_000), reassembly.buffered), (10_000, 10_000), "what came for the end goes");
    assert!(reassembly.is_missing(20) && reassembly.is_missing(18) && !reassembly.is_missing(1));
}

#[test]
fn chunks_of_different_cuts_make_one_object() {
    let bytes: Bytes = (0..10_000u32).map(|number| (number / 7) as u8).collect();
    let (name, key) = ("/lab/file".parse().expect("a name"), SigningKey::from_secret(&[7; 32]));
    let object = MemoryObject::with_options(name, bytes.clone(), &key, 1, ObjectKind::File, 4_096).expect("fits");
    let manifest = object.manifest().clone();
    let encoded = manifest.encode();
    let len = u16::try_from(encoded.len()).expect("it is short").to_be_bytes();
    let head: Bytes = [&len[..], &encoded, &object.tree()].concat().into();
    let mut opener = MemoryOpener::new();
    let content = opener.content();
    let mut reassembly = Reassembly::new(manifest.clone(), &mut opener).expect("it opens");
    let cuts = [(3_000, 2, 0), (1_024, 10, 1), (1_024, 3, 1), (1_500, 1, 0), (3_000, 4, 1), (1_024, 8, 1)];
    for (chunk_bytes, number, source) in cuts.into_iter().chain((1..4).map(|number| (4_096, number, 0))) {
        let first = (number as usize - 1) * chunk_bytes as usize;
        let payload = bytes.slice(first..bytes.len().min(first + chunk_bytes as usize)).into();
        let count = chunk_count(10_000, chunk_bytes);
        let taken =
            reassembly.take(number, (chunk_bytes, count), &payload, Origin::Source(SourceId(source + 1)), u64::MAX);
        assert_eq!(taken, Taken::Kept, "{number} of {chunk_bytes}");
        assert!(!reassembly.is_missing(number));
    }
    assert_eq!(reassembly.missing().collect::<Vec<_>>(), [0]);
    assert_eq!(reassembly.buffered, 10_000);
    assert_eq!(reassembly.take(0, (4_096, 4), &head.into(), Origin::Source(SourceId(2)), 0), Taken::Kept);
    assert!(reassembly.writer.is_complete() && reassembly.finish().expect("it is kept"));
    assert_eq!(content.finished(&manifest.name).expect("it is whole"), bytes);
    let stored: Vec<Stored> = core::iter::from_fn(|| reassembly.stored.pop_front()).collect();
    let sent = |from: u16| {
        let parts = stored.iter().flat_map(|stored| &stored.parts);
        parts.filter(|(origin, _)| *origin == Origin::Source(SourceId(from))).map(|(_, bytes)| bytes).sum::<u32>()
    };
    assert_eq!(sent(1) + sent(2), 10_000, "each byte counts once");
    assert_eq!(reassembly.buffered, 0);
}
