//! Values that override those of a scenario file: `link.dsl.rate=20Mbps`.
use std::fmt;

use toml::{Table, Value};

/// One value and where it belongs.
///
/// The place is a path of keys separated by dots. In a list of sections, such as `[[link]]`, the next key is the
/// `name`, `label` or `node` of one of them, the ends of a link (`a-b`), its number from 1 on, or `*` for all. The
/// value is written as in the file; invalid TOML counts as text, so that quotes may be omitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    path: Vec<String>,
    value: Value,
    text: String,
}

impl std::str::FromStr for Setting {
    type Err = String;
    fn from_str(text: &str) -> Result<Setting, String> {
        let (path, value) =
            text.split_once('=').ok_or("it has no '='; write KEY=VALUE, such as link.dsl.rate=20Mbps")?;
        let path: Vec<String> = path.trim().split('.').map(|key| key.trim().to_string()).collect();
        if path.iter().any(String::is_empty) {
            return Err("a key is empty; write KEY=VALUE, such as link.dsl.rate=20Mbps".into());
        }
        let value = value.trim();
        let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok().and_then(|mut table| {
            let value = table.remove("value");
            value.filter(|_| table.is_empty())
        });
        let value = parsed.unwrap_or_else(|| Value::String(value.into()));
        Ok(Setting { path, value, text: text.trim().into() })
    }
}
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting {
    /// The place.
    pub fn key(&self) -> String {
        self.path.join(".")
    }
    /// The value as it was written.
    pub fn value(&self) -> &str {
        self.text.split_once('=').map_or("", |(_, value)| value.trim())
    }
    /// Puts the value in its place.
    ///
    /// # Errors
    /// If no such place exists; the error lists the existing ones.
    pub(super) fn apply(&self, root: &mut Table) -> Result<(), String> {
        put(root, &self.path, &self.value).map_err(|why| format!("'{self}': {why}"))
    }
}

/// What sections of a list are called by.
const NAMES: [&str; 3] = ["name", "label", "node"];

fn put(table: &mut Table, path: &[String], value: &Value) -> Result<(), String> {
    let [key, rest @ ..] = path else { return Ok(()) };
    let [next, after @ ..] = rest else {
        table.insert(key.clone(), value.clone());
        return Ok(());
    };
    // A missing section starts with this; its reader decides whether it is allowed.
    match table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) => put(inner, rest, value),
        Value::Array(all) => {
            let known = all.iter().zip(1..).map(|(item, number)| called(item, number)).collect::<Vec<_>>().join(", ");
            let mut found = 0;
            for (item, number) in all.iter_mut().zip(1usize..) {
                let is_meant = next == "*" || *next == called(item, number) || *next == number.to_string();
                let Value::Table(inner) = item else { continue };
                if is_meant {
                    found += 1;
                    match after {
                        [] => return Err(format!("'{next}' is a section; name a key of it")),
                        _ => put(inner, after, value)?,
                    }
                }
            }
            if found == 0 { Err(format!("there is no {key} '{next}', but {known}")) } else { Ok(()) }
        }
        _ => Err(format!("'{key}' has a value and no keys")),
    }
}
/// What a section of a list is called.
fn called(item: &Value, number: usize) -> String {
    let name = NAMES.iter().find_map(|key| item.get(key).and_then(Value::as_str)).map(String::from);
    let ends = || match item.get("ends").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::String(from), Value::String(to)]) => Some(format!("{from}-{to}")),
        _ => None,
    };
    name.or_else(ends).unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[scenario]\nseed = 1\n[[link]]\nname = \"dsl\"\nrate = \"1Mbps\"\n[[link]]\nname = \"lte\"\n\
                        [link.back]\nrate = \"2Mbps\"\n[[fetch]]\nnode = \"a\"\n";

    fn set(settings: &[&str]) -> Result<Table, String> {
        let mut table: Table = toml::from_str(TEXT).expect("it is right");
        for setting in settings {
            setting.parse::<Setting>().expect("it is one").apply(&mut table)?;
        }
        Ok(table)
    }

    #[test]
    fn values_find_their_places() {
        let table = set(&["link.dsl.rate=20Mbps", "link.2.back.rate=\"3Mbps\"", "link.*.loss=0.5", "scenario.seed=7"]);
        let table = table.expect("all of them exist");
        let [dsl, lte] = [0, 1].map(|at| &table["link"][at]);
        assert_eq!((dsl["rate"].as_str(), dsl["loss"].as_float()), (Some("20Mbps"), Some(0.5)));
        assert_eq!((lte["back"]["rate"].as_str(), lte["loss"].as_float()), (Some("3Mbps"), Some(0.5)));
        assert_eq!(table["scenario"]["seed"].as_integer(), Some(7));
        assert_eq!(
            set(&["fetch.a.start=2s", "transfer.watch_rivals=true"]).unwrap()["fetch"][0]["start"].as_str(),
            Some("2s")
        );
    }

    #[test]
    fn places_that_do_not_exist_are_told_with_those_that_do() {
        assert_eq!(
            set(&["link.cable.rate=1Mbps"]).unwrap_err(),
            "'link.cable.rate=1Mbps': there is no link 'cable', but dsl, lte"
        );
        assert!(set(&["link.dsl=1"]).unwrap_err().contains("name a key"));
        assert!(set(&["scenario.seed.x=1"]).unwrap_err().contains("no keys"));
        assert!("a.b".parse::<Setting>().is_err() && "a..b=1".parse::<Setting>().is_err());
        // What would smuggle in further lines is text.
        assert_eq!("a=1\nb=2".parse::<Setting>().expect("text").value, Value::String("1\nb=2".into()));
    }
}
