//! The answers: what the run shows about each mesh, in sentences that claim no more than the
//! figures.

use tare_plan::mesh::Mesh;
use tare_plan::{Figure, Load, Plan};
use tare_records::summary::{Answer, Cell, MeshComparison, Outcome, Ratio, TrialSelection};
use tare_records::worker::Plane;

use super::capacity;
use super::comparisons::{asked, references};
use crate::figures;

/// Longest title that is used in a sentence. If a title is longer, the name is used.
const TITLE_CHARS: usize = 48;

/// Below this p-value, some meshes were disturbed more often than others, and no answer is stated.
const DISTURBED_P_MIN: f64 = 0.05;

/// Why no answer is stated, from the p-value of equal disturbance; `None` if answers are stated.
pub(super) fn disturbed_unequally(equally_p: Option<f64>) -> Option<&'static str> {
    equally_p
        .filter(|p| *p < DISTURBED_P_MIN)
        .map(|_| "something outside the trials disturbed some meshes more often than others")
}

/// Most meshes for which also the pairs without the baseline have a sentence.
const ALL_PAIRS_MESHES_MAX: usize = 3;

/// One answer for each pair of meshes, under the loads of the primary questions: with the baseline and, in
/// a plan with few meshes, also without it.
pub(super) fn of(
    plan: &Plan,
    cells: &[Cell],
    comparisons: &[MeshComparison],
    disturbed_equally_p: Option<f64>,
) -> Vec<Answer> {
    let of_load = |load| of_load(plan, load, cells, comparisons, disturbed_equally_p);
    asked(plan).flat_map(of_load).collect()
}

fn of_load(
    plan: &Plan,
    load: &Load,
    cells: &[Cell],
    comparisons: &[MeshComparison],
    disturbed_equally_p: Option<f64>,
) -> Vec<Answer> {
    let mut meshes: Vec<&Mesh> = plan.meshes.iter().collect();
    meshes.sort_by_key(|m| m.name != plan.baseline);
    let mut pairs: Vec<(&Mesh, &Mesh)> = Vec::new();
    for (number, reference) in meshes.iter().enumerate() {
        if number == 0 || meshes.len() <= ALL_PAIRS_MESHES_MAX {
            let after = (number + 1..meshes.len()).filter(|i| number < references(plan, *i));
            pairs.extend(after.map(|i| (meshes[i], *reference)));
        }
    }
    let cell = |mesh: &Mesh| {
        cells
            .iter()
            .find(|c| c.mesh == mesh.name && c.load == load.name)
    };
    let answer = |(mesh, reference): (&Mesh, &Mesh)| {
        let (own, other) = (cell(mesh)?, cell(reference)?);
        let same = |c: &&MeshComparison| {
            c.load == load.name && c.mesh == mesh.name && c.reference == reference.name
        };
        let comparison = comparisons.iter().find(same);
        let unequal = disturbed_unequally(disturbed_equally_p);
        let silent = [own, other].into_iter().find(|c| unanswered(c));
        let answered = comparison.filter(|_| unequal.is_none() && silent.is_none());
        let outcome = |c: &'_ MeshComparison| match load.is_open() {
            true => c.ratio(Figure::P50).map(|r| r.outcome),
            false => capacity::ratio(c).map(|r| r.outcome),
        };
        let head = format!(
            "{} against {} {}{}",
            subject(mesh, &plan.meshes),
            subject(reference, &plan.meshes),
            capacity::under(load),
            plan.sweep
                .as_ref()
                .map_or(String::new(), |_| format!(", {}", load.name))
        );
        let body = match (unequal, comparison) {
            _ if let Some(cell) = silent => {
                format!(
                    "no comparison, because no request to {} succeeded",
                    cell.mesh
                )
            }
            (Some(why), _) => format!("no answer, because {why}"),
            (None, Some(comparison)) if load.is_open() => {
                sentence(comparison, own, reference.name == plan.baseline)
            }
            (None, Some(comparison)) => capacity::sentence(comparison, own, other),
            (None, None) => missing(own, other),
        };
        Some(Answer {
            mesh: mesh.name.clone(),
            reference: reference.name.clone(),
            load: load.name.clone(),
            grade: own.verdict.grade.max(other.verdict.grade),
            outcome: answered.and_then(outcome),
            text: format!("{head}: {body}."),
            caution: answered.and_then(|c| match load.is_open() {
                true => caution(c, own),
                false => capacity::caution(own, other),
            }),
        })
    };
    pairs.into_iter().filter_map(answer).collect()
}

/// The title of a mesh if it is short and unique, else its name.
fn subject<'a>(mesh: &'a Mesh, all: &[Mesh]) -> &'a str {
    let title = mesh.title.trim();
    let shared = all.iter().filter(|m| m.title.trim() == title).count() > 1;
    if title.is_empty() || shared || title.chars().count() > TITLE_CHARS {
        &mesh.name
    } else {
        title
    }
}

