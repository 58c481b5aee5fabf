//! Secrets in what others say of their configuration, taken out by the names of fields, of
//! variables and of header fields: what is taken for one by mistake costs a value, what is
//! missed is published with the trial.

use serde_json::{Map, Value};

/// In the place of what is secret; as Envoy writes it.
const REDACTED: &str = "[redacted]";
/// The same as Envoy writes it in a field of bytes.
const REDACTED_BYTES: &str = "W3JlZGFjdGVkXQ==";
/// What all private keys in PEM have in their first line.
const PRIVATE_KEY: &str = "PRIVATE KEY";
/// What base64 has of it, by its place modulo 3.
const PRIVATE_KEY_BASE64: [&str; 3] = ["UFJJVkFURSBLRV", "BSSVZBVEUgS0VZ", "QUklWQVRFIEtFW"];
/// Fields of Envoy's configuration that hold secrets, and are not told by their ends.
const SECRET_FIELDS: [&str; 4] = [
    "pkcs12",
    "private_key_provider",
    "session_ticket_keys",
    "users",
];
/// How names of fields with secrets end, in anybody's configuration.
const SECRET_ENDS: [&str; 14] = [
    "access_key",
    "api_key",
    "apikey",
    "authorization",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "private_key",
    "secret",
    "secret_key",
    "token",
];
/// Fields below those that say only where a secret is, or hold the public part.
const PUBLIC_FIELDS: [&str; 12] = [
    "@type",
    "cert_chain",
    "certificate_chain",
    "environment_variable",
    "filename",
    "name",
    "path",
    "provider_name",
    "root_certs",
    "sds_config",
    "trusted_ca",
    "watched_directory",
];
/// How other names of such fields end.
const PUBLIC_ENDS: [&str; 3] = ["_file", "_name", "_path"];
/// Words in the names of environment variables and header fields with secrets.
const SECRET_WORDS: [&str; 9] = [
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "KEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
    "TOKEN",
];
/// Where a variable, a header field or what matches one has its name.
const NAME_FIELDS: [&str; 3] = ["header_name", "key", "name"];
/// Where it has its value.
const VALUE_FIELDS: [&str; 3] = ["raw_value", "string_value", "value"];
/// A password in an address is shorter, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// What has one of these is a cluster, a listener, a route, a filter, a certificate ...: its
/// own name may have any words.
const RESOURCE_FIELDS: [&str; 24] = [
    "@type",
    "active_state",
    "address",
    "connect_timeout",
    "domains",
    "draining_state",
    "error_state",
    "filter_chains",
    "filters",
    "host",
    "load_assignment",
    "match",
    "namespace",
    "route",
    "route_config",
    "sds_config",
    "secret",
    "tls_certificate",
    "transport_socket",
    "typed_config",
    "validation_context",
    "virtual_hosts",
    "warming_state",
    "weight",
];

/// Takes out what is secret: private keys wherever they are, what fields for secrets hold,
/// the values of variables and header fields whose names speak of one, and what these are
/// compared with.
pub(crate) fn redact(value: &mut Value) {
    redact_within(value, false);
}

