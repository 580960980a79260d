//! HTTP at both ends, MFTP between (paper MFTP §5.2, §5.3: MF-HTTP-MF proxy).
//!
//! ```text
//!  browser, curl ──HTTP──► BrowserProxy ══request══► (MobilityFirst) ══► OriginProxy ──HTTP──► web server
//!                                       ◄══response, in segments══
//! ```
//! Each request and each segment of a response is an object of its own: signed, verified before it counts, moved hop by
//! hop, and kept by the network while the receiver is away. Objects have no order between them, so no response waits
//! for another; small ones are not subject to flow control (§3.4.2).
//!
//! | what | module |
//! |---|---|
//! | what goes through the network | [`exchange`] |
//! | the browser's side | [`browser`] |
//! | the web server's side | [`origin`] |
//! | segments of both sides: window, order, credit | `segments` |
//! | what `CONNECT` opens, for https | `tunnel` |
pub mod browser;
pub mod exchange;
pub mod origin;
mod segments;
mod tunnel;

pub use browser::BrowserProxy;
pub use origin::OriginProxy;

use hyper::header::{self, HeaderMap, HeaderName};

/// Headers that concern one connection only (RFC 9110 §7.6.1).
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers as they go on: without those of the connection, and without those that `Connection` names.
fn passed_on(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
        .collect();
    let passes = |name: &HeaderName| !OF_CONNECTION.contains(name) && !named.iter().any(|known| known == name.as_str());
    let passing = headers.iter().filter(|(name, _)| passes(name));
    passing.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-of-this-hop"),
            ("x-of-this-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("range", "bytes=0-1"),
            ("set-cookie", "a"),
        ] {
            headers.append(name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"));
        }
        headers.append("set-cookie", "b".parse().expect("a value"));
        let names: Vec<String> = passed_on(&headers).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["range", "set-cookie", "set-cookie"]);
    }
}
