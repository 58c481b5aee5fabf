//! Service graphs: the applications that tare puts under load, as data.
//!
//! ```yaml
//! name: shop
//! services:
//!   - name: front
//!     protocol: http
//!     endpoints:
//!       - path: /
//!         response_bytes: 1024
//!         cpu_us: 50
//!         calls:
//!           - {service: users, path: Get}      # first this one
//!           - parallel:                        # then these two at once
//!               - {service: stock, path: /stock, request_bytes: 200}
//!               - {service: offers, path: /offers, share: 0.5}
//!   # users (grpc), stock and offers follow
//! mixes:
//!   - name: default
//!     endpoints:
//!       - {name: home, service: front, path: /}
//! ```

mod application;
mod builtin;
mod command;
mod generate;
mod requests;
mod service_graph;
mod step;
mod store;
mod validate;

pub use application::{Application, Chart};
pub use builtin::{BuiltinGraph, builtin, builtins};
pub(crate) use builtin::{N_MAX, n_max};
pub use command::{Command, ProgramNetwork, fill};
pub use generate::{Generate, Spread};
pub use service_graph::{
    App, Mix, MixEndpoint, SYNTHETIC, Service, ServiceEndpoint, ServiceGraph, ServiceProtocol,
};
pub use step::{Call, Step};
pub use store::{Operation, STORE_DATABASE, STORE_ECHO, STORE_TABLE, STORE_USER, Store};
pub(crate) use validate::REPLICAS_MAX;
pub use validate::{BYTES_MAX, GraphError};
