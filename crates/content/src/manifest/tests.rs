use super::*;
use crate::{HashTree, PieceSizes, list_pieces};
use alloc::{
    format,
    string::{String, ToString},
};
use proptest::prelude::*;

fn key() -> SigningKey {
    SigningKey::from_secret(&[7; 32])
}
fn manifest(size: u64, chunk_size: u32) -> Result<Manifest, ManifestError> {
    let root = if size == 0 { hash::empty_root() } else { Hash([3; 32]) };
    Manifest::sign("/lab/x".parse().expect("a name"), 9, ObjectKind::File, size, chunk_size, root, &key())
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let mut bytes = alloc::vec![0; digits.len() / 2];
    crate::hex::decode(&digits, &mut bytes).expect("hex");
    bytes
}

#[test]
fn a_description_that_nobody_signed_is_read_from_ones_own_notes_only() {
    let name: Name = "/lab/x".parse().expect("a name");
    let described = Manifest::unsigned(name, 5, 9_000, 8_000, PublicKey([0; 32])).expect("it is within limits");
    assert!(described.is_unsigned() && described.chunk_count() == 2);
    assert_eq!(Manifest::decode_own(&described.encode(), None), Ok(described.clone()));
    let refused = ManifestError::Signature { publisher: described.publisher };
    assert_eq!(Manifest::decode(&described.encode()), Err(refused));
    let signed = manifest(9_000, 8_000).expect("it is within limits");
    assert_eq!(Manifest::decode_own(&signed.encode(), None), Ok(signed.clone()));
    let mut altered = signed.encode();
    altered[9] ^= 1;
    assert!(Manifest::decode_own(&altered, None).is_err());
}

#[test]
fn who_may_read_an_object_is_signed_and_unknown_readers_are_refused() {
    let open = manifest(9_000, 8_000).expect("it is within limits");
    assert_eq!(open.clone().restricted(Access::Everybody, &key()), open);
    for access in [Access::Group, Access::Owner] {
        let closed = open.clone().restricted(access, &key());
        assert_eq!(closed.object_id(), open.object_id(), "the bytes are the same");
        assert_ne!(closed.publication_id(), open.publication_id());
        assert_eq!(Manifest::decode(&closed.encode()), Ok(closed.clone()));
        let mut opened = closed.encode();
        opened[5] = Access::Everybody.number();
        assert!(matches!(Manifest::decode(&opened), Err(ManifestError::Signature { .. })));
    }
    let mut unknown = open.encode();
    unknown[5] = 3;
    assert_eq!(Manifest::decode(&unknown), Err(ManifestError::Kind { kind: 3 }));
    for (mode, number) in [(0o644, 0), (0o640, 1), (0o600, 2), (0o604, 0), (0o4755, 0), (0o711, 2)] {
        assert_eq!(Access::of_mode(mode).number(), number, "{mode:o}");
    }
}

/// Root, signature and id were computed by other implementations of BLAKE3 and Ed25519 as well.
#[test]
fn golden_manifest_parses_and_is_emitted_byte_for_byte() {
    let fields = [
        "54724d 01", // magic, layout
        "01 00",     // directory
        "000f",      // bytes of the name
        "0000000000000102",
        "0000000000000bb8",
        "00000400",
        "0328ee63f3812c8c20ad08bf43f98e315100677399980d9b56febaf98d2c9922",
        "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c",
        "08 03 6c6162  08 05 6465626961  36 01 05",
        "af9dec255ca61ea9d55237de0591f2519f442d840654c78450e148ab3dac6b46",
        "6b0382f6db46bf6b86247b9a41c6f7dee7e50c4e4f7ef1446d8610bcc07e8000",
    ];
    let golden = from_hex(&fields.concat());
    let read = Manifest::decode(&golden).expect("the golden manifest is legal");
    assert_eq!(read.name.to_string(), "/lab/debia/54=%05");
    assert_eq!((read.version, read.kind, read.size, read.chunk_size), (258, ObjectKind::Directory, 3000, 1024));
    assert_eq!(read.publisher, key().public());
    assert_eq!(read.encode(), golden);
    assert_eq!(read.publication_id().to_string(), "06b4a4e447992aa3686175fa1b766952");
    assert_eq!(read.object_id().to_string(), "ae250757ebe2e3d72124536a96c74f41");

    let leaves = [&[0x55; 1024][..], &[0x66; 1024], &[0x77; 952]].map(chunk_hash).to_vec();
    let root = HashTree::from_leaves(leaves).root();
    let made = Manifest::sign(read.name.clone(), 258, ObjectKind::Directory, 3000, 1024, root, &key());
    assert_eq!(made, Ok(read));
}

