//! Sampled on-CPU stacks of processes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::worker::Plane;

/// The stacks of one process over the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessStacks {
    /// `WatchedProcess::name`.
    pub name: String,
    /// Plane that it belongs to.
    pub plane: Plane,
    /// The frames that occur in its stacks.
    pub frames: Vec<Frame>,
    /// Each different stack.
    pub stacks: Vec<SampledStack>,
}

/// A function, or as much of it as is known.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// Name of the function; absent if the module or the kernel does not reveal it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// File name of the program or library; absent for the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// A stack that was on a core in some samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampledStack {
    /// Indices into `ProcessStacks::frames`, from the outermost function to the one that ran.
    pub frames: Vec<u32>,
    /// Number of samples.
    pub samples: u64,
}

/// The sampling of stacks over the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StackSampling {
    /// CPU time that a sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// Samples that were lost because they were not read in time.
    pub lost: u64,
    /// Samples of processes that are not watched, kernel threads included.
    pub other_processes: u64,
    /// What limits the stacks, and how to change it: fragments without full stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

/// CPU time between two samples, in nanoseconds. Not a divisor of a millisecond, so that the samples do
/// not run in step with timers.
pub const PERIOD_NS: u64 = 997_000;
