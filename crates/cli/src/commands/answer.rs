//! Sends one request to a daemon, and prints answers.
use tributary::{Api, ApiError, Notice, Request};
use tributary_terminal::out;

use super::daemons;
use crate::{args::Control, tables};

/// Sends one request to a daemon and prints the answers.
pub(super) fn ask(control: &Control, request: Request, json: bool) -> Result<(), ApiError> {
    for notice in daemons::connect(control, &request)?.answers(request)? {
        print(&notice, json);
    }
    Ok(())
}
/// Prints an answer as data.
pub(super) fn print(notice: &Notice, json: bool) {
    if json {
        out::data(&notice.to_line());
        return;
    }
    for line in tables::answer(notice) {
        out::data(&line);
    }
}
