//! Web servers as sources of a fetch: their connections have threads of their own, and the node's thread decides.
use tributary_core::TransferId;
use tributary_transport::bulk::{BulkInput, BulkStep};
use tributary_web::{ClientOptions, Url, node::Host};

use super::runtime::Remote;
use crate::{
    error::{ApiError, ErrorKind},
    request::WebMirrors,
};

/// Mirrors whose options have been checked.
pub(crate) struct Mirrors {
    urls: Vec<Url>,
    options: ClientOptions,
}

impl Mirrors {
    /// Reads the URLs and uplinks.
    ///
    /// # Errors
    /// [`ApiError`] names what is none.
    pub(crate) fn new(wanted: &WebMirrors) -> Result<Mirrors, ApiError> {
        let wrong =
            |what: &str, why: String| ApiError::new(ErrorKind::Usage, format!("cannot use the mirror '{what}': {why}"));
        let url = |text: &String| match text.parse::<Url>() {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
            Ok(_) => Err(wrong(text, "it is no address of http or https".into())),
            Err(error) => Err(wrong(text, error.to_string())),
        };
        let uplink = |text: &String| text.parse().map_err(|why| ApiError::new(ErrorKind::Usage, why));
        Ok(Mirrors {
            urls: wanted.urls.iter().map(url).collect::<Result<_, _>>()?,
            options: ClientOptions {
                uplinks: wanted.interfaces.iter().map(uplink).collect::<Result<_, ApiError>>()?,
                ca_certificates: wanted.ca_certificates.clone(),
                cookies: wanted.cookies.clone(),
                netrc: wanted.netrc.clone(),
                ..ClientOptions::default()
            },
        })
    }
    /// Lets them serve a fetch until it ends.
    ///
    /// # Errors
    /// [`ApiError`] if the node's family has no such sources, or the system no thread.
    pub(crate) fn serve(self, remote: Remote, transfer: TransferId) -> Result<(), ApiError> {
        if self.urls.is_empty() {
            return Ok(());
        }
        if remote.call(move |node, now| node.step_bulk(now, transfer, Vec::new()))?.is_none() {
            let message = "nodes of this family take nothing from web servers";
            return Err(ApiError::new(ErrorKind::Usage, message).with_hint("leave --mirror out, or use psi or ndn"));
        }
        let work = move || {
            let mut host = NodeHost { remote: remote.clone(), transfer };
            if let Err(error) = tributary_web::node::serve(&mut host, &self.urls, &self.options) {
                remote.events().note(&format!("no mirror is used: {error}"));
            }
        };
        let thread = std::thread::Builder::new().name("web".into()).spawn(work);
        thread.map(drop).map_err(|error| ApiError::io("start a thread for", "mirrors", &error))
    }
}

struct NodeHost {
    remote: Remote,
    transfer: TransferId,
}
impl Host for NodeHost {
    fn step(&mut self, inputs: Vec<BulkInput>) -> Option<BulkStep> {
        let transfer = self.transfer;
        self.remote.call(move |node, now| node.step_bulk(now, transfer, inputs)).ok().flatten()
    }
}
