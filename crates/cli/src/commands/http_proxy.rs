//! `trib http-proxy`: HTTP at both ends, MobilityFirst between.
use std::path::Path;
use tributary::{
    ApiError,
    messenger::{Messenger, MessengerOptions},
};
use tributary_content::{Name, PublicKey};
use tributary_core::{ByteCount, Duration};
use tributary_http::{
    BrowserProxy, MESSAGE_BYTES_MAX, OriginProxy,
    browser::{BrowserConfig, names_a_port, origin_of},
    config::{Limits, Timeouts},
    log::AccessLog,
    origin::OriginConfig,
};
use tributary_terminal::out;

use super::{executor::start, load::load_with};
use crate::{
    args::{HttpOptions, HttpProxy, Peer},
    signals::Wish,
};

/// Runs one of the two proxies until a signal.
pub(crate) fn run(proxy: &HttpProxy, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    match proxy {
        HttpProxy::Browser { config, peer, listen, to, publisher, timeout, head_timeout, body_timeout, options } => {
            let (limits, timeouts, log) = settings(options, *timeout)?;
            let timeouts = Timeouts { head: *head_timeout, body: *body_timeout, ..timeouts };
            let messenger = messenger((config, peer), &[], *publisher, &wish)?;
            let settings = BrowserConfig { listen: *listen, to: to.clone(), limits, timeouts, log };
            let proxy = BrowserProxy::start(messenger, settings)?;
            let address = proxy.address.to_string();
            let text = format!("browsers may connect to http://{address}, as their proxy or as a site");
            ready(json, "browser", &address, &text);
            wish.wait(Duration::MAX);
        }
        HttpProxy::Server { config, peer, origin, tunnel, name, timeout, options } => {
            let origin = origin_of(origin).ok_or_else(|| {
                let message = format!("'{origin}' is not the address of a web server");
                ApiError::usage(message).with_hint("write it like http://127.0.0.1:80")
            })?;
            if let Some(tunnel) = tunnel.as_deref().filter(|tunnel| !names_a_port(tunnel)) {
                let message = format!("'{tunnel}' is no host with a port that tunnels could lead to");
                return Err(ApiError::usage(message).with_hint("write it like 127.0.0.1:443"));
            }
            let (limits, timeouts, log) = settings(options, *timeout)?;
            let messenger = messenger((config, peer), name, None, &wish)?;
            let settings = OriginConfig { origin: origin.clone(), tunnel: tunnel.clone(), limits, timeouts, log };
            let _proxy = OriginProxy::start(messenger, settings)?;
            ready(json, "server", &origin.to_string(), &format!("sends the other side's requests to {origin}"));
            wish.wait(Duration::MAX);
        }
    }
    Ok(())
}
fn settings(options: &HttpOptions, answer: Duration) -> Result<(Limits, Timeouts, Option<AccessLog>), ApiError> {
    let ByteCount(memory_bytes) = options.memory;
    let limits = Limits { connections: options.connections as usize, memory_bytes };
    let timeouts = Timeouts { answer, idle: options.idle_timeout, ..Timeouts::default() };
    let open = |path: &std::path::PathBuf| {
        AccessLog::open(path, options.log_format)
            .map_err(|error| ApiError::io("write the access log", path.display(), &error))
    };
    Ok((limits, timeouts, options.access_log.as_ref().map(open).transpose()?))
}
fn messenger(
    (path, peer): (&Path, &Peer),
    names: &[Name],
    publisher: Option<PublicKey>,
    wish: &Wish,
) -> Result<Messenger, ApiError> {
    let options = MessengerOptions { publisher, message_bytes_max: MESSAGE_BYTES_MAX, ..MessengerOptions::default() };
    Messenger::open(start(load_with(path, peer)?, wish)?, names, options)
}
/// Says that a proxy works.
pub(super) fn ready(json: bool, side: &str, address: &str, text: &str) {
    match json {
        true => out::data(&serde_json::json!({"event": "ready", "side": side, "address": address}).to_string()),
        false => out::talk(text),
    }
}
