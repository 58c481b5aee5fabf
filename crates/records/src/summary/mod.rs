//! The analysis of a run: what tables, pages and exports show. Derived from the
//! run directory and written to `summary.json`; every output prints these numbers
//! and computes none of its own.

mod capacity;
mod cell;
mod churn;
pub mod clusters;
pub mod comparison;
mod cost;
mod failure;
mod gate;
mod instrument;
mod named;
mod overload;
pub mod path;
mod price_list;
mod profiles;
pub mod published;
mod ratio;
mod run;
mod stability;
mod stopping;
mod sweep;

pub use capacity::{CellCapacity, LimitCount};
pub use cell::{
    Cell, EndpointRow, Estimate, Percentile, PlaneEstimate, PooledQuantile, Quantile,
    QuantileSpread, Saturation, SpectrumPoint,
};
pub use churn::{CellChurn, CellMetric};
pub use cost::{Cost, ProxyCpu};
pub use failure::CellFailure;
pub use gate::{GateOutcome, GateQuestion, GateResult, MemoryGrowth};
pub use instrument::{CoreToCore, Instrument, Tls};
pub use named::{MethodFigure, MethodSummary};
pub use overload::CellOverload;
pub use price_list::{FeaturePrice, Price, PriceList};
pub use profiles::{
    CodeGroup, FunctionChange, GroupTime, MeshProfile, PlaneProfile, ProfileDifference, Profiles,
};
pub use ratio::{MeshComparison, MoreBlocks, Outcome, Ratio, RatioVariant, TrialSelection};
pub use run::{Answer, MachineState, MeshTrials, Setup, Summary, TrialRow, TrialStatus};
pub use stability::{Outlier, OutlierCores};
pub use stopping::{StopAnswers, StopTarget, Stopping};
pub use sweep::{
    FactorSummary, Fit, Residual, Slice, SweepFigure, SweepLine, SweepPoint, SweepRatio,
    SweepSummary,
};
