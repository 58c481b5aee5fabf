//! The virtual service, and the records of the generator that loads it.

use std::collections::BTreeMap;

use tare_plan::load::{Arrivals, LoadSpec, Mode};
use tare_plan::mesh::{DataPlaneKind, Mtls};
use tare_plan::trial::TrialSpec;
use tare_records::load::{
    Counts, EndpointResult, GeneratorStats, LoadHistograms, LoadResult, Rate, Surplus,
};
use tare_records::record::{Hello, Interval, IntervalEndpoint, LoadRecord, Progress};
use tare_records::verdict::Verdict;
use tare_records::writer::RecordWriter;
use tare_stats::Histogram;
use tare_stats::rng::Rng;

use crate::{EPOCH_UNIX_NS, SECOND_NS, push};

/// Median latency of the virtual service: 1 ms, 2 ms behind proxies, 2.5 ms with mTLS.
pub(crate) fn median_ns(trial: &TrialSpec) -> f64 {
    match (trial.mesh.data_plane, trial.mesh.settings.mtls) {
        (DataPlaneKind::None, _) => 1e6,
        (_, Mtls::Off | Mtls::Permissive | Mtls::Server) => 2e6,
        (_, Mtls::Strict) => 2.5e6,
    }
}

/// Capacity of the virtual service in requests per second, in trials that search for it: 2,000, 1,200
/// behind proxies, 800 with mTLS. Above it, requests queue.
#[must_use]
pub fn capacity_rps(trial: &TrialSpec) -> f64 {
    match (trial.mesh.data_plane, trial.mesh.settings.mtls) {
        (DataPlaneKind::None, _) => 2_000.0,
        (_, Mtls::Off | Mtls::Permissive) => 1_200.0,
        (_, Mtls::Strict | Mtls::Server) => 800.0,
    }
}

/// The rate of a generator; in a closed loop, 1,000 rps.
pub(crate) fn rate_rps(spec: &LoadSpec) -> f64 {
    match spec.mode {
        Mode::Open { rate_rps, .. } => rate_rps,
        Mode::Saturate => 1000.0,
    }
}

/// Log-normal latencies with a random shift for each trial.
pub(crate) struct Service {
    rng: Rng,
    median_ns: f64,
    /// Infinite if requests never queue.
    capacity_rps: f64,
    /// When it can begin the next request, in nanoseconds since the start of the window.
    free_at_ns: f64,
}

impl Service {
    pub(crate) fn new(trial: &TrialSpec) -> Self {
        let mut rng = Rng::stream(trial.seed, u64::from(trial.index) + 1);
        let shift = 1.0 + 0.02 * (rng.next_f64() - 0.5);
        Self {
            rng,
            median_ns: median_ns(trial) * shift,
            capacity_rps: match trial.load.is_open() || trial.load.is_closed() {
                true => f64::INFINITY,
                false => capacity_rps(trial),
            },
            free_at_ns: 0.0,
        }
    }

    fn latency_ns(&mut self) -> u64 {
        // The sum of 12 uniform values is approximately normal.
        let normal = (0..12).map(|_| self.rng.next_f64()).sum::<f64>() - 6.0;
        (self.median_ns * (0.3 * normal).exp()) as u64
    }

    /// Latency of a request that arrives at this time, in the order of arrival; `None` if it would wait
    /// longer than the timeout, and is then never sent.
    fn respond_ns(&mut self, at_ns: f64, timeout_ns: u64) -> Option<u64> {
        let begin_ns = self.free_at_ns.max(at_ns);
        let latency_ns = (begin_ns - at_ns) as u64 + self.latency_ns();
        (latency_ns <= timeout_ns).then(|| {
            self.free_at_ns = begin_ns + 1e9 / self.capacity_rps;
            latency_ns
        })
    }
}

#[derive(Default)]
struct Second {
    counts: Counts,
    latency: Histogram,
    late: Histogram,
    zero: Histogram,
    endpoints: BTreeMap<String, (Counts, Histogram)>,
}

