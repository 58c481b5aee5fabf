//! Kernel data about processes, the machine and control groups. [`parse`] and [`cgroup`] parse
//! texts; [`read`] reads files and clocks.

mod cgroup;
pub mod container;
pub mod counters;
pub mod parse;
pub mod read;
mod run_queue;
pub mod stacks;
mod symbols;
pub mod tree;
