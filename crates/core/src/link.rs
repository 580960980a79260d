//! Links as sans-I/O objects.
