//! The server side: `listen` accepts connections for all servers; `answer` answers the requests of a node, and
//! `probes` those that every node has.

mod answer;
mod listen;
mod probes;

pub(crate) use answer::answer;
pub(crate) use listen::{accept, bind, ended, serve, serve_all};
pub(crate) use probes::probe;
