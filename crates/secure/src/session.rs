//! The keys that two neighbours share for a while, and the packets under them.
use alloc::vec::Vec;
use bytes::BytesMut;
use ring::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    error::Unspecified,
};
use tributary_core::{Duration, Time};

use crate::{
    Protection, is_equal,
    noise::Keys,
    replay::ReplayWindow,
    wire::{self, DATA_HEADER, DATA_OVERHEAD, Kind, SessionIndex},
};

/// One session with a neighbour.
pub(crate) struct Session {
    /// What the neighbour writes into packets for us, and what we write into packets for it.
    pub(crate) ours: SessionIndex,
    pub(crate) theirs: SessionIndex,
    pub(crate) protection: Protection,
    /// Since when its keys are in use.
    pub(crate) since: Time,
    pub(crate) we_began: bool,
    /// Whether the neighbour with the lesser key started it: if both start at once, that session is used.
    pub(crate) leads: bool,
    sending: LessSafeKey,
    receiving: LessSafeKey,
    sent: u64,
    window: ReplayWindow,
    /// Scratch space for packets that are only authenticated: they are sealed and only the tag is sent. Sealing takes a
    /// third of the time that this cipher takes for as much associated data.
    scratch: Vec<u8>,
}

/// Why a packet is not authentic or not new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Forged,
    Replayed,
}

/// Information from a session about a packet that it has opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    /// Whether no later packet had arrived before it.
    pub(crate) is_latest: bool,
}

/// Packets after which the neighbours agree on new keys: half of what RFC 9001 (section 6.6) allows under one key.
const REKEY_PACKETS: u64 = 1 << 22;
/// How long a key protects packets, also where somebody keeps later handshakes away (WireGuard's reject-after-time).
const KEY_LIFETIME: Duration = Duration::from_secs(180);
/// The maximum number of packets protected by one key (RFC 9001, section 6.6).
const PACKETS_MAX: u64 = 1 << 23;

impl Session {
    pub(crate) fn new(
        keys: &Keys,
        (ours, theirs): (SessionIndex, SessionIndex),
        protection: Protection,
        since: Time,
        (we_began, leads): (bool, bool),
    ) -> Self {
        let key = |raw: &[u8; 32]| {
            let bytes = blake3::derive_key("tributary face 1 packets AES-128-GCM", raw);
            LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &bytes[..16]).expect("16 bytes are a key"))
        };
        let (sending, receiving) = (key(&keys.send), key(&keys.receive));
        Session {
            ours,
            theirs,
            protection,
            since,
            we_began,
            leads,
            sending,
            receiving,
            sent: 0,
            window: ReplayWindow::new(),
            scratch: Vec::new(),
        }
    }
    /// How the node's packets go.
    pub(crate) fn kind(&self) -> Kind {
        match self.protection {
            Protection::Encrypted => Kind::Data,
            Protection::Authenticated => Kind::Clear,
        }
    }
    /// Whether its keys protect packets still.
    pub(crate) fn can_send(&self) -> bool {
        self.sent < PACKETS_MAX
    }
    /// Whether its keys protect nothing any more, whatever has come of later handshakes.
    pub(crate) fn has_ended(&self, now: Time) -> bool {
        now.since(self.since) >= KEY_LIFETIME
    }
    /// Whether its keys have protected as many packets as they should.
    pub(crate) fn is_worn(&self) -> bool {
        self.sent >= REKEY_PACKETS
    }
    /// Appends a sealed packet to `out`: header, `head` and `body`, tag.
    pub(crate) fn seal(&mut self, kind: Kind, head: &[u8], body: &[u8], out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(&wire::data_header(kind, self.theirs, self.sent as u32));
        out.extend_from_slice(head);
        out.extend_from_slice(body);
        let nonce = nonce(self.sent);
        self.sent += 1;
        let (header, text) = out[start..].split_at_mut(DATA_HEADER);
        let text = if kind == Kind::Clear { copied(&mut self.scratch, text) } else { text };
        let sealed = self.sending.seal_in_place_separate_tag(nonce, Aad::from(&*header), text);
        out.extend_from_slice(sealed.expect("a packet is shorter than a key's limit").as_ref());
    }
    /// Appends the content of a sealed packet to `out`, if it opens.
    pub(crate) fn open(&mut self, kind: Kind, packet: &[u8], out: &mut BytesMut) -> Result<Opened, Refused> {
        let number = self.window.expand(wire::data_number(packet));
        if !self.window.is_new(number) {
            return Err(Refused::Replayed);
        }
        let start = out.len();
        let opened = match kind {
            Kind::Clear => {
                let (header, rest) = packet.split_at(DATA_HEADER);
                let (text, tag) = rest.split_at(packet.len() - DATA_OVERHEAD);
                out.extend_from_slice(text);
                let sealed = copied(&mut self.scratch, text);
                let right = self.receiving.seal_in_place_separate_tag(nonce(number), Aad::from(header), sealed);
                right.and_then(|right| if is_equal(right.as_ref(), tag) { Ok(()) } else { Err(Unspecified) })
            }
            _ => {
                let (header, sealed) = packet.split_at(DATA_HEADER);
                out.extend_from_slice(sealed);
                let opened = self.receiving.open_in_place(nonce(number), Aad::from(header), &mut out[start..]);
                let opened = opened.map(|_| ());
                out.truncate(start + packet.len() - DATA_OVERHEAD);
                opened
            }
        };
        if opened.is_err() {
            out.truncate(start);
            return Err(Refused::Forged);
        }
        let is_latest = number >= self.window.next();
        self.window.insert(number);
        Ok(Opened { is_latest })
    }
}

