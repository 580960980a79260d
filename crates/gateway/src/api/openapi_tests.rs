//! The description of the API by OpenAPI 3.1, made of the table of routes and of the schemas of requests and events.
//! The gateway serves `docs/reference/openapi.json`, which must equal it.
use std::{path::Path, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::{
    OPENAPI, ROOT, UPLOADS, schema,
    table::{Answers, ROUTES, Route},
};

/// Of events: `docs/reference/events.schema.json`.
static EVENTS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../pages/events.schema.json")).expect("JSON"));

fn describe() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let methods = paths.entry(format!("{ROOT}{}", route.path)).or_insert_with(|| json!({}));
        methods[route.method.as_str().to_lowercase()] = operation(route);
    }
    let upload = upload(&paths[&format!("{ROOT}/publications")]["post"]["responses"]);
    paths.insert(format!("{ROOT}{UPLOADS}"), json!({"post": upload}));
    let mut schemas = Map::new();
    for (name, of) in EVENTS["$defs"].as_object().into_iter().flatten() {
        schemas.insert(name.clone(), moved(of, ""));
    }
    for (name, of) in schema::REQUESTS["$defs"].as_object().into_iter().flatten() {
        schemas.insert(format!("request-{name}"), moved(of, "request-"));
    }
    schemas.insert("event".into(), json!({"oneOf": moved(&EVENTS["oneOf"], "")}));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tributary",
            "version": "1",
            "description": "The commands and events of a node's control socket, over HTTP. Fields and events may be added; within a version they are never renamed or removed.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The content of `token_file` in `[http]`. Without that key only the user that runs the node may use the API, over loopback."
                }
            },
            "responses": {
                "error": {
                    "description": "The failed step, its target, the cause and a remedy. 400: the request is wrong; 401: the token is wrong; 403: the client is not allowed, or the network refused; 404: it does not exist; 409: it was cancelled; 502: started and not completed; 503: too many requests.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/error"}}}
                }
            }
        }
    })
}

fn operation(route: &Route) -> Value {
    let request = &schema::REQUESTS["$defs"][route.op];
    let field_names: Vec<&str> = route.field_names().collect();
    let mut parameters: Vec<Value> = field_names.iter().map(|name| parameter(route.op, name, "path")).collect();
    let others = request["properties"].as_object().into_iter().flatten().filter(|(name, _)| {
        *name != "op" && !field_names.contains(&name.as_str()) && !matches!(route.answers, Answers::PartOfStatus(_))
    });
    let mut operation = json!({
        "operationId": format!("{}{}", route.method.as_str().to_lowercase(), route.path.replace(['{', '}'], "").replace('/', "-")),
        "description": about(route, request),
        "responses": {"200": answer(route), "default": {"$ref": "#/components/responses/error"}}
    });
    if route.has_query() {
        // The stream of events has one progress for all clients.
        let others = others.filter(|_| route.answers != Answers::Watch);
        parameters.extend(others.map(|(name, _)| parameter(route.op, name, "query")));
    } else {
        let properties: Map<String, Value> = others.map(|(name, of)| (name.clone(), moved(of, "request-"))).collect();
        let required: Vec<&Value> = request["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
            .collect();
        if !properties.is_empty() {
            let schema = json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false
            });
            operation["requestBody"] = json!({
                "required": !required.is_empty(),
                "content": {"application/json": {"schema": schema}}
            });
        }
    }
    if route.answers == Answers::Watch {
        parameters.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The `id` of the last event seen: the stream continues after it, if the node still has it.",
            "schema": {"type": "string"}
        }));
    }
    operation["parameters"] = Value::Array(parameters);
    operation
}

/// Publishing by upload: as `put`, with the file as the body in place of its path.
fn upload(responses: &Value) -> Value {
    let fields = schema::REQUESTS["$defs"]["put"]["properties"].as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["op", "path"].contains(&name.as_str()));
    let mut responses = responses.clone();
    responses["200"]["content"]["application/json"]["schema"] = json!({"$ref": "#/components/schemas/published"});
    json!({
        "operationId": "post-uploads",
        "description": "Publishes the file in the body. The node keeps the file while it is published.",
        "parameters": fields.map(|(name, _)| parameter("put", name, "query")).collect::<Vec<_>>(),
        "requestBody": {"required": true, "content": {"application/octet-stream": {"schema": {}}}},
        "responses": responses
    })
}

