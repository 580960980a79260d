//! A content store that answers with flipped bytes.
use std::collections::BTreeSet;
use tributary_core::{Datagram, Random};
use tributary_ndn::{Data, LpPacket, Origin, SignKey, SignatureType};

use super::Corruption;

/// Names of Data that are remembered until all is sent; beyond them nothing is altered.
const PASSING_MAX: usize = 4_096;

/// A content store that answers with flipped bytes. Digests are recomputed, so only the object's own hashes reveal the
/// change.
pub(super) struct FaultyCache {
    share: f64,
    random: Random,
    /// Names of Data that arrived and may not have been forwarded yet: they come from elsewhere.
    passing: BTreeSet<Vec<u8>>,
}

impl FaultyCache {
    /// Alters `share` (0 to 1) of the cache's answers.
    pub(super) fn new(share: f64, random: Random) -> FaultyCache {
        FaultyCache { share, random, passing: BTreeSet::new() }
    }
}
impl Corruption for FaultyCache {
    fn on_arrival(&mut self, datagram: &Datagram) {
        let bytes = datagram.to_vec();
        let packet = LpPacket::decode(&bytes).ok().and_then(|headers| headers.fragment);
        if let Some(data) = packet.and_then(|packet| Data::decode(packet).ok())
            && self.passing.len() < PASSING_MAX
        {
            self.passing.insert(data.name.as_tlv().to_vec());
        }
    }
    fn corrupt(&mut self, datagram: Datagram) -> Datagram {
        let bytes = datagram.to_vec();
        let Ok(headers) = LpPacket::decode(&bytes) else { return datagram };
        let packet = headers.fragment.filter(|_| headers.origin == Some(Origin::Cache));
        let Some(data) = packet.and_then(|packet| Data::decode(packet).ok()) else { return datagram };
        let is_own = self.passing.len() < PASSING_MAX && !self.passing.contains(data.name.as_tlv());
        let mut content = data.content.unwrap_or_default().to_vec();
        let Some(first) = content.first_mut().filter(|_| is_own && self.random.chance(self.share)) else {
            return datagram;
        };
        *first ^= 0x55;
        let altered = Data { content: Some(&content), ..data };
        let altered = match data.signature.kind {
            SignatureType::DigestSha256 => altered.sign(&SignKey::Digest),
            _ => altered.encode(),
        };
        LpPacket { fragment: Some(&altered), ..headers }.encode().into()
    }
    fn on_drained(&mut self) {
        self.passing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_ndn::VerifyKey;

    #[test]
    fn only_what_its_own_cache_answers_is_altered() {
        let name: tributary_content::Name = "/lab/file".parse().expect("a name");
        let data = Data::new((&name).into(), b"payload").sign(&SignKey::Digest);
        let packet = |origin| LpPacket { origin, ..LpPacket::around(&data) }.encode();
        let faulty = || FaultyCache::new(1.0, Random::new(1, 1));
        for origin in [None, Some(Origin::Aggregation)] {
            assert_eq!(faulty().corrupt(packet(origin).into()).to_vec(), packet(origin));
        }
        let mut cache = faulty();
        let cached = packet(Some(Origin::Cache));
        cache.on_arrival(&cached.clone().into());
        assert_eq!(cache.corrupt(cached.clone().into()).to_vec(), cached, "it comes from another cache");
        cache.on_drained();
        let lie = cache.corrupt(cached.into()).to_vec();
        let lie = LpPacket::decode(&lie).expect("a packet").fragment.expect("a Data");
        let lie = Data::decode(lie).expect("a Data");
        assert_ne!(lie.content, Some(&b"payload"[..]));
        assert!(lie.is_signed_by(&VerifyKey::Digest), "nothing but the object's hashes tells");
    }
}
