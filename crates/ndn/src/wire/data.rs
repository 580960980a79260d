//! Data: named, signed content. NDN packet format 0.3, "Data Packet".
//!
//! ```text
//!  6 Data
//!  ├─ 7 Name
//!  ├─ 20 MetaInfo {24 ContentType, 25 FreshnessPeriod ms, 26 FinalBlockId {component}}
//!  ├─ 21 Content
//!  ├─ 22 SignatureInfo {27 SignatureType, 28 KeyLocator}
//!  └─ 23 SignatureValue                over 7 to 22
//! ```
use alloc::vec::Vec;

use tributary_core::Duration;

use super::{
    Component, NameView, SignKey, SignatureInfo, VerifyKey, WireError,
    signature::digest,
    tlv::{Reader, Sequence, Writer, numbered},
    types,
};

numbered! {
    /// What the content of a Data is.
    #[derive(Default)]
    pub enum ContentType {
        /// Bytes of the application.
        #[default]
        0 => Blob,
        /// Names where the content can be had.
        1 => Link,
        /// A public key or certificate.
        2 => Key,
        /// The producer denies that such content exists.
        3 => Nack,
        /// A list of related names.
        4 => Manifest,
        /// A file-like collection (FLIC).
        1024 => Flic,
    }
}

/// About the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetaInfo<'a> {
    /// What the content is; `None`: a blob.
    pub content_type: Option<ContentType>,
    /// Milliseconds for which it counts as fresh after it arrived; `None`: zero.
    pub freshness_millis: Option<u64>,
    /// The name component of the last segment, with type and length.
    pub final_block_id: Option<&'a [u8]>,
}

/// Data, as a view over its bytes or to be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Its name.
    pub name: NameView<'a>,
    /// About the content; `None` without the element.
    pub meta: Option<MetaInfo<'a>>,
    /// The content; `None` without the element.
    pub content: Option<&'a [u8]>,
    /// How it is signed.
    pub signature: SignatureInfo<'a>,
    /// The signature.
    pub signature_value: &'a [u8],
    /// The bytes that it was read from; the default for one to encode.
    pub source: DataSource<'a>,
}

/// What a [`Data`] was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataSource<'a> {
    signed: &'a [u8],
    assembled: &'a [u8],
    is_canonical: bool,
}

/// Types that an application may add to MetaInfo, critical or not, as libraries allow it (AppMetaInfo of ndn-cxx).
const APPLICATION_META: core::ops::RangeInclusive<u32> = 128..=252;
const ORDER: &[u32] = &[types::NAME, types::META_INFO, types::CONTENT, types::SIGNATURE_INFO, types::SIGNATURE_VALUE];

