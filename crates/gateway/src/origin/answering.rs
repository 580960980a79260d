//! Answers to clients: of a copy, or of the origin for one client.
use std::ops::Range;

use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use tokio::sync::mpsc;
use tributary_web::{
    exchange::Exchange,
    header::{HeaderName, HeaderValue},
};

use super::{
    Landed,
    copy::{Copy, Head},
    policy,
};
use crate::{
    body::Content,
    conditions::{self, Validators, Wanted},
    config::HttpOrigin,
    sessions::Failure,
};

/// The answer to a client.
pub(super) fn respond<B>(
    landed: Landed,
    request: &Request<B>,
    origin: &HttpOrigin,
) -> Result<Response<Content>, Failure> {
    let mut response = match landed {
        Landed::Copy(copy, how) => of_copy(copy, how, request),
        Landed::Own(exchange) => {
            let exchange = exchange.lock().take().ok_or_else(|| Failure::new(503, "another client has the answer"))?;
            of_exchange(exchange, request.method())
        }
    };
    // The next page of a list must not lead past the gateway.
    let link = response.headers().get(header::LINK).and_then(|link| link.to_str().ok().map(String::from));
    if let (Some(link), Some(host)) = (link, request.headers().get(header::HOST).and_then(|host| host.to_str().ok())) {
        let base = origin.urls[0].as_str().trim_end_matches('/');
        let link = link.replace(&format!("<{base}/"), &format!("<http://{host}{}/", origin.path));
        insert(response.headers_mut(), header::LINK, &link);
    }
    Ok(response)
}

fn of_copy<B>(copy: Copy, how: &str, request: &Request<B>) -> Response<Content> {
    let Copy { head, body } = copy;
    let mut response = Response::new(Content::empty());
    *response.status_mut() = StatusCode::from_u16(head.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = head.map();
    let fields = response.headers_mut();
    insert(fields, header::AGE, &head.age().unwrap_or_default().as_secs().to_string());
    insert(fields, HeaderName::from_static("cache-status"), &format!("tributary; {how}"));
    insert(fields, HeaderName::from_static("tributary-verified"), head.verified.word());
    let size = head.size.or(head.digest.is_some().then(|| body.as_ref().map(|body| body.len())).flatten());
    let mut range = 0..size.unwrap_or(u64::MAX);
    if let (200, Some(size)) = (head.status, size) {
        insert(fields, header::ACCEPT_RANGES, "bytes");
        match conditions::wanted(request.headers(), &validators(&head), size) {
            Wanted::NotModified => {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                return response;
            }
            Wanted::Failed => {
                *response.status_mut() = StatusCode::PRECONDITION_FAILED;
                return response;
            }
            Wanted::Unsatisfiable => {
                insert(fields, header::CONTENT_RANGE, &format!("bytes */{size}"));
                *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                return response;
            }
            Wanted::Ranges(ranges) if ranges.len() == 1 => {
                range = ranges[0].clone();
                insert(fields, header::CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            // A server may send all for several ranges (RFC 9110 §14.2).
            Wanted::All | Wanted::Ranges(_) => {}
        }
    }
    if size.is_some() {
        insert(response.headers_mut(), header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    }
    if let (Some(body), &Method::GET) = (body, request.method()) {
        let Range { start, end } = range;
        *response.body_mut() = Content::arriving(body.stream(start..end), size.map(|_| end - start));
    }
    response
}
fn validators(head: &Head) -> Validators {
    let of_digest = || head.digest.as_ref().map(|digest| format!("\"sha256-{digest}\"")).unwrap_or_default();
    let modified = head.field("last-modified").and_then(|date| httpdate::parse_http_date(date).ok());
    Validators { tag: head.field("etag").map_or_else(of_digest, String::from), modified }
}

/// An answer that is passed on as it arrives, and not kept.
fn of_exchange(mut exchange: Exchange, method: &Method) -> Response<Content> {
    let mut response = Response::new(Content::empty());
    *response.status_mut() = StatusCode::from_u16(exchange.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = policy::passed(&exchange.hops, &exchange.fields);
    let fields = response.headers_mut();
    for name in [header::CONTENT_RANGE, header::ACCEPT_RANGES, header::CONTENT_LENGTH] {
        exchange.fields.get(&name).into_iter().for_each(|value| drop(fields.insert(&name, value.clone())));
    }
    insert(fields, HeaderName::from_static("cache-status"), "tributary; fwd=bypass");
    insert(fields, HeaderName::from_static("tributary-verified"), "origin");
    if method == Method::GET {
        let length = exchange.length();
        let (pieces, body) = mpsc::channel(2);
        tokio::spawn(async move {
            loop {
                let piece = match exchange.read().await {
                    Ok(Some(bytes)) => Ok(bytes),
                    Ok(None) => break,
                    Err(error) => Err(std::io::Error::other(error)),
                };
                let is_last = piece.is_err();
                if pieces.send(piece).await.is_err() || is_last {
                    break;
                }
            }
        });
        *response.body_mut() = Content::arriving(body, length);
    }
    response
}
fn insert(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}