fn copied<'a>(scratch: &'a mut Vec<u8>, text: &[u8]) -> &'a mut [u8] {
    scratch.clear();
    scratch.extend_from_slice(text);
    scratch
}
fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Session, Session) {
        let keys = Keys { send: [1; 32], receive: [2; 32] };
        let mirrored = Keys { send: [2; 32], receive: [1; 32] };
        let (a, b) = (SessionIndex::new(5), SessionIndex::new(0xfffffe));
        let session = |keys, indices| Session::new(keys, indices, Protection::Encrypted, Time::ZERO, (true, true));
        (session(&keys, (a, b)), session(&mirrored, (b, a)))
    }

    proptest! {
        #[test]
        fn opens_what_was_sealed_once_and_nothing_that_was_changed(
            head in prop::collection::vec(any::<u8>(), 0..60), body in prop::collection::vec(any::<u8>(), 0..1500),
            is_clear: bool, at: prop::sample::Index, bit in 0u8..8,
        ) {
            let kind = if is_clear { Kind::Clear } else { Kind::Data };
            let (mut from, mut to) = pair();
            let mut packet = BytesMut::new();
            from.seal(kind, &head, &body, &mut packet);
            prop_assert_eq!(packet.len(), head.len() + body.len() + DATA_OVERHEAD);
            prop_assert_eq!(wire::data_session(&packet), to.ours);
            let mut out = BytesMut::from(&b"before"[..]);
            let mut changed = packet.clone();
            changed[at.index(packet.len())] ^= 1 << bit;
            prop_assert!(to.open(kind, &changed, &mut out).is_err());
            prop_assert_eq!(&out[..], b"before");
            prop_assert_eq!(to.open(kind, &packet, &mut out), Ok(Opened { is_latest: true }));
            prop_assert_eq!(&out[6..], [head, body].concat());
            prop_assert_eq!(to.open(kind, &packet, &mut out), Err(Refused::Replayed));
            let other = if is_clear { Kind::Data } else { Kind::Clear };
            let (_, mut to) = pair();
            prop_assert_eq!(to.open(other, &packet, &mut out), Err(Refused::Forged), "the kind is authenticated by its key's use");
        }
    }

    #[test]
    fn packets_that_overtake_each_other_are_opened_and_only_the_newest_is_latest() {
        let (mut from, mut to) = pair();
        let mut packets: Vec<_> = (0..20u8)
            .map(|number| {
                let mut packet = BytesMut::new();
                from.seal(Kind::Data, &[number], &[], &mut packet);
                packet
            })
            .collect();
        packets.swap(3, 17);
        let mut latest = Vec::new();
        for packet in &packets {
            let mut out = BytesMut::new();
            let opened = to.open(Kind::Data, packet, &mut out).expect("each is new");
            if opened.is_latest {
                latest.push(out[0]);
            }
        }
        assert_eq!(latest, [0, 1, 2, 17, 18, 19]);
    }
}
