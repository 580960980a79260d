//! The signed description of an object.
use alloc::{string::String, vec::Vec};
use bytes::Bytes;
use core::{fmt, ops::Range};

use crate::{
    Hash, Name, NameError, ObjectId, Piece, Pieces, PublicKey, Signature, SigningKey,
    hash::{self, chunk_hash},
    sealed,
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

/// Who besides its owner may read the files of a published object. A receiver gives its copy the same mode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Access {
    /// Everybody.
    #[default]
    Everybody,
    /// The owner's group.
    Group,
    /// The owner alone.
    Owner,
}
impl Access {
    /// Its number in encodings: 0, 1 or 2.
    pub fn number(self) -> u8 {
        match self {
            Access::Everybody => 0,
            Access::Group => 1,
            Access::Owner => 2,
        }
    }
    /// The reverse of [`Access::number`].
    pub fn from_number(number: u8) -> Option<Access> {
        [Access::Everybody, Access::Group, Access::Owner].into_iter().find(|access| access.number() == number)
    }
    /// The access of a Unix file's mode bits.
    pub fn of_mode(mode: u32) -> Access {
        match (mode & 0o040 != 0, mode & 0o004 != 0) {
            (_, true) => Access::Everybody,
            (true, false) => Access::Group,
            (false, false) => Access::Owner,
        }
    }
    /// The mode bits of a Unix file that it allows.
    pub fn mode_mask(self) -> u32 {
        match self {
            Access::Everybody => 0o777,
            Access::Group => 0o770,
            Access::Owner => 0o700,
        }
    }
}

/// What a publisher signs about one version of one object.
///
/// A manifest from [`Manifest::sign`] or [`Manifest::decode`] is within every limit and carries a valid signature.
/// Fields are public for reading; a changed one breaks the signature, and the next `decode` refuses it.
///
/// Encoded, all numbers big-endian:
/// ```text
///        0               1               2               3
///       +---------------+---------------+---------------+---------------+
///     0 |      'T'      |      'r'      |      'M'      |    layout     |
///       +---------------+---------------+---------------+---------------+
///     4 | kind | sealed |    access     |    bytes of the name, n       |
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
///  92+n |   in layouts 2 and 3: the number of mirrors, 1 byte; of each  |  m bytes
///       |   the bytes of its URL, 2 bytes, and the URL                  |
///       +---------------+---------------+---------------+---------------+
/// 92+n+m|   in layout 3: bytes of the shortest, the average and the     |  48 bytes
///       |   longest piece, number of pieces, hash of their list         |
///       +---------------+---------------+---------------+---------------+
///       |       signature over all bytes before it, in the context      |  64 bytes
///       |                     "tributary manifest"                      |
///       +---------------+---------------+---------------+---------------+
/// ```
/// Layout 1 has no mirrors, layout 2 has some, and layout 3 has pieces; nodes refuse layouts that they do not know. The
/// kind is 0 for a file and 1 for a directory, plus 0x80 if the object is sealed. Access is [`Access::number`]. Nodes
/// refuse an unknown kind or access: otherwise they would open restricted objects to all, or take sealed bytes for plain
/// ones.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Manifest {
    /// What the object is called; never the root.
    pub name: Name,
    /// Later versions of a name have larger numbers.
    pub version: u64,
    /// What the bytes are.
    pub kind: ObjectKind,
    /// Whether the chunks are sealed: only readers can open them ([`sealed`](crate::sealed)). Size, chunk size and root
    /// describe the sealed bytes.
    pub is_sealed: bool,
    /// Who may read the object where it is received; for a directory, who may look into it.
    pub access: Access,
    /// Bytes of the object, up to [`Manifest::SIZE_MAX`].
    pub size: u64,
    /// Bytes of every chunk but the last, from [`Manifest::CHUNK_SIZE_MIN`] to [`Manifest::CHUNK_SIZE_MAX`].
    pub chunk_size: u32,
    /// The root of the hash tree over the chunks.
    pub root: Hash,
    /// URLs of web servers that have the same bytes as a file, at most [`Manifest::MIRRORS_MAX`]. The publisher does
    /// not guarantee them, and a receiver may ignore them.
    pub mirrors: Vec<String>,
    /// The pieces by which receivers find its bytes among their files. Sealed objects have none, because keys and bytes
    /// differ between versions; nor have objects with a single chunk.
    pub pieces: Option<Pieces>,
    /// Who signed.
    pub publisher: PublicKey,
    /// The signature over everything above.
    pub signature: Signature,
}

