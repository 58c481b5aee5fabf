//! The TLS parts of an Envoy configuration: TLS 1.3, mutual with identities checked on both sides, or
//! with a certificate of the server only.
//! A configuration contains the paths of keys, never the keys.

use std::path::PathBuf;

use serde_json::{Value, json};

/// Paths of a proxy's certificate, key and trust anchor (PEM).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The proxy's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The certificate of the authority.
    pub authority: PathBuf,
}

const EXTENSION: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";

/// An identity that no certificate has, for an empty list: Envoy would accept every peer then.
const NOBODY: &str = "spiffe://nobody.invalid/";

/// Returns the configuration of the server side, which requires a certificate of one of `callers`.
pub(crate) fn downstream(files: &TlsFiles, callers: &[String], alpn: &str) -> Value {
    let nobody = [NOBODY.to_owned()];
    let callers = match callers {
        [] => &nobody[..],
        callers => callers,
    };
    let mut socket = socket("DownstreamTlsContext", files, callers, alpn);
    socket["typed_config"]["require_client_certificate"] = true.into();
    socket
}

/// Returns the configuration of a server side that asks for no certificate.
pub(crate) fn downstream_without_client_certificates(files: &TlsFiles, alpn: &str) -> Value {
    without(
        socket("DownstreamTlsContext", files, &[], alpn),
        "validation_context",
    )
}

/// Returns the configuration of the client side, which accepts only the identity `server`. It shows a
/// certificate itself if TLS is `mutual`.
pub(crate) fn upstream(files: &TlsFiles, mutual: bool, server: &str, alpn: &str) -> Value {
    let socket = socket("UpstreamTlsContext", files, &[server.to_owned()], alpn);
    match mutual {
        true => socket,
        false => without(socket, "tls_certificates"),
    }
}

fn without(mut socket: Value, key: &str) -> Value {
    if let Some(common) = socket["typed_config"]["common_tls_context"].as_object_mut() {
        common.remove(key);
    }
    socket
}

fn socket(context: &str, files: &TlsFiles, peers: &[String], alpn: &str) -> Value {
    let names: Vec<Value> = peers
        .iter()
        .map(|id| json!({"san_type": "URI", "matcher": {"exact": id}}))
        .collect();
    let common = json!({
        "tls_params": {
            "tls_minimum_protocol_version": "TLSv1_3",
            "tls_maximum_protocol_version": "TLSv1_3",
        },
        "tls_certificates": [{
            "certificate_chain": {"filename": files.certificate},
            "private_key": {"filename": files.key},
        }],
        "validation_context": {
            "trusted_ca": {"filename": files.authority},
            "match_typed_subject_alt_names": names,
        },
        "alpn_protocols": [alpn],
    });
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": format!("{EXTENSION}.{context}"),
            "common_tls_context": common,
        }
    })
}
