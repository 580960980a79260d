use super::*;

const PACKET: u64 = 1200;

fn ms(ms: u32) -> Time {
    Time::ZERO + Duration::from_millis(1) * ms
}
fn flow() -> Flow {
    Flow::new(Time::ZERO, &TransferConfig::default(), PACKET, PathHints::default())
}
fn ask(flow: &mut Flow, at: Time, packet: u32) -> u16 {
    flow.on_request(at, &alloc::vec![(packet, 1)], RequestKind::Claiming, CacheUse::Allowed)
}
/// Delivers packet `packet` in answer to `number`, and returns the packets lost then.
fn answer(flow: &mut Flow, at: Time, number: u16, packet: u32) -> Vec<u32> {
    flow.on_data(at, number, packet, PACKET, Came::FromSource);
    flow.on_batch_end(at);
    let mut lost = Vec::new();
    flow.detect_losses(at, &mut lost);
    lost.into_iter().map(|lost| lost.packet).collect()
}

#[test]
fn what_caches_filled_is_forgotten_when_they_are_passed_by_and_what_the_source_did_is_not() {
    for (came, is_kept) in [(Came::FromCache, false), (Came::FromSource, true)] {
        let mut flow = flow();
        let first = flow.window();
        for packet in 0..64 {
            let number = ask(&mut flow, ms(packet), packet);
            flow.on_data(ms(packet + 1), number, packet, PACKET, came);
            flow.on_batch_end(ms(packet + 1));
        }
        assert!(flow.window() > first && flow.rtt.smoothed().is_some());
        flow.forget_caches(ms(70));
        assert_eq!((flow.window() > first, flow.rtt.smoothed().is_some()), (is_kept, is_kept), "{came:?}");
    }
}

#[test]
fn only_a_window_that_models_the_sources_rate_is_starved_by_a_near_cache() {
    use ControllerKind::{LossBased, ModelBased, PathSpecified};
    for controller in [LossBased, PathSpecified, ModelBased] {
        let config = TransferConfig { controller, ..TransferConfig::default() };
        let mut flow = Flow::new(Time::ZERO, &config, PACKET, PathHints::default());
        let first = ask(&mut flow, ms(0), 0);
        answer(&mut flow, ms(40), first, 0);
        let near = ask(&mut flow, ms(50), 1);
        flow.on_data(ms(55), near, 1, PACKET, Came::FromCache);
        assert_eq!(flow.is_starved(), controller == ModelBased, "{controller:?}");
    }
}

/// Requests a packet every 10 ms for four seconds; every `answered_of`-th is answered 40 ms later.
fn flow_with_answers(answered_of: u32) -> Flow {
    let mut flow = flow();
    let mut numbers = Vec::new();
    for packet in 0..400 {
        let now = ms(packet * 10);
        numbers.push(ask(&mut flow, now, packet));
        if packet >= 4 && packet % answered_of == 0 {
            answer(&mut flow, now, numbers[packet as usize - 4], packet - 4);
        }
        assert!(!flow.detect_silence(now, &mut Vec::new()), "silent though it answers: {packet}");
    }
    flow
}
/// Requests a packet every 10 ms from `from` milliseconds on without any answer, and returns after how many
/// milliseconds the path is silent.
fn silent_after(flow: &mut Flow, from: u32) -> u32 {
    let silent = (0..2000).step_by(10).find(|after| {
        ask(flow, ms(from + after), 1000 + after);
        flow.detect_silence(ms(from + after), &mut Vec::new())
    });
    silent.expect("nothing comes for two seconds")
}

#[test]
fn a_cache_as_far_as_the_source_measures_the_path_and_a_nearer_one_spares_the_source_unless_it_replaces_what_was_lost()
{
    for (millis, is_lost, is_beside) in [(60, false, false), (38, false, false), (5, false, true), (5, true, false)] {
        let mut flow = flow();
        let first = ask(&mut flow, ms(0), 0);
        answer(&mut flow, ms(40), first, 0);
        if is_lost {
            let lost = ask(&mut flow, ms(41), 1);
            flow.on_refusal(ms(45), lost, 1, &mut Vec::new());
        }
        let number = ask(&mut flow, ms(50), 1);
        flow.on_data(ms(50 + millis), number, 1, PACKET, Came::FromCache);
        let delivered = if is_beside { PACKET } else { 2 * PACKET };
        assert_eq!((flow.is_starved(), flow.delivered), (is_beside, delivered), "after {millis} ms, {is_lost}");
    }
}

