//! Starting, commanding and stopping the thread that runs a node.
use std::{
    any::Any,
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::{Builder, JoinHandle},
};

use parking_lot::Mutex;
use tributary_core::{FaceId, Node, Time, event::Event, link::LinkChange};

use crate::{
    clock::Clock,
    config::{DriverConfig, FaceConfig},
    error::DriverError,
    event_loop::{Command, EventLoop},
    faces::Faces,
    platform::Wake,
    stats::DriverStats,
    stream::{StreamAddress, StreamFaceConfig, table::Streams},
};

/// Runs one node on one thread with real sockets.
#[derive(Debug)]
pub struct Driver;

impl Driver {
    /// Opens the sockets of `config`, then starts a thread that makes a node and runs it.
    ///
    /// `on_event` gets every event of the node on that thread, and a [`Event::Note`] for each new or removed dynamic
    /// face; the node waits for its return. Time zero is the moment of the call.
    ///
    /// # Errors
    /// If a socket cannot be opened, two faces contradict each other, or no thread can be started.
    pub fn spawn<N: Node + 'static>(
        make_node: impl FnOnce() -> N + Send + 'static,
        config: DriverConfig,
        on_event: impl FnMut(Time, Event) + Send + 'static,
    ) -> Result<DriverHandle<N>, DriverError> {
        let (thread_name, bell) = (config.thread_name.clone(), config.bell.clone());
        let rung = bell.clone();
        let (streams, stream_addrs) = Streams::open(&config)?;
        let (faces, listen_ports) = Faces::open(config)?;
        let listen_addrs = listen_ports.iter().map(|port| faces.ports[*port].local).collect();
        let mut warnings = Vec::new();
        for warning in faces.ports.iter().flat_map(|port| &port.warnings) {
            tracing::warn!("{warning}");
            warnings.push(warning.clone());
        }
        let failed =
            |error: std::io::Error| DriverError::Refused(format!("cannot start the thread of a driver: {error}"));
        let wake = Arc::new(Wake::new().map_err(failed)?);
        let (sender, commands) = mpsc::channel();
        let clock = Clock::new();
        let wake_loop = Arc::clone(&wake);
        bell.attach(&wake);
        let run =
            move || EventLoop::new(make_node(), faces, streams, clock, on_event, commands, (wake_loop, rung)).run();
        let thread = Builder::new().name(thread_name).spawn(run).map_err(failed)?;
        let thread = Mutex::new(Thread::Running(thread));
        Ok(DriverHandle { sender, wake, thread, clock, listen_addrs, stream_addrs, warnings })
    }
}

/// The owner's end of a running driver. It may be shared between threads; dropping it stops the driver.
#[derive(Debug)]
pub struct DriverHandle<N> {
    sender: mpsc::Sender<Command<N>>,
    wake: Arc<Wake>,
    thread: Mutex<Thread>,
    clock: Clock,
    listen_addrs: Vec<SocketAddr>,
    stream_addrs: Vec<StreamAddress>,
    warnings: Vec<String>,
}

#[derive(Debug)]
enum Thread {
    Running(JoinHandle<DriverStats>),
    Stopped(Box<DriverStats>),
    Panicked(String),
}

