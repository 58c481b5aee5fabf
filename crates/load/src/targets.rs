//! A specification's endpoints, made ready for the loop: requests as bytes,
//! endpoints grouped by where they connect to, weights as a deck. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use tare_model::limits::{CONNECTIONS_MAX, RATE_RPS_MAX, STREAMS_MAX, THREADS_MAX, TIME_NS_MAX};
use tare_model::load::ArrivalsError;
use tare_model::load::{Endpoint, LoadSpec, Mode};
use tare_model::rng::Rng;

use crate::deck::{Deck, DeckError};
use crate::encode::{Encoded, encode};
use crate::http1::RequestError;
use crate::http2::Request;
use crate::url::{HttpUrl, UrlError, host_port};

/// Why a specification cannot be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Written for another version.
    #[error("schema_version is {found}, expected {}", tare_model::SCHEMA_VERSION)]
    Schema {
        /// What it says.
        found: u32,
    },
    /// A figure out of its range.
    #[error("{field} is {found}, expected {expected}")]
    Range {
        /// Which field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: String,
    },
    /// No endpoint.
    #[error("endpoints is empty: expected at least one")]
    NoEndpoints,
    /// An endpoint's URL or `connect`.
    #[error("endpoint {name:?}: {source}")]
    Url {
        /// Which endpoint.
        name: String,
        /// What is wrong.
        source: UrlError,
    },
    /// An endpoint's method or headers.
    #[error("endpoint {name:?}: {source}")]
    Request {
        /// Which endpoint.
        name: String,
        /// What is wrong.
        source: RequestError,
    },
    /// A gRPC call's messages.
    #[error("endpoint {name:?}: found {found}, expected {expected}")]
    Call {
        /// Which endpoint.
        name: String,
        /// What it brings.
        found: String,
        /// What its kind of call takes.
        expected: &'static str,
    },
    /// An endpoint's body or message.
    #[error("endpoint {name:?}: its body or message is not base64: {found}")]
    Body {
        /// Which endpoint.
        name: String,
        /// The decoder's word.
        found: String,
    },
    /// The arrivals.
    #[error("arrivals: {0}")]
    Arrivals(#[from] ArrivalsError),
    /// The weights.
    #[error(transparent)]
    Weights(#[from] DeckError),
}

/// Endpoints ready for the loop.
#[derive(Debug, Clone)]
pub struct Targets {
    /// In the order of the specification.
    pub endpoints: Vec<Target>,
    /// Names in the order of first appearance.
    pub names: Vec<String>,
    /// Where connections go.
    pub origins: Vec<Origin>,
    /// Slot index to endpoint.
    pub deck: Deck,
    /// Requests for streams; see [`Target::stream_request`].
    pub requests: Arc<[Request]>,
}

/// One endpoint.
#[derive(Debug, Clone)]
pub struct Target {
    /// The whole request of HTTP/1.1; empty with HTTP/2.
    pub request: Vec<u8>,
    /// With HTTP/2, index into [`Targets::requests`].
    pub stream_request: u32,
    /// Whether the response has no body whatever its headers say.
    pub head_request: bool,
    /// Index into [`Targets::names`].
    pub name: u32,
    /// Index into [`Targets::origins`].
    pub origin: u32,
}

/// One place to connect to, and the endpoints behind it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Authority of the URLs: connections are not shared between authorities.
    pub authority: String,
    /// Whether HTTP/2 is spoken there; nor are they shared between protocols.
    pub multiplexed: bool,
    /// Host to resolve.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host of the URLs, which the server's certificate must name.
    pub server_name: String,
    /// Its own endpoints by weight, for the closed loop: card to endpoint.
    pub deck: Deck,
    /// What a card of `deck` means: indices into [`Targets::endpoints`].
    pub endpoints: Vec<u32>,
}

