//! Analyses, tables, pages and exports of runs with known figures.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod analysis;
mod churn;
mod comparable;
mod comparison;
mod counters;
mod export;
mod failures;
mod gate;
mod grafana;
mod in_kernel;
mod noisy;
mod old_runs;
mod page;
mod path;
mod price_list;
mod run_directory;
mod run_queue;
mod selection;
#[path = "../support/shape.rs"]
mod shape;
mod shapes;
mod stopping;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
#[path = "../support/weighed.rs"]
mod weighed;
