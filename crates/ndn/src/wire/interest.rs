//! Interests: requests for Data by name. NDN packet format 0.3, "Interest Packet".
//!
//! ```text
//!  5 Interest
//!  ├─ 7 Name          at least one component
//!  ├─ 33 CanBePrefix, 18 MustBeFresh      empty
//!  ├─ 30 ForwardingHint {7 Name …}
//!  ├─ 10 Nonce 4 B    12 InterestLifetime ms    34 HopLimit 1 B
//!  ├─ 36 ApplicationParameters            from here on covered by the parameters digest
//!  ├─ 44 InterestSignatureInfo
//!  └─ 46 InterestSignatureValue           over the name without that digest, and 36 to 44
//! ```
use alloc::vec::Vec;

use tributary_core::Duration;

use super::{
    NameView, SignKey, SignatureInfo, VerifyKey, WireError,
    signature::digest,
    tlv::{Element, Reader, Sequence, Writer, element_len},
    types,
};
use crate::ids::Nonce;

/// The lifetime of an Interest that states none.
pub const LIFETIME_DEFAULT: Duration = Duration::from_millis(4000);

/// An Interest, as a view over its bytes or to be encoded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interest<'a> {
    /// The requested name.
    pub name: NameView<'a>,
    /// Whether Data with a longer name may answer.
    pub can_be_prefix: bool,
    /// Whether stale Data must not answer.
    pub must_be_fresh: bool,
    /// Name elements, back to back: where the producer can be reached; `None` without a hint.
    pub forwarding_hint: Option<&'a [u8]>,
    /// Distinguishes copies of one Interest from new ones. Interests of local applications may lack it.
    pub nonce: Option<Nonce>,
    /// Milliseconds until it is forgotten; see [`Interest::lifetime`].
    pub lifetime_millis: Option<u64>,
    /// Hops left; `None` for no limit.
    pub hop_limit: Option<u8>,
    /// What the application adds.
    pub parameters: Option<&'a [u8]>,
    /// How it is signed.
    pub signature: Option<SignatureInfo<'a>>,
    /// The signature; present exactly if `signature` is.
    pub signature_value: &'a [u8],
    /// The bytes that it was read from; the default for one to encode.
    pub source: InterestSource<'a>,
}

/// What an [`Interest`] was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InterestSource<'a> {
    signed: &'a [u8],
    digested: &'a [u8],
    nonce_at: Option<usize>,
    /// Where a missing nonce belongs in the value.
    nonce_gap: usize,
    /// Where the hop limit is in the packet.
    pub hop_limit_at: Option<usize>,
    is_canonical: bool,
}

const ORDER: &[u32] = &[
    types::NAME,
    types::CAN_BE_PREFIX,
    types::MUST_BE_FRESH,
    types::FORWARDING_HINT,
    types::NONCE,
    types::INTEREST_LIFETIME,
    types::HOP_LIMIT,
    types::APPLICATION_PARAMETERS,
    types::INTEREST_SIGNATURE_INFO,
    types::INTEREST_SIGNATURE_VALUE,
];

/// The elements before a nonce.
const BEFORE_NONCE: &[u32] = ORDER.split_at(4).0;

