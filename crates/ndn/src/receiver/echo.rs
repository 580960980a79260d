//! Echo requests of this node: sent with or without a path tag, and matched with their answers.
use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use tributary_core::{
    EchoId, Random, Time,
    event::{EchoOutcome, EchoReport},
};
use tributary_transport::echo::Echo;

use super::{
    Outgoing,
    paths::{Tag, write_labels},
};
use crate::{
    ids::Nonce,
    router::{LocalPacket, labels::LABEL_BYTES},
    wire::{
        Data, Interest, NackReason, NameView,
        echo::{EchoReply, EchoRequest, NONCE_BYTES, Purpose, ReplyCode},
        huffman::BitTag,
        packet_type,
        tag::TAG_BYTES_MAX,
        types,
    },
};

/// Echo requests in flight at one time.
const UNDER_WAY_MAX: usize = 1024;
const TOO_LONG: &str = "the name is too long for an echo request";
/// The prefix of a path whose labels are a bit string.
const BITS: &str = "bits:";

/// Those that wait for their answers.
#[derive(Default)]
pub(crate) struct Echoing {
    under_way: BTreeMap<[u8; NONCE_BYTES], UnderWay>,
    pub waiting: VecDeque<Outgoing>,
    pub reports: VecDeque<EchoReport>,
    last: u64,
}

struct UnderWay {
    echo: EchoId,
    sent: Time,
    due: Time,
}

impl Echoing {
    pub(super) fn send(&mut self, now: Time, echo: &Echo, random: &mut Random) -> Result<EchoId, String> {
        if self.under_way.len() >= UNDER_WAY_MAX {
            return Err(format!("{} echo requests wait for their answers already", self.under_way.len()));
        }
        let tag = echo.path.as_deref().map(parse_path).transpose()?;
        let nonce = random.bits().to_be_bytes();
        let purpose = if echo.hop.is_some() { Purpose::Traceroute } else { Purpose::Ping };
        let name = EchoRequest::name(&echo.target, nonce, purpose).map_err(|_| TOO_LONG)?;
        let interest = Interest {
            must_be_fresh: true,
            nonce: Some(Nonce::from(random.bits())),
            lifetime_millis: Some((echo.patience.as_millis() as u64).max(1)),
            // This node counts down first.
            hop_limit: echo.hop.map(|hop| hop.saturating_add(1)),
            ..Interest::new(NameView::from(&name))
        };
        self.waiting.push_back(Outgoing { interest: interest.encode().into(), tag, probe: true, token: None });
        self.last += 1;
        let echo = UnderWay { echo: EchoId(self.last), sent: now, due: now + echo.patience };
        self.under_way.insert(nonce, echo);
        Ok(EchoId(self.last))
    }
    /// Takes an answer, or a returned request; returns whether it belonged to this node.
    pub(super) fn handle_packet(&mut self, now: Time, local: &LocalPacket) -> bool {
        let data = match packet_type(&local.packet) {
            Some(types::DATA) => Data::decode(&local.packet).ok(),
            _ => None,
        };
        let interest = Interest::decode(&local.packet).ok().filter(|_| local.nack.is_some());
        let name = data.as_ref().map(|data| data.name).or(interest.as_ref().map(|interest| interest.name));
        let Some(request) = name.and_then(EchoRequest::of) else { return false };
        let outcome = match (&data, local.nack) {
            (Some(data), _) => match EchoReply::decode(data.content.unwrap_or(&[])) {
                Ok(reply) => answered(&reply),
                // It keeps waiting: another node may still answer.
                Err(_) => return true,
            },
            (None, Some(why)) => EchoOutcome::Unreachable(reason(why).into()),
            (None, None) => return false,
        };
        let Some(known) = self.under_way.remove(&request.nonce) else { return false };
        let tag = local.tag.clone().filter(|tag| !tag.is_empty()).map(Tag::Labels);
        let tag = tag.or_else(|| local.tag_bits.clone().map(Tag::Bits));
        self.reports.push_back(EchoReport {
            echo: known.echo,
            rtt: now.since(known.sent),
            outcome,
            hops: tag.as_ref().map_or(0, |tag| tag.hops() as u32),
            path: tag.as_ref().map(path_text),
            path_failed: local.path_failed,
        });
        true
    }
    pub(super) fn handle_timeout(&mut self, now: Time) {
        let late: Vec<[u8; NONCE_BYTES]> =
            self.under_way.iter().filter(|(_, echo)| echo.due <= now).map(|(nonce, _)| *nonce).collect();
        for echo in late.iter().filter_map(|nonce| self.under_way.remove(nonce)).collect::<Vec<_>>() {
            self.reports.push_back(EchoReport {
                echo: echo.echo,
                rtt: now.since(echo.sent),
                outcome: EchoOutcome::Silence,
                path: None,
                hops: 0,
                path_failed: false,
            });
        }
    }
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.under_way.values().map(|echo| echo.due).min()
    }
}

