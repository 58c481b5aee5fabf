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
