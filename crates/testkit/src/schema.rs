//! The schema of the JSON lines, `docs/reference/events.schema.json`; the tests validate the program's output against
//! it.
//!
//! Readers of the schema may meet fields that it does not have, because later versions add some. The tests are
//! stricter: a field that the schema does not name is a mistake. The schema keeps to the few keywords that are read
//! here; another one fails the tests, so that no unchecked keyword passes as checked. (A whole validator would bring
//! forty crates.)
use serde_json::{Map, Value};
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../docs/reference/events.schema.json")).expect("the schema is JSON")
});

/// Checks a line.
///
/// # Panics
/// If the schema does not allow it.
pub fn check(line: &Value) {
    if let Err(reason) = valid(line, &SCHEMA, "line", &SCHEMA) {
        panic!("docs/reference/events.schema.json does not allow this: {reason}\n{line}");
    }
}

/// Checks a value against a schema, whose references lead into `root`; `at` names the value in the error.
///
/// # Errors
/// The first place that the schema does not allow, and why.
pub fn valid(value: &Value, schema: &Value, at: &str, root: &Value) -> Result<(), String> {
    let schema = schema.as_object().ok_or_else(|| format!("{at}: its schema is no object"))?;
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "examples" | "required" | "additionalProperties" => {}
            "$ref" => {
                let pointer = rule.as_str().and_then(|text| text.strip_prefix('#')).unwrap_or_default();
                valid(value, root.pointer(pointer).ok_or_else(|| format!("{at}: there is no {rule}"))?, at, root)?;
            }
            "oneOf" | "anyOf" => one_of(value, rule, at, root)?,
            "type" => {
                let is_allowed = match rule {
                    Value::Array(rules) => rules.iter().any(|rule| is_of(value, rule)),
                    rule => is_of(value, rule),
                };
                must(is_allowed, at, || format!("{value} is not {rule}"))?;
            }
            "const" => must(value == rule, at, || format!("{value} is not {rule}"))?,
            "enum" => {
                let is_allowed = rule.as_array().is_some_and(|values| values.contains(value));
                must(is_allowed, at, || format!("{value} is none of {rule}"))?;
            }
            "minimum" => must(number(value) >= number(rule), at, || format!("{value} is below {rule}"))?,
            "maximum" => must(number(value) <= number(rule), at, || format!("{value} is above {rule}"))?,
            "minItems" => must(length(value) >= number(rule), at, || format!("{value} is too short"))?,
            "maxItems" => must(length(value) <= number(rule), at, || format!("{value} is too long"))?,
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    valid(item, rule, &format!("{at}[{index}]"), root)?;
                }
            }
            "properties" => properties(value, schema, at, root)?,
            other => return Err(format!("{at}: the tests do not know the keyword '{other}'")),
        }
    }
    if let (false, Some(rule), Some(fields)) =
        (schema.contains_key("properties"), schema.get("additionalProperties"), value.as_object())
    {
        fields.iter().try_for_each(|(name, field)| valid(field, rule, &format!("{at}.{name}"), root))?;
    }
    Ok(())
}

/// All required fields are present, and each field is named and has its type.
fn properties(value: &Value, schema: &Map<String, Value>, at: &str, root: &Value) -> Result<(), String> {
    let Some(fields) = value.as_object() else { return Ok(()) };
    let named = schema["properties"].as_object().ok_or_else(|| format!("{at}: 'properties' is no object"))?;
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        must(fields.contains_key(name), at, || format!("'{name}' is missing"))?;
    }
    for (name, field) in fields {
        let rule = named.get(name).ok_or_else(|| format!("{at}: the schema has no '{name}'"))?;
        valid(field, rule, &format!("{at}.{name}"), root)?;
    }
    Ok(())
}

/// Exactly one of the schemas allows it. The error is of those that are about its kind of event.
fn one_of(value: &Value, rules: &Value, at: &str, root: &Value) -> Result<(), String> {
    let rules = rules.as_array().ok_or_else(|| format!("{at}: no list of schemas"))?;
    let is_about = |rule: &&Value| {
        let definition = rule["$ref"].as_str().and_then(|pointer| root.pointer(&pointer[1..])).unwrap_or(rule);
        let event = &definition["properties"]["event"]["const"];
        value["event"] == *event || event.is_null() && value["event"].is_null()
    };
    let results: Vec<_> = rules.iter().filter(is_about).map(|rule| valid(value, rule, at, root)).collect();
    match results.iter().filter(|result| result.is_ok()).count() {
        1 => Ok(()),
        0 if results.is_empty() => Err(format!("{at}: there is no event {}", value["event"])),
        0 => Err(results.into_iter().filter_map(Result::err).collect::<Vec<_>>().join("; or ")),
        several => Err(format!("{at}: {several} schemas allow it")),
    }
}

fn is_of(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        _ => false,
    }
}
fn must(holds: bool, at: &str, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{at}: {}", reason())) }
}
/// Other values are left to `type`.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
fn length(value: &Value) -> f64 {
    value.as_array().map_or(0, Vec::len) as f64
}
