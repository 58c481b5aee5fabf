//! The verdict on a trial: the generator's own verdict, and findings about processes, proofs and
//! the machine. The thresholds are constants; docs/method.md lists them.

use tare_records::load::LoadResult;
use tare_records::trial::{Event, EventKind, ProcessUse, Proof, Resources};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;

use crate::{run_queue, throttling, unseen};

/// A trial is suspect if more than this share of all cores was busy (mean over the window), or if
/// the trial itself used more than this share of the cores that it may run on.
pub const MACHINE_BUSY_SUSPECT: f64 = 0.90;
/// A trial is invalid above this share, because latency is then mostly waiting for a core.
pub const MACHINE_BUSY_INVALID: f64 = 0.99;
/// A trial is suspect if processes outside the trial used more than this share of the cores that the
/// trial needed: of those that it used, and at least of one.
pub const OTHERS_SUSPECT: f64 = 0.05;
/// A trial is invalid above this share.
pub const OTHERS_INVALID: f64 = 0.25;
/// A trial is suspect if the hypervisor took more than this share of all cores.
pub const STOLEN_SUSPECT: f64 = 0.05;
/// A trial is invalid above this share.
pub const STOLEN_INVALID: f64 = 0.15;
/// A trial is suspect if values from a kubelet are older than this share of the window.
pub const KUBELET_AGE_SUSPECT: f64 = 0.10;
/// A trial is invalid above this share, because the values are from before the window.
pub const KUBELET_AGE_INVALID: f64 = 0.99;

/// Everything that the verdict on one trial depends on.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The generator's result, if there is one.
    pub load: Option<&'a LoadResult>,
    /// CPU and memory, if they were sampled.
    pub resources: Option<&'a Resources>,
    /// Results of the proofs.
    pub proofs: &'a [Proof],
    /// Events of the trial.
    pub events: &'a [Event],
    /// What was lost or damaged, one sentence each.
    pub incomplete: &'a [String],
    /// Whether tare is a debug build.
    pub debug_build: bool,
}

/// The verdict on a trial.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut findings = Vec::new();
    for event in evidence.events {
        let reason = match event.kind {
            EventKind::Exited => Reason::Restart,
            EventKind::NotStarted => Reason::NotStarted,
            EventKind::NotSampled => {
                let found = event.found.clone();
                findings.push(Finding::new(Grade::Suspect, Reason::NotSampled, found));
                continue;
            }
            _ => continue,
        };
        let at = evidence
            .load
            .map_or(String::new(), |l| into_window(event, l));
        findings.push(Finding::new(Grade::Invalid, reason, format!("{event}{at}")));
    }
    for proof in evidence.proofs.iter().filter(|p| !p.holds) {
        let found = format!("proof failed: {proof}");
        findings.push(Finding::new(Grade::Invalid, Reason::NotMeshed, found));
    }
    for what in evidence.incomplete {
        findings.push(Finding::new(Grade::Invalid, Reason::Incomplete, what));
    }
    if let Some(resources) = evidence.resources {
        let window_ns = evidence.load.map_or(resources.window_ns, |l| l.window_ns);
        vanished(resources, window_ns, evidence.events, &mut findings);
        findings.extend(
            evidence
                .load
                .and_then(|load| unseen::finding(resources, load)),
        );
        machine(resources, &mut findings);
    }
    if evidence.debug_build {
        findings.push(Finding::new(
            Grade::Suspect,
            Reason::DebugBuild,
            "generator and workload are a debug build of tare",
        ));
    }
    let own = Verdict::from_findings(findings);
    let verdict = match evidence.load {
        Some(load) => own.and(load.verdict.clone()),
        None => own,
    };
    // Findings of a generator have the remedies of `tare load`; replace them by those of a run.
    Verdict::from_findings(verdict.reasons.into_iter().map(Finding::in_run).collect())
}

/// When an event of the window happened: `, 4.2 s into the window`. Empty for others.
fn into_window(event: &Event, load: &LoadResult) -> String {
    let since = event.at_unix_ns.checked_sub(load.window_start_unix_ns);
    let inside = since.filter(|ns| load.window_start_unix_ns > 0 && *ns <= load.window_ns);
    inside.map_or(String::new(), |ns| {
        format!(", {:.1} s into the window", ns as f64 / 1e9)
    })
}

