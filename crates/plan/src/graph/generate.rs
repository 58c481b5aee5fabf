//! Graphs that are generated from a seed, for studies of scaling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::service_graph::{ServiceGraph, ServiceProtocol};
use super::validate::BYTES_MAX;
use crate::source::Problem;
use tare_stats::rng::Rng;

/// Most services of a generated graph.
pub(crate) const SERVICES_MAX: u32 = 200;
/// Most requests that the services receive for one request of the load.
const REQUESTS_MAX: f64 = 1_000.0;
/// Largest CPU time of one request, in microseconds.
const CPU_US_MAX: u32 = 1_000_000;

/// What a generated graph is like. Equal settings give equal graphs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "the settings of a generated graph"
)]
pub struct Generate {
    /// Number of services, 1 to 200. Default: 10.
    pub services: u32,
    /// Services on the longest chain of calls, the entry included, 1 to `services`. Default: 5, or `services` if
    /// that is less.
    pub depth: Option<u32>,
    /// Most services that a service calls, 1 to 50. Default: 5.
    pub fan_out: u32,
    /// Most services that call a service, 1 to 50; with 1 the graph is a tree. Default: 2.
    pub fan_in: u32,
    /// Share of the services that make all of their calls at the same time, the others one after the other;
    /// 0 to 1. Default: 0.5.
    pub parallel: f64,
    /// Protocol of all services except the entry, which is HTTP. Default: http.
    pub protocol: ServiceProtocol,
    /// Size of a response, in bytes, drawn for each service. Default: median 1024, p99 16384.
    pub response_bytes: Spread,
    /// Size of the body of a call, in bytes, drawn for each call. Default: 0.
    pub request_bytes: Spread,
    /// CPU time of a request, in microseconds, drawn for each service. Default: 0.
    pub cpu_us: Spread,
    /// Seed of all random choices. Default: 1.
    pub seed: u64,
}

/// A log-normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "`median` and `p99`")]
pub struct Spread {
    /// Median.
    pub median: u32,
    /// 99th percentile, at least the median; if they are equal, all values are.
    pub p99: u32,
}

impl Default for Generate {
    fn default() -> Self {
        let zero = Spread { median: 0, p99: 0 };
        Self {
            services: 10,
            depth: None,
            fan_out: 5,
            fan_in: 2,
            parallel: 0.5,
            protocol: ServiceProtocol::Http,
            response_bytes: Spread {
                median: 1_024,
                p99: 16_384,
            },
            request_bytes: zero,
            cpu_us: zero,
            seed: 1,
        }
    }
}

impl Spread {
    /// Draws a value of at most `max`.
    fn draw(self, rng: &mut Rng, max: u32) -> u32 {
        if self.p99 == self.median {
            return self.median;
        }
        /// The 99th percentile of the standard normal distribution.
        const Z_99: f64 = 2.326_347_874_040_841;
        let sigma = (f64::from(self.p99) / f64::from(self.median)).ln() / Z_99;
        // Box and Muller: a radius and an angle.
        let radius = (2.0 * rng.exponential()).sqrt();
        let normal = radius * (std::f64::consts::TAU * rng.next_f64()).cos();
        let drawn = f64::from(self.median) * (sigma * normal).exp();
        drawn.round().min(f64::from(max)) as u32
    }
}

impl Generate {
    /// The default settings, with this number of services.
    pub(super) fn with_services(services: u32) -> Self {
        Self {
            services,
            ..Self::default()
        }
    }

    /// Generates the graph. Each service except the entry has a caller in the layer before its own; further
    /// callers are in any earlier layer.
    ///
    /// # Errors
    /// A setting that is outside its range, or settings that no graph meets: the setting, what was found, and what
    /// was expected.
    pub fn graph(&self) -> Result<ServiceGraph, Problem> {
        let depth = self.checked_depth()?;
        let mut rng = Rng::new(self.seed);
        let layers = self.layers(depth, &mut rng);
        let callers = self.callers(&layers, &mut rng);
        let graph = self.describe(depth, &callers, &mut rng);
        let graph: ServiceGraph =
            serde_json::from_value(graph).map_err(|e| Problem::of(e.to_string()))?;
        let requests = graph.requests_per_request("default").unwrap_or(f64::MAX);
        if requests > REQUESTS_MAX {
            let expected = format!("at most {REQUESTS_MAX}: decrease `fan_in` or `depth`");
            let found = format!("one request of the load leads to {requests} requests");
            return Err(Problem::new(found, expected));
        }
        Ok(graph)
    }

