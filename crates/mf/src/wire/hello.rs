//! Hello: finds neighbours, measures links, and authenticates attached devices.
use alloc::{string::String, vec::Vec};

use tributary_content::{PublicKey, Signature, SigningKey};
use tributary_core::{
    bit_set,
    wire::{Codec, Wire, codec::U32},
    wire_table,
};

use super::{LABEL_BYTES_MAX, PacketType, Reader, WireError, Writer, fields::ADDRESS};
use crate::ids::{Guid, NetworkAddress};

/// What a node does for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Roles(u8);

impl Roles {
    /// Nothing: a host.
    pub const HOST: Roles = Roles(0);
    /// It forwards, and hosts attach to it.
    pub const ROUTER: Roles = Roles(1);
    /// It holds records of names (GNRS).
    pub const RESOLVER: Roles = Roles(2);
    /// It stores chunks for absent devices.
    pub const PROXY: Roles = Roles(4);

    /// The roles that are also in `allowed`.
    pub fn within(self, allowed: Roles) -> Roles {
        Roles(self.0 & allowed.0)
    }
    /// Those that a certificate allows: storing belongs to routers.
    pub fn certified(by: tributary_trust::Roles) -> Roles {
        let router =
            if by.contains(tributary_trust::Roles::ROUTER) { Roles::ROUTER | Roles::PROXY } else { Roles::HOST };
        let resolver = if by.contains(tributary_trust::Roles::RESOLVER) { Roles::RESOLVER } else { Roles::HOST };
        router | resolver
    }
}
bit_set!(Roles, 7);

wire_table! {
    /// An echo of the other side's hello, with which that side measures the link.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Probe {
        /// The last hello heard; 0 for none.
        pub sequence: u32 = U32 => "heard sequence",
        /// How long ago it arrived, in microseconds.
        pub held_us: u32 = U32 => "held",
        /// Which of the earlier hellos arrived: bit `i` is hello `sequence - 1 - i`.
        pub heard: u32 = U32 => "heard hellos",
    }
}

/// A hello to the neighbour on a link. It travels one hop.
///
/// ```text
/// type 1 | roles, 64 if it asks for an answer at once, and 128 if the neighbour's proof is accepted 1 | sequence 4 | probe: sequence 4, held 4, heard 4 | nonce 8 | echoed nonce 8 | address 4
/// | datagram bytes 2 | window 4 | public key 32 | label (2 + n) | signature 64, if the rest is not empty
/// ```
/// The signature covers both nonces and everything that identifies the sender: it proves, once per session, that the
/// claimed GUID's key is present. Later hellos of the session omit it and are identified by the pair of nonces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// What the sender does.
    pub roles: Roles,
    /// Whether the sender has checked the neighbour's proof, so that it need not be repeated.
    pub accepts: bool,
    /// Whether the neighbour should answer at once: it may be gone.
    pub wants_answer: bool,
    /// Counts up from 1.
    pub sequence: u32,
    /// What the sender heard.
    pub probe: Probe,
    /// Chosen by the sender for this face and start.
    pub nonce: u64,
    /// The neighbour's nonce as the sender received it; 0 for none.
    pub echo: u64,
    /// The sender's address; [`NetworkAddress::NONE`] for hosts.
    pub address: NetworkAddress,
    /// Longest datagram that the sender accepts.
    pub datagram_bytes: u16,
    /// Packets that the sender can buffer: the window before the first CACK.
    pub window: u32,
    /// Its key, from which its GUID follows.
    pub key: PublicKey,
    /// Its human-readable name.
    pub label: String,
    /// The proof, on the first hellos of a meeting.
    pub signature: Option<Signature>,
}

impl Hello {
    /// Reads a whole packet. The signature is not checked; see [`Hello::is_proven`].
    ///
    /// # Errors
    /// [`WireError`] names the field and its error.
    pub fn decode(bytes: &[u8]) -> Result<Hello, WireError> {
        let mut reader = Reader::new(bytes);
        PacketType::Hello.expect(&mut reader)?;
        let (roles, wants_answer, accepts) = reader
            .choice("roles", |byte| Some((Roles::from_bits(byte & 0x3f)?, byte & 0x40 != 0, byte & 0x80 != 0)))?;
        Ok(Hello {
            roles,
            accepts,
            wants_answer,
            sequence: reader.u32("sequence")?,
            probe: Probe::read(&mut reader)?,
            nonce: reader.u64("nonce")?,
            echo: reader.u64("echoed nonce")?,
            address: ADDRESS.read(&mut reader, "address")?,
            datagram_bytes: reader.u16("datagram bytes")?,
            window: reader.u32("window")?,
            key: PublicKey(reader.array("key")?),
            label: reader.text("label", LABEL_BYTES_MAX)?,
            signature: match reader.rest().len() {
                0 => None,
                _ => {
                    let signature = Signature(reader.array("signature")?);
                    reader.end()?;
                    Some(signature)
                }
            },
        })
    }
    /// Appends the packet to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.wants_answer) << 6 | u8::from(self.accepts) << 7;
        out.put(&[PacketType::Hello.first_byte(), self.roles.bits() | flags]);
        out.put_u32(self.sequence);
        self.probe.encode(out);
        out.put_u64(self.nonce);
        out.put_u64(self.echo);
        out.put_u32(self.address.0);
        out.put_u16(self.datagram_bytes);
        out.put_u32(self.window);
        out.put(&self.key.0);
        out.put_blob(self.label.as_bytes());
        self.signature.iter().for_each(|signature| out.put(&signature.0));
    }
    /// The sender, if its proof is right.
    pub fn guid(&self) -> Guid {
        Guid::of(&self.key, &[])
    }
    /// Signs it with the key of the sender.
    pub fn sign(&mut self, key: &SigningKey) {
        self.signature = Some(key.sign(CONTEXT, &self.proof()));
    }
    /// Whether it is signed by the key that it shows.
    pub fn is_proven(&self) -> bool {
        self.signature.is_some_and(|signature| self.key.verify(CONTEXT, &self.proof(), &signature))
    }
    fn proof(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.put_u64(self.nonce);
        bytes.put_u64(self.echo);
        bytes.put_u8(self.roles.bits());
        bytes.put_u32(self.address.0);
        bytes.put(self.label.as_bytes());
        bytes
    }
}

const CONTEXT: &str = "tributary mobilityfirst hello";
