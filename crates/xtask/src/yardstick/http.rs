//! A small HTTP/1.1 file server with ranges, for machines without nginx: one thread a connection.
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Component, Path, PathBuf},
    thread,
};

use crate::Outcome;

/// Serves the files of `folder` and tells `ready` where.
///
/// # Errors
/// If no socket can be opened.
pub(crate) fn serve(folder: &Path, ready: impl FnOnce(SocketAddr)) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    ready(listener.local_addr()?);
    for stream in listener.incoming() {
        let (stream, folder) = (stream?, folder.to_path_buf());
        // A client that goes away ends its own thread only.
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

/// The parts of a request that matter here.
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
