//! The parts of an Envoy configuration for services whose protocol is `tcp`. This module does no I/O.

use serde_json::{Value, json};

use super::config::OUTBOUND;

/// Returns a filter that passes the bytes of each connection to a cluster. Its counters begin with
/// `tcp.name.`
pub(super) fn proxy(name: &str, cluster: &str) -> Value {
    json!({"name": "envoy.filters.network.tcp_proxy", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": name,
        "cluster": cluster,
        "idle_timeout": "0s",
    }})
}

/// Returns the name of the outbound listener for a service, and the prefix of its counters.
pub(crate) fn outbound(authority: &str) -> String {
    format!("{OUTBOUND}.{authority}")
}
