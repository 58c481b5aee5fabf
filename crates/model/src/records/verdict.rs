//! Whether a number may be used, and why not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Three grades, in order of badness.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Nothing speaks against it.
    #[default]
    Valid,
    /// Shown and used, with its reasons beside it.
    Suspect,
    /// Shown, and never used in a comparison.
    Invalid,
}

impl Grade {
    /// The word on tables and pages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// A grade with its reasons.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The worst of the reasons' grades; valid without any.
    pub grade: Grade,
    /// What was found, worst first.
    pub reasons: Vec<Finding>,
}

impl Verdict {
    /// The verdict that `findings` add up to.
    #[must_use]
    pub fn from_findings(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|f| std::cmp::Reverse(f.grade));
        let grade = findings.first().map_or(Grade::Valid, |f| f.grade);
        Self {
            grade,
            reasons: findings,
        }
    }

    /// This verdict and another's reasons in one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for finding in other.reasons {
            if !self.reasons.contains(&finding) {
                self.reasons.push(finding);
            }
        }
        Self::from_findings(self.reasons)
    }
}

/// One reason, with the figures behind it and the way out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// How bad.
    pub grade: Grade,
    /// What kind.
    pub reason: Reason,
    /// What was found, with figures: a sentence without its full stop.
    pub found: String,
    /// What to do about it.
    pub remedy: String,
}

impl Finding {
    /// A finding with the reason's own remedy.
    #[must_use]
    pub fn new(grade: Grade, reason: Reason, found: impl Into<String>) -> Self {
        Self {
            grade,
            reason,
            found: found.into(),
            remedy: reason.remedy().to_owned(),
        }
    }
}

/// Every kind of doubt that tare knows.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Fewer requests per second than planned.
    RateNotAchieved,
    /// The generator sent late, against the latency that it reports.
    Lateness,
    /// The generator's threads had no time left.
    GeneratorSaturated,
    /// The machine's cores were all busy.
    MachineSaturated,
    /// A CPU quota stopped the generator.
    Throttled,
    /// Requests failed.
    Errors,
    /// The generator ended before its last slots did, and those were the slowest.
    DrainCut,
    /// A process ended or was started again in mid-trial.
    Restart,
    /// The proxies were not in the path, or not as the plan wants them.
    NotMeshed,
    /// Not enough requests for a stated percentile.
    TooFewSamples,
    /// Not enough repeats for an interval.
    TooFewBlocks,
    /// Processes outside the trial used the machine.
    NoisyNeighbour,
    /// The slots do not add up.
    Accounting,
    /// The trial stopped before its end.
    Interrupted,
    /// A record, sample or file is missing or damaged.
    Incomplete,
    /// Closed loop: latency here is not latency at a rate.
    ClosedLoop,
    /// The mesh or the workload did not get ready.
    NotStarted,
    /// tare itself was built without optimisation.
    DebugBuild,
    /// Latency changed in the course of the trial.
    NotSteady,
    /// The first seconds of the window look like a warm-up that went on.
    WarmUpVisible,
    /// The generators of one measurement did not start together.
    StartSkew,
    /// One generator's latencies stand apart from the others'.
    GeneratorsDiffer,
    /// The generator's machine had no port, file descriptor or memory left.
    LocalShortage,
    /// Arrivals in phase as another tool plans them.
    CompatibilityMode,
}

impl Reason {
    /// The way out, as a sentence.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::RateNotAchieved => {
                "Lower the rate, or find what limits the target or the generator."
            }
            Self::Lateness => {
                "Give the generator a core of its own, use --pace spin, or lower the rate."
            }
            Self::GeneratorSaturated => "Add threads or generators, or lower the rate.",
            Self::MachineSaturated => {
                "Lower the rate, run fewer instances, or use a larger machine."
            }
            Self::Throttled => "Lift the CPU quota of the generator.",
            Self::Errors => {
                "See the errors by class and the logs of the trial; mend the cause or lower the rate."
            }
            Self::DrainCut => {
                "Lengthen --drain: with the timeout, its default, every slot comes to its end."
            }
            Self::Restart => "See the logs of the process that ended.",
            Self::NotMeshed => "See the proof in the trial's events; the mesh is not in the path.",
            Self::TooFewSamples => "Measure longer, at a higher rate, or with more blocks.",
            Self::TooFewBlocks => "Repeat more often: 3 blocks at least, 5 for narrower intervals.",
            Self::NoisyNeighbour => "Stop what else runs on the machine, and repeat.",
            Self::Accounting => {
                "This is a defect of tare: please report it with the trial directory."
            }
            Self::Interrupted => "Run again, or go on with `tare run --resume`.",
            Self::Incomplete => "Run the trial again; see the events for what was lost.",
            Self::ClosedLoop => {
                "Use --rate for latencies; --max only finds the highest throughput."
            }
            Self::NotStarted => "See the logs of the trial for the part that did not start.",
            Self::DebugBuild => "Build with `cargo build --release`.",
            Self::NotSteady => {
                "See latency over time: measure longer, or find what changed in the trial."
            }
            Self::WarmUpVisible => "Lengthen the warm-up.",
            Self::StartSkew => {
                "Give all generators the same start_unix_ns, and synchronise their clocks."
            }
            Self::GeneratorsDiffer => {
                "Look at that generator's machine and its path to the target; the merged figures hold both."
            }
            Self::LocalShortage => {
                "Raise ulimit -n, widen net.ipv4.ip_local_port_range, reuse connections, or use more generators."
            }
            Self::CompatibilityMode => {
                "Use constant or Poisson arrivals; this mode is only for comparison with wrk2's own figures."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_reason_decides() {
        let v = Verdict::from_findings(vec![
            Finding::new(Grade::Suspect, Reason::Errors, "1 of 100 requests failed"),
            Finding::new(Grade::Invalid, Reason::Lateness, "late"),
        ]);
        assert_eq!(v.grade, Grade::Invalid);
        assert_eq!(v.reasons[0].reason, Reason::Lateness);
        assert_eq!(Verdict::default().grade, Grade::Valid);
    }

    #[test]
    fn joining_verdicts_keeps_each_reason_once() {
        let a = Verdict::from_findings(vec![Finding::new(Grade::Suspect, Reason::Errors, "x")]);
        let b = a.clone().and(Verdict::from_findings(vec![Finding::new(
            Grade::Invalid,
            Reason::NotMeshed,
            "y",
        )]));
        let c = b.clone().and(a);
        assert_eq!(b, c);
        assert_eq!(c.grade, Grade::Invalid);
        assert_eq!(c.reasons.len(), 2);
    }
}
