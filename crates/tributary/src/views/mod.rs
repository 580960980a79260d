//! What a person sees of a node: plain records in units that people use, the same in JSON, in bars and in tables.
//!
//! | what | module |
//! |---|---|
//! | a fetch: progress, sources, paths | `transfer` |
//! | messages, groups, storage for others | `messages` |
//! | a node | `status` |
//! | a network and its nodes | `member` |
//! | answers to echo requests | `echo` |
//! | routes and strategies | `forwarding` |
//! | how long things took | `latency` |
mod echo;
mod forwarding;
mod latency;
mod member;
mod messages;
mod numbers;
mod status;
mod transfer;

pub use echo::{EchoView, PingedPathView, PingedView, RttView};
pub use forwarding::{RouteView, StrategyView};
pub use latency::LatencyView;
pub use member::MemberView;
pub use messages::{GroupView, HeldView, ReceivedView, SentView, StoreView};
pub use numbers::counted;
pub use status::{
    CacheView, CachedObjectView, FacePolicyView, FaceView, GrantView, LinkView, NetworkView, PublishedView,
    QuotaPeriod, QuotaView, StatusView, TransferView,
};
pub(crate) use transfer::source_name;
pub use transfer::{DoneView, PathView, ProgressView, SourceView};
