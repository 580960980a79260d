//! Trust schemas in the binary format of LightVerSec (LVS), as python-ndn compiles them and as NDNts and ndnd read them.
//!
//! A schema is a tree of name components. An edge matches one value or, as a pattern, any value that meets its
//! constraints; a named pattern must match the same value wherever it occurs, in the packet and in its signer. A node
//! lists the nodes that a signer's certificate name must reach.
//!
//! ```text
//!  #article: /"blog"/author/post    <= #author         blog ── author ── post        signed by ─┐
//!  #author:  /"blog"/author/"KEY"/_/_/_                          └─ KEY ── _ ── _ ── _  ◄───────┘
//! ```
//! <https://python-ndn.readthedocs.io/en/latest/src/lvs/binary-format.html>
use alloc::{string::String, vec::Vec};

use crate::wire::{
    NameView, WireError,
    tlv::{self, Reader, is_critical},
    types,
};

/// The supported version of the format.
pub const VERSION: u64 = 0x0001_1000;
/// Maximum bytes of a schema.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// Maximum nodes of a schema.
pub const NODES_MAX: usize = 1024;

/// Type numbers of the format.
mod lvs {
    pub(super) const VALUE: u32 = 0x21;
    pub(super) const TAG: u32 = 0x23;
    pub(super) const NODE_ID: u32 = 0x25;
    pub(super) const FUNCTION_ID: u32 = 0x27;
    pub(super) const IDENTIFIER: u32 = 0x29;
    pub(super) const FUNCTION: u32 = 0x31;
    pub(super) const ARGUMENT: u32 = 0x33;
    pub(super) const OPTION: u32 = 0x41;
    pub(super) const CONSTRAINT: u32 = 0x43;
    pub(super) const VALUE_EDGE: u32 = 0x51;
    pub(super) const PATTERN_EDGE: u32 = 0x53;
    pub(super) const SIGNER: u32 = 0x55;
    pub(super) const PARENT: u32 = 0x57;
    pub(super) const VERSION: u32 = 0x61;
    pub(super) const NODE: u32 = 0x63;
    pub(super) const SYMBOL: u32 = 0x67;
    pub(super) const NAMED_PATTERNS: u32 = 0x69;
}