impl<N> DriverHandle<N> {
    /// Runs `command` on the node's thread, pumps the node, and returns the command's result.
    ///
    /// # Errors
    /// If the driver was stopped, or the node panicked, be it by this command.
    pub fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut N, Time) -> R + Send + 'static,
    ) -> Result<R, DriverError> {
        self.ask(|reply| {
            Command::Call(Box::new(move |node, now| {
                // The caller may have stopped waiting for its answer.
                let _ = reply.send(command(node, now));
            }))
        })
    }
    /// Runs `command` on the node's thread and pumps the node, without waiting for either.
    ///
    /// # Errors
    /// If the driver was stopped or the node panicked.
    pub fn post(&self, command: impl FnOnce(&mut N, Time) + Send + 'static) -> Result<(), DriverError> {
        self.send(Command::Call(Box::new(command)))
    }
    /// The counters so far; of a stopped driver the last ones.
    ///
    /// # Errors
    /// If the node panicked.
    pub fn stats(&self) -> Result<DriverStats, DriverError> {
        match self.ask(Command::Stats) {
            Err(DriverError::Stopped) => self.join(),
            result => result,
        }
    }
    /// Adds a face with a known peer.
    ///
    /// # Errors
    /// If its socket cannot be opened, it contradicts another face, or the driver has ended.
    pub fn add_face(&self, face: FaceConfig) -> Result<(), DriverError> {
        self.ask(|reply| Command::AddFace(Box::new(face), reply))?
    }
    /// Adds a stream to a known peer, and starts to connect.
    ///
    /// # Errors
    /// If the face exists already, no framing was set, or the driver has ended.
    pub fn add_stream(&self, face: StreamFaceConfig) -> Result<(), DriverError> {
        self.ask(|reply| Command::AddStream(face, reply))?
    }
    /// Removes a face. Packets that wait for it are dropped; its socket stays open.
    ///
    /// # Errors
    /// If the face does not exist, or the driver has ended.
    pub fn remove_face(&self, face: FaceId) -> Result<(), DriverError> {
        self.ask(|reply| Command::RemoveFace(face, reply))?
    }
    /// Removes a face, and ignores its peer for some time, because its next packet would open a dynamic face.
    ///
    /// # Errors
    /// If the face does not exist, or the driver was stopped.
    pub fn leave_face(&self, face: FaceId) -> Result<(), DriverError> {
        self.ask(|reply| Command::LeaveFace(face, reply))?
    }
    /// Changes the emulated link of a face.
    ///
    /// # Errors
    /// If the face does not exist, it has no emulated link, or the driver has ended.
    pub fn change_link(&self, face: FaceId, change: LinkChange) -> Result<(), DriverError> {
        self.ask(|reply| Command::ChangeLink(face, change, reply))?
    }
    /// Where the listeners are bound, in the order of their configuration.
    pub fn listen_addrs(&self) -> &[SocketAddr] {
        &self.listen_addrs
    }
    /// Where streams are accepted, in the order of the configuration.
    pub fn stream_addrs(&self) -> &[StreamAddress] {
        &self.stream_addrs
    }
    /// Warnings about this machine for a person, such as socket buffers smaller than requested.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
    /// The clock of the node.
    pub fn clock(&self) -> Clock {
        self.clock
    }
    /// Ends the thread after the earlier commands, and returns the final counters. A repeated call returns the same.
    ///
    /// # Errors
    /// If the node panicked.
    pub fn stop(&self) -> Result<DriverStats, DriverError> {
        // If the thread has ended already, joining returns its error.
        let _ = self.send(Command::Stop);
        self.join()
    }

    fn ask<R>(&self, command: impl FnOnce(mpsc::SyncSender<R>) -> Command<N>) -> Result<R, DriverError> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.send(command(reply))?;
        // The thread drops the reply, unanswered, when it ends.
        answer.recv().map_err(|_| self.wait_for_end())
    }
    fn send(&self, command: Command<N>) -> Result<(), DriverError> {
        self.sender.send(command).map_err(|_| self.wait_for_end())?;
        self.wake.ring();
        Ok(())
    }
    /// Waits until the node's thread has ended: it was stopped, or the node panicked.
    pub fn wait_for_end(&self) -> DriverError {
        match self.join() {
            Ok(_) => DriverError::Stopped,
            Err(error) => error,
        }
    }
    fn join(&self) -> Result<DriverStats, DriverError> {
        let mut thread = self.thread.lock();
        if let Thread::Running(_) = *thread
            && let Thread::Running(running) = std::mem::replace(&mut *thread, Thread::Panicked(String::new()))
        {
            *thread = match running.join() {
                Ok(stats) => Thread::Stopped(Box::new(stats)),
                Err(panic) => Thread::Panicked(panic_message(panic)),
            };
        }
        match &*thread {
            Thread::Stopped(stats) => Ok((**stats).clone()),
            Thread::Panicked(message) => Err(DriverError::Panicked { message: message.clone() }),
            Thread::Running(_) => unreachable!("a running thread was joined above"),
        }
    }
}
impl<N> Drop for DriverHandle<N> {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast::<&str>().map_or("no message".into(), |message| (*message).into()),
    }
}
