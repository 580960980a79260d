//! What the gateways of a site say to each other: frames over TCP, each signed by the node's key of its sender.
//!
//! ```text
//! frame    = length of tag and content (4 bytes, big endian) · signature (64) · tag (1) · content
//! question = q: nonce (16) · key (32) · JSON
//! answer   = a: key (32) · JSON, then for a file d: bytes, any number of times, and e, or f: the reason of a failure
//! ```
//! While the answerer waits for the origin it sends `w`, so that a silent one is known to be gone. A signature is over the
//! nonce of the question, the number of the frame, and the hash of tag and content: an outsider cannot change,
//! repeat, reorder or cut an answer. A question can be repeated by others; it only leads to an answer for its asker.
use std::{io, net::SocketAddr, pin::pin, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tributary::LocalApi;
use tributary_content::{PublicKey, Signature};

use super::copy::Head;

/// Maximum bytes of tag and content.
const FRAME_BYTES_MAX: usize = (1 << 20) + 1;
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// The longest time that a connection may take, and the longest silence of a member.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// How often a member says that it still waits.
const WAIT_INTERVAL: Duration = Duration::from_secs(1);
/// How long an asker may take no byte.
const STALL_MAX: Duration = Duration::from_secs(20);
/// What the signatures are for.
const CONTEXTS: [&str; 2] = ["tributary site question", "tributary site answer"];

/// What a member asks.
#[derive(Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) site: String,
    pub(super) wish: Wish,
}
#[derive(Serialize, Deserialize)]
pub(super) enum Wish {
    Hello(Hello),
    File(FileWish),
}
/// How members greet each other.
#[derive(Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) label: String,
    /// The greeter's own port.
    pub(super) port: u16,
    pub(super) certificate: Option<String>,
    /// Addresses of other members.
    pub(super) members: Vec<SocketAddr>,
    /// Servers that want no request, and for how many seconds.
    pub(super) pauses: Vec<(String, u64)>,
    /// Whether the greeter has news: it should be greeted at once.
    pub(super) is_urgent: bool,
}
/// A file of an origin.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct FileWish {
    /// The origin's name.
    pub(super) origin: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) is_head: bool,
    /// Fields of the request that the answer may depend on.
    pub(super) fields: Vec<(String, String)>,
    /// Whether the origin must confirm a copy.
    pub(super) is_anew: bool,
    /// Only what the member has or reads already; it does not ask the origin.
    pub(super) is_held: bool,
    /// The first byte that the asker lacks.
    pub(super) from: u64,
}
/// What a member answers.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Hello(Hello),
    /// A file, whose bytes follow. `age` in seconds does not depend on clocks.
    File {
        head: Box<Head>,
        age: u64,
    },
    /// Another member reads the file; this is its key.
    Elsewhere(String),
    /// The origin's answer is for one client only.
    Own,
    /// It has no such copy, or does not know the origin or the asker.
    None,
    /// It has a copy without the first byte that the asker lacks.
    NotYet,
    /// The origin wants no request for these seconds.
    Busy(u64),
    Failed(String),
}

/// A connection to another member.
pub(super) struct Line {
    stream: TcpStream,
    nonce: [u8; 16],
    numbers: [u64; 2],
    /// Whether this end answers.
    is_answerer: bool,
    /// The key of the other end.
    pub(super) key: PublicKey,
}

