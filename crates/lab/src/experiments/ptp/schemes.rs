//! The schemes compared: a forwarding strategy, the routers' queue management, and a consumer.
use tributary_core::Duration;
use tributary_ndn::{Config, LabelScheme, MarkingRule, ShapingConfig};
use tributary_transport::{ControllerKind, Coupling};

use crate::{
    control_laws::OLIA,
    rivals::ndn::{ConsumerKind, RaaqmForm},
};

/// One transport.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Scheme {
    /// Its name in metrics.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) label: &'static str,
    /// The strategy of all routers.
    pub(super) strategy: &'static str,
    /// When they mark.
    pub(super) marking: MarkingRule,
    /// Whether they shape Interests.
    pub(super) shaping: Option<ShapingConfig>,
    pub(super) receiver: Receiver,
}

/// The consumer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Receiver {
    /// PTP.
    Ptp(Form),
    /// One window for all paths.
    Single(ConsumerKind),
}

/// The parameters of PTP that vary.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Form {
    pub(super) controller: ControllerKind,
    pub(super) coupling: Coupling,
    /// Later packets that indicate a loss; the paper has one, and two as a variant (§5 E).
    pub(super) reorder_packets: u32,
    /// Which paths are used.
    pub(super) selection: &'static str,
    /// The link rates that routers report to probes.
    pub(super) rates: Rates,
    /// Whether probes continue at the paper's ten a second.
    pub(super) probing: Probing,
    /// How routers write labels (§4 A has the codes of Huffman for a later time).
    pub(super) labels: LabelScheme,
}

/// The link rates that routers report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rates {
    /// Nothing.
    Untold,
    /// What their operators wrote.
    Signalled,
    /// Measured ones, without configured ones.
    Measured,
}

/// How often paths are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probing {
    /// Ten a second for ever (§3 A).
    Constant,
    /// As the product does.
    Default,
}

impl Receiver {
    /// Whether link rates are configured.
    pub(super) fn knows_rates(&self) -> bool {
        !matches!(self, Receiver::Ptp(Form { rates: Rates::Measured, .. }))
    }
}

impl Form {
    /// The paper's.
    pub(super) const PAPER: Form = Form {
        controller: ControllerKind::PathSpecified,
        coupling: Coupling::LinkedIncrease,
        reorder_packets: 1,
        selection: "bandwidth",
        rates: Rates::Untold,
        probing: Probing::Constant,
        labels: LabelScheme::Random,
    };
    /// The paper's window under OLIA on the product's paths: probes that slow down, and report link rates, and paths
    /// that share few links.
    pub(super) const BEST: Form =
        Form { coupling: OLIA, selection: "spread", rates: Rates::Signalled, probing: Probing::Default, ..Form::PAPER };
    /// The product's.
    pub(super) const DEFAULT: Form = Form {
        controller: ControllerKind::ModelBased,
        coupling: Coupling::LinkedIncrease,
        reorder_packets: 3,
        ..Form::BEST
    };
    /// Writes it into a node's settings.
    pub(super) fn put(&self, config: &mut Config) {
        config.transfer.controller = self.controller;
        config.transfer.coupling = self.coupling;
        config.transfer.reorder_packets = self.reorder_packets;
        config.transfer.request_packets_max = 1;
        config.paths.selection = self.selection.into();
        config.tell_rates = self.rates != Rates::Untold;
        config.labels = self.labels;
        // Fifty packets wait for two seconds on the slowest link.
        config.transfer.rto_initial = Duration::from_secs(1);
        config.transfer.rto_max = Duration::from_secs(4);
        if self.probing == Probing::Constant {
            config.paths.probe_interval_max = config.paths.probe_interval;
        }
    }
}

pub(super) const fn ptp(name: &'static str, label: &'static str, form: Form) -> Scheme {
    Scheme {
        name,
        label,
        strategy: "equal-weight",
        marking: MarkingRule::Off,
        shaping: None,
        receiver: Receiver::Ptp(form),
    }
}
const fn rival(name: &'static str, label: &'static str, strategy: &'static str, kind: ConsumerKind) -> Scheme {
    let receiver = Receiver::Single(kind);
    Scheme { name, label, strategy, marking: MarkingRule::Off, shaping: None, receiver }
}

const CHOPCOP_MARKS: MarkingRule =
    MarkingRule::Linear { low: Duration::from_millis(10), high: Duration::from_millis(50) };
const PCON_MARKS: MarkingRule =
    MarkingRule::Codel { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

const fn chopcop(name: &'static str, label: &'static str, strategy: &'static str) -> Scheme {
    let plain = rival(name, label, strategy, ConsumerKind::Chopcop);
    Scheme { marking: CHOPCOP_MARKS, shaping: Some(ShapingConfig::DEFAULT), ..plain }
}
const fn pcon(name: &'static str, label: &'static str, strategy: &'static str, kind: ConsumerKind) -> Scheme {
    Scheme { marking: PCON_MARKS, ..rival(name, label, strategy, kind) }
}

/// PTP with the paper's window on the product's paths, everything as in the paper, with the product's default window
/// (random loss does not fool it), and the rivals (§6) with PCON.
pub(super) const MAIN: [Scheme; 7] = [
    ptp("ptp", "PTP", Form::BEST),
    ptp("ptp-paper", "PTP as in the paper", Form::PAPER),
    ptp("ptp-default", "PTP, model-based", Form::DEFAULT),
    rival("rfa-raaqm", "RFA+RAAQM", "rfa-greedy", ConsumerKind::Raaqm(RaaqmForm::Author)),
    chopcop("rfa-chopcop", "RFA+CHoPCoP", "rfa-greedy"),
    rival("paf-raaqm", "PAF+RAAQM", "paf", ConsumerKind::Raaqm(RaaqmForm::Author)),
    pcon("pcon", "PCON", "pcon", ConsumerKind::PconCubic),
];

/// PTP with other parameters that can be found: name and setting.
pub(super) const ALTERNATIVES: [Scheme; 14] = [
    ptp("ptp", "measured", Form { rates: Rates::Measured, ..Form::BEST }),
    ptp("ptp-default", "measured", Form { rates: Rates::Measured, ..Form::DEFAULT }),
    ptp("ptp", "untold", Form { rates: Rates::Untold, ..Form::BEST }),
    ptp("ptp-default", "untold", Form { rates: Rates::Untold, ..Form::DEFAULT }),
    ptp("ptp-paper", "compensated", Form { coupling: Coupling::LinkedIncreaseCompensated, ..Form::PAPER }),
    ptp("ptp-paper", "reorder2", Form { reorder_packets: 2, ..Form::PAPER }),
    ptp("ptp", "huffman", Form { labels: LabelScheme::Huffman, ..Form::BEST }),
    ptp("ptp-paper", "huffman", Form { labels: LabelScheme::Huffman, ..Form::PAPER }),
    ptp("ptp-default", "huffman", Form { labels: LabelScheme::Huffman, ..Form::DEFAULT }),
    rival("rfa-raaqm", "random", "rfa", ConsumerKind::Raaqm(RaaqmForm::Author)),
    rival("rfa-raaqm", "hicn", "rfa-greedy", ConsumerKind::Raaqm(RaaqmForm::Hicn)),
    rival("rfa-raaqm", "bell-labs", "rfa-greedy", ConsumerKind::Raaqm(RaaqmForm::BellLabs)),
    chopcop("rfa-chopcop", "random", "rfa"),
    pcon("pcon", "aimd", "pcon", ConsumerKind::PconAimd),
];
