//! The keys of a link in a config or a scenario.
use std::{io::Read as _, path::Path};
use tributary_core::{
    Duration, Rate,
    link::{
        DeliveryTrace, LinkConfig, Loss, QueueDiscipline, Reorder, Script,
        queue::{Measure, Signal, codel::CoDelConfig, red::RedConfig, threshold::ThresholdConfig},
    },
};

use super::{
    reader::Section,
    recordings::{self, mahimahi, series},
    values::{RATE_HINT, duration, size},
};

/// Whether the section may name the MTU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtu {
    /// It may.
    Own,
    /// Another key gives it.
    Given,
}

/// Reads the keys of a link; missing ones are as in `base`. Files are relative to `folder`.
pub fn read(section: Section<'_>, base: LinkConfig, folder: &Path, mtu: Mtu) -> LinkConfig {
    let config = keys(&section, base, folder, mtu);
    section.finish();
    config
}
/// Like [`read`], for sections that have other keys too; the caller finishes them.
pub fn keys(section: &Section<'_>, base: LinkConfig, folder: &Path, mtu: Mtu) -> LinkConfig {
    let rate = rate(section);
    let delivery = recorded(section, folder);
    let script = section.section("series").map_or(base.script, |section| table(section, folder));
    LinkConfig {
        // Whichever is named replaces the other one.
        rate: rate.or(base.rate.filter(|_| delivery.is_none())),
        burst_bytes: size(section, "burst", 1_500, 1 << 32).unwrap_or(base.burst_bytes),
        delivery: delivery.or(base.delivery.filter(|_| rate.is_none())),
        script,
        delay: duration(section, "delay", Duration::ZERO, DELAY_MAX).unwrap_or(base.delay),
        jitter: duration(section, "jitter", Duration::ZERO, DELAY_MAX).unwrap_or(base.jitter),
        loss: loss(section).unwrap_or(base.loss),
        queue_bytes: size(section, "queue", 1_500, 1 << 32).unwrap_or(base.queue_bytes),
        queue_packets: section.integer("queue_packets", 1..=1 << 32).or(base.queue_packets),
        discipline: discipline(section).unwrap_or(base.discipline),
        reorder: reorder(section, base.reorder),
        duplicate: section.share("duplicate").unwrap_or(base.duplicate),
        corrupt: section.share("corrupt").unwrap_or(base.corrupt),
        overhead_bytes: match mtu {
            Mtu::Own => section.integer("overhead", 0..=1_000).map_or(base.overhead_bytes, |bytes| bytes as u32),
            Mtu::Given => base.overhead_bytes,
        },
        mtu: match mtu {
            Mtu::Own => section.integer("mtu", 576..=65_507).map_or(base.mtu, |bytes| bytes as u32),
            Mtu::Given => base.mtu,
        },
    }
}

/// What a link carries; never nothing.
pub(crate) fn rate(section: &Section<'_>) -> Option<Rate> {
    let rate = section.parsed("rate", RATE_HINT);
    if rate == Some(Rate::from_bits_per_second(0)) {
        section.wrong("rate", "'rate' is zero: nothing would pass", "leave 'rate' out for no limit");
    }
    rate
}

/// How long packets are held back where `reorder` names no delay.
const REORDER_DELAY_DEFAULT: Duration = Duration::from_millis(10);
/// The longest delay of a link: Earth to the Moon's orbit and back many times over.
pub const DELAY_MAX: Duration = Duration::from_secs(60);
/// The most bytes that a recording has.
const RECORDING_BYTES_MAX: u64 = 256 << 20;

fn reorder(section: &Section<'_>, base: Reorder) -> Reorder {
    let delay = if base.delay.is_zero() { REORDER_DELAY_DEFAULT } else { base.delay };
    Reorder {
        probability: section.share("reorder").unwrap_or(base.probability),
        delay: duration(section, "reorder_delay", Duration::ZERO, Duration::from_secs(60)).unwrap_or(delay),
    }
}

