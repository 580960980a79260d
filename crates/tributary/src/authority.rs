//! The authority of a network, on its operator's machine: a folder with its key and the certificates that it signed.
//!
//! | file | what |
//! |---|---|
//! | `authority` | its secret key, for its owner alone |
//! | `admitted` | a line for each certificate that was issued: the certificate itself |
//! | `revoked` | the list of revocations, which every node of the network should have |
//! | `LABEL.certificate` | the latest certificate of each node, for transfer to it |
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use tributary_content::{Name, PublicKey, SigningKey};
use tributary_trust::{BACKDATED, CLOCK_TOLERANCE, Certificate, Revocations, Roles, Terms, UnixTime};

use crate::{
    config::NodeConfig,
    error::{ApiError, ErrorKind},
    node::{
        files::load_key,
        membership::{read, time_of_day},
    },
    views::MemberView,
};

/// An authority's folder.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    key: SigningKey,
    /// Held while a command reads and changes the folder: two at once would issue one number twice, or lose a
    /// revocation.
    _lock: File,
}

/// A node to admit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its key.
    pub key: PublicKey,
    /// Its name, if known.
    pub label: Option<String>,
    /// Its configured roles, if known.
    pub roles: Roles,
    /// Where it reads its certificate, if known and on this machine.
    pub certificate: Option<PathBuf>,
}

/// The terms of a node's admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admission {
    /// Its roles in the network.
    pub roles: Roles,
    /// The names that it owns.
    pub names: Vec<Name>,
    /// For how many seconds from now on.
    pub seconds: u64,
}

/// A certificate of the list of those that were issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Its terms.
    pub terms: Terms,
    /// Whether it is revoked.
    pub is_revoked: bool,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// Maximum bytes of the list of issued certificates: enough for a million of them.
const ADMITTED_BYTES_MAX: u64 = 1 << 30;

/// Waits until no other command has the folder.
fn locked(folder: &Path) -> Result<File, ApiError> {
    let failed = |error: std::io::Error| ApiError::io("lock", folder.display(), &error);
    let file = File::open(folder).map_err(failed)?;
    match file.lock() {
        // Some network file systems have no locks.
        Err(error) if error.kind() != std::io::ErrorKind::Unsupported => Err(failed(error)),
        _ => Ok(file),
    }
}

