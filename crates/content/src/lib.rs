//! Names, signed manifests, hash trees, and the traits of the stores.
//!
//! An object is a signed [`Manifest`] and its chunks. A receiver that has the manifest and trusts its publisher can
//! verify chunks from any source:
//!
//! ```text
//!   PublicKey ──signs──► Manifest ──root──► HashTree ──leaf──► chunk
//!                        name, version,     one hash a chunk   256 KiB or more,
//!                        size, kind                            checked before it is counted, written or served
//!
//!   publisher: ObjectReader ──read_chunk──► network ──put_chunk──► ChunkStore :receiver
//!                                             StoreOpener: trusts the key? resumes? opens the store
//! ```
//!
//! | what | module |
//! |---|---|
//! | hierarchical names, written as NDN URIs | [`name`] |
//! | hashes, object ids | [`hash`](mod@hash) |
//! | Ed25519 keys and signatures, each for one purpose | [`key`] |
//! | the publisher's signed manifest, and its byte layout | [`manifest`] |
//! | the hash tree and proofs of single chunks | [`tree`] |
//! | chunks that only readers can open | [`sealed`] |
//! | the key of a sealed object, wrapped for its readers | [`readers`] |
//! | names with the key or hash to believe | [`reference`] |
//! | names that reveal nothing without their key | [`blind`] |
//! | which chunks are held | [`bitmap`] |
//! | traits of the stores that a driver injects | [`store`] |
//! | objects and stores in memory | [`memory`] |
//!
//! The crate is `no_std`. Feature `std` adds `MemoryStore` and `MemoryOpener`, which share their content behind a
//! mutex; it changes nothing else.
//!
//! # Example
//! A publisher's object crosses an untrusted network:
//! ```
//! use tributary_content::{
//!     ChunkIndex, HashTree, Manifest, MemoryObject, SigningKey, store::ObjectReader,
//! };
//!
//! let key = SigningKey::from_secret(&[7; 32]);
//! let bytes: Vec<u8> = (0..600_000u32).map(|i| (i / 1000) as u8).collect();
//! let mut published = MemoryObject::new("/lab/numbers".parse()?, bytes.clone(), &key)?;
//! let (manifest, tree) = (published.manifest().encode(), published.tree());
//!
//! // The receiver knows the key, and gets everything else from anybody.
//! let manifest = Manifest::decode(&manifest)?;
//! assert_eq!(manifest.publisher, key.public());
//! let tree = HashTree::decode(&manifest, &tree)?;
//! let mut received = Vec::new();
//! for index in (0..manifest.chunk_count()).map(ChunkIndex) {
//!     let chunk = published.read_chunk(index)?;
//!     assert!(tree.verify_chunk(index, &chunk));
//!     received.extend_from_slice(&chunk);
//! }
//! assert_eq!(received, bytes);
//! assert!(!tree.verify_chunk(ChunkIndex(0), b"something else"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod bitmap;
pub mod blind;
pub mod byte_ranges;
pub mod hash;
mod hex;
pub mod key;
pub mod manifest;
pub mod memory;
pub mod name;
pub mod pieces;
pub mod readers;
pub mod reference;
pub mod repository;
pub mod sealed;
pub mod store;
pub mod tree;

pub use bitmap::{Bitmap, BitmapError};
pub use blind::BlindingKey;
pub use byte_ranges::{ByteRanges, ByteRangesError};
pub use hash::{Hash, ObjectId, ObjectIdError, chunk_hash};
pub use key::{KeyError, PublicKey, Signature, SigningKey};
pub use manifest::{Access, ChunkIndex, Manifest, ManifestError, ObjectKind, chunk_size_for};
pub use memory::MemoryObject;
#[cfg(feature = "std")]
pub use memory::{MemoryContent, MemoryOpener, MemoryStore};
pub use name::{Name, NameError};
pub use pieces::{Piece, PieceHash, PieceSizes, Pieces, list_pieces};
pub use readers::{KeyList, KeyListError};
pub use reference::{Reference, ReferenceError};
pub use repository::{ChunkRepository, Damage, MemoryRepository};
pub use sealed::{ChunkCipher, NotSealed, ObjectKey};
pub use store::{
    ChunkPart, ChunkStore, ClosedStore, HadStore, ObjectReader, StoreAnswer, StoreError, StoreOpener, StoreTask,
    Unavailable, Wanted, Wishes,
};
pub use tree::{HashTree, TreeError, verify_proof};
