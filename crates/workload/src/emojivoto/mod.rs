//! Emojivoto: web by HTTP, emoji and voting by gRPC, with its real messages.
//!
//! Written anew from its public interface (package `emojivoto.v1`); the hundred
//! emoji are a choice of our own.

mod catalogue;
mod emoji;
pub(crate) mod messages;
mod voting;
mod web;

pub(crate) use emoji::Emoji;
pub(crate) use voting::Voting;
pub(crate) use web::Web;