/// Whether the trials of a cell were used, but no request succeeded.
fn unanswered(cell: &Cell) -> bool {
    !cell.trials_used.is_empty() && cell.counts.ok == 0
}

/// Why two meshes are not compared.
fn missing(own: &Cell, other: &Cell) -> String {
    for cell in [own, other] {
        if cell.trials_used.is_empty() {
            return format!("no comparison, because {} has no usable trial", cell.mesh);
        }
    }
    "no comparison, because no block has usable trials of both".to_owned()
}

/// Limits first, then the median, p99 and CPU. The proxies' CPU and memory follow in comparisons with
/// the baseline only, because they are figures of the mesh and not of the pair.
fn sentence(comparison: &MeshComparison, own: &Cell, baseline: bool) -> String {
    let mut parts: Vec<String> = saturation(own).into_iter().collect();
    let said: Vec<String> = [Figure::P50, Figure::P99]
        .into_iter()
        .filter_map(|what| Some(ratio(comparison.ratio(what)?, true)))
        .collect();
    if said.is_empty() {
        parts.push("too few responses for a comparison".to_owned());
    }
    parts.extend(said);
    let cpu = Figure::CPU
        .into_iter()
        .find_map(|what| comparison.ratio(what));
    parts.extend(cpu.map(|r| ratio(r, false)));
    parts.extend(proxies(own).filter(|_| baseline));
    parts.join("; ")
}

/// `the median is x5.3 (4.5 to 6.2), +2.3 ms on this machine`.
fn ratio(ratio: &Ratio, here: bool) -> String {
    let name = ratio.what.phrase();
    let interval = figures::ratio_interval(ratio.value, ratio.low, ratio.high);
    let here = match here {
        true => format!(
            ", {} on this machine",
            figures::signed_duration(ratio.difference)
        ),
        false => String::new(),
    };
    match ratio.outcome {
        Outcome::Different => match figures::wide_factor(ratio.low, ratio.high) {
            Some(factor) => format!("{name} {factor}{here}"),
            None => format!("{name} is {interval}{here}"),
        },
        Outcome::Same => {
            let margin = figures::percent(ratio.margin);
            let margin = margin.trim_start_matches('+');
            format!("{name} is the same within {margin}: {interval}")
        }
        Outcome::NotResolved => format!("{name} is not resolved: {}", figures::unresolved(ratio)),
    }
}

/// What limited the mesh: `saturated in 3 of 5 trials (...), it carried 469 of 500 rps`.
fn saturation(cell: &Cell) -> Option<String> {
    let saturation = cell.saturation.as_ref()?;
    let first = saturation.found.first()?;
    let (trials, all) = (saturation.trials, cell.trials_used.len());
    let carried = cell.achieved_rps.filter(|rps| *rps < 0.99 * cell.rate_rps);
    let carried = carried.map_or(String::new(), |rps| {
        format!(
            ", it carried {:.0} of {}",
            rps,
            figures::rate(cell.rate_rps)
        )
    });
    Some(format!(
        "saturated in {trials} of {all} trials ({first}){carried}"
    ))
}

/// What qualifies the answer: other trials that give another outcome, and requests that failed.
fn caution(comparison: &MeshComparison, own: &Cell) -> Option<String> {
    let mut sentences: Vec<String> = Vec::new();
    for what in [Figure::P50, Figure::P99] {
        for variant in comparison.ratio(what).into_iter().flat_map(|r| &r.variants) {
            let blocks = variant.blocks;
            let trials = match variant.trials {
                TrialSelection::AllBlocks => {
                    format!(
                        "over the first attempts at all {blocks} blocks, also the disturbed ones"
                    )
                }
                TrialSelection::WithoutSuspect => {
                    format!("over the {blocks} blocks without a suspect trial")
                }
            };
            let interval = figures::ratio_interval(variant.value, variant.low, variant.high);
            let outcome = variant.outcome.words();
            sentences.push(format!("{trials}, {what} is {outcome}: {interval}"));
        }
    }
    let p99 = own
        .latency_of_all
        .iter()
        .find(|p| p.name == Figure::P99 && p.supported);
    if let Some(p99) = p99 {
        let found = p99.value_ns.map_or_else(
            || "not answered within the timeout".to_owned(),
            |ns| figures::duration(ns as f64),
        );
        let failed = figures::count(own.counts.planned - own.counts.ok);
        sentences.push(format!(
            "latencies are of successful requests; of all, {failed} of which failed, p99 is {found}"
        ));
    }
    let text = sentences.join("; ");
    let mut letters = text.chars();
    let first = letters.next()?;
    Some(format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn proxies(cell: &Cell) -> Option<String> {
    let plane = cell.planes.get(&Plane::DataPlane)?;
    let per_krps = plane.cpu_cores_per_krps.as_ref()?;
    let cores = figures::interval(per_krps.value, per_krps.low, per_krps.high, "cores");
    let memory = figures::bytes(plane.memory_bytes.value);
    Some(format!(
        "its proxies used {cores} per 1,000 rps and {memory} of memory"
    ))
}
