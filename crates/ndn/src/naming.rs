//! How objects are named, so that unmodified NDN programs can fetch them.
//!
//! ```text
//!  /name/32=metadata                        which version there is (RDR); answers for /name too
//!  /name/v=VERSION/seg=N                    the object, one segment after the other
//!  /name/v=VERSION/32=tree/seg=N            the hashes of its chunks
//!  /name/32=manifest/NONCE                  the signed manifest: what probing Interests ask for, each by its own nonce
//! ```
//! Segments are the packets of [`tributary_transport::layout::Layout`]: numbered through from 0 on, none straddles chunks.
use alloc::vec::Vec;

use tributary_content::{Name, NameError};
use tributary_transport::TREE_PACKET_FIRST;

use crate::wire::{Component, Data, KeyLocator, NameView, WireError, tlv, tlv::Writer, types};

/// Keyword of the metadata that names the latest version. RDR.
pub const METADATA: &[u8] = b"metadata";
/// Keyword of the manifest.
pub const MANIFEST: &[u8] = b"manifest";
/// Keyword of the hash tree.
pub const TREE: &[u8] = b"tree";

/// Type of the segment size in metadata, as ndnd has it.
pub const SEGMENT_SIZE: u32 = 0xf500;
/// Type of the object's size in metadata, as ndnd has it.
pub const SIZE: u32 = 0xf502;
/// Type of the empty metadata element of producers that show a manifest.
pub const HAS_MANIFEST: u32 = 0xf512;
/// Type of the manifest in the answer to a probing Interest.
const MANIFEST_BYTES: u32 = 0xf510;

/// A NonNegativeInteger in its shortest form, the value of number components.
pub fn number(value: u64) -> Vec<u8> {
    value.to_be_bytes()[8 - tlv::integer_bytes(value)..].to_vec()
}

/// The part of an object that a name below the object's name requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requested {
    /// The current version.
    Metadata,
    /// The manifest.
    Manifest,
    /// A packet of a version, hash tree packets from [`TREE_PACKET_FIRST`] on.
    Packet {
        /// The version.
        version: u64,
        /// The packet.
        packet: u32,
    },
    /// The first segment of a version that is named without one.
    Version(u64),
}

/// The part that `name` requests, given the object's name, which must be a prefix of it; `None` for any other name.
pub fn requested(object: NameView<'_>, name: NameView<'_>) -> Option<Requested> {
    let rest = NameView::parse(name.as_tlv().get(object.as_tlv().len()..)?).ok()?;
    let parts: Vec<Component<'_>> = rest.components().take(5).collect();
    let is = |part: &Component<'_>, kind: u16| part.kind == kind;
    let keyword = |part: &Component<'_>, word: &[u8]| part.kind == types::KEYWORD && part.value == word;
    let packet = |version: &Component<'_>, segment: &Component<'_>, first: u32| {
        let within = u32::try_from(segment.number()?).ok().filter(|within| *within < TREE_PACKET_FIRST)?;
        let version = version.number()?;
        (is(segment, types::SEGMENT)).then_some(Requested::Packet { version, packet: first + within })
    };
    match &parts[..] {
        [] => Some(Requested::Metadata),
        [word] if keyword(word, METADATA) => Some(Requested::Metadata),
        [word, ..] if keyword(word, MANIFEST) && parts.len() <= 2 => Some(Requested::Manifest),
        [version] if is(version, types::VERSION) => version.number().map(Requested::Version),
        [version, segment] if is(version, types::VERSION) => packet(version, segment, 0),
        [version, word, segment] if is(version, types::VERSION) && keyword(word, TREE) => {
            packet(version, segment, TREE_PACKET_FIRST)
        }
        _ => None,
    }
}

/// The name of a packet of a version.
///
/// # Errors
/// [`NameError`] if it gets too long.
pub fn packet_name(object: &Name, version: u64, packet: u32) -> Result<Name, NameError> {
    let base = object.typed_child(types::VERSION, &number(version))?;
    match packet.checked_sub(TREE_PACKET_FIRST) {
        Some(within) => base.typed_child(types::KEYWORD, TREE)?.typed_child(types::SEGMENT, &number(within.into())),
        None => base.typed_child(types::SEGMENT, &number(packet.into())),
    }
}

