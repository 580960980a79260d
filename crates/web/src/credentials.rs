//! Passwords from a netrc file, and cookies from a file in Netscape's format, as curl and browsers' exporters write it.
use reqwest::Url;

/// Maximum bytes of a file of passwords or cookies.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Maximum cookies of a server.
const COOKIES_MAX: usize = 4_096;

/// Passwords by host.
#[derive(Clone, Default)]
pub struct Netrc(Vec<(Option<String>, String, String)>);

impl Netrc {
    /// Reads `machine HOST login NAME password SECRET` and `default …`; macros are passed over.
    pub fn parse(text: &str) -> Netrc {
        let mut entries = Vec::new();
        let mut current: Option<(Option<String>, String, String)> = None;
        let mut in_macro = false;
        for line in text.lines() {
            if in_macro {
                in_macro = !line.trim().is_empty();
                continue;
            }
            let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
            while let Some(word) = words.next() {
                match word {
                    "machine" => {
                        entries.extend(current.take());
                        current =
                            words.next().map(|host| (Some(host.to_ascii_lowercase()), String::new(), String::new()));
                    }
                    "default" => {
                        entries.extend(current.take());
                        current = Some((None, String::new(), String::new()));
                    }
                    "login" => current.iter_mut().for_each(|entry| entry.1 = words.next().unwrap_or_default().into()),
                    "password" => {
                        current.iter_mut().for_each(|entry| entry.2 = words.next().unwrap_or_default().into())
                    }
                    "macdef" => in_macro = true,
                    _ => {}
                }
            }
        }
        entries.extend(current);
        Netrc(entries)
    }
    /// Name and password for a host.
    pub fn find(&self, host: &str) -> Option<(&str, &str)> {
        let is_of = |entry: &&(Option<String>, String, String)| entry.0.as_deref().is_none_or(|of| of == host);
        self.0.iter().find(is_of).map(|(_, login, password)| (login.as_str(), password.as_str()))
    }
}

/// Cookies by domain and path.
#[derive(Clone, Default)]
pub struct Cookies(Vec<Cookie>);

#[derive(Clone)]
struct Cookie {
    domain: String,
    subdomains: bool,
    path: String,
    secure: bool,
    /// Seconds since 1970; zero for the end of a session.
    expires: u64,
    pair: String,
}

impl Cookies {
    /// Reads seven fields a line, with tabs between: domain, subdomains, path, secure, expiry, name, value.
    pub fn parse(text: &str) -> Cookies {
        let read = |line: &str| {
            let line = line.strip_prefix("#HttpOnly_").unwrap_or(line);
            let fields: Vec<&str> = line.split('\t').collect();
            let [domain, subdomains, path, secure, expires, name, value] = fields[..] else { return None };
            if line.starts_with('#') || name.is_empty() {
                return None;
            }
            Some(Cookie {
                domain: domain.trim_start_matches('.').to_ascii_lowercase(),
                subdomains: subdomains.eq_ignore_ascii_case("true"),
                path: path.into(),
                secure: secure.eq_ignore_ascii_case("true"),
                expires: expires.parse().unwrap_or(0),
                pair: format!("{name}={}", value.trim_end()),
            })
        };
        Cookies(text.lines().filter_map(read).collect())
    }
    /// Takes a cookie that `url` sets, for its host alone. True if it is a new one or has another value. RFC 6265 §5.3,
    /// without domains and lifetimes: cookies end with the fetch.
    pub fn learn(&mut self, url: &Url, set_cookie: &str) -> bool {
        let pair = set_cookie.split(';').next().unwrap_or_default().trim();
        let (Some(host), Some((name, _))) = (url.host_str(), pair.split_once('=')) else { return false };
        let is_same = |cookie: &Cookie| {
            cookie.domain == host && cookie.pair.split_once('=').is_some_and(|(known, _)| known == name)
        };
        if self.0.iter().any(|cookie| is_same(cookie) && cookie.pair == pair) {
            return false;
        }
        self.0.retain(|cookie| !is_same(cookie));
        let has_room = self.0.len() < COOKIES_MAX;
        if has_room {
            let (domain, path) = (host.to_ascii_lowercase(), "/".into());
            let secure = url.scheme() == "https";
            self.0.push(Cookie { domain, subdomains: false, path, secure, expires: 0, pair: pair.into() });
        }
        has_room
    }
    /// The header for a request to `url` at `now`, in seconds since 1970; `None` if no cookie is for it. RFC 6265 §5.4.
    pub fn header(&self, url: &Url, now: u64) -> Option<String> {
        let host = url.host_str()?.to_ascii_lowercase();
        let fits = |cookie: &&Cookie| {
            let is_below = host.strip_suffix(&cookie.domain).is_some_and(|front| front.ends_with('.'));
            let rest = url.path().strip_prefix(cookie.path.as_str());
            (host == cookie.domain || cookie.subdomains && is_below)
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || cookie.path.ends_with('/'))
                && (!cookie.secure || url.scheme() == "https")
                && (cookie.expires == 0 || cookie.expires > now)
        };
        let pairs: Vec<&str> = self.0.iter().filter(fits).map(|cookie| cookie.pair.as_str()).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_by_host() {
        let netrc = Netrc::parse(
            "# mine\nmachine A.example.org login me password s3cret\nmacdef init\nmachine x\n\nmachine b\n login you\n \
             password p\ndefault login anonymous password -",
        );
        assert_eq!(netrc.find("a.example.org"), Some(("me", "s3cret")));
        assert_eq!((netrc.find("b"), netrc.find("c")), (Some(("you", "p")), Some(("anonymous", "-"))));
        assert_eq!(Netrc::parse("machine a login x").find("b"), None);
        let with_hash = Netrc::parse("machine a login x password s#cret # mine");
        assert_eq!(with_hash.find("a"), Some(("x", "s#cret")));
    }

    #[test]
    fn cookies_go_only_where_they_belong() {
        let cookies = Cookies::parse(
            "# Netscape HTTP Cookie File\n.example.org\tTRUE\t/\tFALSE\t0\ta\t1\n#HttpOnly_example.org\tFALSE\t/x\tTRUE\t0\tb\t2\n\
             example.org\tFALSE\t/\tFALSE\t50\told\t3\nbroken line\n",
        );
        let header = |url: &str| cookies.header(&url.parse().expect("a URL"), 100);
        assert_eq!(header("http://www.example.org/f").as_deref(), Some("a=1"));
        assert_eq!(header("https://example.org/x/f").as_deref(), Some("a=1; b=2"));
        assert_eq!(header("https://example.org/xy").as_deref(), Some("a=1"));
        assert_eq!(header("http://badexample.org/"), None);
    }
}