#[test]
fn golden_manifest_with_mirrors_parses_and_is_emitted_byte_for_byte() {
    let plain = Manifest::sign(
        "/lab/debian".parse().expect("a name"),
        258,
        ObjectKind::File,
        3000,
        1024,
        Hash([0x55; 32]),
        &key(),
    );
    let urls = ["https://a.example.org/x", "http://b.example.org:8080/x"].map(String::from).to_vec();
    let made = plain.expect("legal").mirrored(urls.clone(), &key()).expect("legal");
    let bytes = made.encode();
    let golden = [
        "54724d 02 00 00 000d 0000000000000102 0000000000000bb8 00000400",
        &"55".repeat(32),
        "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c",
        "08 03 6c6162  08 06 64656269616e",
        "02",
        "0017 68747470733a2f2f612e6578616d706c652e6f72672f78",
        "001b 687474703a2f2f622e6578616d706c652e6f72673a383038302f78",
    ];
    let signed = from_hex(&golden.concat());
    assert_eq!(bytes[..bytes.len() - Signature::BYTES], signed);
    assert_eq!(Manifest::decode(&bytes), Ok(made.clone()));
    assert_eq!(made.mirrors, urls);
    // Nodes that know layout 1 only refuse it; without mirrors the bytes equal those of an ordinary publication.
    let other = made.clone().mirrored(Vec::new(), &key()).expect("legal");
    assert_eq!((other.encode()[3], other.object_id()), (1, made.object_id()));
    assert_ne!(other.publication_id(), made.publication_id());
    for length in 0..bytes.len() {
        assert!(Manifest::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    let at = signed.len() - 25 - 27 - 3;
    for count in [0, 1, 3, 255] {
        let mut wrong = bytes.clone();
        wrong[at] = count;
        assert!(Manifest::decode(&wrong).is_err(), "{count} mirrors");
    }
}

#[test]
fn golden_manifest_with_pieces_parses_and_is_emitted_byte_for_byte() {
    let name = "/lab/debian".parse().expect("a name");
    let plain = Manifest::sign(name, 258, ObjectKind::File, 3000, 1024, Hash([0x55; 32]), &key()).expect("legal");
    let sizes = PieceSizes { min: 512, average: 1024, max: 2048 };
    let listed = [&[1; 700][..], &[2; 2048], &[3; 252]].map(Piece::of);
    let (pieces, list) = list_pieces(sizes, &listed);
    let made = plain.clone().in_pieces(pieces, &key());
    let golden = [
        "54724d 03 00 00 000d 0000000000000102 0000000000000bb8 00000400",
        &"55".repeat(32),
        "ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c",
        "08 03 6c6162  08 06 64656269616e",
        "00", // mirrors
        "00000200 00000400 00000800 00000003",
        "ba2e7fc76755b83652cdafcddb5cc0f722ca97a95475f99dd2a2b2f62d579e69",
    ];
    let (bytes, signed) = (made.encode(), from_hex(&golden.concat()));
    assert_eq!(bytes[..bytes.len() - Signature::BYTES], signed);
    assert_eq!(Manifest::decode(&bytes), Ok(made.clone()));
    assert_eq!((made.tree_bytes(), list.len()), (3 * 32 + 3 * 16, 48));
    assert_ne!(made.object_id(), plain.object_id(), "sources of one object have the same list");
    // Objects that cannot have pieces stay without.
    let with = |sizes, count| plain.clone().in_pieces(Pieces { sizes, count, ..pieces }, &key()).pieces.is_some();
    assert!(with(sizes, 2) && with(sizes, 6) && !with(sizes, 1) && !with(sizes, 7));
    for (min, average, max) in [(0, 1024, 2048), (1024, 1024, 2048), (512, 1024, 1024), (512, 1000, 2048)] {
        assert!(!with(PieceSizes { min, average, max }, 3), "{min} {average} {max}");
    }
    let one = Manifest::sign(plain.name.clone(), 1, ObjectKind::File, 1024, 1024, plain.root, &key()).expect("legal");
    assert_eq!(one.in_pieces(Pieces { count: 1, ..pieces }, &key()).pieces, None);
    assert_eq!(plain.sealed(&key()).expect("legal").in_pieces(pieces, &key()).pieces, None);
    // The tree of such an object has the list behind its leaves, whole and unaltered.
    let leaves = [&[0x55; 1024][..], &[0x66; 1024], &[0x77; 952]].map(chunk_hash).to_vec();
    let tree = HashTree::with_pieces(leaves, &list);
    let name = made.name.clone();
    let manifest = Manifest::sign(name, 1, ObjectKind::File, 3000, 1024, tree.root(), &key()).expect("legal");
    let manifest = manifest.in_pieces(pieces, &key());
    let encoded = tree.encode();
    assert_eq!(HashTree::decode(&manifest, &encoded), Ok(tree));
    let read = HashTree::decode(&manifest, &encoded).expect("it is whole");
    let places: Vec<_> = read.pieces().map(|(place, hash)| (place, hash == listed[0].hash)).collect();
    assert_eq!(places, [(0..700, true), (700..2748, false), (2748..3000, false)]);
    for at in 0..encoded.len() {
        let mut wrong = encoded.to_vec();
        wrong[at] ^= 1;
        assert!(HashTree::decode(&manifest, &wrong).is_err(), "byte {at}");
    }
    assert!(HashTree::decode(&manifest, &encoded[..96]).is_err());
}

#[test]
fn mirrors_are_few_short_and_of_the_web() {
    let of = |urls: &[&str]| {
        let urls = urls.iter().map(ToString::to_string).collect();
        manifest(3000, 1024).expect("legal").mirrored(urls, &key()).map(|manifest| manifest.encode().len())
    };
    assert!(of(&["http://a/x"; Manifest::MIRRORS_MAX]).is_ok());
    assert!(of(&["http://a/x"; Manifest::MIRRORS_MAX + 1]).is_err());
    for url in ["", "ftp://a/x", "file:///etc/passwd", "s3://a/x", "https://", "http://a/ x", "http://ä/x", "HTTP://a"]
    {
        assert!(matches!(of(&[url]), Err(ManifestError::Mirrors { .. })), "{url}");
    }
    for url in ["https://user:secret@a/x", "http://user@a", "http://user@a?x", "http://@a/x"] {
        assert!(matches!(of(&[url]), Err(ManifestError::Mirrors { .. })), "{url}");
    }
    assert!(of(&["http://a/x@y?z=@"]).is_ok(), "a path may have one");
    let long = |bytes: usize| format!("http://a/{}", "x".repeat(bytes - 9));
    assert!(of(&[&long(Manifest::MIRROR_BYTES_MAX)]).is_ok() && of(&[&long(Manifest::MIRROR_BYTES_MAX + 1)]).is_err());
    assert!(of(&[&long(500), &long(500)]).is_ok_and(|bytes| bytes <= Manifest::BYTES_MAX));
    assert!(of(&[&long(512), &long(512)]).is_err());
}

#[test]
fn malformed_manifests_are_refused_with_the_field() {
    let good = manifest(3000, 1024).expect("legal").encode();
    let with = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Manifest::decode(&bad).expect_err("it is malformed")
    };
    assert_eq!(with(3, &[4]), ManifestError::Magic);
    assert_eq!(with(4, &[2]), ManifestError::Kind { kind: 0x200 });
    assert_eq!(with(5, &[3]), ManifestError::Kind { kind: 3 });
    assert_eq!(with(6, &[0xff, 0xff]), ManifestError::Short { field: "name", need: 65535, have: 72 });
    assert_eq!(with(6, &[0, 0]), ManifestError::Trailing { bytes: 8 });
    assert_eq!(with(24, &1023u32.to_be_bytes()), ManifestError::ChunkSize { chunk_size: 1023 });
    assert_eq!(with(16, &u64::MAX.to_be_bytes()), ManifestError::Size { size: u64::MAX, size_max: 1 << 26 });
    assert_eq!(with(16, &0u64.to_be_bytes()), ManifestError::EmptyRoot);
    assert_eq!(with(92, &[0]), ManifestError::Name(NameError::UnknownType { prefix: "0".into() }));
    assert_eq!(Manifest::decode(&[]), Err(ManifestError::Short { field: "magic", need: 4, have: 0 }));
    assert_eq!(Manifest::decode(&[&good[..], &[0]].concat()), Err(ManifestError::Trailing { bytes: 1 }));
    let nameless = [&good[..6], &[0, 0], &good[8..92], &good[good.len() - 64..]].concat();
    assert_eq!(Manifest::decode(&nameless), Err(ManifestError::NoName));
    for length in 0..good.len() {
        assert!(matches!(Manifest::decode(&good[..length]), Err(ManifestError::Short { .. })), "{length} bytes");
    }
}

#[test]
fn every_single_bit_is_covered_by_the_signature() {
    let good = manifest(3000, 1024).expect("legal").encode();
    assert!(Manifest::decode(&good).is_ok());
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&bad).is_err(), "bit {bit} can be flipped");
    }
}

