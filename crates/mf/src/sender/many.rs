//! Many flows at once.
