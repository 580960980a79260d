//! Large objects over a last hop that loses packets (paper §5.1).
