//! The folder in which a benchmark works; it is removed in the end.
use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{Outcome, note};

/// A temporary folder with the files that are sent and received.
pub(crate) struct Stage {
    folder: TempDir,
    sources: HashMap<u64, (PathBuf, String)>,
}

impl Stage {
    /// Makes the folder below `base`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn new(base: &Path) -> Outcome<Stage> {
        std::fs::create_dir_all(base)?;
        let folder = tempfile::Builder::new().prefix("tributary-bench-").tempdir_in(base)?;
        Ok(Stage { folder, sources: HashMap::new() })
    }
    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    /// A file of `size` incompressible bytes, and its BLAKE3; created once per size.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(crate) fn source(&mut self, size: u64) -> Outcome<(PathBuf, String)> {
        if let Some(made) = self.sources.get(&size) {
            return Ok(made.clone());
        }
        note(&format!("  making a file of {size} bytes"));
        let path = self.path(&format!("source-{size}"));
        let mut file = File::create(&path)?;
        let mut random = blake3::Hasher::new().update(b"tributary bench").finalize_xof();
        let mut hasher = blake3::Hasher::new();
        let mut block = vec![0; 1 << 20];
        let mut left = size;
        while left > 0 {
            let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            random.fill(&mut block[..length]);
            hasher.update(&block[..length]);
            file.write_all(&block[..length])?;
            left -= length as u64;
        }
        // Pending writes would disturb the first round.
        file.sync_all()?;
        let made = (path, hasher.finalize().to_hex().to_string());
        self.sources.insert(size, made.clone());
        Ok(made)
    }
    /// Writes `bytes` and removes them: the next writes then get pages that this machine has already.
    ///
    /// A virtual machine that hands free memory back to its host pays for every page that it takes again, which made
    /// writing a file four times slower in some runs than in others, with any program.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub(crate) fn warm(&self, bytes: u64) -> Outcome {
        let path = self.path("warm");
        let mut file = File::create(&path)?;
        let block = vec![0; 1 << 20];
        let mut left = bytes;
        while left > 0 {
            let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.write_all(&block[..length])?;
            left -= length as u64;
        }
        drop(file);
        Ok(std::fs::remove_file(path)?)
    }
    /// A loopback address whose port was free a moment ago.
    ///
    /// # Errors
    /// If no port is free.
    pub(crate) fn address(&self) -> Outcome<SocketAddr> {
        Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?)
    }
}

/// BLAKE3 of a file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn hash_of(path: &Path) -> Outcome<String> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            return Ok(hasher.finalize().to_hex().to_string());
        }
        hasher.update(&block[..length]);
    }
}