#[test]
fn what_was_lost_counts_for_the_path_unless_the_near_cache_answers_first_requests_too() {
    for first_requests in [0, 8] {
        let mut flow = flow();
        let first = ask(&mut flow, ms(0), 0);
        answer(&mut flow, ms(40), first, 0);
        let near = |flow: &mut Flow, at: u32, packet: u32| {
            let number = ask(flow, ms(at), packet);
            flow.on_data(ms(at + 5), number, packet, PACKET, Came::FromCache);
        };
        (0..first_requests).for_each(|at| near(&mut flow, 41, 10 + at));
        let lost = ask(&mut flow, ms(50), 1);
        flow.on_refusal(ms(55), lost, 1, &mut Vec::new());
        near(&mut flow, 60, 1);
        assert_eq!(flow.delivered, if first_requests == 0 { 2 * PACKET } else { PACKET });
    }
}

#[test]
fn a_path_is_silent_when_what_it_usually_leaves_unanswered_does_not_explain_it() {
    // One that answers all is silent after one timeout, 50 ms from the last answer.
    assert_eq!(silent_after(&mut flow_with_answers(1), 4000), 40);
    // With one of two unanswered, ten in a row are less likely than one in a thousand, with three of four 24; the
    // first of them was requested before the last answer.
    let [half, most] = [2, 4].map(|answered_of| silent_after(&mut flow_with_answers(answered_of), 4000));
    assert!((80..=100).contains(&half) && (190..=220).contains(&most), "{half} {most}");
}

#[test]
fn an_outage_counts_among_what_is_usually_unanswered_by_no_more_than_it_took_to_notice_it() {
    let mut flow = flow_with_answers(1);
    // Forty more are in flight when the answers stop.
    (0..40).for_each(|more| _ = ask(&mut flow, ms(3990), 500 + more));
    silent_after(&mut flow, 4000);
    let probe = ask(&mut flow, ms(4500), 600);
    answer(&mut flow, ms(4540), probe, 600);
    assert!(flow.silent_since().is_none() && flow.unanswered.share < 0.05, "{:?}", flow.unanswered);
    // The next outage is noticed when two have timed out, not seven.
    assert_eq!(silent_after(&mut flow, 4540), 60);
}

#[test]
fn a_path_that_answers_probes_and_brings_no_packet_is_asked_for_one_at_a_time_and_ever_more_rarely() {
    let mut flow = flow_with_answers(1);
    // Requests until it is silent, answers the probe, and returns that moment.
    let next_life = |flow: &mut Flow, from: u32| {
        let probe_at = from + silent_after(flow, from) + 10;
        let probe = ask(flow, ms(probe_at), 0);
        assert_eq!(flow.on_probe(ms(probe_at + 30), probe, 0), Answer::Expected);
        flow.on_batch_end(ms(probe_at + 30));
        assert!(flow.silent_since().is_none());
        probe_at + 30
    };
    let first = next_life(&mut flow, 4000);
    ask(&mut flow, ms(first), 6);
    assert!(flow.room(ms(first + 20)) > 0, "an outage may be over");
    let mut now = first;
    let mut pauses = Vec::new();
    for _ in 0..3 {
        now = next_life(&mut flow, now) + 2000;
        assert_eq!(flow.room(ms(now)), 1);
        let number = ask(&mut flow, ms(now), 7);
        assert_eq!(flow.room(ms(now + 20)), 0);
        // It is lost.
        flow.on_refusal(ms(now + 1), number, 7, &mut Vec::new());
        pauses.extend((0..).find(|after| flow.room(ms(now + after)) == 1));
    }
    assert!(pauses.is_sorted() && pauses[0] >= 100 && pauses[2] >= 300, "{pauses:?}");
    let number = ask(&mut flow, ms(now + 1000), 8);
    answer(&mut flow, ms(now + 1040), number, 8);
    ask(&mut flow, ms(now + 1040), 9);
    assert!(flow.room(ms(now + 1060)) > 0, "it brings packets");
}

