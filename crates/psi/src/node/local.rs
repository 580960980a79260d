//! Packets for this node, and those that it originates.
use super::*;

impl PsiNode {
    pub(super) fn on_local(&mut self, now: Time, face: FaceId, datagram: Datagram) {
        let header = match View::parse(datagram.header_bytes()) {
            Ok(header) => header,
            Err(error) => return self.events.on_dropped(face, error.reason(), datagram.len()),
        };
        let bytes = datagram.len();
        match header.packet_type {
            PacketType::Data => match DataHeader::decode(datagram.bytes_after(header.header_len)) {
                Ok(data) => {
                    let payload = datagram.bytes_after(header.header_len + DataHeader::BYTES);
                    let mark = if datagram.is_marked() { FLAG_MARKED } else { 0 };
                    self.receiver.handle_data(now, header.flags | mark, core::iter::once((data, payload)));
                }
                Err(error) => self.events.on_dropped(face, error.reason(), bytes),
            },
            PacketType::Request => match Request::decode(&datagram.strip(header.header_len).into_bytes()) {
                Ok(request) => {
                    let mut sink = RouterSink { router: &mut self.router, local: Vec::new() };
                    self.sender.handle_request(&request, &mut sink);
                    let local = sink.local;
                    self.on_answered(now, local);
                }
                Err(error) => self.events.on_dropped(face, error.reason(), bytes),
            },
            PacketType::Control => {
                if let Err(reason) =
                    self.control.handle_packet(now, face, &datagram.strip(header.header_len).into_bytes())
                {
                    self.events.on_dropped(face, reason, bytes);
                }
            }
            PacketType::Hello | PacketType::Beacon => self.events.on_dropped(face, "one-hop packet with an fid", bytes),
        }
    }
    /// Handles answers of this node's own source to its own receiver, and the source's read errors.
    pub(super) fn on_answered(&mut self, now: Time, local: Vec<Datagram>) {
        for answer in local {
            self.on_local(now, FaceId::default(), answer);
        }
        while let Some((name, error)) = self.sender.objects.poll_failure() {
            self.events.on_unreadable(&name, &error);
        }
    }
    /// Takes Data packets for this node that arrived together and have one common header.
    pub(super) fn on_local_batch(
        &mut self,
        now: Time,
        face: FaceId,
        batch: &DatagramBatch,
        first: usize,
        verdict: &BatchVerdict,
    ) {
        let mut cut = 0;
        let packets = (first..first + verdict.packets).filter_map(|index| {
            let rest = &batch.bytes(index)[verdict.header_len..];
            match DataHeader::decode(rest) {
                Ok(data) => Some((data, &rest[DataHeader::BYTES..])),
                Err(_) => {
                    cut += 1;
                    None
                }
            }
        });
        self.receiver.handle_data(now, verdict.flags, packets);
        let short = WireError::Short { field: "data header", needs: DataHeader::BYTES, has: 0 };
        (0..cut).for_each(|_| self.events.on_dropped(face, short.reason(), batch.bytes(first).len()));
        if self.receiver.news {
            self.settle(now);
        }
    }
    pub(super) fn send_packet(&mut self, now: Time, packet_type: PacketType, flags: u8, fid: Fid, body: Vec<u8>) {
        let header = Header { packet_type, flags, ttl: TTL_MAX, fid };
        let verdict = self.router.originate(now, &header, &[], Bytes::from(body));
        if let Some(local) = verdict.local {
            self.on_local(now, FaceId::default(), local);
        }
    }
}

/// Sends the answers of the source by the router.
pub(super) struct RouterSink<'a> {
    pub(super) router: &'a mut Router,
    /// Answers to requests of this node itself.
    pub(super) local: Vec<Datagram>,
}

impl AnswerSink for RouterSink<'_> {
    fn answer(&mut self, header: &Header, packets: &mut Vec<(DataHeader, Bytes)>) {
        self.router.originate_data(header, packets.drain(..), &mut self.local);
    }
}