impl<'a> Data<'a> {
    /// Data called `name` with this content, to be signed.
    pub fn new(name: NameView<'a>, content: &'a [u8]) -> Self {
        Data {
            name,
            meta: None,
            content: Some(content),
            signature: SignatureInfo::new(super::SignatureType::Null),
            signature_value: &[],
            source: DataSource::default(),
        }
    }
    /// Reads a Data that fills `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the element and its error.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, WireError> {
        let value = super::tlv::only("Data", bytes, types::DATA)?;
        let (mut name, mut info, mut signature_value, mut info_end) = (None, None, None, 0);
        let (mut meta, mut content) = (None, None);
        let mut sequence = Sequence::new("Data", value, ORDER);
        while let Some(element) = sequence.element()? {
            match element.kind {
                types::NAME if element.start > 0 => return Err(super::tlv::before_name()),
                types::NAME => name = Some(NameView::parse(element.value)?),
                types::META_INFO => meta = Some(sequence.part(MetaInfo::decode(element.value)?)),
                types::CONTENT => content = Some(element.value),
                types::SIGNATURE_INFO => {
                    info = Some(sequence.part(SignatureInfo::decode(element.value)?));
                    info_end = element.end;
                }
                _ => signature_value = Some(element.value),
            }
        }
        Ok(Data {
            name: name.ok_or(WireError::Missing("Name"))?,
            meta,
            content,
            signature: info.ok_or(WireError::Missing("SignatureInfo"))?,
            signature_value: signature_value.ok_or(WireError::Missing("SignatureValue"))?,
            source: DataSource { signed: &value[..info_end], assembled: bytes, is_canonical: sequence.is_canonical() },
        })
    }
    /// Whether its signature is by `key`.
    pub fn is_signed_by(&self, key: &VerifyKey) -> bool {
        key.verify(self.signature.kind, &[self.source.signed], self.signature_value)
    }
    /// SHA-256 over the complete packet, the last component of its full name.
    pub fn implicit_digest(&self) -> [u8; 32] {
        digest(&[self.source.assembled])
    }
    /// What the content is.
    pub fn content_type(&self) -> ContentType {
        self.meta.and_then(|meta| meta.content_type).unwrap_or_default()
    }
    /// How long it counts as fresh after it arrived.
    pub fn freshness(&self) -> Duration {
        Duration::from_millis(self.meta.and_then(|meta| meta.freshness_millis).unwrap_or(0))
    }
    /// The last segment's name component.
    pub fn final_block(&self) -> Option<Component<'a>> {
        NameView::parse(self.meta?.final_block_id?).ok()?.last()
    }
    /// Whether encoding it again yields the original bytes.
    pub fn is_canonical(&self) -> bool {
        self.source.is_canonical
    }

    /// The packet with the signature that it has.
    pub fn encode(&self) -> Vec<u8> {
        let mut signed = Vec::with_capacity(self.content.map_or(0, <[u8]>::len) + self.name.as_tlv().len() + 64);
        self.encode_signed_part(&mut signed);
        finish(&signed, self.signature_value)
    }
    /// The packet, signed by `key`; the algorithm in `signature` becomes the key's.
    pub fn sign(&self, key: &SignKey) -> Vec<u8> {
        let mut data = self.clone();
        data.signature.kind = key.kind();
        let mut signed = Vec::with_capacity(self.content.map_or(0, <[u8]>::len) + self.name.as_tlv().len() + 64);
        data.encode_signed_part(&mut signed);
        let value = key.sign(&[&signed]);
        finish(&signed, &value)
    }
    fn encode_signed_part(&self, out: &mut Vec<u8>) {
        out.put_element(types::NAME, self.name.as_tlv());
        if let Some(meta) = &self.meta {
            meta.encode(out);
        }
        if let Some(content) = self.content {
            out.put_element(types::CONTENT, content);
        }
        self.signature.encode(types::SIGNATURE_INFO, out);
    }
}

fn finish(signed: &[u8], signature_value: &[u8]) -> Vec<u8> {
    let length = signed.len() + super::tlv::element_len(types::SIGNATURE_VALUE, signature_value.len());
    let mut out = Vec::with_capacity(length + 10);
    out.put_head(types::DATA, length);
    out.extend_from_slice(signed);
    out.put_element(types::SIGNATURE_VALUE, signature_value);
    out
}

