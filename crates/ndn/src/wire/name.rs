//! Names on the wire: views over checked bytes.
//!
//! [`tributary_content::Name`] is a name that this program keeps, with limits on components and bytes; a [`NameView`]
//! is a name in a received packet, limited by the packet only.
use core::fmt;

use tributary_content::{Name, NameError};

use super::{WireError, tlv::Reader, types};

/// One component of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component<'a> {
    /// Its type, 1 to 65,535.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
    /// Where it ends in the name.
    pub end: usize,
}

impl Component<'_> {
    /// The number in a segment, version or other number component; `None` if it is not a NonNegativeInteger in its
    /// shortest form.
    pub fn number(&self) -> Option<u64> {
        let value = super::tlv::integer("component", self.value).ok()?;
        (super::tlv::integer_bytes(value) == self.value.len()).then_some(value)
    }
}

/// A name in a packet: the value of a Name element whose components are legal. Comparing two gives NDN's canonical
/// order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameView<'a>(&'a [u8]);

impl<'a> NameView<'a> {
    /// The name without components.
    pub const ROOT: NameView<'static> = NameView(&[]);

    /// Checks the value of a Name element.
    ///
    /// # Errors
    /// [`WireError`]: a component is cut or out of form, has a type above 65,535, or is a digest without 32 bytes.
    pub fn parse(tlv: &'a [u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new("Name", tlv);
        while let Some(component) = reader.element()? {
            match u16::try_from(component.kind) {
                Ok(types::IMPLICIT_DIGEST | types::PARAMETERS_DIGEST) if component.value.len() != 32 => {
                    return Err(WireError::Length("digest component", component.value.len()));
                }
                Ok(_) => {}
                Err(_) => {
                    return Err(WireError::Value("component type", u64::from(component.kind)));
                }
            }
        }
        Ok(NameView(tlv))
    }
    /// The components, first to last.
    pub fn components(&self) -> impl Iterator<Item = Component<'a>> + use<'a> {
        let mut reader = Reader::new("Name", self.0);
        core::iter::from_fn(move || {
            let element = reader.element().ok().flatten()?;
            let kind = u16::try_from(element.kind).ok()?;
            Some(Component { kind, value: element.value, end: element.end })
        })
    }
    /// The number of components.
    pub fn len(&self) -> usize {
        self.components().count()
    }
    /// Whether it has no components.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// The first `count` components, or all if there are fewer.
    pub fn prefix(&self, count: usize) -> NameView<'a> {
        let end = match count {
            0 => 0,
            _ => self.components().take(count).last().map_or(0, |component| component.end),
        };
        NameView(&self.0[..end])
    }
    /// The name without its last component; the root's is the root.
    pub fn parent(&self) -> NameView<'a> {
        let (mut end, mut last) = (0, 0);
        for component in self.components() {
            (end, last) = (last, component.end);
        }
        NameView(&self.0[..end])
    }
    /// The last component.
    pub fn last(&self) -> Option<Component<'a>> {
        self.components().last()
    }
    /// Whether `other` starts with all components of this name.
    pub fn is_prefix_of(&self, other: NameView<'_>) -> bool {
        other.0.starts_with(self.0)
    }
    /// The components in NDN encoding, back to back.
    pub fn as_tlv(&self) -> &'a [u8] {
        self.0
    }
    /// A copy to keep.
    ///
    /// # Errors
    /// [`NameError`] if it is longer than a name that is kept may be.
    pub fn to_name(&self) -> Result<Name, NameError> {
        Name::from_tlv(self.0.to_vec())
    }
}
impl<'a> From<&'a Name> for NameView<'a> {
    fn from(name: &'a Name) -> Self {
        NameView(name.as_tlv())
    }
}
impl fmt::Display for NameView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_name() {
            Ok(name) => name.fmt(f),
            Err(_) => write!(f, "(name of {} bytes)", self.0.len()),
        }
    }
}
impl fmt::Debug for NameView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameView({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn views_of_parts_are_names_again() {
        let name: Name = "/a/bc/seg=5".parse().unwrap();
        let view = NameView::from(&name);
        assert_eq!(view.len(), 3);
        assert_eq!(view.last().and_then(|last| last.number()), Some(5));
        assert_eq!(view.parent().to_name(), "/a/bc".parse());
        assert_eq!(view.prefix(1).to_name(), "/a".parse());
        assert_eq!(view.prefix(9), view);
        assert_eq!(view.prefix(0), NameView::ROOT);
        assert_eq!(NameView::ROOT.parent(), NameView::ROOT);
        assert!(view.parent().is_prefix_of(view) && !view.is_prefix_of(view.parent()));
    }

    #[test]
    fn illegal_components_are_refused() {
        for bytes in [&[1u8, 1, 0][..], &[2, 0], &[0, 0], &[254, 0, 1, 0, 0, 0], &[8, 2, 1], &[8]] {
            assert!(NameView::parse(bytes).is_err(), "{bytes:?}");
        }
        assert!(NameView::parse(&[253, 255, 255, 0]).is_ok());
    }

    proptest! {
        #[test]
        fn the_order_of_bytes_is_the_canonical_order(
            a in proptest::collection::vec((1u16..300, proptest::collection::vec(any::<u8>(), 0..4)), 0..4),
            b in proptest::collection::vec((1u16..300, proptest::collection::vec(any::<u8>(), 0..4)), 0..4),
        ) {
            let keep = |parts: &[(u16, alloc::vec::Vec<u8>)]| parts.iter().all(|(kind, _)| *kind > 2);
            prop_assume!(keep(&a) && keep(&b));
            let build = |parts: &[(u16, alloc::vec::Vec<u8>)]| {
                parts.iter().try_fold(Name::root(), |name, (kind, value)| name.typed_child(*kind, value)).unwrap()
            };
            // Canonical order by definition: component by component, by type, then length, then value.
            let keys = |parts: &[(u16, alloc::vec::Vec<u8>)]| {
                parts.iter().map(|(kind, value)| (*kind, value.len(), value.clone())).collect::<alloc::vec::Vec<_>>()
            };
            let (first, second) = (build(&a), build(&b));
            prop_assert_eq!(NameView::from(&first).cmp(&NameView::from(&second)), keys(&a).cmp(&keys(&b)));
        }
    }
}
