//! Bootstrap configurations: one static file for each proxy. This module does no I/O.
//!
//! A configuration is like that of a sidecar in a cluster: an inbound listener in front of the
//! application, and an outbound listener that routes by Host or `:authority`; for TCP, one that passes
//! bytes for each called service. The proxy must not
//! hide or change any result: no retries, no timeouts, and limits that a trial cannot reach.
//! Settings are explicit where a default would differ.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tare_plan::graph::ServiceProtocol;
use tare_plan::mesh::{MeshSettings, Mtls};

use super::feature::{self, ProxyFeature};
use super::tcp;
use super::tls::{self, TlsFiles};

/// Name of the inbound listener, and prefix of its counters.
pub(crate) const INBOUND: &str = "inbound";
/// Name of the outbound listener.
pub(crate) const OUTBOUND: &str = "outbound";
/// Name of the cluster of the sidecar's own application.
pub(super) const APPLICATION: &str = "application";
/// Each sidecar appends its name and direction to this request header, only on the paths of proofs:
/// measured requests do not carry it.
pub(crate) const VIA_HEADER: &str = "x-tare-via";
/// The path prefixes of proofs, for HTTP and for gRPC.
pub(crate) const PROOF_PREFIXES: [&str; 2] = ["/tare/", "/tare.Echo/"];

/// A limit that no trial can reach. With its default of 1,024 open connections and requests, Envoy
/// would respond with 503 under load.
const UNREACHABLE: u32 = 1_000_000_000;
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 24 << 20;
const BUFFER_BYTES: u32 = 1 << 20;

/// One sidecar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proxy {
    /// Name of its pod, for example `emojivoto-0/web`.
    pub name: String,
    /// Unix socket of the admin interface.
    pub admin: PathBuf,
    /// Services that the application may call.
    pub routes: Vec<Route>,
    /// The application behind the sidecar; `None` for the generator.
    pub inbound: Option<Inbound>,
    /// Certificates, when TLS is on.
    pub tls: Option<TlsFiles>,
    /// Statistics and logs.
    pub settings: MeshSettings,
    /// Path of the access log.
    pub access_log: PathBuf,
    /// The feature that is on.
    pub feature: Option<ProxyFeature>,
}

/// A service that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Value of the Host header or of `:authority`.
    pub authority: String,
    /// Protocol of the service.
    pub protocol: ServiceProtocol,
    /// Outbound address of this sidecar, for calls of the service. Those for HTTP are the same.
    pub listen: SocketAddrV4,
    /// Whether requests that arrive at `listen` go to this service whatever their Host header is.
    pub any_host: bool,
    /// The inbound listeners of the sidecars of its replicas; without these, the applications.
    pub addresses: Vec<SocketAddrV4>,
    /// Identity that its certificate must contain; `None` for a service outside the mesh, which has no TLS.
    pub identity: Option<String>,
}

/// An application behind a sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inbound {
    /// Inbound address of the sidecar.
    pub listen: SocketAddrV4,
    /// Address of the application.
    pub application: SocketAddrV4,
    /// Protocol of the service.
    pub protocol: ServiceProtocol,
    /// Identities whose certificates are accepted.
    pub callers: Vec<String>,
}

