//! The Noise handshake (revision 34), pattern XX, over the primitives that the program has anyway.
use alloc::{boxed::Box, vec::Vec};
use chacha20poly1305::{AeadInOut, ChaCha20Poly1305, KeyInit};
use curve25519_dalek::MontgomeryPoint;
use sha2::Digest;
use snow::{
    Builder, Error, HandshakeState,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::CryptoResolver,
    types,
};

/// Bytes of keys, public and secret.
pub(crate) const KEY_BYTES: usize = 32;
/// The first message: an ephemeral key.
pub(crate) const FIRST_BYTES: usize = KEY_BYTES;
/// Overhead of the second message: an ephemeral key, the encrypted static key, and a tag for each.
pub(crate) const SECOND_BYTES: usize = KEY_BYTES + KEY_BYTES + 2 * TAG_BYTES;
/// Overhead of the third message: the encrypted static key, and a tag for each.
pub(crate) const THIRD_BYTES: usize = KEY_BYTES + 2 * TAG_BYTES;
const TAG_BYTES: usize = 16;
const NAME: &str = "Noise_XX_25519_ChaChaPoly_SHA256";

/// A handshake in progress.
pub(crate) struct Handshake(HandshakeState);

/// The keys from a finished handshake, one for each direction.
pub(crate) struct Keys {
    pub(crate) send: [u8; KEY_BYTES],
    pub(crate) receive: [u8; KEY_BYTES],
}

impl Handshake {
    /// Starts a handshake. Both ends must pass the same `prologue`; `ephemeral` is 32 unpredictable bytes, used once.
    pub(crate) fn new(
        is_initiator: bool,
        secret: &[u8; KEY_BYTES],
        ephemeral: [u8; KEY_BYTES],
        prologue: &[u8],
    ) -> Self {
        let built = NAME.parse().and_then(|params| {
            let builder = Builder::with_resolver(params, Box::new(Resolver { ephemeral }));
            let builder = builder.local_private_key(secret)?.prologue(prologue)?;
            if is_initiator { builder.build_initiator() } else { builder.build_responder() }
        });
        Handshake(built.expect("the pattern is known, and each of its parts resolves"))
    }
    /// The next message, with a payload that the other end alone can read from the second message on.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut message = alloc::vec![0; payload.len() + SECOND_BYTES];
        let bytes = self.0.write_message(payload, &mut message).ok()?;
        message.truncate(bytes);
        Some(message)
    }
    /// Reads the other end's message and returns its payload; `None` if it is not authentic.
    pub(crate) fn read(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let mut payload = alloc::vec![0; message.len()];
        let bytes = self.0.read_message(message, &mut payload).ok()?;
        payload.truncate(bytes);
        Some(payload)
    }
    /// The other end's static key, once it has been read.
    pub(crate) fn remote_key(&self) -> Option<[u8; KEY_BYTES]> {
        self.0.get_remote_static()?.try_into().ok()
    }
    /// The keys of the session.
    ///
    /// # Panics
    /// If the handshake is not finished.
    pub(crate) fn into_keys(mut self) -> Keys {
        assert!(self.0.is_handshake_finished(), "keys exist once all three messages are known");
        let (of_initiator, of_responder) = self.0.dangerously_get_raw_split();
        match self.0.is_initiator() {
            true => Keys { send: of_initiator, receive: of_responder },
            false => Keys { send: of_responder, receive: of_initiator },
        }
    }
}

/// The public key of a secret one.
pub(crate) fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

struct Resolver {
    ephemeral: [u8; KEY_BYTES],
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Some(Box::new(Once(Some(self.ephemeral))))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn types::Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519::default()) as Box<dyn types::Dh>)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::new(Sha256::default()) as Box<dyn types::Hash>)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        matches!(choice, CipherChoice::ChaChaPoly).then(|| Box::new(ChaChaPoly::default()) as Box<dyn types::Cipher>)
    }
}

/// The one ephemeral key that a handshake needs; a second request fails, because it would get the same key.
struct Once(Option<[u8; KEY_BYTES]>);

impl types::Random for Once {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        let bytes = self.0.take().filter(|bytes| bytes.len() == dest.len()).ok_or(Error::Rng)?;
        dest.copy_from_slice(&bytes);
        Ok(())
    }
}

#[derive(Default)]
struct X25519 {
    secret: [u8; KEY_BYTES],
    public: [u8; KEY_BYTES],
}

impl types::Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }
    fn pub_len(&self) -> usize {
        KEY_BYTES
    }
    fn priv_len(&self) -> usize {
        KEY_BYTES
    }
    fn set(&mut self, secret: &[u8]) {
        self.secret.copy_from_slice(secret);
        self.public = public_key(&self.secret);
    }
    fn generate(&mut self, random: &mut dyn types::Random) -> Result<(), Error> {
        random.try_fill_bytes(&mut self.secret)?;
        self.public = public_key(&self.secret);
        Ok(())
    }
    fn pubkey(&self) -> &[u8] {
        &self.public
    }
    fn privkey(&self) -> &[u8] {
        &self.secret
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public: [u8; KEY_BYTES] = public.get(..KEY_BYTES).and_then(|key| key.try_into().ok()).ok_or(Error::Dh)?;
        let shared = MontgomeryPoint(public).mul_clamped(self.secret).to_bytes();
        // A point of small order produces a secret known to everybody (RFC 7748, section 6.1).
        if shared == [0; KEY_BYTES] {
            return Err(Error::Dh);
        }
        out[..KEY_BYTES].copy_from_slice(&shared);
        Ok(())
    }
}

