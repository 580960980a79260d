//! How long an answer may be used (RFC 9111), and the digest that verifies it.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::{HeaderMap, header};
use tributary_web::header::HeaderName;

use crate::{config::OriginKind, folder::decode};

/// Fields of an origin's answer that clients get. Others concern the connection, or name services around the gateway.
const PASSED: &str = "cache-control content-disposition content-encoding content-language content-type date \
    docker-content-digest docker-distribution-api-version etag expires last-modified link npm-notice oci-filters-applied \
    oci-subject retry-after vary www-authenticate x-error-code x-error-message x-linked-etag x-linked-size \
    x-pypi-last-serial x-repo-commit";
/// Of these the first answer counts, even if it is a redirect: the hub describes a file there, and a store has its bytes.
const OF_FIRST: [&str; 5] = ["x-error-code", "x-error-message", "x-linked-etag", "x-linked-size", "x-repo-commit"];
/// How long an absent file is remembered, unless its answer says otherwise.
const ABSENT: Duration = Duration::from_secs(10);
/// How long a file that its address identifies is used.
const FIXED: Duration = Duration::from_secs(365 * 86_400);

/// The directives of `Cache-Control` that a shared cache obeys.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub(crate) private: bool,
    pub(crate) public: bool,
    pub(crate) must_revalidate: bool,
    pub(crate) only_if_cached: bool,
    pub(crate) max_age: Option<u64>,
    pub(crate) shared_max_age: Option<u64>,
    pub(crate) while_revalidate: Option<u64>,
    pub(crate) if_error: Option<u64>,
}
impl Control {
    pub(crate) fn of(fields: &HeaderMap) -> Control {
        let mut control = Control::default();
        let texts = fields.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
        for directive in texts.flat_map(|text| text.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            // RFC 9111 §1.2.2: 2^31 seconds are the most; a malformed number makes the answer stale.
            let seconds = || Some(value.trim().trim_matches('"').parse::<u64>().unwrap_or(0).min(1 << 31));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" => control.no_store = true,
                "no-cache" => control.no_cache = true,
                "private" => control.private = true,
                "public" => control.public = true,
                "must-revalidate" | "proxy-revalidate" => control.must_revalidate = true,
                "only-if-cached" => control.only_if_cached = true,
                "max-age" => control.max_age = seconds(),
                // RFC 9111 §5.2.2.10: it forbids stale answers too.
                "s-maxage" => (control.shared_max_age, control.must_revalidate) = (seconds(), true),
                "stale-while-revalidate" => control.while_revalidate = seconds(),
                "stale-if-error" => control.if_error = seconds(),
                _ => {}
            }
        }
        control.no_cache |= !fields.contains_key(header::CACHE_CONTROL)
            && fields.get(header::PRAGMA).is_some_and(|pragma| pragma.as_bytes().eq_ignore_ascii_case(b"no-cache"));
        control
    }
    /// The explicit freshness of an answer.
    fn explicit(&self, fields: &HeaderMap, now: Duration) -> Option<Duration> {
        let seconds = self.shared_max_age.or(self.max_age).map(Duration::from_secs);
        let expires = || {
            let expires = fields.get(header::EXPIRES)?;
            let since = date(fields, header::DATE).unwrap_or(now);
            // RFC 9111 §5.3: a malformed date, such as 0, has passed.
            Some(seconds_of(expires.to_str().unwrap_or_default()).unwrap_or_default().saturating_sub(since))
        };
        if self.no_cache { Some(Duration::ZERO) } else { seconds.or_else(expires) }
    }
}

