//! HTTP/1.1 over the kernel's TCP: a small file server with ranges, one thread a connection, for machines without nginx
//! and for congestion controls other than the system's; and a client that resumes over a new connection where an old
//! one ended.
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::{Component, Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{Fetched, tcp::listen_by};
use crate::Outcome;

/// Serves the files of `folder` at `listen`, by `congestion` or the system's congestion control, and passes `ready` the
/// address.
///
/// # Errors
/// If no socket can be opened, or the kernel does not have that congestion control.
pub(crate) fn serve(
    folder: &Path,
    listen: SocketAddr,
    congestion: Option<&str>,
    ready: impl FnOnce(SocketAddr),
) -> Outcome {
    let listener = match congestion {
        Some(congestion) => listen_by(listen, congestion)?,
        None => TcpListener::bind(listen)?,
    };
    ready(listener.local_addr()?);
    for stream in listener.incoming() {
        let (stream, folder) = (stream?, folder.to_path_buf());
        // When a client leaves, only its own thread ends.
        thread::spawn(move || drop(answer_all(stream, &folder)));
    }
    Ok(())
}

fn answer_all(stream: TcpStream, folder: &Path) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = Request::read(&mut reader)? {
        answer(&stream, folder, &request)?;
    }
    Ok(())
}

/// The relevant parts of a request.
struct Request {
    is_head: bool,
    path: PathBuf,
    range: Option<(u64, Option<u64>)>,
}

impl Request {
    /// The next request of a connection; `None` at its end.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let is_head = words.next() == Some("HEAD");
        let path = PathBuf::from(words.next().unwrap_or("/").trim_start_matches('/'));
        let mut range = None;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
                return Ok(Some(Request { is_head, path, range }));
            }
            let header = header.to_ascii_lowercase();
            if let Some((start, end)) =
                header.strip_prefix("range: bytes=").and_then(|value| value.trim().split_once('-'))
            {
                range = start.parse().ok().map(|start| (start, end.parse().ok()));
            }
        }
    }
}

fn answer(mut stream: &TcpStream, folder: &Path, request: &Request) -> io::Result<()> {
    let is_plain = request.path.components().all(|component| matches!(component, Component::Normal(_)));
    let file = if is_plain { File::open(folder.join(&request.path)).ok() } else { None };
    let Some(mut file) = file else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    };
    let size = file.metadata()?.len();
    let (start, last) = request.range.map_or((0, None), |range| range);
    let end = last.map_or(size, |last| size.min(last + 1));
    let status = if request.range.is_some() {
        format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{size}", end.saturating_sub(1))
    } else {
        "200 OK".into()
    };
    let length = end.saturating_sub(start);
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nAccept-Ranges: bytes\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    if request.is_head {
        return Ok(());
    }
    file.seek(SeekFrom::Start(start))?;
    // The standard library hands this to sendfile or splice where the kernel can.
    io::copy(&mut file.take(length), &mut stream)?;
    Ok(())
}

/// A file that a client fetches, and the silence after which it closes a connection: it requests the missing bytes over
/// a new one.
pub(crate) struct Download {
    /// Where the server is.
    pub(crate) server: SocketAddr,
    /// The file's name there.
    pub(crate) name: String,
    /// Where it is written.
    pub(crate) output: PathBuf,
    /// How many bytes it has.
    pub(crate) size: u64,
    /// How long a connection may be silent.
    pub(crate) patience: Duration,
    /// Whether a connection is given up as soon as this host's address towards the server changes.
    pub(crate) follow: bool,
}

/// How often a waiting client checks whether to continue.
const LOOK: Duration = Duration::from_millis(2);
/// Bytes per read and write.
const UNIT_BYTES: usize = 64 << 10;

