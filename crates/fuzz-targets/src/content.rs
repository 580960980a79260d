//! Names, manifests, hash trees, bitmaps, and the index of a directory.
use bytes::Bytes;
use std::{collections::BTreeSet, sync::OnceLock};
use tributary_content::{
    Bitmap, ChunkCipher, ChunkIndex, HashTree, KeyList, Manifest, Name, ObjectId, ObjectKey, ObjectKind, PublicKey,
    Signature, SigningKey, TreeError, verify_proof,
};
use tributary_core::{ByteCount, Rate, units::parse_duration};
use tributary_net::disk::index::{DirectoryIndex, EntryKind};

use crate::input::Input;

/// A name in NDN encoding is the same bytes again, keeps its limits, and survives being shown and read.
pub fn name_tlv(data: &[u8]) {
    match Name::from_tlv(Bytes::copy_from_slice(data)) {
        Ok(name) => {
            assert_eq!(name.as_tlv(), data, "a name has one encoding");
            check_name(&name);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Text parsed as a name yields a name within its limits, whose displayed form is the same name.
pub fn name_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Name>() {
        Ok(name) => {
            assert_eq!(Name::from_tlv(name.as_tlv().clone()).as_ref(), Ok(&name));
            check_name(&name);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn check_name(name: &Name) {
    assert!(name.as_tlv().len() <= Name::BYTES_MAX && name.len() <= Name::COMPONENTS_MAX);
    let shown = name.to_string();
    assert!(shown.is_ascii() && !shown.contains(|c: char| c.is_ascii_control()), "safe to print: {shown:?}");
    assert_eq!(shown.parse().as_ref(), Ok(name), "what is shown is read back: {shown}");
    assert_eq!(name.components().count(), name.len());
    assert_eq!(name.is_empty(), name.components().next().is_none());
    assert_eq!(name.prefix(name.len()), *name);
    let mut rebuilt = Name::root();
    for (kind, value) in name.typed_components() {
        let longer = rebuilt.typed_child(kind, value).expect("a part of a legal name is legal");
        assert!(rebuilt.is_prefix_of(name) && rebuilt < longer);
        assert_eq!(longer.parent().as_ref(), Some(&rebuilt));
        rebuilt = longer;
    }
    assert_eq!(rebuilt, *name);
    assert_eq!(name.parent().is_none(), name.is_empty());
}

/// Rates, sizes, times, object ids and keys as people type them never panic, and ids and keys are shown as they
/// are read.
pub fn text_values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(!rate.to_string().is_empty());
    }
    if let Ok(count) = text.parse::<ByteCount>() {
        assert!(!count.to_string().is_empty());
    }
    if let Ok(duration) = parse_duration(text) {
        // Far below where sums of a few of them could overflow.
        assert!(duration.as_secs() < 1 << 34);
    }
    if let Ok(share) = tributary::config::parse_share(text) {
        assert!((0.0..=1.0).contains(&share));
    }
    if let Ok(id) = text.parse::<ObjectId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text.to_ascii_lowercase());
    }
}

pub(crate) fn key() -> &'static SigningKey {
    static KEY: OnceLock<SigningKey> = OnceLock::new();
    KEY.get_or_init(|| SigningKey::from_secret(&[7; 32]))
}
/// In the encoded manifest: the position of the publisher's key, and the signed range.
const PUBLISHER_AT: usize = 60;
const CONTEXT: &str = "tributary manifest";

/// An accepted manifest encodes to the same bytes, keeps every limit, is covered by its signature, and its chunks add
/// up to its size. A manifest that lacks only a signature gets one, so that the checks behind it are reached.
pub fn manifest(data: &[u8]) {
    check_manifest(data);
    if data.len() < PUBLISHER_AT + 32 + Signature::BYTES {
        return;
    }
    let mut signed = data[..data.len() - Signature::BYTES].to_vec();
    signed[PUBLISHER_AT..PUBLISHER_AT + 32].copy_from_slice(&key().public().0);
    let signature = key().sign(CONTEXT, &signed);
    signed.extend_from_slice(&signature.0);
    if check_manifest(&signed) {
        let bit = usize::from(data[0]) | usize::from(data[data.len() - 1]) << 8;
        let bit = bit % (signed.len() * 8);
        signed[bit / 8] ^= 1 << (bit % 8);
        assert!(Manifest::decode(&signed).is_err(), "bit {bit} is not covered by the signature");
    }
}

fn check_manifest(data: &[u8]) -> bool {
    let manifest = match Manifest::decode(data) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!(manifest.encode(), data, "a manifest has one encoding");
    assert!(data.len() <= Manifest::BYTES_MAX);
    assert_eq!(manifest.publication_id(), ObjectId::of_publication(data));
    assert!(!manifest.name.is_empty() && manifest.size <= Manifest::SIZE_MAX);
    assert!((Manifest::CHUNK_SIZE_MIN..=Manifest::CHUNK_SIZE_MAX).contains(&manifest.chunk_size));
    check_name(&manifest.name);
    let count = manifest.chunk_count();
    assert!(count <= Manifest::CHUNKS_MAX);
    assert!(manifest.tree_bytes() <= (32 + 4 * 16) * u64::from(Manifest::CHUNKS_MAX));
    let last = ChunkIndex(count.saturating_sub(1));
    assert_eq!(manifest.chunk_offset(last) + u64::from(manifest.chunk_len(last)), manifest.size);
    assert_eq!(manifest.chunk_len(ChunkIndex(count)), 0);
    assert_eq!(manifest.chunk_len(ChunkIndex(u32::MAX)), 0);
    true
}

