//! One transfer over a chain of PSI nodes in virtual time: the real protocol code in the real simulator, to be measured.
//!
//! ```text
//! receiver ── forwarder ── … ── forwarder ── publisher       1 Gbit/s and 5 ms each
//! ```
use bytes::Bytes;
use std::{
    cell::Cell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};
use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, Manifest, MemoryObject, ObjectReader, StoreError, StoreOpener,
};
use tributary_core::{
    ByteCount, Duration, FaceId, Rate, Time,
    event::{Event, TransferEvent},
    link::LinkConfig,
};
use tributary_psi::{Config, PsiNode};
use tributary_sim::{Network, TraceDepth};
use tributary_transport::{Endpoint, FaceOptions, Fetch, PathMetric};

/// The chain to measure.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    /// Links on the path, at least two.
    pub hops: usize,
    /// The depth of the trace hash.
    pub depth: TraceDepth,
    /// Bytes of the cache of each forwarder; zero disables it.
    pub cache_bytes: u64,
}

/// The measurements, from the start of the fetch to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// By the clock that the caller gave.
    pub elapsed: Duration,
    /// Virtual time.
    pub virtual_time: Duration,
    /// The hash of the run; zero with [`TraceDepth::Off`].
    pub trace_hash: u64,
}

impl Chain {
    /// Fetches `object` over the chain and compares it byte for byte as it arrives; a simulation keeps no second copy.
    /// `clock` returns the time since some point: the processor time of the thread, so that other load on the machine
    /// counts as little as possible.
    ///
    /// # Errors
    /// States the virtual time at which the transfer was given up.
    pub fn carry(&self, object: &MemoryObject, clock: impl Fn() -> Duration) -> Result<Crossing, String> {
        let mut network = Network::new(1);
        network.set_trace_depth(self.depth);
        let nodes: Vec<_> = (0..=self.hops).map(|index| network.add_node(PsiNode::new(self.config(index)))).collect();
        let link =
            LinkConfig { queue_bytes: 8 << 20, ..LinkConfig::new(Rate::from_mbps(1_000), Duration::from_millis(5)) };
        for pair in nodes.windows(2) {
            // Face 1 leads towards the receiver, face 2 towards the publisher.
            network.connect((pair[0], FaceId(2)), (pair[1], FaceId(1)), link.clone(), link.clone());
            for (node, face) in [(pair[0], FaceId(2)), (pair[1], FaceId(1))] {
                network.with(node, |node, now| node.add_face(now, face, FaceOptions { mtu: 1_472, rate: link.rate }));
            }
        }
        let has_ended = Rc::new(Cell::new(false));
        let ended = Rc::clone(&has_ended);
        network.set_observer(move |_, _, event| {
            if let Event::Transfer(_, TransferEvent::Completed | TransferEvent::Failed { .. }) = event {
                ended.set(true);
            }
        });
        let [receiver, publisher] = [nodes[0], nodes[self.hops]];
        network.with(publisher, |node, now| node.publish(now, Box::new(object.clone())));
        // The domain finds itself before the clock starts.
        network.run_until(DOMAIN_READY);
        let name = object.manifest().name.clone();
        let checked = Arc::new(Checked::default());
        let fetch = Fetch {
            name,
            opener: Box::new(Opener { original: object.bytes().clone(), checked: Arc::clone(&checked) }),
            rate_limit: None,
            paths_per_source: 1,
            metric: PathMetric::Hops,
            patience: None,
        };
        let hops_before = network.stats().packet_hops;
        let start = clock();
        network.with(receiver, |node, now| node.fetch(now, fetch));
        network.run_while(LIMIT, |_| !has_ended.get());
        let elapsed = clock().saturating_sub(start);
        if !checked.is_finished.load(Relaxed) || checked.wrong_chunks.load(Relaxed) > 0 {
            return Err(format!("the transfer is not over at {} of virtual time", network.now()));
        }
        Ok(Crossing {
            packet_hops: network.stats().packet_hops - hops_before,
            elapsed,
            virtual_time: network.now().since(DOMAIN_READY),
            trace_hash: network.trace_hash(),
        })
    }
    fn config(&self, index: usize) -> Config {
        let mut config = Config::new(&format!("node-{index}"), index as u64 + 1);
        config.router = index > 0 && index < self.hops;
        config.cache_bytes = ByteCount(self.cache_bytes);
        if index == 1 {
            (config.resolver, config.topology_manager) = (true, Some(1));
        }
        config
    }
}

/// When the fetch starts.
const DOMAIN_READY: Time = Time::from_millis(2_000);
/// Virtual time until which the transfer must be over.
const LIMIT: Time = Time::from_millis(60_000);

/// What the store saw.
#[derive(Default)]
struct Checked {
    wrong_chunks: AtomicU64,
    is_finished: AtomicBool,
}

struct Opener {
    original: Bytes,
    checked: Arc<Checked>,
}

impl StoreOpener for Opener {
    fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        let held = Bitmap::new(manifest.chunk_count());
        let (original, checked) = (self.original.clone(), Arc::clone(&self.checked));
        Ok(Box::new(Store { manifest: manifest.clone(), original, held, checked }))
    }
}

struct Store {
    manifest: Manifest,
    original: Bytes,
    held: Bitmap,
    checked: Arc<Checked>,
}

impl ChunkStore for Store {
    fn held(&self) -> &Bitmap {
        &self.held
    }
    fn put_chunk(&mut self, index: ChunkIndex, bytes: &[u8]) -> Result<(), StoreError> {
        let start = self.manifest.chunk_offset(index) as usize;
        if self.original.get(start..start + bytes.len()) != Some(bytes) {
            self.checked.wrong_chunks.fetch_add(1, Relaxed);
        }
        self.held.set(index);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        self.checked.is_finished.store(true, Relaxed);
        Ok(())
    }
}