#[derive(Default)]
struct Sha256(sha2::Sha256);

impl types::Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }
    fn block_len(&self) -> usize {
        64
    }
    fn hash_len(&self) -> usize {
        32
    }
    fn reset(&mut self) {
        self.0 = sha2::Sha256::new();
    }
    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }
    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&self.0.finalize_reset());
    }
}

#[derive(Default)]
struct ChaChaPoly {
    key: [u8; KEY_BYTES],
}

impl ChaChaPoly {
    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(&self.key.into())
    }
}

/// Four zero bytes, then the number in little-endian order (Noise, section 12.3).
fn nonce(number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

impl types::Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }
    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.key = *key;
    }
    fn encrypt(&self, number: u64, associated: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out[..plaintext.len() + TAG_BYTES].split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let sealed = self.cipher().encrypt_inout_detached(&nonce(number).into(), associated, text.into());
        tag.copy_from_slice(&sealed.expect("a message of a handshake is short"));
        plaintext.len() + TAG_BYTES
    }
    fn decrypt(&self, number: u64, associated: &[u8], ciphertext: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let bytes = ciphertext.len().checked_sub(TAG_BYTES).ok_or(Error::Decrypt)?;
        let (text, tag) = ciphertext.split_at(bytes);
        let tag: [u8; TAG_BYTES] = tag.try_into().map_err(|_| Error::Decrypt)?;
        out[..bytes].copy_from_slice(text);
        let opened = self.cipher().decrypt_inout_detached(
            &nonce(number).into(),
            associated,
            (&mut out[..bytes]).into(),
            &tag.into(),
        );
        opened.map(|()| bytes).map_err(|_| Error::Decrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same pattern, using the library's own primitives.
    fn counterpart(is_initiator: bool, secret: &[u8; KEY_BYTES]) -> HandshakeState {
        let builder = Builder::new(NAME.parse().expect("a pattern"));
        let builder = builder.local_private_key(secret).and_then(|builder| builder.prologue(b"face"));
        let built = builder
            .and_then(|builder| if is_initiator { builder.build_initiator() } else { builder.build_responder() });
        built.expect("all is given")
    }
    fn keys(number: u8) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
        ([number; KEY_BYTES], [number + 1; KEY_BYTES])
    }

    #[test]
    fn shakes_hands_with_the_primitives_of_others_in_both_roles() {
        for we_begin in [true, false] {
            let (secret, ephemeral) = keys(3);
            let (mut ours, mut theirs) =
                (Handshake::new(we_begin, &secret, ephemeral, b"face"), counterpart(!we_begin, &[9; KEY_BYTES]));
            for turn in 0..3 {
                let payload = [turn; 40];
                let mut room = [0; 300];
                if (turn % 2 == 0) == we_begin {
                    let message = ours.write(&payload).expect("it is our turn");
                    let bytes = theirs.read_message(&message, &mut room).expect("it is right");
                    assert_eq!(room[..bytes], payload);
                } else {
                    let bytes = theirs.write_message(&payload, &mut room).expect("it is their turn");
                    assert_eq!(ours.read(&room[..bytes]).as_deref(), Some(&payload[..]));
                }
            }
            assert_eq!(theirs.get_remote_static(), Some(&public_key(&secret)[..]));
            assert_eq!(ours.remote_key(), Some(public_key(&[9; KEY_BYTES])));
            let (of_initiator, of_responder) = theirs.dangerously_get_raw_split();
            let keys = ours.into_keys();
            let expected = if we_begin { (of_initiator, of_responder) } else { (of_responder, of_initiator) };
            assert_eq!((keys.send, keys.receive), expected);
        }
    }

    #[test]
    fn refuses_a_changed_message_another_prologue_and_a_point_of_small_order() {
        let (secret, ephemeral) = keys(3);
        let begin = || Handshake::new(true, &secret, ephemeral, b"face");
        let answer = |prologue: &[u8], first: &[u8]| {
            let mut responder = Handshake::new(false, &[7; KEY_BYTES], [8; KEY_BYTES], prologue);
            responder.read(first).and_then(|_| responder.write(b"who I am"))
        };
        let mut initiator = begin();
        let first = initiator.write(&[]).expect("it begins");
        let second = answer(b"face", &first).expect("it answers");
        for at in 0..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 1;
            let mut initiator = begin();
            assert_eq!(initiator.write(&[]), Some(first.clone()));
            assert_eq!(initiator.read(&changed), None, "byte {at}");
        }
        let other = answer(b"other", &first).expect("it cannot know yet");
        assert_eq!(initiator.read(&other), None);
        assert_eq!(answer(b"face", &[0; KEY_BYTES]), None, "a point of small order");
        assert_eq!(answer(b"face", &first[..31]), None);
    }
}
