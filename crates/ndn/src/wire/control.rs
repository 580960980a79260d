//! Parameters and responses of the management protocol. NFD management, "ControlCommand".
use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use tributary_content::Name;

use super::{
    NameView, WireError,
    tlv::{Form, Reader, Writer, element_table, integer, is_critical},
};

/// Type numbers of the management protocol.
pub mod types {
    /// Parameters of a command.
    pub const CONTROL_PARAMETERS: u32 = 104;
    /// Answer to a command.
    pub const CONTROL_RESPONSE: u32 = 101;
    /// The result of a command, as an HTTP status code.
    pub const STATUS_CODE: u32 = 102;
    /// The result of a command, in words.
    pub const STATUS_TEXT: u32 = 103;
    /// A face.
    pub const FACE_ID: u32 = 105;
    /// Cost of a route.
    pub const COST: u32 = 106;
    /// A strategy, by name.
    pub const STRATEGY: u32 = 107;
    /// Flags of a route or face.
    pub const FLAGS: u32 = 108;
    /// Milliseconds until a route expires.
    pub const EXPIRATION_PERIOD: u32 = 109;
    /// Who made a route.
    pub const ORIGIN: u32 = 111;
    /// Which flags the command sets.
    pub const MASK: u32 = 112;
    /// Address of a face's far end.
    pub const URI: u32 = 114;
    /// Address of a face's near end.
    pub const LOCAL_URI: u32 = 129;
    /// Maximum packets in the content store.
    pub const CAPACITY: u32 = 131;
    /// Packets erased from the content store.
    pub const COUNT: u32 = 132;
    /// Whether a face stays.
    pub const FACE_PERSISTENCY: u32 = 133;
    /// Nanoseconds between congestion marks.
    pub const MARK_INTERVAL: u32 = 135;
    /// Bytes in a queue from which on packets are marked.
    pub const MARK_THRESHOLD: u32 = 136;
    /// Bytes that a face carries.
    pub const MTU: u32 = 137;
}

element_table! {
    /// Parameters of a command, or the body of the answer, in the order in which NFD writes them.
    pub struct ControlParameters {
        /// A name prefix.
        super::types::NAME => name: Name = NAME,
        /// A face; zero means the command's arrival face.
        types::FACE_ID => face_id: u64 = NUMBER,
        /// Address of a face's far end.
        types::URI => uri: String = URI,
        /// Address of a face's near end.
        types::LOCAL_URI => local_uri: String = LOCAL_URI,
        /// Who made a route.
        types::ORIGIN => origin: u64 = NUMBER,
        /// Cost of a route.
        types::COST => cost: u64 = NUMBER,
        /// Maximum packets in the content store.
        types::CAPACITY => capacity: u64 = NUMBER,
        /// Packets erased from the content store.
        types::COUNT => count: u64 = NUMBER,
        /// Nanoseconds between congestion marks.
        types::MARK_INTERVAL => mark_interval: u64 = NUMBER,
        /// Bytes in a queue from which on packets are marked.
        types::MARK_THRESHOLD => mark_threshold: u64 = NUMBER,
        /// Bytes that a face carries.
        types::MTU => mtu: u64 = NUMBER,
        /// Flags of a route or face.
        types::FLAGS => flags: u64 = NUMBER,
        /// Which flags the command sets.
        types::MASK => mask: u64 = NUMBER,
        /// A strategy, by name.
        types::STRATEGY => strategy: Name = STRATEGY,
        /// Milliseconds until a route expires.
        types::EXPIRATION_PERIOD => expiration_millis: u64 = NUMBER,
        /// Whether a face stays.
        types::FACE_PERSISTENCY => persistency: u64 = NUMBER,
    }
}

const NUMBER: Form<u64> =
    Form(|value| integer("number of ControlParameters", value), |kind, number, out| out.put_integer(kind, *number));
const NAME: Form<Name> = Form(decode_name, |kind, name, out| out.put_element(kind, name.as_tlv()));
const STRATEGY: Form<Name> = Form(
    |value| decode_name(super::tlv::only("Strategy", value, super::types::NAME)?),
    |kind, name, out| out.put_nested(kind, |out| out.put_element(super::types::NAME, name.as_tlv())),
);
const URI: Form<String> = Form(|value| text("Uri", value), put_text);
const LOCAL_URI: Form<String> = Form(|value| text("LocalUri", value), put_text);

