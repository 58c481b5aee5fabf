//! What ran, and where: plan, machine and programs of a run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tare_plan::Plan;
use tare_plan::units::format_bytes;

/// Plan, machine and programs of a run: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunManifest {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Directory name: start time and plan.
    pub id: String,
    /// Version of tare.
    pub tare_version: String,
    /// `release` or `debug` build of tare; numbers of a debug build are suspect.
    pub tare_build: String,
    /// When the run began.
    pub started_unix_ns: u64,
    /// The resolved plan. The order of trials follows from it.
    pub plan: Plan,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub fingerprint: Fingerprint,
    /// Whether profile trials follow the blocks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
    /// What the readers of every result of this run must know; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The machine and the programs of a run: what is needed to repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Kernel release and version.
    pub kernel: String,
    /// Processor model.
    pub cpu_model: String,
    /// Cores that tare may use.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// Frequency governor, if the kernel reports one.
    pub governor: Option<String>,
    /// State of idle cores; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleCores>,
    /// Hypervisor, if one is detected.
    pub virtualised: Option<String>,
    /// What the hardware counters count, or why there are none; absent on clusters, where they are
    /// not read, and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_counters: Option<String>,
    /// Versions of programs under test: name to version, with the digest of the binary.
    pub programs: BTreeMap<String, String>,
    /// Load average over a minute when the run began, in hundredths.
    pub load_average_centi: u32,
}

/// The build of tare and the machine on which trials run.
#[derive(Debug, Clone, Copy)]
pub struct Platform<'a> {
    /// Version of tare.
    pub tare_version: &'a str,
    /// `release` or `debug`.
    pub tare_build: &'a str,
    /// Machine and programs.
    pub fingerprint: &'a Fingerprint,
}

/// One difference between two [`Platform`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformDifference {
    /// What differs, such as `kernel` or the name of a program.
    pub what: String,
    /// Its value on the first platform.
    pub before: String,
    /// Its value on the second platform.
    pub after: String,
    /// Whether a run that began on the first cannot be resumed on the second.
    pub forbids_resume: bool,
}

impl RunManifest {
    /// The platform on which the run began.
    #[must_use]
    pub fn platform(&self) -> Platform<'_> {
        Platform {
            tare_version: &self.tare_version,
            tare_build: &self.tare_build,
            fingerprint: &self.fingerprint,
        }
    }
}

impl Platform<'_> {
    /// All differences of `after` from this platform. The load average is not compared, because it
    /// always differs.
    #[must_use]
    pub fn differences(self, after: Platform<'_>) -> Vec<PlatformDifference> {
        let mut found = Vec::new();
        let mut compare = |what: &str, forbids_resume: bool, before: String, after: String| {
            if before != after {
                found.push(PlatformDifference {
                    what: what.to_owned(),
                    before,
                    after,
                    forbids_resume,
                });
            }
        };
        let text = |value: &str| value.to_owned();
        let or_none = |value: Option<&String>| value.map_or("none".to_owned(), Clone::clone);
        let (b, a) = (self.fingerprint, after.fingerprint);
        compare("processor", true, text(&b.cpu_model), text(&a.cpu_model));
        compare("cores", true, b.cores.to_string(), a.cores.to_string());
        // A kernel reports a few pages more or less after each start of the same machine.
        if b.memory_bytes.abs_diff(a.memory_bytes) > b.memory_bytes / 100 {
            let [b, a] = [b, a].map(|f| format_bytes(f.memory_bytes as f64));
            compare("memory", true, b, a);
        }
        compare("kernel", true, text(&b.kernel), text(&a.kernel));
        compare(
            "clock source",
            false,
            text(&b.clocksource),
            text(&a.clocksource),
        );
        let [governor_b, governor_a] = [b, a].map(|f| or_none(f.governor.as_ref()));
        compare("frequency governor", false, governor_b, governor_a);
        let idle = |f: &Fingerprint| {
            f.idle
                .as_ref()
                .map_or("unknown", IdleCores::state)
                .to_owned()
        };
        compare("idle cores", b.is_awake() != a.is_awake(), idle(b), idle(a));
        let [hypervisor_b, hypervisor_a] = [b, a].map(|f| or_none(f.virtualised.as_ref()));
        compare("hypervisor", false, hypervisor_b, hypervisor_a);
        if let (Some(b), Some(a)) = (&b.hardware_counters, &a.hardware_counters) {
            compare("hardware counters", false, text(b), text(a));
        }
        compare(
            "tare",
            true,
            text(self.tare_version),
            text(after.tare_version),
        );
        compare(
            "build of tare",
            true,
            text(self.tare_build),
            text(after.tare_build),
        );
        let names: BTreeSet<&String> = b.programs.keys().chain(a.programs.keys()).collect();
        for name in names {
            let [program_b, program_a] = [b, a].map(|f| or_none(f.programs.get(name)));
            compare(name, true, program_b, program_a);
        }
        found
    }
}

