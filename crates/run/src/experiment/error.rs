//! Why a run could not continue.

use crate::environment::EnvironmentError;
use crate::store::StoreError;

/// The run ends after this many trials in a row that failed before measurement.
pub(super) const FAILURES_IN_A_ROW_MAX: u32 = 3;

/// Why a run could not continue. The trials that were finished are on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The environment cannot do what the plan needs.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// What a mesh needs was not ready in the first trial, and would most likely not be ready in the others.
    #[error(
        "the run stops, because the other trials of {name} would most likely fail in the same way: {last}"
    )]
    NotReady {
        /// The mesh.
        name: String,
        /// Why the trial failed.
        last: String,
    },
    /// Several trials in a row failed before measurement.
    #[error(
        "{FAILURES_IN_A_ROW_MAX} trials in a row failed before measurement; the last one: {last}"
    )]
    NothingStarts {
        /// Why the last one failed.
        last: String,
    },
}
