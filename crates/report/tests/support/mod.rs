//! A synthetic run directory: plausible, seeded, and labelled as synthetic wherever
//! a reader could take it for a measurement.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unused_imports,
    reason = "a test, in parts"
)]

mod agent;
mod analysed;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tare_plan::SCHEMA_VERSION;
use tare_plan::graph::{Mix, MixEndpoint, Service, ServiceGraph, ServiceProtocol};
use tare_plan::load::{Arrivals, Mode, Pace};
use tare_plan::mesh::{DataPlaneKind, Mesh, MeshSettings, Mtls};
use tare_plan::trial::{TrialSpec, order};
use tare_plan::{
    EnvironmentKind, Load, LoadKind, Margins, Pairing, Plan, Prices, SliceChoice, Workload,
};
use tare_records::layout;
use tare_records::layout::{Fingerprint, RunManifest};
use tare_records::load::InstrumentError;
use tare_records::load::{
    Counts, EndpointResult, GeneratorStats, LoadHistograms, LoadResult, Rate,
};
use tare_records::record::{Hello, Interval, IntervalEndpoint, LoadRecord, StreamChecksum};
use tare_records::trial::{
    MachineUse, MemoryKind, PlaneUse, ProcessUse, Proof, Resources, TrialResult,
};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;
use tare_stats::Histogram;
use tare_stats::rng::Rng;

use agent::agent;
pub(crate) use analysed::{analysed, legend, scale, trials};

const SECONDS: u32 = 10;
const MIB: f64 = 1_048_576.0;

/// A plan of `meshes` (name, title) at `rates`.
pub(crate) fn plan(meshes: &[(&str, &str)], rates: &[f64], blocks: u32) -> Plan {
    let mesh = |(name, title): &(&str, &str)| Mesh {
        name: (*name).to_owned(),
        title: (*title).to_owned(),
        data_plane: if name.starts_with("envoy") {
            DataPlaneKind::EnvoySidecar
        } else {
            DataPlaneKind::None
        },
        proxy: None,
        kubernetes: None,
        feature: None,
        settings: MeshSettings {
            mtls: if name.contains("mtls") {
                Mtls::Strict
            } else {
                Mtls::Off
            },
            ..MeshSettings::default()
        },
    };
    let service = |name: &str, protocol| Service {
        name: name.to_owned(),
        protocol,
        port: None,
        app: None,
        command: None,
        store: None,
        external: false,
        uses: Vec::new(),
        replicas: 1,
        concurrency: 0,
        endpoints: Vec::new(),
    };
    let endpoint = |name: &str| MixEndpoint {
        name: name.to_owned(),
        service: "web".to_owned(),
        path: format!("/api/{name}"),
        method: "GET".to_owned(),
        request_bytes: 0,
        weight: 1,
    };
    let load = |rate: &f64| Load {
        name: format!("{rate}rps"),
        kind: LoadKind::Open { rate_rps: *rate },
        connections: 16,
        threads: 1,
        arrivals: Arrivals::Constant,
        pace: Pace::Sleep,
        duration_ns: u64::from(SECONDS) * 1_000_000_000,
        warmup_ns: 2_000_000_000,
        timeout_ns: 5_000_000_000,
        requests_per_connection: None,
        streams: None,
        churn: None,
    };
    Plan {
        schema_version: SCHEMA_VERSION,
        name: "synthetic".to_owned(),
        description: "SYNTHETIC data from a seeded generator: no mesh was measured".to_owned(),
        prices: None,
        sweep: None,
        block_groups: Vec::new(),
        environment: EnvironmentKind::Fake,
        kubernetes: None,
        workload: Workload {
            graph: ServiceGraph {
                name: "emojivoto".to_owned(),
                description: String::new(),
                application: None,
                services: vec![
                    service("web", ServiceProtocol::Http),
                    service("emoji", ServiceProtocol::Grpc),
                    service("voting", ServiceProtocol::Grpc),
                ],
                mixes: vec![Mix {
                    name: "default".to_owned(),
                    endpoints: vec![endpoint("list"), endpoint("vote")],
                }],
            },
            instances: 2,
            mix: "default".to_owned(),
        },
        meshes: meshes.iter().map(mesh).collect(),
        baseline: meshes[0].0.to_owned(),
        loads: rates.iter().map(load).collect(),
        repeats: blocks,
        until: None,
        pairing: Pairing::Turns,
        slice: SliceChoice::default(),
        gate: None,
        reruns: 0,
        margins: Margins::default(),
        seed: 42,
    }
}