impl Targets {
    /// Checks a whole specification and prepares its endpoints.
    ///
    /// # Errors
    /// [`SpecError`] for the first thing that cannot be carried out.
    pub fn new(spec: &LoadSpec) -> Result<Self, SpecError> {
        check(spec)?;
        let mut targets = Vec::with_capacity(spec.endpoints.len());
        let mut names: Vec<String> = Vec::new();
        let mut name_index: HashMap<&str, u32> = HashMap::new();
        let mut requests = Vec::new();
        let mut groups: Vec<(Key, Vec<u32>)> = Vec::new();
        let mut group_index: HashMap<Key, u32> = HashMap::new();
        for (i, endpoint) in spec.endpoints.iter().enumerate() {
            let url = parse_url(endpoint)?;
            let place = endpoint.connect.as_deref().unwrap_or(&url.authority);
            let (host, port) = host_port(place, url.default_port())
                .map_err(|source| url_error(endpoint, source))?;
            let name = *name_index.entry(&endpoint.name).or_insert_with(|| {
                names.push(endpoint.name.clone());
                names.len() as u32 - 1
            });
            let key = Key {
                multiplexed: !endpoint.protocol.is_http1(),
                tls: url.tls,
                authority: url.authority.clone(),
                host: host.to_owned(),
                port,
            };
            let origin = *group_index.entry(key.clone()).or_insert_with(|| {
                groups.push((key, Vec::new()));
                groups.len() as u32 - 1
            });
            groups[origin as usize].1.push(i as u32);
            let stream_request = requests.len() as u32;
            let request = match encode(endpoint, &url)? {
                Encoded::Http1(bytes) => bytes,
                Encoded::Http2(request) => {
                    requests.push(request);
                    Vec::new()
                }
            };
            targets.push(Target {
                request,
                stream_request,
                head_request: endpoint.method == "HEAD",
                name,
                origin,
            });
        }
        let weights: Vec<u32> = spec.endpoints.iter().map(|e| e.weight).collect();
        let origins = groups
            .into_iter()
            .enumerate()
            .map(|(i, group)| origin(group, &weights, spec.seed, i as u64))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            endpoints: targets,
            names,
            origins,
            deck: Deck::new(&weights, spec.seed)?,
            requests: requests.into(),
        })
    }
}

/// What must agree for a connection to be shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    multiplexed: bool,
    tls: bool,
    authority: String,
    host: String,
    port: u16,
}

fn origin(
    (key, endpoints): (Key, Vec<u32>),
    weights: &[u32],
    seed: u64,
    index: u64,
) -> Result<Origin, SpecError> {
    let own: Vec<u32> = endpoints.iter().map(|&e| weights[e as usize]).collect();
    let seed = Rng::stream(seed, index + 1).next_u64();
    let server_name = host_port(&key.authority, key.port)
        .map_or_else(|_| key.host.clone(), |(host, _)| host.to_owned());
    Ok(Origin {
        authority: key.authority,
        multiplexed: key.multiplexed,
        host: key.host,
        port: key.port,
        tls: key.tls,
        server_name,
        deck: Deck::new(&own, seed)?,
        endpoints,
    })
}

fn url_error(endpoint: &Endpoint, source: UrlError) -> SpecError {
    SpecError::Url {
        name: endpoint.name.clone(),
        source,
    }
}

fn parse_url(endpoint: &Endpoint) -> Result<HttpUrl, SpecError> {
    HttpUrl::parse(&endpoint.url).map_err(|source| url_error(endpoint, source))
}

fn check(spec: &LoadSpec) -> Result<(), SpecError> {
    if spec.schema_version != tare_model::SCHEMA_VERSION {
        return Err(SpecError::Schema {
            found: spec.schema_version,
        });
    }
    if spec.endpoints.is_empty() {
        return Err(SpecError::NoEndpoints);
    }
    if let Mode::Open { rate_rps, arrivals } = &spec.mode {
        if !(*rate_rps > 0.0 && *rate_rps <= RATE_RPS_MAX) {
            return Err(range(
                "rate_rps",
                rate_rps,
                format!("above 0, up to {RATE_RPS_MAX}"),
            ));
        }
        arrivals.check(*rate_rps, spec.duration_ns)?;
    }
    for (field, ns, least) in [
        ("duration_ns", spec.duration_ns, 1),
        ("warmup_ns", spec.warmup_ns, 0),
        ("timeout_ns", spec.timeout_ns, 1),
        ("drain_ns", spec.drain_ns.unwrap_or(0), 0),
    ] {
        in_range(field, ns, least, TIME_NS_MAX)?;
    }
    in_range(
        "connections",
        spec.connections.into(),
        1,
        CONNECTIONS_MAX.into(),
    )?;
    in_range("streams", spec.streams.into(), 1, STREAMS_MAX.into())?;
    in_range("threads", spec.threads.into(), 1, THREADS_MAX.into())?;
    if let Some(n) = spec.requests_per_connection {
        if spec.endpoints.iter().any(|e| !e.protocol.is_http1()) {
            let only = "nothing with HTTP/2: connections there are kept".to_owned();
            return Err(range("requests_per_connection", n, only));
        }
        in_range("requests_per_connection", n.into(), 1, u32::MAX.into())?;
    }
    in_range("shard.count", spec.shard.count.into(), 1, 1_000_000)?;
    let last = u64::from(spec.shard.count) - 1;
    in_range("shard.index", spec.shard.index.into(), 0, last)?;
    for endpoint in &spec.endpoints {
        in_range("weight", endpoint.weight.into(), 1, u32::MAX.into())?;
    }
    Ok(())
}

