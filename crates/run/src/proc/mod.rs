//! What the kernel tells about processes, the machine and control groups.
//! [`parse`] and [`cgroup`] take texts; [`read`] opens files and clocks.

mod cgroup;
pub(crate) mod container;
pub mod parse;
pub(crate) mod read;