impl Authority {
    /// Makes a new authority in `folder`, which must not hold one.
    ///
    /// # Errors
    /// [`ApiError`] if there is one already, or the folder cannot be written.
    pub fn create(folder: &Path) -> Result<Authority, ApiError> {
        let key = folder.join("authority");
        let taken = || {
            ApiError::usage(format!("'{}' is the folder of a network already", folder.display()))
                .with_hint("name another folder; `trib network show` shows this one")
        };
        if key.exists() {
            return Err(taken());
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| ApiError::io("make the folder", folder.display(), &error))?;
        let _lock = locked(folder)?;
        if key.exists() {
            return Err(taken());
        }
        let key = load_key(&key)?;
        let authority = Authority { folder: folder.into(), key, _lock };
        authority.write_revocations(1, BTreeSet::new(), BTreeSet::new())?;
        Ok(authority)
    }
    /// Opens the authority in `folder`.
    ///
    /// # Errors
    /// [`ApiError`] if the folder has no authority, or its key is open to others or damaged.
    pub fn open(folder: &Path) -> Result<Authority, ApiError> {
        let key = folder.join("authority");
        if !key.exists() {
            let message = format!("there is no network in '{}'", folder.display());
            return Err(ApiError::new(ErrorKind::Io, message)
                .with_hint("make one with `trib network new`, or name its folder with --network"));
        }
        let _lock = locked(folder)?;
        let key = load_key(&key)?;
        Ok(Authority { folder: folder.into(), key, _lock })
    }
    /// Its public key, for `authority` in the configs of the nodes.
    pub fn public(&self) -> PublicKey {
        self.key.public()
    }
    /// Where its list of revocations is.
    pub fn revocations_file(&self) -> PathBuf {
        self.folder.join("revoked")
    }
    /// Issues a certificate and writes it to the folder. Gives it and its file.
    ///
    /// # Errors
    /// [`ApiError`] if the label or the names are beyond the limits of a certificate, or a file cannot be written.
    pub fn admit(&self, key: PublicKey, label: &str, admission: Admission) -> Result<(Certificate, PathBuf), ApiError> {
        if label.contains('/') || label.starts_with('.') {
            let message = format!("the label '{}' cannot name the file of its certificate", label.escape_debug());
            return Err(ApiError::usage(message).with_hint("choose one without '/' and without a dot at its start"));
        }
        let issued = self.certificates()?;
        let serial = issued.iter().map(|certificate| certificate.terms().serial).max().unwrap_or(0) + 1;
        let now = time_of_day();
        let terms = Terms {
            serial,
            key,
            label: label.into(),
            roles: admission.roles,
            prefixes: admission.names,
            not_before: UnixTime(now.0.saturating_sub(BACKDATED)),
            not_after: now.after(admission.seconds),
        };
        let certificate = Certificate::issue(&self.key, terms)
            .map_err(|error| ApiError::usage(format!("cannot admit {key} as '{}': {error}", label.escape_debug())))?;
        let admitted = self.folder.join("admitted");
        let failed =
            |error: std::io::Error| ApiError::io("write the list of admitted nodes", admitted.display(), &error);
        let mut list = File::options().create(true).append(true).mode(0o600).open(&admitted).map_err(failed)?;
        // Durable before the certificate is handed out: outside the list it cannot be revoked by label or number.
        list.write_all(format!("{}\n", certificate.to_text()).as_bytes())
            .and_then(|()| list.sync_all())
            .map_err(failed)?;
        let file = self.folder.join(format!("{label}.certificate"));
        write_certificate(&file, &certificate)?;
        Ok((certificate, file))
    }
    /// The certificates that were issued, oldest first.
    ///
    /// # Errors
    /// [`ApiError`] if the list cannot be read.
    pub fn admitted(&self) -> Result<Vec<Admitted>, ApiError> {
        let (revoked, now) = (self.revocations()?, time_of_day());
        let admitted = |certificate: Certificate| {
            let terms = certificate.terms().clone();
            let is_revoked = revoked.revokes(terms.serial, &terms.key);
            Admitted { is_revoked, has_ended: terms.not_after <= now, terms }
        };
        Ok(self.certificates()?.into_iter().map(admitted).collect())
    }
    /// Revokes the nodes that `text` names: by a key, a serial number, or a label. Returns the newly revoked ones.
    ///
    /// # Errors
    /// [`ApiError`] if nothing has that name, or the list cannot be written.
    pub fn revoke(&self, text: &str) -> Result<(u64, Vec<Terms>), ApiError> {
        let before = self.revocations()?;
        let (mut serials, mut keys) = (before.serials().clone(), before.keys().clone());
        let issued = self.certificates()?;
        let by_key = text.parse::<PublicKey>().ok();
        let serial = text.parse::<u64>().ok();
        let is_meant = |terms: &Terms| Some(terms.key) == by_key || Some(terms.serial) == serial || terms.label == text;
        let terms = issued.iter().map(Certificate::terms);
        let meant: Vec<Terms> = terms.filter(|terms| is_meant(terms)).cloned().collect();
        if meant.is_empty() && by_key.is_none() {
            let message = format!("no admitted node has the key, number or label '{}'", text.escape_debug());
            return Err(ApiError::new(ErrorKind::NotFound, message).with_hint("`trib network show` lists them"));
        }
        keys.extend(by_key);
        serials.extend(meant.iter().map(|terms| terms.serial));
        let now = time_of_day();
        // An ended certificate, also by a clock that is behind, needs no place in the list.
        let ended = issued.iter().map(Certificate::terms).filter(|terms| terms.not_after.after(CLOCK_TOLERANCE) <= now);
        for terms in ended {
            serials.remove(&terms.serial);
        }
        let number = before.number() + 1;
        self.write_revocations(number, serials, keys)?;
        Ok((number, meant.into_iter().filter(|terms| !before.revokes(terms.serial, &terms.key)).collect()))
    }
    /// The list of revocations.
    ///
    /// # Errors
    /// [`ApiError`] if it is missing, damaged or not of this authority: an empty list in its place would allow all again.
    pub fn revocations(&self) -> Result<Revocations, ApiError> {
        let path = self.revocations_file();
        let list = read("list of revocations", &path, Revocations::from_text)?;
        list.filter(|list| list.is_signed_by(&self.public())).ok_or_else(|| {
            let message = format!("'{}' is missing, or not of this authority", path.display());
            ApiError::new(ErrorKind::Io, message).with_hint("take it from a backup, or from any node of the network")
        })
    }

