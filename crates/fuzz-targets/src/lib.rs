//! What every decoder of the workspace promises for any bytes.
//!
//! Each target is a function of bytes that panics when a promise is broken: no panic, parsed packets re-emit byte for
//! byte, limits hold, nothing is amplified. The fuzzer (`fuzz/`) calls them with inputs that it invents; the test of
//! this crate calls them with the corpus that the fuzzer left (`fuzz/corpus`), on any toolchain, with every seed
//! truncated and with bits flipped.
//!
//! | input | module |
//! |---|---|
//! | names, manifests, hash trees, bitmaps, directory indexes, typed values | [`content`] |
//! | every packet and message of the PSI family | [`wire`] |
//! | a forwarder | [`router`] |
//! | the control channel and the neighbour protocol | [`control`] |
//! | a whole node in any mix of roles | [`node`] |
//! | a folder of MobilityFirst's store | [`mf_store`] |
//! | packets of the NDN family, and a complete node | [`ndn`] |
//! | answers to a fetch from foreign NDN programs | [`ndn_foreign`] |
//! | NDN certificates, keys, schemas and chains | [`ndn_trust`] |
//! | config files and lines of the control socket | [`text`] |
//! | valid inputs to start from | [`seeds`] |
//!
//! Targets for state machines read their input as a script (see [`input`]): some steps are raw datagrams, others are
//! well-formed packets, so that the fuzzer gets past checksums, labels and capabilities.
pub mod content;
pub mod control;
mod driven;
pub mod http;
pub mod input;
pub mod mf;
mod mf_seeds;
pub mod mf_store;
pub mod ndn;
pub mod ndn_foreign;
pub mod ndn_trust;
pub mod node;
mod psi_seeds;
pub mod router;
pub mod seeds;
pub mod text;
pub mod wire;

/// A function that panics if the bytes break a promise.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus and of their fuzzer.
pub const TARGETS: &[(&str, Target)] = &[
    ("name_tlv", content::name_tlv),
    ("name_text", content::name_text),
    ("text_values", content::text_values),
    ("manifest", content::manifest),
    ("key_list", content::key_list),
    ("hash_tree", content::hash_tree),
    ("bitmap", content::bitmap),
    ("directory_index", content::directory_index),
    ("header", wire::header),
    ("fid", wire::fid),
    ("request", wire::request),
    ("data_header", wire::data_header),
    ("hello", wire::hello),
    ("beacon", wire::beacon),
    ("control_packet", wire::control_packet),
    ("message", wire::message),
    ("link_state", wire::link_state),
    ("routes", wire::routes),
    ("path_request", wire::path_request),
    ("offer", wire::offer),
    ("sealed", wire::sealed),
    ("router_forward", router::router_forward),
    ("control_channel", control::control_channel),
    ("neighbour", control::neighbour),
    ("psi_node", node::psi_node),
    ("mf_hello", mf::mf_hello),
    ("mf_hop", mf::mf_hop),
    ("mf_chunk", mf::mf_chunk),
    ("mf_transport", mf::mf_transport),
    ("mf_names", mf::mf_names),
    ("mf_link_state", mf::mf_link_state),
    ("mf_node", mf::mf_node),
    ("mf_store", mf_store::mf_store),
    ("ndn_interest", ndn::ndn_interest),
    ("ndn_data", ndn::ndn_data),
    ("ndn_link", ndn::ndn_link),
    ("ndn_tags", ndn::ndn_tags),
    ("ndn_control", ndn::ndn_control),
    ("ndn_fragments", ndn::ndn_fragments),
    ("ndn_reliability", ndn::ndn_reliability),
    ("ndn_stream", ndn::ndn_stream),
    ("ndn_foreign", ndn_foreign::ndn_foreign),
    ("ndn_node", ndn::ndn_node),
    ("ndn_certificate", ndn_trust::ndn_certificate),
    ("ndn_spki", ndn_trust::ndn_spki),
    ("ndn_key_file", ndn_trust::ndn_key_file),
    ("ndn_schema", ndn_trust::ndn_schema),
    ("ndn_chain", ndn_trust::ndn_chain),
    ("http_exchange", http::http_exchange),
    ("node_config", text::node_config),
    ("control_line", text::control_line),
];

/// Bytes of the largest input that is kept.
pub const INPUT_BYTES_MAX: usize = 4_096;
