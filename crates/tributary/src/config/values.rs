//! Values that many sections have: times, sizes, keys; and the reading of a document.
use std::{os::unix::fs::PermissionsExt, path::Path};
use toml::de::DeTable;
use tributary_core::{ByteCount, Duration, units::parse_duration};

use super::{
    error::{ConfigErrors, Problem},
    reader::{Problems, Section},
};

/// What to write where a time belongs.
pub const DURATION_HINT: &str = "write a time with its unit, such as \"20ms\" or \"1.5s\"";
/// What to write where a rate belongs.
pub const RATE_HINT: &str = "write a rate with its unit, such as \"800kbps\" or \"20Mbps\"";
/// How to make a shared key.
pub(crate) const SECRET_HINT: &str = "make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE";
/// What to write where a size belongs.
pub(crate) const SIZE_HINT: &str = "write a size with its unit, such as \"64KiB\" or \"1GiB\"";

/// Reads a document by `read`, which returns `None` only after it has reported a problem, and checks that it knew every
/// key.
///
/// # Errors
/// [`ConfigErrors`] with every problem, each with its line.
pub fn document<T>(file: &str, text: &str, read: impl FnOnce(&Section<'_>) -> Option<T>) -> Result<T, ConfigErrors> {
    let problems = Problems::default();
    let (document, syntax) = DeTable::parse_recoverable(text);
    if !syntax.is_empty() {
        let problems = syntax.iter().map(|error| Problem {
            span: error.span().unwrap_or(0..0),
            message: format!("this is not TOML: {}", error.message()),
            hint: "put texts in quotes, sections in [brackets], and each key = value on a separate line".into(),
        });
        let errors = ConfigErrors::new(file, text, problems.collect());
        return Err(errors.expect("there is at least one problem"));
    }
    let root = Section::root(&document, &problems);
    let config = read(&root);
    root.finish();
    match (config, ConfigErrors::new(file, text, problems.into_inner())) {
        (Some(config), None) => Ok(config),
        (_, Some(errors)) => Err(errors),
        (None, None) => unreachable!("what is missing was reported"),
    }
}

/// A time from `min` to `max`.
pub fn duration(section: &Section<'_>, key: &'static str, min: Duration, max: Duration) -> Option<Duration> {
    section.declare(key, || vec![format!("{min:?} to {max:?}")]);
    section.read(key, DURATION_HINT, |text| {
        let value = parse_duration(text).map_err(|error| error.to_string())?;
        if (min..=max).contains(&value) { Ok(value) } else { Err(format!("{text} is not from {min:?} to {max:?}")) }
    })
}
/// Sets `field` to a time from `min` to `max`, if `key` is present.
pub(crate) fn set_duration(
    section: &Section<'_>,
    key: &'static str,
    (min, max): (Duration, Duration),
    field: &mut Duration,
) {
    *field = duration(section, key, min, max).unwrap_or(*field);
}
/// A size in bytes from `min` to `max`.
pub fn size(section: &Section<'_>, key: &'static str, min: u64, max: u64) -> Option<u64> {
    section.declare(key, || vec![format!("{} to {}", ByteCount(min), ByteCount(max))]);
    section.read(key, SIZE_HINT, |text| {
        let value: ByteCount = text.parse().map_err(|error: tributary_core::units::UnitError| error.to_string())?;
        if (min..=max).contains(&value.0) {
            Ok(value.0)
        } else {
            Err(format!("{text} is not from {} to {}", ByteCount(min), ByteCount(max)))
        }
    })
}

/// Sets `field` to a size in bytes from `min` to `max`, if `key` is present.
pub(crate) fn set_size<T: TryFrom<u64>>(
    section: &Section<'_>,
    key: &'static str,
    (min, max): (u64, u64),
    field: &mut T,
) {
    if let Some(Ok(bytes)) = size(section, key, min, max).map(T::try_from) {
        *field = bytes;
    }
}

/// Reads a shared key, a file of secret bytes that its owner alone may read.
pub(crate) fn read_secret(file: &Path) -> Result<Vec<u8>, String> {
    let secret = read_private(file, u64::MAX)?;
    match secret.len() {
        SHARED_KEY_BYTES_MIN.. => Ok(secret),
        bytes => {
            Err(format!("'{}' has {bytes} bytes; a shared key has at least {SHARED_KEY_BYTES_MIN}", file.display()))
        }
    }
}

/// Reads a file of at most `bytes_max` bytes that only its owner may read.
pub(crate) fn read_private(file: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("cannot read '{}': {error}", file.display());
    let about = std::fs::metadata(file).map_err(failed)?;
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let file = file.display();
        return Err(format!("'{file}' is open to others (mode {mode:03o}); close it with: chmod 600 '{file}'"));
    }
    match about.len() {
        bytes if bytes > bytes_max => Err(format!("'{}' has {bytes} bytes, more than {bytes_max}", file.display())),
        _ => std::fs::read(file).map_err(failed),
    }
}

/// Minimum bytes of a shared key; shorter ones are soon guessed. RFC 2104 §3 discourages fewer than 32.
const SHARED_KEY_BYTES_MIN: usize = 16;
