//! Encodes the request of an endpoint, without I/O.

use tare_plan::load::{Endpoint, Protocol};

use crate::http1::encode_request;
use crate::http2::{Request, RequestTarget};

use super::spec::SpecError;
use super::url::HttpUrl;

/// An encoded request.
pub(crate) enum Encoded {
    /// The bytes of the request.
    Http1(Vec<u8>),
    /// A request that can be sent on any stream.
    Http2(Request),
}

/// Encodes the request of `endpoint`, whose URL is `url`.
pub(crate) fn encode(endpoint: &Endpoint, url: &HttpUrl) -> Result<Encoded, SpecError> {
    let refused = |source| SpecError::Request {
        name: endpoint.name.clone(),
        source,
    };
    let body = endpoint.body_base64.as_deref();
    let body = body.map(|text| decode(endpoint, text)).transpose()?;
    let target = RequestTarget {
        scheme: "http",
        authority: &url.authority,
        target: &url.target,
    };
    let (method, headers) = (&endpoint.method, &endpoint.headers);
    match endpoint.protocol {
        Protocol::Http1 => encode_request(
            method,
            &url.target,
            &url.authority,
            headers,
            body.as_deref(),
        )
        .map(Encoded::Http1)
        .map_err(refused),
        Protocol::Http2 => Request::new(method, target, headers, body)
            .map(Encoded::Http2)
            .map_err(refused),
        Protocol::Grpc => call(endpoint, target),
    }
}

fn call(endpoint: &Endpoint, target: RequestTarget<'_>) -> Result<Encoded, SpecError> {
    let streaming = endpoint.grpc.streaming;
    let messages = endpoint
        .messages_base64
        .iter()
        .map(|text| decode(endpoint, text))
        .collect::<Result<Vec<_>, _>>()?;
    let wrong = |expected| SpecError::Call {
        name: endpoint.name.clone(),
        found: match (endpoint.body_base64.is_some(), messages.len()) {
            (true, _) => "a body".to_owned(),
            (false, n) => format!("{n} messages"),
        },
        expected,
    };
    if endpoint.body_base64.is_some() {
        return Err(wrong("messages instead of a body"));
    }
    if streaming.one_request() && messages.len() != 1 {
        return Err(wrong("exactly 1, because the method has no client stream"));
    }
    if messages.is_empty() {
        return Err(wrong("at least 1"));
    }
    let timeout = endpoint.grpc.deadline_ns.map(crate::grpc::timeout);
    let metadata = &endpoint.headers;
    let request = Request::grpc(streaming, target, metadata, timeout.as_deref(), &messages);
    request
        .map(Encoded::Http2)
        .map_err(|source| SpecError::Request {
            name: endpoint.name.clone(),
            source,
        })
}

fn decode(endpoint: &Endpoint, text: &str) -> Result<Vec<u8>, SpecError> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map_err(|e| SpecError::Body {
            name: endpoint.name.clone(),
            found: e.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use crate::simulated::support::spec;
    use crate::target::Targets;
    use tare_plan::load::{LoadSpec, Protocol, Streaming};

    fn refused(change: impl Fn(&mut LoadSpec)) -> String {
        let mut s = spec(&["http://h/p.S/M"]);
        s.endpoints[0].protocol = Protocol::Grpc;
        s.endpoints[0].messages_base64 = vec![String::new()];
        assert!(Targets::new(&s).is_ok());
        change(&mut s);
        Targets::new(&s).unwrap_err().to_string()
    }

    #[test]
    fn errors_of_grpc_calls_name_the_expected_messages() {
        assert!(refused(|s| s.endpoints[0].messages_base64.clear()).contains("0 messages"));
        let two = |s: &mut LoadSpec| s.endpoints[0].messages_base64.push(String::new());
        assert!(refused(two).contains("found 2 messages, expected exactly 1"));
        assert!(
            refused(|s| s.endpoints[0].body_base64 = Some("QQ==".into()))
                .contains("instead of a body")
        );
        assert!(refused(|s| s.endpoints[0].messages_base64 = vec!["*".into()]).contains("base64"));
        let te = |s: &mut LoadSpec| s.endpoints[0].headers = vec![("TE".into(), "x".into())];
        assert!(refused(te).contains("te"));
        let none = |s: &mut LoadSpec| {
            s.endpoints[0].grpc.streaming = Streaming::Client;
            s.endpoints[0].messages_base64.clear();
        };
        assert!(refused(none).contains("at least 1"));
        assert!(refused(|s| s.streams = 0).contains("streams is 0, expected 1 to"));
    }

    #[test]
    fn http2_and_grpc_share_connections_and_http1_does_not() {
        let mut s = spec(&["http://h/", "http://h/a", "http://h/p.S/M"]);
        s.endpoints[1].protocol = Protocol::Http2;
        s.endpoints[2].protocol = Protocol::Grpc;
        s.endpoints[2].messages_base64 = vec![String::new()];
        let t = Targets::new(&s).unwrap();
        let origins: Vec<u32> = t.endpoints.iter().map(|e| e.origin).collect();
        assert_eq!(origins, [0, 1, 1]);
        assert!(!t.origins[0].multiplexed && t.origins[1].multiplexed);
        assert_eq!(t.requests.len(), 2);
    }
}
