//! Files that people write, decoded with the place of everything in them: one
//! tree whose nodes know where they stand, and problems that point at it. Plans
//! and mesh files are both read through here.

mod decode;
mod nearest;
mod place;
mod problem;
mod schema;
mod set;
mod shape;
mod tree;
mod yaml;

#[cfg(test)]
pub(crate) use decode::one_of;
pub(crate) use decode::{Decoder, Part};
pub use nearest::nearest;
pub(crate) use place::At;
pub use place::Place;
pub(crate) use problem::quoted;
pub use problem::{Problem, Problems};
pub(crate) use schema::{ArrivalsText, Duration, Either, Rate, Share};
pub(crate) use set::apply as apply_set;
pub(crate) use shape::Shape;
pub(crate) use tree::{Node, Value};
pub use yaml::TEXT_BYTES_MAX;

/// A YAML file as JSON, by the rules of plans: for files that are merged into one.
///
/// # Errors
/// What is wrong with it, each with its place.
pub fn yaml_to_json(source_name: &str, text: &str) -> Result<serde_json::Value, Problems> {
    let mut decoder = Decoder::default();
    match decoder.read_file(source_name, text) {
        Some(node) if decoder.count() == 0 => Ok(node.to_json()),
        _ => Err(decoder.into_problems()),
    }
}
