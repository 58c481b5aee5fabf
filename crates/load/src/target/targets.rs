//! Prepares a specification's endpoints for the loop, without I/O: encodes requests, groups
//! endpoints by origin, and turns weights into an order.

use std::collections::HashMap;
use std::sync::Arc;

use tare_plan::load::{Endpoint, LoadSpec};
use tare_stats::rng::Rng;

use crate::http1::asks_to_close;
use crate::http2::Request;

use super::encode::{Encoded, encode};
use super::shuffle::WeightedShuffle;
use super::spec::{SpecError, check};
use super::url::{HttpUrl, UrlError, host_port};

/// The endpoints of a load, prepared for the loop.
#[derive(Debug, Clone)]
pub struct Targets {
    /// In the order of the specification.
    pub(crate) endpoints: Vec<EncodedEndpoint>,
    /// Names in the order of first appearance.
    pub(crate) names: Vec<String>,
    /// The hosts and ports to connect to.
    pub origins: Vec<Origin>,
    /// Maps the index of a slot to its endpoint.
    pub(crate) shuffle: WeightedShuffle,
    /// The requests of HTTP/2 endpoints; see [`EncodedEndpoint::stream_request`].
    pub(crate) requests: Arc<[Request]>,
}

/// An endpoint with its encoded request.
#[derive(Debug, Clone)]
pub(crate) struct EncodedEndpoint {
    /// The complete HTTP/1.1 request; empty with HTTP/2.
    pub(crate) request: Vec<u8>,
    /// With HTTP/2, index into [`Targets::requests`].
    pub(crate) stream_request: u32,
    /// Whether the method is HEAD: the response has no body, even if its headers announce one.
    pub(crate) head_request: bool,
    /// Whether the request asks the server to close its connection after the response.
    pub(crate) closes: bool,
    /// Index into [`Targets::names`].
    pub(crate) name: u32,
    /// Index into [`Targets::origins`].
    pub(crate) origin: u32,
}

/// A host and port to connect to, and the endpoints that are requested there. Each authority
/// of the URLs has its own origin.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Whether its protocol is HTTP/2. HTTP/1.1 and HTTP/2 do not share connections.
    pub(crate) multiplexed: bool,
    /// Host to resolve.
    pub(crate) host: String,
    /// Port.
    pub port: u16,
    /// Whether to use TLS.
    pub(crate) tls: bool,
    /// Host of the URLs, which the server's certificate must name.
    pub(crate) server_name: String,
    /// The order of its endpoints in a closed loop; yields indices into `endpoints`.
    pub(crate) shuffle: WeightedShuffle,
    /// Indices into [`Targets::endpoints`].
    pub(crate) endpoints: Vec<u32>,
}

impl Targets {
    /// Validates a specification and prepares its endpoints.
    ///
    /// # Errors
    /// The first [`SpecError`].
    pub fn new(spec: &LoadSpec) -> Result<Self, SpecError> {
        check(spec)?;
        let mut targets = Vec::with_capacity(spec.endpoints.len());
        let mut names: Vec<String> = Vec::new();
        let mut name_index: HashMap<&str, u32> = HashMap::new();
        let mut requests = Vec::new();
        let mut groups: Vec<(OriginKey, Vec<u32>)> = Vec::new();
        let mut group_index: HashMap<OriginKey, u32> = HashMap::new();
        for (i, endpoint) in spec.endpoints.iter().enumerate() {
            let url = parse_url(endpoint)?;
            let address = endpoint.connect.as_deref().unwrap_or(&url.address);
            let (host, port) = host_port(address, url.default_port())
                .map_err(|source| url_error(endpoint, source))?;
            let name = *name_index.entry(&endpoint.name).or_insert_with(|| {
                names.push(endpoint.name.clone());
                names.len() as u32 - 1
            });
            let key = OriginKey {
                multiplexed: !endpoint.protocol.is_http1(),
                tls: url.tls,
                authority: url.authority.clone(),
                host,
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
            targets.push(EncodedEndpoint {
                request,
                stream_request,
                head_request: endpoint.method == "HEAD",
                closes: asks_to_close(&endpoint.headers),
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
            shuffle: WeightedShuffle::new(&weights, spec.seed)?,
            requests: requests.into(),
        })
    }
}

/// What endpoints must have in common to share connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OriginKey {
    multiplexed: bool,
    tls: bool,
    authority: String,
    host: String,
    port: u16,
}

fn origin(
    (key, endpoints): (OriginKey, Vec<u32>),
    weights: &[u32],
    seed: u64,
    index: u64,
) -> Result<Origin, SpecError> {
    let own: Vec<u32> = endpoints.iter().map(|&e| weights[e as usize]).collect();
    let seed = Rng::stream(seed, index + 1).next_u64();
    let server_name =
        host_port(&key.authority, key.port).map_or_else(|_| key.host.clone(), |(host, _)| host);
    Ok(Origin {
        multiplexed: key.multiplexed,
        host: key.host,
        port: key.port,
        tls: key.tls,
        server_name,
        shuffle: WeightedShuffle::new(&own, seed)?,
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

/// The number of connections from thread `thread` of `threads` to origin `origin` of
/// `origins` when `connections` are spread evenly. At least one, since each thread has slots
/// for each origin.
pub(crate) fn connections_of(
    connections: u32,
    origin: u32,
    origins: u32,
    thread: u32,
    threads: u32,
) -> u32 {
    let share = |whole: u32, part: u32, parts: u32| whole / parts + u32::from(part < whole % parts);
    let of_origin = share(connections, origin, origins).max(1);
    // Rotated by the origin, so that the remainders do not all go to the first thread.
    let rotated = (thread + origin) % threads;
    share(of_origin, rotated, threads).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::support::spec;

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