fn answered(reply: &EchoReply<'_>) -> EchoOutcome {
    let responder = String::from(reply.responder);
    match reply.code {
        ReplyCode::Forwarder => EchoOutcome::Forwarder(responder),
        ReplyCode::Application => EchoOutcome::Application(responder),
        ReplyCode::Object => EchoOutcome::Object(responder),
        ReplyCode::HopLimit => EchoOutcome::HopLimit(responder),
    }
}
fn reason(why: NackReason) -> &'static str {
    match why {
        NackReason::NoRoute => "no route leads there",
        NackReason::Congestion => "a forwarder on the way has too much to do",
        NackReason::Duplicate => "the way leads in a circle",
        NackReason::Unavailable(_) => "its publisher can no longer read it",
        NackReason::Unspecified | NackReason::Other(_) => "a forwarder on the way refuses without a reason",
    }
}

/// A path in the form that people see and enter: hexadecimal labels with `>` between, or bits.
fn path_text(tag: &Tag) -> String {
    let mut text = String::new();
    match tag {
        Tag::Labels(labels) => write_labels(labels, &mut text),
        Tag::Bits(bits) => {
            text.push_str(BITS);
            bits.iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
        }
    }
    text
}
fn parse_path(text: &str) -> Result<Tag, String> {
    let wrong = |reason| format!("'{text}' is no path: {reason}");
    let bytes = |hex: &str| -> Option<Vec<u8>> {
        if !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) || !hex.len().is_multiple_of(2) {
            return None;
        }
        (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect()
    };
    if let Some(bits) = text.strip_prefix(BITS) {
        let value = bytes(bits).ok_or(wrong("bits are written as hexadecimal digits"))?;
        return BitTag::parse(&value)
            .map(|_| Tag::Bits(value.clone()))
            .map_err(|_| wrong("these are no bits of a path"));
    }
    let mut labels = Vec::new();
    for label in text.split('>') {
        let label = bytes(label).filter(|label| label.len() == LABEL_BYTES);
        labels.extend(label.ok_or(wrong("labels have eight hexadecimal digits each, with '>' between"))?);
    }
    if labels.len() > TAG_BYTES_MAX {
        return Err(wrong("a path has at most 32 labels"));
    }
    Ok(Tag::Labels(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_core::Duration;

    #[test]
    fn paths_are_read_as_they_are_written_and_others_are_refused() {
        for text in ["00010203", "deadbeef>00000000>ffffffff"] {
            assert_eq!(parse_path(text).map(|tag| path_text(&tag)), Ok(text.into()));
        }
        let longest = ["01234567"; 32].join(">");
        assert!(parse_path(&longest).is_ok() && parse_path(&(longest + ">01234567")).is_err());
        for text in ["", ">", "0001020", "000102033", "0001020g", "00010203>", "00 10203", "0001020é", "+1+1+1+1"] {
            assert!(parse_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_request_ends_with_one_report_and_there_are_few_at_a_time() {
        let (mut echoing, mut random) = (Echoing::default(), Random::new(1, 1));
        let patience = Duration::from_secs(1);
        let echo = Echo { target: "/a".parse().unwrap(), path: None, hop: None, patience };
        for _ in 0..UNDER_WAY_MAX {
            assert!(echoing.send(Time::ZERO, &echo, &mut random).is_ok());
        }
        let full = Err(format!("{UNDER_WAY_MAX} echo requests wait for their answers already"));
        assert_eq!(echoing.send(Time::ZERO, &echo, &mut random), full);
        echoing.handle_timeout(Time::from_millis(999));
        assert_eq!(echoing.reports.pop_front(), None);
        echoing.handle_timeout(Time::from_millis(1000));
        let reports: Vec<_> = core::iter::from_fn(|| echoing.reports.pop_front()).collect();
        assert_eq!(reports.len(), UNDER_WAY_MAX);
        assert!(reports.iter().all(|report| report.outcome == EchoOutcome::Silence));
        assert_eq!(echoing.poll_timeout(), None);
        let long: tributary_content::Name = alloc::format!("/{}", "x".repeat(1015)).parse().unwrap();
        assert_eq!(echoing.send(Time::ZERO, &Echo { target: long, ..echo }, &mut random), Err(TOO_LONG.into()));
    }
}
