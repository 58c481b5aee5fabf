//! Plans, formats, packages, and rules of the sources.

mod foreign_files;
mod formats;
#[path = "../support/judged.rs"]
mod judged;
mod packaging;
mod plan;
#[path = "../support/mod.rs"]
mod support;
mod tidy;