/// Returns the bootstrap configuration of a sidecar.
pub(crate) fn bootstrap(proxy: &Proxy) -> Value {
    let mut listeners = Vec::new();
    let mut clusters = Vec::new();
    if let Some(inbound) = &proxy.inbound {
        listeners.push(inbound_listener(proxy, inbound));
        clusters.push(cluster(
            APPLICATION,
            inbound.protocol,
            &[inbound.application],
            None,
        ));
    }
    let is_tcp = |route: &&Route| route.protocol == ServiceProtocol::Tcp;
    let (tcp, http): (Vec<&Route>, Vec<&Route>) = proxy.routes.iter().partition(is_tcp);
    let (alone, shared): (Vec<&Route>, Vec<&Route>) = http.into_iter().partition(|r| r.any_host);
    if let Some(first) = shared.first() {
        listeners.push(outbound_listener(OUTBOUND, proxy, first.listen, &shared));
    }
    for route in alone {
        let name = tcp::outbound(&route.authority);
        listeners.push(outbound_listener(&name, proxy, route.listen, &[route]));
    }
    for route in tcp {
        let name = tcp::outbound(&route.authority);
        let chain = json!({"filters": [tcp::proxy(&name, &route.authority)]});
        listeners.push(listener(&name, route.listen, &chain));
    }
    for route in &proxy.routes {
        let tls = proxy.tls.as_ref().zip(route.identity.as_ref());
        let tls = tls.map(|(files, identity)| {
            tls::upstream(files, mutual(proxy), identity, alpn(route.protocol))
        });
        clusters.push(cluster(
            &route.authority,
            route.protocol,
            &route.addresses,
            tls,
        ));
    }
    let mut bootstrap = json!({
        "node": {"id": proxy.name, "cluster": "tare"},
        "admin": {"address": {"pipe": {"path": proxy.admin}}},
        "static_resources": {"listeners": listeners, "clusters": clusters},
        // Without this Envoy logs a warning on each start; no trial reaches the limit.
        "overload_manager": {"resource_monitors": [{
            "name": "envoy.resource_monitors.global_downstream_max_connections",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                "max_active_downstream_connections": UNREACHABLE,
            }
        }]},
    });
    if !proxy.settings.l7_stats {
        bootstrap["stats_config"] = json!({"stats_matcher": {"inclusion_list": {"patterns": [
            {"exact": format!("http.{INBOUND}.downstream_rq_total")},
            {"exact": format!("http.{OUTBOUND}.downstream_rq_total")},
            {"prefix": "tcp."},
        ]}}});
    }
    if let Some(feature) = &proxy.feature {
        feature::apply(&mut bootstrap, feature);
    }
    bootstrap
}

fn inbound_listener(proxy: &Proxy, inbound: &Inbound) -> Value {
    let filter = match inbound.protocol {
        ServiceProtocol::Tcp => tcp::proxy(INBOUND, APPLICATION),
        ServiceProtocol::Http => inbound_manager(proxy, "HTTP1"),
        ServiceProtocol::Http2 | ServiceProtocol::Grpc => inbound_manager(proxy, "HTTP2"),
    };
    let mut chain = json!({"filters": [filter]});
    if let Some(files) = &proxy.tls {
        let alpn = alpn(inbound.protocol);
        chain["transport_socket"] = match mutual(proxy) {
            true => tls::downstream(files, &inbound.callers, alpn),
            false => tls::downstream_without_client_certificates(files, alpn),
        };
    }
    listener(INBOUND, inbound.listen, &chain)
}

fn inbound_manager(proxy: &Proxy, codec: &str) -> Value {
    let hosts = json!([virtual_host(proxy, INBOUND, APPLICATION, &["*".to_owned()])]);
    let mut manager = connection_manager(proxy, INBOUND, codec, &hosts);
    if proxy.tls.is_some() && mutual(proxy) {
        // Set the identity from the caller's certificate, and drop any identity that the caller sent.
        manager["forward_client_cert_details"] = json!("SANITIZE_SET");
        manager["set_current_client_cert_details"] = json!({"uri": true});
    }
    network_filter(manager)
}

fn mutual(proxy: &Proxy) -> bool {
    proxy.settings.mtls == Mtls::Strict
}

fn outbound_listener(name: &str, proxy: &Proxy, address: SocketAddrV4, routes: &[&Route]) -> Value {
    let hosts: Vec<Value> = routes
        .iter()
        .map(|route| {
            let authority = &route.authority;
            let domains = match route.any_host {
                true => vec!["*".to_owned()],
                false => vec![authority.clone(), format!("{authority}:*")],
            };
            virtual_host(proxy, OUTBOUND, authority, &domains)
        })
        .collect();
    // One port for all HTTP calls of the application: the first bytes show the protocol.
    let manager = connection_manager(proxy, OUTBOUND, "AUTO", &json!(hosts));
    let chain = json!({"filters": [network_filter(manager)]});
    listener(name, address, &chain)
}