impl Manifest {
    /// Maximum chunks of an object.
    pub const CHUNKS_MAX: u32 = 65_536;
    /// Bytes of the smallest chunk size; [`chunk_size_for`] never goes below 256 KiB, tests and experiments do.
    pub const CHUNK_SIZE_MIN: u32 = 1 << 10;
    /// Bytes of the largest chunk size.
    pub const CHUNK_SIZE_MAX: u32 = 16 << 20;
    /// Bytes of the largest object: 1 TiB.
    pub const SIZE_MAX: u64 = Self::CHUNKS_MAX as u64 * Self::CHUNK_SIZE_MAX as u64;
    /// Maximum mirrors.
    pub const MIRRORS_MAX: usize = 4;
    /// Bytes of the longest URL of a mirror.
    pub const MIRROR_BYTES_MAX: usize = 512;
    /// Bytes of the longest encoded manifest; it fits a datagram.
    pub const BYTES_MAX: usize = FIXED_BYTES + Name::BYTES_MAX + Signature::BYTES;

    /// Makes and signs a manifest. `root` is the root of the [`HashTree`](crate::HashTree) over the chunks.
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
        let mut manifest = Manifest {
            name,
            version,
            kind,
            is_sealed: false,
            access: Access::Everybody,
            size,
            chunk_size,
            root,
            mirrors: Vec::new(),
            pieces: None,
            publisher,
            signature: unsigned,
        };
        manifest.check()?;
        manifest.signature = key.sign(CONTEXT, &manifest.signed_bytes());
        Ok(manifest)
    }
    /// The same object restricted to these readers, signed again with `key`, which is its publisher's.
    ///
    /// # Panics
    /// If `key` is another one.
    #[must_use]
    pub fn restricted(mut self, access: Access, key: &SigningKey) -> Self {
        assert_eq!(key.public(), self.publisher, "only its publisher signs a manifest");
        if access != self.access {
            self.access = access;
            self.signature = key.sign(CONTEXT, &self.signed_bytes());
        }
        self
    }
    /// The same object with web servers that have it, signed again with `key`, which is its publisher's.
    ///
    /// # Errors
    /// [`ManifestError::Mirrors`] if there are too many, a URL is neither http nor https, or name and URLs are too
    /// long.
    ///
    /// # Panics
    /// If `key` is another one.
    pub fn mirrored(mut self, mirrors: Vec<String>, key: &SigningKey) -> Result<Self, ManifestError> {
        assert_eq!(key.public(), self.publisher, "only its publisher signs a manifest");
        self.mirrors = mirrors;
        self.check()?;
        self.signature = key.sign(CONTEXT, &self.signed_bytes());
        Ok(self)
    }
    /// The same object with pieces, signed again with `key`, which is its publisher's. It gets none if it is sealed, has
    /// a single chunk, or its name and mirrors fill the manifest.
    ///
    /// # Panics
    /// If `key` is another one.
    #[must_use]
    pub fn in_pieces(mut self, pieces: Pieces, key: &SigningKey) -> Self {
        assert_eq!(key.public(), self.publisher, "only its publisher signs a manifest");
        self.pieces = Some(pieces);
        match self.check() {
            Ok(()) => self.signature = key.sign(CONTEXT, &self.signed_bytes()),
            Err(_) => self.pieces = None,
        }
        self
    }
    /// Whether an object of this name may name these mirrors, as [`mirrored`](Manifest::mirrored) finds too, without the
    /// object.
    ///
    /// # Errors
    /// [`ManifestError::Mirrors`] as there.
    pub fn check_mirrors(name: &Name, mirrors: &[String]) -> Result<(), ManifestError> {
        match mirrors.is_empty() {
            true => Ok(()),
            false => check_mirrors(mirrors, name.as_tlv().len()),
        }
    }
    /// The same object, stated to be sealed, signed again with `key`, which is its publisher's.
    ///
    /// # Errors
    /// [`ManifestError::SealedSize`] if no plain bytes have this size when they are sealed.
    ///
    /// # Panics
    /// If `key` is another one.
    pub fn sealed(mut self, key: &SigningKey) -> Result<Self, ManifestError> {
        assert_eq!(key.public(), self.publisher, "only its publisher signs a manifest");
        self.is_sealed = true;
        self.check()?;
        self.signature = key.sign(CONTEXT, &self.signed_bytes());
        Ok(self)
    }
    /// Describes an object without a manifest: its packets are verified one by one, by their own signatures, and
    /// `publisher` represents their signer. It has no hash tree and no signature: it is for this program's own use and
    /// passes no [`Manifest::decode`].
    ///
    /// # Errors
    /// [`ManifestError`] names the field that breaks its limit.
    pub fn unsigned(
        name: Name,
        version: u64,
        size: u64,
        chunk_size: u32,
        publisher: PublicKey,
    ) -> Result<Self, ManifestError> {
        let root = if size == 0 { hash::empty_root() } else { Hash([0; Hash::BYTES]) };
        let (kind, access, signature) = (ObjectKind::File, Access::Everybody, UNSIGNED);
        let (is_sealed, mirrors, pieces) = (false, Vec::new(), None);
        let manifest = Manifest {
            name,
            version,
            kind,
            is_sealed,
            access,
            size,
            chunk_size,
            root,
            mirrors,
            pieces,
            publisher,
            signature,
        };
        manifest.check()?;
        Ok(manifest)
    }
    /// Whether it is from [`Manifest::unsigned`].
    pub fn is_unsigned(&self) -> bool {
        self.signature == UNSIGNED
    }
    /// Reads a manifest that this program wrote for itself, where [`Manifest::unsigned`] counts as signed, and so does one
    /// of this program's own key, if that is given. Never for
    /// bytes from the network.
    ///
    /// # Errors
    /// [`ManifestError`] names the first wrong field.
    pub fn decode_own(bytes: &[u8], own: Option<&PublicKey>) -> Result<Self, ManifestError> {
        match Self::parse(bytes)? {
            manifest if manifest.is_unsigned() || own == Some(&manifest.publisher) => Ok(manifest),
            _ => Self::decode(bytes),
        }
    }
    /// Reads an encoded manifest. The result keeps every limit, carries a valid signature of its publisher, and encodes
    /// to the same bytes. The caller decides whether to believe that publisher for this name.
    ///
    /// # Errors
    /// [`ManifestError`] names the first wrong field.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::parse(bytes)?;
        let signed = &bytes[..bytes.len() - Signature::BYTES];
        if manifest.is_unsigned() || !manifest.publisher.verify(CONTEXT, signed, &manifest.signature) {
            return Err(ManifestError::Signature { publisher: manifest.publisher });
        }
        Ok(manifest)
    }
    fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let mut reader = Reader(bytes);
        let [magic @ .., layout] = reader.array::<4>("magic")?;
        if magic != *MAGIC || !(LAYOUT_PLAIN..=LAYOUT_IN_PIECES).contains(&layout) {
            return Err(ManifestError::Magic);
        }
        let [kind, access] = reader.array("kind")?;
        let unknown = ManifestError::Kind { kind: u16::from_be_bytes([kind, access]) };
        let is_sealed = kind & SEALED != 0;
        let kind = match kind & !SEALED {
            0 => ObjectKind::File,
            1 => ObjectKind::Directory,
            _ => return Err(unknown),
        };
        let access = Access::from_number(access).ok_or(unknown)?;
        let name_length = usize::from(u16::from_be_bytes(reader.array("length of the name")?));
        let manifest = Manifest {
            kind,
            is_sealed,
            access,
            version: u64::from_be_bytes(reader.array("version")?),
            size: u64::from_be_bytes(reader.array("size")?),
            chunk_size: u32::from_be_bytes(reader.array("chunk size")?),
            root: Hash(reader.array("root")?),
            publisher: PublicKey(reader.array("publisher")?),
            name: Name::from_tlv(Bytes::copy_from_slice(reader.bytes("name", name_length)?))?,
            mirrors: if layout == LAYOUT_PLAIN { Vec::new() } else { mirrors(&mut reader, layout)? },
            pieces: match layout {
                LAYOUT_IN_PIECES => Some(Pieces::decode(&reader.array("pieces")?)),
                _ => None,
            },
            signature: Signature(reader.array("signature")?),
        };
        if !reader.0.is_empty() {
            return Err(ManifestError::Trailing { bytes: reader.0.len() });
        }
        manifest.check()?;
        Ok(manifest)
    }
    /// The canonical bytes, at most [`Manifest::BYTES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.signed_bytes();
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }

    /// The id of the bytes: equal for all objects with the same bytes, chunk size and pieces, regardless of name, version
    /// and publisher. An object without a hash tree has the id of its publication. It is computed at each call; frequent
    /// callers should keep it.
    pub fn object_id(&self) -> ObjectId {
        match self.is_unsigned() {
            true => self.publication_id(),
            false => {
                // Sources of one object answer requests for its tree with equal bytes.
                let tree = self.pieces.map_or(self.root, |pieces| hash::node_hash(&self.root, &pieces.list));
                ObjectId::of_bytes(self.size, self.chunk_size, &tree)
            }
        }
    }
    /// The id of this publication: the object under its name, of this version, by this publisher. It is computed at each
    /// call.
    pub fn publication_id(&self) -> ObjectId {
        ObjectId::of_publication(&self.encode())
    }
    /// Whether a fetch of `self` can continue a fetch of `other`: the same bytes, stored in the same way, under the
    /// same name. Publisher and version may differ. Publishers of a name agree if their manifests continue each other.
    pub fn continues(&self, other: &Manifest) -> bool {
        let form = |of: &Manifest| (of.kind, of.is_sealed);
        self.name == other.name && form(self) == form(other) && self.object_id() == other.object_id()
    }
    /// The number of chunks; zero for an empty object.
    pub fn chunk_count(&self) -> u32 {
        let chunks = self.size.div_ceil(u64::from(self.chunk_size.max(1)));
        u32::try_from(chunks).unwrap_or(Self::CHUNKS_MAX).min(Self::CHUNKS_MAX)
    }
    /// Bytes of one chunk: the chunk size, or the rest for the last one; zero beyond the last.
    pub fn chunk_len(&self, index: ChunkIndex) -> u32 {
        let left = self.size.saturating_sub(self.chunk_offset(index));
        u32::try_from(left).unwrap_or(u32::MAX).min(self.chunk_size)
    }
    /// Where a chunk starts in the object.
    pub fn chunk_offset(&self, index: ChunkIndex) -> u64 {
        u64::from(index.0) * u64::from(self.chunk_size)
    }
    /// Bytes of the opened object; of an object that is not sealed, its size.
    pub fn plain_size(&self) -> u64 {
        let sealed = self.is_sealed.then(|| sealed::plain_size(self.size, self.chunk_size));
        sealed.flatten().unwrap_or(self.size)
    }
    /// Plain bytes of every chunk but the last.
    pub fn plain_chunk_size(&self) -> u32 {
        if self.is_sealed { self.chunk_size - sealed::TAG_BYTES } else { self.chunk_size }
    }
    /// The chunks that hold a range of plain bytes, clipped to the object.
    pub fn chunks_of_plain(&self, range: Range<u64>) -> Range<u32> {
        let end = range.end.min(self.plain_size());
        if range.start >= end {
            return 0..0;
        }
        let step = u64::from(self.plain_chunk_size().max(1));
        let chunk = |at: u64| u32::try_from(at).unwrap_or(Self::CHUNKS_MAX);
        chunk(range.start / step)..chunk(end.div_ceil(step))
    }
    /// Bytes of the encoded hash tree with the list of pieces; zero for at most one chunk, whose hash is the root.
    pub fn tree_bytes(&self) -> u64 {
        match self.chunk_count() {
            0 | 1 => 0,
            chunks => u64::from(chunks) * Hash::BYTES as u64 + self.piece_list_bytes() as u64,
        }
    }
    /// Bytes of the encoded list of pieces.
    pub(crate) fn piece_list_bytes(&self) -> usize {
        self.pieces.map_or(0, |pieces| pieces.count as usize * Piece::BYTES)
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
        // Mirrors and pieces share the room of the longest name, so that they do not raise the maximum size of a manifest.
        let more = self.pieces.map_or(0, |_| Pieces::BYTES);
        if more > 0 || !self.mirrors.is_empty() {
            check_mirrors(&self.mirrors, self.name.as_tlv().len() + more)?;
        }
        if let Some(pieces) = &self.pieces {
            pieces.check(if self.is_sealed || self.chunk_count() <= 1 { 0 } else { self.size })?;
        }
        if self.is_sealed && sealed::plain_size(self.size, self.chunk_size).is_none() {
            return Err(ManifestError::SealedSize { size: self.size });
        }
        Ok(())
    }
    fn signed_bytes(&self) -> Vec<u8> {
        let name = self.name.as_tlv();
        let name_length = u16::try_from(name.len()).expect("a name has at most 1,024 bytes");
        let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len() + Signature::BYTES);
        bytes.extend_from_slice(MAGIC);
        let layout = match (&self.pieces, self.mirrors.is_empty()) {
            (Some(_), _) => LAYOUT_IN_PIECES,
            (None, false) => LAYOUT_MIRRORED,
            (None, true) => LAYOUT_PLAIN,
        };
        bytes.push(layout);
        let kind = match self.kind {
            ObjectKind::File => 0,
            ObjectKind::Directory => 1,
        };
        bytes.push(if self.is_sealed { kind | SEALED } else { kind });
        bytes.push(self.access.number());
        bytes.extend_from_slice(&name_length.to_be_bytes());
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&self.size.to_be_bytes());
        bytes.extend_from_slice(&self.chunk_size.to_be_bytes());
        bytes.extend_from_slice(&self.root.0);
        bytes.extend_from_slice(&self.publisher.0);
        bytes.extend_from_slice(name);
        if layout != LAYOUT_PLAIN {
            bytes.push(u8::try_from(self.mirrors.len()).expect("check() saw to it"));
            for url in &self.mirrors {
                bytes.extend_from_slice(&u16::try_from(url.len()).expect("check() saw to it").to_be_bytes());
                bytes.extend_from_slice(url.as_bytes());
            }
        }
        bytes.extend(self.pieces.iter().flat_map(Pieces::encode));
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
    /// The first four bytes are not those of a known manifest layout.
    #[error("these bytes are not a manifest of layout 1, 2 or 3")]
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
        /// The stated chunk size.
        chunk_size: u32,
    },
    /// Too many bytes for the chunk size.
    #[error("an object of {size} bytes is too large: its chunk size allows for {size_max}")]
    Size {
        /// The stated size.
        size: u64,
        /// What the chunk size allows for.
        size_max: u64,
    },
    /// An empty object with another root than the empty tree's.
    #[error("the root of an empty object is wrong")]
    EmptyRoot,
    /// A sealed object of a size that none has.
    #[error(
        "{size} bytes are no sealed object: each chunk has a tag of 16 bytes, and only the last one may be shorter"
    )]
    SealedSize {
        /// The stated size.
        size: u64,
    },
    /// Number or sizes of the pieces contradict the size of the object.
    #[error("an object of {size} bytes cannot have {count} pieces of the stated sizes")]
    Pieces {
        /// The stated number of pieces.
        count: u32,
        /// The size of the object.
        size: u64,
    },
    /// The mirrors break a rule.
    #[error("mirrors of the object: {reason}")]
    Mirrors {
        /// The rule.
        reason: &'static str,
    },
    /// The publisher's key does not verify the signature.
    #[error("the manifest is not signed by {publisher}")]
    Signature {
        /// The publisher in the manifest.
        publisher: PublicKey,
    },
}

