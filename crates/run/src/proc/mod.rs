//! What the kernel tells about processes, the machine and control groups.
//! [`parse`] and [`cgroup`] take texts; [`read`] opens files and clocks.

pub mod cgroup;
pub mod container;
pub mod parse;
pub mod read;
