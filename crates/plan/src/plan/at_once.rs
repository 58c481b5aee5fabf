//! Trials that run at the same time, so that noise of the machine affects all of them.
//!
//! Source: Bulej et al., "Duet Benchmarking: Improving Measurement Accuracy in the Cloud", ICPE 2020.

use super::resolved::{EnvironmentKind, Load, Plan};
use crate::source::{Location, Problems};

/// Most trials that run at the same time.
const AT_ONCE_MAX: u64 = 8;

impl Plan {
    /// Number of trials in a block with `loads` loads.
    pub(super) fn trials_in_block(&self, loads: usize) -> u64 {
        (self.meshes.len() * loads).max(1) as u64
    }
}

/// Checks that the trials of a block can run at the same time, if the plan says so.
pub(super) fn check(problems: &mut Problems, plan: &Plan, at: Location) {
    if !plan.at_once {
        return;
    }
    if plan.environment == EnvironmentKind::Kubernetes {
        problems
            .add(at, "`at_once` does not work on Kubernetes")
            .expected("`environment: local`")
            .help("on a cluster, trials run in turn: remove `at_once`; for `tare gate`, use another plan, such as cluster-quick");
    }
    if !plan.loads.iter().all(Load::is_open) {
        problems
            .add(
                at,
                "`at_once` does not work with `capacity`, `users` or `overload`",
            )
            .expected("loads with a rate")
            .help("trials at the same time would limit each other");
    }
    let own_times: Vec<u64> = plan.loads.iter().map(|l| l.own_time_ns()).collect();
    if own_times.windows(2).any(|w| w[0] != w[1]) {
        problems
            .add(at, "`at_once` needs loads of the same length")
            .expected("the same `duration` and `warmup` in all of them");
    }
    let trials = plan.trials_in_block(plan.loads.len());
    if trials > AT_ONCE_MAX {
        problems
            .add(at, format!("{trials} trials in a block: meshes x loads"))
            .expected(format!("at most {AT_ONCE_MAX} with `at_once`"));
    }
}
