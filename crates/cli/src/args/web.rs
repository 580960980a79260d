//! The web arguments of `get`.
use clap::Args;
use std::{fmt, path::PathBuf, str::FromStr};
use tributary::ApiError;
use tributary_content::Reference;
use tributary_web::{Algorithm, Checksum, Uplink, Url};

/// What to fetch.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A name or a reference, by a node.
    Name(Reference),
    /// Something that web servers have.
    Web(WebTarget),
}
/// What web servers have.
#[derive(Clone, Debug)]
pub(crate) enum WebTarget {
    /// A file, or a Metalink file.
    Url(Url),
    /// A Metalink file on this machine.
    Metalink(PathBuf),
}
/// Whether a path names a Metalink file.
pub(crate) fn is_metalink(path: &str) -> bool {
    [".meta4", ".metalink"].iter().any(|end| path.to_ascii_lowercase().ends_with(end))
}
fn parse_sha256(text: &str) -> Result<Checksum, String> {
    Checksum::parse(Algorithm::Sha256, text)
}
impl Target {
    pub(crate) fn is_web(&self) -> bool {
        matches!(self, Target::Web(_))
    }
    /// The file that it becomes in a folder; `None` for a list of files.
    pub(crate) fn file(&self) -> Result<Option<PathBuf>, ApiError> {
        Ok(match self {
            Target::Name(reference) => Some(tributary::preflight::file_name(&reference.name)?),
            Target::Web(WebTarget::Url(url)) if !is_metalink(url.path()) => Some(file_of(url)?),
            Target::Web(_) => None,
        })
    }
}
/// The last part of a URL as a file name, if it is a legal one.
pub(crate) fn file_of(url: &Url) -> Result<PathBuf, ApiError> {
    tributary_web::download::file_name(url).map(PathBuf::from).ok_or_else(|| {
        let message = format!("the last part of '{}' cannot be a file's name", tributary_web::shown(url));
        ApiError::usage(message).with_hint("say where to write it with -o FILE")
    })
}
impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Target, String> {
        if text.contains("://") {
            return parse_url(text).map(|url| Target::Web(WebTarget::Url(url)));
        }
        // A name of a network may end so too; one of an existing file means the file.
        let is_name = text.starts_with('/') && !PathBuf::from(text).is_file() || text.starts_with("trib:");
        if is_metalink(text) && !is_name {
            return Ok(Target::Web(WebTarget::Metalink(text.into())));
        }
        text.parse().map(Target::Name).map_err(|error: tributary_content::ReferenceError| error.to_string())
    }
}
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Name(reference) => reference.fmt(f),
            Target::Web(WebTarget::Url(url)) => f.write_str(&tributary_web::shown(url)),
            Target::Web(WebTarget::Metalink(path)) => path.display().fmt(f),
        }
    }
}

/// How web servers are reached.
#[derive(Args, Debug)]
#[command(next_help_heading = "Web servers")]
pub(crate) struct WebOptions {
    /// Another web server with the same file; may be repeated
    #[arg(long = "mirror", value_name = "URL", value_parser = parse_url)]
    pub(crate) mirrors: Vec<Url>,
    /// The file's SHA-256 checksum
    #[arg(long, value_name = "HEX", value_parser = parse_sha256)]
    pub(crate) sha256: Option<Checksum>,
    /// Connect over this network device or from this local address; may be repeated
    #[arg(long = "interface", value_name = "NAME|ADDRESS")]
    pub(crate) interfaces: Vec<Uplink>,
    /// Also trust the certificates in this PEM file
    #[arg(long = "ca-certificate", value_name = "FILE")]
    pub(crate) ca_certificates: Vec<PathBuf>,
    /// Send the cookies in this file, in Netscape's format
    #[arg(long, value_name = "FILE")]
    pub(crate) cookies: Option<PathBuf>,
    /// Passwords by host [default: $NETRC, else ~/.netrc]
    #[arg(long, value_name = "FILE")]
    pub(crate) netrc: Option<PathBuf>,
    /// Name of this program in requests [default: tributary and its version]
    #[arg(long, value_name = "TEXT")]
    pub(crate) user_agent: Option<String>,
    /// Follow redirects from https to http too
    #[arg(long)]
    pub(crate) insecure_redirects: bool,
}

/// A mirror that a publication names.
pub(crate) fn parse_web(text: &str) -> Result<Url, String> {
    match parse_url(text)? {
        url if url.scheme() == tributary_web::s3::SCHEME => {
            Err("receivers take no s3:// addresses from a publisher".into())
        }
        url => Ok(url),
    }
}
fn parse_url(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("{error}"))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        tributary_web::s3::SCHEME => tributary_web::s3::check(&url).map(|()| url),
        other => Err(format!("'{other}' is no web address: http://, https:// and s3:// are")),
    }
}
