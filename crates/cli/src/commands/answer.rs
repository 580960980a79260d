//! Asks a daemon one thing, and prints answers.
use tributary::{Api, ApiError, Notice, Request};

use super::choice;
use crate::{args::Control, out, tables};

/// Asks a daemon one thing and prints the answers.
pub(super) fn ask(control: &Control, request: Request, json: bool) -> Result<(), ApiError> {
    for told in choice::connect(control, &request)?.answers(request)? {
        print(&told, json);
    }
    Ok(())
}
/// Prints an answer as data.
pub(super) fn print(told: &Notice, json: bool) {
    if json {
        out::data(&told.to_line());
        return;
    }
    for line in tables::answer(told) {
        out::data(&line);
    }
}
