//! Files that people write, decoded with the location of everything in them: a tree whose nodes
//! have locations, serde over that tree, and problems that point at it. Plans, mesh files and
//! graphs are read this way.

mod de;
mod field;
mod location;
mod problem;
mod set;
mod tree;
mod values;
mod yaml;

pub use field::{Field, Spanned};
pub(crate) use field::{List, Short};
pub use location::Location;
pub use problem::{Problem, Problems};
pub(crate) use set::{SET, Setter, apply as apply_set};
pub use tree::Node;
pub(crate) use tree::Value;
pub(crate) use values::{
    Amount, ArrivalsText, Bytes, Count, Duration, Name, ObjectiveText, Rate, Share,
};
pub use values::{Line, scalar};
pub use yaml::TEXT_BYTES_MAX;

/// Reads a YAML file under the rules of plans, and returns it as JSON.
///
/// # Errors
/// The problems of the file, each with its location.
pub fn yaml_to_json(source_name: &str, text: &str) -> Result<serde_json::Value, Problems> {
    let mut problems = Problems::default();
    let json = problems.read_file(source_name, text);
    let json = json.and_then(|node| problems.decode(&node));
    problems.check(json)
}
