//! Speed of the receiving side without a network: requests are answered at once from memory.
//!
//! `cargo run --release -p tributary-transport --example receive_speed`
use std::time::Instant;

use tributary_content::{
    Bitmap, ChunkIndex, ChunkStore, Manifest, MemoryObject, ObjectReader, SigningKey, StoreError, StoreOpener,
};
use tributary_core::{NodeId, PathId, Time};
use tributary_transport::{
    Transfer, TransferConfig,
    layout::{Layout, Unit},
    policy::Shared,
    transfer::{PacketData, PathOffer, SourceOffer},
};

/// Throws chunks away.
struct Nowhere(Bitmap);

impl ChunkStore for Nowhere {
    fn held(&self) -> &Bitmap {
        &self.0
    }
    fn put_chunk(&mut self, index: ChunkIndex, _: &[u8]) -> Result<(), StoreError> {
        self.0.set(index);
        Ok(())
    }
    fn finish(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
struct ToNowhere;
impl StoreOpener for ToNowhere {
    fn trusts(&self, _: &Manifest) -> Result<(), StoreError> {
        Ok(())
    }
    fn resumes(&self, _: &Manifest) -> bool {
        false
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        Ok(Box::new(Nowhere(Bitmap::new(manifest.chunk_count()))))
    }
}

#[expect(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark")]
fn main() {
    let bytes = 512 << 20;
    let name: tributary_content::Name = "/bench/object".parse().unwrap();
    let object = MemoryObject::new(name.clone(), vec![7; bytes], &SigningKey::from_secret(&[1; 32])).unwrap();
    let manifest = object.manifest().clone();
    let tree = object.tree();
    let mut transfer = Transfer::new(Time::ZERO, name, TransferConfig::default(), Box::new(ToNowhere), None, None);
    let path = PathOffer {
        path: PathId(1),
        label: "receiver>source".into(),
        hops: 1,
        packet_bytes_max: 1443,
        shared_links: vec![],
        rtt: None,
        capacity: None,
        face: None,
    };
    let source =
        SourceOffer { node: NodeId(1), label: "source".into(), manifest: manifest.encode(), paths: vec![path] };
    let start = Instant::now();
    let mut unlimited = Shared::default();
    transfer.handle_offer(Time::ZERO, vec![source]);
    let mut packets = 0u64;
    let mut requests = 0u64;
    let mut layout = None;
    while !transfer.is_ended() {
        let now = Time::from_nanos(start.elapsed().as_nanos() as u64);
        if transfer.poll_timeout().is_some_and(|due| due <= now) {
            transfer.handle_timeout(now);
        }
        while let Some(request) = transfer.poll_request(now, &mut unlimited) {
            requests += 1;
            let layout = layout.get_or_insert_with(|| Layout::exact(&manifest, request.packet_bytes).unwrap());
            for packet in request.ranges.iter().flat_map(|&(first, count)| first..first + u32::from(count)) {
                packets += 1;
                let (unit, offset, len) = layout.locate(packet).unwrap();
                let complete: &[u8] = match unit {
                    Unit::Tree => &tree,
                    Unit::Chunk(chunk) => &object.bytes()[chunk as usize * manifest.chunk_size as usize..],
                };
                let payload = &complete[offset as usize..(offset + len) as usize];
                let data = PacketData { path: request.path, number: request.number, packet, cache: None, payload };
                transfer.handle_data(now, &data);
            }
        }
        while transfer.poll_event().is_some() {}
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{:.0} MB/s, {:.0} ns a packet, {packets} packets, {requests} requests; of it hashing at 6 GB/s would be {:.0} ns",
        bytes as f64 / seconds / 1e6,
        seconds * 1e9 / packets as f64,
        1441.0 / 6.0
    );
}
