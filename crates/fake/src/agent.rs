//! The records of the agent in virtual time.

use tare_plan::mesh::Mtls;
use tare_records::record::{AgentRecord, Hello, MachineSample, ProcessSample, ResourceSample};
use tare_records::worker::{AgentSpec, Plane, WatchedProcess};
use tare_records::writer::RecordWriter;
use tare_stats::rng::Rng;

use super::{FakeDeployment, IDLE_CORES, push};

pub(super) fn agent_lines(
    deployment: &FakeDeployment,
    spec: &AgentSpec,
    others: &dyn Fn(u64) -> f64,
) -> Vec<String> {
    let trial = &deployment.trial;
    // The virtual data plane uses 0.1 cores per 1,000 rps and process, 0.15 with mTLS.
    let mtls = trial.mesh.settings.mtls == Mtls::Strict;
    let per_rps = if mtls { 0.15e-3 } else { 0.1e-3 };
    let mut rng = Rng::stream(trial.seed, u64::from(trial.index) + 99);
    let cores = IDLE_CORES + deployment.rate_rps * per_rps * (1.0 + 0.02 * (rng.next_f64() - 0.5));
    records(spec, cores, others)
}

/// Returns the records of an agent whose data-plane processes use `cores` each, on a machine on which
/// processes outside the trial use `others`.
#[must_use]
pub fn agent_records(spec: &AgentSpec, cores: f64, others: f64) -> Vec<String> {
    records(spec, cores, &|t_ns| t_ns as f64 * others)
}

/// The same; `others` is the CPU that processes outside the trial have used at an instant, in nanoseconds.
pub(super) fn records(spec: &AgentSpec, cores: f64, others: &dyn Fn(u64) -> f64) -> Vec<String> {
    let mut out = RecordWriter::default();
    push(&mut out, &AgentRecord::Hello(Hello::new("agent", 1)));
    for t_ns in spec.sample_instants_ns() {
        let t_ns = t_ns.unsigned_abs();
        let process = |w: &WatchedProcess| {
            let cores = if w.plane == Plane::DataPlane {
                cores
            } else {
                0.05
            };
            Some(ProcessSample {
                t_ns: t_ns as i64,
                cpu_ns: (t_ns as f64 * cores) as u64,
                run_queue_delay_ns: None,
                counters: None,
                rss_bytes: Some(30 << 20),
                throttled_ns: None,
                pss_bytes: Some(20 << 20),
                working_set_bytes: None,
            })
        };
        let samples: Vec<_> = spec.processes.iter().map(process).collect();
        push(
            &mut out,
            &AgentRecord::Sample(ResourceSample {
                application_nodes: None,
                t_ns: t_ns as i64,
                processes: samples.clone(),
                machine: MachineSample {
                    cpus: 2,
                    idle_ns: (2 * t_ns)
                        .saturating_sub(samples.iter().flatten().map(|p| p.cpu_ns).sum::<u64>())
                        .saturating_sub(others(t_ns) as u64),
                    stolen_ns: 0,
                    interrupt_ns: None,
                    pressure_ns: None,
                    memory_available_bytes: 1 << 30,
                },
                throttled_ns: None,
            }),
        );
    }
    out.finish_lines(|checksum| AgentRecord::Final {
        checksum,
        own_cpu_ns: spec.window_ns / 1000,
        elapsed_ns: spec.window_ns,
    })
}
