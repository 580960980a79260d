//! The one interface that every front end uses, in the same process or over the control socket.
//!
//! An operation is a [`Request`]; its result is a series of [`Notice`]. [`LocalApi`](crate::LocalApi) executes
//! requests, [`SocketApi`](crate::SocketApi) sends them to a daemon, and a front cannot tell which it has.
use std::io::Write;

use crate::{error::ApiError, notice::Notice, request::Request};

/// Receives notices and decides whether to continue.
pub type Notify<'a> = &'a mut dyn FnMut(Notice) -> Flow;

/// Carries out requests.
pub trait Api {
    /// Executes `request` and reports its progress to `tell`, the answer last.
    ///
    /// `stream` receives the bytes of a [`Get`](crate::Get) with [`Output::Stream`](crate::Output::Stream) in order;
    /// `None` for all other requests. `tell` is called at least about every
    /// [`PROGRESS_INTERVAL`](crate::notice::PROGRESS_INTERVAL) during a `Get`, and stops the operation by returning
    /// [`Flow::Stop`]; that cancels a fetch, and its verified chunks are kept.
    ///
    /// # Errors
    /// [`ApiError`] names the operation, its object, the reason, and a remedy.
    fn ask(&self, request: Request, stream: Option<Box<dyn Write + Send>>, notify: Notify<'_>) -> Result<(), ApiError>;

    /// Executes a request whose answer is one object or a few, and returns them all.
    ///
    /// # Errors
    /// The errors of [`Api::ask`].
    fn answers(&self, request: Request) -> Result<Vec<Notice>, ApiError> {
        let mut answers = Vec::new();
        self.ask(request, None, &mut |notice| {
            answers.push(notice);
            Flow::Continue
        })?;
        Ok(answers)
    }
}

/// Whether an operation continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends as soon as possible.
    Stop,
}
