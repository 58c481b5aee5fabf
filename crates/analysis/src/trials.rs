//! Trials as the analysis uses them: with decoded histograms and additional findings, by cell.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tare_plan::Plan;
use tare_records::calls::TrialCalls;
use tare_records::load::LoadResult;
use tare_records::record::HardwareCounts;
use tare_records::summary::{TrialRow, TrialStatus};
use tare_records::trial::{MemoryKind, Resources, TrialResult};
use tare_records::verdict::{Cause, Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;
use tare_stats::series::Stability;
use tare_stats::wire::HistogramWire;

use crate::{blocks, figures, run_queue};
use tare_stats::series::{Second, stability};
use tare_stats::v2::Reader;
use tare_stats::{Histogram, WireError};

/// One trial as it is in a run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredTrial {
    /// Name of the trial's directory.
    pub dir: String,
    /// Content of the trial's `result.json`.
    pub result: TrialResult,
    /// Latencies by second of intended time, from the trial's records; empty without records.
    pub seconds: Vec<Second>,
    /// The second of the window in which a request failed first, by the trial's records.
    #[serde(default)]
    pub failed_since_s: Option<u32>,
    /// The calls between services; `None` if they were not timed.
    #[serde(default)]
    pub calls: Option<TrialCalls>,
}

/// One trial with decoded histograms.
pub(crate) struct Trial<'a> {
    pub(crate) dir: &'a str,
    pub(crate) result: &'a TrialResult,
    /// The calls between services; `None` if they were not timed.
    pub(crate) calls: Option<&'a TrialCalls>,
    /// The second of the window in which a request failed first; `None` if it is unknown.
    pub(crate) failed_since_s: Option<u32>,
    /// Tests of the trial's seconds; `None` with too few seconds.
    stability: Option<Stability>,
    /// The trial's stored verdict, with the findings of the analysis.
    pub(crate) verdict: Verdict,
    /// The load result; `None` if it is missing or damaged.
    pub(crate) load: Option<Decoded<'a>>,
    /// What it is used for.
    pub(crate) status: TrialStatus,
}

/// A load result with its histograms.
pub(crate) struct Decoded<'a> {
    pub(crate) result: &'a LoadResult,
    pub(crate) latency: Histogram,
    pub(crate) service_time: Histogram,
    pub(crate) lateness: Histogram,
    /// Endpoint name to latency.
    pub(crate) endpoints: Vec<(&'a str, Histogram)>,
    /// What the generator adds to service times, if it sampled kernel timestamps.
    pub(crate) added: Option<Histogram>,
    /// From the intended instant until the kernel sent the request, if the generator sampled kernel
    /// timestamps.
    pub(crate) send: Option<Histogram>,
    /// Durations of TLS handshakes, if the load used TLS.
    pub(crate) handshake: Option<Histogram>,
}

/// The planes whose work a request is: those of the figure `cpu`.
pub(crate) const WORK: [Plane; 2] = [Plane::Application, Plane::DataPlane];

impl<'a> Decoded<'a> {
    fn new(result: &'a LoadResult, reader: &mut Reader) -> Result<Self, WireError> {
        let mut decode =
            |wire: &HistogramWire| Ok::<_, WireError>(Histogram::from(reader.read(wire)?));
        let (error, tls) = (result.instrument_error.as_ref(), result.tls.as_ref());
        let endpoints = result
            .endpoints
            .iter()
            .map(|e| Ok((e.name.as_str(), decode(&e.latency)?)))
            .collect::<Result<_, WireError>>()?;
        Ok(Self {
            result,
            latency: decode(&result.histograms.latency)?,
            service_time: decode(&result.histograms.service_time)?,
            lateness: decode(&result.histograms.lateness)?,
            endpoints,
            added: error.map(|e| decode(&e.service_time)).transpose()?,
            send: error.map(|e| decode(&e.send)).transpose()?,
            handshake: tls.map(|t| decode(&t.handshake)).transpose()?,
        })
    }
}