/// `loss = "1%"`, `loss_mask = "00101"` or `[bursts]`.
fn loss(section: &Section<'_>) -> Option<Loss> {
    let share = section.share("loss").map(|share| if share > 0.0 { Loss::Bernoulli(share) } else { Loss::None });
    let mask = section.read("loss_mask", "write one digit for each packet: 1 if it is lost, else 0", mask);
    let bursts = section.section("bursts").map(bursts);
    let given = [share.is_some(), mask.is_some(), bursts.is_some()].iter().filter(|is_given| **is_given).count();
    if given > 1 {
        let hint = "keep one of 'loss', 'loss_mask' and 'bursts'";
        section.wrong("loss", "the loss of this link is given in several ways", hint);
    }
    bursts.or(mask).or(share)
}
fn mask(text: &str) -> Result<Loss, String> {
    let digit = |digit: char| match digit {
        '0' => Ok(false),
        '1' => Ok(true),
        other => Err(format!("'{other}' is neither 0 nor 1")),
    };
    Ok(Loss::Mask(text.chars().map(digit).collect::<Result<_, _>>()?))
}
/// Gilbert–Elliott from measured figures: the mean length of a burst in packets and the mean loss.
fn bursts(section: Section<'_>) -> Loss {
    let length = section.number("packets", 1.0..=1e6).unwrap_or(4.0);
    let share = section.share("loss").unwrap_or(0.01);
    let loss_good = section.share("loss_good").unwrap_or(0.0);
    let loss_bad = section.share("loss_bad").unwrap_or(1.0);
    if loss_bad <= share || loss_good > share {
        let hint = "loss lies between 'loss_good' (0) and 'loss_bad' (1)";
        section.wrong("loss", format!("bursts cannot lose {share} on average"), hint);
    }
    // The share of time in the bad state follows from the loss: loss = bad · loss_bad + (1 − bad) · loss_good.
    let bad = ((share - loss_good) / (loss_bad - loss_good)).clamp(0.0, 0.999);
    let bad_to_good = 1.0 / length;
    section.finish();
    Loss::GilbertElliott { good_to_bad: (bad_to_good * bad / (1.0 - bad)).min(1.0), bad_to_good, loss_good, loss_bad }
}

/// `discipline = "codel"`, or a section of that name with settings.
fn discipline(section: &Section<'_>) -> Option<QueueDiscipline> {
    let word = section.choice("discipline", &QueueDiscipline::ALL);
    let red = section.section("red").map(|section| QueueDiscipline::Red(red(section)));
    let codel = section.section("codel").map(|section| QueueDiscipline::CoDel(codel(section)));
    let threshold = section.section("threshold").map(|section| QueueDiscipline::Threshold(threshold(section)));
    let given = [word, red, codel, threshold];
    if given.iter().flatten().count() > 1 {
        let hint = "a section such as [link.red] is enough, without 'discipline'";
        section.wrong("discipline", "this link has several queue disciplines", hint);
    }
    given.into_iter().flatten().next()
}
const SIGNALS: [(&str, Signal); 2] = [("drop", Signal::Drop), ("mark", Signal::Mark)];
const MEASURES: [(&str, Measure); 2] = [("bytes", Measure::Bytes), ("packets", Measure::Packets)];