fn listener(name: &str, address: SocketAddrV4, chain: &Value) -> Value {
    json!({
        "name": name,
        "address": socket_address(address),
        "filter_chains": [chain],
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
    })
}

fn network_filter(manager: Value) -> Value {
    json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager})
}

fn connection_manager(proxy: &Proxy, direction: &str, codec: &str, hosts: &Value) -> Value {
    let mut manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": direction,
        "codec_type": codec,
        "route_config": {"name": direction, "virtual_hosts": hosts},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
        "generate_request_id": false,
        "request_timeout": "0s",
        "stream_idle_timeout": "0s",
        "common_http_protocol_options": {"idle_timeout": "0s"},
        "http2_protocol_options": http2_options(),
    });
    if proxy.settings.access_log {
        manager["access_log"] = json!([{
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": proxy.access_log,
            }
        }]);
    }
    manager
}

fn virtual_host(proxy: &Proxy, direction: &str, cluster: &str, domains: &[String]) -> Value {
    let action = json!({
        "cluster": cluster,
        // No timeout, so that the generator receives and counts a late response.
        "timeout": "0s",
        "retry_policy": {"num_retries": 0},
    });
    let mut routes: Vec<Value> = PROOF_PREFIXES
        .iter()
        .map(|prefix| {
            json!({
                "match": {"prefix": prefix},
                "route": action,
                "request_headers_to_add": [{
                    "header": {"key": VIA_HEADER, "value": format!("{}/{direction}", proxy.name)},
                    "append_action": "APPEND_IF_EXISTS_OR_ADD",
                }],
            })
        })
        .collect();
    routes.push(json!({"match": {"prefix": "/"}, "route": action}));
    json!({"name": cluster, "domains": domains, "routes": routes})
}

pub(super) fn cluster(
    name: &str,
    protocol: ServiceProtocol,
    addresses: &[SocketAddrV4],
    tls: Option<Value>,
) -> Value {
    let endpoint = |at: &SocketAddrV4| json!({"endpoint": {"address": socket_address(*at)}});
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    let protocol_options = match protocol.has_streams() {
        false => json!({"http_protocol_options": {}}),
        true => json!({"http2_protocol_options": http2_options()}),
    };
    let mut cluster = json!({
        "name": name,
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "connect_timeout": "5s",
        "per_connection_buffer_limit_bytes": BUFFER_BYTES,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": endpoints}],
        },
        "circuit_breakers": {"thresholds": [{
            "max_connections": UNREACHABLE,
            "max_pending_requests": UNREACHABLE,
            "max_requests": UNREACHABLE,
            "max_retries": 0,
        }]},
    });
    if protocol != ServiceProtocol::Tcp {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": protocol_options,
                "common_http_protocol_options": {"idle_timeout": "0s"},
            }
        });
    }
    if let Some(tls) = tls {
        cluster["transport_socket"] = tls;
    }
    cluster
}

fn http2_options() -> Value {
    json!({
        "max_concurrent_streams": 1_000,
        "initial_stream_window_size": STREAM_WINDOW_BYTES,
        "initial_connection_window_size": CONNECTION_WINDOW_BYTES,
    })
}

fn socket_address(address: SocketAddrV4) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}

pub(crate) fn alpn(protocol: ServiceProtocol) -> &'static str {
    match protocol.has_streams() {
        false => "http/1.1",
        true => "h2",
    }
}

/// Returns the arguments of a sidecar.
pub(crate) fn arguments(config: &Path, settings: &MeshSettings) -> Vec<String> {
    [
        "--config-path",
        &config.to_string_lossy(),
        "--concurrency",
        &settings.concurrency.to_string(),
        "--disable-hot-restart",
        "--log-level",
        "warning",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
pub(super) mod tests;
