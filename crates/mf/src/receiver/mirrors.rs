//! Web servers as additional sources of a fetch: they deliver whole units.
//!
//! ```text
//!   sender ──► │ 0 1 2 3 …  →            ←  … n-2 n-1 │ ◄── mirrors
//! ```
//! A sender pushes the object from its start, and learns with each window what has arrived. So mirrors start at the
//! other end: when both meet, the object is complete, and the receiver stops the sender. Units that the sender has
//! partly sent are left to it while there are others.
use tributary_transport::{
    bulk::{Bulk, BulkChunk, BulkConfig, BulkFlowId, BulkInput, BulkShape, BulkStep, ChunkPool},
    limit::TokenBucket,
    ranges::RangeSet,
};

use super::*;

/// Sources and paths of mirrors are numbered from here, above those of the network.
const FIRST_SOURCE: SourceId = SourceId(10_001);
const FIRST_PATH: PathId = PathId(60_001);
/// Maximum duration of a mirror's range: a sender that arrives at it sends its rest too.
const SEGMENT_MAX: Duration = Duration::from_secs(1);

/// The mirrors of a fetch.
pub(super) struct Mirrors {
    bulk: Bulk,
    /// Whether their driver is still testing them.
    is_awaited: bool,
    /// Missing units that no mirror fetches, once the object is known.
    idle: Option<RangeSet>,
}

impl Mirrors {
    fn new() -> Mirrors {
        let config = BulkConfig { segment_max: SEGMENT_MAX, ..BulkConfig::default() };
        Mirrors { bulk: Bulk::new(config, FIRST_SOURCE, FIRST_PATH), is_awaited: true, idle: None }
    }
    /// Whether they may still deliver something, or are still to be found.
    pub(super) fn may_deliver(&self) -> bool {
        self.is_awaited || self.bulk.any_usable()
    }
    /// A unit was stored, from any source.
    pub(super) fn on_stored(&mut self, unit: u32) {
        if let Some(idle) = &mut self.idle {
            idle.remove(unit, unit + 1);
        }
    }
    /// Adds the mirrors' accounts to those of the sources.
    pub(super) fn report(&self, now: Time, report: &mut TransferReport) {
        self.bulk.add_to(now, report);
    }
}

impl Receiver {
    /// Takes the reports of a fetch's mirror driver, and returns its next tasks. From the first call on, even one
    /// without inputs, the fetch continues without sources while mirrors may deliver.
    pub fn step_bulk(&mut self, now: Time, id: TransferId, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let (fetch, shared) = self.fetches.get_with_limit(id)?;
        let mut mirrors = fetch.mirrors.take().unwrap_or_else(|| Box::new(Mirrors::new()));
        let mut failed = None;
        for input in inputs {
            if let Err(reason) = fetch.take_input(now, shared, &mut mirrors, input) {
                failed = Some(reason);
            }
        }
        let mut step = BulkStep { is_ended: fetch.record.is_ended(), ..BulkStep::default() };
        let is_known = |reassembly: &&Reassembly| reassembly.writer.is_open() && reassembly.writer.has_tree();
        if let Some(reassembly) = fetch.reassembly.as_ref().filter(is_known).filter(|_| !step.is_ended) {
            let (size, chunk_size) = (reassembly.manifest().size, reassembly.manifest().chunk_size);
            step.shape = Some(BulkShape { size, chunk_size });
            let idle = mirrors.idle.get_or_insert_with(|| reassembly.missing_units());
            if idle.is_empty() && !mirrors.bulk.has_orders() {
                // Units dropped again, because they were sent together with a corrupted one.
                *idle = reassembly.missing_units();
            }
            let mut pool = Pool { reassembly, idle };
            mirrors.bulk.handle_timeout(now, &mut pool);
            // Mirrors share the limits with the sender: delivered bytes are paid for before more is ordered.
            if fetch.credit.ready_at(shared) <= now {
                step.orders.extend(core::iter::from_fn(|| mirrors.bulk.poll_order(now, &mut pool)));
            }
        }
        step.cuts.extend(core::iter::from_fn(|| mirrors.bulk.poll_cut()));
        fetch.record.extend(core::iter::from_fn(|| mirrors.bulk.poll_event()));
        fetch.mirrors = Some(mirrors);
        fetch.take_stored();
        match failed {
            Some(reason) => self.fail(now, id, reason),
            None => self.settle(now, id),
        }
        Some(step)
    }
}