fn red(section: Section<'_>) -> RedConfig {
    let base = RedConfig::DEFAULT;
    let config = RedConfig {
        measure: section.choice("measure", &MEASURES).unwrap_or(base.measure),
        threshold_min: section.number("threshold_min", 0.0..=1e12).unwrap_or(base.threshold_min),
        threshold_max: section.number("threshold_max", 0.0..=1e12).unwrap_or(base.threshold_max),
        probability_max: section.share("probability_max").unwrap_or(base.probability_max),
        weight: section.number("weight", 1e-9..=1.0).unwrap_or(base.weight),
        signal: section.choice("signal", &SIGNALS).unwrap_or(base.signal),
    };
    if config.threshold_max <= config.threshold_min {
        let message = format!("'threshold_max' is {}, 'threshold_min' {}", config.threshold_max, config.threshold_min);
        let hint = "the upper threshold lies above the lower one, usually at three times as much";
        section.wrong("threshold_max", message, hint);
    }
    section.finish();
    config
}
fn codel(section: Section<'_>) -> CoDelConfig {
    let base = CoDelConfig::DEFAULT;
    let (shortest, longest) = (Duration::from_micros(1), Duration::from_secs(60));
    let config = CoDelConfig {
        target: duration(&section, "target", shortest, longest).unwrap_or(base.target),
        interval: duration(&section, "interval", shortest, longest).unwrap_or(base.interval),
        bytes_min: base.bytes_min,
        signal: section.choice("signal", &SIGNALS).unwrap_or(base.signal),
    };
    section.finish();
    config
}
fn threshold(section: Section<'_>) -> ThresholdConfig {
    let base = ThresholdConfig::DEFAULT;
    let config = ThresholdConfig {
        measure: section.choice("measure", &MEASURES).unwrap_or(base.measure),
        threshold: section.integer("length", 0..=1 << 40).unwrap_or(base.threshold),
        signal: section.choice("signal", &SIGNALS).unwrap_or(base.signal),
    };
    section.finish();
    config
}

/// `trace = "FILE"`: a mahimahi trace in place of a rate.
fn recorded(section: &Section<'_>, folder: &Path) -> Option<DeliveryTrace> {
    let path = section.path("trace", folder)?;
    let file = path.display().to_string();
    let trace = text_of(&path).and_then(|text| mahimahi::parse(&file, &text).map_err(|error| error.to_string()));
    let hint = "a mahimahi trace has one integer per line: milliseconds, never going back";
    section.kept("trace", trace, hint)
}
/// `[series]`: a table of rates and delays over time.
fn table(section: Section<'_>, folder: &Path) -> Option<Script> {
    let path = section.path("file", folder);
    section.require(&["file"], "name a CSV file with a header line");
    let text = |key| section.text(key).map(|text| text.value);
    let only = match (text("only"), text("only_is")) {
        (Some(column), Some(is)) => Some((column, is)),
        (None, None) => None,
        _ => {
            let hint = "only = \"ride\" and only_is = \"3\" take the rows with 3 in the column ride";
            section.wrong("only", "'only' and 'only_is' belong together", hint);
            None
        }
    };
    let time = text("time").unwrap_or_else(|| "t_s".into());
    let columns = series::Columns { time, rate: text("rate_mbps"), delay: text("delay_ms"), only };
    if columns.rate.is_none() && columns.delay.is_none() {
        section.missing("rate_mbps", "name the column of rates in Mbit/s, or 'delay_ms' of delays in milliseconds");
    }
    let script = path.and_then(|path| {
        let file = path.display().to_string();
        let read =
            text_of(&path).and_then(|text| series::parse(&file, &text, &columns).map_err(|error| error.to_string()));
        section.kept("file", read, "each row has a time in seconds that does not go back, and numbers")
    });
    section.finish();
    script
}

/// The content of a recording.
///
/// # Errors
/// A sentence that names the file, and the line that is no text.
pub fn text_of(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    // A device or a pipe has no length that could be checked first.
    let read = std::fs::File::open(path).and_then(|it| it.take(RECORDING_BYTES_MAX + 1).read_to_end(&mut bytes));
    let length = read.map_err(|error| format!("cannot read '{shown}': {error}"))? as u64;
    if length > RECORDING_BYTES_MAX {
        return Err(format!("'{shown}': a recording has at most {RECORDING_BYTES_MAX} bytes"));
    }
    let text = recordings::text(&shown.to_string(), &bytes).map_err(|error| error.to_string())?;
    Ok(text.into_owned())
}
