//! Exit codes other than 0, which means success.

/// An objective was missed, or a threshold that the user gave was exceeded.
pub(crate) const MISSED: u8 = 1;
/// The command line, a plan or a specification is invalid, or a requirement is missing.
pub(crate) const USAGE: u8 = 2;
/// The run or the measurement is invalid.
pub(crate) const INVALID: u8 = 3;
/// A gate could not be decided within its budget.
pub(crate) const INCONCLUSIVE: u8 = 4;
/// Ended by Ctrl-C, SIGTERM or SIGHUP.
pub(crate) const INTERRUPTED: u8 = 130;