impl<'a> Interest<'a> {
    /// An Interest for exactly `name`, without options.
    pub fn new(name: NameView<'a>) -> Self {
        Interest { name, ..Interest::default() }
    }
    /// Reads an Interest that fills `bytes`. [`Interest::digest_is_right`] checks a parameters digest.
    ///
    /// # Errors
    /// [`WireError`] names the element and its error.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let value = super::tlv::only("Interest", bytes, types::INTEREST)?;
        let base = bytes.len() - value.len();
        let mut interest = Interest::new(NameView::ROOT);
        let mut has_name = false;
        let mut signature_value = None;
        let (mut parameters_start, mut info_end) = (None, 0);
        let mut sequence = Sequence::new("Interest", value, ORDER);
        while let Some(element) = sequence.element()? {
            let empty = |field| match element.value.len() {
                0 => Ok(true),
                bytes => Err(WireError::Length(field, bytes)),
            };
            if BEFORE_NONCE.contains(&element.kind) {
                interest.source.nonce_gap = element.end;
            }
            match element.kind {
                types::NAME if element.start > 0 => return Err(super::tlv::before_name()),
                types::NAME => {
                    interest.name = NameView::parse(element.value)?;
                    has_name = true;
                }
                types::CAN_BE_PREFIX => interest.can_be_prefix = empty("CanBePrefix")?,
                types::MUST_BE_FRESH => interest.must_be_fresh = empty("MustBeFresh")?,
                types::FORWARDING_HINT => {
                    check_hint(element.value)?;
                    interest.forwarding_hint = Some(element.value);
                }
                types::NONCE => {
                    let wrong = WireError::Length("Nonce", element.value.len());
                    interest.nonce = Some(Nonce(element.value.try_into().map_err(|_| wrong)?));
                    interest.source.nonce_at = Some(base + element.end - 4);
                }
                types::INTEREST_LIFETIME => {
                    interest.lifetime_millis = Some(sequence.integer("InterestLifetime", &element)?);
                }
                types::HOP_LIMIT => {
                    let [hops] = element.value else {
                        return Err(WireError::Length("HopLimit", element.value.len()));
                    };
                    interest.hop_limit = Some(*hops);
                    interest.source.hop_limit_at = Some(base + element.end - 1);
                }
                types::APPLICATION_PARAMETERS => {
                    interest.parameters = Some(element.value);
                    parameters_start = Some(element.start);
                    interest.source.digested = &value[element.start..];
                }
                types::INTEREST_SIGNATURE_INFO => {
                    interest.signature = Some(sequence.part(SignatureInfo::decode_of_interest(element.value)?));
                    info_end = element.end;
                }
                _ => signature_value = Some(element.value),
            }
        }
        if !has_name {
            return Err(WireError::Missing("Name"));
        }
        if interest.name.is_empty() {
            return Err(WireError::Length("Name of an Interest", 0));
        }
        interest.source.is_canonical = sequence.is_canonical();
        interest.signature_value = signature_value.unwrap_or(&[]);
        if let (Some(start), Some(_)) = (parameters_start, interest.signature) {
            interest.source.signed = &value[start..info_end];
        }
        interest.check(signature_value.is_some())?;
        Ok(interest)
    }
    fn check(&self, has_signature_value: bool) -> Result<(), WireError> {
        let contradiction = |what| Err(WireError::Contradiction(what));
        if self.signature.is_some() != has_signature_value {
            return contradiction("an Interest has one of signature info and signature value without the other");
        }
        if self.signature.is_some() && self.parameters.is_none() {
            return contradiction("an Interest is signed but has no parameters");
        }
        let digests = self.name.components().filter(|c| c.kind == types::PARAMETERS_DIGEST).count();
        match (digests, self.parameters.is_some()) {
            (0, false) | (1, true) => Ok(()),
            (0, true) => contradiction("an Interest has parameters but no parameters digest in its name"),
            (1, false) => contradiction("an Interest has a parameters digest in its name but no parameters"),
            _ => contradiction("an Interest has several parameters digests in its name"),
        }
    }
    /// Whether the parameters digest in the name, if any, matches the parameters and the elements behind them.
    pub fn digest_is_right(&self) -> bool {
        let claimed = self.name.components().find(|component| component.kind == types::PARAMETERS_DIGEST);
        claimed.is_none_or(|claimed| digest(&[self.source.digested]) == claimed.value)
    }
    /// Whether its signature is by `key`. Does not check the parameters digest.
    pub fn is_signed_by(&self, key: &VerifyKey) -> bool {
        let Some(info) = self.signature else { return false };
        key.verify(info.kind, &self.signed_parts(), self.signature_value)
    }
    /// The bytes that its signature covers, in parts: the name without the parameters digest, the parameters, and the
    /// signature's description.
    pub fn signed_parts(&self) -> Vec<&'a [u8]> {
        let mut parts = self.name_parts();
        parts.push(self.source.signed);
        parts
    }
    /// The name's bytes without the parameters digest, in parts.
    fn name_parts(&self) -> Vec<&'a [u8]> {
        let tlv = self.name.as_tlv();
        let mut start = 0;
        let mut parts = Vec::with_capacity(3);
        for component in self.name.components() {
            if component.kind == types::PARAMETERS_DIGEST {
                parts.push(&tlv[start..component.end - element_len(2, 32)]);
                start = component.end;
            }
        }
        parts.push(&tlv[start..]);
        parts
    }

    /// How long it is pending.
    pub fn lifetime(&self) -> Duration {
        self.lifetime_millis.map_or(LIFETIME_DEFAULT, Duration::from_millis)
    }
    /// The names of the forwarding hint, in order.
    pub fn hints(&self) -> impl Iterator<Item = NameView<'a>> + use<'a> {
        let mut reader = Reader::new("ForwardingHint", self.forwarding_hint.unwrap_or(&[]));
        core::iter::from_fn(move || {
            loop {
                let element = reader.element().ok().flatten()?;
                if let Some(hint) = hint_of(&element) {
                    return hint.ok();
                }
            }
        })
    }
    /// The original `packet`, which has no nonce, with one added. Everything else stays, including unknown elements: a
    /// parameters digest stays right.
    pub fn with_nonce(&self, packet: &[u8], nonce: Nonce) -> Vec<u8> {
        let value = super::tlv::only("Interest", packet, types::INTEREST).unwrap_or(&[]);
        let (before, behind) = value.split_at(self.source.nonce_gap.min(value.len()));
        let mut out = Vec::with_capacity(packet.len() + 8);
        out.put_nested(types::INTEREST, |out| {
            out.extend_from_slice(before);
            out.put_element(types::NONCE, &nonce.0);
            out.extend_from_slice(behind);
        });
        out
    }
    /// Where the nonce is in the packet.
    pub fn nonce_at(&self) -> Option<usize> {
        self.source.nonce_at
    }
    /// Whether [`Interest::encode`] yields the original bytes.
    pub fn is_canonical(&self) -> bool {
        self.source.is_canonical
    }

    /// The packet. The parameters digest, if the Interest has parameters, must be in the name already;
    /// see [`with_parameters`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.name.as_tlv().len() + 64);
        out.put_nested(types::INTEREST, |out| {
            out.put_element(types::NAME, self.name.as_tlv());
            if self.can_be_prefix {
                out.put_element(types::CAN_BE_PREFIX, &[]);
            }
            if self.must_be_fresh {
                out.put_element(types::MUST_BE_FRESH, &[]);
            }
            if let Some(hint) = self.forwarding_hint {
                out.put_element(types::FORWARDING_HINT, hint);
            }
            if let Some(nonce) = self.nonce {
                out.put_element(types::NONCE, &nonce.0);
            }
            if let Some(lifetime) = self.lifetime_millis {
                out.put_integer(types::INTEREST_LIFETIME, lifetime);
            }
            if let Some(hops) = self.hop_limit {
                out.put_element(types::HOP_LIMIT, &[hops]);
            }
            self.encode_tail(out);
        });
        out
    }
    fn encode_tail(&self, out: &mut Vec<u8>) {
        if let Some(parameters) = self.parameters {
            out.put_element(types::APPLICATION_PARAMETERS, parameters);
        }
        if let Some(info) = &self.signature {
            info.encode(types::INTEREST_SIGNATURE_INFO, out);
            out.put_element(types::INTEREST_SIGNATURE_VALUE, self.signature_value);
        }
    }
}