    fn certificates(&self) -> Result<Vec<Certificate>, ApiError> {
        let path = self.folder.join("admitted");
        let failed = |error: std::io::Error| ApiError::io("read the list of admitted nodes", path.display(), &error);
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
            Ok(metadata) if metadata.len() > ADMITTED_BYTES_MAX => {
                return Err(failed(std::io::Error::other(format!("it has more than {ADMITTED_BYTES_MAX} bytes"))));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(&path).map_err(failed)?;
        let read = |(number, line): (usize, &str)| {
            Certificate::from_text(line).map_err(|error| {
                let message = format!("line {} of '{}' is no certificate: {error}", number + 1, path.display());
                ApiError::new(ErrorKind::Io, message).with_hint("take the file from a backup, or remove the line")
            })
        };
        text.lines().enumerate().map(read).collect()
    }
    fn write_revocations(
        &self,
        number: u64,
        serials: BTreeSet<u64>,
        keys: BTreeSet<PublicKey>,
    ) -> Result<(), ApiError> {
        let list =
            Revocations::issue(&self.key, number, serials, keys).map_err(|error| ApiError::usage(error.to_string()))?;
        replace(&self.revocations_file(), &list.to_text())
    }
}

impl Admitted {
    /// For people and programs.
    pub fn view(&self) -> MemberView {
        let state = match (self.is_revoked, self.has_ended) {
            (true, _) => "revoked",
            (false, true) => "ended",
            (false, false) => "valid",
        };
        MemberView {
            serial: self.terms.serial,
            label: self.terms.label.clone(),
            key: self.terms.key.to_string(),
            roles: self.terms.roles.words().map(ToString::to_string).collect(),
            names: self.terms.prefixes.iter().map(ToString::to_string).collect(),
            until: self.terms.not_after.0,
            state: state.into(),
        }
    }
}

impl Candidate {
    /// The node that `text` names: its public key, its config, its state folder or its key file.
    ///
    /// # Errors
    /// [`ApiError`] for any other text. Creates a missing key file of a config or a state folder, as the node's first
    /// start would.
    pub fn find(text: &str) -> Result<Candidate, ApiError> {
        if let Ok(key) = text.parse::<PublicKey>() {
            return Ok(Candidate { key, label: None, roles: Roles::HOST, certificate: None });
        }
        let path = Path::new(text);
        let of_key = |path: &Path| load_key(path).map(|key| key.public());
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = NodeConfig::load(path)?;
            let certificate = match &config.network {
                Some(network) => network.certificate.clone(),
                None => config.state_dir.join("certificate"),
            };
            let roles = config.roles.iter().map(|role| role.certified()).collect();
            let key = of_key(&config.key)?;
            return Ok(Candidate { key, label: Some(config.label), roles, certificate: Some(certificate) });
        }
        if path.is_dir() {
            let certificate = Some(path.join("certificate"));
            return Ok(Candidate { key: of_key(&path.join("key"))?, label: None, roles: Roles::HOST, certificate });
        }
        if path.exists() {
            return Ok(Candidate { key: of_key(path)?, label: None, roles: Roles::HOST, certificate: None });
        }
        Err(ApiError::usage(format!("'{}' is neither a key nor a file", text.escape_debug())).with_hint(
            "name the node by its public key ed25519:…, as `trib key show` and `trib status` print it, by its config \
             (.toml), its state folder, or its key file",
        ))
    }
}

/// Writes a certificate to where its node looks for it.
///
/// # Errors
/// [`ApiError`] if it cannot be written.
pub fn write_certificate(path: &Path, certificate: &Certificate) -> Result<(), ApiError> {
    replace(path, &certificate.to_text())
}

fn replace(path: &Path, line: &str) -> Result<(), ApiError> {
    tributary_net::disk::replace_file(path, &[line.as_bytes(), b"\n"])
        .map_err(|error| ApiError::io("write", path.display(), &error))
}
