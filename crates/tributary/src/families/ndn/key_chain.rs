//! NDN keys and certificates in files: the key chain of a user, and certificates that others hand over.
//!
//! A key chain is a folder that only its owner can enter, in the form of ndnd (`dir://FOLDER`): each file holds a
//! secret key (`*.key`) or a certificate (`*.cert`) as a packet in base64 with a frame. Foreign files are read as a
//! bare packet, as base64 (`ndnsec`), or with that frame.
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64ct::{Base64, Encoding};
use tributary_content::{Name, PublicKey};
use tributary_ndn::{Certificate, ContentType, Data, KeyLocator, SIGNING_KEY, Secret, SignKey, publisher_of};
use tributary_net::disk::replace_file;

use crate::{
    error::{ApiError, ErrorKind},
    paths::state_home,
};

/// Maximum bytes of a file with keys or certificates.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Maximum files of a key chain.
const FILES_MAX: usize = 4096;
/// Bytes of a random key id, as others have it.
const KEY_ID_BYTES: usize = 8;
/// Letters in a line of base64. RFC 7468 §2.
const LINE_LETTERS: usize = 64;
/// The types of blocks in a frame.
const KEY_BLOCK: &str = "NDN KEY";
const CERTIFICATE_BLOCK: &str = "NDN CERT";

/// The default folder of a user's key chain: `ndn-keys` next to the states of nodes.
pub fn default_folder() -> Option<PathBuf> {
    state_home().map(|home| home.join("ndn-keys"))
}

/// The order of certificates, the best one first: issued ones, then the newest.
pub fn rank(of: &Certificate) -> impl Ord + use<> {
    (of.is_self_issued(), std::cmp::Reverse((of.validity().0.to_string(), of.name().clone())))
}

/// The keys and certificates in a folder.
#[derive(Clone)]
pub struct KeyChain {
    folder: PathBuf,
    secrets: Vec<Secret>,
    /// All certificates, including other identities'.
    pub certificates: Vec<Certificate>,
}

/// A key of a key chain, with the certificates for it, the best one first.
#[derive(Clone)]
pub struct Credential {
    /// The key.
    pub secret: Secret,
    /// Its certificates: issued ones before the one that the key made for itself, newer ones before older ones.
    pub certificates: Vec<Certificate>,
}

