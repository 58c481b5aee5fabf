//! Measures how long it takes to load and analyse many runs. Writes 100 synthetic runs of 50
//! trials with 90 services and the endpoints of Emojivoto each, if they do not exist, then reads
//! and analyses them one after another:
//! `cargo run --release -p tare-report --example many -- DIR [RUNS]`

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tare_records::trial::TrialResult;

/// 5 meshes, 1 load, 10 blocks.
fn plan() -> tare_plan::Plan {
    let meshes = ["bare", "envoy", "envoy/mtls", "envoy/a", "envoy/b"].map(|m| (m, "Synthetic"));
    let mut plan = support::plan(&meshes, &[200.0], 10);
    let endpoints = &mut plan.workload.graph.mixes[0].endpoints;
    let mut leaderboard = endpoints[0].clone();
    leaderboard.name = "leaderboard".to_owned();
    endpoints.push(leaderboard);
    plan
}

/// 90 services, each with a sidecar if the mesh has sidecars.
fn widen(result: &mut TrialResult) {
    let Some(resources) = &mut result.resources else {
        return;
    };
    let each = std::mem::take(&mut resources.processes);
    for service in 0..90 {
        resources
            .processes
            .extend(each.iter().cloned().map(|mut p| {
                p.name = format!("service-{service}/{}", p.name);
                p
            }));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args()
        .nth(1)
        .ok_or("expected the directory to write to")?;
    let runs: usize = std::env::args().nth(2).map_or(Ok(100), |n| n.parse())?;
    let dir = Path::new(&dir);
    let mut out = std::io::stdout().lock();
    let targets: Vec<PathBuf> = (0..runs)
        .map(|run| dir.join(format!("run-{run:03}")))
        .collect();
    for (run, target) in targets.iter().enumerate() {
        if !target.join(tare_records::layout::RUN).exists() {
            let mut plan = plan();
            plan.seed = run as u64;
            support::write_run(target, &plan, widen);
        }
    }
    let begun = Instant::now();
    let mut trials = 0;
    for target in &targets {
        let run = tare_report::load_run(target)?;
        trials += tare_report::summarise(&run).trials.len();
    }
    let elapsed = begun.elapsed();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find(|l| l.starts_with("VmHWM"))
        .unwrap_or("VmHWM: unknown");
    writeln!(
        out,
        "{trials} trials of {runs} runs in {:.2} s; {}",
        elapsed.as_secs_f64(),
        peak.split_whitespace().collect::<Vec<_>>().join(" ")
    )?;
    Ok(())
}