#[test]
fn a_manifest_signed_by_someone_else_for_the_publisher_is_refused() {
    let mut forged = manifest(3000, 1024).expect("legal");
    forged.signature = SigningKey::from_secret(&[8; 32]).sign(CONTEXT, &forged.signed_bytes());
    assert_eq!(Manifest::decode(&forged.encode()), Err(ManifestError::Signature { publisher: key().public() }));
    // The neutral element as key, under which a signature of zeros fits any message.
    forged.publisher = PublicKey(core::array::from_fn(|at| u8::from(at == 0)));
    forged.signature = Signature(core::array::from_fn(|at| u8::from(at == 0)));
    assert!(matches!(Manifest::decode(&forged.encode()), Err(ManifestError::Signature { .. })));
}

#[test]
fn limits_hold_exactly_and_the_longest_manifest_fits_a_datagram() {
    assert!(manifest(Manifest::SIZE_MAX, Manifest::CHUNK_SIZE_MAX).is_ok());
    assert!(manifest(Manifest::SIZE_MAX + 1, Manifest::CHUNK_SIZE_MAX).is_err());
    assert!(manifest(65_536 * 1024, 1024).is_ok_and(|m| m.chunk_count() == Manifest::CHUNKS_MAX));
    assert!(manifest(65_536 * 1024 + 1, 1024).is_err());
    assert!(manifest(1, Manifest::CHUNK_SIZE_MIN - 1).is_err());
    assert!(manifest(1, Manifest::CHUNK_SIZE_MAX + 1).is_err());
    let longest = format!("/{}", "a".repeat(1020)).parse().expect("1,024 bytes are allowed");
    let root = Hash([3; 32]);
    let longest = Manifest::sign(longest, u64::MAX, ObjectKind::File, 1, 1024, root, &key()).expect("legal");
    assert_eq!(longest.encode().len(), Manifest::BYTES_MAX);
    const { assert!(Manifest::BYTES_MAX <= 1400) };
    assert_eq!(Manifest::sign(Name::root(), 0, ObjectKind::File, 1, 1024, root, &key()), Err(ManifestError::NoName));
}