impl KeyChain {
    /// Reads the key chain in a folder; it is empty without the folder.
    ///
    /// # Errors
    /// The reason for people: the folder is open to others, or a file in it cannot be read.
    pub fn open(folder: &Path) -> Result<KeyChain, ApiError> {
        let mut chain = KeyChain { folder: folder.into(), secrets: Vec::new(), certificates: Vec::new() };
        let failed = |error: &std::io::Error| ApiError::io("read the key chain", folder.display(), error);
        let mode = match fs::metadata(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(chain),
            Err(error) => return Err(failed(&error)),
            Ok(metadata) => metadata.permissions().mode() & 0o777,
        };
        if mode & 0o077 != 0 {
            let folder = folder.display();
            let message = format!("the key chain '{folder}' is open to others (mode {mode:03o})");
            return Err(ApiError::new(ErrorKind::Io, message).with_hint(format!("chmod 700 '{folder}'")));
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(&error))?.take(FILES_MAX) {
            let path = entry.map_err(|error| failed(&error))?.path();
            let is_ours = path.extension().is_some_and(|ending| ["key", "cert", "pem"].iter().any(|of| ending == *of));
            files.extend(is_ours.then_some(path));
        }
        files.sort();
        for file in files {
            let refused = |message: String| {
                ApiError::new(ErrorKind::Io, message).with_hint("move the file out of the key chain's folder")
            };
            for packet in packets_in(&file).map_err(refused)? {
                chain.insert(&packet, &file).map_err(refused)?;
            }
        }
        Ok(chain)
    }
    fn insert(&mut self, packet: &[u8], file: &Path) -> Result<(), String> {
        let shown = file.display();
        let is_secret = Data::decode(packet).is_ok_and(|data| data.content_type() == SIGNING_KEY);
        if is_secret {
            let secret = Secret::decode(packet).map_err(|error| format!("the key in '{shown}' is invalid: {error}"))?;
            self.secrets.retain(|known| known.name != secret.name);
            self.secrets.push(secret);
            return Ok(());
        }
        let certificate =
            Certificate::decode(packet.to_vec()).map_err(|error| format!("'{shown}' holds no certificate: {error}"))?;
        self.certificates.retain(|known| known.name() != certificate.name());
        self.certificates.push(certificate);
        Ok(())
    }
    /// Whether it has the secret key of this name.
    pub fn has_secret(&self, key: &Name) -> bool {
        self.secrets.iter().any(|secret| secret.name == *key)
    }
    /// All keys with their certificates.
    pub fn credentials(&self) -> Vec<Credential> {
        let of_secret = |secret: &Secret| {
            let is_for = |certificate: &&Certificate| {
                certificate.key_name() == secret.name && *certificate.key() == secret.key.verify_key()
            };
            let mut certificates: Vec<Certificate> = self.certificates.iter().filter(is_for).cloned().collect();
            certificates.sort_by_cached_key(rank);
            Credential { secret: secret.clone(), certificates }
        };
        self.secrets.iter().map(of_secret).collect()
    }
    /// The key of an identity: the one with the best certificate that counts at `unix`, in seconds since 1970.
    ///
    /// # Errors
    /// The key chain holds no credential of `identity`.
    pub fn credential(&self, identity: &Name, unix: u64) -> Result<Credential, ApiError> {
        let is_of = |of: &Credential| of.secret.name.prefix(of.secret.name.len() - 2) == *identity;
        let counting = self.credentials().into_iter().filter(is_of).filter_map(|mut credential| {
            credential.certificates.retain(|certificate| certificate.counts_at(unix));
            (!credential.certificates.is_empty()).then_some(credential)
        });
        counting.min_by_key(|credential| rank(&credential.certificates[0])).ok_or_else(|| {
            let folder = self.folder.display();
            let message =
                format!("the key chain '{folder}' has no key of '{identity}' with a certificate that counts now");
            ApiError::usage(message).with_hint(format!("make one with: trib ndn-key new {identity}"))
        })
    }
    /// The certificates of this key chain that lead from one to its issuer, the issuer's, and so on.
    pub fn issuers_of(&self, certificate: &Certificate) -> Vec<Certificate> {
        let mut chain: Vec<Certificate> = Vec::new();
        let mut last = certificate.clone();
        while let Some(issuer) = last.issuer().filter(|_| !last.is_self_issued())
            && let Some(next) = self.certificates.iter().find(|known| known.is_meant_by(issuer))
            && next.name() != certificate.name()
            && !chain.contains(next)
        {
            chain.push(next.clone());
            last = next.clone();
        }
        chain
    }
    /// Makes a key of an identity and a certificate that it signs itself, for `valid` seconds from `unix` on. `seed` is a
    /// secret to make the key of; `None` draws one.
    ///
    /// # Errors
    /// [`ApiError`]: the files cannot be written, or the name gets too long.
    pub fn create(
        &mut self,
        identity: &Name,
        algorithm: Algorithm,
        seed: Option<[u8; 32]>,
        (unix, valid): (u64, u64),
    ) -> Result<Certificate, ApiError> {
        let mut id = [0; KEY_ID_BYTES];
        entropy(&mut id)?;
        let key = match (algorithm, seed) {
            (Algorithm::Ed25519, Some(seed)) => SignKey::ed25519(&seed),
            (algorithm, None) => draw(algorithm)?,
            (Algorithm::Ecdsa, Some(_)) => {
                return Err(ApiError::usage("a publisher's key is of Ed25519, and never of ECDSA"));
            }
        };
        let named = |error: tributary_ndn::CertificateError| {
            ApiError::usage(format!("cannot make a key of '{identity}': {error}"))
        };
        let name = tributary_ndn::key_name(identity, &id).map_err(named)?;
        let (verify, by, version) = (key.verify_key(), (&name, &key), (&b"self"[..], unix * 1_000));
        let certificate = Certificate::issue((&name, &verify), version, by, (unix, unix + valid)).map_err(named)?;
        let secret = Secret { name: name.clone(), key };
        self.add_secret(&secret)?;
        self.add(&certificate)?;
        Ok(certificate)
    }
    /// Keeps a certificate, for a key of this key chain or of an issuer.
    ///
    /// # Errors
    /// [`ApiError`] if the file cannot be written.
    pub fn add(&mut self, certificate: &Certificate) -> Result<(), ApiError> {
        self.write(certificate.packet(), "cert")?;
        self.certificates.retain(|known| known.name() != certificate.name());
        self.certificates.push(certificate.clone());
        Ok(())
    }
    /// Keeps a secret key.
    ///
    /// # Errors
    /// [`ApiError`] if the file cannot be written.
    pub fn add_secret(&mut self, secret: &Secret) -> Result<(), ApiError> {
        let packet = secret.encode().map_err(|error| ApiError::usage(error.to_string()))?;
        self.write(&packet, "key")?;
        self.secrets.retain(|known| known.name != secret.name);
        self.secrets.push(secret.clone());
        Ok(())
    }
    fn write(&self, packet: &[u8], ending: &str) -> Result<(), ApiError> {
        let failed = |error: std::io::Error| ApiError::io("write to the key chain", self.folder.display(), &error);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let name = blake3::hash(packet).to_hex();
        let text = framed(packet).map_err(ApiError::usage)?;
        replace_file(&self.folder.join(format!("{name}.{ending}")), &[text.as_bytes()]).map_err(failed)
    }
    /// Issues a certificate for the key in `request`, which must be signed by that key itself, with the key of
    /// `credential`. `issuer` is written into its name.
    ///
    /// # Errors
    /// [`ApiError`] gives the reason.
    pub fn issue(
        credential: &Credential,
        request: &Certificate,
        issuer: &str,
        (unix, valid): (u64, u64),
    ) -> Result<Certificate, ApiError> {
        let refuse = |message: String| Err(ApiError::usage(message));
        if !request.is_signed_by(request.key()) {
            return refuse(format!(
                "'{}' is not signed by its own key, so nothing proves that its sender has that key",
                request.name()
            ));
        }
        let Some(own) = credential.certificates.first() else {
            return refuse(format!("'{}' has no certificate", credential.secret.name));
        };
        if !own.identity().is_prefix_of(&request.identity()) {
            let message = format!("'{}' is not below '{}', whose key is to sign", request.identity(), own.identity());
            return refuse(message + ": programs that go by the hierarchy of names would not believe it");
        }
        let (name, by) = (request.key_name(), (own.name(), &credential.secret.key));
        let version = (issuer.as_bytes(), unix * 1_000);
        Certificate::issue((&name, request.key()), version, by, (unix, unix + valid))
            .or_else(|error| refuse(format!("cannot certify '{name}': {error}")))
    }
}

