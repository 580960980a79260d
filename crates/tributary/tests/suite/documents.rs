//! The schema of the JSON lines matches [`Notice`]: the same events, and the same fields in each.
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tributary::{Api, LocalApi, NodeConfig, Notice, Request};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/reference/events.schema.json")).unwrap()
}
/// What the program may call an event: serde lists it when it meets another one.
fn events() -> BTreeSet<String> {
    let error = serde_json::from_str::<Notice>(r#"{"event":"?"}"#).unwrap_err().to_string();
    let list = error.split_once("expected one of").unwrap().1;
    list.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// The fields of each object schema, and the fields that examples show.
#[derive(Default)]
struct Seen(BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>);
impl Seen {
    fn walk(&mut self, root: &Value, schema: &Value, at: &str, example: &Value) {
        if let Some(pointer) = schema["$ref"].as_str() {
            return self.walk(root, root.pointer(&pointer[1..]).unwrap(), &pointer[1..], example);
        }
        for rule in schema["anyOf"].as_array().into_iter().flatten().filter(|_| !example.is_null()) {
            self.walk(root, rule, at, example);
        }
        for item in example.as_array().into_iter().flatten() {
            self.walk(root, &schema["items"], &format!("{at}/items"), item);
        }
        let (Some(named), Some(fields)) = (schema["properties"].as_object(), example.as_object()) else { return };
        let (all, shown) = self.0.entry(at.into()).or_default();
        all.extend(named.keys().cloned());
        shown.extend(fields.keys().cloned());
        for (name, field) in fields {
            let rule = named.get(name).unwrap_or_else(|| panic!("{at} has no '{name}'"));
            self.walk(root, rule, &format!("{at}/{name}"), field);
        }
    }
}

#[test]
fn the_schema_of_json_lines_has_each_event_with_its_fields() {
    let schema = schema();
    let events = events();
    assert!(events.len() > 35, "{events:?}");
    let mut seen = Seen::default();
    let page = include_str!("../../../../docs/reference/events.md");
    for event in &events {
        assert!(
            page.contains(&format!("`{event}`")),
            "docs/reference/events.md does not say when '{event}' is written"
        );
        let definition = &schema["$defs"][event];
        assert_eq!(definition["properties"]["event"]["const"], **event, "the schema has no '{event}'");
        for example in definition["examples"].as_array().unwrap() {
            let notice: Notice =
                serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{event}: {error}"));
            let written: Value = serde_json::from_str(&notice.to_line()).unwrap();
            assert_eq!(written, *example, "'{event}' is written otherwise than its example");
            seen.walk(&schema, definition, event, example);
        }
    }
    // A field that no example shows may be one that the program does not have.
    for (at, (all, shown)) in seen.0 {
        assert_eq!(all, shown, "the examples of '{at}' show other fields than it names");
    }
}

#[test]
fn the_schema_of_requests_has_each_request_with_its_fields() {
    let text = include_str!("../../../../docs/reference/requests.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let error = serde_json::from_str::<Request>(r#"{"op":"?"}"#).unwrap_err().to_string();
    let list = error.split_once("expected one of").unwrap().1;
    let operations: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(String::from).collect();
    let listed = |of: &Value| of["$ref"].as_str().unwrap().trim_start_matches("#/$defs/").to_string();
    let described: BTreeSet<String> = schema["oneOf"].as_array().unwrap().iter().map(listed).collect();
    assert_eq!(described, operations);
    let mut seen = Seen::default();
    for operation in &operations {
        let definition = &schema["$defs"][operation];
        assert_eq!(definition["properties"]["op"]["const"], **operation);
        for example in definition["examples"].as_array().unwrap() {
            let request: Request =
                serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{operation}: {error}"));
            // A written request is read again, and has no field that the example lacks.
            let written = serde_json::to_value(&request).unwrap();
            for field in written.as_object().unwrap().keys() {
                assert!(example.get(field).is_some(), "the example of '{operation}' lacks '{field}'");
            }
            seen.walk(&schema, definition, operation, example);
            // A request without a required field is refused, one without an optional field is not.
            let required: Vec<&str> =
                definition["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
            for field in example.as_object().unwrap().keys() {
                let mut less = example.clone();
                less.as_object_mut().unwrap().remove(field);
                let is_read = serde_json::from_value::<Request>(less).is_ok();
                assert_eq!(is_read, !required.contains(&field.as_str()), "{operation} without '{field}'");
            }
        }
    }
    for (at, (all, shown)) in seen.0 {
        assert_eq!(all, shown, "the examples of '{at}' show other fields than it names");
    }
}

#[test]
fn the_page_about_metrics_has_each_counter_of_a_node() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let row = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_string());
    // Below its heading, up to the next one.
    let named = |heading: &str| -> BTreeSet<String> {
        let after = page.split_once(&format!("## {heading}\n")).unwrap().1;
        after.split("\n## ").next().unwrap().lines().filter_map(row).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    for (family, roles) in [
        ("psi", r#""router", "resolver", "topology-manager", "sender", "receiver""#),
        ("ndn", r#""router", "sender", "receiver""#),
        ("mf", r#""router", "resolver", "sender", "receiver""#),
    ] {
        let text = format!(
            "[node]\nlabel = \"{family}\"\nfamily = \"{family}\"\nroles = [{roles}]\nlisten = [\"127.0.0.1:0\"]\n\
             state_dir = \"{family}\"\n"
        );
        let api = LocalApi::start(NodeConfig::parse(family, &text, folder.path()).unwrap()).unwrap();
        let answers = api.answers(Request::Status).unwrap();
        let Some(Notice::Status(status)) = answers.first() else { panic!("{answers:?}") };
        let counted: BTreeSet<String> = status.counters.keys().cloned().collect();
        let page: BTreeSet<String> =
            named("All families").union(&named(&format!("Family {family}"))).cloned().collect();
        assert_eq!(counted, page, "{family}: docs/reference/metrics.md names other counters than the node has");
    }
}

#[test]
fn the_page_about_limits_has_keys_and_defaults_as_the_page_about_the_config() {
    let limits = include_str!("../../../../docs/reference/limits.md");
    let config = include_str!("../../../../docs/reference/config.md");
    let table = limits.split_once("## With a key").unwrap().1.split("\n## ").next().unwrap();
    let mut keys = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `[")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [section, key, default] = [cells[1], cells[2], cells[3]];
        let of_section =
            config.split_once(&format!("\n## {section}\n")).expect(section).1.split("\n## ").next().unwrap();
        let documented = of_section.lines().find(|line| line.starts_with(&format!("| {key} |")));
        let documented: Vec<&str> = documented.unwrap_or_else(|| panic!("{section} has no {key}")).split('|').collect();
        assert_eq!(documented[3].trim(), default, "{section} {key}");
        keys.insert((section.to_string(), key.to_string()));
    }
    // The page has all limits of a resolver and a topology manager.
    let psi = config.split_once("\n## `[psi]`\n").unwrap().1.split("\n## ").next().unwrap();
    let named = psi.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |").map(|(key, _)| key));
    for key in named.filter(|key| key.ends_with("_max`")) {
        assert!(keys.contains(&("`[psi]`".to_string(), key.to_string())), "the page lacks {key}");
    }
}