/// A plan like the built-in plan `quick`.
pub(crate) fn quick() -> Plan {
    plan(
        &[
            ("bare", "No mesh"),
            ("envoy", "Envoy sidecars"),
            ("envoy/mtls", "Envoy with mTLS"),
        ],
        &[200.0, 400.0],
        3,
    )
}

pub(crate) fn manifest(plan: &Plan) -> RunManifest {
    RunManifest {
        profile: false,
        notes: Vec::new(),
        schema_version: SCHEMA_VERSION,
        id: "20260101-120000-synthetic".to_owned(),
        tare_version: "0.0.0-synthetic".to_owned(),
        tare_build: "release".to_owned(),
        started_unix_ns: 1_767_268_800_000_000_000,
        plan: plan.clone(),
        command: vec![
            "tare".to_owned(),
            "run".to_owned(),
            "synthetic.yaml".to_owned(),
        ],
        fingerprint: Fingerprint {
            kernel: "Linux 0.0 (synthetic)".to_owned(),
            cpu_model: "Synthetic Processor".to_owned(),
            cores: 4,
            memory_bytes: 16 << 30,
            clocksource: "tsc".to_owned(),
            governor: None,
            idle: None,
            virtualised: None,
            hardware_counters: None,
            programs: BTreeMap::from([("envoy".to_owned(), "0.0 (synthetic)".to_owned())]),
            load_average_centi: 12,
        },
    }
}

fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * rng.exponential()).sqrt();
    radius * (std::f64::consts::TAU * rng.next_f64()).cos()
}

/// Cost of the proxies of a mesh, relative to plain Envoy sidecars.
fn weight(mesh: &str) -> f64 {
    match mesh {
        "envoy" | "reference" | "candidate" | "reference-again" => 1.0,
        "envoy/mtls" => 1.35,
        _ => 0.0,
    }
}

/// One trial's stream and result, with the endpoints of [`plan`].
pub(crate) fn trial(spec: &TrialSpec) -> (String, TrialResult) {
    trial_of(spec, &["list", "vote"].map(str::to_owned))
}

/// One trial's stream and result, with requests to `endpoints` in turn.
fn trial_of(spec: &TrialSpec, endpoints: &[String]) -> (String, TrialResult) {
    let mut rng = Rng::stream(spec.seed, u64::from(spec.index));
    let heavy = weight(&spec.mesh.name);
    let shift = 0.03 * normal(&mut rng);
    let mut seconds = Vec::new();
    for second in 0..SECONDS {
        seconds.push(interval(
            second,
            spec.load.rate_rps().unwrap_or(0.0) as u64,
            (heavy, shift),
            endpoints,
            &mut rng,
        ));
    }
    let verdict = Verdict::default();
    let load = load_result(spec, &seconds, verdict.clone());
    let resources = resources(spec, heavy, &mut rng);
    let result = TrialResult {
        schema_version: SCHEMA_VERSION,
        trial: spec.clone(),
        started_unix_ns: 0,
        ended_unix_ns: 1,
        load: Some(load.clone()),
        capacity: None,
        overload: None,
        churn: None,
        resources: Some(resources),
        idle: None,
        slices: None,
        terms: BTreeMap::new(),
        proofs: Vec::new(),
        verdict,
    };
    (stream(seconds, load), result)
}

