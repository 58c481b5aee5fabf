//! Trials as the analysis uses them: histograms decoded, doubts added.

use std::collections::BTreeSet;

use tare_model::load::LoadResult;
use tare_model::plan::Plan;
use tare_model::summary::{Stability, TrialRow};
use tare_model::trial::{Resources, TrialResult};
use tare_model::verdict::{Finding, Grade, Reason, Verdict};
use tare_model::worker::Plane;

use super::StoredTrial;
use super::instrument::Transport;
use crate::figures;
use tare_stats::hierarchical::Second;
use tare_stats::series::stability;
use tare_stats::v2::Reader;
use tare_stats::{Histogram, WireError};

/// One trial, ready for use.
pub(crate) struct Trial<'a> {
    pub(super) dir: &'a str,
    pub(crate) result: &'a TrialResult,
    /// See [`StoredTrial::seconds`].
    pub(super) seconds: &'a [Second],
    /// Of its seconds.
    stability: Option<Stability>,
    /// The trial's own verdict and what decoding added.
    pub(super) verdict: Verdict,
    /// Absent when there is no load result, or a damaged one.
    pub(crate) load: Option<Decoded<'a>>,
    /// Whether its figures go into a cell.
    pub(super) used: bool,
    /// Whether the reader left it out.
    pub(super) excluded: bool,
}

/// A load result with its histograms.
pub(crate) struct Decoded<'a> {
    pub(crate) result: &'a LoadResult,
    pub(crate) latency: Histogram,
    pub(super) service_time: Histogram,
    pub(super) lateness: Histogram,
    /// Endpoint name to latency.
    pub(super) endpoints: Vec<(&'a str, Histogram)>,
    pub(super) transport: Transport,
}

impl<'a> Decoded<'a> {
    fn new(result: &'a LoadResult, reader: &mut Reader) -> Result<Self, WireError> {
        let mut decode = |wire| Ok(Histogram::from(reader.read(wire)?));
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
            transport: Transport::decode(
                result.instrument_error.as_ref(),
                result.tls.as_ref(),
                reader,
            )?,
        })
    }
}

/// Decodes all trials and decides which are used. A trial of something that the
/// plan does not name, or that takes the place of another, is listed but not used.
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
        if !planned {
            trial.used = false;
            notes.push(format!(
                "{}: mesh {:?} under load {:?} is not in the plan; the trial is not used",
                trial.dir, spec.mesh.name, spec.load.name
            ));
        } else if trial.used && !places.insert((spec.block, &spec.mesh.name, &spec.load.name)) {
            trial.used = false;
            notes.push(format!(
                "{}: another trial has the same mesh, load and block; this one is not used",
                trial.dir
            ));
        }
    }
    trials
}

/// Leaves out the trials with these indices, and says so.
pub(super) fn exclude(trials: &mut [Trial<'_>], excluded: &[u32], notes: &mut Vec<String>) {
    let mut left_out = Vec::new();
    for trial in trials {
        let index = trial.result.trial.index;
        if excluded.contains(&index) {
            (trial.used, trial.excluded) = (false, true);
            left_out.push(index.to_string());
        }
    }
    left_out.dedup();
    if !left_out.is_empty() {
        notes.push(format!(
            "left out at the reader's wish: {} {}",
            if left_out.len() == 1 {
                "trial"
            } else {
                "trials"
            },
            left_out.join(", ")
        ));
    }
}

fn decode_one<'a>(stored: &'a StoredTrial, reader: &mut Reader) -> Trial<'a> {
    let incomplete = |found: String| {
        Verdict::from_findings(vec![Finding::new(
            Grade::Invalid,
            Reason::Incomplete,
            found,
        )])
    };
    let mut verdict = stored.result.verdict.clone();
    let load = stored.result.load.as_ref();
    let load = match load.map(|l| Decoded::new(l, reader)) {
        None => {
            if verdict.grade != Grade::Invalid {
                verdict = verdict.and(incomplete("the trial has no load result".to_owned()));
            }
            None
        }
        Some(Err(error)) => {
            verdict = verdict.and(incomplete(error.to_string()));
            None
        }
        Some(Ok(load)) => {
            if !load.result.counts.identity_holds() {
                verdict = verdict.and(Verdict::from_findings(vec![Finding::new(
                    Grade::Invalid,
                    Reason::Accounting,
                    "the counts of the load result do not add up",
                )]));
            }
            Some(load)
        }
    };
    let stability = stability(&stored.seconds);
    if let Some(found) = &stability {
        verdict = verdict.and(Verdict::from_findings(unsteady(found)));
    }
    Trial {
        stability,
        dir: &stored.dir,
        result: &stored.result,
        seconds: &stored.seconds,
        used: load.is_some() && verdict.grade != Grade::Invalid,
        excluded: false,
        verdict,
        load,
    }
}

/// From this relative change from half to half on, a trial that surely changed is
/// suspect. Trials are many: the test is held to one in a thousand.
const DRIFT_MIN: f64 = 0.10;
const DRIFT_P: f64 = 0.001;

fn unsteady(found: &Stability) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |reason, text: String| findings.push(Finding::new(Grade::Suspect, reason, text));
    if let Some(seconds) = found.warmup_seconds {
        add(
            Reason::WarmUpVisible,
            format!(
                "the first {seconds} of {} seconds differ from the others",
                found.seconds
            ),
        );
    } else if found.drift.abs() >= DRIFT_MIN && found.drift_p < DRIFT_P {
        let change = figures::percent(found.drift);
        add(
            Reason::NotSteady,
            format!("the medians of the seconds changed by {change} from half to half"),
        );
    }
    findings
}

impl Trial<'_> {
    /// What was sampled, where the trial counts at all.
    pub(super) fn resources(&self) -> Option<&Resources> {
        self.result.resources.as_ref()
    }

    /// CPU of a plane in cores, and memory in bytes; zero for a plane without processes.
    pub(crate) fn plane(&self, plane: Plane) -> Option<(f64, f64)> {
        let planes = &self.resources()?.planes;
        Some(
            planes
                .get(&plane)
                .map_or((0.0, 0.0), |p| (p.cpu_cores, p.memory_mean_bytes)),
        )
    }

    /// The line in the list of trials.
    pub(super) fn row(&self) -> TrialRow {
        let spec = &self.result.trial;
        let load = self.result.load.as_ref();
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
            used: self.used,
            excluded: self.excluded,
            verdict: self.verdict.clone(),
            counts: load.map(|l| l.counts),
            achieved_rps: load.map(|l| l.rate.achieved),
            latency_ns: load.map(|l| l.latency_ns),
            lateness_ns: load.map(|l| l.lateness_ns),
            errors: load.map_or_else(Default::default, |l| l.errors.clone()),
            data_plane_cores: self.plane(Plane::DataPlane).map(|p| p.0),
            data_plane_bytes: self.plane(Plane::DataPlane).map(|p| p.1),
            proofs: self.result.proofs.clone(),
            gone,
            stability: self.stability.clone(),
            outlier: None,
        }
    }
}
