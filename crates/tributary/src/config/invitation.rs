//! Addresses with the key of the node behind them.
use std::{fmt, str::FromStr};
use tributary_content::PublicKey;
use tributary_trust::UnixTime;

use super::PeerAddress;
use crate::family::Family;

/// A neighbour as people pass it on: an address, or an address with the key that the neighbour must prove.
///
/// ```text
/// invitation = "trib://" key "@" host ":" port *( "," host ":" port ) [ "?" term *( "&" term ) ]
/// key        = 64 hex digits, as behind "ed25519:"
/// term       = "family=" ( "psi" / "ndn" / "mf" )     it speaks this family only
///            / "network=" key                         its network has this authority
///            / "until=" seconds since 1970            no first contact after this
/// ```
/// ```
/// use tributary::config::Invitation;
/// let key = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
/// let text = format!("trib://{key}@router.example.org:7001,192.0.2.7:7001?family=psi&until=1830297600");
/// let invitation: Invitation = text.parse().unwrap();
/// assert_eq!(invitation.key.unwrap().to_string(), format!("ed25519:{key}"));
/// assert_eq!(invitation.to_string(), text);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The neighbour's address.
    pub address: PeerAddress,
    /// Its key; `None` for a plain address, which has no terms.
    pub key: Option<PublicKey>,
    /// The family that it speaks; `None` if the invitation does not state it.
    pub family: Option<Family>,
    /// The authority of its network; `None` if the invitation does not state it.
    pub network: Option<PublicKey>,
    /// The end of first contacts; a node that has remembered the key is not bound by it. `None` for no end.
    pub until: Option<UnixTime>,
}

const SCHEME: &str = "trib://";

impl Invitation {
    /// Parses an invitation or an address; `address` parses the address in it.
    ///
    /// # Errors
    /// A sentence names the wrong part.
    pub fn read(text: &str, address: impl FnOnce(&str) -> Result<PeerAddress, String>) -> Result<Invitation, String> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return Ok(Invitation { address: address(text)?, key: None, family: None, network: None, until: None });
        };
        let (whose, terms) = rest.split_once('?').unwrap_or((rest, ""));
        let (key, hosts) = whose.trim_end_matches('/').split_once('@').ok_or_else(|| wrong("key", &"no @ ends it"))?;
        let key_of = |part, digits: &str| {
            let key = format!("{PREFIX}{digits}").parse::<PublicKey>();
            key.map_err(|_| wrong(part, &format!("'{digits}' is not the 64 hex digits of an Ed25519 key")))
        };
        let key = Some(key_of("key", key)?);
        let address = address(hosts).map_err(|error| wrong("address", &error))?;
        if address.is_stream() {
            return Err(wrong("address", &format!("'{hosts}' is a stream, and keys are proven over UDP only")));
        }
        let mut read = Invitation { address, key, family: None, network: None, until: None };
        for term in terms.split('&').filter(|term| !term.is_empty()) {
            match term.split_once('=') {
                Some(("family", word)) if read.family.is_none() => {
                    read.family = Some(word.parse().map_err(|error| wrong("family", &error))?);
                }
                Some(("network", digits)) if read.network.is_none() => read.network = Some(key_of("network", digits)?),
                Some(("until", seconds)) if read.until.is_none() => {
                    read.until = Some(UnixTime(seconds.parse().map_err(|error| wrong("until", &error))?));
                }
                _ => return Err(wrong("term", &format!("'{term}' is unknown or occurs twice"))),
            }
        }
        Ok(read)
    }
}
/// That a part of an invitation is wrong.
pub(crate) fn wrong(part: &str, reason: &dyn fmt::Display) -> String {
    format!("the {part} in the invitation is wrong: {reason}")
}
impl FromStr for Invitation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Invitation::read(text, str::parse)
    }
}
impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = |key: &PublicKey| key.to_string().replacen(PREFIX, "", 1);
        let Some(key) = &self.key else { return self.address.fmt(f) };
        let terms = [
            self.family.map(|family| format!("family={family}")),
            self.network.as_ref().map(|network| format!("network={}", digits(network))),
            self.until.map(|until| format!("until={}", until.0)),
        ];
        let terms = terms.into_iter().flatten().collect::<Vec<_>>().join("&");
        write!(f, "{SCHEME}{}@{}", digits(key), self.address)?;
        if terms.is_empty() { Ok(()) } else { write!(f, "?{terms}") }
    }
}

/// The prefix of a key's text elsewhere.
const PREFIX: &str = "ed25519:";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tributary_content::SigningKey;

    fn key(byte: u8) -> PublicKey {
        SigningKey::from_secret(&[byte; 32]).public()
    }
    fn address() -> impl Strategy<Value = PeerAddress> {
        let host = prop_oneof!["[a-z][a-z0-9-]{0,9}\\.example", Just("192.0.2.7".into()), Just("[2001:db8::7]".into())];
        let hosts = prop::collection::vec((host, 1u16..), 1..4);
        hosts.prop_map(|hosts| {
            let hosts: Vec<_> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            hosts.join(",").parse().expect("a legal address")
        })
    }

    proptest! {
        #[test]
        fn invitations_and_bare_addresses_read_back_as_they_are_shown(
            address in address(), owner: Option<u8>, family in prop::option::of(0usize..3), network: Option<u8>,
            until: Option<u64>,
        ) {
            let family = family.map(|index| Family::ALL[index].1);
            let (network, until) = (network.map(key), until.map(UnixTime));
            let whole = Invitation { address, key: owner.map(key), family, network, until };
            let expected = match whole.key {
                Some(_) => whole,
                None => Invitation { family: None, network: None, until: None, ..whole },
            };
            let text = expected.to_string();
            prop_assert!(!text.contains(char::is_whitespace));
            prop_assert_eq!(text.parse::<Invitation>(), Ok(expected));
        }
        #[test]
        fn whatever_is_cut_off_an_invitation_is_an_error_or_another_invitation_and_never_a_panic(cut in 0usize..160) {
            let text = format!("trib://{}@a.example:1,[::1]:2?family=mf&until=9", &key(1).to_string()[8..]);
            let _ = text[..cut.min(text.len())].parse::<Invitation>();
        }
    }

    #[test]
    fn an_error_names_the_part_that_is_wrong() {
        let key = &key(1).to_string()[8..];
        for (text, part) in [
            (format!("trib://{key}"), "the key in"),
            (format!("trib://{}@a.example:1", &key[1..]), "the key in"),
            (format!("trib://{key}@a.example"), "the address in the invitation is wrong: 'a.example' has no port"),
            (format!("trib://{key}@a.example:1,b.example"), "'b.example' has no port"),
            (format!("trib://{key}@tcp://a.example:1"), "the address in"),
            (format!("trib://{key}@a.example:1?family=ipv4"), "the family in"),
            (format!("trib://{key}@a.example:1?network=0a"), "the network in"),
            (format!("trib://{key}@a.example:1?until=tomorrow"), "the until in"),
            (format!("trib://{key}@a.example:1?until=1&until=2"), "'until=2' is unknown or occurs twice"),
            (format!("trib://{key}@a.example:1?qr"), "the term in"),
        ] {
            let error = text.parse::<Invitation>().expect_err(&text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
