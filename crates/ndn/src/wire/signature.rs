//! Signatures: their description in packets, signing, and verification.
//!
//! | number | algorithm | value |
//! |---|---|---|
//! | 0 | SHA-256 digest, for integrity only | 32 bytes |
//! | 1 | RSA (PKCS #1 v1.5) with SHA-256; verified, not made | as long as the modulus |
//! | 3 | ECDSA over P-256 and SHA-256 | DER |
//! | 4 | HMAC with SHA-256 | 32 bytes |
//! | 5 | Ed25519 | 64 bytes |
//! | 200 | null: none | empty |
//!
//! NDN packet format 0.3, "Signature" and "Signed Interest".
use alloc::{boxed::Box, vec::Vec};

use ed25519_dalek::{Signer as _, Verifier as _};
use hmac::{KeyInit, Mac};
use p256::ecdsa;
use sha2::{Digest, Sha256};

use super::{
    NameView, WireError,
    tlv::{Reader, Sequence, Writer, is_critical, numbered},
    types,
};

type Hmac = hmac::Hmac<Sha256>;

numbered! {
    /// The algorithm of a signature.
    pub enum SignatureType {
        /// A digest, which needs no key.
        0 => DigestSha256,
        /// RSA with SHA-256 and PKCS #1 v1.5 padding; this program verifies it and does not sign with it.
        1 => Rsa,
        /// ECDSA over P-256 with SHA-256.
        3 => Ecdsa,
        /// HMAC with SHA-256.
        4 => Hmac,
        /// Ed25519.
        5 => Ed25519,
        /// No signature.
        200 => Null,
    }
}

impl SignatureType {
    /// Whether a private key makes such signatures, so that certificates can name its owner.
    pub fn is_by_key(self) -> bool {
        matches!(self, SignatureType::Ed25519 | SignatureType::Ecdsa | SignatureType::Rsa)
    }
}

/// Which key verifies a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyLocator<'a> {
    /// The key or certificate of this name.
    Name(NameView<'a>),
    /// The key with this digest.
    Digest(&'a [u8]),
}

/// How a packet is signed, Data (SignatureInfo) as well as Interest (InterestSignatureInfo).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignatureInfo<'a> {
    /// The algorithm.
    pub kind: SignatureType,
    /// Which key verifies it.
    pub key_locator: Option<KeyLocator<'a>>,
    /// Signed Interests: random bytes against replay.
    pub nonce: Option<&'a [u8]>,
    /// Signed Interests: milliseconds since 1970.
    pub time: Option<u64>,
    /// Signed Interests: a counter.
    pub sequence: Option<u64>,
    /// Certificates: when they count.
    pub validity: Option<ValidityPeriod<'a>>,
}

/// When a certificate counts: two times of the form `YYYYMMDDThhmmss`, UTC. NDN packet format 0.3, "Certificate".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValidityPeriod<'a> {
    /// The first second.
    pub not_before: &'a [u8; 15],
    /// The last second.
    pub not_after: &'a [u8; 15],
}

