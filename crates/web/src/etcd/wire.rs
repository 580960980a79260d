//! The messages of the JSON gateway. Bytes are in base64, numbers of 64 bits in strings.
use base64ct::{Base64, Encoding};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tributary_directory::engine::{Before, Entry};

/// The head of every answer.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub(super) cluster_id: u64,
    #[serde(deserialize_with = "number")]
    pub(super) revision: u64,
}
/// A number that is written as a string; zero if it cannot be parsed.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(String::deserialize(from)?.parse().unwrap_or(0))
}
fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    Ok(Base64::decode_vec(&String::deserialize(from)?).unwrap_or_default())
}

/// A key and its value.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct KeyValue {
    #[serde(deserialize_with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(deserialize_with = "bytes")]
    pub(super) value: Vec<u8>,
    #[serde(deserialize_with = "number")]
    pub(super) mod_revision: u64,
    version: String,
    #[serde(deserialize_with = "number")]
    pub(super) lease: u64,
}
impl KeyValue {
    /// Whether it is the first since the key last existed.
    pub(super) fn is_first(&self) -> bool {
        self.version == "1"
    }
    /// The record there; one in a foreign format has version 0, so that it is replaced.
    pub(super) fn entry(&self, prefix: usize) -> Entry {
        let (mut key, value) = (self.key.clone(), self.value.clone());
        key.drain(..prefix.min(key.len()));
        match value.split_first_chunk() {
            Some((version, record)) => Entry { key, version: u64::from_be_bytes(*version), value: record.into() },
            None => Entry { key, version: 0, value },
        }
    }
}

/// The answer to a range, a put, a grant, a renewal and a transaction: the fields in use.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Reply {
    pub(super) header: Header,
    pub(super) kvs: Vec<KeyValue>,
    pub(super) more: bool,
    pub(super) succeeded: bool,
    pub(super) responses: Vec<Response>,
    /// For a renewal; absent if the lease does not exist.
    #[serde(rename = "TTL")]
    pub(super) ttl: String,
    pub(super) token: String,
    /// A renewal's answer is the first of a stream.
    pub(super) result: Option<Box<Reply>>,
    /// Or the reason for failure.
    pub(super) error: Option<Failure>,
}

impl Reply {
    /// The record that made a transaction fail; `None` if it has put.
    pub(super) fn refused(self) -> Option<Reply> {
        if self.succeeded {
            return None;
        }
        let response = self.responses.into_iter().next().unwrap_or_default();
        match (response.response_txn, response.response_range) {
            (Some(nested), _) => nested.refused(),
            (None, Some(mut range)) => {
                range.header = self.header;
                Some(range)
            }
            (None, None) => Some(Reply { header: self.header, ..Reply::default() }),
        }
    }
}

/// A part of a transaction's answer.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Response {
    pub(super) response_txn: Option<Reply>,
    pub(super) response_range: Option<Reply>,
}

/// Why a request failed. etcd 3.4 writes `error` too, 3.6 only `message`; in a stream 3.4 writes `grpc_code`.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Failure {
    message: String,
    /// A text, or the failure itself.
    error: Value,
    code: i64,
    grpc_code: i64,
}
impl Failure {
    pub(super) fn text(&self) -> &str {
        let nested = self.error.get("message").unwrap_or(&self.error).as_str();
        if self.message.is_empty() { nested.unwrap_or_default() } else { &self.message }
    }
    pub(super) fn code(&self) -> i64 {
        let nested = |name: &str| self.error.get(name).and_then(Value::as_i64);
        let of_stream = nested("grpc_code").or_else(|| nested("code")).unwrap_or_default();
        [self.code, self.grpc_code, of_stream].into_iter().find(|code| *code != 0).unwrap_or_default()
    }
}

/// A line of a watch.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct WatchLine {
    pub(super) result: Option<WatchReply>,
    pub(super) error: Option<Failure>,
}
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct WatchReply {
    pub(super) header: Header,
    pub(super) created: bool,
    pub(super) canceled: bool,
    #[serde(deserialize_with = "number")]
    pub(super) compact_revision: u64,
    pub(super) cancel_reason: String,
    pub(super) events: Vec<Event>,
    /// Whether more of the same revisions follows.
    pub(super) fragment: bool,
}
/// A change.
#[derive(Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Event {
    #[serde(rename = "type")]
    kind: String,
    pub(super) kv: KeyValue,
    prev_kv: Option<KeyValue>,
}
impl Event {
    pub(super) fn after(&self, prefix: usize) -> Option<Entry> {
        (self.kind != "DELETE").then(|| self.kv.entry(prefix))
    }
    pub(super) fn before(&self, prefix: usize) -> Before {
        match &self.prev_kv {
            Some(before) => Before::Entry(before.entry(prefix)),
            None if self.kv.is_first() => Before::Nothing,
            None => Before::Unknown,
        }
    }
}

