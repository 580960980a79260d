//! What a node is in a network with an authority: its certificate and the list of revocations, read from files.
use std::{io, path::Path, sync::Arc};
use tributary_content::SigningKey;
use tributary_core::Time;
use tributary_trust::{Certificate, Identity, Network, Revocations, Roles, TextError, UnixTime, WallClock};

use super::secure::Keep;
use crate::{
    config::{NetworkConfig, NodeConfig},
    error::{ApiError, ErrorKind},
};

/// The node's part in the network of its config; `None` if that has no authority.
///
/// # Errors
/// [`ApiError`] if a file cannot be read, or belongs to another network or key. A missing or ended certificate is no
/// error: the node runs and reports why others do not admit it.
pub(crate) fn load(config: &NodeConfig, key: &SigningKey) -> Result<Option<Identity>, ApiError> {
    let Some(of) = &config.network else { return Ok(None) };
    let mut network = Network::new(of.authority, of.access).with_clock_tolerance(of.clock_tolerance.as_secs());
    if let Some(revocations) = read("list of revocations", &of.revoked, Revocations::from_text)? {
        network.revoke(revocations).map_err(|refusal| {
            ApiError::usage(format!("cannot use '{}': {refusal}", of.revoked.display()))
                .with_hint("copy the file `revoked` from the folder of the network's authority")
        })?;
    }
    let certificate = read("certificate", &of.certificate, Certificate::from_text)?;
    if let Some(certificate) = &certificate {
        check(of, certificate, key)?;
    }
    Ok(Some(Identity::new(key.clone(), certificate, network, wall_clock())))
}

/// Writes neighbours' lists of revocations where the node reads them at its next start.
pub(crate) fn keep(config: &NodeConfig) -> Keep {
    let of = config.network.as_ref().map(|network| (network.revoked.clone(), network.authority));
    Box::new(move |list: &Revocations| {
        let Some((path, authority)) = &of else { return Ok(()) };
        let known = read("list of revocations", path, Revocations::from_text).ok().flatten();
        // The operator may have stored a newer one there that has not been read yet.
        if known.is_some_and(|known| known.number() >= list.number() && known.is_signed_by(authority)) {
            return Ok(());
        }
        tributary_net::disk::replace_file(path, &[list.to_text().as_bytes(), b"\n"])
            .map_err(|error| format!("cannot write '{}': {error}", path.display()))
    })
}

/// The system's time of day.
fn wall_clock() -> WallClock {
    Arc::new(|_: Time| time_of_day())
}
/// The time of day by the machine's clock.
pub fn time_of_day() -> UnixTime {
    UnixTime(tributary_net::wall_clock().as_secs())
}

/// Sentences about the roles that a node plays by its config, and that its certificate does not allow.
pub(crate) fn warnings(config: &NodeConfig, identity: &Identity) -> Vec<String> {
    let wanted: Roles = config.roles.iter().map(|role| role.certified()).collect();
    let has = identity.certificate().map_or(Roles::HOST, |certificate| certificate.terms().roles);
    let key = identity.key();
    let lacking = wanted.without(has);
    let mut warnings = Vec::new();
    if let (None, Some(network)) = (identity.certificate(), &config.network) {
        warnings.push(format!(
            "there is no certificate in '{}': the authority of the network makes one with `trib network admit {key}`",
            network.certificate.display()
        ));
    }
    if lacking != Roles::HOST {
        let flags = lacking.words().map(|word| format!(" --role {word}")).collect::<String>();
        warnings.push(format!(
            "other nodes do not accept this node as {lacking}: its certificate does not say so; the authority allows it \
             with `trib network admit {key}{flags}`"
        ));
    }
    warnings
}

fn check(network: &NetworkConfig, certificate: &Certificate, key: &SigningKey) -> Result<(), ApiError> {
    let path = network.certificate.display();
    let wrong = |why: String| {
        ApiError::usage(format!("cannot use the certificate '{path}': {why}"))
            .with_hint(format!("the authority makes one for this node with `trib network admit {}`", key.public()))
    };
    let of = certificate.terms();
    if of.key != key.public() {
        return Err(wrong(format!("it is for '{}' ({}), and this node's key is {}", of.label, of.key, key.public())));
    }
    if !certificate.is_of(&network.authority) {
        return Err(wrong(format!("it is of another network than {}", network.authority)));
    }
    if !certificate.is_signed_by(&network.authority) {
        return Err(wrong(format!("it does not have the signature of {}", network.authority)));
    }
    Ok(())
}

/// The content of a file; `None` without the file.
pub(crate) fn read<T>(
    what: &str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, TextError>,
) -> Result<Option<T>, ApiError> {
    let failed = |error: &io::Error| ApiError::io(&format!("read the {what}"), path.display(), error);
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text)
            .map(Some)
            .map_err(|error| ApiError::new(ErrorKind::Io, format!("'{}' is not a {what}: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}