/// Adds findings for processes that could not be sampled until the end of the window, or at all,
/// unless an event explains it already.
fn vanished(resources: &Resources, window_ns: u64, events: &[Event], findings: &mut Vec<Finding>) {
    let has_event = |name: &str| {
        let mut exited = events.iter().filter(|e| e.kind == EventKind::Exited);
        exited.any(|e| e.subject == name)
    };
    let early = |p: &&ProcessUse| {
        // Generators may end with the window. Their records show whether they are complete.
        let own = matches!(p.plane, Plane::Generator | Plane::GeneratorProxy);
        p.gone_at_ns
            .is_some_and(|t_ns| !own || t_ns.unsigned_abs() < window_ns)
    };
    let all = resources.processes.iter().filter(early);
    let all = all.filter(|p| !has_event(&p.name));
    let (never, vanished): (Vec<&ProcessUse>, Vec<&ProcessUse>) =
        all.partition(|p| p.gone_at_ns == Some(0));
    let more = |all: &[&ProcessUse]| match all.len() {
        ..=1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    if let Some(first) = never.first() {
        let found = format!(
            "{}{} could never be sampled: the figures do not include its CPU and memory",
            first.name,
            more(&never)
        );
        findings.push(Finding::new(Grade::Invalid, Reason::Incomplete, found));
    }
    if let Some(first) = vanished.first() {
        let found = format!(
            "{} vanished {:.1} s into the window{}; the figures include its use until then",
            first.name,
            first.gone_at_ns.unwrap_or(0) as f64 / 1e9,
            more(&vanished)
        );
        findings.push(Finding::new(Grade::Invalid, Reason::Restart, found));
    }
}

/// Adds a finding if values from kubelets are old: they are extrapolated linearly to the edges of
/// the window.
fn stale(resources: &Resources, findings: &mut Vec<Finding>) {
    let window_ns = resources.window_ns as f64;
    let grade = |age_ns: u64| match age_ns as f64 / window_ns {
        share if share > KUBELET_AGE_INVALID => Some(Grade::Invalid),
        share if share > KUBELET_AGE_SUSPECT => Some(Grade::Suspect),
        _ => None,
    };
    let age_ns = resources.kubelet_age_ns_max;
    if let Some((age_ns, grade)) = age_ns.and_then(|age| Some((age, grade(age)?))) {
        let found = format!(
            "CPU and memory come from kubelets and are up to {:.1} s old, in a window of {:.0} s",
            age_ns as f64 / 1e9,
            window_ns / 1e9
        );
        findings.push(Finding {
            remedy: "Allow agents to run (see docs/kubernetes.md), or measure longer.".to_owned(),
            ..Finding::new(grade, Reason::Incomplete, found)
        });
    }
}

fn machine(resources: &Resources, findings: &mut Vec<Finding>) {
    let machine = &resources.machine;
    throttling::findings(resources, findings);
    stale(resources, findings);
    let cores = f64::from(machine.cores.max(1));
    let grade = |share: f64, suspect: f64, invalid: f64| match share {
        s if s > invalid => Some(Grade::Invalid),
        s if s > suspect => Some(Grade::Suspect),
        _ => None,
    };
    let busy = machine.busy_cores / cores;
    // What others use is a finding of its own below: with it, an idle trial would look saturated.
    let without_others = busy - machine.other_cores / cores;
    if let Some(grade) = grade(busy, MACHINE_BUSY_SUSPECT, MACHINE_BUSY_INVALID)
        && without_others > MACHINE_BUSY_SUSPECT
    {
        let found = format!(
            "the machine was {:.0} % busy, {:.2} of {cores} cores",
            busy.min(1.0) * 100.0,
            machine.busy_cores.min(cores)
        );
        findings.push(Finding::new(grade, Reason::MachineSaturated, found));
    }
    let own: f64 = resources.processes.iter().map(|p| p.cpu_cores).sum();
    let own = own + resources.sampling_cores;
    // If all cores are allowed, the check of the whole machine covers the trial's own use.
    if machine.cores_allowed < machine.cores {
        let allowed = f64::from(machine.cores_allowed.max(1));
        let grade = grade(own / allowed, MACHINE_BUSY_SUSPECT, MACHINE_BUSY_INVALID);
        if let Some(grade) = grade {
            let found = format!("the trial used {own:.2} of {allowed} allowed cores");
            findings.push(Finding::new(grade, Reason::MachineSaturated, found));
        }
    }
    // What the trial suffered from those that took CPU time.
    let waited = run_queue::per_cpu_time(resources).map_or(String::new(), |share| {
        format!("; {}", run_queue::words(share))
    });
    let interrupts = machine
        .interrupt_cores
        .map_or(String::new(), |cores| format!(", interrupts {cores:.2}"));
    let others = machine.other_cores / own.max(1.0);
    if let Some(grade) = grade(others, OTHERS_SUSPECT, OTHERS_INVALID) {
        let found = format!(
            "processes outside the trial used {:.2} of {cores} cores, the trial itself {own:.2}\
             {interrupts}{waited}",
            machine.other_cores
        );
        findings.push(Finding::new(grade, Reason::NoisyNeighbour, found));
    }
    if let Some(grade) = grade(machine.stolen_cores / cores, STOLEN_SUSPECT, STOLEN_INVALID) {
        let found = format!(
            "the hypervisor took {:.2} of {cores} cores{waited}",
            machine.stolen_cores
        );
        findings.push(Finding::new(grade, Reason::NoisyNeighbour, found));
    }
}

#[cfg(test)]
mod tests;
