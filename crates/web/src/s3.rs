//! Stores with the protocol of Amazon S3: `s3://BUCKET/KEY`, signed with version 4 of its signatures.
//!
//! The store's address and the client's credentials come from the environment, as for other clients of such stores:
//!
//! | variable | meaning |
//! |---|---|
//! | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` | the store; without it Amazon's in that region |
//! | `AWS_REGION`, `AWS_DEFAULT_REGION` | the region; without it `us-east-1` |
//! | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | the credentials |
//! | `AWS_SHARED_CREDENTIALS_FILE`, `AWS_PROFILE` | a file with credentials if these are not set, else `~/.aws/credentials`, and the section in it, else `default` |
//!
//! Without credentials requests are not signed, and public objects can be read.
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use ring::{digest, hmac};
use std::fmt;

use tributary_trust::UnixTime;

use crate::{checksum::hex, client, download::percent_decoded};

/// The scheme of addresses of objects.
pub const SCHEME: &str = "s3";
const REGION_DEFAULT: &str = "us-east-1";
/// What a key has as percent signs in a path, for signatures: everything but letters, digits, `-._~` and `/`.
const OF_KEYS: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A store, and the client's credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Store {
    endpoint: Option<String>,
    region: String,
    credentials: Option<Credentials>,
}

#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    id: String,
    secret: String,
    session: Option<String>,
}
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Store {
    /// The store of this process's environment.
    pub fn of_environment() -> Store {
        Store::of(&|name| std::env::var(name).ok())
    }
    /// The store of these variables; an empty one counts as absent.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Store {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let named = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
        let credentials = match named {
            Some((id, secret)) => Some(Credentials { id, secret, session: variable("AWS_SESSION_TOKEN") }),
            None => {
                let path = variable("AWS_SHARED_CREDENTIALS_FILE")
                    .or_else(|| variable("HOME").map(|home| format!("{home}/.aws/credentials")));
                let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".into());
                path.and_then(|path| client::read(path.as_ref()).ok()).and_then(|text| section(&text, &profile))
            }
        };
        Store {
            endpoint: first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
            region: first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| REGION_DEFAULT.into()),
            credentials,
        }
    }
    /// The web address of an object: a name of the bucket's own at Amazon, a path at other stores.
    ///
    /// # Errors
    /// A description of the defect in the object's address or in the store's.
    pub fn address(&self, object: &Url) -> Result<Url, String> {
        let (bucket, key) = bucket_and_key(object)?;
        let key = utf8_percent_encode(&key, &OF_KEYS);
        let text = match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}/{key}", endpoint.trim_end_matches('/')),
            // A certificate for *.s3.region.amazonaws.com does not cover a name with more dots.
            None if bucket.contains('.') => format!("https://s3.{}.amazonaws.com/{bucket}/{key}", self.region),
            None => format!("https://{bucket}.s3.{}.amazonaws.com/{key}", self.region),
        };
        let url: Url = text.parse().map_err(|error| format!("the store's address '{text}' is invalid: {error}"))?;
        match url.scheme() {
            "http" | "https" if url.host_str().is_some() && url.query().is_none() => Ok(url),
            _ => Err(format!("the store's address '{text}' is no web address (AWS_ENDPOINT_URL)")),
        }
    }
    /// The headers that sign a GET of `url` with these other headers, in lower case and in the order of their names;
    /// `now` is in seconds since 1970. None without credentials.
    pub fn sign(&self, url: &Url, headers: &[(&str, &str)], now: u64) -> Vec<(&'static str, String)> {
        let Some(credentials) = &self.credentials else { return Vec::new() };
        let time = timestamp(now);
        let date = &time[..8];
        let mut own = vec![("x-amz-content-sha256", hex(&sha256(b""))), ("x-amz-date", time.clone())];
        own.extend(credentials.session.clone().map(|session| ("x-amz-security-token", session)));
        let host = match (url.host_str().unwrap_or_default(), url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_string(),
        };
        let mut all: Vec<(&str, &str)> = vec![("host", &host)];
        all.extend(headers);
        all.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
        all.sort_unstable();
        let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = all.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let request = format!("GET\n{}\n\n{lines}\n{names}\n{}", url.path(), hex(&sha256(b"")));
        let scope = format!("{date}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&sha256(request.as_bytes())));
        let first = format!("AWS4{}", credentials.secret).into_bytes();
        let key = [date, &self.region, "s3", "aws4_request"].iter().fold(first, |key, part| keyed(&key, part));
        let signature = hex(&keyed(&key, &text));
        let id = &credentials.id;
        let proof = format!("AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}");
        own.push(("authorization", proof));
        own
    }
    /// What a person may do about a refusal with this error code.
    pub(crate) fn hint(&self, code: &str, region: Option<&str>) -> String {
        match (code, region, &self.credentials) {
            (_, Some(region), _) if region != self.region => {
                format!("; the bucket is in region {region}: set AWS_REGION")
            }
            ("AccessDenied", _, None) => "; without AWS_ACCESS_KEY_ID requests are not signed".into(),
            _ => String::new(),
        }
    }
}

