//! The application of a node: one of the services of Emojivoto, or synthetic endpoints.

mod cpu;
mod emojivoto;
mod synthetic;

pub(crate) use emojivoto::{Emoji, Voting, Web, messages};
pub(crate) use synthetic::Synthetic;
