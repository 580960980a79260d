//! What a node may do for its network.
use core::{fmt, ops::BitOr};

/// Roles that an authority certifies. A node without any is a host: it publishes and fetches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Roles(u8);

impl Roles {
    /// None: a host.
    pub const HOST: Roles = Roles(0);
    /// Forwards and stores packets of others.
    pub const ROUTER: Roles = Roles(1);
    /// Resolves names (PSI: rendezvous node; MobilityFirst: replica of name records).
    pub const RESOLVER: Roles = Roles(2);
    /// Computes paths and authorises requests (PSI).
    pub const TOPOLOGY_MANAGER: Roles = Roles(4);
    /// Each role with its word in configs and commands.
    pub const ALL: [(&'static str, Roles); 3] =
        [("router", Roles::ROUTER), ("resolver", Roles::RESOLVER), ("topology-manager", Roles::TOPOLOGY_MANAGER)];

    /// The words of these roles; none for a host.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |(_, role)| self.contains(*role)).map(|(word, _)| word)
    }
}
tributary_core::bit_set!(Roles, 7);
impl FromIterator<Roles> for Roles {
    fn from_iter<I: IntoIterator<Item = Roles>>(roles: I) -> Roles {
        roles.into_iter().fold(Roles::HOST, BitOr::bitor)
    }
}
impl fmt::Display for Roles {
    /// As `router, resolver`, or `host`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Roles::HOST {
            return f.write_str("host");
        }
        self.words().enumerate().try_for_each(|(index, word)| {
            f.write_str(if index > 0 { ", " } else { "" })?;
            f.write_str(word)
        })
    }
}
impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roles({self})")
    }
}