impl ControlParameters {
    /// Reads the element, which must fill `bytes`. Fields may come in any order; the last of repeated ones counts.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Self::decode_value(super::tlv::only("ControlParameters", bytes, types::CONTROL_PARAMETERS)?)
    }
    fn decode_value(value: &[u8]) -> Result<Self, WireError> {
        let mut parameters = ControlParameters::default();
        let mut reader = Reader::new("ControlParameters", value);
        while let Some(element) = reader.element()? {
            if !parameters.take(&element)? && is_critical(element.kind) {
                return Err(WireError::Critical("ControlParameters", element.kind));
            }
        }
        Ok(parameters)
    }
    /// The element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(&mut out);
        out
    }
    fn append(&self, out: &mut Vec<u8>) {
        out.put_nested(types::CONTROL_PARAMETERS, |out| self.put(out));
    }
}

fn decode_name(value: &[u8]) -> Result<Name, WireError> {
    let too_long = WireError::Length("Name of ControlParameters", value.len());
    NameView::parse(value)?.to_name().map_err(|_| too_long)
}
fn text(field: &'static str, value: &[u8]) -> Result<String, WireError> {
    core::str::from_utf8(value)
        .map(ToString::to_string)
        .map_err(|error| WireError::Value(field, u64::from(value[error.valid_up_to()])))
}
pub(super) fn put_text(kind: u32, text: &String, out: &mut Vec<u8>) {
    out.put_element(kind, text.as_bytes());
}

/// Answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlResponse {
    /// 200 for done; 400, 403, 404, 409, 501, 503 … as in HTTP.
    pub code: u64,
    /// The same in words.
    pub text: String,
    /// The parameters after the command.
    pub body: Option<ControlParameters>,
}

impl ControlResponse {
    /// Reads the element, which must fill `bytes`.
    ///
    /// # Errors
    /// [`WireError`] names the field.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader =
            Reader::new("ControlResponse", super::tlv::only("ControlResponse", bytes, types::CONTROL_RESPONSE)?);
        let (mut code, mut reason, mut body) = (None, None, None);
        while let Some(element) = reader.element()? {
            match element.kind {
                types::STATUS_CODE => code = Some(integer("StatusCode", element.value)?),
                types::STATUS_TEXT => reason = Some(text("StatusText", element.value)?),
                types::CONTROL_PARAMETERS => body = Some(ControlParameters::decode_value(element.value)?),
                // A body of another kind belongs to another command.
                _ => {}
            }
        }
        Ok(ControlResponse {
            code: code.ok_or(WireError::Missing("StatusCode"))?,
            text: reason.ok_or(WireError::Missing("StatusText"))?,
            body,
        })
    }
    /// The element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_nested(types::CONTROL_RESPONSE, |out| {
            out.put_integer(types::STATUS_CODE, self.code);
            out.put_element(types::STATUS_TEXT, self.text.as_bytes());
            if let Some(body) = &self.body {
                body.append(out);
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_parameters_come_back(
            numbers in proptest::collection::vec(proptest::option::of(any::<u64>()), 12),
            name in proptest::option::of("/[a-z]{1,8}/[a-z]{1,8}"), uri in proptest::option::of("[a-z0-9:/]{0,20}"),
        ) {
            let name: Option<Name> = name.map(|name| name.parse().unwrap());
            let parameters = ControlParameters {
                name: name.clone(), face_id: numbers[0], uri: uri.clone(), local_uri: uri, origin: numbers[1],
                cost: numbers[2], capacity: numbers[3], count: numbers[4], flags: numbers[5], mask: numbers[6],
                strategy: name, expiration_millis: numbers[7], persistency: numbers[8], mark_interval: numbers[9],
                mark_threshold: numbers[10], mtu: numbers[11],
            };
            prop_assert_eq!(ControlParameters::decode(&parameters.encode()), Ok(parameters.clone()));
            let response = ControlResponse { code: 200, text: "OK".into(), body: Some(parameters) };
            prop_assert_eq!(ControlResponse::decode(&response.encode()), Ok(response));
        }
    }
}
