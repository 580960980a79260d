//! The sources and paths of a fetch, the choice of its object, and trust in its publisher.
use super::*;
use crate::sources::SOURCES_MAX;

/// Bytes of a packet while no path is known.
const PACKET_BYTES_TYPICAL: u16 = 1200;

impl Transfer {
    /// The number of an offer's source; `None` at the limit.
    pub(super) fn source_id(&mut self, offer: &SourceOffer) -> Option<SourceId> {
        if let Some(known) = self.sources.find(|source| source.node == offer.node) {
            return Some(known);
        }
        let (id, added) = self.sources.add(offer.node, &offer.label, ())?;
        self.record.push(added);
        if self.sources.is_full() {
            let text = format!("'{}' has more sources than {SOURCES_MAX}; further ones are not used", self.name);
            self.record.push(TransferEvent::Advice { text });
        }
        Some(id)
    }
    /// The offers of sources that have not sent wrong bytes so far.
    pub(super) fn read_offers(&mut self, now: Time, offers: Vec<SourceOffer>) -> Vec<Offered> {
        let mut offered = Vec::new();
        for offer in offers {
            let Some(source) = self.source_id(&offer) else { continue };
            match self.manifest_of(&offer.manifest) {
                Ok(manifest) if self.sources.get(source).is_some_and(|known| !known.is_faulty()) => {
                    let check = object_choice::check(&*self.opener, &self.name, &manifest);
                    offered.push(Offered { source, manifest, check, paths: offer.paths });
                }
                Ok(_) => {}
                Err(reason) => self.distrust(now, source, Evidence::Offer, reason),
            }
        }
        offered
    }
    /// Reads the manifest of an offer.
    pub(super) fn manifest_of(&self, bytes: &[u8]) -> Result<Manifest, String> {
        match &self.described {
            Some(described) if bytes.is_empty() => Ok(described.clone()),
            _ => Manifest::decode(bytes).map_err(|error| format!("its manifest is not valid: {error}")),
        }
    }
    /// Whether the publisher of the object is settled: a key is pinned or remembered, or the transfer has started. If
    /// not, the first answer would decide whom to trust, so it is worth waiting a little for all offers.
    pub fn knows_publisher(&self) -> bool {
        self.running.is_some() || self.opening.is_some() || self.opener.knows_publisher(&self.name)
    }
    pub(super) fn start(&mut self, now: Time, manifest: Manifest, offers: &[Offered]) {
        let object = manifest.object_id();
        let usable = offers.iter().filter(|offer| offer.manifest.object_id() == object).flat_map(|offer| &offer.paths);
        let narrowest = usable.map(|path| path.packet_bytes_max).min();
        let packet_bytes = narrowest.unwrap_or(PACKET_BYTES_TYPICAL);
        let Some(layout) = self.layout(&manifest, packet_bytes) else {
            let size = manifest.size;
            return self
                .fail(now, format!("{size} bytes in packets of {packet_bytes} are more packets than can be numbered"));
        };
        let writer = match ObjectWriter::open(manifest, &mut *self.opener) {
            Ok(writer) => writer,
            Err(error) => return self.fail(now, error.to_string()),
        };
        let opening = Opening { layout, writer, is_cut_by_guess: narrowest.is_none(), offers: Vec::new() };
        match opening.writer.is_open() {
            true => self.run(now, opening),
            false => self.opening = Some(opening),
        }
    }
    /// Starts an object whose store is open.
    pub(super) fn run(&mut self, now: Time, opening: Opening) {
        let Opening { layout, mut writer, is_cut_by_guess, .. } = opening;
        let (idle, idle_tree) = missing(&layout, &writer);
        let (bytes, resumed_bytes) = writer.sizes();
        self.patience.restart(now);
        self.record.on_open(bytes, resumed_bytes);
        let chunks = |bytes: u64| (bytes / u64::from(writer.manifest().chunk_size.max(1))) as usize;
        let units_max = chunks(self.config.assembly_bytes_max).max(2);
        let storing_max = chunks(self.config.storing_bytes_max).max(1);
        // Enough buffers for every chunk that waits for the disk: with fewer, chunks would allocate memory again and
        // again.
        writer.keep_buffers(storing_max);
        self.running = Some(Running {
            writer,
            layout,
            idle_tree,
            idle,
            units: BTreeMap::new(),
            parts: BTreeMap::new(),
            suspects: BTreeMap::new(),
            units_max,
            storing_max,
            is_held_up: false,
            is_cut_by_guess,
            owners: BTreeMap::new(),
            partials: Partials::default(),
            rare_at: None,
        });
        self.finish_if_complete(now);
    }
    /// The layout of an object when the narrowest path carries packets of `narrowest` bytes.
    fn layout(&self, manifest: &Manifest, narrowest: u16) -> Option<Layout> {
        match manifest.is_unsigned() {
            // How others cut their objects is not ours to choose.
            true => Layout::exact(manifest, narrowest),
            false => Layout::new(manifest, self.config.packet_bytes.map_or(narrowest, |bytes| bytes.min(narrowest))),
        }
    }
    /// An object chosen before any path is cut for the first ones: their sources may already have cut it, into smaller
    /// or larger packets.
    pub(super) fn cut_for_first_paths(&mut self, offered: &[(SourceId, PathOffer)]) {
        let Some(narrowest) = offered.iter().map(|(_, path)| path.packet_bytes_max).min() else { return };
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return };
        if !core::mem::take(&mut running.is_cut_by_guess) {
            return;
        }
        let manifest = running.writer.manifest().clone();
        if let (Some(layout), Some(running)) = (self.layout(&manifest, narrowest), &mut self.running) {
            running.cut_anew(layout);
        }
    }
    /// Cuts the object into smaller packets if no path carries the present ones, as when the only paths left have
    /// become narrower since the start. Verified chunks stay; incomplete chunks are requested again.
    pub(super) fn fit_to_paths(&mut self, offered: &[(SourceId, PathOffer)]) -> bool {
        let Some(running) = self.running.as_mut().filter(|_| !self.record.is_ended()) else { return false };
        let narrowest = offered.iter().map(|(_, path)| path.packet_bytes_max).min().unwrap_or(u16::MAX);
        if running.writer.manifest().is_unsigned() {
            return false;
        }
        if self.paths.values().any(|path| path.flow.is_some()) || narrowest >= running.layout.packet_bytes() {
            return false;
        }
        let Some(layout) = Layout::new(running.writer.manifest(), narrowest) else { return false };
        running.cut_anew(layout);
        self.paths.values_mut().for_each(|path| path.to_heal.clear());
        true
    }
    /// Takes a path, one of all those that are `offered` now.
    pub(super) fn add_path(
        &mut self,
        now: Time,
        source: SourceId,
        offer: PathOffer,
        offered: &[(SourceId, PathOffer)],
    ) {
        let Some(running) = &self.running else { return };
        let packet_bytes = running.layout.packet_bytes();
        let id = offer.path;
        let barred = self.is_barred(&offer);
        let left_out = self.rules.bars(offer.face, &self.demands);
        let mut is_back = false;
        if let Some(path) = self.paths.get_mut(&id) {
            path.is_offered = true;
            if path.altered.is_some() {
                // The label may name more nodes on the path by now.
                path.offer.label = offer.label;
                return;
            }
            let reopened = path.closed.is_some() && path.source == source;
            path.offer = offer;
            if path.is_left_out && left_out.is_some() {
                return;
            }
            if !reopened && path.offer.packet_bytes_max >= packet_bytes {
                return;
            }
            if reopened {
                path.closed = None;
                is_back = true;
            }
        } else {
            self.record.push(TransferEvent::PathAdded { path: id, source });
            self.paths.insert(id, Path { source, offer, is_offered: true, ..Path::default() });
        }
        if let Some(reason) = barred {
            return self.close_path(id, reason);
        }
        if let Some(reason) = left_out {
            return self.leave_out(id, reason);
        }
        let path = self.paths.get_mut(&id).expect("it was there or has just been put there");
        path.is_left_out = false;
        if path.offer.packet_bytes_max < packet_bytes {
            let reason = format!(
                "carries packets of {} bytes, this transfer's have {packet_bytes}",
                path.offer.packet_bytes_max
            );
            self.close_path(id, reason);
            return;
        }
        path.reported = PathState::Active;
        if is_back {
            let (state, reason) = (PathState::Active, "offered again".into());
            self.record.push(TransferEvent::PathState { path: id, state, reason });
        }
        let offer = path.offer.clone();
        let (config, share) = self.config_for(&offer, u64::from(packet_bytes), offered);
        let hints = PathHints { rtt: offer.rtt, capacity: share.and(offer.capacity), share };
        let flow = Flow::new(now, &config, u64::from(packet_bytes), hints);
        if let Some(path) = self.paths.get_mut(&id) {
            path.flow = Some(flow);
        }
    }
    /// The settings for a path, and its expected rate: the network's knowledge of the rate spares the model-based
    /// window the first round trips (paper §III-D: the network and the receiver cooperate). Paths that share a link
    /// divide its spare rate in proportion to their own rates; where that is unknown, at least the widest of them
    /// crosses it. A path whose answers come sooner starts with the rate that the others leave it until theirs come.
    fn config_for(
        &self,
        offer: &PathOffer,
        packet_bytes: u64,
        offered: &[(SourceId, PathOffer)],
    ) -> (TransferConfig, Option<Rate>) {
        let mut config = self.config.clone();
        let (ControllerKind::ModelBased, Some(rate), Some(rtt)) = (config.controller, offer.capacity, offer.rtt) else {
            return (config, None);
        };
        let own = rate.bits_per_second() as f64;
        let part = |presence: &dyn Fn(&PathOffer) -> f64| {
            let part_of = |link: &SharedLink| {
                let (mut widest, mut together) = (own, own);
                for (_, other) in offered {
                    if other.path != offer.path && other.shared_links.iter().any(|shared| shared.number == link.number)
                    {
                        let rate = other.capacity.map_or(own, |rate| rate.bits_per_second() as f64);
                        widest = widest.max(rate);
                        together += rate * presence(other);
                    }
                }
                let room = link.capacity.map_or(widest, |rate| rate.bits_per_second() as f64);
                own * room / together.max(1.0)
            };
            let part = offer.shared_links.iter().map(part_of).fold(own, f64::min);
            Rate::from_bits_per_second(part as u64)
        };
        // The fraction of its first round trip of answers in which another path's answers can arrive.
        let begins = |other: &PathOffer| {
            let later = other.rtt.map_or(0.0, |other| other.as_secs_f64() / rtt.as_secs_f64().max(f64::MIN_POSITIVE));
            (2.0 - later).clamp(0.0, 1.0)
        };
        let packets = part(&begins).bytes_in(rtt) / packet_bytes;
        let least = u64::from(config.window_initial_packets);
        let least = least.min((rate.bytes_in(WINDOW_INITIAL_TIME) / packet_bytes).max(WINDOW_INITIAL_PACKETS_MIN));
        let packets = packets.clamp(least, u64::from(WINDOW_INITIAL_PACKETS_MAX));
        config.window_initial_packets = u32::try_from(packets).unwrap_or(u32::MAX);
        (config, Some(part(&|_| 1.0)))
    }
    pub(super) fn close_path(&mut self, id: PathId, reason: String) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.closed.is_some() {
            return;
        }
        let mut lost = Vec::new();
        if let Some(mut flow) = path.flow.take() {
            flow.give_up_all(&mut lost);
        }
        path.closed = Some(reason.clone());
        path.reported = PathState::Closed;
        self.record.push(TransferEvent::PathState { path: id, state: PathState::Closed, reason });
        self.return_lost(&lost);
    }
    /// Reports a source that sent false data, stops requests to it, and drops its packets that are not verified yet.
    pub(super) fn distrust(&mut self, now: Time, id: SourceId, evidence: Evidence, reason: String) {
        let Some(event) = self.sources.distrust(id, evidence, reason) else { return };
        let label = self.sources.get(id).map_or_else(String::new, |source| source.label.clone());
        self.record.push(event);
        self.running.iter_mut().for_each(|running| running.partials.remove(id));
        let paths: BTreeSet<PathId> = self.paths_to(id).collect();
        for path in &paths {
            self.close_path(*path, format!("'{label}' is no longer trusted"));
        }
        if let Some(running) = &mut self.running {
            running.discard(|origin| paths.contains(&origin.path) && origin.cache.is_none());
        }
        self.move_suspects(now);
    }
    /// Stops requesting from an honest source.
    pub(super) fn close_source(&mut self, id: SourceId, reason: String) {
        let closed = self.sources.close(id, reason.clone());
        self.on_source_closed(id, closed, &reason);
    }
    pub(super) fn on_source_closed(&mut self, id: SourceId, closed: Option<TransferEvent>, reason: &str) {
        let Some(event) = closed else { return };
        self.running.iter_mut().for_each(|running| running.partials.remove(id));
        let paths: Vec<PathId> = self.paths_to(id).collect();
        for path in paths {
            self.close_path(path, reason.into());
        }
        self.record.push(event);
    }
    fn paths_to(&self, source: SourceId) -> impl Iterator<Item = PathId> + '_ {
        self.paths.iter().filter(move |(_, path)| path.source == source).map(|(id, _)| *id)
    }
}

impl Running {
    /// Cuts the object differently. Verified chunks stay; incomplete chunks are requested again.
    fn cut_anew(&mut self, layout: Layout) {
        (self.idle, self.idle_tree) = missing(&layout, &self.writer);
        for index in self.writer.iter_storing() {
            let (first, end) = layout.packets(Unit::Chunk(index));
            self.idle.remove(first, end);
        }
        self.layout = layout;
        self.units.clear();
        self.suspects.clear();
    }
}

/// The packets that are not held; the hash list's separately.
fn missing(layout: &Layout, writer: &ObjectWriter) -> (RangeSet, RangeSet) {
    let (mut idle, mut idle_tree) = (RangeSet::new(), RangeSet::new());
    for run in writer.held().unset_ranges() {
        idle.insert(layout.packets(Unit::Chunk(run.start)).0, layout.packets(Unit::Chunk(run.end - 1)).1);
    }
    if !idle.is_empty() && !writer.has_tree() {
        let (first, end) = layout.packets(Unit::Tree);
        idle_tree.insert(first, end);
    }
    (idle, idle_tree)
}
