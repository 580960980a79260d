//! `trib ndn-key`.
use std::path::Path;
use tributary_terminal::out;

use tributary::{
    ApiError, ErrorKind, Notice,
    key_chain::{self, KeyChain},
    load_key, time_of_day,
};
use tributary_ndn::Certificate;

use super::answer::print;
use crate::args::{Keys, NdnKey, Validity};

const DAY_SECONDS: u64 = 86_400;

/// Carries a command about NDN keys out.
pub(crate) fn run(command: &NdnKey, json: bool) -> Result<(), ApiError> {
    let now = time_of_day().0;
    match command {
        NdnKey::New { identity, algorithm, from, validity, keys } => {
            let mut chain = open(keys)?;
            let seed = match from {
                Some(file) if !file.exists() => {
                    let message = format!("there is no key file '{}'", file.display());
                    return Err(ApiError::new(ErrorKind::Io, message).with_hint("make one with `trib key new`"));
                }
                Some(file) => Some(secret_in(file)?),
                None => None,
            };
            let made = chain.create(identity, *algorithm, seed, (now, seconds(validity)))?;
            print(&notice(&chain, &made), json);
        }
        NdnKey::Show { identity, keys } => {
            let chain = open(keys)?;
            let mut shown = chain.certificates.clone();
            shown.retain(|of| identity.as_ref().is_none_or(|wanted| of.identity() == *wanted));
            shown.sort_by_cached_key(|of| (of.key_name(), key_chain::rank(of)));
            shown.iter().for_each(|certificate| print(&notice(&chain, certificate), json));
        }
        NdnKey::Export { identity, output, secret, keys } => {
            let credential = open(keys)?.credential(identity, now)?;
            let mut text = framed(credential.certificates[0].packet())?;
            if *secret {
                let packet = credential.secret.encode();
                text += &framed(&packet.map_err(|error| ApiError::usage(error.to_string()))?)?;
            }
            match output {
                Some(file) if *secret => key_chain::write_private(file, &text)?,
                output => write(output.as_deref(), &text)?,
            }
        }
        NdnKey::Import { file, keys } => {
            let mut chain = open(keys)?;
            let (secrets, certificates) = key_chain::contents_of(file).map_err(|message| refused(&message))?;
            for secret in &secrets {
                chain.add_secret(secret)?;
            }
            for certificate in &certificates {
                chain.add(certificate)?;
                print(&notice(&chain, certificate), json);
            }
        }
        NdnKey::Sign { request, signer, issuer, output, validity, keys } => {
            let credential = open(keys)?.credential(signer, now)?;
            let request = key_chain::certificate_in(request).map_err(|message| refused(&message))?;
            let issued = KeyChain::issue(&credential, &request, issuer, (now, seconds(validity)))?;
            write(output.as_deref(), &framed(issued.packet())?)?;
        }
    }
    Ok(())
}

fn open(keys: &Keys) -> Result<KeyChain, ApiError> {
    let folder = keys.keys.clone().or_else(key_chain::default_folder);
    let nowhere = || ApiError::usage("there is no home folder for a key chain").with_hint("name one: --keys DIR");
    KeyChain::open(&folder.ok_or_else(nowhere)?)
}
fn notice(chain: &KeyChain, of: &Certificate) -> Notice {
    let (not_before, not_after) = of.validity();
    Notice::Certificate {
        name: of.name().to_string(),
        identity: of.identity().to_string(),
        algorithm: format!("{:?}", of.key().kind()),
        issuer: of.issuer().map(ToString::to_string),
        not_before: not_before.into(),
        not_after: not_after.into(),
        has_key: chain.has_secret(&of.key_name()),
    }
}
/// The secret of a publisher's key, in a file that [`load_key`] accepts.
fn secret_in(file: &Path) -> Result<[u8; 32], ApiError> {
    load_key(file)?;
    let text = std::fs::read_to_string(file).map_err(|error| ApiError::io("read", file.display(), &error))?;
    let digits = text.trim().strip_prefix("ed25519-secret:").unwrap_or_default();
    let mut secret = [0; 32];
    for (at, byte) in secret.iter_mut().enumerate() {
        let pair = digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        *byte = pair.ok_or_else(|| refused(&format!("'{}' holds no key", file.display())))?;
    }
    Ok(secret)
}
fn framed(packet: &[u8]) -> Result<String, ApiError> {
    key_chain::framed(packet).map_err(ApiError::usage)
}
fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Io, message)
}
fn write(output: Option<&Path>, text: &str) -> Result<(), ApiError> {
    match output {
        Some(file) => std::fs::write(file, text).map_err(|error| ApiError::io("write", file.display(), &error)),
        None => {
            text.lines().for_each(out::data);
            Ok(())
        }
    }
}
fn seconds(validity: &Validity) -> u64 {
    u64::from(validity.days) * DAY_SECONDS
}
