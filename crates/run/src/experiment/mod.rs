//! The experiment: all trials of a plan, in their order, each complete on disk before the next
//! begins.

mod alone;
mod capacity;
mod error;
mod findings;
mod group;
mod idle;
mod live;
mod measurement;
mod overload;
mod request;
mod run;
mod slices;
mod stopping;
mod together;
mod updates;

pub use error::RunError;
pub use run::{Outcome, missing, run};
pub use updates::{Observer, Stage, Update};