impl Second {
    fn ok(&mut self, name: &str, latency_ns: u64) {
        let one = Counts {
            planned: 1,
            ok: 1,
            ..Counts::default()
        };
        self.counts.add(&one);
        self.latency.record(latency_ns);
        self.late.record(3_000);
        self.zero.record(0);
        let (counts, latency) = self.endpoints.entry(name.to_owned()).or_default();
        counts.add(&one);
        latency.record(latency_ns);
    }

    fn timeout(&mut self, name: &str) {
        let one = Counts {
            planned: 1,
            timeout: 1,
            ..Counts::default()
        };
        self.counts.add(&one);
        let (counts, _) = self.endpoints.entry(name.to_owned()).or_default();
        counts.add(&one);
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.late.merge(&other.late);
        self.zero.merge(&other.zero);
        for (name, (counts, latency)) in &other.endpoints {
            let mine = self.endpoints.entry(name.clone()).or_default();
            mine.0.add(counts);
            mine.1.merge(latency);
        }
    }

    fn record(&self, second: u32) -> LoadRecord {
        LoadRecord::Interval(Interval {
            second,
            counts: self.counts,
            sent: self.counts.ok,
            latency: self.latency.to_wire(),
            service_time: self.latency.to_wire(),
            lateness: self.late.to_wire(),
            wait: self.zero.to_wire(),
            error_latency: None,
            stream_wait: None,
            message_latency: None,
            errors: BTreeMap::new(),
            endpoints: self
                .endpoints
                .iter()
                .map(|(name, (counts, latency))| IntervalEndpoint {
                    name: name.clone(),
                    counts: *counts,
                    latency: latency.to_wire(),
                    error_latency: BTreeMap::new(),
                })
                .collect(),
        })
    }
}

/// Returns the records of a generator whose service has this median latency.
#[must_use]
pub fn load_records(spec: &LoadSpec, median_ns: f64) -> Vec<String> {
    let rng = Rng::stream(spec.seed, 1);
    let capacity_rps = f64::INFINITY;
    let service = Service {
        rng,
        median_ns,
        capacity_rps,
        free_at_ns: 0.0,
    };
    load_lines(spec, service)
}

/// When requests are due, second by second, in nanoseconds since the start of the window.
fn instants_ns(spec: &LoadSpec, rate_rps: f64) -> Vec<Vec<f64>> {
    let Mode::Open {
        arrivals: Arrivals::Steps(steps),
        ..
    } = &spec.mode
    else {
        // A rate that is a number of slots over the window gives that number.
        let planned = (spec.duration_ns as f64 * rate_rps / 1e9 + 1e-6) as usize;
        let all: Vec<f64> = (0..planned).map(|n| n as f64 / rate_rps * 1e9).collect();
        let per_second = rate_rps.round().max(1.0) as usize;
        return all.chunks(per_second).map(<[f64]>::to_vec).collect();
    };
    // Steps of whole seconds.
    let rates = steps.iter().flat_map(|step| {
        let seconds = (step.duration_ns / SECOND_NS) as usize;
        std::iter::repeat_n(step.rate_rps, seconds)
    });
    let second = |(second, rate_rps): (usize, f64)| {
        let due = |n| (second as f64 + f64::from(n) / rate_rps) * 1e9;
        (0..rate_rps.round() as u32).map(due).collect()
    };
    rates.enumerate().map(second).collect()
}