#[test]
fn sizes_of_chunks_and_tree_follow_from_the_size() {
    for (size, count, last, tree) in
        [(0, 0, 0, 0), (1, 1, 1, 0), (1024, 1, 1024, 0), (1025, 2, 1, 64), (2048, 2, 1024, 64), (2049, 3, 1, 96)]
    {
        let manifest = manifest(size, 1024).expect("legal");
        assert_eq!(manifest.chunk_count(), count, "{size}");
        assert_eq!(manifest.chunk_len(ChunkIndex(count.saturating_sub(1))), last, "{size}");
        assert_eq!(manifest.chunk_len(ChunkIndex(count)), 0, "{size}");
        assert_eq!(manifest.tree_bytes(), tree, "{size}");
        let total: u64 = (0..count).map(|index| u64::from(manifest.chunk_len(ChunkIndex(index)))).sum();
        assert_eq!(total, size);
    }
}

#[test]
fn chunk_sizes_double_only_where_the_count_demands_it() {
    const GIB: u64 = 1 << 30;
    for (size, chunk_size) in [
        (0, 256 << 10),
        (16 * GIB, 256 << 10),
        (16 * GIB + 1, 512 << 10),
        (32 * GIB, 512 << 10),
        (32 * GIB + 1, 1 << 20),
        (1024 * GIB, 16 << 20),
        (u64::MAX, 16 << 20),
    ] {
        assert_eq!(chunk_size_for(size), chunk_size, "{size}");
    }
}

proptest! {
    #[test]
    fn any_legal_fields_survive_encoding(
        name in "(/[a-z]{1,9}){1,5}", version: u64, size in 1u64..1 << 26, chunk_size in 1024u32..=16 << 20,
        root: [u8; 32], secret: [u8; 32], directory: bool, access in 0u8..3, sealed: bool,
    ) {
        let kind = if directory { ObjectKind::Directory } else { ObjectKind::File };
        let key = SigningKey::from_secret(&secret);
        let name = name.parse().expect("a name");
        let access = Access::from_number(access).expect("a number of it");
        let made = Manifest::sign(name, version, kind, size, chunk_size, Hash(root), &key).expect("legal");
        let mut made = made.restricted(access, &key);
        if sealed && let Ok(sealed) = made.clone().sealed(&key) {
            made = sealed;
        }
        prop_assert_eq!(Manifest::decode(&made.encode()), Ok(made));
    }
}