impl Incoming {
    fn take_input(
        &mut self,
        now: Time,
        shared: &mut TokenBucket,
        mirrors: &mut Mirrors,
        input: BulkInput,
    ) -> Result<(), String> {
        if let BulkInput::Settled = input {
            mirrors.is_awaited = false;
            return Ok(());
        }
        let Some(reassembly) = self.reassembly.as_mut().filter(|_| !self.record.is_ended()) else { return Ok(()) };
        let Mirrors { bulk, idle, .. } = mirrors;
        let mut nothing = RangeSet::new();
        let idle = idle.as_mut().unwrap_or(&mut nothing);
        match input {
            BulkInput::Mirror { label, uplinks, objection } => {
                bulk.handle_mirror(&label, &uplinks, objection, &mut Pool { reassembly, idle });
            }
            BulkInput::Head { flow, number } => {
                self.patience.restart(now);
                bulk.handle_head(now, flow, number);
            }
            BulkInput::Bytes { flow, number, bytes } => {
                self.patience.restart(now);
                bulk.handle_bytes(now, flow, number, bytes);
            }
            BulkInput::Failed { flow, number, failure } => {
                bulk.handle_failure(now, flow, number, failure, &mut Pool { reassembly, idle });
            }
            BulkInput::Chunk { flow, number, chunk, bytes } => {
                let length = bytes.len() as u32;
                let verdict = take_unit(bulk, reassembly, flow, chunk, bytes)?;
                if verdict == BulkChunk::Kept {
                    self.patience.restart(now);
                    self.credit.on_mirror(now, shared, u64::from(length));
                    idle.remove(chunk, chunk + 1);
                }
                bulk.handle_chunk(now, flow, number, (chunk, length), verdict, &mut Pool { reassembly, idle });
            }
            BulkInput::Settled => {}
        }
        Ok(())
    }
}

/// Verifies a unit from a mirror, and passes it to the store.
fn take_unit(
    bulk: &Bulk,
    reassembly: &mut Reassembly,
    flow: BulkFlowId,
    unit: u32,
    bytes: Vec<u8>,
) -> Result<BulkChunk, String> {
    let is_usable = bulk.mirror_of(flow).is_some_and(|mirror| bulk.is_usable(mirror));
    if !is_usable {
        return Ok(BulkChunk::Duplicate);
    }
    match reassembly.take_unit(unit, bytes) {
        Taken::Kept | Taken::Refused => Ok(BulkChunk::Kept),
        Taken::Duplicate => Ok(BulkChunk::Duplicate),
        Taken::Wrong(_) => Ok(BulkChunk::Bad(format!("sent chunk {unit} with bytes that failed verification"))),
        Taken::Failed(reason) => Err(reason),
    }
}

/// The units of an object, for the scheduler of mirrors.
struct Pool<'a> {
    reassembly: &'a Reassembly,
    idle: &'a mut RangeSet,
}

impl Pool<'_> {
    /// The last run of at most `most` idle units within `window` for which `fits` holds.
    fn last_run(&self, window: &Range<u32>, most: u32, fits: impl Fn(u32) -> bool) -> Option<Range<u32>> {
        let idle: Vec<(u32, u32)> = self.idle.iter().collect();
        for (first, end) in idle.into_iter().rev() {
            let (first, end) = (first.max(window.start), end.min(window.end));
            let Some(last) = (first..end).rev().find(|unit| fits(*unit)) else { continue };
            let start = (first..=last).rev().take(most.max(1) as usize).take_while(|unit| fits(*unit)).last()?;
            return Some(start..last + 1);
        }
        None
    }
}

impl ChunkPool for Pool<'_> {
    fn take(&mut self, chunks: u32) -> Option<Range<u32>> {
        let windows = self.reassembly.windows();
        let run = |fits: &dyn Fn(u32) -> bool| windows.iter().find_map(|window| self.last_run(window, chunks, fits));
        let (missing, untouched) =
            (|unit| self.reassembly.is_missing_unit(unit), |unit| self.reassembly.is_untouched(unit));
        let taken = run(&untouched).or_else(|| run(&missing))?;
        self.idle.remove(taken.start, taken.end);
        Some(taken)
    }
    fn give_back(&mut self, run: Range<u32>) {
        for unit in run.filter(|unit| self.reassembly.is_missing_unit(*unit)) {
            self.idle.insert(unit, unit + 1);
        }
    }
    fn is_missing(&self, chunk: u32) -> bool {
        self.reassembly.is_missing_unit(chunk)
    }
    fn idle_bytes(&self) -> u64 {
        self.idle.len() * u64::from(self.reassembly.manifest().chunk_size)
    }
    fn chunk_bytes(&self) -> u32 {
        self.reassembly.manifest().chunk_size
    }
    fn chunks(&self) -> u32 {
        self.reassembly.manifest().chunk_count()
    }
}

#[cfg(test)]
mod tests {
    use tributary_content::{MemoryObject, MemoryOpener, ObjectKind, ObjectReader, SigningKey};

    use super::{super::tests::fetch_of, *};
    use crate::sender::chunk_count;

    const UNIT: u32 = 4_096;
    const UNITS: u32 = 40;

