//! `[scenario]`, and values that several sections of a scenario have.
use tributary_core::{Duration, Time};

use crate::simulation::RunUntil;
use tributary::{
    Family,
    config::{
        Security,
        reader::{Located, Section, nearest},
        values::{DURATION_HINT, duration},
    },
};

/// The content of `[scenario]`.
pub(super) struct Head {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) family: Family,
    pub(super) limit: Duration,
    pub(super) until: RunUntil,
    pub(super) sampling: Option<Duration>,
    pub(super) security: Security,
}

impl Default for Head {
    fn default() -> Self {
        Head {
            name: String::new(),
            seed: 1,
            family: Family::default(),
            limit: Duration::from_secs(3_600),
            until: RunUntil::FetchesEnd,
            sampling: Some(Duration::from_millis(100)),
            security: Security::None,
        }
    }
}

/// Reads `[scenario]`.
pub(super) fn head(section: Section<'_>) -> Head {
    let base = Head::default();
    let untils = [("fetches-end", RunUntil::FetchesEnd), ("duration", RunUntil::Limit)];
    let head = Head {
        name: section.text("name").map(|text| text.value).unwrap_or(base.name),
        seed: section.integer("seed", 0..=i64::MAX as u64).unwrap_or(base.seed),
        family: section.choice("family", &Family::ALL).unwrap_or(base.family),
        limit: duration(&section, "duration", Duration::from_millis(1), TIME_MAX).unwrap_or(base.limit),
        until: section.choice("until", &untils).unwrap_or(base.until),
        sampling: match section.text("sampling") {
            Some(text) if text.value == "none" => None,
            Some(_) => duration(&section, "sampling", Duration::from_millis(1), TIME_MAX),
            None => base.sampling,
        },
        security: section.choice("security", &Security::ALL).unwrap_or(base.security),
    };
    section.finish();
    head
}

/// The longest run.
pub(super) const TIME_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A moment of the scenario.
pub(super) fn moment(section: &Section<'_>, key: &'static str) -> Option<Time> {
    duration(section, key, Duration::ZERO, TIME_MAX).map(|time| Time::ZERO + time)
}
/// A required time.
pub(super) fn required_moment(section: &Section<'_>, key: &'static str) -> Option<Time> {
    let moment = moment(section, key);
    if moment.is_none() && !section.has(key) {
        section.missing(key, DURATION_HINT);
    }
    moment
}
/// The text under a required key.
pub(super) fn required(section: &Section<'_>, key: &'static str, hint: &str) -> Option<Located<String>> {
    let text = section.text(key);
    if text.is_none() && !section.has(key) {
        section.missing(key, hint);
    }
    text
}
/// Reports that something does not exist, and suggests a similar name.
pub(super) fn unknown<'a>(
    section: &Section<'_>,
    kind: &str,
    text: &Located<String>,
    known: impl Iterator<Item = &'a str>,
) {
    let known: Vec<&str> = known.collect();
    let hint = match nearest(&text.value, &known) {
        Some(near) => format!("did you mean '{near}'?"),
        None if known.is_empty() => format!("this scenario has no {kind} at all"),
        None => {
            let first = known.iter().take(8).copied().collect::<Vec<_>>().join(", ");
            format!("there are {first}{}", if known.len() > 8 { ", …" } else { "" })
        }
    };
    section.problem(text.span.clone(), format!("there is no {kind} '{}'", text.value), hint);
}
