use super::*;

fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![7; length])
}

#[test]
fn segments_come_out_in_order_whatever_order_they_come_in() {
    let mut inbound = Inbound::new(WINDOW_BYTES_MIN as u64);
    for (number, is_last) in [(2, false), (0, false), (2, false), (3, true), (1, false), (1, false)] {
        inbound.take(number, is_last, Bytes::from(vec![number as u8; 5_000])).expect("within the limit");
    }
    let all: Vec<u8> = std::iter::from_fn(|| inbound.pop()).map(|bytes| bytes[0]).collect();
    assert_eq!(all, [0, 1, 2, 3]);
    assert!(inbound.has_ended);
    assert_eq!(inbound.received, 20_000, "repeated ones count once");
}

#[test]
fn a_sender_that_exceeds_its_limit_is_refused() {
    let mut inbound = Inbound::new(10_000);
    assert!(inbound.take(0, false, bytes(10_000)).is_ok());
    assert!(inbound.take(1, false, bytes(1)).is_err());
    let mut early = Inbound::new(u64::MAX);
    assert!((1..=EARLY_MAX as u64).all(|number| early.take(number, false, Bytes::new()).is_ok()));
    assert!(early.take(u64::MAX, false, Bytes::new()).is_err(), "too many before their turn");
}

#[test]
fn small_segments_are_joined() {
    let mut inbound = Inbound::new(u64::MAX);
    (0..10_000).for_each(|number| inbound.take(number, false, bytes(1)).expect("small"));
    assert_eq!((inbound.ready.len(), inbound.ready_bytes), (1, 10_000));
    assert_eq!(inbound.pop().map(|bytes| bytes.len()), Some(10_000));
}

#[test]
fn a_window_grows_for_a_quick_reader_while_there_is_memory_and_shrinks_for_a_slow_one() {
    let memory = Memory::new(6 * SEGMENT_BYTES as u64);
    let mut inbound = Inbound::new(WINDOW_BYTES_MIN as u64);
    let fill = |inbound: &mut Inbound, most: usize| {
        while inbound.received + SEGMENT_BYTES as u64 <= inbound.limit && inbound.ready.len() < most {
            inbound.take(inbound.next, false, bytes(SEGMENT_BYTES)).expect("within the limit");
        }
    };
    for _ in 0..100 {
        fill(&mut inbound, 1);
        let read = inbound.pop().map_or(0, |bytes| bytes.len());
        inbound.on_read(read, &memory);
    }
    assert_eq!(inbound.window, 8 * SEGMENT_BYTES, "as much as the memory allows");
    assert_eq!(memory.0.available_permits(), 0);
    for _ in 0..100 {
        fill(&mut inbound, usize::MAX);
        let read = inbound.pop().map_or(0, |bytes| bytes.len());
        inbound.on_read(read, &memory);
    }
    assert!(inbound.window <= 4 * SEGMENT_BYTES, "{}", inbound.window);
    assert!(memory.0.available_permits() >= 4, "what it does not use is given back");
    inbound.drop_all();
    assert_eq!(memory.0.available_permits(), 6);
}
