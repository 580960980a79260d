//! References: a name with what its object must match.
use alloc::{format, string::String, vec::Vec};
use core::{fmt, str::FromStr};

use crate::{KeyError, Name, NameError, ObjectId, ObjectIdError, PublicKey};

/// A name with its publisher's key or the id of its bytes, so that a copied line says what to believe.
///
/// As text `trib:NAME?publisher=KEY&hash=ID` with one or both of these fields, or the name alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reference {
    /// The name.
    pub name: Name,
    /// The only publisher to believe.
    pub publisher: Option<PublicKey>,
    /// The only bytes to accept.
    pub object: Option<ObjectId>,
}

impl Reference {
    /// Takes one field of a query, `KEY=VALUE`. Returns whether references have such a field.
    ///
    /// # Errors
    /// [`ReferenceError`] if its value is malformed, or differs from the one before.
    pub fn take_field(&mut self, field: &str) -> Result<bool, ReferenceError> {
        match field.split_once('=').unwrap_or((field, "")) {
            // Programs that build URLs may escape the colon.
            ("publisher", key) => {
                set(&mut self.publisher, key.replace("%3A", ":").replace("%3a", ":").parse()?)?;
            }
            ("hash", id) => set(&mut self.object, id.parse()?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
    /// Its fields behind a question mark; empty for a name alone.
    pub fn query(&self) -> String {
        let publisher = self.publisher.map(|key| format!("publisher={key}"));
        let fields: Vec<_> = publisher.into_iter().chain(self.object.map(|id| format!("hash={id}"))).collect();
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }
}

fn set<T: Copy + PartialEq>(field: &mut Option<T>, value: T) -> Result<(), ReferenceError> {
    if *field.get_or_insert(value) == value { Ok(()) } else { Err(ReferenceError::Contradiction) }
}

impl From<Name> for Reference {
    fn from(name: Name) -> Self {
        Reference { name, publisher: None, object: None }
    }
}
impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        // A name alone may contain a question mark.
        let Some(reference) = text.strip_prefix(SCHEME) else { return Ok(text.parse::<Name>()?.into()) };
        let (name, query) = reference.split_once('?').unwrap_or((reference, ""));
        let mut reference = Reference::from(name.parse::<Name>()?);
        for field in query.split('&').filter(|field| !field.is_empty()) {
            if !reference.take_field(field)? {
                return Err(ReferenceError::Field(field.into()));
            }
        }
        Ok(reference)
    }
}
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.query()[..] {
            "" => self.name.fmt(f),
            query => write!(f, "{SCHEME}{}{query}", self.name),
        }
    }
}

/// Why something is not a reference.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The name is malformed.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The publisher is not a key.
    #[error("'publisher': {0}")]
    Publisher(#[from] KeyError),
    /// The hash is not an object id.
    #[error("'hash': {0}")]
    Hash(#[from] ObjectIdError),
    /// It names two publishers or two ids.
    #[error("it names two publishers, or two hashes")]
    Contradiction,
    /// An unknown field.
    #[error("'{0}' is neither publisher=KEY nor hash=ID")]
    Field(String),
}

const SCHEME: &str = "trib:";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;
    use alloc::string::ToString;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn a_reference_is_read_as_it_is_shown() {
        let key = SigningKey::from_secret(&[1; 32]).public();
        let id = "0a".repeat(16);
        for shown in [
            "/lab/image".to_string(),
            "/lab/image%3Fpublisher%3Dx".to_string(),
            format!("trib:/lab/image?publisher={key}"),
            format!("trib:/lab/image?hash={id}"),
            format!("trib:/a%20b/%3F?publisher={key}&hash={id}"),
        ] {
            assert_eq!(reference(&shown).to_string(), shown);
        }
        let both = reference(&format!("trib:/x?hash={id}&publisher={}&", key.to_string().replace(':', "%3A")));
        assert_eq!((both.publisher, both.object.map(|id| id.to_string())), (Some(key), Some(id)));
        assert_eq!(reference("trib:/lab/image/"), reference("/lab/image"));
        assert_eq!(reference("/lab/what?").name.to_string(), "/lab/what%3F", "a name alone has no query");
    }

    #[test]
    fn what_is_no_reference_is_refused_with_its_field() {
        let [key, other] = [1, 2].map(|secret| SigningKey::from_secret(&[secret; 32]).public());
        for (text, part) in [
            ("lab".to_string(), "starts with '/'"),
            ("trib://host/x".to_string(), "empty"),
            ("trib:/x?publisher=".to_string(), "'publisher'"),
            ("trib:/x?publisher=ed25519:00".to_string(), "'publisher'"),
            ("trib:/x?hash=00".to_string(), "'hash'"),
            ("trib:/x?version=1".to_string(), "'version=1'"),
            (format!("trib:/x?publisher={key}&publisher={other}"), "two publishers"),
        ] {
            let refused = text.parse::<Reference>().expect_err(&text).to_string();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