/// Why bytes are no usable schema.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// An element cannot be read.
    #[error("it is no compiled LightVerSec schema: {0}")]
    Wire(#[from] WireError),
    /// It is of another version.
    #[error("it is of version {0:#x} of LightVerSec's format; {VERSION:#x} is read here")]
    Version(u64),
    /// It has too many nodes or bytes.
    #[error("it has more than {NODES_MAX} nodes or {SCHEMA_BYTES_MAX} bytes")]
    Size,
    /// Its nodes are no tree: at this one, for this reason.
    #[error("its node {0} is out of place: {1}")]
    Tree(u64, &'static str),
    /// It calls an unknown function.
    #[error("it calls '{0}'; the functions $eq and $eq_type are known here")]
    Function(String),
}

/// A trust schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    start: usize,
    /// Patterns with greater tags have no name: each use matches independently.
    named_patterns: u64,
    nodes: Vec<Node>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Node {
    id: u64,
    parent: Option<u64>,
    values: Vec<(u64, Vec<u8>)>,
    patterns: Vec<Pattern>,
    signers: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Pattern {
    dest: u64,
    tag: u64,
    /// All of them must hold; each holds if one of its options does.
    constraints: Vec<Vec<Test>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Test {
    /// The component is this one.
    Value(Vec<u8>),
    /// The component equals this pattern's match.
    Tag(u64),
    /// The component is equal to all arguments.
    Equal(Vec<Argument>),
    /// The component has the type of all arguments.
    EqualType(Vec<Argument>),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Argument {
    value: Option<Vec<u8>>,
    tag: Option<u64>,
}

/// What named patterns have matched.
type Bindings<'a> = Vec<(u64, &'a [u8])>;

/// Takes the elements of a value by their kinds. Others that need not be understood are ignored.
macro_rules! elements {
    ($value:ident of $field:literal, $bytes:expr => { $($arms:tt)* }) => {
        let mut reader = Reader::new($field, $bytes);
        while let Some(element) = reader.element()? {
            let $value = element.value;
            match element.kind {
                $($arms)*
                kind if is_critical(kind) => return Err(WireError::Critical($field, kind).into()),
                _ => {}
            }
        }
    };
}

impl Schema {
    /// Reads a compiled schema.
    ///
    /// # Errors
    /// [`SchemaError`] names the defect.
    pub fn decode(bytes: &[u8]) -> Result<Schema, SchemaError> {
        if bytes.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::Size);
        }
        let (mut version, mut start, mut named_patterns, mut nodes) = (None, None, 0, Vec::new());
        elements!(value of "LvsModel", bytes => {
            lvs::VERSION => version = Some(tlv::integer("Version", value)?),
            lvs::NODE_ID => start = Some(tlv::integer("StartId", value)?),
            lvs::NAMED_PATTERNS => named_patterns = tlv::integer("NamedPatternNum", value)?,
            lvs::NODE if nodes.len() >= NODES_MAX => return Err(SchemaError::Size),
            lvs::NODE => nodes.push(Node::decode(value)?),
            lvs::SYMBOL => {}
        });
        match version {
            Some(VERSION) => {}
            Some(found) => return Err(SchemaError::Version(found)),
            None => return Err(WireError::Missing("Version").into()),
        }
        let start = start.ok_or(WireError::Missing("StartId"))?;
        let schema = Schema { start: usize::try_from(start).unwrap_or(usize::MAX), named_patterns, nodes };
        schema.check()?;
        Ok(schema)
    }
    /// Whether a certificate of this name may sign a packet of that name.
    pub fn allows(&self, packet: NameView<'_>, certificate: NameView<'_>) -> bool {
        let (packet, certificate) = (components(packet), components(certificate));
        let mut is_allowed = false;
        self.walk(self.start, &packet, &mut Vec::new(), &mut |node, bindings| {
            let signers = &self.nodes[node].signers;
            if is_allowed || signers.is_empty() {
                return;
            }
            let mut bindings = bindings.clone();
            self.walk(self.start, &certificate, &mut bindings, &mut |node, _| {
                is_allowed |= signers.contains(&(node as u64));
            });
        });
        is_allowed
    }
    /// The same for a name in a packet.
    pub fn matches(&self, name: NameView<'_>) -> bool {
        let mut is_matched = false;
        self.walk(self.start, &components(name), &mut Vec::new(), &mut |_, _| is_matched = true);
        is_matched
    }
    /// Calls `found` for each node that the whole name leads to.
    fn walk<'a>(
        &self,
        at: usize,
        rest: &[&'a [u8]],
        bindings: &mut Bindings<'a>,
        found: &mut dyn FnMut(usize, &Bindings<'a>),
    ) {
        let node = &self.nodes[at];
        let Some((component, rest)) = rest.split_first() else { return found(at, bindings) };
        for (dest, _) in node.values.iter().filter(|(_, value)| value == component) {
            self.walk(*dest as usize, rest, bindings, found);
        }
        for pattern in &node.patterns {
            let bound = bindings.iter().find(|(tag, _)| *tag == pattern.tag).map(|(_, value)| *value);
            let is_new = bound.is_none() && pattern.tag <= self.named_patterns;
            let fits = match bound {
                Some(value) => value == *component,
                None => pattern.fits(component, bindings),
            };
            if !fits {
                continue;
            }
            if is_new {
                bindings.push((pattern.tag, component));
            }
            self.walk(pattern.dest as usize, rest, bindings, found);
            if is_new {
                bindings.pop();
            }
        }
    }
    /// Each node has its own number and at most one incoming edge, from its parent: a name is matched in at most as
    /// many steps as there are nodes.
    fn check(&self) -> Result<(), SchemaError> {
        let count = self.nodes.len() as u64;
        let wrong = |node: u64, what| Err(SchemaError::Tree(node, what));
        if self.start >= self.nodes.len() {
            return wrong(self.start as u64, "the tree begins there, and there is no such node");
        }
        let mut has_edge = alloc::vec![false; self.nodes.len()];
        for (at, node) in (0_u64..).zip(&self.nodes) {
            if node.id != at {
                return wrong(node.id, "its number is not its place");
            }
            let dests = node.values.iter().map(|(dest, _)| *dest);
            for dest in dests.chain(node.patterns.iter().map(|pattern| pattern.dest)) {
                if dest >= count {
                    return wrong(at, "an edge leads nowhere");
                }
                if self.nodes[dest as usize].parent != Some(at) || dest as usize == self.start {
                    return wrong(dest, "an edge comes from a node that is not its parent");
                }
                if core::mem::replace(&mut has_edge[dest as usize], true) {
                    return wrong(dest, "two edges lead to it");
                }
            }
            if node.signers.iter().any(|signer| *signer >= count) {
                return wrong(at, "it is signed by a node that there is not");
            }
        }
        Ok(())
    }
}

impl Node {
    fn decode(value: &[u8]) -> Result<Node, SchemaError> {
        let mut node = Node { id: u64::MAX, ..Node::default() };
        elements!(value of "Node", value => {
            lvs::NODE_ID => node.id = tlv::integer("NodeId", value)?,
            lvs::PARENT => node.parent = Some(tlv::integer("ParentId", value)?),
            lvs::IDENTIFIER => {}
            lvs::VALUE_EDGE => {
                let (mut dest, mut component) = (None, None);
                elements!(value of "ValueEdge", value => {
                    lvs::NODE_ID => dest = Some(tlv::integer("NodeId", value)?),
                    lvs::VALUE => component = Some(value.to_vec()),
                });
                let dest = dest.ok_or(WireError::Missing("NodeId"))?;
                node.values.push((dest, component.ok_or(WireError::Missing("Value"))?));
            }
            lvs::PATTERN_EDGE => node.patterns.push(Pattern::decode(value)?),
            lvs::SIGNER => node.signers.push(tlv::integer("KeyNodeId", value)?),
        });
        Ok(node)
    }
}

impl Pattern {
    fn decode(value: &[u8]) -> Result<Pattern, SchemaError> {
        let (mut dest, mut tag, mut constraints) = (None, None, Vec::new());
        elements!(value of "PatternEdge", value => {
            lvs::NODE_ID => dest = Some(tlv::integer("NodeId", value)?),
            lvs::TAG => tag = Some(tlv::integer("Tag", value)?),
            lvs::CONSTRAINT => {
                let mut options = Vec::new();
                elements!(value of "Constraint", value => {
                    lvs::OPTION => options.push(Test::decode(value)?),
                });
                constraints.push(options);
            }
        });
        let dest = dest.ok_or(WireError::Missing("NodeId"))?;
        Ok(Pattern { dest, tag: tag.ok_or(WireError::Missing("Tag"))?, constraints })
    }
    fn fits(&self, component: &[u8], bindings: &Bindings<'_>) -> bool {
        self.constraints.iter().all(|options| options.iter().any(|option| option.fits(component, bindings)))
    }
}

impl Test {
    fn decode(value: &[u8]) -> Result<Test, SchemaError> {
        let mut tests = Vec::new();
        elements!(value of "ConsOption", value => {
            lvs::VALUE => tests.push(Test::Value(value.to_vec())),
            lvs::TAG => tests.push(Test::Tag(tlv::integer("Tag", value)?)),
            lvs::FUNCTION => tests.push(Test::function(value)?),
        });
        let wrong = WireError::Contradiction("a ConsOption has not exactly one of value, tag and function");
        match (tests.pop(), tests.is_empty()) {
            (Some(test), true) => Ok(test),
            _ => Err(wrong.into()),
        }
    }
    fn function(value: &[u8]) -> Result<Test, SchemaError> {
        let (mut name, mut arguments) = (&[][..], Vec::new());
        elements!(value of "UserFnCall", value => {
            lvs::FUNCTION_ID => name = value,
            lvs::ARGUMENT => {
                let mut argument = Argument::default();
                elements!(value of "UserFnArg", value => {
                    lvs::VALUE => argument.value = Some(value.to_vec()),
                    lvs::TAG => argument.tag = Some(tlv::integer("Tag", value)?),
                });
                arguments.push(argument);
            }
        });
        match name {
            b"$eq" => Ok(Test::Equal(arguments)),
            b"$eq_type" => Ok(Test::EqualType(arguments)),
            name => Err(SchemaError::Function(String::from_utf8_lossy(name).into_owned())),
        }
    }
    fn fits(&self, component: &[u8], bindings: &Bindings<'_>) -> bool {
        let bound = |tag: u64| bindings.iter().find(|(known, _)| *known == tag).map(|(_, value)| *value);
        let all = |arguments: &[Argument], is_alike: fn(&[u8], &[u8]) -> bool| {
            arguments.iter().all(|argument| {
                let value = argument.tag.and_then(bound).or(argument.value.as_deref());
                value.is_some_and(|value| is_alike(value, component))
            })
        };
        match self {
            Test::Value(value) => value == component,
            Test::Tag(tag) => bound(*tag) == Some(component),
            Test::Equal(arguments) => all(arguments, |value, component| value == component),
            Test::EqualType(arguments) => all(arguments, |value, component| type_of(value) == type_of(component)),
        }
    }
}

/// The components of a name with their types and lengths, without an implicit digest.
fn components<'a>(name: NameView<'a>) -> Vec<&'a [u8]> {
    let mut start = 0;
    let with_head = |component: crate::wire::Component<'a>| {
        let whole = &name.as_tlv()[start..component.end];
        start = component.end;
        (component.kind, whole)
    };
    let mut all: Vec<(u16, &[u8])> = name.components().map(with_head).collect();
    if all.last().is_some_and(|(kind, _)| *kind == types::IMPLICIT_DIGEST) {
        all.pop();
    }
    all.into_iter().map(|(_, whole)| whole).collect()
}
fn type_of(component: &[u8]) -> Option<u64> {
    tlv::read_number(component).map(|(kind, _)| kind)
}
