//! Which device signs with a publisher's key. Publishers may share a key between machines, so a key alone names no device.
use tributary_content::{PublicKey, Signature, SigningKey};
use tributary_mf::ids::Guid;

/// The purpose of the device's signature, so that it proves nothing else.
const CONTEXT: &str = "tributary mf device signs with this publisher's key";

/// A device's statement that it signs with a publisher's key. It is valid while both keys are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credential {
    device: PublicKey,
    signature: Signature,
}

impl Credential {
    /// Bytes of a credential: a key of 32 bytes and a signature of 64.
    pub const BYTES: usize = 96;

    /// The device whose key has this secret signs with the key of `publisher`.
    pub(crate) fn new(device_secret: &[u8; 32], publisher: &PublicKey) -> Credential {
        let device = SigningKey::from_secret(device_secret);
        Credential { device: device.public(), signature: device.sign(CONTEXT, &publisher.0) }
    }
    /// The GUID in hex of the device that made the statement; `None` if it is not about the key of `publisher`.
    pub fn device(&self, publisher: &PublicKey) -> Option<String> {
        let is_valid = self.device.verify(CONTEXT, &publisher.0, &self.signature);
        is_valid.then(|| Guid::of(&self.device, b"").to_string())
    }
    /// Its bytes: the device's key, then its signature.
    pub fn to_bytes(&self) -> [u8; Credential::BYTES] {
        let mut bytes = [0; Credential::BYTES];
        bytes[..32].copy_from_slice(&self.device.0);
        bytes[32..].copy_from_slice(&self.signature.0);
        bytes
    }
    /// Reads them; [`Credential::device`] checks them.
    pub fn from_bytes(bytes: &[u8; Credential::BYTES]) -> Credential {
        let (device, signature) = bytes.split_at(32);
        let (mut key, mut signed) = ([0; 32], [0; 64]);
        key.copy_from_slice(device);
        signed.copy_from_slice(signature);
        Credential { device: PublicKey(key), signature: Signature(signed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_names_its_device_for_its_publisher_only() {
        let [publisher, other] = [[1; 32], [2; 32]].map(|secret| SigningKey::from_secret(&secret).public());
        let device = SigningKey::from_secret(&[3; 32]).public();
        let credential = Credential::from_bytes(&Credential::new(&[3; 32], &publisher).to_bytes());
        assert_eq!(credential.device(&publisher), Some(Guid::of(&device, b"").to_string()));
        assert_eq!(credential.device(&other), None);
        let mut bytes = credential.to_bytes();
        bytes[..32].copy_from_slice(&other.0);
        assert_eq!(Credential::from_bytes(&bytes).device(&publisher), None, "another device");
    }
}