impl Fingerprint {
    /// Whether idle cores were prevented from sleeping. Versions of tare that did not record it
    /// let them sleep.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.idle.as_ref().is_some_and(|idle| idle.awake)
    }
}

/// State of idle cores during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdleCores {
    /// Whether they were prevented from sleeping.
    pub awake: bool,
    /// How they were prevented from sleeping, or why they were not: for people.
    pub how: String,
}

impl IdleCores {
    /// The state in words: what is compared between two runs.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.awake {
            true => "kept awake",
            false => "may sleep",
        }
    }
}

impl std::fmt::Display for IdleCores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.state(), self.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint() -> Fingerprint {
        Fingerprint {
            kernel: "6.1".to_owned(),
            cores: 4,
            memory_bytes: 8 << 30,
            ..Fingerprint::default()
        }
    }

    fn differences(
        before: &Fingerprint,
        after: &Fingerprint,
    ) -> Vec<(String, String, String, bool)> {
        let platform = |fingerprint| Platform {
            tare_version: "1.0.0",
            tare_build: "release",
            fingerprint,
        };
        let found = platform(before).differences(platform(after));
        let row = |d: PlatformDifference| (d.what, d.before, d.after, d.forbids_resume);
        found.into_iter().map(row).collect()
    }

    #[test]
    fn equal_fingerprints_have_no_differences() {
        let mut busy = fingerprint();
        busy.load_average_centi = 250;
        assert_eq!(differences(&fingerprint(), &busy), []);
    }

    #[test]
    fn each_difference_states_whether_it_forbids_resuming() {
        let mut other = fingerprint();
        other.kernel = "6.2".to_owned();
        other.governor = Some("performance".to_owned());
        // A few pages more, as after any start of the same machine.
        other.memory_bytes += 12 << 10;
        other.programs.insert("envoy".to_owned(), "1.40".to_owned());
        let row = |what: &str, before: &str, after: &str, forbids| {
            (
                what.to_owned(),
                before.to_owned(),
                after.to_owned(),
                forbids,
            )
        };
        assert_eq!(
            differences(&fingerprint(), &other),
            [
                row("kernel", "6.1", "6.2", true),
                row("frequency governor", "none", "performance", false),
                row("envoy", "none", "1.40", true),
            ]
        );
        other = fingerprint();
        other.memory_bytes *= 2;
        assert_eq!(
            differences(&fingerprint(), &other),
            [row("memory", "8.00 GiB", "16.0 GiB", true)]
        );
    }

    #[test]
    fn cores_that_may_sleep_do_not_forbid_resuming_a_run_that_recorded_nothing() {
        let with = |awake| Fingerprint {
            idle: Some(IdleCores {
                awake,
                how: String::new(),
            }),
            ..fingerprint()
        };
        let asleep = differences(&fingerprint(), &with(false));
        assert_eq!((asleep[0].2.as_str(), asleep[0].3), ("may sleep", false));
        let awake = differences(&fingerprint(), &with(true));
        assert_eq!((awake[0].2.as_str(), awake[0].3), ("kept awake", true));
    }
}
