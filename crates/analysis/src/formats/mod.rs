//! Formats that other tools read, as pure functions from results to text.

pub mod csv;
pub mod families;
mod fortio;
mod hgrm;
pub mod hlog;
mod openmetrics;
pub mod pprof;
mod time;

pub use fortio::{About, fortio};
pub use hgrm::hgrm;
pub use openmetrics::{histogram_samples, of_load};
pub use time::rfc3339;
