//! A node: one service of one instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use hyper::Response;
use hyper::body::Body;
use tare_plan::graph::{App, Service, ServiceProtocol};
use tare_records::calls::{CallWindow, ServiceCalls};
use tare_records::worker;
use tare_records::worker::WorkloadSpec;

use crate::app::{Emoji, Synthetic, Voting, Web};
use crate::calls::{Answering, Latencies, Timed, Window};
use crate::counters::Counters;
use crate::error::WorkloadError;
use crate::events::Events;
use crate::protocol::Upstream;

/// One service of one instance.
pub(crate) struct Node {
    pub(crate) service: String,
    pub(crate) protocol: ServiceProtocol,
    pub(crate) instance: String,
    pub(crate) application: Application,
    pub(crate) upstreams: BTreeMap<String, Upstream>,
    /// Each replica of a called service that has several addresses, as `emoji.1`, for the echo.
    pub(crate) replicas: BTreeMap<String, Upstream>,
    /// The address to listen on in the specification.
    pub(crate) listen: String,
    pub(crate) counters: Counters,
    pub(crate) window: Arc<Window>,
    /// The calls that it received in the window.
    pub(crate) incoming: Arc<Latencies>,
    /// Whether all services that the node calls are ready.
    pub(crate) ready: AtomicBool,
    /// Requests that were answered with 503 because they asked for it.
    pub(crate) unavailable: AtomicU64,
}

/// The application of a node.
pub(crate) enum Application {
    Web(Web),
    Emoji(Emoji),
    Voting(Voting),
    Synthetic(Synthetic),
}

impl Node {
    /// The node of `spec`. Needs a running runtime.
    ///
    /// # Errors
    /// An invalid specification.
    pub(crate) fn new(spec: &WorkloadSpec, events: &Events) -> Result<Self, WorkloadError> {
        if spec.schema_version != tare_plan::SCHEMA_VERSION {
            return Err(WorkloadError::SchemaVersion(spec.schema_version));
        }
        spec.graph.validate()?;
        let service = spec.graph.service(&spec.service);
        let service = service.ok_or_else(|| WorkloadError::NoService {
            found: spec.service.clone(),
            expected: names(spec.graph.services.iter().map(|s| s.name.as_str())),
        })?;
        if service.store.is_some() {
            return Err(WorkloadError::Store(service.name.clone()));
        }
        let window = Window::new();
        let (upstreams, replicas) = upstreams(spec, &window, events)?;
        let application = match service.app {
            None => {
                let seed = seed_of(spec);
                Application::Synthetic(Synthetic::new(service, &upstreams, seed)?)
            }
            Some(App::EmojivotoEmoji) => Application::Emoji(Emoji),
            Some(App::EmojivotoVoting) => Application::Voting(Voting::new(&spec.graph)),
            Some(App::EmojivotoWeb) => Application::Web(Web::new(spec, service, &upstreams)?),
        };
        Ok(Self {
            service: spec.service.clone(),
            protocol: service.protocol,
            instance: spec.instance.clone(),
            counters: Counters::new(counted(service, &application).into_iter()),
            application,
            upstreams,
            replicas,
            listen: spec.listen.clone(),
            window,
            incoming: Arc::default(),
            ready: AtomicBool::new(false),
            unavailable: AtomicU64::new(0),
        })
    }

    /// Counts a response to a request for `endpoint`. The result counts its latency as well, if it is
    /// successful and the request `started` in the window.
    pub(crate) fn answered<B: Body>(
        &self,
        endpoint: &str,
        ok: bool,
        started: Option<Instant>,
        response: Response<B>,
    ) -> Response<Timed<B>> {
        self.counters.count(endpoint, ok);
        let call = started.filter(|_| ok).map(|started| Answering {
            latencies: self.incoming.clone(),
            endpoint: endpoint.to_owned(),
            started,
        });
        response.map(|body| Timed::new(body, call))
    }

    /// Starts to time the calls of a window.
    ///
    /// # Errors
    /// When the window has already started.
    pub(crate) fn time_calls(&self, window: CallWindow) -> Result<(), &'static str> {
        self.window.announce(window)?;
        let outgoing = self.upstreams.values().map(Upstream::latencies);
        outgoing.chain([&*self.incoming]).for_each(Latencies::clear);
        Ok(())
    }

    /// The calls that were timed; `None` without a window.
    pub(crate) fn calls(&self) -> Option<ServiceCalls> {
        let outgoing = self.upstreams.iter();
        self.window.is_known().then(|| ServiceCalls {
            service: self.service.clone(),
            incoming: self.incoming.of(&self.service),
            outgoing: outgoing
                .flat_map(|(name, to)| to.latencies().of(name))
                .collect(),
        })
    }
}

fn counted<'a>(service: &'a Service, application: &Application) -> Vec<&'a str> {
    match application {
        Application::Web(_) => Web::ENDPOINTS.to_vec(),
        Application::Emoji(_) => Emoji::METHODS.to_vec(),
        Application::Voting(_) => Voting::METHODS.to_vec(),
        Application::Synthetic(_) => service.endpoints.iter().map(|e| e.path.as_str()).collect(),
    }
}

type Upstreams = BTreeMap<String, Upstream>;

/// The called services, and each replica of those that have several addresses.
fn upstreams(
    spec: &WorkloadSpec,
    window: &Arc<Window>,
    events: &Events,
) -> Result<(Upstreams, Upstreams), WorkloadError> {
    let (mut upstreams, mut replicas) = (BTreeMap::new(), BTreeMap::new());
    for name in spec.graph.callees(&spec.service) {
        let to = spec.upstreams.get(name);
        let to = to.ok_or_else(|| WorkloadError::NoUpstream(name.to_owned()))?;
        let callee = spec.graph.service(name);
        let callee = callee.ok_or_else(|| WorkloadError::NoUpstream(name.to_owned()))?;
        let upstream = |to: &worker::Upstream| {
            let upstream = Upstream::new(callee, to, spec.seed, window.clone(), events.clone());
            upstream.map_err(|_| WorkloadError::Authority(to.authority.clone()))
        };
        upstreams.insert(name.to_owned(), upstream(to)?);
        for (i, address) in to
            .addresses()
            .enumerate()
            .filter(|_| !to.further.is_empty())
        {
            let alone = worker::Upstream::new(address, &to.authority);
            replicas.insert(format!("{name}.{i}"), upstream(&alone)?);
        }
    }
    Ok((upstreams, replicas))
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// A seed that differs between servers with the same `spec.seed`: FNV-1a over instance and
/// service.
fn seed_of(spec: &WorkloadSpec) -> u64 {
    let identity = spec
        .instance
        .bytes()
        .chain([b'/'])
        .chain(spec.service.bytes());
    identity.fold(spec.seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
