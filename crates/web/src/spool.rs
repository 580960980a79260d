//! Bytes of a file whose length is known only at its end.
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use std::{
    fs::File,
    io::{Read, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::download::WebError;

/// A file without a name in the output's folder: the system removes it when the process ends.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    pub(crate) size: u64,
}
impl Spool {
    pub(crate) fn beside(output: &Path) -> Result<Spool, WebError> {
        let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::tempfile_in(folder).map_err(|error| failed("make a file", folder, &error))?;
        Ok(Spool { file, size: 0 })
    }
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), WebError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| failed("keep what comes", Path::new("its folder"), &error))?;
        self.size += bytes.len() as u64;
        Ok(())
    }
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), WebError> {
        let read = self.file.read_exact_at(bytes, offset);
        read.map_err(|error| failed("read what came", Path::new("its folder"), &error))
    }
}
fn failed(what: &str, place: &Path, error: &std::io::Error) -> WebError {
    WebError::System(format!("cannot {what} in '{}': {error}", place.display()))
}

/// Decodes gzip or deflate. False if it is neither, or `take` refuses.
pub(crate) fn decode(mut encoded: impl Read, take: &mut dyn FnMut(&[u8]) -> Result<(), WebError>) -> bool {
    let mut magic = [0; 2];
    if encoded.read_exact(&mut magic).is_err() {
        return false;
    }
    let all = magic.as_slice().chain(encoded);
    let mut decoder: Box<dyn Read> =
        if magic == [0x1f, 0x8b] { Box::new(MultiGzDecoder::new(all)) } else { Box::new(ZlibDecoder::new(all)) };
    let mut bytes = vec![0; 64 << 10];
    loop {
        match decoder.read(&mut bytes) {
            Ok(0) => return true,
            Ok(length) if take(&bytes[..length]).is_ok() => {}
            _ => return false,
        }
    }
}