fn in_range(field: &'static str, found: u64, least: u64, most: u64) -> Result<(), SpecError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(range(field, found, format!("{least} to {most}")))
}

fn range(field: &'static str, found: impl ToString, expected: String) -> SpecError {
    SpecError::Range {
        field,
        found: found.to_string(),
        expected,
    }
}

/// How many connections to origin `origin` of `origins` thread `thread` of
/// `threads` holds when `connections` are spread evenly: at least one, since any
/// slot may fall to any thread.
#[must_use]
pub fn connections_of(
    connections: u32,
    origin: u32,
    origins: u32,
    thread: u32,
    threads: u32,
) -> u32 {
    let share = |whole: u32, part: u32, parts: u32| whole / parts + u32::from(part < whole % parts);
    let of_origin = share(connections, origin, origins).max(1);
    // Turned by the origin, so that the odd ones do not all fall to the first thread.
    let turned = (thread + origin) % threads;
    share(of_origin, turned, threads).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;

    #[test]
    fn endpoints_are_grouped_by_authority_and_address() {
        let mut s = spec(&["http://a/1", "http://b/", "http://a/2", "http://a/3"]);
        s.endpoints[3].connect = Some("127.0.0.1:9".into());
        s.endpoints[2].name = s.endpoints[0].name.clone();
        let t = Targets::new(&s).unwrap();
        let origins: Vec<u32> = t.endpoints.iter().map(|e| e.origin).collect();
        assert_eq!(origins, [0, 1, 0, 2]);
        assert_eq!(t.origins[0].endpoints, [0, 2]);
        assert_eq!(
            (t.origins[2].host.as_str(), t.origins[2].port),
            ("127.0.0.1", 9)
        );
        assert_eq!(t.names.len(), 3);
        assert_eq!(t.endpoints[2].name, t.endpoints[0].name);
    }

    #[test]
    fn impossible_specifications_say_what_was_expected() {
        let broken = |change: &dyn Fn(&mut LoadSpec)| {
            let mut s = spec(&["http://a/"]);
            change(&mut s);
            Targets::new(&s).unwrap_err().to_string()
        };
        assert!(broken(&|s| s.endpoints.clear()).contains("at least one"));
        assert!(broken(&|s| s.threads = 0).contains("threads is 0, expected 1 to 256"));
        assert!(broken(&|s| s.endpoints[0].weight = 0).contains("weight is 0"));
        assert!(broken(&|s| s.shard.index = 1).contains("shard.index is 1, expected 0 to 0"));
        assert!(
            broken(&|s| s.mode = Mode::Open {
                rate_rps: f64::NAN,
                arrivals: Default::default()
            })
            .contains("rate_rps is NaN")
        );
        assert!(broken(&|s| s.endpoints[0].url = "ftp://a".into()).contains("http://"));
        assert!(broken(&|s| s.endpoints[0].body_base64 = Some("*".into())).contains("base64"));
        assert!(broken(&|s| s.schema_version = 9).contains("schema_version is 9"));
    }

    #[test]
    fn connections_are_spread_evenly() {
        let of = |c, o, os, t, ts| connections_of(c, o, os, t, ts);
        assert_eq!(of(50, 0, 1, 0, 1), 50);
        assert_eq!(
            [of(50, 0, 3, 0, 1), of(50, 1, 3, 0, 1), of(50, 2, 3, 0, 1)],
            [17, 17, 16]
        );
        assert_eq!([of(5, 0, 1, 0, 2), of(5, 0, 1, 1, 2)], [3, 2]);
        assert_eq!(of(1, 7, 1000, 3, 4), 1);
    }
}