    /// A fetch with a mirror whose sender has sent the manifest and `sent` units. Returns the receiver, the fetch, the
    /// object's bytes and the mirror's order.
    fn begun(sent: u32) -> (Receiver, TransferId, Vec<u8>, Range<u32>, u64) {
        let (name, key) = ("/lab/file".parse::<Name>().expect("a name"), SigningKey::from_secret(&[7; 32]));
        let bytes: Vec<u8> = (0..UNIT * UNITS).map(|at| (at / 7) as u8).collect();
        let object =
            MemoryObject::with_options(name.clone(), Bytes::from(bytes.clone()), &key, 1, ObjectKind::File, UNIT)
                .expect("fits");
        let device = Announcer { guid: Guid([1; 20]), label: "source".into() };
        let mut receiver = Receiver::new(EndConfig::default(), 1, &[1; 32]);
        let id = receiver.fetch(Time::ZERO, fetch_of(&name, MemoryOpener::new()), GetOptions::default());
        receiver.set_attached(Time::ZERO, true);
        let now = Time::from_millis(1);
        let step = receiver.step_bulk(now, id, Vec::new()).expect("it runs");
        assert_eq!((step.shape, step.orders.len()), (None, 0), "nothing is known yet");
        receiver.handle_announcements(now, &name, &[(device, object.manifest().clone())], Announced::All);
        let fetch = receiver.fetches.get_mut(id).expect("it runs");
        let reassembly = fetch.reassembly.as_mut().expect("the store is open");
        let origin = Origin::Source(SourceId(1));
        let cut = (UNIT, chunk_count(u64::from(UNIT * UNITS), UNIT));
        let encoded = object.manifest().encode();
        let len = u16::try_from(encoded.len()).expect("it is short").to_be_bytes();
        let head: Bytes = [&len[..], &encoded, &object.tree()].concat().into();
        assert_eq!(reassembly.take(0, cut, &Payload::from(head), origin, u64::MAX), Taken::Kept);
        for unit in 0..sent {
            let part = Bytes::copy_from_slice(&bytes[(unit * UNIT) as usize..((unit + 1) * UNIT) as usize]);
            assert_eq!(reassembly.take(unit + 1, cut, &Payload::from(part), origin, u64::MAX), Taken::Kept);
        }
        let mirror = BulkInput::Mirror { label: "m".into(), uplinks: alloc::vec![String::new()], objection: None };
        let step = receiver.step_bulk(now, id, Vec::from([mirror, BulkInput::Settled])).expect("it runs");
        assert_eq!(step.shape, Some(BulkShape { size: u64::from(UNIT * UNITS), chunk_size: UNIT }));
        let order = step.orders.into_iter().next().expect("there is work");
        (receiver, id, bytes, order.chunks, order.number)
    }
    fn chunk(number: u64, unit: u32, bytes: &[u8]) -> BulkInput {
        let bytes = bytes[(unit * UNIT) as usize..((unit + 1) * UNIT) as usize].to_vec();
        BulkInput::Chunk { flow: BulkFlowId(0), number, chunk: unit, bytes }
    }

    #[test]
    fn mirrors_deliver_what_the_sender_has_not_sent_and_finish_the_object() {
        let (mut receiver, id, bytes, units, number) = begun(10);
        assert_eq!(units, 10..UNITS);
        let now = Time::from_millis(2);
        let inputs = units.map(|unit| chunk(number, unit, &bytes)).collect();
        assert!(receiver.step_bulk(now, id, inputs).expect("it is known").orders.is_empty());
        let report = receiver.report(now, id).expect("it is known");
        let of = |label: &str| report.sources.iter().find(|source| source.label == label).expect("it is named").bytes;
        assert_eq!((of("source"), of("m")), (u64::from(UNIT) * 10, u64::from(UNIT) * 30));
        assert!(receiver.fetches.get(id).expect("it is known").record.is_ended(), "{report:?}");
        assert!(receiver.step_bulk(now, id, Vec::new()).expect("it is known").is_ended);
    }

    #[test]
    fn a_mirror_that_sends_other_bytes_is_named_and_the_sender_goes_on() {
        let (mut receiver, id, mut bytes, units, number) = begun(10);
        bytes[(units.start * UNIT) as usize] ^= 1;
        let now = Time::from_millis(2);
        let step = receiver.step_bulk(now, id, Vec::from([chunk(number, units.start, &bytes)])).expect("it is known");
        assert!(step.orders.is_empty() && !step.is_ended);
        let report = receiver.report(now, id).expect("it is known");
        let mirror = report.sources.iter().find(|source| source.label == "m").expect("it is named");
        assert!(mirror.distrusted.as_deref().is_some_and(|why| why.contains("failed verification")), "{mirror:?}");
        assert!(report.sources.iter().any(|source| source.label == "source" && source.distrusted.is_none()));
    }
}