    fn checked_depth(&self) -> Result<u32, Problem> {
        let depth = self.depth.unwrap_or(5.min(self.services));
        let within = |name: &str, found: u32, min: u32, max: u32| match (min..=max).contains(&found)
        {
            true => Ok(()),
            false => Err(Problem::new(
                format!("`{name}`: found {found}"),
                format!("{min} to {max}"),
            )),
        };
        within("services", self.services, 1, SERVICES_MAX)?;
        within("depth", depth, 1, self.services)?;
        within("fan_out", self.fan_out, 1, 50)?;
        within("fan_in", self.fan_in, 1, 50)?;
        if !(0.0..=1.0).contains(&self.parallel) {
            let found = format!("`parallel`: found {}", self.parallel);
            return Err(Problem::new(found, "0 to 1"));
        }
        for (name, spread, max) in [
            ("response_bytes", self.response_bytes, BYTES_MAX),
            ("request_bytes", self.request_bytes, BYTES_MAX),
            ("cpu_us", self.cpu_us, CPU_US_MAX),
        ] {
            within(&format!("{name}.p99"), spread.p99, spread.median, max)?;
            if spread.median == 0 && spread.p99 > 0 {
                let found = format!("`{name}.median`: found 0");
                return Err(Problem::new(found, "at least 1, or 0 for `p99` as well"));
            }
        }
        // A full tree has fan_out services for each one of the layer before.
        let layers = (0..depth).map(|layer| u64::from(self.fan_out).saturating_pow(layer));
        let most = layers.fold(0, u64::saturating_add);
        if u64::from(self.services) > most {
            let found = format!("`services`: found {}", self.services);
            let fan_out = self.fan_out;
            let expected =
                format!("at most {most} for a depth of {depth} and a fan-out of {fan_out}");
            return Err(Problem::new(found, expected));
        }
        Ok(depth)
    }

    /// The layer of each service, in ascending order; the entry alone is in layer 0.
    fn layers(&self, depth: u32, rng: &mut Rng) -> Vec<usize> {
        // One in each layer makes the longest chain.
        let mut counts = vec![1_u32; depth as usize];
        for _ in depth..self.services {
            let has_room = |l: &usize| counts[*l] < self.fan_out * counts[*l - 1];
            let with_room: Vec<usize> = (1..counts.len()).filter(has_room).collect();
            counts[with_room[rng.below(with_room.len() as u64) as usize]] += 1;
        }
        let layers = counts.into_iter().enumerate();
        layers
            .flat_map(|(layer, n)| std::iter::repeat_n(layer, n as usize))
            .collect()
    }

    /// The callers of each service.
    fn callers(&self, layers: &[usize], rng: &mut Rng) -> Vec<Vec<usize>> {
        let mut calls = vec![0; layers.len()];
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); layers.len()];
        let mut add = |service: usize, rng: &mut Rng, is_good: &dyn Fn(usize) -> bool| {
            let free = |&i: &usize| {
                calls[i] < self.fan_out && !callers[service].contains(&i) && is_good(layers[i])
            };
            let free: Vec<usize> = (0..layers.len()).filter(free).collect();
            if !free.is_empty() {
                let caller = free[rng.below(free.len() as u64) as usize];
                calls[caller] += 1;
                callers[service].push(caller);
            }
        };
        // First all callers of the tree, so that each service has one.
        for (service, &layer) in layers.iter().enumerate().skip(1) {
            add(service, rng, &|other| other + 1 == layer);
        }
        for (service, &layer) in layers.iter().enumerate().skip(1) {
            for _ in 0..rng.below(u64::from(self.fan_in)) {
                add(service, rng, &|other| other < layer);
            }
        }
        callers
    }

    fn describe(&self, depth: u32, callers: &[Vec<usize>], rng: &mut Rng) -> Value {
        let path = |service: usize| match self.protocol {
            ServiceProtocol::Grpc if service > 0 => "Call",
            _ => "/",
        };
        let name = |service: usize| format!("s{}", service + 1);
        let services = (0..callers.len()).map(|service| {
            let called = (0..callers.len()).filter(|i| callers[*i].contains(&service));
            let calls = called.map(|to| {
                let bytes = self.request_bytes.draw(rng, BYTES_MAX);
                json!({"service": name(to), "path": path(to), "request_bytes": bytes})
            });
            let mut calls: Vec<Value> = calls.collect();
            if calls.len() > 1 && rng.next_f64() < self.parallel {
                calls = vec![json!({ "parallel": calls })];
            }
            let endpoint = json!({
                "path": path(service),
                "response_bytes": self.response_bytes.draw(rng, BYTES_MAX),
                "cpu_us": self.cpu_us.draw(rng, CPU_US_MAX),
                "calls": calls,
            });
            let protocol = match service {
                0 => ServiceProtocol::Http,
                _ => self.protocol,
            };
            json!({"name": name(service), "protocol": protocol, "endpoints": [endpoint]})
        });
        let services: Vec<Value> = services.collect();
        json!({
            "name": format!("generated-{}", self.services),
            "description": format!(
                "{} services, generated: depth {depth}, fan-out up to {}, fan-in up to {}, seed {}.",
                self.services, self.fan_out, self.fan_in, self.seed),
            "services": services,
            "mixes": [{"name": "default", "endpoints": [{"name": "entry", "service": "s1", "path": "/"}]}],
        })
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
