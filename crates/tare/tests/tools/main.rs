//! Plans, formats, packages, and rules of the sources.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod foreign_files;
mod formats;
#[path = "../support/judged.rs"]
mod judged;
mod packaging;
mod plan;
#[path = "../support/mod.rs"]
mod support;
mod tidy;
