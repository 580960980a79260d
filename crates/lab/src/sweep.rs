//! The figure of a parameter sweep: the duration of each transfer over the swept values.
use serde_json::Value;

use crate::figures::{Bar, BarGroup, Chart, Figure, Series, Style, bars, lines};

/// The maximum number of transfers drawn.
const TRANSFERS_MAX: usize = 7;

/// Draws the totals of all combinations of a sweep, as `trib sim --json` prints them: over an axis if a single key
/// varies and all its values are numbers of one unit, otherwise as bars.
pub fn figure(totals: &[Value]) -> Figure {
    let mut keys = swept(totals);
    if keys.is_empty() {
        // A setting with one value only is printed too.
        let set = totals.first().and_then(|total| total["set"].as_object());
        keys = set.map(|set| set.keys().cloned().collect()).unwrap_or_default();
    }
    let labels: Vec<String> = totals.iter().map(|total| label(total, &keys)).collect();
    let first = totals.first().and_then(|total| total["transfers"].as_array()).map_or(&[][..], Vec::as_slice);
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_string();
    let names: Vec<String> =
        first.iter().take(TRANSFERS_MAX).map(|of| format!("{} {}", text(of, "node"), text(of, "name"))).collect();
    let title = format!("Time of transfers over {}", keys.join(" and "));
    let runs = totals.first().and_then(|total| total["runs"].as_u64()).unwrap_or(0);
    let mut caption = format!("Mean of {runs} runs and standard deviation; runs that were not complete are left out.");
    if first.len() > names.len() {
        caption += &format!(" The first {TRANSFERS_MAX} of {} transfers.", first.len());
    }
    let cell = |total: &Value, transfer: usize| {
        let of = &total["transfers"][transfer];
        Some((of["seconds_mean"].as_f64()?, of["seconds_deviation"].as_f64().unwrap_or(0.0)))
    };
    let svg = match axis(totals, &keys) {
        Some((unit, places)) => {
            let series: Vec<Series> = names
                .iter()
                .enumerate()
                .map(|(transfer, name)| {
                    let mut known: Vec<(f64, f64, f64)> = totals
                        .iter()
                        .zip(&places)
                        .filter_map(|(total, x)| cell(total, transfer).map(|(mean, spread)| (*x, mean, spread)))
                        .collect();
                    known.sort_by(|one, other| one.0.total_cmp(&other.0));
                    let ranges = known.iter().filter(|(.., spread)| *spread > 0.0);
                    let ranges =
                        ranges.map(|(x, mean, spread)| (*x, (mean - spread).max(0.0), mean + spread)).collect();
                    let points = known.iter().map(|(x, mean, _)| (*x, *mean)).collect();
                    Series::new(name, points).styled(Style::Marked).with_ranges(ranges)
                })
                .collect();
            let x = if unit.is_empty() { keys.join(", ") } else { format!("{} ({unit})", keys.join(", ")) };
            lines(&Chart::new(&title, &x, "time (s)"), &series)
        }
        None => {
            let bar = |total: &Value, transfer: usize| {
                cell(total, transfer).and_then(|(mean, spread)| Bar::with_spread(mean, spread))
            };
            let group = |(total, label): (&Value, &String)| BarGroup {
                label: label.clone(),
                bars: (0..names.len()).map(|transfer| bar(total, transfer)).collect(),
            };
            let groups: Vec<BarGroup> = totals.iter().zip(&labels).map(group).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            bars(&Chart::new(&title, &keys.join(", "), "time (s)"), &names, &groups)
        }
    };
    Figure { name: "sweep".into(), caption, svg }
}

/// The keys that have different values.
fn swept(totals: &[Value]) -> Vec<String> {
    let Some(first) = totals.first().and_then(|total| total["set"].as_object()) else { return Vec::new() };
    let differs = |key: &&String| totals.iter().any(|total| total["set"][key.as_str()] != first[key.as_str()]);
    first.keys().filter(differs).cloned().collect()
}
fn label(total: &Value, keys: &[String]) -> String {
    let value = |key: &String| total["set"][key.as_str()].as_str().unwrap_or_default().to_string();
    keys.iter().map(value).collect::<Vec<_>>().join(" ")
}
/// The unit and the numbers of the only key, if they are such.
fn axis(totals: &[Value], keys: &[String]) -> Option<(String, Vec<f64>)> {
    let [key] = keys else { return None };
    let mut unit: Option<String> = None;
    let mut places = Vec::new();
    for total in totals {
        let text = total["set"][key.as_str()].as_str()?;
        let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
        let (number, of) = text.split_at(end);
        if unit.get_or_insert_with(|| of.trim().into()) != of.trim() {
            return None;
        }
        places.push(number.parse().ok()?);
    }
    Some((unit?, places))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn totals(values: &[&str]) -> Vec<Value> {
        let total = |(value, seconds): (&&str, u32)| {
            let transfer = json!({"node": "a", "name": "/x", "seconds_mean": seconds, "seconds_deviation": 0.1});
            json!({"runs": 2, "set": {"link.l.rate": value, "link.l.loss": "1%"}, "transfers": [transfer]})
        };
        values.iter().zip(1..).map(total).collect()
    }

    #[test]
    fn numbers_of_one_unit_are_an_axis_and_other_values_are_bars() {
        let numbers = totals(&["5Mbps", "10Mbps", "20Mbps"]);
        assert_eq!(axis(&numbers, &swept(&numbers)), Some(("Mbps".into(), vec![5.0, 10.0, 20.0])));
        assert!(figure(&numbers).svg.contains("link.l.rate (Mbps)"));
        let words = totals(&["5Mbps", "500kbps"]);
        assert_eq!((axis(&words, &swept(&words)), swept(&words)), (None, vec!["link.l.rate".to_string()]));
        assert!(figure(&words).svg.contains("500kbps"));
    }
}