#[test]
fn what_is_lost_is_remembered_until_64_more_are_settled_however_much_is_under_way() {
    for (settled, expected) in [(63, Answer::Late), (64, Answer::Unsolicited)] {
        let mut flow = flow();
        let numbers: Vec<u16> = (0..200).map(|packet| ask(&mut flow, ms(packet), packet)).collect();
        let lost: Vec<u32> = (1..=settled)
            .flat_map(|packet| answer(&mut flow, ms(200 + packet), numbers[packet as usize], packet))
            .collect();
        assert_eq!(lost, [0]);
        assert_eq!(flow.on_data(ms(300), numbers[0], 0, PACKET, Came::FromSource), expected, "after {settled}");
    }
}

#[test]
fn a_path_that_reordered_once_learns_of_losses_as_soon_as_before() {
    let mut flow = flow();
    let mut until_lost = Vec::new();
    for sixty in 0..42 {
        let first = sixty * 60;
        let at = sixty * 200;
        let numbers: Vec<u16> = (0..60).map(|packet| ask(&mut flow, ms(at + packet), first + packet)).collect();
        // The first of each sixty does not arrive, except once after forty others.
        for packet in 1..60 {
            let now = ms(at + 100 + packet);
            if answer(&mut flow, now, numbers[packet as usize], first + packet).contains(&first) {
                until_lost.push(packet);
            }
            if (sixty, packet) == (1, 40) {
                assert_eq!(flow.on_data(now, numbers[0], first, PACKET, Came::FromSource), Answer::Late);
            }
        }
    }
    // Losses 3 to 16 of the first sixteen, and all of the next, take the path to reorder by fifty.
    assert_eq!(until_lost[..2], [3, 3]);
    assert!(until_lost[2..32].iter().all(|&packets| packets == 50), "{until_lost:?}");
    assert!(until_lost[32..].iter().all(|&packets| packets == 3), "{until_lost:?}");
    assert_eq!(until_lost.len(), 42);
}

#[test]
fn a_late_answer_takes_back_what_only_a_timeout_gave_up_and_lengthens_the_timeout() {
    let mut flow = flow();
    let numbers: Vec<u16> = (0..4).map(|packet| ask(&mut flow, ms(0), packet)).collect();
    let mut lost = Vec::new();
    assert!(flow.detect_silence(ms(300), &mut lost) && lost.len() == 4);
    // The first answer arrives after 2.5 s; another path has requested packet 2 by then.
    assert_eq!(flow.on_data(ms(2_500), numbers[0], 0, PACKET, Came::FromSource), Answer::Late);
    assert_eq!(flow.revive_late(numbers[0], |packet| packet != 2), 2);
    assert_eq!(flow.in_flight, 2 * PACKET);
    assert!(flow.silent_since().is_none() && flow.rtt.rto() > Duration::from_millis(5_000));
    assert!(!flow.detect_silence(ms(5_000), &mut lost), "one packet each 2.5 s is no silence");
    for (at, packet) in [(5_000, 1), (10_000, 3)] {
        assert_eq!(flow.on_data(ms(at), numbers[packet as usize], packet, PACKET, Came::FromSource), Answer::Expected);
    }
    assert_eq!((flow.in_flight, flow.revive_late(numbers[0], |_| true)), (0, 0), "once");
}

#[test]
fn what_order_shows_to_be_lost_is_not_taken_back() {
    let mut flow = flow();
    let numbers: Vec<u16> = (0..8).map(|packet| ask(&mut flow, ms(packet), packet)).collect();
    assert_eq!(answer(&mut flow, ms(40), numbers[7], 7), [0, 1, 2, 3, 4]);
    assert_eq!(flow.on_data(ms(41), numbers[0], 0, PACKET, Came::FromSource), Answer::Late);
    assert_eq!(flow.revive_late(numbers[0], |_| true), 0);
}

#[test]
fn a_path_that_never_answered_is_probed_ever_more_rarely() {
    let mut flow = flow();
    ask(&mut flow, ms(0), 0);
    let (mut probes, mut lost) = (Vec::new(), Vec::new());
    for now in 0..20_000 {
        flow.detect_silence(ms(now), &mut lost);
        if flow.silent_since().is_some() && flow.room(ms(now)) > 0 {
            let ranges = alloc::vec![(1, 1)];
            flow.on_request(ms(now), &ranges, RequestKind::Probing, CacheUse::Allowed);
            probes.push(now);
        }
    }
    assert_eq!(probes, [300, 900, 2_100, 4_500, 8_500, 12_500, 16_500]);
}