/// Decodes all trials and decides which are used. A trial is listed but not used if its mesh or
/// load is not in the plan, if an earlier trial has its place, or by [`blocks::select`].
pub(crate) fn decode<'a>(
    plan: &Plan,
    stored: &'a [StoredTrial],
    notes: &mut Vec<String>,
) -> Vec<Trial<'a>> {
    let mut places = BTreeSet::new();
    let mut reader = Reader::default();
    let decoded = stored.iter().map(|s| decode_one(s, &mut reader));
    let mut trials: Vec<Trial<'a>> = decoded.collect();
    trials.sort_by_key(|t| t.result.trial.index);
    for trial in &mut trials {
        let spec = &trial.result.trial;
        let planned = plan.meshes.iter().any(|m| m.name == spec.mesh.name)
            && plan.loads.iter().any(|l| l.name == spec.load.name);
        let place = (spec.block, spec.attempt, &spec.mesh.name, &spec.load.name);
        if !planned {
            trial.status = TrialStatus::Unplanned;
            notes.push(format!(
                "{}: mesh {:?} under load {:?} is not in the plan; the trial is not used",
                trial.dir, spec.mesh.name, spec.load.name
            ));
        } else if trial.is_used() && !places.insert(place) {
            trial.status = TrialStatus::Unplanned;
            notes.push(format!(
                "{}: another trial has the same mesh, load and block; this one is not used",
                trial.dir
            ));
        }
    }
    blocks::select(&mut trials);
    trials
}

/// Excludes the trials with the indices `excluded`, and adds a note that names them.
pub(crate) fn exclude(trials: &mut [Trial<'_>], excluded: &[u32], notes: &mut Vec<String>) {
    let mut indices = Vec::new();
    for trial in trials {
        let index = trial.result.trial.index;
        if excluded.contains(&index) {
            trial.status = TrialStatus::Excluded;
            indices.push(index.to_string());
        }
    }
    indices.dedup();
    if !indices.is_empty() {
        notes.push(format!(
            "excluded on request: {} {}",
            if indices.len() == 1 {
                "trial"
            } else {
                "trials"
            },
            indices.join(", ")
        ));
    }
}

/// All trials of a cell, used or not.
pub(crate) fn of_cell<'a, 'b>(
    trials: &'a [Trial<'b>],
    mesh: &str,
    load: &str,
) -> impl Iterator<Item = &'a Trial<'b>> {
    trials.iter().filter(move |t| {
        let spec = &t.result.trial;
        spec.mesh.name == mesh && spec.load.name == load
    })
}

/// The used trials of a cell.
pub(crate) fn used<'a, 'b>(trials: &'a [Trial<'b>], mesh: &str, load: &str) -> Vec<&'a Trial<'b>> {
    of_cell(trials, mesh, load)
        .filter(|t| t.is_used())
        .collect()
}

fn decode_one<'a>(stored: &'a StoredTrial, reader: &mut Reader) -> Trial<'a> {
    let mut verdict = stored.result.verdict.clone();
    let mut findings = Vec::new();
    let mut invalid = |reason, found: String| {
        findings.push(Finding::new(Grade::Invalid, reason, found));
    };
    let load = stored.result.counted();
    let load = match load.map(|l| Decoded::new(l, reader)).transpose() {
        Ok(load) => load,
        Err(error) => {
            invalid(Reason::Incomplete, error.to_string());
            None
        }
    };
    if stored.result.load.is_none() && verdict.grade != Grade::Invalid {
        let found = "the trial has no load result";
        invalid(Reason::Incomplete, found.to_owned());
    }
    if load
        .as_ref()
        .is_some_and(|l| !l.result.counts.identity_holds())
    {
        let found = "the counts of the load result do not add up";
        invalid(Reason::Accounting, found.to_owned());
    }
    let stability = stability(&stored.seconds);
    findings.extend(stability.iter().flat_map(unsteady));
    if stability.is_some() || !findings.is_empty() {
        verdict = verdict.and(Verdict::from_findings(findings));
    }
    let failure = |f: &Finding| f.grade == Grade::Invalid && f.reason.cause() == Cause::Failure;
    let failed = verdict.reasons.iter().any(failure);
    Trial {
        stability,
        failed_since_s: stored.failed_since_s,
        dir: &stored.dir,
        result: &stored.result,
        calls: stored.calls.as_ref(),
        status: match load.is_some() && !failed {
            true => TrialStatus::Used,
            false => TrialStatus::Failed,
        },
        verdict,
        load,
    }
}

/// Smallest relative change between the halves of a trial that makes it suspect.
const DRIFT_MIN: f64 = 0.10;
/// The p-value below which such a change counts. It is small, because every trial of a run is
/// tested.
const DRIFT_P: f64 = 0.001;

/// A finding if the latency of a trial was not steady.
fn unsteady(found: &Stability) -> Option<Finding> {
    let (reason, text) = if let Some(seconds) = found.warmup_seconds {
        let all = found.seconds;
        let text = format!("the first {seconds} of {all} seconds differ from the others");
        (Reason::WarmUpVisible, text)
    } else if found.drift.abs() >= DRIFT_MIN && found.drift_p < DRIFT_P {
        let change = figures::percent(found.drift);
        let text =
            format!("the median per second changed by {change} from the first to the second half");
        (Reason::NotSteady, text)
    } else {
        return None;
    };
    Some(Finding::new(Grade::Suspect, reason, text))
}

