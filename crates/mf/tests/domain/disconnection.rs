//! Receivers that go away and come back (paper §5.2).
