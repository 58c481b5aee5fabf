//! Runs on this machine, with real proxies and applications.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod applications;
mod capacity;
#[path = "../../../run/tests/support/executable.rs"]
mod executable;
mod features;
#[path = "../support/judged.rs"]
mod judged;
mod local_environment;
mod many_processes;
mod memory;
mod overload;
mod own_network;
mod pairing;
mod path;
mod profile;
#[path = "../support/programs.rs"]
mod programs;
mod proxies;
#[path = "../support/resident.rs"]
mod resident;
mod run;
#[path = "../support/shop.rs"]
mod shop;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