/// Checks that an address names a bucket and an object in it.
///
/// # Errors
/// A description of the defect.
pub fn check(object: &Url) -> Result<(), String> {
    bucket_and_key(object).map(drop)
}
fn bucket_and_key(object: &Url) -> Result<(String, String), String> {
    let wrong = |why: &str| Err(format!("'{object}' {why}: an object of a store is s3://BUCKET/KEY"));
    let bucket = object.host_str().unwrap_or_default();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if bucket.is_empty() || !bucket.chars().all(is_fit) || object.port().is_some() || !object.username().is_empty() {
        return wrong("names no bucket");
    }
    let Some(key) = percent_decoded(object.path().strip_prefix('/').unwrap_or_default()).filter(|key| !key.is_empty())
    else {
        return wrong("names no key");
    };
    // Software that resolves paths would take them for another object.
    if key.split('/').any(|part| part == "." || part == "..") {
        return wrong("has a part '.' or '..' in its key, which addresses cannot have");
    }
    if object.query().is_some() || object.fragment().is_some() {
        return wrong("has a '?' or '#', which a key has as %3F or %23");
    }
    Ok((bucket.into(), key))
}
/// The credentials in a section of a file.
fn section(text: &str, profile: &str) -> Option<Credentials> {
    let begins = |line: &str| {
        line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')).map(str::trim).map(String::from)
    };
    let lines = text.lines().skip_while(|line| begins(line).as_deref() != Some(profile)).skip(1);
    let pairs: Vec<(&str, &str)> = lines
        .take_while(|line| begins(line).is_none())
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let find = |wanted: &str| pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string());
    let (id, secret) = find("aws_access_key_id").zip(find("aws_secret_access_key"))?;
    Some(Credentials { id, secret, session: find("aws_session_token") })
}
fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}
fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}
/// `20130524T000000Z`.
fn timestamp(now: u64) -> String {
    let [year, month, day, hour, minute, second] = UnixTime(now).calendar();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(variables: &[(&str, &str)]) -> Store {
        Store::of(&|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }
    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }
    /// The credentials of Amazon's examples.
    const EXAMPLE: [(&str, &str); 2] = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ];

    #[test]
    fn a_signature_is_that_of_the_example_in_amazons_documentation() {
        // "Example: GET Object" of "Signature Calculations for the Authorization Header", Amazon S3 API Reference.
        let signed = store(&EXAMPLE).sign(
            &url("https://examplebucket.s3.amazonaws.com/test.txt"),
            &[("range", "bytes=0-9")],
            1_369_353_600,
        );
        let proof = &signed.iter().find(|(name, _)| *name == "authorization").expect("it is signed").1;
        assert_eq!(
            proof,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn an_object_has_an_address_at_amazon_or_at_the_store_of_the_environment() {
        let object = url("s3://isos/debian/a%20b+c.iso");
        let at = |variables: &[(&str, &str)]| store(variables).address(&object).expect("a legal one").to_string();
        assert_eq!(at(&[]), "https://isos.s3.us-east-1.amazonaws.com/debian/a%20b%2Bc.iso");
        assert_eq!(at(&[("AWS_REGION", "eu-west-3")]), "https://isos.s3.eu-west-3.amazonaws.com/debian/a%20b%2Bc.iso");
        let own = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/"), ("AWS_ENDPOINT_URL_S3", "")];
        assert_eq!(at(&own), "http://127.0.0.1:9000/isos/debian/a%20b%2Bc.iso");
        for wrong in ["s3://isos", "s3://isos/", "s3:///key", "s3://isos/a?b", "s3://isos/a%2F..%2Fb", "s3://a:9/b"] {
            assert!(store(&[]).address(&url(wrong)).is_err(), "{wrong}");
        }
        assert!(store(&[("AWS_ENDPOINT_URL", "ftp://a")]).address(&object).is_err());
    }

    #[test]
    fn credentials_come_from_variables_or_a_section_of_a_file() {
        assert_eq!(store(&[]).sign(&url("http://a/b"), &[], 0), []);
        let text = "[other]\naws_access_key_id = A\n[lab]\naws_access_key_id = B\naws_secret_access_key=s\n\
                    aws_session_token = t\n[more]\naws_secret_access_key = x\n";
        let found = section(text, "lab").expect("it is there");
        assert_eq!((&*found.id, &*found.secret, found.session.as_deref()), ("B", "s", Some("t")));
        assert!(section(text, "other").is_none() && section(text, "none").is_none());
        assert!(!format!("{found:?}").contains("secret"), "secrets are not printed");
    }

    #[test]
    fn timestamps_know_leap_years() {
        assert_eq!(timestamp(0), "19700101T000000Z");
        assert_eq!(timestamp(951_827_696), "20000229T123456Z");
        assert_eq!(timestamp(1_709_251_199), "20240229T235959Z");
        assert_eq!(timestamp(4_107_542_400), "21000301T000000Z");
    }
}
