//! How a failure is told.
use tributary::{ApiError, Notice};

use crate::{out, tables};

/// Reports a failure: on stderr for a person, and as the last JSON line for a program.
pub(crate) fn report(error: &ApiError, json: bool) {
    if json {
        out::data(&Notice::from(error).to_line());
    }
    if out::is_json() {
        return tracing::error!("{error}");
    }
    format!("error: {error}").lines().for_each(|line| out::talk(&tables::plain(line)));
}
