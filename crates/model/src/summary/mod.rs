//! The analysis of a run: what tables, pages and exports show. Derived from the
//! run directory and written to `summary.json`; every output prints these numbers
//! and computes none of its own.

mod cell;
pub mod clusters;
pub mod comparison;
mod cost;
mod inference;
mod instrument;
mod named;
pub mod published;
mod run;
mod stability;

pub use cell::{
    Cell, Difference, Distinction, EndpointRow, Estimate, Overhead, PlaneEstimate, Quantile,
    SpectrumPoint,
};
pub use cost::Cost;
pub use inference::{Inference, StopTarget, Stopping, Uncertainty};
pub use instrument::{CoreToCore, Instrument, Tls};
pub use named::{MethodFigure, MethodSummary};
pub use run::{Answer, Setup, Summary, TrialRow};
pub use stability::{Outlier, OutlierCores, Stability};
