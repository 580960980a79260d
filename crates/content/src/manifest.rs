//! The signed description of an object.
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;

use crate::{
    Hash, Name, NameError, ObjectId, PublicKey, Signature, SigningKey,
    hash::{self, chunk_hash},
};

/// The number of a chunk within its object, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ChunkIndex(pub u32);

impl fmt::Display for ChunkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk-{}", self.0)
    }
}
impl From<ChunkIndex> for u32 {
    fn from(index: ChunkIndex) -> u32 {
        index.0
    }
}

/// What the bytes of an object are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ObjectKind {
    /// The bytes of one file.
    File,
    /// An index of a directory and the bytes of its files.
    Directory,
}
impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::File => "file",
            ObjectKind::Directory => "directory",
        })
    }
}

/// What a publisher signs about one version of one object.
///
/// A manifest from [`Manifest::sign`] or [`Manifest::decode`] keeps every limit and carries a valid signature.
/// Fields are open for reading; who changes one breaks the signature, and the next `decode` refuses it.
///
/// Encoded, all numbers big-endian:
/// ```text
///        0               1               2               3
///       +---------------+---------------+---------------+---------------+
///     0 |      'T'      |      'r'      |      'M'      |  layout, 1    |
///       +---------------+---------------+---------------+---------------+
///     4 | 0 file, 1 dir |       0       |    bytes of the name, n       |
///       +---------------+---------------+---------------+---------------+
///     8 |                            version                            |
///       |                                                               |
///       +---------------+---------------+---------------+---------------+
///    16 |                             size                              |
///       |                                                               |
///       +---------------+---------------+---------------+---------------+
///    24 |                          chunk size                           |
///       +---------------+---------------+---------------+---------------+
///    28 |                      root of the hash tree                    |  32 bytes
///       +---------------+---------------+---------------+---------------+
///    60 |                 publisher's Ed25519 public key                |  32 bytes
///       +---------------+---------------+---------------+---------------+
///    92 |              name: NDN components back to back               |  n bytes
///       +---------------+---------------+---------------+---------------+
///  92+n |       signature over all bytes before it, in the context      |  64 bytes
///       |                     "tributary manifest"                      |
///       +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Manifest {
    /// What the object is called; never the root.
    pub name: Name,
    /// Later versions of a name have larger numbers.
    pub version: u64,
    /// What the bytes are.
    pub kind: ObjectKind,
    /// Bytes of the object, up to [`Manifest::SIZE_MAX`].
    pub size: u64,
    /// Bytes of every chunk but the last, from [`Manifest::CHUNK_SIZE_MIN`] to [`Manifest::CHUNK_SIZE_MAX`].
    pub chunk_size: u32,
    /// The root of the hash tree over the chunks.
    pub root: Hash,
    /// Who signed.
    pub publisher: PublicKey,
    /// The signature over everything above.
    pub signature: Signature,
}

impl Manifest {
    /// How many chunks an object has at most.
    pub const CHUNKS_MAX: u32 = 65_536;
    /// Bytes of the smallest chunk size; [`chunk_size_for`] never goes below 256 KiB, tests and experiments do.
    pub const CHUNK_SIZE_MIN: u32 = 1 << 10;
    /// Bytes of the largest chunk size.
    pub const CHUNK_SIZE_MAX: u32 = 16 << 20;
    /// Bytes of the largest object: 1 TiB.
    pub const SIZE_MAX: u64 = Self::CHUNKS_MAX as u64 * Self::CHUNK_SIZE_MAX as u64;
    /// Bytes of the longest encoded manifest; it fits a datagram.
    pub const BYTES_MAX: usize = FIXED_BYTES + Name::BYTES_MAX + Signature::BYTES;