const MAGIC: &[u8; 3] = b"TrM";
/// Without mirrors, with some, and with pieces.
const LAYOUT_PLAIN: u8 = 1;
const LAYOUT_MIRRORED: u8 = 2;
const LAYOUT_IN_PIECES: u8 = 3;
const CONTEXT: &str = "tributary manifest";
const FIXED_BYTES: usize = 92;
/// The bit of the kind that marks a sealed object.
const SEALED: u8 = 0x80;
/// In place of the signature of an unsigned manifest.
const UNSIGNED: Signature = Signature([0; Signature::BYTES]);

/// The mirrors of layouts 2 and 3.
fn mirrors(reader: &mut Reader<'_>, layout: u8) -> Result<Vec<String>, ManifestError> {
    let [count] = reader.array("number of mirrors")?;
    if count == 0 && layout == LAYOUT_MIRRORED {
        return Err(ManifestError::Mirrors { reason: "layout 2 has at least one" });
    }
    let mut mirrors = Vec::new();
    for _ in 0..usize::from(count).min(Manifest::MIRRORS_MAX + 1) {
        let length = usize::from(u16::from_be_bytes(reader.array("length of a mirror")?));
        let url = core::str::from_utf8(reader.bytes("mirror", length)?);
        mirrors.push(url.map_err(|_| ManifestError::Mirrors { reason: "a URL is text" })?.into());
    }
    Ok(mirrors)
}
/// Name and mirrors together are no longer than the longest name.
fn check_mirrors(mirrors: &[String], name_bytes: usize) -> Result<(), ManifestError> {
    let wrong = |reason| Err(ManifestError::Mirrors { reason });
    if mirrors.len() > Manifest::MIRRORS_MAX {
        return wrong("there are at most four");
    }
    for url in mirrors {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or("");
        // Clients take a backslash for a slash.
        let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or("");
        if authority.contains('@') {
            return wrong("a URL with a password would reveal it to everybody");
        }
        if rest.is_empty() || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("each is a URL of http or https, in ASCII");
        }
        if url.len() > Manifest::MIRROR_BYTES_MAX {
            return wrong("a URL has at most 512 bytes");
        }
    }
    let bytes: usize = 1 + mirrors.iter().map(|url| 2 + url.len()).sum::<usize>();
    if name_bytes + bytes > Name::BYTES_MAX {
        return wrong("name and URLs together have at most 1,024 bytes");
    }
    Ok(())
}

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

#[cfg(test)]
mod tests;