/// How long an answer is fresh from its arrival on. `fresh` bounds what its fields leave open.
pub(crate) fn lifetime(status: u16, fields: &HeaderMap, now: Duration, fresh: Duration) -> Duration {
    let of_age = || {
        let age = date(fields, header::DATE).unwrap_or(now).saturating_sub(date(fields, header::LAST_MODIFIED)?);
        Some(age / 10)
    };
    let life = Control::of(fields).explicit(fields, now).unwrap_or_else(|| match status {
        404 | 410 => ABSENT,
        // A moved file stays where it is.
        301 | 308 => FIXED,
        _ => of_age().unwrap_or(fresh).min(fresh),
    });
    let age = fields.get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    life.saturating_sub(Duration::from_secs(age))
}
/// Whether an answer may be kept for all clients; `is_private` if its request had credentials (RFC 9111 §3, §3.5).
pub(crate) fn may_share(status: u16, fields: &HeaderMap, is_private: bool) -> bool {
    let control = Control::of(fields);
    let is_kept = matches!(status, 200 | 404 | 410) && !control.no_store && !control.private;
    let varies_by = |name| varied(fields).iter().any(|field| field == name);
    let is_permitted = !is_private || control.public || control.shared_max_age.is_some();
    is_kept && is_permitted && ["*", "authorization", "cookie"].iter().all(|name| !varies_by(*name))
}
/// The fields of requests that an answer depends on. All requests accept the same encoding.
pub(crate) fn varied(fields: &HeaderMap) -> Vec<String> {
    let texts = fields.get_all(header::VARY).iter().filter_map(|value| value.to_str().ok());
    let names = texts.flat_map(|text| text.split(',')).map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !matches!(name.as_str(), "" | "accept-encoding" | "origin")).collect()
}

/// The fields for clients, of an answer and of the redirects before it.
pub(crate) fn passed(hops: &[(u16, HeaderMap)], fields: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    let is_file = hops.iter().map(|(_, hop)| hop).chain([fields]).any(|hop| hop.contains_key("x-repo-commit"));
    for name in PASSED.split(' ').map(HeaderName::from_static) {
        let mut all = hops.iter().map(|(_, hop)| hop).chain([fields]);
        // Links of the hub's files lead past the gateway.
        let from = match () {
            () if is_file && name == header::LINK => continue,
            () if OF_FIRST.contains(&name.as_str()) => all.find(|hop| hop.contains_key(&name)).unwrap_or(fields),
            () => fields,
        };
        from.get_all(&name).iter().for_each(|value| _ = passed.append(name.clone(), value.clone()));
    }
    passed
}

