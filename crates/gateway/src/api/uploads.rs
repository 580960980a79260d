//! Files uploaded by clients. They lie in a folder of the state folder while they are published.
use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tributary::{ApiError, ErrorKind, LocalApi};

/// Uploads at a time.
const UPLOADS_MAX: usize = 8;
/// Pieces of a body that wait for the disk.
const PIECES_WAITING_MAX: usize = 16;
/// How long a client may send nothing.
const STALL_MAX: Duration = Duration::from_secs(60);

/// The folder with the files.
#[derive(Debug)]
pub(crate) struct Uploads {
    folder: PathBuf,
    bytes_max: u64,
    turns: Semaphore,
    /// Files that are complete and not published yet.
    pending: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// A complete file; it stays if it is published before this is dropped.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) path: PathBuf,
    pending: Arc<Mutex<BTreeSet<PathBuf>>>,
}
impl Drop for Upload {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.path);
    }
}

impl Uploads {
    pub(crate) fn new(state_dir: &Path, bytes_max: u64) -> Uploads {
        let (turns, pending) = (Semaphore::new(UPLOADS_MAX), Arc::default());
        Uploads { folder: state_dir.join("uploads"), bytes_max, turns, pending }
    }
    /// Writes a body to a new file.
    ///
    /// # Errors
    /// [`ApiError`] if it is too long, stalls, or the disk refuses it; then nothing is left.
    pub(crate) async fn receive(&self, mut body: Incoming) -> Result<Upload, ApiError> {
        let _turn = self.turns.try_acquire().map_err(|_| {
            ApiError::new(ErrorKind::InUse, format!("{UPLOADS_MAX} uploads run already")).with_hint("try again later")
        })?;
        let too_long = || {
            ApiError::usage(format!("the file has more than {} bytes", self.bytes_max))
                .with_hint("raise 'upload_size' in [http], or publish it by its path")
        };
        if hyper::body::Body::size_hint(&body).lower() > self.bytes_max {
            return Err(too_long());
        }
        let (pieces, received) = mpsc::channel::<Bytes>(PIECES_WAITING_MAX);
        let (folder, pending) = (self.folder.clone(), Arc::clone(&self.pending));
        let writing = tokio::task::spawn_blocking(move || write(&folder, received, pending));
        let mut left = self.bytes_max;
        let sent = loop {
            match tokio::time::timeout(STALL_MAX, body.frame()).await {
                Err(_) => break Err(ApiError::usage("the upload has stalled")),
                Ok(None) => break Ok(()),
                Ok(Some(Err(error))) => {
                    break Err(ApiError::usage(format!("the upload was cut: {error}")));
                }
                Ok(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    let Some(rest) = left.checked_sub(bytes.len() as u64) else { break Err(too_long()) };
                    left = rest;
                    if !bytes.is_empty() && pieces.send(bytes).await.is_err() {
                        // The disk has refused; the thread returns the error.
                        break Ok(());
                    }
                }
            }
        };
        // An empty piece means that the file is complete; without it nothing is kept.
        if sent.is_ok() {
            let _ = pieces.send(Bytes::new()).await;
        }
        drop(pieces);
        let written = writing.await.map_err(|error| ApiError::new(ErrorKind::Io, error.to_string()))?;
        sent?;
        written.map_err(|error| ApiError::io("write an upload below", self.folder.display(), &error))
    }
    /// Removes unfinished uploads of an earlier process. For the start, when nothing is received yet.
    pub(crate) fn remove_parts(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        for part in entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"part-")) {
            // Whole files have an extension.
            if part.path().extension().is_none()
                && let Err(error) = fs::remove_file(part.path())
            {
                tracing::warn!("cannot remove the upload '{}': {error}", part.path().display());
            }
        }
    }
    /// Removes files that are no longer published.
    pub(crate) fn sweep(&self, api: &LocalApi) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        // What becomes pending later is not in this listing.
        let entries: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        let pending = self.pending.lock().clone();
        let published = api.published_paths();
        let is_kept = |path: &PathBuf| {
            let is_whole = path.extension().is_some_and(|extension| extension == "upload");
            !is_whole || pending.contains(path) || published.contains(path)
        };
        for path in entries.iter().filter(|path| !is_kept(path)) {
            if let Err(error) = fs::remove_file(path) {
                tracing::warn!("cannot remove the upload '{}': {error}", path.display());
            }
        }
    }
}

/// Writes the pieces of a body, and returns the file once a piece is empty.
fn write(
    folder: &Path,
    mut pieces: mpsc::Receiver<Bytes>,
    pending: Arc<Mutex<BTreeSet<PathBuf>>>,
) -> io::Result<Upload> {
    fs::create_dir_all(folder)?;
    let folder = fs::canonicalize(folder)?;
    // It is removed unless it is kept.
    let mut file = tempfile::Builder::new().prefix("part-").tempfile_in(&folder)?;
    while let Some(piece) = pieces.blocking_recv() {
        if piece.is_empty() {
            // An object for all readers arrives as a file that every user may read; the upload folder keeps other users
            // out.
            file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
            file.as_file().sync_all()?;
            let stem = file.path().file_name().unwrap_or_default().to_owned();
            let path = folder.join(stem).with_extension("upload");
            // Listed before it exists, so that it is not swept away.
            pending.lock().insert(path.clone());
            let upload = Upload { path, pending };
            file.persist_noclobber(&upload.path).map_err(|error| error.error)?;
            fs::File::open(&folder)?.sync_all()?;
            return Ok(upload);
        }
        file.write_all(&piece)?;
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the upload was cut"))
}
