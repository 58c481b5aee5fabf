//! Kernel data about processes, the machine and control groups. [`parse`] and [`cgroup`] parse
//! texts; [`read`] reads files and clocks.

mod cgroup;
pub(crate) mod container;
pub(crate) mod counters;
pub mod parse;
pub(crate) mod read;
mod run_queue;
pub(crate) mod stacks;
mod symbols;
pub(crate) mod tree;
