//! A client of a daemon's control socket.
use std::{
    io::{self, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::mpsc,
};

use super::protocol::{Call, End, Reply, VERSION, read_line, to_line};
use crate::{
    api::{Api, Flow, Notify},
    error::{ApiError, ErrorKind, spawn},
    request::Request,
};

/// How long a line of a daemon may be: a status with thousands of publications.
const LINE_BYTES_MAX: usize = 64 << 20;

/// A daemon behind a control socket. Each request has its own connection, so any number may run at a time.
#[derive(Clone, Debug)]
pub struct SocketApi {
    path: PathBuf,
}

impl SocketApi {
    /// The daemon that listens at `path`.
    ///
    /// # Errors
    /// [`ApiError`] if no daemon answers there.
    pub fn open(path: &Path) -> Result<Self, ApiError> {
        let api = SocketApi { path: path.into() };
        api.connect()?;
        Ok(api)
    }

    fn connect(&self) -> Result<UnixStream, ApiError> {
        UnixStream::connect(&self.path).map_err(|error| {
            let path = self.path.display();
            let start = "start one with `trib node --config FILE`, and name its socket with --control or $TRIB_CONTROL";
            match error.kind() {
                io::ErrorKind::NotFound => {
                    ApiError::new(ErrorKind::Gone, format!("no daemon runs here: there is no '{path}'"))
                        .with_hint(start)
                }
                io::ErrorKind::ConnectionRefused => {
                    let message = format!("no daemon runs here: nothing listens at '{path}'");
                    ApiError::new(ErrorKind::Gone, message).with_hint(start)
                }
                io::ErrorKind::PermissionDenied => {
                    let message = format!("cannot reach the daemon at '{path}': {error}");
                    ApiError::new(ErrorKind::Io, message)
                        .with_hint("the socket belongs to the user who started the daemon")
                }
                _ => ApiError::io("connect to", path, &error),
            }
        })
    }
    /// Opens a second connection for the bytes of a fetch; the receiver gets the result of copying them.
    fn attach(&self, mut sink: Box<dyn Write + Send>) -> Result<(String, mpsc::Receiver<io::Result<()>>), ApiError> {
        use std::hash::{BuildHasher, Hasher};
        // The socket is its owner's alone; the token only keeps his own fetches apart.
        let token = format!("{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let connection = self.connect()?;
        (&connection).write_all(&to_line(&Call::attach(token.clone()))).map_err(|error| self.lost(&error))?;
        let mut reader = BufReader::new(connection);
        let reply = self.read(&mut reader)?;
        if let Some(error) = reply.error {
            return Err(error);
        }
        let (copied, copying) = mpsc::channel();
        let copy = move || {
            let result = io::copy(&mut reader, &mut sink).and_then(|_| sink.flush());
            // Before the connection closes, so that the result is known here when the daemon notices.
            let _ = copied.send(result);
        };
        spawn("stream", copy)?;
        Ok((token, copying))
    }
    fn read(&self, reader: &mut BufReader<UnixStream>) -> Result<Reply, ApiError> {
        let mut line = Vec::new();
        match read_line(reader, &mut line, LINE_BYTES_MAX) {
            Ok(true) => {}
            Ok(false) => {
                let message = format!("the daemon at '{}' went away", self.path.display());
                return Err(ApiError::new(ErrorKind::Gone, message).with_hint("its log says why"));
            }
            Err(error) => return Err(self.lost(&error)),
        }
        match serde_json::from_slice::<Reply>(&line) {
            Ok(reply) if reply.v == VERSION => Ok(reply),
            Ok(Reply { v, .. }) => {
                let message = format!("the daemon speaks version {v} of the control protocol, this program {VERSION}");
                Err(ApiError::new(ErrorKind::Protocol, message).with_hint("use `trib` of one release for both"))
            }
            Err(error) => {
                let message = format!("what answers at '{}' is no daemon of ours: {error}", self.path.display());
                Err(ApiError::new(ErrorKind::Protocol, message))
            }
        }
    }
    fn lost(&self, error: &io::Error) -> ApiError {
        ApiError::io("talk to the daemon at", self.path.display(), error)
    }
}

impl Api for SocketApi {
    fn ask(&self, request: Request, stream: Option<Box<dyn Write + Send>>, notify: Notify<'_>) -> Result<(), ApiError> {
        let attached = stream.map(|sink| self.attach(sink)).transpose()?;
        let (token, copying) = attached.unzip();
        let connection = self.connect()?;
        (&connection).write_all(&to_line(&Call::request(request, token))).map_err(|error| self.lost(&error))?;
        let mut reader = BufReader::new(connection);
        loop {
            let reply = self.read(&mut reader)?;
            if let Some(notice) = reply.notice
                && notify(notice) == Flow::Stop
            {
                // Closing the connection notifies the daemon.
                return Err(ApiError::new(ErrorKind::Cancelled, "the operation was stopped; verified chunks are kept"));
            }
            match reply.end {
                Some(End::Done) => break,
                Some(End::Error) => {
                    // The daemon only sees that the reader is gone.
                    if let Some(Ok(Err(error))) = copying.map(|copying| copying.try_recv()) {
                        return Err(ApiError::io("write", "standard output", &error));
                    }
                    let unexplained = || ApiError::new(ErrorKind::Protocol, "the daemon gave no reason");
                    return Err(reply.error.unwrap_or_else(unexplained));
                }
                None => {}
            }
        }
        match copying.map(|copying| copying.recv()) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(ApiError::io("write", "standard output", &error)),
            Some(Err(_)) => Err(ApiError::new(ErrorKind::Io, "the thread that writes the stream panicked")),
        }
    }
}
