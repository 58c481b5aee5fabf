//! What tare keeps of a proxy's effective configuration. Such a document can contain secrets in any
//! place, so only settings on an allow-list are kept. Apart from them, only a hash of the document is
//! kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value};
use tare_records::record::{LoadRecord, ProxySettings};

/// Longest document that is read, in bytes.
pub const BYTES_MAX: usize = 16 << 20;
/// Delay between the end of a load and the requests for documents: the last samples of the window
/// are taken in this time, and must show only the load.
pub const ASKS_AFTER: Duration = Duration::from_millis(500);
/// Time limit for all documents together.
pub const ASKS_WITHIN: Duration = Duration::from_secs(3);

/// Largest number of different values of one setting; all further values are counted together.
const VALUES_MAX: usize = 16;
/// Longest value, in characters.
const VALUE_CHARS_MAX: usize = 100;
const OTHERS: &str = "(others)";

/// Settings whose values are kept: fields of Envoy's and Istio's documents and of a pod's
/// container, and environment variables of proxies. Each has an effect on the cost of a request.
const ALLOWED: &[&str] = &[
    // The program and its threads.
    "version",
    "state",
    "concurrency",
    "image",
    "cpu",
    "memory",
    // The chain of filters.
    "name",
    "codec_type",
    "server_header_transformation",
    "forward_client_cert_details",
    "generate_request_id",
    "normalize_path",
    "use_remote_address",
    "use_original_dst",
    "bind_to_port",
    "transparent",
    "traffic_direction",
    "per_connection_buffer_limit_bytes",
    // Connections and protocols.
    "type",
    "lb_policy",
    "protocol",
    "connect_timeout",
    "idle_timeout",
    "max_stream_duration",
    "request_timeout",
    "stream_idle_timeout",
    "timeout",
    "num_retries",
    "retry_on",
    "per_try_timeout",
    "max_connections",
    "max_pending_requests",
    "max_requests",
    "max_retries",
    "max_requests_per_connection",
    "max_concurrent_streams",
    "initial_stream_window_size",
    "initial_connection_window_size",
    // TLS.
    "tls_minimum_protocol_version",
    "tls_maximum_protocol_version",
    "cipher_suites",
    "ecdh_curves",
    "alpn_protocols",
    "require_client_certificate",
    "disable_stateless_session_resumption",
    // Istio's mesh configuration.
    "accessLogFile",
    "enableAutoMtls",
    "enablePrometheusMerge",
    "enableTracing",
    "holdApplicationUntilProxyStarts",
    // Environment variables.
    "ISTIO_META_CLUSTER_ID",
    "ISTIO_META_INTERCEPTION_MODE",
    "GOMAXPROCS",
    "LINKERD2_PROXY_CORES",
    "LINKERD2_PROXY_CORES_MAX",
    "LINKERD2_PROXY_CORES_MAX_RATIO",
    "LINKERD2_PROXY_CORES_MIN",
    "LINKERD2_PROXY_LOG",
    "LINKERD2_PROXY_LOG_FORMAT",
    "LINKERD2_PROXY_INBOUND_CONNECT_TIMEOUT",
    "LINKERD2_PROXY_OUTBOUND_CONNECT_TIMEOUT",
    "LINKERD2_PROXY_INBOUND_DEFAULT_POLICY",
    "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION",
];

/// Why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyConfigError {
    /// Longer than [`BYTES_MAX`].
    #[error("found {0} bytes, expected at most {BYTES_MAX}")]
    Large(usize),
    /// The document cannot be parsed.
    #[error("invalid JSON: {0}")]
    Json(String),
}

/// Returns what is kept of a JSON document.
///
/// # Errors
/// [`ProxyConfigError`] when the document is too long or not JSON.
pub fn settings(name: &str, json: &[u8]) -> Result<ProxySettings, ProxyConfigError> {
    if json.len() > BYTES_MAX {
        return Err(ProxyConfigError::Large(json.len()));
    }
    // The error names only the position: the parser's message could contain a part of the document.
    let document: Value = serde_json::from_slice(json).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        ProxyConfigError::Json(format!("line {line}, column {column}"))
    })?;
    Ok(settings_of(name, &document))
}

/// Returns what is kept of a parsed document.
#[must_use]
pub fn settings_of(name: &str, document: &Value) -> ProxySettings {
    let text = document.to_string();
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let mut settings = BTreeMap::new();
    collect(document, "", "", &mut settings);
    ProxySettings {
        name: name.to_owned(),
        bytes: text.len() as u64,
        sha256: digest.as_ref().iter().map(|b| format!("{b:02x}")).collect(),
        settings,
    }
}

