//! The copies on the disk: heads in `origins/KEY.json`, bodies in the cache's folder under their SHA-256.
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper::HeaderMap;
use parking_lot::Mutex;
use tributary_net::disk::ObjectCache;

use super::copy::{Body, Copy, Head};

/// Maximum addresses that are remembered; beyond it the ones confirmed longest ago are forgotten.
const ADDRESSES_MAX: usize = 65_536;
/// Maximum answers of an address that depend on fields of the request.
const VARIANTS_MAX: usize = 8;

/// The copies by their keys: hashes of method and address.
pub(crate) struct Shelf {
    pub(crate) cache: ObjectCache,
    folder: PathBuf,
    heads: PathBuf,
    copies: Mutex<HashMap<String, Vec<Copy>>>,
}

impl Shelf {
    /// Opens the copies of earlier runs. Heads that cannot be read are forgotten: the origin has them.
    pub(crate) fn open(folder: &Path, cache: ObjectCache) -> io::Result<Shelf> {
        let heads = folder.join("origins");
        fs::create_dir_all(&heads)?;
        let mut copies = HashMap::new();
        for entry in fs::read_dir(&heads)?.flatten() {
            let path = entry.path();
            let key = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let is_head = path.extension().is_some_and(|extension| extension == "json");
            match fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Vec<Head>>(&text).ok()) {
                Some(heads) if is_head && copies.len() < ADDRESSES_MAX => {
                    let of = |head| Copy { head, body: None };
                    copies.insert(key, heads.into_iter().map(of).collect::<Vec<_>>());
                }
                _ => _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(entry.path())),
            }
        }
        Ok(Shelf { cache, folder: folder.into(), heads, copies: Mutex::new(copies) })
    }
    /// Where the body with this SHA-256 is.
    pub(crate) fn body_path(&self, digest: &str) -> PathBuf {
        self.folder.join(format!("{digest}.data"))
    }
    /// Gives a complete body its place.
    pub(crate) fn place(&self, path: &Path, digest: &str, body: &Body) -> Result<(), String> {
        *body.pin.lock() = Some(self.cache.pin(digest));
        fs::rename(path, self.body_path(digest)).map_err(|error| error.to_string())
    }
    /// Where a body that arrives, or a document for neighbours, is.
    pub(crate) fn work_path(&self, stem: &str, extension: &str) -> PathBuf {
        self.heads.join(format!("{stem}.{extension}"))
    }
    /// The copy that answers a request.
    pub(crate) fn find(&self, key: &str, request: &HeaderMap) -> Option<Copy> {
        let copies = self.copies.lock();
        let fitting = copies.get(key)?.iter().find(|copy| copy.head.fits(request)).cloned();
        fitting.filter(|copy| copy.body.as_ref().is_none_or(|body| !body.has_failed()))
    }
    /// The copy with its body, unless that was evicted.
    pub(crate) fn find_whole(&self, key: &str, request: &HeaderMap) -> Option<Copy> {
        let copy = self.find(key, request)?;
        Some(Copy { body: Some(self.body(&copy)?), ..copy })
    }
    /// The body of a copy; `None` if it has been evicted. Its use is noted.
    pub(crate) fn body(&self, copy: &Copy) -> Option<Arc<Body>> {
        if let Some(body) = &copy.body {
            return Some(Arc::clone(body));
        }
        let digest = copy.head.digest.as_ref()?;
        let body = Body::open(&self.body_path(digest), self.cache.pin(digest)).ok()?;
        self.cache.touch(digest);
        Some(body)
    }
    /// Keeps a copy in place of the one that answers the same requests. Its head is written once it has all it needs.
    pub(crate) fn keep(&self, key: &str, copy: Copy) {
        let mut copies = self.copies.lock();
        if copies.len() >= ADDRESSES_MAX && !copies.contains_key(key) {
            let oldest = copies.iter().min_by_key(|(_, of)| of.iter().map(|copy| copy.head.at).max());
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                copies.remove(&oldest);
                let _ = fs::remove_file(self.work_path(&oldest, "json"));
            }
        }
        let of = copies.entry(key.into()).or_default();
        of.retain(|other| other.head.vary != copy.head.vary);
        of.insert(0, copy);
        of.truncate(VARIANTS_MAX);
        let heads: Vec<&Head> = of.iter().filter(|copy| copy.body.is_none()).map(|copy| &copy.head).collect();
        let written = serde_json::to_vec(&heads).map_err(io::Error::other).and_then(|text| {
            let path = self.work_path(key, "new");
            fs::write(&path, text)?;
            fs::rename(path, self.work_path(key, "json"))
        });
        if let Err(error) = written {
            tracing::debug!("a copy will be forgotten with the process: {error}");
        }
    }
    /// Forgets a copy whose body has failed.
    pub(crate) fn drop_failed(&self, key: &str) {
        let mut copies = self.copies.lock();
        if let Some(of) = copies.get_mut(key) {
            of.retain(|copy| copy.body.as_ref().is_none_or(|body| !body.has_failed()));
        }
    }
    /// All complete copies with a body on the disk, by their keys.
    pub(crate) fn complete(&self) -> Vec<(String, Head)> {
        let copies = self.copies.lock();
        let all = copies.iter().flat_map(|(key, of)| of.iter().map(move |copy| (key.clone(), copy.head.clone())));
        all.filter(|(_, head)| head.digest.as_ref().is_some_and(|digest| self.body_path(digest).exists())).collect()
    }
}
