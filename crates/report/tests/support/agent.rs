//! The records of an agent.

use tare_records::record::{
    AgentRecord, MachineSample, ProcessSample, ResourceSample, StreamChecksum,
};
use tare_records::trial::{ProcessUse, TrialResult};

use super::SECONDS;

/// What an agent would have written for this trial.
pub(super) fn agent(result: &TrialResult) -> String {
    let processes = result.resources.as_ref().map_or(&[][..], |r| &r.processes);
    let mut checksum = StreamChecksum::default();
    let mut text = String::new();
    for second in 0..=i64::from(SECONDS) {
        let t_ns = second * 1_000_000_000;
        let one = |p: &ProcessUse| {
            let cpu_ns = (p.cpu_cores * t_ns as f64) as u64;
            let rss_bytes = p.rss_mean_bytes.map(|b| b as u64);
            Some(ProcessSample {
                t_ns,
                cpu_ns,
                run_queue_delay_ns: None,
                counters: None,
                throttled_ns: None,
                rss_bytes,
                pss_bytes: None,
                working_set_bytes: None,
            })
        };
        let record = AgentRecord::Sample(ResourceSample {
            application_nodes: None,
            t_ns,
            processes: processes.iter().map(one).collect(),
            machine: MachineSample {
                cpus: 4,
                idle_ns: t_ns as u64,
                stolen_ns: 0,
                interrupt_ns: None,
                pressure_ns: None,
                memory_available_bytes: 8 << 30,
            },
            throttled_ns: None,
        });
        let line = serde_json::to_string(&record).unwrap();
        checksum.line(&line);
        text.push_str(&line);
        text.push('\n');
    }
    let last = AgentRecord::Final {
        checksum: checksum.hex(),
        own_cpu_ns: 1,
        elapsed_ns: u64::from(SECONDS) * 1_000_000_000,
    };
    text + &serde_json::to_string(&last).unwrap() + "\n"
}
