//! Durations, rates and sizes as people write them.
//!
//! `parse_*` take `10s`, `1m30s`, `500ms`; `500`, `500rps`, `2krps`; `128`, `4KiB`;
//! errors are fragments that say what was found and what was expected.