impl<'a> SignatureInfo<'a> {
    /// A signature by this algorithm, without further information.
    pub fn new(kind: SignatureType) -> Self {
        SignatureInfo { kind, key_locator: None, nonce: None, time: None, sequence: None, validity: None }
    }
    /// Reads the value of the element in a Data, and whether it is canonical.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn decode(value: &'a [u8]) -> Result<(Self, bool), WireError> {
        Self::decode_ordered(value, Self::ORDER)
    }
    /// The same in an Interest, which is no certificate.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn decode_of_interest(value: &'a [u8]) -> Result<(Self, bool), WireError> {
        Self::decode_ordered(value, &Self::ORDER[..Self::ORDER.len() - 1])
    }
    const ORDER: &'static [u32] = &[
        types::SIGNATURE_TYPE,
        types::KEY_LOCATOR,
        types::SIGNATURE_NONCE,
        types::SIGNATURE_TIME,
        types::SIGNATURE_SEQUENCE,
        types::VALIDITY_PERIOD,
    ];
    fn decode_ordered(value: &'a [u8], order: &'static [u32]) -> Result<(Self, bool), WireError> {
        let mut info = SignatureInfo::new(SignatureType::Null);
        let mut kind = None;
        let mut sequence = Sequence::new("SignatureInfo", value, order);
        while let Some(element) = sequence.element()? {
            match element.kind {
                types::SIGNATURE_TYPE => kind = Some(sequence.integer("SignatureType", &element)?),
                types::KEY_LOCATOR => info.key_locator = sequence.part(decode_locator(element.value)?),
                types::SIGNATURE_NONCE => match element.value {
                    [] => return Err(WireError::Length("SignatureNonce", 0)),
                    nonce => info.nonce = Some(nonce),
                },
                types::SIGNATURE_TIME => info.time = Some(sequence.integer("SignatureTime", &element)?),
                types::SIGNATURE_SEQUENCE => info.sequence = Some(sequence.integer("SignatureSeqNum", &element)?),
                _ => info.validity = Some(sequence.part(ValidityPeriod::decode(element.value)?)),
            }
        }
        info.kind = kind.ok_or(WireError::Missing("SignatureType"))?.into();
        Ok((info, sequence.is_canonical()))
    }
    /// Appends the element with type `kind`.
    pub fn encode(&self, kind: u32, out: &mut Vec<u8>) {
        out.put_nested(kind, |out| {
            out.put_integer(types::SIGNATURE_TYPE, self.kind.number());
            match self.key_locator {
                Some(KeyLocator::Name(name)) => {
                    out.put_nested(types::KEY_LOCATOR, |out| out.put_element(types::NAME, name.as_tlv()));
                }
                Some(KeyLocator::Digest(digest)) => {
                    out.put_nested(types::KEY_LOCATOR, |out| out.put_element(types::KEY_DIGEST, digest));
                }
                None => {}
            }
            if let Some(nonce) = self.nonce {
                out.put_element(types::SIGNATURE_NONCE, nonce);
            }
            if let Some(time) = self.time {
                out.put_integer(types::SIGNATURE_TIME, time);
            }
            if let Some(sequence) = self.sequence {
                out.put_integer(types::SIGNATURE_SEQUENCE, sequence);
            }
            if let Some(validity) = &self.validity {
                out.put_nested(types::VALIDITY_PERIOD, |out| {
                    out.put_element(types::NOT_BEFORE, validity.not_before);
                    out.put_element(types::NOT_AFTER, validity.not_after);
                });
            }
        });
    }
}

impl<'a> ValidityPeriod<'a> {
    fn decode(value: &'a [u8]) -> Result<(Self, bool), WireError> {
        let mut sequence = Sequence::new("ValidityPeriod", value, &[types::NOT_BEFORE, types::NOT_AFTER]);
        let (mut not_before, mut not_after) = (None, None);
        while let Some(element) = sequence.element()? {
            let wrong = WireError::Length("time of a ValidityPeriod", element.value.len());
            let time: &[u8; 15] = element.value.try_into().map_err(|_| wrong)?;
            let is_digit = |at: usize| at == 8 || time[at].is_ascii_digit();
            if time[8] != b'T' || !(0..15).all(is_digit) {
                return Err(WireError::Value("time of a ValidityPeriod", u64::from(time[0])));
            }
            *(if element.kind == types::NOT_BEFORE { &mut not_before } else { &mut not_after }) = Some(time);
        }
        let not_before = not_before.ok_or(WireError::Missing("NotBefore"))?;
        let not_after = not_after.ok_or(WireError::Missing("NotAfter"))?;
        Ok((ValidityPeriod { not_before, not_after }, sequence.is_canonical()))
    }
    /// Whether it counts at a time, in seconds since 1970.
    pub fn contains(&self, unix_seconds: u64) -> bool {
        let now = compact_time(unix_seconds);
        *self.not_before <= now && now <= *self.not_after
    }
}