impl Line {
    /// Asks the member at an address, and waits for its answer.
    pub(super) async fn ask(api: &LocalApi, at: SocketAddr, question: &Question) -> Result<(Line, Answer), String> {
        let stream = timeout(SILENCE_MAX, TcpStream::connect(at)).await.map_err(|_| "it does not answer")?;
        let stream = stream.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let mut line = Line { stream, nonce, numbers: [0; 2], is_answerer: false, key: api.publisher() };
        let text = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let content = [&nonce[..], &api.publisher().0, &text].concat();
        line.send(api, b'q', &content).await.map_err(|error| error.to_string())?;
        loop {
            match line.receive().await? {
                (b'w', _) => {}
                (b'a', content) => {
                    let text = content.get(32..).unwrap_or_default();
                    let answer = serde_json::from_slice(text).map_err(|error| format!("it speaks oddly: {error}"))?;
                    return Ok((line, answer));
                }
                _ => return Err("it speaks oddly".into()),
            }
        }
    }
    /// Takes a question.
    pub(super) async fn answerer(api: &LocalApi, stream: TcpStream) -> Result<(Line, Question), String> {
        let _ = stream.set_nodelay(true);
        let mut line = Line { stream, nonce: [0; 16], numbers: [0; 2], is_answerer: true, key: api.publisher() };
        let (tag, content) = line.receive().await?;
        let text = content.get(48..).filter(|_| tag == b'q').ok_or("it asks nothing")?;
        Ok((line, serde_json::from_slice(text).map_err(|error| error.to_string())?))
    }
    pub(super) async fn answer(&mut self, api: &LocalApi, answer: &Answer) -> io::Result<()> {
        let content = [&api.publisher().0[..], &serde_json::to_vec(answer)?].concat();
        self.send(api, b'a', &content).await
    }
    /// Waits for `work`, and tells the asker about once a second that this member is alive.
    pub(super) async fn wait_for<T>(&mut self, api: &LocalApi, work: impl Future<Output = T>) -> io::Result<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(WAIT_INTERVAL) => self.send(api, b'w', b"").await?,
            }
        }
    }
    pub(super) async fn send(&mut self, api: &LocalApi, tag: u8, content: &[u8]) -> io::Result<()> {
        let direction = usize::from(self.is_answerer);
        let signed = self.signed(direction, tag, content);
        let signature = api.sign(CONTEXTS[direction], &signed);
        let mut frame = Vec::with_capacity(content.len() + 69);
        frame.extend_from_slice(&(content.len() as u32 + 1).to_be_bytes());
        frame.extend_from_slice(&signature.0);
        frame.push(tag);
        frame.extend_from_slice(content);
        timeout(STALL_MAX, self.stream.write_all(&frame)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
    fn signed(&mut self, direction: usize, tag: u8, content: &[u8]) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[tag]).update(content);
        let number = self.numbers[direction].to_be_bytes();
        self.numbers[direction] += 1;
        [&self.nonce[..], &number, hasher.finalize().as_bytes()].concat()
    }
    async fn receive(&mut self) -> Result<(u8, Bytes), String> {
        let (signature, mut content) = self.frame().await.map_err(|error| error.to_string())?;
        let tag = content.split_to(1)[0];
        let direction = usize::from(!self.is_answerer);
        let key = |bytes: &[u8]| Some(PublicKey(bytes.get(..32)?.try_into().ok()?));
        match tag {
            b'q' if self.numbers == [0, 0] => {
                self.nonce = content.get(..16).and_then(|nonce| nonce.try_into().ok()).ok_or("it sent no nonce")?;
                self.key = key(&content[16..]).ok_or("it sent no key")?;
            }
            // The key of the one who answered first speaks to the end.
            b'a' => self.key = key(&content).ok_or("it sent no key")?,
            _ => {}
        }
        let signed = self.signed(direction, tag, &content);
        // The answer names the key, and a wait comes before it: it has no content to protect.
        match tag == b'w' || self.key.verify(CONTEXTS[direction], &signed, &signature) {
            true => Ok((tag, content)),
            false => Err("its signature is wrong".into()),
        }
    }
    async fn frame(&mut self) -> io::Result<(Signature, Bytes)> {
        let (mut length, mut signature) = ([0; 4], [0; Signature::BYTES]);
        self.fill(&mut length).await?;
        let length = u32::from_be_bytes(length) as usize;
        // Outsiders ask too.
        let most = if self.is_answerer { QUESTION_BYTES_MAX } else { FRAME_BYTES_MAX };
        if !(1..=most).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.fill(&mut signature).await?;
        let mut content = vec![0; length];
        self.fill(&mut content).await?;
        Ok((Signature(signature), content.into()))
    }
    async fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            // A slow link is not silent.
            at += match timeout(SILENCE_MAX, self.stream.read(&mut bytes[at..])).await.map_err(io::Error::other)?? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => length,
            };
        }
        Ok(())
    }
    /// The next bytes of a file; `None` at its end.
    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.receive().await? {
                (b'w', _) => {}
                (b'd', bytes) => return Ok(Some(bytes)),
                (b'e', _) => return Ok(None),
                (_, reason) => return Err(String::from_utf8_lossy(&reason).into_owned()),
            }
        }
    }
}