fn interval(
    second: u32,
    n: u64,
    (heavy, shift): (f64, f64),
    endpoints: &[String],
    rng: &mut Rng,
) -> Interval {
    let mut all = vec![Vec::new(); endpoints.len()];
    for i in 0..n {
        let base = 450_000.0 * (0.28 * normal(rng)).exp();
        let proxies = heavy * 620_000.0 * (0.32 * normal(rng)).exp();
        let stall = if rng.next_f64() < 0.004 {
            4_000_000.0 * rng.exponential()
        } else {
            0.0
        };
        all[i as usize % endpoints.len()].push(((base + proxies + stall) * shift.exp()) as u64);
    }
    let of = |values: &[u64]| {
        let mut h = Histogram::new();
        values.iter().for_each(|v| h.record(*v));
        h
    };
    let latency = of(&all.concat());
    let late: Vec<u64> = (0..n)
        .map(|_| (9_000.0 * (0.5 * normal(rng)).exp()) as u64)
        .collect();
    let counts = |n: u64| Counts {
        planned: n,
        ok: n,
        ..Counts::default()
    };
    Interval {
        second,
        counts: counts(n),
        sent: n,
        latency: latency.to_wire(),
        service_time: latency.to_wire(),
        lateness: of(&late).to_wire(),
        wait: of(&vec![0; n as usize]).to_wire(),
        error_latency: None,
        stream_wait: None,
        message_latency: None,
        errors: BTreeMap::new(),
        endpoints: endpoints
            .iter()
            .zip(&all)
            .map(|(name, values)| IntervalEndpoint {
                name: name.clone(),
                counts: counts(values.len() as u64),
                latency: of(values).to_wire(),
                error_latency: BTreeMap::new(),
            })
            .collect(),
    }
}

fn sum<'a>(wires: impl Iterator<Item = &'a tare_stats::wire::HistogramWire>) -> Histogram {
    let mut all = Histogram::new();
    wires.for_each(|w| all.merge(&Histogram::from_wire(w).unwrap()));
    all
}

fn load_result(spec: &TrialSpec, seconds: &[Interval], verdict: Verdict) -> LoadResult {
    let mut counts = Counts::default();
    seconds.iter().for_each(|s| counts.add(&s.counts));
    let latency = sum(seconds.iter().map(|s| &s.latency));
    let service_time = sum(seconds.iter().map(|s| &s.service_time));
    let lateness = sum(seconds.iter().map(|s| &s.lateness));
    let wait = sum(seconds.iter().map(|s| &s.wait));
    let endpoints = (0..seconds[0].endpoints.len()).map(|i| {
        let mut counts = Counts::default();
        seconds
            .iter()
            .for_each(|s| counts.add(&s.endpoints[i].counts));
        let latency = sum(seconds.iter().map(|s| &s.endpoints[i].latency));
        EndpointResult {
            name: seconds[0].endpoints[i].name.clone(),
            counts,
            latency_ns: latency.summary(),
            errors: BTreeMap::new(),
            grpc_status: BTreeMap::new(),
            surplus: Default::default(),
            latency: latency.to_wire(),
            error_latency: BTreeMap::new(),
        }
    });
    LoadResult {
        tls: None,
        instrument_error: Some(instrument_error(&lateness)),
        schema_version: SCHEMA_VERSION,
        tare_version: "0.0.0-synthetic".to_owned(),
        mode: Mode::Open {
            rate_rps: spec.load.rate_rps().unwrap_or(0.0),
            arrivals: spec.load.arrivals.clone(),
        },
        shard: None,
        window_start_unix_ns: 0,
        window_ns: spec.load.duration_ns,
        interrupted: false,
        counts,
        rate: Rate {
            target: Some(spec.load.rate_rps().unwrap_or(0.0)),
            achieved: counts.planned as f64 / f64::from(SECONDS),
        },
        latency_ns: latency.summary(),
        service_time_ns: service_time.summary(),
        lateness_ns: lateness.summary(),
        wait_ns: wait.summary(),
        stream_wait_ns: None,
        message_latency_ns: None,
        error_latency_ns: Histogram::new().summary(),
        status: BTreeMap::from([("200".to_owned(), counts.ok)]),
        grpc_status: BTreeMap::new(),
        refused: Vec::new(),
        errors: BTreeMap::new(),
        endpoints: endpoints.collect(),
        generator: GeneratorStats {
            cpu_cores: 0.05,
            loop_utilisation: 0.05,
            connections_opened: 16,
            reconnects: 0,
            waiting_max: 0,
            bytes_sent: 1,
            bytes_received: 1,
            throttled_ns: None,
            awake: false,
            core_to_core_ns: Vec::new(),
            addresses: Default::default(),
        },
        verdict,
        histograms: LoadHistograms {
            latency: latency.to_wire(),
            service_time: service_time.to_wire(),
            lateness: lateness.to_wire(),
            wait: wait.to_wire(),
            error_latency: Histogram::new().to_wire(),
            stream_wait: None,
            message_latency: None,
        },
    }
}

