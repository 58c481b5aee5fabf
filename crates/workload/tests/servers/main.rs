//! Servers of whole graphs on loopback, asked over real sockets.

mod client;
mod emojivoto;
mod faults;
mod own;
mod synthetic;