/// The algorithm of a new key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// Ed25519.
    #[default]
    Ed25519,
    /// ECDSA over P-256, for programs that support no other: NDNts without an option, ndn-cxx.
    Ecdsa,
}

fn entropy(bytes: &mut [u8]) -> Result<(), ApiError> {
    getrandom::fill(bytes)
        .map_err(|error| ApiError::new(ErrorKind::Io, format!("the system gives no random bytes: {error}")))
}
fn draw(algorithm: Algorithm) -> Result<SignKey, ApiError> {
    loop {
        let mut secret = [0; 32];
        entropy(&mut secret)?;
        match algorithm {
            Algorithm::Ed25519 => return Ok(SignKey::ed25519(&secret)),
            // One in 2³² is no key of this curve.
            Algorithm::Ecdsa => {
                if let Some(key) = SignKey::ecdsa(&secret) {
                    return Ok(key);
                }
            }
        }
    }
}

/// Marks a certificate in place of a publisher's key.
const CERTIFICATE_OF_PUBLISHER: &str = "ndn-certificate:";

/// A publisher as [`crate::Get::publisher`] has it: its key, `ed25519:…`, or the content of a certificate's file.
///
/// # Errors
/// It is neither a key nor such a file.
pub fn publisher(text: &str) -> Result<String, String> {
    if let Ok(key) = text.parse::<PublicKey>() {
        return Ok(key.to_string());
    }
    let path = Path::new(text);
    if !path.exists() {
        return Err("it is neither a key, ed25519:…, nor a file with an NDN certificate".into());
    }
    let certificate = certificate_in(path)?;
    Ok(format!("{CERTIFICATE_OF_PUBLISHER}{}", Base64::encode_string(certificate.packet())))
}
/// The certificate by which a publisher is named, with the key that its objects have; `None` if it is named by its key.
pub(crate) fn certificate_of_publisher(text: &str) -> Option<Result<(PublicKey, Vec<u8>), String>> {
    let letters = text.strip_prefix(CERTIFICATE_OF_PUBLISHER)?;
    let packet = Base64::decode_vec(letters).map_err(|_| "the publisher's certificate is not in base64".to_string());
    Some(packet.and_then(|packet| {
        let certificate = Certificate::decode(packet);
        let certificate = certificate.map_err(|error| format!("the publisher's certificate is invalid: {error}"))?;
        Ok((publisher_of(certificate.key()), certificate.packet().to_vec()))
    }))
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// The system's error.
pub fn write_private(file: &Path, text: &str) -> Result<(), ApiError> {
    replace_file(file, &[text.as_bytes()]).map_err(|error| ApiError::io("write", file.display(), &error))
}

/// The certificate in a file.
///
/// # Errors
/// The reason for people.
pub fn certificate_in(file: &Path) -> Result<Certificate, String> {
    let shown = file.display();
    let packets = packets_in(file)?;
    let is_secret = |packet: &[u8]| Data::decode(packet).is_ok_and(|data| data.content_type() == SIGNING_KEY);
    let Some(packet) = packets.iter().find(|packet| !is_secret(packet)) else {
        return Err(format!("'{shown}' holds a secret key and no certificate"));
    };
    Certificate::decode(packet.clone()).map_err(|error| format!("'{shown}' is no certificate: {error}"))
}
/// The secret keys and certificates in a file.
///
/// # Errors
/// The reason for people.
pub fn contents_of(file: &Path) -> Result<(Vec<Secret>, Vec<Certificate>), String> {
    let nowhere = Path::new("");
    let mut all = KeyChain { folder: nowhere.into(), secrets: Vec::new(), certificates: Vec::new() };
    for packet in packets_in(file)? {
        all.insert(&packet, file)?;
    }
    Ok((all.secrets, all.certificates))
}
/// Reads a file of at most `bytes_max` bytes.
pub(super) fn read_limited(file: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let shown = file.display();
    let failed = |error: std::io::Error| format!("cannot read '{shown}': {error}");
    let bytes = fs::metadata(file).map_err(failed)?.len();
    if bytes > bytes_max {
        return Err(format!("'{shown}' has {bytes} bytes; {bytes_max} are read at most"));
    }
    fs::read(file).map_err(failed)
}
fn packets_in(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    let bytes = read_limited(file, FILE_BYTES_MAX)?;
    packets(&bytes).map_err(|error| format!("'{}' {error}", file.display()))
}

/// The packets in the bytes of a file: bare, in base64, or in base64 with frames.
///
/// # Errors
/// The reason why they are invalid.
pub fn packets(bytes: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const NEITHER: &str = "is neither an NDN packet nor base64 of one";
    if bytes.first() == Some(&(tributary_ndn::types::DATA as u8)) {
        return Ok(vec![bytes.to_vec()]);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| NEITHER)?;
    let mut packets = Vec::new();
    let mut block = String::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("-----END") {
            packets.push(Base64::decode_vec(&std::mem::take(&mut block)).map_err(|_| NEITHER)?);
        } else if !line.starts_with("-----") && !line.contains(':') {
            // Headers such as "Name: /operator/KEY/…" only explain.
            block.extend(line.split_whitespace());
        }
    }
    if !block.is_empty() {
        packets.push(Base64::decode_vec(&block).map_err(|_| NEITHER)?);
    }
    if packets.is_empty() { Err("holds no packet") } else { Ok(packets) }
}