/// A list of the keys of a sealed object encodes to the same bytes and keeps its limits; no slot opens but those that were
/// sealed. Chunks of any bytes never open either.
pub fn key_list(data: &[u8]) {
    match KeyList::decode(data) {
        Ok(list) => {
            assert_eq!(list.encode(), data, "a list has one encoding");
            assert!((1..=KeyList::READERS_MAX).contains(&list.slots()) && data.len() <= KeyList::BYTES_MAX);
            if list.slots() <= 16
                && let Some(opened) = list.open(list.object(), key())
            {
                // The seeds have one that does, for the key of the targets.
                assert_eq!(opened, ObjectKey::from_secret([5; 32]), "nobody else sealed anything");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let chunks = u32::from(data.first().copied().unwrap_or(1)).max(1);
    let cipher = ChunkCipher::new(&ObjectKey::from_secret([6; 32]), chunks);
    assert!(cipher.open(ChunkIndex(chunks - 1), &mut data.to_vec()).is_err(), "nobody sealed it");
}

/// A manifest whose fields a target may change: neither the tree nor the index checks its signature.
fn base_manifest() -> &'static Manifest {
    static MANIFEST: OnceLock<Manifest> = OnceLock::new();
    MANIFEST.get_or_init(|| {
        let root = HashTree::from_leaves([tributary_content::chunk_hash(b"chunk")].into()).root();
        let name = "/fuzz".parse().expect("a name");
        Manifest::sign(name, 1, ObjectKind::File, 1, Manifest::CHUNK_SIZE_MIN, root, key()).expect("legal")
    })
}

/// A tree is accepted only with the length and the root of the manifest, encodes to the same bytes, and its proofs
/// hold for their own chunk only.
pub fn hash_tree(data: &[u8]) {
    let mut input = Input::new(data);
    let mut manifest = base_manifest().clone();
    let honest = input.u8() & 1 == 0;
    let size = u64::from(input.u32());
    let bytes = input.bytes(usize::MAX);
    manifest.size = if honest { (bytes.len() / 32) as u64 * u64::from(manifest.chunk_size) } else { size };
    let tree = match HashTree::decode(&manifest, bytes) {
        Err(TreeError::Root { have, need }) => {
            assert!(have != need && need == manifest.root);
            manifest.root = have;
            HashTree::decode(&manifest, bytes).expect("the root is what these leaves make")
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_ne!(bytes.len() as u64, manifest.tree_bytes());
            return;
        }
        Ok(tree) => tree,
    };
    assert_eq!(tree.encode(), bytes, "a tree has one encoding");
    assert_eq!(tree.root(), manifest.root);
    assert_eq!(tree.chunk_count(), manifest.chunk_count());
    let count = tree.chunk_count();
    assert!(tree.leaf(ChunkIndex(count)).is_none() && tree.proof(ChunkIndex(count)).is_none());
    assert!(!tree.verify_chunk(ChunkIndex(count), b""));
    let leaves: Vec<_> = (0..count).map(|i| tree.leaf(ChunkIndex(i)).expect("below the count")).collect();
    assert_eq!(HashTree::from_leaves(leaves.clone()), tree);
    if count == 0 {
        return;
    }
    // The leaves come from the fuzzer, so the leaf of a known chunk replaces one of them.
    let at = size as usize % leaves.len();
    let (mut leaves, chunk) = (leaves, b"a known chunk");
    leaves[at] = tributary_content::chunk_hash(chunk);
    let tree = HashTree::from_leaves(leaves);
    manifest.root = tree.root();
    let index = ChunkIndex(at as u32);
    let mut proof = tree.proof(index).expect("below the count");
    assert!(proof.len() <= 16 && tree.verify_chunk(index, chunk));
    assert!(verify_proof(&manifest, index, chunk, &proof));
    assert!(!verify_proof(&manifest, index, b"another chunk", &proof));
    assert!(!verify_proof(&manifest, ChunkIndex(count), chunk, &proof));
    if let Some(last) = proof.last_mut() {
        last.0[31] ^= 1;
        assert!(!verify_proof(&manifest, index, chunk, &proof));
        proof.pop();
        assert!(!verify_proof(&manifest, index, chunk, &proof));
    }
}

/// A bitmap encodes to the same bytes, and agrees with an ordered set after any operations.
pub fn bitmap(data: &[u8]) {
    let mut input = Input::new(data);
    let len = input.u32();
    let steps = usize::from(input.u8());
    let steps = input.bytes(steps);
    let bytes = input.bytes(usize::MAX);
    for len in [len, len % 2048, (bytes.len() as u32 * 8).saturating_sub(len % 8)] {
        let Ok(mut bitmap) = Bitmap::decode(len, bytes) else {
            assert!(len > Bitmap::LEN_MAX || bytes.len() != len.div_ceil(8) as usize || bytes.last() != Some(&0));
            continue;
        };
        assert_eq!(bitmap.encode(), bytes, "a bitmap has one encoding");
        let mut oracle: BTreeSet<u32> = bitmap.iter_set().collect();
        for step in steps.chunks(3) {
            let index = step.iter().skip(1).fold(0, |sum, byte| sum << 8 | u32::from(*byte));
            match step[0] % 3 {
                0 => assert_eq!(bitmap.set(index), index < len && oracle.insert(index)),
                1 => assert_eq!(bitmap.clear(index), oracle.remove(&index)),
                _ => {
                    assert_eq!(bitmap.next_set(index), oracle.range(index..).next().copied());
                    assert_eq!(bitmap.next_unset(index), (index..len).find(|index| !oracle.contains(index)));
                }
            }
        }
        assert!(bitmap.iter_set().eq(oracle.iter().copied()));
        assert_eq!(bitmap.count() as usize, oracle.len());
        let unset: u32 = bitmap.unset_ranges().map(|run| run.end - run.start).sum();
        assert_eq!(bitmap.count() + unset, len);
        assert_eq!(bitmap.is_full(), unset == 0);
        assert_eq!(Bitmap::decode(len, &bitmap.encode()), Ok(bitmap));
    }
}

/// An index that is accepted encodes to the same bytes, and neither a path nor a chain of links leaves the directory
/// that it is unpacked to.
pub fn directory_index(data: &[u8]) {
    check_index(data);
    // The header contains the length; with the right one the rest is reached more often.
    if let Some(length) = data.get(4..8) {
        let right = (data.len() as u32).to_be_bytes();
        if length != right {
            let mut data = data.to_vec();
            data[4..8].copy_from_slice(&right);
            check_index(&data);
        }
    }
}

fn check_index(data: &[u8]) {
    let index = match DirectoryIndex::decode(data) {
        Ok(index) => index,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(index.encode(), data, "an index has one encoding");
    assert_eq!(DirectoryIndex::encoded_len(data), Ok(data.len()));
    assert_eq!(DirectoryIndex::new(index.entries().to_vec()).as_ref(), Ok(&index));
    assert!(index.entries().len() <= DirectoryIndex::ENTRIES_MAX && data.len() <= DirectoryIndex::BYTES_MAX);
    let total = index.entries().iter().try_fold(0u64, |sum, entry| sum.checked_add(entry.content_bytes()));
    assert_eq!(total, Some(index.content_bytes()));
    let mut directories = BTreeSet::from([Vec::new()]);
    for entry in index.entries() {
        let components: Vec<&[u8]> = entry.path.split(|byte| *byte == b'/').collect();
        let legal = |part: &&[u8]| {
            !part.is_empty() && part.len() <= 255 && *part != b"." && *part != b".." && !part.contains(&0)
        };
        assert!(components.iter().all(legal), "a path stays inside: {:?}", entry.path);
        let parent = components[..components.len() - 1].join(&b'/');
        assert!(directories.contains(&parent), "a parent is a real directory that came before");
        match &entry.kind {
            EntryKind::Directory { .. } => assert!(directories.insert(entry.path.clone()), "no path twice"),
            EntryKind::File { .. } => {}
            EntryKind::Link { .. } => {
                let mut steps = 0;
                walk(&index, &parent, &entry.path, &mut steps);
            }
        }
    }
}

/// Follows a path as the system would, link after link, from `directory`; panics where it leaves the root.
fn walk(index: &DirectoryIndex, directory: &[u8], link: &[u8], steps: &mut u32) {
    *steps += 1;
    if *steps > 40 {
        return;
    }
    let target = index.entries().iter().find(|entry| entry.path == link).map(|entry| &entry.kind);
    let Some(EntryKind::Link { target }) = target else { return };
    assert_ne!(target.first(), Some(&b'/'), "no link is absolute");
    let mut at: Vec<Vec<u8>> = directory.split(|b| *b == b'/').filter(|c| !c.is_empty()).map(<[u8]>::to_vec).collect();
    let mut todo: Vec<Vec<u8>> = target.split(|b| *b == b'/').map(<[u8]>::to_vec).rev().collect();
    while let Some(component) = todo.pop() {
        *steps += 1;
        if *steps > 400 {
            return;
        }
        match &component[..] {
            b"" | b"." => continue,
            b".." => {
                assert!(at.pop().is_some(), "a link climbs out of the directory: {link:?}");
                continue;
            }
            _ => at.push(component),
        }
        let here = at.join(&b'/');
        let kind = index.entries().iter().find(|entry| entry.path == here).map(|entry| &entry.kind);
        if let Some(EntryKind::Link { target }) = kind {
            at.pop();
            todo.extend(target.split(|b| *b == b'/').map(<[u8]>::to_vec).rev());
        }
    }
}