pub(crate) fn load_lines(spec: &LoadSpec, mut service: Service) -> Vec<String> {
    let window_start_unix_ns = EPOCH_UNIX_NS + spec.warmup_ns;
    let mut out = RecordWriter::default();
    push(&mut out, &LoadRecord::Hello(Hello::new("load", 1)));
    push(
        &mut out,
        &LoadRecord::Armed {
            start_unix_ns: EPOCH_UNIX_NS,
            window_start_unix_ns,
            window_ns: spec.duration_ns,
        },
    );
    let mut total = Second::default();
    let rate_rps = match spec.mode {
        Mode::Open { .. } => rate_rps(spec),
        // Each connection waits for the response, and then pauses before its next request.
        Mode::Saturate => {
            f64::from(spec.connections) * 1e9 / (service.median_ns + spec.think_ns as f64)
        }
    };
    for (second, instants) in instants_ns(spec, rate_rps).iter().enumerate() {
        let mut interval = Second::default();
        for (slot, at_ns) in instants.iter().enumerate() {
            let endpoint = &spec.endpoints[slot % spec.endpoints.len()];
            match service.respond_ns(*at_ns, spec.timeout_ns) {
                Some(latency_ns) => interval.ok(&endpoint.name, latency_ns),
                None => interval.timeout(&endpoint.name),
            }
        }
        total.merge(&interval);
        push(
            &mut out,
            &LoadRecord::Progress(Progress {
                planned_rps: rate_rps,
                lateness_now_ns: 3_000,
                t_ns: ((second as u64 + 1) * SECOND_NS) as i64,
                rate_rps,
                p50_ns: (!total.latency.is_empty()).then(|| total.latency.quantile(0.5)),
                p99_ns: (!total.latency.is_empty()).then(|| total.latency.quantile(0.99)),
                errors: 0,
                lateness_p50_ns: Some(3_000),
            }),
        );
        push(&mut out, &interval.record(second as u32));
    }
    let result = result(spec, window_start_unix_ns, &total);
    out.finish_lines(|checksum| LoadRecord::Final {
        checksum,
        result: Box::new(result),
    })
}

fn result(spec: &LoadSpec, window_start_unix_ns: u64, total: &Second) -> LoadResult {
    let target = match spec.mode {
        Mode::Open { rate_rps, .. } => Some(rate_rps),
        Mode::Saturate => None,
    };
    let none = Histogram::new();
    LoadResult {
        tls: None,
        instrument_error: None,
        schema_version: tare_plan::SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").into(),
        shard: Some(spec.shard),
        mode: spec.mode.without_instants(),
        window_start_unix_ns,
        window_ns: spec.duration_ns,
        interrupted: false,
        counts: total.counts,
        rate: Rate {
            target,
            achieved: total.counts.ok as f64 * 1e9 / spec.duration_ns as f64,
        },
        latency_ns: total.latency.summary(),
        service_time_ns: total.latency.summary(),
        lateness_ns: total.late.summary(),
        wait_ns: total.zero.summary(),
        stream_wait_ns: None,
        message_latency_ns: None,
        error_latency_ns: none.summary(),
        status: BTreeMap::from([("200".to_owned(), total.counts.ok)]),
        grpc_status: BTreeMap::new(),
        refused: Vec::new(),
        errors: BTreeMap::new(),
        endpoints: total
            .endpoints
            .iter()
            .map(|(name, (counts, latency))| EndpointResult {
                name: name.clone(),
                counts: *counts,
                latency_ns: latency.summary(),
                errors: BTreeMap::new(),
                grpc_status: BTreeMap::new(),
                surplus: Surplus::default(),
                latency: latency.to_wire(),
                error_latency: BTreeMap::new(),
            })
            .collect(),
        generator: GeneratorStats {
            cpu_cores: 0.1,
            loop_utilisation: 0.1,
            connections_opened: u64::from(spec.connections),
            reconnects: 0,
            waiting_max: 0,
            bytes_sent: 0,
            bytes_received: 0,
            throttled_ns: None,
            awake: false,
            core_to_core_ns: Vec::new(),
            addresses: Default::default(),
        },
        verdict: Verdict::default(),
        histograms: LoadHistograms {
            latency: total.latency.to_wire(),
            service_time: total.latency.to_wire(),
            lateness: total.late.to_wire(),
            wait: total.zero.to_wire(),
            error_latency: none.to_wire(),
            stream_wait: None,
            message_latency: None,
        },
    }
}