/// A packet in base64 with the frame of ndnd.
///
/// # Errors
/// It is neither a certificate nor a secret key.
pub fn framed(packet: &[u8]) -> Result<String, String> {
    let data = Data::decode(packet).map_err(|error| error.to_string())?;
    let block = match data.content_type() {
        ContentType::Key => CERTIFICATE_BLOCK,
        kind if kind == SIGNING_KEY => KEY_BLOCK,
        _ => return Err("it is neither a certificate nor a secret key".into()),
    };
    let mut text = format!("-----BEGIN {block}-----\nName: {}\n", data.name);
    if let Some(KeyLocator::Name(signer)) = data.signature.key_locator.filter(|_| block == CERTIFICATE_BLOCK) {
        let _ = writeln!(text, "SignerKey: {signer}");
    }
    let _ = writeln!(text, "SigType: {:?}", data.signature.kind);
    if let Some(validity) = data.signature.validity {
        let show = |time: &[u8]| String::from_utf8_lossy(time).into_owned();
        let _ = writeln!(text, "Validity: {} - {}", show(validity.not_before), show(validity.not_after));
    }
    text.push('\n');
    let letters = Base64::encode_string(packet);
    for start in (0..letters.len()).step_by(LINE_LETTERS) {
        text.push_str(&letters[start..letters.len().min(start + LINE_LETTERS)]);
        text.push('\n');
    }
    let _ = writeln!(text, "-----END {block}-----");
    Ok(text)
}