/// A time in seconds since 1970 as `YYYYMMDDThhmmss`, UTC; such texts sort like their times up to the year 9999, which
/// represents all later ones.
pub fn compact_time(unix_seconds: u64) -> [u8; 15] {
    let (days, seconds) = ((unix_seconds / 86_400).min(2_932_896), unix_seconds % 86_400);
    // Civil date from days: eras of 400 years that start on 1 March, so that the leap day comes last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400 + month / 10, if month < 10 { month + 3 } else { month - 9 });
    let mut text = *b"00000000T000000";
    for (end, mut number) in
        [(4, year), (6, month), (8, day), (11, seconds / 3600), (13, seconds / 60 % 60), (15, seconds % 60)]
    {
        let digits = if end == 4 { 4 } else { 2 };
        for at in (end - digits..end).rev() {
            text[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    text
}

/// A key locator has a name or a digest. One without either is as good as none.
fn decode_locator(value: &[u8]) -> Result<(Option<KeyLocator<'_>>, bool), WireError> {
    const FIELD: &str = "KeyLocator";
    let mut reader = Reader::new(FIELD, value);
    let (mut locator, mut is_canonical) = (None, true);
    while let Some(element) = reader.element()? {
        match element.kind {
            types::NAME if locator.is_none() => locator = Some(KeyLocator::Name(NameView::parse(element.value)?)),
            types::KEY_DIGEST if locator.is_none() => locator = Some(KeyLocator::Digest(element.value)),
            kind if is_critical(kind) => return Err(WireError::Critical(FIELD, kind)),
            _ => is_canonical = false,
        }
    }
    Ok((locator, is_canonical && locator.is_some()))
}

/// A key that makes signatures.
#[derive(Clone)]
#[non_exhaustive]
pub enum SignKey {
    /// Makes digests, which need no key.
    Digest,
    /// A secret shared with the verifiers.
    Hmac(Vec<u8>),
    /// An Ed25519 secret key.
    Ed25519(Box<ed25519_dalek::SigningKey>),
    /// A P-256 secret key.
    Ecdsa(Box<ecdsa::SigningKey>),
    /// Signs nothing.
    Null,
}

impl SignKey {
    /// An Ed25519 key from its 32 secret bytes.
    pub fn ed25519(secret: &[u8; 32]) -> SignKey {
        SignKey::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(secret)))
    }
    /// A P-256 key from its 32 secret bytes; `None` if they are no such key (zero, or beyond the group's order).
    pub fn ecdsa(secret: &[u8; 32]) -> Option<SignKey> {
        Some(SignKey::Ecdsa(Box::new(ecdsa::SigningKey::from_slice(secret).ok()?)))
    }
    /// The algorithm.
    pub fn kind(&self) -> SignatureType {
        match self {
            SignKey::Digest => SignatureType::DigestSha256,
            SignKey::Hmac(_) => SignatureType::Hmac,
            SignKey::Ed25519(_) => SignatureType::Ed25519,
            SignKey::Ecdsa(_) => SignatureType::Ecdsa,
            SignKey::Null => SignatureType::Null,
        }
    }
    /// The key that verifies what this one signs.
    pub fn verify_key(&self) -> VerifyKey {
        match self {
            SignKey::Digest => VerifyKey::Digest,
            SignKey::Hmac(secret) => VerifyKey::Hmac(secret.clone()),
            SignKey::Ed25519(key) => VerifyKey::Ed25519(Box::new(key.verifying_key())),
            SignKey::Ecdsa(key) => VerifyKey::Ecdsa(Box::new(*key.verifying_key())),
            SignKey::Null => VerifyKey::Null,
        }
    }
    /// The value of a signature over `parts`, back to back.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn sign(&self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            SignKey::Digest => digest(parts).to_vec(),
            SignKey::Hmac(secret) => {
                let mut mac = Hmac::new_from_slice(secret).expect("HMAC takes keys of any length");
                parts.iter().for_each(|part| mac.update(part));
                mac.finalize().into_bytes().to_vec()
            }
            SignKey::Ed25519(key) => key.sign(&parts.concat()).to_bytes().to_vec(),
            SignKey::Ecdsa(key) => {
                let signature: ecdsa::DerSignature = key.sign(&parts.concat());
                signature.as_bytes().to_vec()
            }
            SignKey::Null => Vec::new(),
        }
    }
}

