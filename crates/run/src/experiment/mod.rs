//! The experiment: all trials of a plan, in their order, each complete on disk before the next
//! begins.

mod live;
mod measurement;
mod request;
mod run;
mod stopping;
mod trial;
mod updates;

pub use run::{Outcome, RunError, run};
pub use updates::{Observer, Stage, Update};
