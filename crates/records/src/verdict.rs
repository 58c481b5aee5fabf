//! Whether a number may be used, and why not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Grade of a verdict, from best to worst.
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
    /// Nothing suspicious was found.
    #[default]
    Valid,
    /// Shown with its reasons, and used.
    Suspect,
    /// Shown with its reasons, and not used in any comparison.
    Invalid,
}

impl Grade {
    /// The word in tables and pages.
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
    /// The worst grade of the reasons; valid without a reason.
    pub grade: Grade,
    /// What was found, worst first.
    pub reasons: Vec<Finding>,
}

impl Verdict {
    /// The verdict with `findings` as its reasons.
    #[must_use]
    pub fn from_findings(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|f| std::cmp::Reverse(f.grade));
        let grade = findings.first().map_or(Grade::Valid, |f| f.grade);
        Self {
            grade,
            reasons: findings,
        }
    }

    /// The verdict without the reasons that a trial beyond the capacity is expected to have: requests that
    /// fail or are sent late, and busy cores.
    #[must_use]
    pub fn of_overload(mut self) -> Self {
        let expected = [
            Reason::RateNotAchieved,
            Reason::Errors,
            Reason::MachineSaturated,
            Reason::DrainCut,
        ];
        self.reasons.retain(|f| !expected.contains(&f.reason));
        Self::from_findings(self.reasons)
    }

    /// This verdict with the reasons of `other` added, each once.
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

/// One reason of a verdict, with its figures and a remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Grade of this finding alone.
    pub grade: Grade,
    /// Kind of finding.
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

    /// The finding about a trial of a run, whose target tare itself started. A remedy of its own stays.
    #[must_use]
    pub fn in_run(mut self) -> Self {
        if [self.reason.remedy(), START_THE_SERVER].contains(&self.remedy.as_str()) {
            self.remedy = self.reason.remedy_in_run().to_owned();
        }
        self
    }
}

/// The remedy for too few responses where requests failed: more requests would fail, too.
pub const AFTER_FAILURES: &str = "Find out first why requests failed.";

/// The remedy for a target of `tare load` that no request reached.
pub const START_THE_SERVER: &str = "Start the server, or correct the URL.";

/// All kinds of findings.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Fewer requests per second than planned.
    RateNotAchieved,
    /// The generator's lateness is large compared with the latency that it reports.
    Lateness,
    /// The generator's threads had no time left.
    GeneratorSaturated,
    /// The machine's cores were all busy.
    MachineSaturated,
    /// A CPU quota stopped the generator.
    Throttled,
    /// Requests failed.
    Errors,
    /// The generator ended before its last requests did, and the slowest ones are missing.
    DrainCut,
    /// A process ended or was started again during the trial.
    Restart,
    /// The proxies were not in the path, or not configured as planned.
    NotMeshed,
    /// Not enough requests for a stated percentile.
    TooFewSamples,
    /// Not enough repeats for an interval.
    TooFewBlocks,
    /// Processes outside the trial used the machine.
    NoisyNeighbour,
    /// The host stopped all processes of the machine for a while.
    HostStalled,
    /// The counts of slots do not add up.
    Accounting,
    /// The trial stopped before its end.
    Interrupted,
    /// A record, sample or file is missing or damaged.
    Incomplete,
    /// CPU and memory were not sampled, or only in a part of the window. The latency is complete.
    NotSampled,
    /// Closed loop: its latency is not the latency at a rate.
    ClosedLoop,
    /// The mesh or the workload did not become ready.
    NotStarted,
    /// tare itself was built without optimisation.
    DebugBuild,
    /// Latency changed during the trial.
    NotSteady,
    /// The first seconds of the window look like a continued warm-up.
    WarmUpVisible,
    /// The generators of one measurement did not start together.
    StartSkew,
    /// The latencies of one generator differ from those of the others.
    GeneratorsDiffer,
    /// Requests of a mesh were still in progress when the next one was loaded, which may be that of the trial.
    SlicesOverlap,
    /// The generator's machine had no port, file descriptor or memory left.
    LocalShortage,
    /// Arrivals in phase, as in wrk2, for comparison with its figures.
    CompatibilityMode,
    /// The server sent bytes after complete responses.
    SurplusBytes,
    /// Responses were redirects: their status was 301, 302, 303, 307 or 308.
    Redirects,
}

/// Where the cause of a finding lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Outside the trials: above its threshold for invalid trials, the whole block is run again.
    Exogenous,
    /// In the trial: a result. The trial is never left out for it.
    Endogenous,
    /// The trial did not measure its mesh, so it has no figure.
    Failure,
}

impl Reason {
    /// All kinds.
    pub const ALL: [Self; 29] = [
        Self::RateNotAchieved,
        Self::Lateness,
        Self::GeneratorSaturated,
        Self::MachineSaturated,
        Self::Throttled,
        Self::Errors,
        Self::DrainCut,
        Self::Restart,
        Self::NotMeshed,
        Self::TooFewSamples,
        Self::TooFewBlocks,
        Self::NoisyNeighbour,
        Self::HostStalled,
        Self::Accounting,
        Self::Interrupted,
        Self::Incomplete,
        Self::NotSampled,
        Self::ClosedLoop,
        Self::NotStarted,
        Self::DebugBuild,
        Self::NotSteady,
        Self::WarmUpVisible,
        Self::StartSkew,
        Self::GeneratorsDiffer,
        Self::SlicesOverlap,
        Self::LocalShortage,
        Self::CompatibilityMode,
        Self::SurplusBytes,
        Self::Redirects,
    ];

