//! Gates, patrols, histories, comparisons, and directories of earlier versions.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod change_points;
mod compare;
#[path = "../../../run/tests/support/executable.rs"]
mod executable;
mod gate;
mod history;
mod history_page;
mod old_runs;
mod patrol;
#[path = "../support/mod.rs"]
mod support;
