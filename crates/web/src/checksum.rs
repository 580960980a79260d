//! Checksums of whole files and of their pieces.
use ring::digest;
use std::fmt;

/// A hash function that publishers of files use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Algorithm {
    /// SHA-1: shows accidents, and no longer attacks.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}
impl Algorithm {
    /// All of them, by their names in Metalink files (IANA's registry of textual hash names), weakest first.
    pub const ALL: [(&'static str, Algorithm); 4] = [
        ("sha-1", Algorithm::Sha1),
        ("sha-256", Algorithm::Sha256),
        ("sha-384", Algorithm::Sha384),
        ("sha-512", Algorithm::Sha512),
    ];
    /// The algorithm of this name, also as Metalink 3 writes it (`sha256`); `None` for others, including MD5, which is
    /// easily forged.
    pub fn of_name(name: &str) -> Option<Algorithm> {
        let plain = |name: &str| name.replace('-', "").to_ascii_lowercase();
        Self::ALL.iter().find(|(known, _)| plain(known) == plain(name)).map(|(_, algorithm)| *algorithm)
    }
    fn ring(self) -> &'static digest::Algorithm {
        match self {
            Algorithm::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Sha256 => &digest::SHA256,
            Algorithm::Sha384 => &digest::SHA384,
            Algorithm::Sha512 => &digest::SHA512,
        }
    }
}
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, algorithm)| algorithm == self).map_or("", |(name, _)| name);
        f.write_str(&name.to_uppercase())
    }
}

/// The hash that a file or piece must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// By which function.
    pub algorithm: Algorithm,
    digest: Vec<u8>,
}
impl Checksum {
    /// Reads hexadecimal digits.
    ///
    /// # Errors
    /// A description of the defect.
    pub fn parse(algorithm: Algorithm, text: &str) -> Result<Checksum, String> {
        let text = text.trim();
        let need = algorithm.ring().output_len();
        if text.len() != 2 * need || !text.is_ascii() {
            return Err(format!(
                "a checksum of {algorithm} has {} hexadecimal digits, this has {}",
                2 * need,
                text.len()
            ));
        }
        let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok().filter(|_| !text[at..].starts_with('+'));
        let digest: Option<Vec<u8>> = (0..need).map(|at| byte(2 * at)).collect();
        let digest = digest.ok_or_else(|| format!("'{text}' is not hexadecimal"))?;
        Ok(Checksum { algorithm, digest })
    }
    /// One of these bytes; `None` if they are too few or too many.
    pub fn of_bytes(algorithm: Algorithm, digest: Vec<u8>) -> Option<Checksum> {
        (digest.len() == algorithm.ring().output_len()).then_some(Checksum { algorithm, digest })
    }
    /// Whether these bytes have it.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        digest::digest(self.algorithm.ring(), bytes).as_ref() == self.digest
    }
    /// Starts to hash a file in parts.
    pub fn hasher(&self) -> Hasher {
        Hasher::new(self.algorithm)
    }
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.digest
    }
    /// Its digits, in lower case.
    pub fn digits(&self) -> String {
        hex(&self.digest)
    }
}
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm, self.digits())
    }
}
/// Two lower-case digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash that is being computed.
pub struct Hasher(digest::Context);
impl Hasher {
    /// Starts to hash.
    pub fn new(algorithm: Algorithm) -> Hasher {
        Hasher(digest::Context::new(algorithm.ring()))
    }
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    /// Whether all bytes together have this checksum, and the one that they have.
    pub fn finish(self, algorithm: Algorithm) -> Checksum {
        Checksum { algorithm, digest: self.0.finish().as_ref().to_vec() }
    }
}

/// The hashes of a file's pieces, all of the same length but the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pieces {
    /// Bytes of a piece.
    pub length: u64,
    /// Their hashes in order.
    pub hashes: Vec<Checksum>,
}
impl Pieces {
    /// Whether bytes at `offset`, which is the beginning of a piece, fit the pieces that they cover.
    pub fn fit(&self, offset: u64, bytes: &[u8]) -> bool {
        let first = (offset / self.length) as usize;
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        bytes
            .chunks(length)
            .enumerate()
            .all(|(index, piece)| self.hashes.get(first + index).is_some_and(|hash| hash.fits(piece)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_and_compared_and_anything_else_is_refused() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let checksum = Checksum::parse(Algorithm::Sha256, abc).expect("64 digits");
        assert!(checksum.fits(b"abc") && !checksum.fits(b"abd"));
        assert_eq!(checksum.to_string(), format!("SHA-256 {abc}"));
        for wrong in ["", "ba", &abc.replace('b', "g"), &abc.replace("ba", "+a"), &"é".repeat(32)] {
            assert!(Checksum::parse(Algorithm::Sha256, wrong).is_err(), "{wrong}");
        }
        assert_eq!((Algorithm::of_name("SHA-512"), Algorithm::of_name("md5")), (Some(Algorithm::Sha512), None));
    }
}