    /// Where the cause lies.
    #[must_use]
    pub fn cause(self) -> Cause {
        match self {
            Self::NoisyNeighbour | Self::HostStalled => Cause::Exogenous,
            Self::NotMeshed
            | Self::NotStarted
            | Self::Interrupted
            | Self::Accounting
            | Self::Incomplete => Cause::Failure,
            _ => Cause::Endogenous,
        }
    }

    /// Whether something had no capacity left for the load: the target, the generator or the machine.
    #[must_use]
    pub fn is_saturation(self) -> bool {
        matches!(
            self,
            Self::RateNotAchieved
                | Self::GeneratorSaturated
                | Self::MachineSaturated
                | Self::Throttled
                | Self::LocalShortage
        )
    }

    /// The remedy in a trial of a run, as a sentence: its load is a part of a plan, and has no options of its own.
    #[must_use]
    pub fn remedy_in_run(self) -> &'static str {
        match self {
            Self::Lateness => {
                "Give the generator a core of its own, set `pace: spin` in the load (`--set load.pace=spin`), or lower the rate."
            }
            Self::GeneratorSaturated => {
                "Raise `threads` of the load (such as `--set load.threads=2`), add generators, or lower the rate."
            }
            Self::DrainCut => "Lower the rate, so that pending requests finish within the timeout.",
            Self::Interrupted => "Continue the run with `tare run --resume DIR`.",
            Self::Incomplete => {
                "See the events for what was lost. If the cause is in the plan, correct it and start a new run."
            }
            Self::ClosedLoop => {
                "Use a load with a `rate` for latencies; `users` only finds the throughput."
            }
            Self::StartSkew => "Synchronise the clocks of the nodes with generators.",
            _ => self.remedy(),
        }
    }

    /// The remedy, as a sentence: of `tare load` and of everything that has no other.
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
            Self::Throttled => "Raise or remove the CPU quota.",
            Self::Errors => {
                "See the errors by class and, in a run, the logs of the trial; fix their cause."
            }
            Self::DrainCut => {
                "Increase --drain so that pending requests can finish; its default, the timeout, is long enough."
            }
            Self::Restart => "See the logs of the process that ended.",
            Self::NotMeshed => "See the failed proof in the trial's events.",
            Self::TooFewSamples => "Measure longer, at a higher rate, or with more blocks.",
            Self::TooFewBlocks => "Use more blocks: at least 3, or 5 for narrower intervals.",
            Self::HostStalled => "Repeat on a host that does not suspend the machine.",
            Self::NoisyNeighbour => "Stop other programs on the machine, and repeat.",
            Self::Accounting => "This is a bug in tare: please report it with the trial directory.",
            Self::Interrupted => "Run again.",
            Self::NotSampled => "Leave more CPU to tare itself, or measure longer.",
            Self::Incomplete => "Run again; the finding states what was lost.",
            Self::ClosedLoop => {
                "Use --rate for latencies; --max only finds the highest throughput."
            }
            Self::NotStarted => "See the logs of the trial for the part that did not start.",
            Self::DebugBuild => "Build with `cargo build --release`.",
            Self::NotSteady => {
                "See the latency over time; measure longer, or find what changed during the trial."
            }
            Self::WarmUpVisible => "Lengthen the warm-up.",
            Self::StartSkew => {
                "Start all generators within 1 % of the window, or at the same `start_unix_ns` of --spec files; synchronise their clocks."
            }
            Self::GeneratorsDiffer => {
                "Check that generator's machine and its path to the target; the merged figures include its requests."
            }
            Self::SlicesOverlap => {
                "Lengthen the gap, for example with `slice: {gap: 200ms}`, or use `pairing: turns`."
            }
            Self::LocalShortage => {
                "Raise ulimit -n, widen net.ipv4.ip_local_port_range, reuse connections, or use more generators."
            }
            Self::CompatibilityMode => {
                "Use constant or Poisson arrivals; this mode is only for comparison with wrk2's own figures."
            }
            Self::Redirects => {
                "Request the final URL, because tare does not follow redirects; if this status is intended, use the result."
            }
            Self::SurplusBytes => {
                "Fix the server or proxy: its responses are longer than their headers state, or it answers a request twice."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_reason_sets_the_grade() {
        let v = Verdict::from_findings(vec![
            Finding::new(Grade::Suspect, Reason::Errors, "1 of 100 requests failed"),
            Finding::new(Grade::Invalid, Reason::Lateness, "late"),
        ]);
        assert_eq!(v.grade, Grade::Invalid);
        assert_eq!(v.reasons[0].reason, Reason::Lateness);
        assert_eq!(Verdict::default().grade, Grade::Valid);
    }

    #[test]
    fn a_finding_of_a_generator_gets_the_remedy_of_a_run() {
        let late = Finding::new(Grade::Suspect, Reason::Lateness, "late");
        assert!(late.remedy.contains("--pace spin"), "{}", late.remedy);
        let in_run = late.clone().in_run();
        assert!(
            in_run.remedy.contains("`--set load.pace=spin`"),
            "{}",
            in_run.remedy
        );
        let own = Finding {
            remedy: "Start the server.".to_owned(),
            ..late
        };
        assert_eq!(own.clone().in_run(), own);
        // In a run there are no options of `tare load`, which alone has a remedy with them.
        for reason in [Reason::DrainCut, Reason::ClosedLoop, Reason::StartSkew] {
            assert!(reason.remedy().contains("--"));
            assert!(!reason.remedy_in_run().contains("--"), "{reason:?}");
        }
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