impl Trial<'_> {
    /// Whether its figures are in a cell.
    pub(crate) fn is_used(&self) -> bool {
        self.status == TrialStatus::Used
    }

    /// Achieved rate in requests per second; `None` if no request succeeded, because what the processes
    /// used is then not the cost of a request.
    pub(crate) fn achieved_rps(&self) -> Option<f64> {
        let ok = self.load.as_ref()?.result.counts.ok;
        let achieved = self.result.achieved_rps()?;
        (achieved > 0.0 && ok > 0).then_some(achieved)
    }

    /// The measure of memory of a plane's processes; `None` without one, or if they differ.
    pub(crate) fn memory_kind(&self, plane: Plane) -> Option<MemoryKind> {
        let all = self.resources()?.processes.iter();
        let mut kinds = all.filter(|p| p.plane == plane).map(|p| p.memory_kind);
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }

    /// CPU and memory, if they were sampled.
    pub(crate) fn resources(&self) -> Option<&Resources> {
        self.result.resources.as_ref()
    }

    /// CPU of a plane in cores, and its memory in bytes: zero for a plane without processes, `None`
    /// if nothing was sampled.
    pub(crate) fn plane(&self, plane: Plane) -> Option<(f64, f64)> {
        let planes = &self.resources()?.planes;
        Some(
            planes
                .get(&plane)
                .map_or((0.0, 0.0), |p| (p.cpu_cores, p.memory_mean_bytes)),
        )
    }

    /// Memory of a plane in bytes, at the first and the last sample; `None` if it was not sampled.
    pub(crate) fn memory_ends(&self, plane: Plane) -> Option<(f64, f64)> {
        let of = self.resources()?.planes.get(&plane)?;
        Some((of.memory_first_bytes? as f64, of.memory_last_bytes? as f64))
    }

    /// Hardware counters of these planes together; planes without processes add nothing. `None` if
    /// they are unknown of a process.
    pub(crate) fn counters(&self, planes: &[Plane]) -> Option<HardwareCounts> {
        let all = &self.resources()?.planes;
        let with_processes = planes.iter().filter_map(|p| all.get(p));
        let with_processes = with_processes.filter(|p| p.processes > 0);
        HardwareCounts::sum(with_processes.map(|p| p.counters))
    }

    /// A number of the window per request, at the achieved rate.
    pub(crate) fn per_request(&self, number: u64) -> Option<f64> {
        let seconds = self.resources()?.window_ns as f64 / 1e9;
        Some(number as f64 / (self.achieved_rps()? * seconds)).filter(|n| n.is_finite())
    }

    /// The trial's row in the list of trials.
    pub(crate) fn row(&self) -> TrialRow {
        let spec = &self.result.trial;
        let load = self.result.counted();
        let counters = self.counters(&WORK);
        let gone = self.resources().map_or(Vec::new(), |r| {
            r.processes
                .iter()
                .filter(|p| p.gone_at_ns.is_some())
                .map(|p| p.name.clone())
                .collect()
        });
        TrialRow {
            index: spec.index,
            dir: self.dir.to_owned(),
            block: spec.block,
            mesh: spec.mesh.name.clone(),
            load: spec.load.name.clone(),
            attempt: spec.attempt,
            status: self.status,
            verdict: self.verdict.clone(),
            counts: load.map(|l| l.counts),
            achieved_rps: load.and_then(|_| self.result.achieved_rps()),
            latency_ns: load.map(|l| l.latency_ns),
            lateness_ns: load.map(|l| l.lateness_ns),
            errors: load.map_or_else(Default::default, |l| l.errors.clone()),
            data_plane_cores: self.plane(Plane::DataPlane).map(|p| p.0),
            data_plane_bytes: self.plane(Plane::DataPlane).map(|p| p.1),
            run_queue_delay_per_cpu_time: self.resources().and_then(run_queue::per_cpu_time),
            run_queue_delay_per_request_ns: self
                .resources()
                .and_then(run_queue::delay_ns)
                .and_then(|ns| self.per_request(ns)),
            instructions_per_request: counters.and_then(|c| self.per_request(c.instructions)),
            cycles_per_request: counters.and_then(|c| self.per_request(c.cycles)),
            proofs: self.result.proofs.clone(),
            gone,
            stability: self.stability.clone(),
            outlier: None,
        }
    }
}
