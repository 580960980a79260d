//! `--on-done`: a command of the user for each object that is complete.
use std::{
    io,
    os::fd::AsFd,
    process::{Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread::JoinHandle,
};
use tributary::{
    ApiError, Notice, spawn,
    views::{DoneView, ReceivedView},
};

/// Runs the command for each object in turn, in parallel to the program. Dropping it waits for the remaining objects.
pub(crate) struct Hook {
    objects: Option<Sender<Object>>,
    thread: Option<JoinHandle<()>>,
}

/// The environment of a command: names come from the network and are no part of the command line.
struct Object {
    name: String,
    bytes: u64,
    output: Option<String>,
}

impl Hook {
    /// The hook of an option, whose command it runs with `sh`.
    pub(crate) fn of(command: Option<&String>) -> Result<Option<Hook>, ApiError> {
        let Some(command) = command.cloned() else { return Ok(None) };
        let (objects, waiting) = channel::<Object>();
        let thread = spawn("on-done", move || waiting.iter().for_each(|object| run(&command, &object)))?;
        Ok(Some(Hook { objects: Some(objects), thread: Some(thread) }))
    }
    /// Runs the command if the notice reports a complete object.
    pub(crate) fn on(&self, notice: &Notice) {
        let (name, bytes, output) = match notice {
            Notice::Done(DoneView { name, bytes, output, .. }) => (name, *bytes, output.clone()),
            Notice::Received(ReceivedView { name, bytes, output, .. }) => (name, *bytes, Some(output.clone())),
            _ => return,
        };
        // The thread takes everything until the hook is dropped.
        let object = Object { name: name.clone(), bytes, output };
        let _ = self.objects.as_ref().map(|objects| objects.send(object));
    }
}
impl Drop for Hook {
    fn drop(&mut self) {
        drop(self.objects.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(command: &str, object: &Object) {
    let Object { name, bytes, output } = object;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    shell.env("TRIB_NAME", name).env("TRIB_BYTES", bytes.to_string());
    match output {
        Some(output) => shell.env("TRIB_OUTPUT", output),
        None => shell.env_remove("TRIB_OUTPUT"),
    };
    // Standard output may carry the object's bytes.
    if let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
        shell.stdout(stderr);
    }
    match shell.status() {
        Ok(status) if status.success() => {}
        Ok(status) => tracing::warn!("the command of --on-done for '{name}' has failed: {status}"),
        Err(error) => tracing::warn!("the command of --on-done for '{name}' cannot be started: {error}"),
    }
}
