//! The dashboard: a page that shows the API's data. Its files are part of the program; it loads nothing from anywhere
//! else.
use bytes::Bytes;
use hyper::{
    Method, Response, StatusCode,
    header::{self, HeaderValue},
};

use crate::body::{Content, answer_of, empty_answer};

/// Where it is.
pub(crate) const ROOT: &str = "/dashboard/";
/// Its files, their types and their content.
const FILES: [(&str, &str, &str); 4] = [
    ("", "text/html; charset=utf-8", include_str!("index.html")),
    ("style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("app.js", "text/javascript; charset=utf-8", include_str!("app.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
];
/// The page runs its own script and queries its own listener, and the policy keeps any script from turning text into
/// markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether a path is one of the dashboard, with or without the slash at its end.
pub(crate) fn claims(path: &str) -> bool {
    path.starts_with(ROOT) || path == ROOT.trim_end_matches('/')
}
/// Answers a request for one of its files; nothing secret is in them.
pub(crate) fn answer(method: &Method, path: &str) -> Response<Content> {
    let name = path.strip_prefix(ROOT);
    let found = name.and_then(|name| FILES.iter().find(|(of, ..)| *of == name));
    let mut response = match found {
        _ if *method != Method::GET && *method != Method::HEAD => {
            let mut response = empty_answer(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        Some((_, kind, text)) => answer_of(StatusCode::OK, kind, Bytes::from_static(text.as_bytes())),
        None if name.is_none() => elsewhere(),
        None => empty_answer(StatusCode::NOT_FOUND),
    };
    for (field, value) in [
        ("content-security-policy", POLICY),
        ("cache-control", "no-cache"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        response.headers_mut().insert(field, HeaderValue::from_static(value));
    }
    response
}
/// Redirects a browser there.
pub(crate) fn elsewhere() -> Response<Content> {
    let mut response = empty_answer(StatusCode::FOUND);
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(ROOT));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_no_other_place_and_has_no_inline_code() {
        for (name, _, text) in FILES {
            let elsewhere =
                ["https://", "http://", "//cdn", "@import", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("];
            for word in elsewhere {
                let own = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!own.contains(word), "{name} has {word}");
            }
        }
        let page = FILES[0].2;
        for inline in ["<style", "style=", "onclick", "onload", "javascript:"] {
            assert!(!page.contains(inline), "{inline}");
        }
        assert_eq!(page.matches("<script").count(), 1);
    }
}