/// Encodes an Interest with parameters: signs it if there is a key (with `interest.signature`, whose algorithm becomes
/// the key's), and appends the parameters digest to its name. A missing `parameters` becomes an empty one.
pub fn with_parameters(interest: &Interest<'_>, key: Option<&SignKey>) -> Vec<u8> {
    let mut interest = interest.clone();
    interest.parameters.get_or_insert(&[]);
    let mut value = Vec::new();
    if let Some(key) = key {
        let mut info = interest.signature.unwrap_or(SignatureInfo::new(key.kind()));
        info.kind = key.kind();
        interest.signature = Some(info);
        let mut signed = Vec::new();
        signed.put_element(types::APPLICATION_PARAMETERS, interest.parameters.unwrap_or(&[]));
        info.encode(types::INTEREST_SIGNATURE_INFO, &mut signed);
        value = key.sign(&[interest.name.as_tlv(), &signed]);
    }
    let mut signed = interest.clone();
    signed.signature_value = &value;
    let mut tail = Vec::new();
    signed.encode_tail(&mut tail);
    let mut name = interest.name.as_tlv().to_vec();
    name.put_element(u32::from(types::PARAMETERS_DIGEST), &digest(&[&tail]));
    let name = NameView::parse(&name).expect("components and a digest of 32 bytes");
    // `name` lives shorter than the Interest's borrowed fields, so the packet is built from a copy.
    Interest { name, ..signed }.encode()
}