/// As if the kernel had timestamped all requests, and lost the timestamps of 5 more.
fn instrument_error(lateness: &Histogram) -> InstrumentError {
    let mut added = Histogram::new();
    (0..lateness.len()).for_each(|i| added.record(4_000 + 40 * (i % 100)));
    InstrumentError {
        every: 1,
        sampled: lateness.len(),
        missed: 5,
        absent: None,
        send_ns: lateness.summary(),
        service_time_ns: added.summary(),
        below_zero: 2,
        clock_uncertainty_ns_max: 300,
        send: lateness.to_wire(),
        service_time: added.to_wire(),
    }
}

fn stream(seconds: Vec<Interval>, result: LoadResult) -> String {
    let mut checksum = StreamChecksum::default();
    let mut text = String::new();
    let hello = LoadRecord::Hello(Hello {
        schema_version: SCHEMA_VERSION,
        role: "load".to_owned(),
        tare_version: "0.0.0-synthetic".to_owned(),
        pid: 1,
    });
    for record in std::iter::once(hello).chain(seconds.into_iter().map(LoadRecord::Interval)) {
        let line = serde_json::to_string(&record).unwrap();
        checksum.line(&line);
        text.push_str(&line);
        text.push('\n');
    }
    let last = LoadRecord::Final {
        checksum: checksum.hex(),
        result: Box::new(result),
    };
    text.push_str(&serde_json::to_string(&last).unwrap());
    text.push('\n');
    text
}

fn resources(spec: &TrialSpec, heavy: f64, rng: &mut Rng) -> Resources {
    let krps = spec.load.rate_rps().unwrap_or(0.0) / 1000.0;
    let mut noisy = |x: f64, share: f64| x * (1.0 + share * normal(rng));
    let mut uses = vec![
        (
            Plane::Application,
            6,
            noisy(1.1 * krps, 0.03),
            noisy(41.0 * MIB, 0.01),
        ),
        (
            Plane::Generator,
            1,
            noisy(0.16 * krps, 0.05),
            noisy(9.0 * MIB, 0.01),
        ),
    ];
    if heavy > 0.0 {
        uses.push((
            Plane::DataPlane,
            6,
            noisy(1.7 * krps * heavy, 0.03),
            noisy(168.0 * MIB, 0.01),
        ));
        uses.push((
            Plane::GeneratorProxy,
            1,
            noisy(0.3 * krps * heavy, 0.03),
            noisy(29.0 * MIB, 0.01),
        ));
    }
    let busy = uses.iter().map(|u| u.2).sum::<f64>() + 0.04;
    let processes = uses.iter().map(|(plane, _, cpu, memory)| ProcessUse {
        name: format!("synthetic/{}", plane.words()),
        plane: *plane,
        cpu_cores: *cpu,
        cpu_cores_max: cpu * 1.2,
        run_queue_delay_ns: Some((0.02 * cpu * spec.load.duration_ns as f64) as u64),
        counters: None,
        memory_mean_bytes: *memory,
        memory_max_bytes: (memory * 1.02) as u64,
        memory_kind: MemoryKind::Pss,
        rss_mean_bytes: Some(memory * 1.6),
        throttled_ns: None,
        gone_at_ns: None,
    });
    Resources {
        window_ns: spec.load.duration_ns,
        processes: processes.collect(),
        planes: uses
            .iter()
            .map(|(plane, processes, cpu, memory)| {
                let plane_use = PlaneUse {
                    processes: *processes,
                    cpu_cores: *cpu,
                    cpu_cores_max: cpu * 1.2,
                    memory_mean_bytes: *memory,
                    memory_max_bytes: (memory * 1.02) as u64,
                    rss_mean_bytes: Some(memory * 1.6),
                    ..PlaneUse::default()
                };
                (*plane, plane_use)
            })
            .collect(),
        machine: MachineUse {
            cores: 4,
            cores_allowed: 4,
            busy_cores: busy,
            busy_cores_max: busy * 1.2,
            other_cores: 0.04,
            ..MachineUse::default()
        },
        sampling_cores: 0.004,
        kubelet_age_ns_max: None,
        whole_window_cores: None,
    }
}