/// The Ed25519 SubjectPublicKeyInfo up to the key. RFC 8410.
pub const ED25519_INFO: &[u8] = &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A key that verifies signatures.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum VerifyKey {
    /// Compares digests, which anybody can make: shows that nothing was damaged.
    Digest,
    /// A secret shared with the signer.
    Hmac(Vec<u8>),
    /// An Ed25519 public key.
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
    /// A P-256 public key.
    Ecdsa(Box<ecdsa::VerifyingKey>),
    /// An RSA public key of 2,048 to 8,192 bits, as an RSAPublicKey in DER. RFC 8017 A.1.1.
    Rsa(Vec<u8>),
    /// Accepts the empty signature, which shows nothing.
    Null,
    /// Accepts any signature of this algorithm: the key is not available, so the signature proves nothing.
    Missing(SignatureType),
}

impl VerifyKey {
    /// The algorithm.
    pub fn kind(&self) -> SignatureType {
        match self {
            VerifyKey::Digest => SignatureType::DigestSha256,
            VerifyKey::Hmac(_) => SignatureType::Hmac,
            VerifyKey::Ed25519(_) => SignatureType::Ed25519,
            VerifyKey::Ecdsa(_) => SignatureType::Ecdsa,
            VerifyKey::Rsa(_) => SignatureType::Rsa,
            VerifyKey::Null => SignatureType::Null,
            VerifyKey::Missing(kind) => *kind,
        }
    }
    /// An Ed25519 key from its 32 bytes; `None` if they are no such key.
    pub fn ed25519(public: &[u8; 32]) -> Option<VerifyKey> {
        Some(VerifyKey::Ed25519(Box::new(ed25519_dalek::VerifyingKey::from_bytes(public).ok()?)))
    }
    /// Whether `value` is a signature of algorithm `kind` over `parts`, back to back, by this key.
    pub fn verify(&self, kind: SignatureType, parts: &[&[u8]], value: &[u8]) -> bool {
        if kind != self.kind() {
            return false;
        }
        match self {
            VerifyKey::Digest => digest(parts) == value,
            VerifyKey::Hmac(secret) => {
                let mut mac = Hmac::new_from_slice(secret).expect("HMAC takes keys of any length");
                parts.iter().for_each(|part| mac.update(part));
                mac.verify_slice(value).is_ok()
            }
            VerifyKey::Ed25519(key) => ed25519_dalek::Signature::from_slice(value)
                .is_ok_and(|signature| key.verify_strict(&parts.concat(), &signature).is_ok()),
            VerifyKey::Ecdsa(key) => ecdsa::DerSignature::from_bytes(value)
                .is_ok_and(|signature| key.verify(&parts.concat(), &signature).is_ok()),
            VerifyKey::Rsa(key) => {
                let key = ring::signature::UnparsedPublicKey::new(&ring::signature::RSA_PKCS1_2048_8192_SHA256, key);
                key.verify(&parts.concat(), value).is_ok()
            }
            VerifyKey::Null => value.is_empty(),
            VerifyKey::Missing(_) => true,
        }
    }
}