fn redact_within(value: &mut Value, secret: bool) {
    match value {
        Value::String(text) => {
            let known = text == REDACTED || text == REDACTED_BYTES;
            if !known && (secret || is_private_key(text)) {
                REDACTED.clone_into(text);
            } else {
                redact_text(text);
            }
        }
        Value::Number(_) if secret => *value = REDACTED.into(),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redact_within(item, secret)),
        Value::Object(fields) => {
            let named = is_named_as_a_secret(fields);
            let resource = RESOURCE_FIELDS.iter().any(|f| fields.contains_key(*f));
            let is_value = |field: &str| match resource {
                true => VALUE_FIELDS.contains(&field),
                false => field != "input" && !NAME_FIELDS.contains(&field),
            };
            for (field, value) in fields.iter_mut() {
                let own = holds_a_secret(field, value) || (named && is_value(field));
                redact_within(value, (secret || own) && !is_public(field));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Takes the credentials out of a text that is none itself: what follows `Bearer` and
/// `Basic`, and the password of `scheme://user:password@host`.
pub fn redact_text(text: &mut String) {
    if let Some(safe) = without_credentials(text) {
        *text = safe;
    }
    if let Some(safe) = without_passwords(text) {
        *text = safe;
    }
}

/// The same without what follows `Bearer` and `Basic`; `None` when nothing does.
fn without_credentials(text: &str) -> Option<String> {
    let ends = |c: char| c.is_whitespace() || "\"',;<>".contains(c);
    let (mut safe, mut found) = (String::with_capacity(text.len()), false);
    let mut scheme = None;
    for part in text.split_inclusive(ends) {
        let word = part.strip_suffix(ends).unwrap_or(part);
        let end = &part[word.len()..];
        let blank = end.starts_with(char::is_whitespace);
        if scheme.is_some_and(|scheme| is_credential(scheme, word)) {
            found |= word != REDACTED;
            safe.push_str(REDACTED);
            safe.push_str(end);
            scheme = None;
            continue;
        }
        safe.push_str(part);
        scheme = match (blank, word.is_empty()) {
            (true, true) => scheme,
            (true, false) => scheme_of(word),
            (false, _) => None,
        };
    }
    found.then_some(safe)
}

#[derive(Clone, Copy)]
enum Scheme {
    Bearer,
    Basic,
}

/// The scheme that a word is, or has after something else: `Authorization:Bearer`.
fn scheme_of(word: &str) -> Option<Scheme> {
    let named = |name: &str| {
        let (before, end) = word.split_at_checked(word.len().checked_sub(name.len())?)?;
        let whole = !before.ends_with(char::is_alphanumeric);
        (whole && end.eq_ignore_ascii_case(name)).then_some(())
    };
    let bearer = named("bearer").map(|()| Scheme::Bearer);
    bearer.or_else(|| named("basic").map(|()| Scheme::Basic))
}

/// Words of a sentence may follow `basic`, and hardly `bearer`.
fn is_credential(scheme: Scheme, word: &str) -> bool {
    let base64 = |c: char| c.is_ascii_alphanumeric() || "-_+/=".contains(c);
    let no_word = || {
        let mixed = word.chars().skip(1).any(|c| c.is_ascii_uppercase())
            && word.contains(|c: char| c.is_ascii_lowercase());
        mixed || word.contains(|c: char| c.is_ascii_digit() || c == '=')
    };
    let long = word.len() >= 8;
    match scheme {
        Scheme::Bearer => long,
        Scheme::Basic => word == REDACTED || (long && word.chars().all(base64) && no_word()),
    }
}

/// The same without passwords in addresses; `None` when there are none.
fn without_passwords(text: &str) -> Option<String> {
    let (mut safe, mut found, mut rest) = (String::new(), false, text);
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + 3);
        safe.push_str(before);
        rest = address;
        if let Some((from, to)) = password(address) {
            found |= &address[from..to] != REDACTED;
            safe.push_str(&address[..from]);
            safe.push_str(REDACTED);
            rest = &address[to..];
        }
    }
    safe.push_str(rest);
    found.then_some(safe)
}

/// Where an address has its password, which may have what else ends a host in it.
fn password(address: &str) -> Option<(usize, usize)> {
    let whole = address
        .char_indices()
        .take_while(|&(at, c)| {
            at < PASSWORD_BYTES_MAX && !(c.is_whitespace() || "\"'<>".contains(c))
        })
        .last()
        .map_or("", |(at, c)| &address[..at + c.len_utf8()]);
    let host_and_port = &whole[..whole.find(['/', '?', '#']).unwrap_or(whole.len())];
    let from = host_and_port.find(':')? + 1;
    if let Some(at) = host_and_port.rfind('@') {
        return (from <= at).then_some((from, at));
    }
    let port = host_and_port[from..].chars().all(|c| c.is_ascii_digit());
    let ipv6 = host_and_port.starts_with('[');
    let to = whole.find('@').filter(|_| !port && !ipv6)?;
    Some((from, to))
}

/// Whether a text has a private key in PEM, as it is or in base64.
#[must_use]
pub fn is_private_key(text: &str) -> bool {
    text.contains(PRIVATE_KEY) || PRIVATE_KEY_BASE64.iter().any(|part| text.contains(part))
}

/// Whether the name of a variable, a header field or a file speaks of a secret.
#[must_use]
pub fn speaks_of_a_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether the name is said in a field, or in the input of a matcher.
fn is_named_as_a_secret(fields: &Map<String, Value>) -> bool {
    let input = fields
        .get("input")
        .map(|i| &i["typed_config"]["header_name"]);
    let own = NAME_FIELDS.iter().filter_map(|field| fields.get(*field));
    let mut names = own.chain(input).filter_map(Value::as_str);
    names.any(speaks_of_a_secret)
}

fn holds_a_secret(field: &str, value: &Value) -> bool {
    if is_variable(field) && speaks_of_a_secret(field) {
        return true;
    }
    let name = in_snake_case(field);
    // Envoy's message of this name is mostly a certificate; its fields speak for themselves.
    let is_message = name == "secret" && value["@type"].is_string();
    let ends = || SECRET_ENDS.iter().any(|end| name.ends_with(end));
    !is_message && (SECRET_FIELDS.contains(&name.as_str()) || ends())
}

fn is_public(field: &str) -> bool {
    PUBLIC_FIELDS.contains(&field)
        || (!is_variable(field) && PUBLIC_ENDS.iter().any(|end| field.ends_with(end)))
}

/// Whether it is written as environment variables are.
fn is_variable(name: &str) -> bool {
    !name.contains(|c: char| c.is_lowercase()) && name.contains(|c: char| c.is_uppercase())
}

/// `apiKey` and `api-key` as `api_key`.
fn in_snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut after_lowercase = false;
    for c in name.chars() {
        if after_lowercase && c.is_uppercase() {
            snake.push('_');
        }
        after_lowercase = c.is_lowercase() || c.is_numeric();
        match c {
            '-' => snake.push('_'),
            c => snake.extend(c.to_lowercase()),
        }
    }
    snake
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    const PEM: &str = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n";
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

    fn clean(value: &Value) -> Value {
        let mut value = value.clone();
        redact(&mut value);
        let once = value.clone();
        redact(&mut value);
        assert_eq!(value, once, "once is enough");
        value
    }

    /// All of them have `hush` or 4711 for a secret, and `seen` for what is none.
    fn is_kept_from(all: &[Value]) {
        for document in all {
            let text = clean(document).to_string();
            assert!(!text.contains("hush") && !text.contains("4711"), "{text}");
            let seen = |text: &str| text.matches("seen").count();
            assert_eq!(seen(&text), seen(&document.to_string()), "{text}");
            assert!(text.contains(REDACTED), "{text}");
        }
    }

    #[test]
    fn private_keys_are_redacted_wherever_they_are() {
        for lead in ["", "\n", "\n\n", "# mine\n"] {
            let pem = format!("{lead}{PEM}");
            let base64 = STANDARD.encode(&pem);
            let document = json!({"a": [{"b": pem}, {"trusted_ca": {"inline_bytes": base64}}]});
            let text = clean(&document).to_string();
            assert!(
                !text.contains("MHcCAQEE") && !text.contains(&base64[8..]),
                "{text}"
            );
            assert_eq!(text.matches(REDACTED).count(), 2, "{text}");
        }
        let public =
            json!({"inline_string": CERTIFICATE, "inline_bytes": STANDARD.encode(CERTIFICATE)});
        assert_eq!(clean(&public), public);
    }

    #[test]
    fn what_fields_for_secrets_hold_is_redacted_and_where_it_is_stays() {
        is_kept_from(&[
            json!({"tls_certificate": {
                "certificate_chain": {"inline_bytes": "seen"},
                "private_key": {"inline_bytes": "hush"},
                "password": {"inline_string": "hush"}}}),
            json!({"private_key": {"inline_bytes": "hush"}, "again": {"filename": "seen"}}),
            json!({"private_key": {"filename": "seen"}, "pkcs12": {"inline_bytes": "hush"}}),
            json!({"session_ticket_keys": {"keys": [{"inline_bytes": "hush"}]}}),
            json!({"token_secret": {"name": "seen", "sds_config": {"path": "seen"}},
                "generic_secret": {"secret": {"inline_string": "hush"}}}),
            json!({"secret": {"inline_string": "hush"}, "other": {"secret": "hush"}}),
            json!({"ssl_credentials": {"root_certs": {"inline_string": "seen"},
                "private_key": {"inline_string": "hush"}}}),
        ]);
        let done = json!({"private_key": {"inline_bytes": REDACTED_BYTES}});
        assert_eq!(clean(&done), done);
    }

    #[test]
    fn fields_for_secrets_are_known_by_the_ends_of_their_names() {
        for field in [
            "secret_access_key",
            "session_token",
            "auth_password",
            "auth_passwords",
            "downstream_auth_password",
            "downstream_auth_passwords",
            "authorization_token",
            "google_refresh_token",
            "x-api-key",
            "clientSecret",
            "API_TOKEN",
            "DB_PASSWD",
            "AWS_CREDENTIALS",
        ] {
            is_kept_from(&[
                json!({field: "hush", "other": "seen"}),
                json!({field: 4711, "other": {"inner": "seen"}}),
                json!({field: [{"inline_string": "hush"}, 4711]}),
            ]);
        }
        is_kept_from(&[
            json!({"credentials": [{"key": "hush", "client": "hush"}], "key": "seen"}),
            json!({"credentials": [{"key": "hush-token"}, {"key": "hush"}]}),
        ]);
        let places = json!({"access_token_file": "/a", "private_key_path": "/b",
            "token_name": "c", "max_tokens": 7, "token_bucket": {"fill_interval": "1s"},
            "tls_certificate_sds_secret_configs": [{"name": "default", "sds_config": {"ads": {}}}],
            "CONCURRENCY": "2"});
        assert_eq!(clean(&places), places);
    }

    #[test]
    fn variables_and_header_fields_with_secrets_keep_only_their_names() {
        is_kept_from(&[
            json!({"initial_metadata": [
                {"key": "authorization", "value": "hush"},
                {"key": "x-tenant", "value": "seen"}]}),
            json!({"env": [{"name": "DB_PASSWD", "value": "hush"},
                {"name": "GCP_CREDENTIALS", "value": 4711},
                {"name": "CONCURRENCY", "value": "seen"}]}),
            json!({"append_action": "seen",
                "header": {"key": "x-api-key", "raw_value": "hush"}}),
        ]);
        for value in [
            json!({"string_match": {"exact": "hush", "ignore_case": true}}),
            json!({"string_match": {"safe_regex": {"google_re2": {}, "regex": "hush"}}}),
            json!({"exact_match": "hush"}),
            json!({"prefix_match": "hush"}),
            json!({"suffix_match": "hush"}),
            json!({"contains_match": "hush"}),
            json!({"safe_regex_match": {"regex": "hush"}}),
            json!({"range_match": {"start": 4711, "end": "4711"}}),
        ] {
            for (field, name) in [
                ("name", "authorization"),
                ("header_name", "seen-cookie"),
                ("key", "x-seen-token"),
            ] {
                let mut matcher = value.clone();
                matcher[field] = name.into();
                is_kept_from(&[json!({"headers": [matcher], "path": "seen"})]);
            }
        }
        is_kept_from(&[json!({"single_predicate": {
            "input": {"name": "seen", "typed_config": {"@type": "seen", "header_name": "cookie"}},
            "value_match": {"exact": "hush"}}})]);
    }

    #[test]
    fn credentials_within_a_text_are_redacted_and_the_text_stays() {
        is_kept_from(&[
            json!({"args": ["--seen", "Authorization: Bearer hush-4711-hush", "seen"]}),
            json!({"command": "curl -H 'authorization: basic aHVzaDpodXNo4711==' http://seen"}),
            json!({"a": "seen https://seen:hush@seen.example:8443/seen?at=1 seen"}),
            json!({"a": "redis://:hush@seen redis://seen:hush:4711@seen"}),
            json!({"a": "BEARER hushhush,bearer \t hushhush seen"}),
            json!({"a": "Authorization:Bearer 12|hush4711; Bearer abcdefgh:hush seen"}),
            json!({"a": "amqp://seen:a/hush#@seen amqp://seen:hu\u{e4}4711@seen"}),
        ]);
        let plain = json!({"a": ["basic auth", "http://host:8080/a@b:c", "bearer", "a://b@c:1",
            "spiffe://cluster.local/ns/x/sa/y", "Bearer \u{e4}\u{f6}\u{fc}", "\u{130} bearer x",
            "Basic authentication is required", "a basic deployment", "nobasic aHVzaDpodXNo",
            "http://[::1]:8080/a@b", "x://", "://a:"]});
        assert_eq!(clean(&plain), plain);
    }

    fn cluster(name: &str) -> Value {
        json!({"version_info": "2026-01-01T00:00:00Z/7", "last_updated": "2026-01-01T00:00:00Z",
            "cluster": {
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": format!("outbound|80||{name}.shop-0.svc.cluster.local"),
                "type": "EDS",
                "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"},
                    "service_name": format!("outbound|80||{name}.shop-0.svc.cluster.local")},
                "connect_timeout": "10s",
                "circuit_breakers": {"thresholds": [{"max_connections": 4294967295_u32}]},
                "transport_socket_matches": [{"name": "tlsMode-istio", "match": {"tlsMode": "istio"},
                    "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                        "common_tls_context": {
                            "tls_certificate_sds_secret_configs": [{"name": "default", "sds_config": {
                                "api_config_source": {"api_type": "GRPC", "grpc_services": [
                                    {"envoy_grpc": {"cluster_name": "sds-grpc"}}]}}}]},
                        "sni": format!("outbound_.80_._.{name}.shop-0.svc.cluster.local")}}}],
                "metadata": {"filter_metadata": {"istio": {"services": [
                    {"name": name, "namespace": "shop-0",
                    "host": format!("{name}.shop-0.svc.cluster.local")}]}}}}})
    }

    fn listener(name: &str) -> Value {
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": name,
            "route_config": {"name": name, "virtual_hosts": [{"name": name, "domains": ["*"],
                "routes": [{"name": name, "match": {"prefix": "/", "headers": [
                    {"name": ":method", "string_match": {"exact": "GET"}}]},
                "route": {"weighted_clusters": {"clusters": [{"name": name, "weight": 50}]},
                    "timeout": "0s"}}]}]},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type":
                "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
            "access_log": [{"name": "envoy.access_loggers.file",
                "typed_config": {"path": "/dev/stdout"}}]});
        json!({"name": name, "active_state": {"version_info": "7", "listener": {
            "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
            "name": name,
            "address": {"socket_address": {"address": "0.0.0.0", "port_value": 15001}},
            "filter_chains": [{"name": name, "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager}]}],
            "traffic_direction": "OUTBOUND"}}})
    }

    /// As Envoy answers, for services with these names.
    fn dump(names: &[&str], private_key: &str) -> Value {
        let certificate = STANDARD.encode(CERTIFICATE);
        let secret = |name: &str, content: Value| {
            let mut secret = json!({"name": name,
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"});
            secret
                .as_object_mut()
                .unwrap()
                .extend(content.as_object().unwrap().clone());
            json!({"name": name, "version_info": "7", "last_updated": "2026-01-01T00:00:00Z",
                "secret": secret})
        };
        json!({"configs": [
            {"@type": "type.googleapis.com/envoy.admin.v3.BootstrapConfigDump", "bootstrap": {
                "node": {"id": "sidecar~10.0.0.7~web.shop-0", "cluster": "web.shop-0", "metadata": {
                    "ENVOY_STATUS_PORT": 15021, "LABELS": {"app": names[0]},
                    "PROXY_CONFIG": {"concurrency": 2, "serviceCluster": names[0],
                        "configPath": "./etc/istio/proxy", "drainDuration": "45s"}}},
                "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 15000}}},
                "stats_config": {"stats_tags": [{"tag_name": "cluster_name", "regex": "^cluster\\.(.+?)"}]}}},
            {"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump", "version_info": "7",
                "dynamic_active_clusters": names.iter().map(|n| cluster(n)).collect::<Vec<_>>()},
            {"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump",
                "dynamic_listeners": names.iter().map(|n| listener(n)).collect::<Vec<_>>()},
            {"@type": "type.googleapis.com/envoy.admin.v3.SecretsConfigDump",
                "dynamic_active_secrets": [
                    secret("default", json!({"tls_certificate": {
                        "certificate_chain": {"inline_bytes": certificate},
                        "private_key": {"inline_bytes": private_key}}})),
                    secret("kubernetes://web-token", json!({"validation_context": {
                        "trusted_ca": {"inline_bytes": certificate}}}))]},
        ]})
    }

    #[test]
    fn nothing_else_of_an_envoys_dump_is_touched() {
        let names = ["web", "keycloak", "token-service", "cookie-secret"];
        let safe = dump(&names, REDACTED_BYTES);
        assert_eq!(clean(&safe), safe);
        let leaky = dump(&names, &STANDARD.encode("no PEM"));
        let kept = clean(&leaky).to_string();
        assert_eq!(kept.replace(REDACTED, REDACTED_BYTES), safe.to_string());
    }
}
