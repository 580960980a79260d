//! Requests of a gateway's clients, passed on to an origin: the head with all its fields, then the body as it arrives.
use bytes::Bytes;
use reqwest::{
    Client, Method, Response, Url,
    header::{self, HeaderMap},
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

pub use crate::request::Refusal;
use crate::{
    client::{ClientOptions, Shared, Uplink, client, tls},
    download::WebError,
    request::{REDIRECTS_MAX, failure, head_of, redirect, retry_after},
};

/// How long an answer may send no byte.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer with a token.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Sends requests to origins over the first uplink. Clones share their connections.
#[derive(Clone)]
pub struct Exchanger {
    client: Client,
    shared: Arc<Shared>,
}

/// An answer whose body is still to be read.
pub struct Exchange {
    /// Its status.
    pub status: u16,
    /// The fields of the redirects that led to it, in their order.
    pub hops: Vec<(u16, HeaderMap)>,
    /// Its fields.
    pub fields: HeaderMap,
    response: Response,
}

impl Exchanger {
    /// A client with these options.
    ///
    /// # Errors
    /// [`WebError`] if the options cannot be used.
    pub fn new(options: &ClientOptions) -> Result<Exchanger, WebError> {
        let uplink = options.uplinks.first().unwrap_or(&Uplink::Any);
        let client = client(uplink, tls(options, None)?, options)?;
        Ok(Exchanger { client, shared: Shared::new(options)? })
    }
    /// Requests `url` with these fields and follows redirects. A redirect to another host gets no credentials.
    ///
    /// # Errors
    /// [`Refusal::Again`] if a server cannot be reached, others if a redirect may not be followed.
    pub async fn ask(&self, method: &Method, url: &Url, fields: &HeaderMap) -> Result<Exchange, Refusal> {
        let (mut at, mut fields, mut hops) = (url.clone(), fields.clone(), Vec::new());
        let mut is_repeated = false;
        loop {
            self.shared.check(&at)?;
            let request = self.client.request(method.clone(), at.clone()).headers(fields.clone());
            let Some(response) = head_of(request, &mut is_repeated).await? else { continue };
            let (status, answered) = (response.status().as_u16(), response.headers().clone());
            let Some(next) = redirect(&self.shared, &at, &response)? else {
                return Ok(Exchange { status, hops, fields: answered, response });
            };
            if hops.len() >= REDIRECTS_MAX {
                return Err(Refusal::Refused(format!("redirects more than {REDIRECTS_MAX} times")));
            }
            if next.origin() != at.origin() {
                fields.remove(header::AUTHORIZATION);
                fields.remove(header::COOKIE);
            }
            hops.push((status, answered));
            at = next;
        }
    }
    /// Gets a token for everybody from the server that a challenge names (Docker's token authentication).
    pub async fn token(&self, challenge: &str) -> Option<String> {
        let parameters = challenge.strip_prefix("Bearer ")?;
        let value = |name: &str| {
            let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let mut url: Url = value("realm")?.parse().ok()?;
        for name in ["service", "scope"] {
            if let Some(value) = value(name) {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let answer = self.ask(&Method::GET, &url, &HeaderMap::new()).await.ok()?;
        let bytes = if answer.status == 200 { answer.whole(TOKEN_BYTES_MAX).await.ok()?? } else { return None };
        let document: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        let token = document.get("token").or_else(|| document.get("access_token"));
        token?.as_str().map(String::from)
    }
}

impl Exchange {
    /// The bytes of the body, if the server sends their number.
    pub fn length(&self) -> Option<u64> {
        self.response.content_length()
    }
    /// Reads on; `None` at the end.
    ///
    /// # Errors
    /// The reason if the connection ends early or sends nothing for a minute.
    pub async fn read(&mut self) -> Result<Option<Bytes>, String> {
        match timeout(STALL_MAX, self.response.chunk()).await {
            Ok(read) => read.map_err(|error| failure(&error).reason()),
            Err(_) => Err(format!("the origin has sent nothing for {} s", STALL_MAX.as_secs())),
        }
    }
    /// The whole body; `None` if it has more than `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`Exchange::read`].
    pub async fn whole(mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, String> {
        let mut bytes = Vec::new();
        while let Some(more) = self.read().await? {
            bytes.extend_from_slice(&more);
            if bytes.len() > bytes_max {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }
    /// The pause that a busy origin requests.
    pub fn pause(&self) -> Option<Duration> {
        let text = self.fields.get(header::RETRY_AFTER)?.to_str().ok()?;
        retry_after(text)
    }
}