/// Values of a setting, and how often each occurs.
type Values = BTreeMap<String, u32>;

/// Adds the settings of `value`, which is the field `field` of a message of the type `kind`.
fn collect(value: &Value, kind: &str, field: &str, settings: &mut BTreeMap<String, Values>) {
    match value {
        Value::Object(fields) => {
            let kind = kind_of(fields).unwrap_or(kind);
            for (field, value) in fields {
                collect(value, kind, field, settings);
            }
            // An environment variable of a container.
            if let Some(name) = fields.get("name").and_then(Value::as_str)
                && let Some(value) = fields.get("value")
            {
                collect(value, kind, name, settings);
            }
        }
        Value::Array(items) => {
            let mut add = |item| collect(item, kind, field, settings);
            items.iter().for_each(&mut add);
        }
        _ if !ALLOWED.contains(&field) => {}
        scalar => {
            if let Some(text) = short_text(scalar) {
                let name = match kind {
                    "" => field.to_owned(),
                    kind => format!("{kind}.{field}"),
                };
                let values = settings.entry(name).or_default();
                let full = values.len() >= VALUES_MAX && !values.contains_key(&text);
                let text = if full { OTHERS.to_owned() } else { text };
                *values.entry(text).or_default() += 1;
            }
        }
    }
}

/// Returns the short name of a Protobuf message: `Cluster` of
/// `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
fn kind_of(fields: &Map<String, Value>) -> Option<&str> {
    let url = fields.get("@type")?.as_str()?;
    let name = url.strip_prefix("type.googleapis.com/")?;
    let short = name.rsplit('.').next()?;
    let fits = short.len() <= VALUE_CHARS_MAX && short.chars().all(|c| c.is_ascii_alphanumeric());
    fits.then_some(short)
}

/// Returns a number, a Boolean, or a short text that consists of characters of names.
fn short_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:|@,".contains(c);
            let short = text.len() <= VALUE_CHARS_MAX;
            (short && text.chars().all(fits)).then(|| text.clone())
        }
        _ => None,
    }
}

/// The documents of one generator's sidecar, as they arrive in the generator's records. Documents
/// that were not requested are ignored.
#[derive(Debug, Default)]
pub struct ProxyConfigs {
    requested: BTreeSet<String>,
    arrived: BTreeMap<String, Result<ProxySettings, String>>,
}

