//! Profiles: stacks by plane, per request of the load, by group of code, and differences between meshes.

mod difference;
mod fold;
mod group;

use tare_records::stacks::{ProcessStacks, StackSampling};
use tare_records::summary::{
    GroupTime, MeshComparison, MeshProfile, PlaneProfile, ProfileDifference, Profiles,
};
use tare_records::trial::TrialResult;
use tare_records::verdict::Grade;
use tare_records::worker::Plane;

pub use difference::Difference;
pub use fold::{Folded, label};

/// A profile trial as it is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredProfile {
    /// `result.json`.
    pub result: TrialResult,
    /// The stacks of each process.
    pub processes: Vec<ProcessStacks>,
    /// The sampling as a whole; `None` if the agent did not report it.
    pub sampling: Option<StackSampling>,
    /// pprof files that the control plane served: paths in the run directory.
    pub served: Vec<String>,
}

/// Where the files of profiles are, relative to the run directory.
const FOLDER: &str = tare_records::layout::PROFILES;

/// The summary of all profiles and the stacks behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileData {
    /// For the summary of the run.
    pub summary: Profiles,
    /// The stacks of each mesh by plane, in the order of `summary.meshes` and their planes.
    pub meshes: Vec<Vec<Folded>>,
    /// In the order of `summary.differences`.
    pub differences: Vec<Difference>,
}

/// Analyses profile trials; `None` without any. `pairs` are the comparisons of the run.
#[must_use]
pub fn analyse(trials: &[StoredProfile], pairs: &[MeshComparison]) -> Option<ProfileData> {
    if trials.is_empty() {
        return None;
    }
    let mut limits = Vec::new();
    let (mut summaries, mut meshes) = (Vec::new(), Vec::new());
    for trial in trials {
        let spec = &trial.result.trial;
        let place = format!("{} at {}", spec.mesh.name, spec.load.name);
        match mesh_profile(trial) {
            Ok((summary, folded)) => {
                if summary.lost > 0 {
                    limits.push(format!("{place}: {} samples were lost", summary.lost));
                }
                summaries.push(summary);
                meshes.push(folded);
            }
            Err(found) => limits.push(format!("{place}: {found}")),
        }
        let verdict = &trial.result.verdict;
        let mut reasons = verdict.reasons.iter();
        if let Some(finding) = reasons.find(|f| f.grade == Grade::Invalid) {
            let found = &finding.found;
            limits.push(format!("{place}: the profile trial is invalid: {found}"));
        }
        for limit in trial.sampling.iter().flat_map(|s| &s.limits) {
            if !limits.contains(limit) {
                limits.push(limit.clone());
            }
        }
    }
    let mut data = ProfileData {
        summary: Profiles {
            meshes: summaries,
            differences: Vec::new(),
            limits,
        },
        meshes,
        differences: Vec::new(),
    };
    for pair in pairs {
        data.add_difference(pair);
    }
    Some(data)
}

impl ProfileData {
    /// The profile of a mesh under a load.
    fn of(&self, mesh: &str, load: &str) -> Option<(&MeshProfile, &[Folded])> {
        let found = self.summary.meshes.iter().zip(&self.meshes);
        let mut found = found.filter(|(m, _)| m.mesh == mesh && m.load == load);
        found.next().map(|(m, folded)| (m, folded.as_slice()))
    }

    fn add_difference(&mut self, pair: &MeshComparison) {
        let (Some(mesh), Some(reference)) = (
            self.of(&pair.mesh, &pair.load),
            self.of(&pair.reference, &pair.load),
        ) else {
            return;
        };
        let difference = Difference::new(planes(reference), planes(mesh));
        let name = format!("{}-over-{}", mesh.0.trial, reference.0.trial);
        self.summary.differences.push(ProfileDifference {
            load: pair.load.clone(),
            mesh: pair.mesh.clone(),
            reference: pair.reference.clone(),
            graph: file(&name, "svg"),
            folded: file(&name, "folded"),
            functions: difference.functions(),
        });
        self.differences.push(difference);
    }
}

fn planes<'a>(
    (summary, folded): (&'a MeshProfile, &'a [Folded]),
) -> impl Iterator<Item = (Plane, &'a Folded)> {
    summary.planes.iter().map(|p| p.plane).zip(folded)
}

/// The path of a file in the run directory, without special characters.
fn file(name: &str, extension: &str) -> String {
    let clean = |c: char| match c.is_ascii_alphanumeric() || c == '.' || c == '_' {
        true => c,
        false => '-',
    };
    let name: String = name.chars().map(clean).collect();
    format!("{FOLDER}/{name}.{extension}")
}

fn mesh_profile(trial: &StoredProfile) -> Result<(MeshProfile, Vec<Folded>), String> {
    let spec = &trial.result.trial;
    let load = trial.result.load.as_ref();
    let requests = load.map_or(0, |l| l.counts.ok);
    if requests == 0 {
        return Err("the profile trial has no responses".to_owned());
    }
    let sampling = trial.sampling.as_ref();
    let sampling = sampling.ok_or("the profile trial has no stacks")?;
    let mut all: Vec<Plane> = trial.processes.iter().map(|p| p.plane).collect();
    all.sort_unstable();
    all.dedup();
    // The work of tare itself is no part of the path of a request.
    all.retain(|plane| *plane != Plane::Tare);
    let weight_ns = sampling.period_ns as f64 / requests as f64;
    let (mut planes, mut folded) = (Vec::new(), Vec::new());
    for plane in all {
        let processes = trial.processes.iter().filter(|p| p.plane == plane);
        let stacks = Folded::new(processes, sampling.period_ns, weight_ns);
        let name = format!("{}-{}", spec.dir_name(), plane.words());
        planes.push(PlaneProfile {
            plane,
            ns_per_request: stacks.samples() as f64 * weight_ns,
            groups: groups(&stacks),
            graph: file(&name, "svg"),
            pprof: file(&name, "pb.gz"),
        });
        folded.push(stacks);
    }
    if planes.is_empty() {
        return Err("the profile trial has no stacks".to_owned());
    }
    let summary = MeshProfile {
        mesh: spec.mesh.name.clone(),
        load: spec.load.name.clone(),
        trial: spec.dir_name(),
        requests,
        samples: folded
            .iter()
            .fold(0, |sum, f| f.samples().saturating_add(sum)),
        period_ns: sampling.period_ns,
        lost: sampling.lost,
        planes,
        served: trial.served.clone(),
    };
    Ok((summary, folded))
}

fn groups(stacks: &Folded) -> Vec<GroupTime> {
    let groups = group::samples(stacks).into_iter();
    groups
        .map(|(group, samples)| GroupTime {
            group,
            ns_per_request: samples as f64 * stacks.weight_ns,
        })
        .collect()
}

#[cfg(test)]
mod tests;