pub(super) fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// The stored form of a record: its version comes first, so that values compare as versions do.
pub(super) fn value_of(entry: &Entry) -> Vec<u8> {
    [&entry.version.to_be_bytes(), &entry.value[..]].concat()
}

pub(super) fn put(key: &[u8], value: &[u8], lease: u64) -> Value {
    json!({ "key": base64(key), "value": base64(value), "lease": lease.to_string() })
}
/// A put if the key is free or has a lower version; else the answer is the present record.
pub(super) fn put_below(key: &[u8], value: &[u8], below: u64, lease: u64) -> Value {
    let (put, at) = (json!({ "request_put": put(key, value, lease) }), base64(key));
    let is_lower = json!({ "key": at, "target": "VALUE", "result": "LESS", "value": base64(&below.to_be_bytes()) });
    // A comparison of a missing key's value fails.
    let is_absent = json!({ "key": at, "target": "VERSION", "result": "EQUAL", "version": "0" });
    let read = json!({ "request_range": { "key": at } });
    let otherwise = json!({ "request_txn": { "compare": [is_absent], "success": [put], "failure": [read] } });
    json!({ "compare": [is_lower], "success": [put], "failure": [otherwise] })
}
/// A put if the record has not changed since a revision; else the answer is the present record.
pub(super) fn put_at(key: &[u8], value: &[u8], revision: u64, lease: u64) -> Value {
    let same = json!({ "key": base64(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() });
    let read = json!({ "request_range": { "key": base64(key) } });
    json!({ "compare": [same], "success": [{ "request_put": put(key, value, lease) }], "failure": [read] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_however_they_are_written() {
        for text in [
            r#"{"error":"no","message":"no","code":16}"#,
            r#"{"message":"no","code":16}"#,
            r#"{"grpc_code":16,"http_code":401,"message":"no","http_status":"Unauthorized"}"#,
            r#"{"error":{"grpc_code":16,"http_code":401,"message":"no"}}"#,
            r#"{"error":{"code":16,"message":"no"}}"#,
        ] {
            let failure: Failure = serde_json::from_str(text).unwrap();
            assert_eq!((failure.code(), failure.text()), (16, "no"), "{text}");
        }
        let reply: Reply = serde_json::from_str(r#"{"error":{"grpc_code":14,"message":"no leader"}}"#).unwrap();
        assert!(reply.result.is_none() && reply.error.is_some_and(|error| error.text() == "no leader"));
    }

    #[test]
    fn answers_of_etcd_are_read() {
        let text = r#"{"header":{"cluster_id":"15875391935852295136","member_id":"7","revision":"2","raft_term":"2"},
            "responses":[{"response_txn":{"header":{},"responses":[{"response_range":{"header":{"revision":"2"},
            "kvs":[{"key":"cC9r","create_revision":"2","mod_revision":"2","version":"1","value":"AAAAAAAAAAFyZWMx",
            "lease":"77"}],"count":"1"}}]}}]}"#;
        let reply: Reply = serde_json::from_str(text).unwrap();
        assert_eq!((reply.header.cluster_id, reply.header.revision), (15_875_391_935_852_295_136, 2));
        assert!(!reply.succeeded);
        let there = reply.responses[0].response_txn.as_ref().unwrap().responses[0].response_range.as_ref().unwrap();
        let entry = Entry { key: b"k".to_vec(), version: 1, value: b"rec1".to_vec() };
        assert_eq!((there.kvs[0].entry(2), there.kvs[0].lease, there.kvs[0].mod_revision), (entry, 77, 2));

        let text = r#"{"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"3"}}"#;
        let line: WatchLine = serde_json::from_str(text).unwrap();
        assert!(line.result.is_some_and(|reply| reply.canceled && reply.compact_revision > 0));
        let text = r#"{"result":{"header":{},"events":[{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"5"}}]}}"#;
        let line: WatchLine = serde_json::from_str(text).unwrap();
        let event = &line.result.unwrap().events[0];
        assert_eq!((event.after(0), event.before(0), event.kv.mod_revision), (None, Before::Unknown, 5));
    }
}