fn parameter(op: &str, name: &str, place: &str) -> Value {
    let mut schema = moved(schema::field(op, name), "request-");
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description")).unwrap_or_default();
    let is_required = place == "path"
        || schema::REQUESTS["$defs"][op]["required"].as_array().is_some_and(|all| all.iter().any(|of| of == name));
    json!({"name": name, "in": place, "required": is_required, "description": description, "schema": schema})
}

fn about(route: &Route, request: &Value) -> Value {
    match route.answers {
        Answers::PartOfStatus(field) => format!("The field `{field}` of the node's status.").into(),
        Answers::Watch => "The node's events, as server-sent events. Each has the name of the object in `what`; `missed` reports the number of lost events.".into(),
        Answers::One(_) | Answers::Many(_) | Answers::Stream(_) => request["description"].clone(),
    }
}

fn answer(route: &Route) -> Value {
    let of = |event: &str| json!({"$ref": format!("#/components/schemas/{event}")});
    let one_of = |events: &[&str]| match events {
        [event] => of(event),
        events => json!({"oneOf": events.iter().map(|event| of(event)).collect::<Vec<_>>()}),
    };
    match route.answers {
        Answers::One(event) => json!({
            "description": format!("The object `{event}`."),
            "content": {"application/json": {"schema": of(event)}}
        }),
        Answers::PartOfStatus(field) => {
            let mut schema = moved(&EVENTS["$defs"]["status"]["properties"][field], "");
            let is_required = EVENTS["$defs"]["status"]["required"]
                .as_array()
                .is_some_and(|required| required.iter().any(|name| name == field));
            if !is_required {
                schema = json!({"anyOf": [schema, {"type": "null"}]});
            }
            json!({
                "description": format!("The value of `{field}`."),
                "content": {"application/json": {"schema": schema}}
            })
        }
        Answers::Many(events) => json!({
            "description": "All of them.",
            "content": {"application/json": {"schema": {"type": "array", "items": one_of(events)}}}
        }),
        Answers::Stream(events) => json!({
            "description": "One object per line, as they occur; with `Accept: text/event-stream` server-sent events. An `error` is the last one.",
            "content": {
                "application/x-ndjson": {"schema": one_of(events)},
                "text/event-stream": {"schema": one_of(events)}
            }
        }),
        Answers::Watch => json!({
            "description": "A stream without an end.",
            "content": {"text/event-stream": {"schema": of("happened")}}
        }),
    }
}

/// A schema with its references to `#/$defs/NAME` as references to components.
fn moved(schema: &Value, prefix: &str) -> Value {
    match schema {
        Value::Object(fields) => {
            let moved = |(name, value): (&String, &Value)| {
                let value = match (name.as_str(), value.as_str()) {
                    ("$ref", Some("#")) => "#/components/schemas/event".into(),
                    ("$ref", Some(reference)) => {
                        let target = reference.trim_start_matches("#/$defs/");
                        format!("#/components/schemas/{prefix}{target}").into()
                    }
                    _ => moved(value, prefix),
                };
                (name.clone(), value)
            };
            Value::Object(fields.iter().map(moved).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| moved(value, prefix)).collect()),
        other => other.clone(),
    }
}

/// `TRIBUTARY_WRITE_DOCS=1 cargo test -p trib-gateway openapi` writes the file.
#[test]
fn the_committed_description_is_that_of_the_routes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let made = serde_json::to_string_pretty(&describe()).expect("JSON") + "\n";
    if std::env::var_os("TRIBUTARY_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("writable");
    }
    assert!(
        OPENAPI == made,
        "docs/reference/openapi.json is old: TRIBUTARY_WRITE_DOCS=1 cargo test -p trib-gateway openapi"
    );
}

#[test]
fn every_reference_leads_somewhere_and_every_event_is_described() {
    fn walk(value: &Value, seen: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                seen.extend(fields.get("$ref").and_then(Value::as_str).map(String::from));
                fields.values().for_each(|value| walk(value, seen));
            }
            Value::Array(list) => list.iter().for_each(|value| walk(value, seen)),
            _ => {}
        }
    }
    let mut references = Vec::new();
    let description = describe();
    walk(&description, &mut references);
    assert!(references.len() > 50);
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("inside");
        assert!(description.pointer(pointer).is_some(), "{reference}");
    }
    for route in ROUTES {
        assert!(schema::REQUESTS["$defs"][route.op].is_object(), "no schema of the request '{}'", route.op);
        let names = route.field_names().filter(|name| !schema::field(route.op, name).is_object());
        assert_eq!(names.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", route.path);
    }
}
