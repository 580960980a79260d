//! How an error is reported.
use std::{io::IsTerminal, path::Path};
use tributary::{ApiError, ConfigErrors, Notice, config::Drawing, views::counted};

use crate::{arguments, out, table};

/// Reports a failure: on stderr for a person, and as the last JSON line for a program.
pub fn report(error: &ApiError, json: bool) {
    if json {
        out::data(&Notice::from(error).to_line());
    }
    if out::is_json() {
        return tracing::error!("{error}");
    }
    format!("error: {error}").lines().for_each(|line| out::talk(&table::plain(line)));
}

/// The errors in a config or scenario: drawn with their lines for a person, in words for a program.
pub fn mistakes(path: &Path, errors: &ConfigErrors) -> ApiError {
    if arguments::wants_json() {
        return ApiError::usage(errors.to_string());
    }
    let drawing = match std::io::stderr().is_terminal() && out::has_colour() {
        true => Drawing::Coloured,
        false => Drawing::Plain,
    };
    out::talk(errors.render(drawing, 100).trim_end());
    ApiError::usage(format!("'{}' has {}", path.display(), counted(errors.problems().len(), "mistake")))
}
