//! `trib http-proxy`: HTTP at both ends, MobilityFirst between.
use std::{path::Path, sync::Arc};
use tributary::{
    ApiError, ErrorKind,
    mailbox::{Mailbox, MailboxOptions},
};
use tributary_core::Duration;
use tributary_http::{
    BrowserProxy, OriginProxy,
    browser::{BrowserConfig, names_a_port, origin_of},
    origin::OriginConfig,
};

use super::start;
use crate::{
    args::{HttpProxy, Peer},
    out,
    signals::Wish,
};

/// How often it is looked whether the program is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Runs one of the two proxies until a signal.
pub(crate) fn run(proxy: &HttpProxy, json: bool) -> Result<(), ApiError> {
    let wish = Wish::listen()?;
    match proxy {
        HttpProxy::Browser { config, peer, listen, to, timeout } => {
            let mailbox = mailbox((config, peer), &[], &wish)?;
            let settings = BrowserConfig { listen: *listen, to: to.clone(), patience: *timeout };
            let proxy = BrowserProxy::start(mailbox, settings)?;
            ready(json, "browser", &proxy.address().to_string());
            wait(&wish);
        }
        HttpProxy::Server { config, peer, origin, tunnel, name, timeout } => {
            let origin = origin_of(origin).ok_or_else(|| {
                let message = format!("'{origin}' is no web server that can be asked");
                ApiError::new(ErrorKind::Usage, message).with_hint("write it like http://127.0.0.1:80")
            })?;
            if let Some(tunnel) = tunnel.as_deref().filter(|tunnel| !names_a_port(tunnel)) {
                let message = format!("'{tunnel}' is no host with a port that tunnels could lead to");
                return Err(ApiError::new(ErrorKind::Usage, message).with_hint("write it like 127.0.0.1:443"));
            }
            let mailbox = mailbox((config, peer), name, &wish)?;
            let settings = OriginConfig { origin: origin.clone(), tunnel: tunnel.clone(), patience: *timeout };
            let _proxy = OriginProxy::start(mailbox, settings)?;
            ready(json, "server", &origin.to_string());
            wait(&wish);
        }
    }
    Ok(())
}
fn mailbox(config: (&Path, &Peer), names: &[tributary_content::Name], wish: &Wish) -> Result<Mailbox, ApiError> {
    Mailbox::open(Arc::new(start(config, None, wish)?), names, MailboxOptions::default())
}
fn ready(json: bool, side: &str, address: &str) {
    if json {
        out::data(&serde_json::json!({"event": "ready", "side": side, "address": address}).to_string());
    } else {
        match side {
            "browser" => out::talk(&format!("browsers may connect to http://{address}, as their proxy or as a site")),
            _ => out::talk(&format!("asks {address} for whoever is on the other side")),
        }
    }
}
fn wait(wish: &Wish) {
    while !wish.is_made() {
        std::thread::sleep(LOOK);
    }
}