impl<'a> MetaInfo<'a> {
    /// Reads the value of the element, and whether it is canonical.
    fn decode(value: &'a [u8]) -> Result<(Self, bool), WireError> {
        const ORDER: &[u32] = &[types::CONTENT_TYPE, types::FRESHNESS_PERIOD, types::FINAL_BLOCK_ID];
        let mut meta = MetaInfo::default();
        let mut sequence = Sequence::new("MetaInfo", value, ORDER);
        sequence.ignore(APPLICATION_META);
        while let Some(element) = sequence.element()? {
            match element.kind {
                types::CONTENT_TYPE => {
                    meta.content_type = Some(sequence.integer("ContentType", &element)?.into());
                }
                types::FRESHNESS_PERIOD => {
                    meta.freshness_millis = Some(sequence.integer("FreshnessPeriod", &element)?);
                }
                _ => {
                    let mut reader = Reader::new("FinalBlockId", element.value);
                    NameView::parse(element.value)?;
                    if reader.element()?.is_none() || !reader.rest().is_empty() {
                        return Err(WireError::Length("FinalBlockId", element.value.len()));
                    }
                    meta.final_block_id = Some(element.value);
                }
            }
        }
        Ok((meta, sequence.is_canonical()))
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_nested(types::META_INFO, |out| {
            if let Some(kind) = self.content_type {
                out.put_integer(types::CONTENT_TYPE, kind.number());
            }
            if let Some(freshness) = self.freshness_millis {
                out.put_integer(types::FRESHNESS_PERIOD, freshness);
            }
            if let Some(component) = self.final_block_id {
                out.put_element(types::FINAL_BLOCK_ID, component);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_content::Name;

    #[test]
    fn signed_data_verifies_and_any_change_is_noticed() {
        let name: Name = "/lab/file/v=1/seg=0".parse().unwrap();
        let component = [50u8, 1, 9];
        for key in [SignKey::Digest, SignKey::ed25519(&[1; 32]), SignKey::Hmac(alloc::vec![7; 80])] {
            let data = Data {
                meta: Some(MetaInfo {
                    content_type: Some(ContentType::Blob),
                    freshness_millis: Some(4000),
                    final_block_id: Some(&component),
                }),
                ..Data::new(NameView::from(&name), b"content")
            };
            let bytes = data.sign(&key);
            let read = Data::decode(&bytes).unwrap();
            assert!(read.is_signed_by(&key.verify_key()) && read.is_canonical());
            assert_eq!(read.encode(), bytes);
            assert_eq!(read.final_block().and_then(|component| component.number()), Some(9));
            assert_eq!(read.freshness(), Duration::from_secs(4));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(!Data::decode(&changed).is_ok_and(|data| data.is_signed_by(&key.verify_key())), "byte {at}");
            }
        }
    }

    const CRITICAL: &str = "malformed: critical element unknown or out of place";

    #[test]
    fn what_must_be_there_must_be_there() {
        let decode = |parts: &[&[u8]]| {
            let mut bytes = Vec::new();
            bytes.put_element(types::DATA, &parts.concat());
            Data::decode(&bytes).map(|data| data.is_canonical()).map_err(|error| error.reason())
        };
        let (name, info, value): (&[u8], &[u8], &[u8]) = (&[7, 3, 8, 1, 65], &[22, 3, 27, 1, 200], &[23, 0]);
        assert_eq!(decode(&[name, info, value]), Ok(true));
        assert_eq!(decode(&[name, &[20, 0], info, value]), Ok(true));
        assert_eq!(decode(&[name, &[20, 2, 130, 0], info, value]), Ok(false));
        assert_eq!(decode(&[name, &[20, 2, 129, 0], info, value]), Ok(false), "of the application");
        assert_eq!(decode(&[name, &[20, 4, 253, 0, 253, 0], info, value]), Err(CRITICAL));
        assert_eq!(decode(&[&[50, 0], name, info, value]), Err("malformed: elements contradict each other"));
        assert_eq!(decode(&[name, info, value, &[50, 0]]), Ok(false));
        assert_eq!(decode(&[info, value]), Err("malformed: element missing"));
        assert_eq!(decode(&[name, value]), Err("malformed: element missing"));
        assert_eq!(decode(&[name, info]), Err("malformed: element missing"));
        assert_eq!(decode(&[info, name, value]), Err(CRITICAL));
        assert_eq!(decode(&[name, &[20, 5, 26, 3, 50, 2, 1], info, value]), Err("malformed: too short"));
        assert_eq!(decode(&[name, &[20, 2, 26, 0], info, value]), Err("malformed: illegal length"));
    }
}