/// The key locator of a producer called `label` that shows a manifest: `/LABEL/KEY/32=manifest`.
///
/// # Errors
/// [`NameError`] if it gets too long.
pub fn locator(label: &str) -> Result<Name, NameError> {
    Name::root().child(label.as_bytes())?.child(b"KEY")?.typed_child(types::KEYWORD, MANIFEST)
}
/// Whether a Data's producer shows a manifest, by its key locator.
pub fn has_manifest(data: &Data<'_>) -> bool {
    let Some(KeyLocator::Name(name)) = data.signature.key_locator else { return false };
    name.last().is_some_and(|last| last.kind == types::KEYWORD && last.value == MANIFEST)
}

/// The content of the answer to a probing Interest: segment size and manifest.
pub fn encode_manifest(segment_bytes: u16, manifest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(manifest.len() + 16);
    out.put_integer(SEGMENT_SIZE, segment_bytes.into());
    out.put_element(MANIFEST_BYTES, manifest);
    out
}
/// Reads a manifest that [`encode_manifest`] wrote.
///
/// # Errors
/// [`WireError`] names the missing or wrong element.
pub fn decode_manifest(content: &[u8]) -> Result<(u16, &[u8]), WireError> {
    let mut reader = tlv::Reader::new("manifest answer", content);
    let (mut segment_bytes, mut manifest) = (None, None);
    while let Some(element) = reader.element()? {
        match element.kind {
            SEGMENT_SIZE => segment_bytes = Some(tlv::integer("SegmentSize", element.value)?),
            MANIFEST_BYTES => manifest = Some(element.value),
            _ => {}
        }
    }
    let found = segment_bytes.ok_or(WireError::Missing("SegmentSize"))?;
    let wrong = WireError::Value("SegmentSize", found);
    // A tiny object is one tiny segment.
    let segment_bytes = u16::try_from(found).ok().filter(|bytes| (1..=8000).contains(bytes)).ok_or(wrong)?;
    Ok((segment_bytes, manifest.ok_or(WireError::Missing("manifest"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_asked_for_and_nothing_else_does() {
        let object: Name = "/lab/file".parse().unwrap();
        let read = |text: &str| {
            let name: Name = text.parse().unwrap();
            requested(NameView::from(&object), NameView::from(&name))
        };
        assert_eq!(read("/lab/file"), Some(Requested::Metadata));
        assert_eq!(read("/lab/file/32=metadata"), Some(Requested::Metadata));
        assert_eq!(read("/lab/file/32=manifest/abcd"), Some(Requested::Manifest));
        assert_eq!(read("/lab/file/v=7"), Some(Requested::Version(7)));
        assert_eq!(read("/lab/file/v=7/seg=300"), Some(Requested::Packet { version: 7, packet: 300 }));
        let tree = Some(Requested::Packet { version: 7, packet: TREE_PACKET_FIRST + 2 });
        assert_eq!(read("/lab/file/v=7/32=tree/seg=2"), tree);
        for nothing in
            ["/lab/file/x", "/lab/file/v=7/x", "/lab/file/v=7/seg=0/x", "/lab/file/seg=0", "/lab/file/54=%00%01/seg=1"]
        {
            assert_eq!(read(nothing), None, "{nothing}");
        }
        for packet in [0, 70_000, TREE_PACKET_FIRST, TREE_PACKET_FIRST + 9] {
            let name = packet_name(&object, 5, packet).unwrap();
            let expected = Some(Requested::Packet { version: 5, packet });
            assert_eq!(requested(NameView::from(&object), NameView::from(&name)), expected);
        }
        assert_eq!(decode_manifest(&encode_manifest(1200, b"m")), Ok((1200, &b"m"[..])));
        assert!(decode_manifest(&encode_manifest(9000, b"m")).is_err() && decode_manifest(&[]).is_err());
    }
}
