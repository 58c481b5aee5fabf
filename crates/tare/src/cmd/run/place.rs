//! The machine, the build and the programs of a run, which must not change during the run.

use anyhow::bail;
use tare_load::Awake;
use tare_plan::Plan;
use tare_plan::trial::order;
use tare_records::layout::{Fingerprint, IdleCores, Platform};
use tare_run::store::RunDir;

/// Keeps the cores of this machine awake unless the user or the system forbids it. Returns how the
/// cores idle. A resumed run uses the setting with which it began.
pub(super) fn idle_cores(
    let_sleep: bool,
    began: Option<&Fingerprint>,
) -> (Option<Awake>, IdleCores) {
    let asleep = |how: String| (None, IdleCores { awake: false, how });
    if let_sleep {
        return asleep("--let-cores-sleep".to_owned());
    }
    if began.is_some_and(|then| !then.is_awake()) {
        return asleep("as at the start of the run".to_owned());
    }
    match Awake::hold() {
        Ok(awake) => {
            let how = awake.to_string();
            (Some(awake), IdleCores { awake: true, how })
        }
        Err(refused) => asleep(refused.to_string()),
    }
}

pub(super) fn build() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

/// Fails unless this machine, this build and these programs are the same as when the run began. `plan` is
/// that of the run, or the extended one.
pub(super) fn check_same_place(
    run: &RunDir,
    plan: &Plan,
    here: &Fingerprint,
) -> anyhow::Result<()> {
    let manifest = run.manifest();
    let now = Platform {
        tare_version: env!("CARGO_PKG_VERSION"),
        tare_build: build(),
        fingerprint: here,
    };
    let differences = manifest.platform().differences(now);
    let changed: Vec<String> = differences
        .iter()
        .filter(|d| d.forbids_resume)
        .map(|d| {
            format!(
                "  {}: {} when the run began, {} now",
                d.what, d.before, d.after
            )
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let trials = order(plan);
    if trials.iter().all(|trial| run.has(trial)) {
        bail!(
            "the run is complete: all {} trials are done; print its report with tare report {}",
            trials.len(),
            run.path().display()
        );
    }
    bail!(
        "cannot continue, because new trials would not be comparable with the earlier ones:\n{}\n\
         continue with the same programs on the same machine or cluster, or start a new run",
        changed.join("\n")
    )
}
