//! From a request over HTTP to a request of the node.
use bytes::Bytes;
use serde_json::{Map, Value};
use tributary::{ApiError, Request};

use super::{schema, table::Route};
use crate::folder;

/// Makes the request of a route from the fields in the path, the query and the body.
///
/// # Errors
/// [`ApiError`] of kind usage names the wrong field.
pub(crate) fn request(
    route: &Route,
    path: &[(&'static str, &str)],
    query: &str,
    body: &Bytes,
) -> Result<Request, ApiError> {
    let mut fields = match body.is_empty() {
        true => Map::new(),
        false if route.has_query() => {
            return Err(ApiError::usage(format!("{} takes its fields from the query, not from a body", route.method)));
        }
        false => match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(ApiError::usage("the body is no JSON object")),
            Err(error) => return Err(ApiError::usage(format!("the body is no JSON: {error}"))),
        },
    };
    if !route.has_query() && !query.is_empty() {
        return Err(ApiError::usage(format!("{} takes its fields from the body, not from the query", route.method)));
    }
    from_query(&mut fields, route.op, query)?;
    for (name, text) in path {
        // The path takes precedence.
        fields.remove(*name);
        add(&mut fields, route.op, name, &decode(text, Plus::IsItself)?)?;
    }
    if fields.insert("op".into(), route.op.into()).is_some() {
        return Err(ApiError::usage("the path determines the operation: leave 'op' out"));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| ApiError::usage(error.to_string()))
}

/// The request that publishes an uploaded file: the fields of `put` but its path, from the query.
///
/// # Errors
/// As [`request`].
pub(crate) fn upload(query: &str, path: &std::path::Path) -> Result<Request, ApiError> {
    let mut fields = Map::new();
    from_query(&mut fields, "put", query)?;
    fields.insert("op".into(), "put".into());
    let text =
        path.to_str().ok_or_else(|| ApiError::usage(format!("the state folder '{}' is no UTF-8", path.display())))?;
    if fields.insert("path".into(), text.into()).is_some() {
        return Err(ApiError::usage("an upload has no 'path'"));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| ApiError::usage(error.to_string()))
}

fn from_query(fields: &mut Map<String, Value>, op: &str, query: &str) -> Result<(), ApiError> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, text) = (decode(name, Plus::IsSpace)?, decode(text, Plus::IsSpace)?);
        add(fields, op, &name, &text)?;
    }
    Ok(())
}
/// Adds a field given as text, with the type in the schema. Repeated fields form a list.
fn add(fields: &mut Map<String, Value>, op: &str, name: &str, text: &str) -> Result<(), ApiError> {
    let schema = schema::field(op, name);
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|of| of == kind),
        of => of == kind,
    };
    let wrong = |expected: &str| ApiError::usage(format!("'{name}' is {expected}, not '{text}'"));
    if is("array") {
        let list = fields.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut().ok_or_else(|| wrong("a list"))?.push(text.into());
        return Ok(());
    }
    let value = match () {
        () if is("integer") => Value::from(text.parse::<u64>().map_err(|_| wrong("a number"))?),
        () if is("boolean") => Value::from(text.parse::<bool>().map_err(|_| wrong("true or false"))?),
        () => Value::from(text),
    };
    match fields.insert(name.into(), value) {
        None => Ok(()),
        Some(_) => Err(ApiError::usage(format!("'{name}' occurs twice"))),
    }
}

/// The meaning of a plus sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plus {
    /// In a query, as forms write it.
    IsSpace,
    /// In a path.
    IsItself,
}

/// Text without its percent signs, each followed by two hexadecimal digits.
///
/// # Errors
/// [`ApiError`] if the digits are missing or the bytes are no UTF-8.
pub(crate) fn decode(text: &str, plus: Plus) -> Result<String, ApiError> {
    // A plus sign in percent signs is one.
    let spaced = if plus == Plus::IsSpace { text.replace('+', " ") } else { text.into() };
    let unpaired = || ApiError::usage(format!("'{text}' has a percent sign without two hexadecimal digits"));
    let bytes = folder::decode(&spaced).ok_or_else(unpaired)?;
    String::from_utf8(bytes).map_err(|_| ApiError::usage(format!("'{text}' is no UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::{super::table::ROUTES, *};

    fn made(method: &str, path: &str, query: &str, body: &str) -> Result<Request, ApiError> {
        let (route, fields) = ROUTES
            .iter()
            .filter(|route| route.method == method)
            .find_map(|route| Some((route, route.fields(path)?)))
            .expect("a route");
        request(route, &fields, query, &Bytes::copy_from_slice(body.as_bytes()))
    }

    #[test]
    fn fields_come_from_path_query_and_body_with_their_types() {
        let limit = Request::Limit { transfer: Some("transfer-1".into()), bits_per_second: Some(5) };
        let body = r#"{"bits_per_second":5}"#;
        assert_eq!(made("PUT", "/transfers/transfer-1/limit", "", body).expect("right"), limit);
        // The path decides.
        let other = r#"{"bits_per_second":5,"transfer":"transfer-2"}"#;
        assert_eq!(made("PUT", "/transfers/transfer%2D1/limit", "", other).expect("right"), limit);
        let list = Request::List { scope: "/a b+c".into(), patience_ms: 7 };
        assert_eq!(made("GET", "/names", "scope=/a+b%2Bc&patience_ms=7", "").expect("right"), list);
        let remove = Request::GroupRemove { label: "a/b".into(), members: vec!["x".into(), "y".into()] };
        assert_eq!(made("DELETE", "/groups/a%2Fb/members", "members=x&members=y", "").expect("right"), remove);
    }

    #[test]
    fn what_is_wrong_is_a_usage_error_that_names_it() {
        for (method, path, query, body, named) in [
            ("GET", "/names", "scope=/a&patience_ms=soon", "", "'patience_ms' is a number"),
            ("GET", "/names", "scope=/a&scope=/b", "", "'scope' occurs twice"),
            ("GET", "/names", "", "", "missing field `scope`"),
            ("GET", "/names", "scope=/a&colour=red", "", "colour"),
            ("GET", "/names", "scope=%zz", "", "percent sign"),
            ("GET", "/names", "scope=%ff", "", "no UTF-8"),
            ("GET", "/names", "scope=/a", "{}", "not from a body"),
            ("GET", "/status", "op=cancel", "", "leave 'op' out"),
            ("PUT", "/limit", "bits_per_second=5", "", "not from the query"),
            ("PUT", "/limit", "", "[]", "no JSON object"),
            ("PUT", "/limit", "", "{", "no JSON"),
            ("PUT", "/limit", "", r#"{"bits_per_second":-1}"#, "-1"),
        ] {
            let error = made(method, path, query, body).expect_err(query);
            assert_eq!(error.kind, tributary::ErrorKind::Usage);
            assert!(error.message.contains(named), "{query}{body}: {error}");
        }
    }
}