    /// Makes and signs a manifest. `root` is that of the [`HashTree`](crate::HashTree) over the chunks.
    ///
    /// # Errors
    /// [`ManifestError`] names the field that breaks its limit.
    pub fn sign(
        name: Name,
        version: u64,
        kind: ObjectKind,
        size: u64,
        chunk_size: u32,
        root: Hash,
        key: &SigningKey,
    ) -> Result<Self, ManifestError> {
        let unsigned = Signature([0; Signature::BYTES]);
        let publisher = key.public();
        let mut manifest = Manifest { name, version, kind, size, chunk_size, root, publisher, signature: unsigned };
        manifest.check()?;
        manifest.signature = key.sign(CONTEXT, &manifest.signed_bytes());
        Ok(manifest)
    }
    /// Reads an encoded manifest. What comes back keeps every limit, is signed by its publisher, and encodes to the
    /// same bytes again. Whether that publisher may be believed for this name is not decided here.
    ///
    /// # Errors
    /// [`ManifestError`] names the first field that is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let mut reader = Reader(bytes);
        if reader.array("magic")? != *MAGIC {
            return Err(ManifestError::Magic);
        }
        let kind = match reader.array("kind")? {
            [0, 0] => ObjectKind::File,
            [1, 0] => ObjectKind::Directory,
            unknown => return Err(ManifestError::Kind { kind: u16::from_be_bytes(unknown) }),
        };
        let name_length = usize::from(u16::from_be_bytes(reader.array("length of the name")?));
        let manifest = Manifest {
            kind,
            version: u64::from_be_bytes(reader.array("version")?),
            size: u64::from_be_bytes(reader.array("size")?),
            chunk_size: u32::from_be_bytes(reader.array("chunk size")?),
            root: Hash(reader.array("root")?),
            publisher: PublicKey(reader.array("publisher")?),
            name: Name::from_tlv(Bytes::copy_from_slice(reader.bytes("name", name_length)?))?,
            signature: Signature(reader.array("signature")?),
        };
        if !reader.0.is_empty() {
            return Err(ManifestError::Trailing { bytes: reader.0.len() });
        }
        manifest.check()?;
        let signed = &bytes[..bytes.len() - Signature::BYTES];
        if !manifest.publisher.verify(CONTEXT, signed, &manifest.signature) {
            return Err(ManifestError::Signature { publisher: manifest.publisher });
        }
        Ok(manifest)
    }
    /// The canonical bytes, at most [`Manifest::BYTES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.signed_bytes();
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }

    /// The id of this object. It is computed at each call; keep it where it is needed often.
    pub fn object_id(&self) -> ObjectId {
        ObjectId::of(&self.encode())
    }
    /// How many chunks there are; zero for an empty object.
    pub fn chunk_count(&self) -> u32 {
        let chunks = self.size.div_ceil(u64::from(self.chunk_size.max(1)));
        u32::try_from(chunks).unwrap_or(Self::CHUNKS_MAX).min(Self::CHUNKS_MAX)
    }
    /// Bytes of one chunk: the chunk size, or what is left for the last one; zero beyond the last.
    pub fn chunk_len(&self, index: ChunkIndex) -> u32 {
        let left = self.size.saturating_sub(self.chunk_offset(index));
        u32::try_from(left).unwrap_or(u32::MAX).min(self.chunk_size)
    }
    /// Where a chunk starts in the object.
    pub fn chunk_offset(&self, index: ChunkIndex) -> u64 {
        u64::from(index.0) * u64::from(self.chunk_size)
    }
    /// Bytes of the encoded hash tree; zero if there is at most one chunk, because the root says all then.
    pub fn tree_bytes(&self) -> u64 {
        match self.chunk_count() {
            0 | 1 => 0,
            chunks => u64::from(chunks) * Hash::BYTES as u64,
        }
    }
    /// Whether these are the bytes of the only chunk of an object that has one chunk only.
    pub fn verify_only_chunk(&self, bytes: &[u8]) -> bool {
        self.chunk_count() == 1 && chunk_hash(bytes) == self.root
    }

    fn check(&self) -> Result<(), ManifestError> {
        if self.name.is_empty() {
            return Err(ManifestError::NoName);
        }
        if !(Self::CHUNK_SIZE_MIN..=Self::CHUNK_SIZE_MAX).contains(&self.chunk_size) {
            return Err(ManifestError::ChunkSize { chunk_size: self.chunk_size });
        }
        let size_max = u64::from(Self::CHUNKS_MAX) * u64::from(self.chunk_size);
        if self.size > size_max {
            return Err(ManifestError::Size { size: self.size, size_max });
        }
        if self.size == 0 && self.root != hash::empty_root() {
            return Err(ManifestError::EmptyRoot);
        }
        Ok(())
    }
    fn signed_bytes(&self) -> Vec<u8> {
        let name = self.name.as_tlv();
        let name_length = u16::try_from(name.len()).expect("a name has at most 1,024 bytes");
        let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len() + Signature::BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.push(match self.kind {
            ObjectKind::File => 0,
            ObjectKind::Directory => 1,
        });
        bytes.push(0);
        bytes.extend_from_slice(&name_length.to_be_bytes());
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.size.to_be_bytes());
        bytes.extend_from_slice(&self.chunk_size.to_be_bytes());
        bytes.extend_from_slice(&self.root.0);
        bytes.extend_from_slice(&self.publisher.0);
        bytes.extend_from_slice(name);
        bytes
    }
}