/// The SHA-256 that a path names: `sha256:…` of a registry, `by-hash/SHA256/…` of apt.
pub(crate) fn digest_of_path(path: &str) -> Option<String> {
    let mut parts = path.rsplit('/');
    let last = String::from_utf8(decode(parts.next()?)?).ok()?;
    let digest = last.strip_prefix("sha256:").or_else(|| {
        let is_by_hash = parts.next() == Some("SHA256") && parts.next() == Some("by-hash");
        is_by_hash.then_some(last.as_str())
    });
    digest.filter(|digest| is_hex(digest, 64)).map(str::to_ascii_lowercase)
}
/// The SHA-256 that the fields of an answer promise.
pub(crate) fn digest_of_fields(kind: OriginKind, fields: &HeaderMap) -> Option<String> {
    let text = |name| fields.get(name)?.to_str().ok();
    let digest = match kind {
        OriginKind::HuggingFace => text("x-linked-etag")?.trim_matches('"'),
        OriginKind::Oci => text("docker-content-digest")?.strip_prefix("sha256:")?,
        OriginKind::Web => return None,
    };
    is_hex(digest, 64).then(|| digest.to_ascii_lowercase())
}
/// How long a file is used whose path identifies its bytes: by a digest, or by a commit of the hub.
pub(crate) fn fixed(kind: OriginKind, path: &str) -> Option<Duration> {
    let of_commit = || {
        let (_, rest) = path.split_once("/resolve/")?;
        rest.split_once('/').filter(|(commit, file)| is_hex(commit, 40) && !file.is_empty())
    };
    let is_fixed = digest_of_path(path).is_some() || kind == OriginKind::HuggingFace && of_commit().is_some();
    is_fixed.then_some(FIXED)
}
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
fn date(fields: &HeaderMap, name: HeaderName) -> Option<Duration> {
    seconds_of(fields.get(name)?.to_str().ok()?)
}
fn seconds_of(text: &str) -> Option<Duration> {
    httpdate::parse_http_date(text).ok().map(|date: SystemTime| date.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);
    const FRESH: Duration = Duration::from_secs(60);

    fn fields(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("legal"))).collect()
    }
    fn seconds(list: &[(&'static str, &str)]) -> u64 {
        lifetime(200, &fields(list), NOW, FRESH).as_secs()
    }

    #[test]
    fn freshness_is_what_the_origin_says_and_otherwise_bounded() {
        let date = ("date", "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(seconds(&[("cache-control", "max-age=5, s-maxage=\"7\"")]), 7);
        assert_eq!(seconds(&[("cache-control", "max-age=50"), ("age", "20")]), 30);
        assert_eq!(seconds(&[("cache-control", "max-age=50, no-cache")]), 0);
        assert_eq!(seconds(&[("cache-control", "max-age=soon")]), 0);
        assert_eq!(seconds(&[date, ("expires", "Tue, 14 Nov 2023 22:14:00 GMT")]), 40);
        assert_eq!(seconds(&[date, ("expires", "0")]), 0);
        assert_eq!(seconds(&[]), 60);
        assert_eq!(seconds(&[date, ("last-modified", "Tue, 14 Nov 2023 22:11:40 GMT")]), 10);
        assert_eq!(seconds(&[date, ("last-modified", "Tue, 14 Nov 2022 22:11:40 GMT")]), 60, "bounded");
        assert_eq!(lifetime(404, &fields(&[]), NOW, FRESH), ABSENT);
        assert_eq!(lifetime(404, &fields(&[("cache-control", "max-age=1")]), NOW, FRESH).as_secs(), 1);
    }

    #[test]
    fn answers_for_one_client_are_not_shared() {
        let may = |status, list: &[(&'static str, &str)], is_private| may_share(status, &fields(list), is_private);
        assert!(may(200, &[], false) && may(404, &[], false));
        assert!(!may(200, &[], true) && !may(401, &[], false) && !may(206, &[], false));
        assert!(may(200, &[("cache-control", "public")], true) && may(200, &[("cache-control", "s-maxage=1")], true));
        for control in ["private", "no-store", "max-age=9, Private"] {
            assert!(!may(200, &[("cache-control", control)], false), "{control}");
        }
        for vary in ["*", "Accept, Cookie", "authorization"] {
            assert!(!may(200, &[("vary", vary)], false), "{vary}");
        }
        assert_eq!(varied(&fields(&[("vary", "Accept-Encoding, Accept")])), ["accept"]);
    }

    #[test]
    fn addresses_with_a_digest_or_a_commit_are_fixed() {
        let hex = "a".repeat(64);
        for path in [format!("/v2/app/blobs/sha256:{hex}"), format!("/v2/a/manifests/sha256%3A{hex}")] {
            assert_eq!(digest_of_path(&path).as_deref(), Some(hex.as_str()), "{path}");
        }
        assert_eq!(digest_of_path(&format!("/dists/x/by-hash/SHA256/{hex}")).as_deref(), Some(hex.as_str()));
        for path in [format!("/x/{hex}"), "/v2/app/manifests/latest".into(), "/x/sha256:abc".into()] {
            assert_eq!(digest_of_path(&path), None, "{path}");
        }
        let commit = format!("/org/model/resolve/{}/a/b", "b".repeat(40));
        assert!(fixed(OriginKind::HuggingFace, &commit).is_some() && fixed(OriginKind::Web, &commit).is_none());
        assert!(fixed(OriginKind::HuggingFace, "/org/model/resolve/main/a").is_none());
        let linked = fields(&[("x-linked-etag", &format!("\"{hex}\""))]);
        assert_eq!(digest_of_fields(OriginKind::HuggingFace, &linked), Some(hex));
    }

    #[test]
    fn the_first_hop_describes_a_file_of_the_hub_and_its_links_are_dropped() {
        let hub = fields(&[("x-repo-commit", "c"), ("etag", "\"hub\""), ("link", "<x>"), ("x-xet-hash", "h")]);
        let store = fields(&[("etag", "\"store\""), ("set-cookie", "a=b"), ("link", "<y>")]);
        let both = passed(&[(302, hub)], &store);
        assert_eq!((both.get("x-repo-commit").map(|v| v.as_bytes()), both.len()), (Some(&b"c"[..]), 2));
        assert_eq!(both.get("etag").map(|value| value.as_bytes()), Some(&b"\"store\""[..]));
    }
}