/// SHA-256 over parts, back to back.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_verifies_its_own_and_nothing_else() {
        let keys = [
            SignKey::Digest,
            SignKey::Hmac(b"a secret".to_vec()),
            SignKey::ed25519(&[7; 32]),
            SignKey::ecdsa(&[9; 32]).unwrap(),
            SignKey::Null,
        ];
        for key in &keys {
            let value = key.sign(&[b"a ", b"message"]);
            let verify = key.verify_key();
            assert!(verify.verify(key.kind(), &[b"a message"], &value), "{verify:?}");
            assert!(!verify.verify(SignatureType::Rsa, &[b"a message"], &value));
            if key.kind() != SignatureType::Null {
                assert!(!verify.verify(key.kind(), &[b"another message"], &value));
                assert!(!verify.verify(key.kind(), &[b"a message"], &value[1..]));
                let mut changed = value.clone();
                *changed.last_mut().unwrap() ^= 1;
                assert!(!verify.verify(key.kind(), &[b"a message"], &changed));
            }
            for other in keys.iter().filter(|other| other.kind() != key.kind()) {
                assert!(!other.verify_key().verify(key.kind(), &[b"a message"], &value));
            }
        }
    }

    /// RFC 4231 test case 2, RFC 8032 §7.1 test 2, and RFC 6979 A.2.5 "sample" (which P-256 in deterministic form must give).
    #[test]
    fn published_vectors_come_out() {
        let hex = crate::wire::hex;
        let hmac = SignKey::Hmac(b"Jefe".to_vec()).sign(&[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&hmac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let bytes = |text: &str| -> [u8; 32] {
            core::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        };
        let ed = SignKey::ed25519(&bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"));
        assert_eq!(
            hex(&ed.sign(&[&[0x72]])),
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        );
        let p256 = SignKey::ecdsa(&bytes("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")).unwrap();
        let der = hex(&p256.sign(&[b"sample"]));
        assert!(der.contains("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"), "{der}");
        assert!(der.contains("f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"), "{der}");
    }

    #[test]
    fn infos_come_back_and_say_when_they_would_not() {
        let name: tributary_content::Name = "/k/KEY/1".parse().unwrap();
        let info = SignatureInfo {
            key_locator: Some(KeyLocator::Name(NameView::from(&name))),
            nonce: Some(&[1, 2, 3, 4]),
            time: Some(1_700_000_000_000),
            sequence: Some(300),
            ..SignatureInfo::new(SignatureType::Ed25519)
        };
        let mut bytes = Vec::new();
        info.encode(types::SIGNATURE_INFO, &mut bytes);
        let value = super::super::tlv::only("x", &bytes, types::SIGNATURE_INFO).unwrap();
        assert_eq!(SignatureInfo::decode(value), Ok((info, true)));
        let critical = |field, kind| Err(WireError::Critical(field, kind));
        let with = |more: &[u8]| [value, more].concat();
        // An extension of a certificate: one that may be ignored (AdditionalDescription), and one that may not.
        assert_eq!(SignatureInfo::decode(&with(&[253, 1, 2, 0])), Ok((info, false)));
        assert_eq!(SignatureInfo::decode(&with(&[253, 1, 3, 0])), critical("SignatureInfo", 259));
        let locator = |inner: &[u8]| [&[27, 1, 5, 28, inner.len() as u8], inner].concat();
        assert!(SignatureInfo::decode(&locator(&[29, 1, 7])).is_ok_and(|(_, canonical)| canonical));
        assert!(SignatureInfo::decode(&locator(&[32, 0, 29, 1, 7])).is_ok_and(|(_, canonical)| !canonical));
        for inner in [&[30, 0, 29, 1, 7][..], &[29, 1, 7, 29, 1, 7], &[29, 1, 7, 7, 0], &[7, 0, 29, 0], &[33, 0]] {
            assert!(matches!(SignatureInfo::decode(&locator(inner)), Err(WireError::Critical("KeyLocator", _))));
        }
        assert_eq!(SignatureInfo::decode(&[28, 0]), Err(WireError::Missing("SignatureType")));
        assert!(SignatureInfo::decode(&[27, 3, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_certificate_counts_from_its_first_to_its_last_second() {
        for (seconds, text) in [
            (0, "19700101T000000"),
            (951_782_399, "20000228T235959"),
            (951_782_400, "20000229T000000"),
            (1_709_251_199, "20240229T235959"),
            (1_735_689_599, "20241231T235959"),
            (4_107_542_400, "21000301T000000"),
            (253_402_300_799, "99991231T235959"),
        ] {
            assert_eq!(core::str::from_utf8(&compact_time(seconds)), Ok(text));
        }
        let validity = ValidityPeriod { not_before: b"20000228T235959", not_after: b"20240229T235959" };
        let info = SignatureInfo { validity: Some(validity), ..SignatureInfo::new(SignatureType::Ecdsa) };
        let mut bytes = Vec::new();
        info.encode(types::SIGNATURE_INFO, &mut bytes);
        let value = super::super::tlv::only("x", &bytes, types::SIGNATURE_INFO).unwrap();
        assert_eq!(SignatureInfo::decode(value), Ok((info, true)));
        let kind = types::VALIDITY_PERIOD;
        let of_interest = SignatureInfo::decode_of_interest(value);
        assert_eq!(of_interest, Err(WireError::Critical("SignatureInfo", kind)));
        let counts = [951_782_398, 951_782_399, 1_709_251_199, 1_709_251_200].map(|time| validity.contains(time));
        assert_eq!(counts, [false, true, true, false]);
        let mut broken = value.to_vec();
        broken[15] = b'x';
        assert!(SignatureInfo::decode(&broken).is_err());
    }
}