/// The chunk size for an object of `size` bytes: 256 KiB, doubled until there are at most 65,536 chunks, up to 16 MiB.
pub fn chunk_size_for(size: u64) -> u32 {
    let mut chunk_size = 256 << 10;
    while chunk_size < Manifest::CHUNK_SIZE_MAX && size > u64::from(Manifest::CHUNKS_MAX) * u64::from(chunk_size) {
        chunk_size *= 2;
    }
    chunk_size
}

/// Why bytes are no manifest, or fields make none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The first four bytes are not those of a manifest of a known layout.
    #[error("these bytes are not a manifest of layout 1")]
    Magic,
    /// The bytes end too early.
    #[error("manifest ends inside {field}: needs {need} bytes, has {have}")]
    Short {
        /// Where.
        field: &'static str,
        /// Bytes that the field has.
        need: usize,
        /// Bytes that are left.
        have: usize,
    },
    /// There are bytes behind the signature.
    #[error("manifest has {bytes} bytes too many")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// An unknown kind of object.
    #[error("object kind {kind:#06x} is unknown; it may come from a newer version")]
    Kind {
        /// The two bytes.
        kind: u16,
    },
    /// The name breaks a rule.
    #[error("name of the object: {0}")]
    Name(#[from] NameError),
    /// The name is the root.
    #[error("an object needs a name of at least one component")]
    NoName,
    /// The chunk size is out of its range.
    #[error(
        "chunk size {chunk_size} is not within {min} and {max} bytes",
        min = Manifest::CHUNK_SIZE_MIN,
        max = Manifest::CHUNK_SIZE_MAX
    )]
    ChunkSize {
        /// What it says.
        chunk_size: u32,
    },
    /// Too many bytes for the chunk size.
    #[error("an object of {size} bytes is too large: its chunk size allows for {size_max}")]
    Size {
        /// What it says.
        size: u64,
        /// What the chunk size allows for.
        size_max: u64,
    },
    /// An empty object whose root is not that of the empty object.
    #[error("the root of an empty object is wrong")]
    EmptyRoot,
    /// The signature is not that of the publisher.
    #[error("the manifest is not signed by {publisher}")]
    Signature {
        /// Who the manifest says that it is from.
        publisher: PublicKey,
    },
}

const MAGIC: &[u8; 4] = b"TrM\x01";
const CONTEXT: &str = "tributary manifest";
const FIXED_BYTES: usize = 92;

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ManifestError> {
        let (array, rest) =
            self.0.split_first_chunk().ok_or(ManifestError::Short { field, need: N, have: self.0.len() })?;
        self.0 = rest;
        Ok(*array)
    }
    fn bytes(&mut self, field: &'static str, need: usize) -> Result<&'a [u8], ManifestError> {
        let (bytes, rest) =
            self.0.split_at_checked(need).ok_or(ManifestError::Short { field, need, have: self.0.len() })?;
        self.0 = rest;
        Ok(bytes)
    }
}