#[test]
fn a_share_of_nothing_makes_no_endless_timeout() {
    let hints = PathHints { rtt: Some(ms(40).since(ms(0))), share: Some(Rate::default()), ..PathHints::default() };
    let config = TransferConfig::default();
    let mut flow = Flow::new(Time::ZERO, &config, PACKET, hints);
    ask(&mut flow, ms(0), 0);
    assert!(flow.detect_silence(Time::ZERO + config.rto_max, &mut Vec::new()));
}

#[test]
fn what_is_taken_back_is_lost_again_like_anything_else() {
    let mut flow = flow();
    let number = ask(&mut flow, ms(0), 0);
    ask(&mut flow, ms(0), 1);
    // Another path answers for packet 1, and loses it as well.
    assert_eq!(flow.late_packets(ms(1), 1, |packet| packet == 1), [1]);
    let mut lost = Vec::new();
    assert!(flow.detect_silence(ms(300), &mut lost));
    assert_eq!(lost, [LostPacket { packet: 0, covered: false }, LostPacket { packet: 1, covered: true }]);
    assert_eq!(flow.on_data(ms(400), number, 0, PACKET, Came::FromSource), Answer::Late);
    assert_eq!(flow.revive_late(number, |_| true), 1);
    lost.clear();
    flow.give_up_all(&mut lost);
    assert_eq!(lost, [LostPacket { packet: 1, covered: false }], "nobody else answers for it any more");
}

/// Fetches for `seconds` over a path whose source has a round trip of 20 ms and sends a packet each 600 µs, with a
/// cache 1 ms away that sends one each 50 µs and has runs of packets as other receivers leave them. Returns the
/// source's longest queue, the last of the window and the share of the time from the first second on in which the
/// source was busy.
fn beside_a_cache(seed: u64, cached: f64, run: u64, seconds: u64) -> (Duration, u64, f64) {
    let (per_far, per_near) = (Duration::from_micros(600), Duration::from_micros(50));
    let (mut flow, mut random) = (flow(), Random::new(seed, 1));
    let (far, near) = (Duration::from_millis(20), Duration::from_millis(1));
    let mut answers = alloc::collections::BTreeMap::new();
    let (mut now, mut busy_until, mut near_until) = (Time::ZERO, Time::ZERO, Time::ZERO);
    let (mut queue, mut sent) = (Duration::ZERO, 0u32);
    let (mut packet, mut left, mut is_cached) = (0u32, 0, false);
    while now < Time::from_millis(seconds * 1_000) {
        while let Some(((at, number, packet), came)) = answers.pop_first() {
            if at > now {
                answers.insert((at, number, packet), came);
                break;
            }
            flow.on_data(at, number, packet, PACKET, came);
            flow.on_batch_end(at);
        }
        flow.detect_overdue(now, &mut Vec::new());
        for _ in 0..flow.room(now) {
            if left == 0 {
                (left, is_cached) = (1 + random.below(run), random.chance(cached));
            }
            (packet, left) = (packet + 1, left - 1);
            let number = ask(&mut flow, now, packet);
            if is_cached {
                near_until = near_until.max(now) + per_near;
                answers.insert((near_until + near, number, packet), Came::FromCache);
                continue;
            }
            busy_until = busy_until.max(now) + per_far;
            queue = queue.max(busy_until.since(now));
            sent += u32::from(now >= Time::from_millis(1_000));
            answers.insert((busy_until + far, number, packet), Came::FromSource);
        }
        now += Duration::from_micros(250);
    }
    let busy = (per_far * sent).as_secs_f64() / (seconds - 1) as f64;
    (queue, flow.window() / PACKET, busy)
}

#[test]
fn a_cache_that_answers_in_between_neither_floods_nor_starves_the_source() {
    let product = 34;
    for seed in 0..40 {
        let mut random = Random::new(seed, 2);
        let (cached, run) = (0.9 * random.unit(), 1 + random.below(200));
        let (queue, window, busy) = beside_a_cache(seed, cached, run, 5);
        let case = alloc::format!("seed {seed}, {cached:.2} cached, runs of {run}: {queue:?}, {window}, {busy:.2}");
        assert!(queue < Duration::from_millis(150), "the source's queue: {case}");
        assert!((product / 2..product * 4).contains(&window), "the window: {case}");
        assert!(busy > 0.5, "the source waits: {case}");
    }
}
