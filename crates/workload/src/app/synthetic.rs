//! Synthetic endpoints, whose response size, work, calls and errors come from the graph.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use hyper::Method;
use hyper::body::Bytes;
use hyper::http::uri::PathAndQuery;
use tare_plan::graph::{Call, Service, ServiceEndpoint};
use tare_stats::rng::Rng;

use crate::error::WorkloadError;
use crate::protocol::grpc::{Payload, synthetic_path};
use crate::protocol::{Failure, Upstream};
use crate::queue::Queue;
use crate::timer::Timer;

use super::cpu::CpuWork;

/// The endpoints of one service.
pub(crate) struct Synthetic {
    endpoints: HashMap<String, Endpoint>,
    cpu: Option<CpuWork>,
    timer: Option<Arc<Timer>>,
    queue: Queue,
}

/// One endpoint with its parts prepared.
pub(crate) struct Endpoint {
    body: Bytes,
    cpu_ns: u64,
    delay_ns: u64,
    error_rate: f64,
    errors: Mutex<Rng>,
    steps: Vec<Vec<PreparedCall>>,
}

/// A call with its constant parts prepared.
struct PreparedCall {
    upstream: Upstream,
    path: PathAndQuery,
    body: Bytes,
    times: u32,
    share: f64,
    draws: Mutex<Rng>,
}

impl Synthetic {
    /// The endpoints of `service`. Needs a running runtime when an endpoint has a delay. `seed`
    /// belongs to this service of this instance; each endpoint and call has its own random
    /// stream.
    ///
    /// # Errors
    /// A call to a service without an upstream, or a timer that the kernel refuses.
    pub(crate) fn new(
        service: &Service,
        upstreams: &BTreeMap<String, Upstream>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let mut streams = 0..;
        let mut rng = || Mutex::new(Rng::stream(seed, streams.next().unwrap_or(0)));
        let mut endpoints = HashMap::new();
        for e in &service.endpoints {
            let prepared = Endpoint::new(e, upstreams, &mut rng)?;
            endpoints.insert(e.path.clone(), prepared);
        }
        let uses_cpu = service.endpoints.iter().any(|e| e.cpu_us > 0);
        let sleeps = service.endpoints.iter().any(|e| e.delay_us > 0);
        Ok(Self {
            endpoints,
            cpu: uses_cpu.then(CpuWork::calibrate),
            timer: sleeps
                .then(Timer::start)
                .transpose()
                .map_err(WorkloadError::Timer)?,
            queue: Queue::new(service.concurrency),
        })
    }

    /// The endpoint with this path or method.
    pub(crate) fn find(&self, path: &str) -> Option<(&str, &Endpoint)> {
        let found = self.endpoints.get_key_value(path);
        found.map(|(path, endpoint)| (path.as_str(), endpoint))
    }

    /// Does the work of the endpoint; returns the body of its response.
    pub(crate) async fn answer(&self, endpoint: &Endpoint) -> Result<Bytes, Failure> {
        if happens(endpoint.error_rate, &endpoint.errors) {
            return Err(Failure::Injected);
        }
        if let (Some(cpu), 1..) = (self.cpu, endpoint.cpu_ns) {
            cpu.spend(endpoint.cpu_ns);
        }
        if let (Some(timer), 1..) = (&self.timer, endpoint.delay_ns) {
            timer.serve(&self.queue, endpoint.delay_ns).await;
        }
        for step in &endpoint.steps {
            // Waits for all calls of a step even when one has failed, because dropping the
            // others would close their connections.
            match step.as_slice() {
                [only] => only.call().await?,
                several => {
                    let results = join_all(several.iter().map(PreparedCall::call)).await;
                    results.into_iter().collect::<Result<(), _>>()?;
                }
            }
        }
        Ok(endpoint.body.clone())
    }
}

impl Endpoint {
    fn new(
        e: &ServiceEndpoint,
        upstreams: &BTreeMap<String, Upstream>,
        rng: &mut impl FnMut() -> Mutex<Rng>,
    ) -> Result<Self, WorkloadError> {
        let errors = rng();
        let mut steps = Vec::new();
        for step in &e.calls {
            let calls = step
                .parallel
                .iter()
                .map(|c| PreparedCall::new(c, upstreams, rng()));
            steps.push(calls.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            body: filler(e.response_bytes),
            cpu_ns: u64::from(e.cpu_us) * 1000,
            delay_ns: u64::from(e.delay_us) * 1000,
            error_rate: e.error_rate,
            errors,
            steps,
        })
    }
}

impl PreparedCall {
    fn new(
        call: &Call,
        upstreams: &BTreeMap<String, Upstream>,
        draws: Mutex<Rng>,
    ) -> Result<Self, WorkloadError> {
        let upstream = upstreams.get(&call.service);
        let upstream = upstream.ok_or_else(|| WorkloadError::NoUpstream(call.service.clone()))?;
        let path = match upstream {
            Upstream::Http(_) | Upstream::Store(_) => call.path.parse(),
            Upstream::Grpc(_) => synthetic_path(&call.path),
        };
        Ok(Self {
            upstream: upstream.clone(),
            path: path.map_err(|_| WorkloadError::Path(call.path.clone()))?,
            body: filler(call.request_bytes),
            times: call.times,
            share: call.share,
            draws,
        })
    }

    async fn call(&self) -> Result<(), Failure> {
        if !happens(self.share, &self.draws) {
            return Ok(());
        }
        for _ in 0..self.times {
            let (path, body) = (self.path.clone(), self.body.clone());
            match &self.upstream {
                Upstream::Http(http) => {
                    let method = if body.is_empty() {
                        Method::GET
                    } else {
                        Method::POST
                    };
                    http.fetch(method, path, body).await?;
                }
                Upstream::Grpc(grpc) => {
                    grpc.unary::<_, Payload>(path, Payload { body }).await?;
                }
                Upstream::Store(store) => store.call(path.path(), &body).await?,
            }
        }
        Ok(())
    }
}

/// Whether a case with the probability `share` happens. Draws no random number for 0 and 1.
fn happens(share: f64, rng: &Mutex<Rng>) -> bool {
    if share <= 0.0 || share >= 1.0 {
        return share >= 1.0;
    }
    rng.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .next_f64()
        < share
}

/// `bytes` bytes of text.
fn filler(bytes: u32) -> Bytes {
    let pattern = b"the weight of the packaging, to be taken off. ";
    pattern
        .iter()
        .copied()
        .cycle()
        .take(bytes as usize)
        .collect()
}