impl Download {
    /// Fetches it; the measured time starts before the first connection.
    ///
    /// # Errors
    /// If the server answers with another range than the requested one, or the file cannot be written.
    pub(crate) fn run(&self) -> Outcome<Fetched> {
        let start = Instant::now();
        let mut file = File::create(&self.output)?;
        let mut bytes = 0;
        while bytes < self.size {
            match self.connect().and_then(|stream| self.request(stream, bytes)) {
                Ok(mut body) => self.take(&mut body, &mut file, &mut bytes)?,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error.into()),
                // There is currently no route to the server.
                Err(_) => thread::sleep(LOOK),
            }
        }
        Ok(Fetched { bytes, seconds: start.elapsed().as_secs_f64(), hash: None })
    }
    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.server, self.patience)?;
        stream.set_read_timeout(Some(LOOK))?;
        Ok(stream)
    }
    /// Requests everything from `first` on; the returned reader yields it.
    fn request(&self, mut stream: TcpStream, first: u64) -> io::Result<impl Read> {
        let (name, size) = (&self.name, self.size);
        stream
            .write_all(format!("GET /{name} HTTP/1.1\r\nHost: server\r\nRange: bytes={first}-\r\n\r\n").as_bytes())?;
        let at = stream.local_addr()?.ip();
        let mut reader = BufReader::with_capacity(UNIT_BYTES, Connection { stream, at, of: self });
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let range = format!("\r\nContent-Range: bytes {first}-{}/{size}\r\n", size - 1);
        match head.starts_with("HTTP/1.1 206") && head.contains(&range) {
            true => Ok(reader),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the server answered {head:?}"))),
        }
    }
    /// Writes bytes until the file is complete or the connection is closed.
    fn take(&self, body: &mut impl Read, file: &mut File, bytes: &mut u64) -> io::Result<()> {
        let mut unit = vec![0; UNIT_BYTES];
        while *bytes < self.size {
            match body.read(&mut unit) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(length) => {
                    file.write_all(&unit[..length])?;
                    *bytes += length as u64;
                }
            }
        }
        Ok(())
    }
    /// This host's address towards the server; `None` if there is no route to it.
    fn own_address(&self) -> Option<IpAddr> {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        // Nothing is sent: this only asks for the route.
        socket.connect(self.server).ok()?;
        Some(socket.local_addr().ok()?.ip())
    }
}

/// A connection that is read until it has been silent for too long, or this host is elsewhere.
struct Connection<'a> {
    stream: TcpStream,
    at: IpAddr,
    of: &'a Download,
}

impl Read for Connection<'_> {
    fn read(&mut self, unit: &mut [u8]) -> io::Result<usize> {
        let since = Instant::now();
        loop {
            match self.stream.read(unit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            let is_elsewhere = || self.of.own_address().is_some_and(|address| address != self.at);
            if since.elapsed() >= self.of.patience || (self.of.follow && is_elsewhere()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &[u8] = b"0123456789";

    /// Answers each request with as many bytes as the next of `parts` from where it wants them, `shift` bytes further in
    /// truth, and closes the connection.
    fn serve_parts(parts: &'static [usize], shift: u64) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for part in parts {
                let mut stream = listener.accept().unwrap().0;
                let request = Request::read(&mut BufReader::new(stream.try_clone().unwrap())).unwrap().unwrap();
                let first = request.range.unwrap().0 + shift;
                let range = format!("bytes {first}-{}/{}", CONTENT.len() - 1, CONTENT.len());
                let head = format!("HTTP/1.1 206 Partial Content\r\nContent-Range: {range}\r\n\r\n");
                stream.write_all(head.as_bytes()).unwrap();
                let rest = &CONTENT[usize::try_from(first).unwrap()..];
                stream.write_all(&rest[..*part.min(&rest.len())]).unwrap();
            }
        });
        address
    }
    fn download(server: SocketAddr, folder: &Path) -> Download {
        let (size, patience) = (CONTENT.len() as u64, Duration::from_secs(60));
        Download { server, name: "x".into(), output: folder.join("output"), size, patience, follow: true }
    }

    #[test]
    fn what_is_missing_when_a_connection_ends_is_asked_for_over_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let fetched = download(serve_parts(&[3, 0, 4, 9], 0), folder.path()).run().unwrap();
        assert_eq!(fetched.bytes, CONTENT.len() as u64);
        assert_eq!(std::fs::read(folder.path().join("output")).unwrap(), CONTENT);
    }

    #[test]
    fn another_range_than_was_asked_for_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let error = download(serve_parts(&[9], 1), folder.path()).run().unwrap_err();
        assert!(error.to_string().contains("bytes 1-9/10"), "{error}");
    }
}