/// Writes the whole run; `change` may alter each result before it is written.
pub(crate) fn write_run(dir: &Path, plan: &Plan, mut change: impl FnMut(&mut TrialResult)) {
    std::fs::create_dir_all(dir.join(layout::TRIALS)).unwrap();
    write_json(&dir.join(layout::RUN), &manifest(plan));
    let words = "# SYNTHETIC: <b>no plan</b> was ever written\n";
    std::fs::write(dir.join(layout::PLAN), words).unwrap();
    let mix = &plan.workload.graph.mixes[0].endpoints;
    let endpoints: Vec<String> = mix.iter().map(|e| e.name.clone()).collect();
    for spec in order(plan) {
        let (stream, mut result) = trial_of(&spec, &endpoints);
        change(&mut result);
        let trial = dir.join(layout::TRIALS).join(spec.dir_name());
        std::fs::create_dir_all(&trial).unwrap();
        std::fs::write(trial.join(layout::LOAD), stream).unwrap();
        std::fs::write(trial.join(layout::AGENT), agent(&result)).unwrap();
        write_json(&trial.join(layout::RESULT), &result);
    }
}

pub(crate) fn write_json(path: &Path, document: &impl serde::Serialize) {
    std::fs::write(path, serde_json::to_string(document).unwrap()).unwrap();
}

/// Makes trial 4 suspect and trial 9 invalid.
pub(crate) fn with_doubts(result: &mut TrialResult) {
    match result.trial.index {
        4 => {
            result.verdict = Verdict::from_findings(vec![Finding::new(
                Grade::Suspect,
                Reason::NoisyNeighbour,
                "other processes used 0.31 of 4 cores",
            )]);
        }
        9 => {
            result.verdict = Verdict::from_findings(vec![Finding::new(
                Grade::Invalid,
                Reason::Lateness,
                "lateness of 2.10 ms at p99, latency of 3.20 ms",
            )]);
            result.proofs.push(Proof {
                claim: "plaintext to an inbound port is refused".to_owned(),
                holds: false,
                seen: "HTTP 200".to_owned(),
            });
        }
        _ => {}
    }
}

/// Text that would run a script if a page treated it as markup.
pub(crate) const EVIL: &str = "</script><img src=x onerror=alert(1)>\x1b[2J'\"";

/// Puts [`EVIL`] into every text of a plan except names of meshes and loads, and adds prices.
pub(crate) fn make_hostile(plan: &mut Plan) {
    plan.meshes[1].title = EVIL.to_owned();
    plan.description = EVIL.to_owned();
    plan.workload.graph.name = EVIL.to_owned();
    plan.prices = Some(Prices {
        core_hour: 0.04,
        gib_hour: 0.005,
        currency: EVIL.to_owned(),
        rps: None,
        proxies: None,
    });
}

/// A document with numbers of eight significant digits, as pages embed it.
pub(crate) fn rounded(json: Value) -> Value {
    match json {
        Value::Object(map) => map.into_iter().map(|(k, v)| (k, rounded(v))).collect(),
        Value::Array(list) => list.into_iter().map(rounded).collect(),
        Value::Number(n) if n.is_f64() => {
            let text = format!("{:.7e}", n.as_f64().unwrap());
            text.parse::<f64>().unwrap().into()
        }
        other => other,
    }
}

/// Reads the data that a page embeds under this id.
pub(crate) fn embedded<T: serde::de::DeserializeOwned>(page: &str, id: &str) -> T {
    use base64::Engine as _;
    let opening = format!("id=\"{id}\">");
    let start = page.find(&opening).unwrap() + opening.len();
    let text = &page[start..start + page[start..].find("</script>").unwrap()];
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap();
    serde_json::from_reader(flate2::read::ZlibDecoder::new(&bytes[..])).unwrap()
}
