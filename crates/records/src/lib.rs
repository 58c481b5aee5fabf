//! What runs and workers read and write: specifications, records, results of trials, verdicts, the run directory; and
//! what is computed from them: summaries, observations, entries of a history. Pure, as the plan.

pub mod actions;
pub mod calls;
pub mod capacity;
pub mod churn;
pub mod history;
pub mod layout;
pub mod load;
mod manifest;
pub mod node_check;
pub mod observation;
pub mod overload;
pub mod probe;
pub mod process;
pub mod record;
pub mod schemas;
pub mod search;
pub mod signals;
pub mod stacks;
pub mod summary;
pub mod trial;
pub mod verdict;
pub mod watch;
pub mod worker;
pub mod writer;

pub use tare_plan::SCHEMA_VERSION;