impl ProxyConfigs {
    /// Expects documents with these names.
    #[must_use]
    pub fn requested(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            requested: names.into_iter().collect(),
            arrived: BTreeMap::new(),
        }
    }

    /// Takes a record, and ignores records that are not about proxy configuration.
    pub fn take(&mut self, record: &LoadRecord) {
        let (name, arrived) = match record {
            LoadRecord::ProxyConfig(settings) => (&settings.name, Ok(settings.clone())),
            LoadRecord::ProxyConfigMissing { name, found } => (name, Err(found.clone())),
            _ => return,
        };
        if self.requested.contains(name) {
            self.arrived.insert(name.clone(), arrived);
        }
    }

    /// Returns what is kept of each requested document, or why it is missing.
    #[must_use]
    pub fn finish(mut self) -> BTreeMap<String, Result<ProxySettings, String>> {
        for name in self.requested {
            let missing = || Err("the records end before this document".to_owned());
            self.arrived.entry(name).or_insert_with(missing);
        }
        self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(document: &Value) -> ProxySettings {
        settings("dump", document.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn settings_are_counted_by_message_and_field() {
        let tls = |versions: [&str; 2]| {
            json!({"@type": "type.googleapis.com/envoy.tls.v3.DownstreamTlsContext",
                "common_tls_context": {"alpn_protocols": ["h2", "http/1.1"], "tls_params": {
                    "tls_minimum_protocol_version": versions[0],
                    "tls_maximum_protocol_version": versions[1]}}})
        };
        let kept = of(&json!({
            "version": "abc/1.40.0/Clean/RELEASE/BoringSSL",
            "command_line_options": {"concurrency": 2, "service_node": "sidecar~10.0.0.7"},
            "configs": [tls(["TLSv1_2", "TLSv1_3"]), tls(["TLSv1_3", "TLSv1_3"])],
        }));
        let expected = json!({
            "version": {"abc/1.40.0/Clean/RELEASE/BoringSSL": 1},
            "concurrency": {"2": 1},
            "DownstreamTlsContext.alpn_protocols": {"h2": 2, "http/1.1": 2},
            "DownstreamTlsContext.tls_minimum_protocol_version": {"TLSv1_2": 1, "TLSv1_3": 1},
            "DownstreamTlsContext.tls_maximum_protocol_version": {"TLSv1_3": 2},
        });
        assert_eq!(serde_json::to_value(kept.settings).unwrap(), expected);
        assert_eq!((kept.name.as_str(), kept.sha256.len()), ("dump", 64));
    }

    #[test]
    fn variables_of_a_container_are_kept_by_their_names() {
        let kept = of(&json!({"name": "istio-proxy", "env": [
            {"name": "GOMAXPROCS", "value": "2"}, {"name": "DB_PASSWD", "value": "hush"}]}));
        assert_eq!(kept.settings["GOMAXPROCS"]["2"], 1);
        assert!(!format!("{kept:?}").contains("hush"));
        let kept = of(&json!({"LINKERD2_PROXY_LOG": "warn", "LINKERD2_PROXY_IDENTITY": "hush"}));
        assert_eq!(kept.settings["LINKERD2_PROXY_LOG"]["warn"], 1);
        assert_eq!(kept.settings.len(), 1);
    }

    /// The word `hush` stands for secrets, in texts and in names of fields outside the list.
    #[test]
    fn only_settings_on_the_allow_list_are_kept() {
        let pem = "-----BEGIN EC PRIVATE KEY-----\nhush\n-----END EC PRIVATE KEY-----\n";
        for document in [
            json!({"private_key": {"inline_string": pem}, "filename": "/hush"}),
            json!({"hush": {"hush": ["hush", 4711, {"hush-token": "hush"}]}}),
            json!({"initial_metadata": [{"key": "authorization", "value": "Bearer hush"}]}),
            json!({"@type": "hush", "x": {"@type": "type.googleapis.com/a.hush token"}}),
            json!({"name": pem, "image": "hush with spaces", "version": {"hush": "hush"}}),
            json!({"uri": "https://u:hush@host/", "args": ["--hush"], "password": "hush"}),
            json!("hush"),
        ] {
            let kept = serde_json::to_string(&of(&document)).unwrap();
            assert!(!kept.contains("hush") && !kept.contains("4711"), "{kept}");
        }
        let error = settings("dump", b"{\"a\": hush}").unwrap_err().to_string();
        assert_eq!(error, "invalid JSON: line 1, column 7");
    }

    #[test]
    fn settings_of_a_large_document_take_little_space() {
        let cluster = |i: u32| {
            json!({"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": format!("outbound|80||web-{i}"), "connect_timeout": "10s"})
        };
        let clusters: Vec<Value> = (0..5000).map(cluster).collect();
        let kept = of(&json!(clusters));
        assert_eq!(kept.settings["Cluster.connect_timeout"]["10s"], 5000);
        let names = &kept.settings["Cluster.name"];
        assert_eq!(names.len(), VALUES_MAX + 1);
        assert_eq!(names[OTHERS], 5000 - VALUES_MAX as u32);
        let large = vec![b' '; BYTES_MAX + 1];
        assert_eq!(
            settings("dump", &large),
            Err(ProxyConfigError::Large(BYTES_MAX + 1))
        );
    }

    #[test]
    fn every_value_changes_the_hash() {
        let one = of(&json!({"unknown": 1}));
        assert_eq!(one, of(&json!({"unknown": 1})));
        assert_ne!(one.sha256, of(&json!({"unknown": 2})).sha256);
    }

    #[test]
    fn only_requested_documents_are_taken_and_each_gets_an_outcome() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let mut all = ProxyConfigs::requested(names);
        let record = |name| LoadRecord::ProxyConfig(settings_of(name, &json!({})));
        all.take(&record("a"));
        all.take(&record("../../other"));
        let (name, found) = ("b".to_owned(), "refused".to_owned());
        all.take(&LoadRecord::ProxyConfigMissing { name, found });
        let all = all.finish();
        assert_eq!(all.len(), 3);
        assert!(all["a"].is_ok());
        assert_eq!(all["b"], Err("refused".to_owned()));
        assert_eq!(
            all["c"],
            Err("the records end before this document".to_owned())
        );
    }
}
