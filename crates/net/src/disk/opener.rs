//! Trust and destination in one.
use std::{fmt, io::Write, path::PathBuf};
use tributary_content::{ChunkStore, Manifest, ObjectKind, PublicKey, StoreError, StoreOpener};

use super::{PartFile, PartOptions, StreamStore, TrustStore, refusal};

/// Where a fetched object goes.
pub enum Destination {
    /// To this path, by way of a [`PartFile`].
    Path(PathBuf),
    /// In order to this, by way of a [`StreamStore`]. It can be opened once.
    Stream(Box<dyn Write + Send>),
}
impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Destination::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// How a [`DiskOpener`] decides and stores.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The only key to believe; `None` believes the first one seen for a name.
    pub publisher: Option<PublicKey>,
    /// For a [`Destination::Path`].
    pub part: PartOptions,
    /// For a [`Destination::Stream`]: bytes of chunks that come early, at most.
    pub stream_buffer_bytes: u64,
}
impl Default for DiskOptions {
    fn default() -> Self {
        let stream_buffer_bytes = StreamStore::BUFFER_BYTES_DEFAULT;
        DiskOptions { publisher: None, part: PartOptions::default(), stream_buffer_bytes }
    }
}

/// Opens the store of one fetch on this machine.
#[derive(Debug)]
pub struct DiskOpener {
    trust: TrustStore,
    destination: Option<Destination>,
    options: DiskOptions,
}

impl DiskOpener {
    /// Fetches to `destination`, and believes the keys that `trust` and `options` say.
    pub fn new(trust: TrustStore, destination: Destination, options: DiskOptions) -> Self {
        DiskOpener { trust, destination: Some(destination), options }
    }
}
impl StoreOpener for DiskOpener {
    fn trusts(&self, manifest: &Manifest) -> Result<(), StoreError> {
        self.trust.check(&manifest.name, &manifest.publisher, self.options.publisher.as_ref())
    }
    fn resumes(&self, manifest: &Manifest) -> bool {
        match &self.destination {
            Some(Destination::Path(target)) => PartFile::resumes(target, manifest),
            Some(Destination::Stream(_)) | None => false,
        }
    }
    fn open(&mut self, manifest: &Manifest) -> Result<Box<dyn ChunkStore>, StoreError> {
        self.trusts(manifest)?;
        let stream = std::path::Path::new("-");
        let store: Box<dyn ChunkStore> = match &self.destination {
            Some(Destination::Path(target)) => Box::new(PartFile::open(target, manifest, &self.options.part)?),
            Some(Destination::Stream(_)) if manifest.kind == ObjectKind::Directory => {
                return Err(refusal(
                    "write",
                    stream,
                    format!("'{}' is a directory; fetch it to a path", manifest.name),
                ));
            }
            Some(Destination::Stream(_)) => {
                let Some(Destination::Stream(out)) = self.destination.take() else {
                    unreachable!("the match says that it is a stream")
                };
                Box::new(StreamStore::new(manifest, out, self.options.stream_buffer_bytes)?)
            }
            None => return Err(refusal("write", stream, "an object was written to it already")),
        };
        // Last, so that a name is not bound to a key by a fetch that could not even start.
        self.trust.check_and_remember(&manifest.name, &manifest.publisher, self.options.publisher.as_ref())?;
        Ok(store)
    }
}
