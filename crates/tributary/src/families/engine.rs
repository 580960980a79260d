//! The engine under the records of a resolver: names of `mf`, rendezvous records of `psi`.
use std::{collections::VecDeque, path::Path};
use tributary_directory::engine::{Answer, Engine, Priority, Request};
use tributary_net::Bell;
use tributary_web::etcd::{Etcd, EtcdOptions};

use crate::{
    config::{EngineConfig, EtcdConfig, values::read_private},
    error::ApiError,
};

/// Maximum bytes of a password, and of a certificate's key.
const PASSWORD_BYTES_MAX: u64 = 4_096;
const KEY_BYTES_MAX: u64 = 1 << 20;
const HINT: &str = "look at the files that [resolver] names";

/// Checks that the files that an engine needs can be used. It does not contact the engine, which may start later.
pub(super) fn check(config: &EngineConfig) -> Result<(), ApiError> {
    match config {
        EngineConfig::Embedded => Ok(()),
        EngineConfig::Etcd(etcd) => options(etcd, "")
            .and_then(|options| options.check().map_err(|error| error.to_string()))
            .map_err(|reason| ApiError::usage(format!("cannot use the engine etcd: {reason}")).with_hint(HINT)),
    }
}

/// Starts the engine; `None` for the embedded one. It rings `bell` when it has an answer. Each `family` has a separate
/// folder of records.
pub(super) fn start(config: &EngineConfig, family: &str, bell: &Bell) -> Option<Box<dyn Engine>> {
    let EngineConfig::Etcd(etcd) = config else { return None };
    let bell = bell.clone();
    let started = options(etcd, family)
        .and_then(|options| Etcd::start(&options, move || bell.ring()).map_err(|error| error.to_string()));
    Some(match started {
        Ok(engine) => Box::new(engine),
        // The files have been checked, so the system lacks memory or descriptors. The embedded engine would hold other names.
        Err(reason) => Box::new(Unusable { reason, failed: VecDeque::new() }),
    })
}

fn options(config: &EtcdConfig, family: &str) -> Result<EtcdOptions, String> {
    let mut options = EtcdOptions::new(config.endpoints.clone(), &format!("{}{family}/", config.prefix));
    options.ca_certificates.extend(config.ca_certificate.clone());
    if let Some((_, key)) = &config.certificate {
        read_private(key, KEY_BYTES_MAX)?;
    }
    options.certificate = config.certificate.clone();
    if let Some((user, file)) = &config.user {
        options.user = Some((user.clone(), password(file)?));
    }
    Ok(options)
}

fn password(file: &Path) -> Result<String, String> {
    let text = String::from_utf8(read_private(file, PASSWORD_BYTES_MAX)?);
    let text = text.map_err(|_| format!("the password in '{}' is no UTF-8", file.display()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_string())
}

/// Replaces an engine that failed to start: every request fails.
struct Unusable {
    reason: String,
    failed: VecDeque<Answer>,
}

impl Engine for Unusable {
    fn name(&self) -> &'static str {
        "etcd"
    }
    fn ask(&mut self, request: Request, _: Priority) {
        let (id, reason) = (request.id(), self.reason.clone());
        self.failed.push_back(Answer::Failed { id, reason, is_full: false });
    }
    fn poll(&mut self) -> Option<Answer> {
        self.failed.pop_front()
    }
}
