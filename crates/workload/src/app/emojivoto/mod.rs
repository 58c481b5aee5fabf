//! Emojivoto: the web service over HTTP, emoji and voting over gRPC with the original messages.
//!
//! Implemented from the public interface (package `emojivoto.v1`); the hundred emoji are our
//! own selection.

mod catalogue;
mod emoji;
pub(crate) mod messages;
mod voting;
mod web;

pub(crate) use emoji::Emoji;
pub(crate) use voting::Voting;
pub(crate) use web::Web;