/// The name in an element of a forwarding hint: a name, or one in a delegation with a preference, as sent by programs
/// from before 2022; `None` if it is neither. The order counts, as in the newer form.
fn hint_of<'a>(element: &Element<'a>) -> Option<Result<NameView<'a>, WireError>> {
    match element.kind {
        types::NAME => Some(NameView::parse(element.value)),
        DELEGATION => {
            let mut reader = Reader::new("Delegation", element.value);
            Some(loop {
                match reader.element() {
                    Ok(Some(inner)) if inner.kind == types::NAME => break NameView::parse(inner.value),
                    Ok(Some(_)) => {}
                    Ok(None) => break Err(WireError::Missing("Name of a Delegation")),
                    Err(error) => break Err(error),
                }
            })
        }
        _ => None,
    }
}
/// A Preference and a Name. NDN packet format 0.2, "Link object".
const DELEGATION: u32 = 31;

/// Checks a forwarding hint. It is re-emitted unchanged, so nothing is recorded.
fn check_hint(value: &[u8]) -> Result<(), WireError> {
    let mut reader = Reader::new("ForwardingHint", value);
    while let Some(element) = reader.element()? {
        if let Some(hint) = hint_of(&element) {
            hint?;
        } else if super::tlv::is_critical(element.kind) {
            return Err(WireError::Critical("ForwardingHint", element.kind));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SignatureType;
    use tributary_content::Name;

    #[test]
    fn a_signed_interest_verifies_and_any_change_is_noticed() {
        let name: Name = "/localhost/nfd/rib/register".parse().unwrap();
        let key = SignKey::ecdsa(&[3; 32]).unwrap();
        let interest = Interest {
            parameters: Some(b"parameters"),
            signature: Some(SignatureInfo {
                nonce: Some(&[1; 8]),
                time: Some(5),
                ..SignatureInfo::new(SignatureType::Null)
            }),
            nonce: Some(Nonce([1, 2, 3, 4])),
            ..Interest::new(NameView::from(&name))
        };
        let bytes = with_parameters(&interest, Some(&key));
        let read = Interest::decode(&bytes).unwrap();
        assert!(read.digest_is_right() && read.is_signed_by(&key.verify_key()) && read.is_canonical());
        assert!(!read.is_signed_by(&SignKey::ecdsa(&[4; 32]).unwrap().verify_key()));
        assert_eq!(read.encode(), bytes);
        assert_eq!(read.name.parent().to_name(), Ok(name));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let Ok(read) = Interest::decode(&changed) else { continue };
            // Nonce, lifetime and hop limit are the forwarders'; the rest of the name and the parameters are covered.
            let covered = read.nonce_at().is_none_or(|nonce| !(nonce..nonce + 4).contains(&at));
            assert!(!covered || !read.digest_is_right() || !read.is_signed_by(&key.verify_key()), "byte {at}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let digest = [2u8, 32].iter().copied().chain([9; 32]).collect::<Vec<_>>();
        let name = |components: &[&[u8]]| {
            let mut bytes = Vec::new();
            bytes.put_element(types::NAME, &components.concat());
            bytes
        };
        let interest = |parts: &[&[u8]]| {
            let mut bytes = Vec::new();
            bytes.put_element(types::INTEREST, &parts.concat());
            Interest::decode(&bytes).map(|_| ()).map_err(|error| error.reason())
        };
        let plain = name(&[&[8, 1, 65]]);
        let with = name(&[&[8, 1, 65], &digest]);
        let contradiction = Err("malformed: elements contradict each other");
        assert_eq!(interest(&[&plain]), Ok(()));
        assert_eq!(interest(&[&with, &[36, 0]]), Ok(()));
        assert_eq!(interest(&[&with]), contradiction);
        assert_eq!(interest(&[&plain, &[36, 0]]), contradiction);
        assert_eq!(interest(&[&name(&[&digest, &digest]), &[36, 0]]), contradiction);
        assert_eq!(interest(&[&with, &[36, 0], &[44, 3, 27, 1, 0]]), contradiction);
        assert_eq!(interest(&[&with, &[36, 0], &[46, 0]]), contradiction);
        assert_eq!(interest(&[&plain, &[44, 3, 27, 1, 0], &[46, 0]]), contradiction);
        assert_eq!(interest(&[&name(&[])]), Err("malformed: illegal length"));
        assert_eq!(interest(&[]), Err("malformed: element missing"));
        assert_eq!(interest(&[&plain, &[33, 1, 0]]), Err("malformed: illegal length"));
    }
}
