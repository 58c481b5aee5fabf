//! The experiment: all trials of a plan, in their order, each complete on disk before the next
//! begins.

mod at_once;
mod capacity;
mod error;
mod findings;
mod idle;
mod live;
mod measurement;
mod overload;
mod request;
mod run;
mod stopping;
mod trial;
mod updates;

pub use error::RunError;
pub use run::{Outcome, missing, run};
pub use updates::{Observer, Stage, Update};
