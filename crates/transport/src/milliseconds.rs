//! A time that may be missing, as a number of milliseconds.
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tributary_core::Duration;

#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(crate) fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_millis()).serialize(to)
}
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
}
