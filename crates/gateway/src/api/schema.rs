//! The schemas of requests, as they are in `docs/reference`.
use std::sync::LazyLock;

use serde_json::Value;

/// Of requests: `docs/reference/requests.schema.json`.
pub(crate) static REQUESTS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../pages/requests.schema.json")).expect("the tests parse it")
});
/// The schema of a request's field; null if the request lacks the field.
pub(crate) fn field(op: &str, name: &str) -> &'static Value {
    &REQUESTS["$defs"][op]["properties"][name]
}
