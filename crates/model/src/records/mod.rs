//! What runs and workers read and write: the run directory, trials, specifications, records,
//! histograms and verdicts.

pub mod calls;
pub mod capacity;
pub mod churn;
pub mod hist;
pub mod layout;
mod manifest;
pub mod node_check;
pub mod overload;
pub mod probe;
pub mod record;
pub mod stacks;
pub mod trial;
pub mod verdict;
pub mod watch;
pub mod worker;
pub mod writer;
