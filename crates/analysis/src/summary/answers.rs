//! The answers: one sentence for each mesh, which states no more than the figures show.

use tare_model::mesh::Mesh;
use tare_model::plan::{Load, Plan};
use tare_model::summary::{Answer, Cell, Difference, Distinction};
use tare_model::worker::Plane;

use crate::figures;

/// Longest title that is used in a sentence. A mesh with a longer title appears by its name.
const TITLE_CHARS: usize = 48;

/// One answer for each mesh except the baseline, under the load with the highest rate.
pub(super) fn of(plan: &Plan, cells: &[Cell], comparisons: usize) -> Vec<Answer> {
    let highest = plan
        .loads
        .iter()
        .max_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps));
    let Some(load) = highest else {
        return Vec::new();
    };
    let find = |mesh: &str| cells.iter().find(|c| c.mesh == mesh && c.load == load.name);
    let Some(base) = find(&plan.baseline) else {
        return Vec::new();
    };
    plan.meshes
        .iter()
        .filter(|mesh| mesh.name != plan.baseline)
        .filter_map(|mesh| {
            let subject = subject(mesh, &plan.meshes);
            let cell = find(&mesh.name)?;
            let caution = caution(cell, comparisons);
            Some(Answer {
                caution,
                ..answer(mesh, subject, load, cell, base)
            })
        })
        .collect()
}

fn answer(mesh: &Mesh, subject: &str, load: &Load, cell: &Cell, base: &Cell) -> Answer {
    let median = difference(cell, "p50").filter(|d| d.supported);
    Answer {
        mesh: mesh.name.clone(),
        load: load.name.clone(),
        grade: cell.verdict.grade.max(base.verdict.grade),
        distinction: median.map(|d| d.distinction),
        text: sentence(subject, &figures::rate(load.rate_rps), cell, base),
        caution: None,
    }
}

/// A caution if the correction for the number of comparisons changes the outcome at p50 or p99.
fn caution(cell: &Cell, comparisons: usize) -> Option<String> {
    let weakened: Vec<&str> = [("p50", "the median"), ("p99", "p99")]
        .into_iter()
        .filter(|(what, _)| {
            let stated = difference(cell, what).filter(|d| d.supported);
            let changed = |d: &Difference| {
                d.inference
                    .as_ref()
                    .is_some_and(|i| i.corrected != d.distinction)
            };
            stated.is_some_and(changed)
        })
        .map(|(_, words)| words)
        .collect();
    if weakened.is_empty() {
        return None;
    }
    Some(format!(
        "Among the {comparisons} comparisons of this report, the difference in {} may be chance \
         (Holm's correction).",
        weakened.join(" and in ")
    ))
}

/// The title of a mesh if it is short and no other mesh has it, else the name.
fn subject<'a>(mesh: &'a Mesh, all: &[Mesh]) -> &'a str {
    let title = mesh.title.trim();
    let shared = all.iter().filter(|m| m.title.trim() == title).count() > 1;
    if title.is_empty() || shared || title.chars().count() > TITLE_CHARS {
        &mesh.name
    } else {
        title
    }
}

fn difference<'a>(cell: &'a Cell, what: &str) -> Option<&'a Difference> {
    cell.overhead
        .as_ref()?
        .latency
        .iter()
        .find(|d| d.what == what)
}

fn sentence(mesh: &str, rate: &str, cell: &Cell, base: &Cell) -> String {
    let baseline = &base.mesh;
    if cell.trials_used.is_empty() {
        return format!("{mesh}: no usable trial at {rate}.");
    }
    if base.trials_used.is_empty() {
        return format!("{mesh}: no comparison, because {baseline} has no usable trial at {rate}.");
    }
    let Some(median) = difference(cell, "p50") else {
        return format!(
            "{mesh}: no comparison, because no block at {rate} has usable trials of both {mesh} \
             and {baseline}."
        );
    };
    if !median.supported {
        return format!("{mesh}: too few responses at {rate} for a comparison.");
    }
    let shown = figures::duration_interval(median.value, median.low, median.high);
    let latency = match median.distinction {
        Distinction::Higher => {
            format!("{mesh} added {shown} to the median{} at {rate}", tail(cell))
        }
        Distinction::Lower => {
            let shown = figures::duration_interval(
                -median.value,
                median.high.map(|x| -x),
                median.low.map(|x| -x),
            );
            format!(
                "{mesh} reduced the median by {shown}{} at {rate}",
                tail(cell)
            )
        }
        Distinction::NotDistinguishable => format!(
            "{mesh}: not distinguishable from {baseline} in the median at {rate}{}; the difference \
             was {shown}{}",
            within(median),
            tail(cell)
        ),
        Distinction::TooFewBlocks => {
            return format!(
                "{mesh}: the difference of {shown} in the median at {rate} may be chance, because \
                 only one block was compared."
            );
        }
    };
    format!("{latency}{}.", cost(cell))
}

/// The margin within which the two are equivalent. It limits the difference, whereas "not
/// distinguishable" alone does not.
fn within(median: &Difference) -> String {
    median.inference.as_ref().map_or(String::new(), |i| {
        format!(" within {}", figures::duration(i.equivalent_within))
    })
}

/// The outcome at p99; empty if p99 has too few samples.
fn tail(cell: &Cell) -> String {
    let Some(p99) = difference(cell, "p99").filter(|d| d.supported) else {
        return String::new();
    };
    let median = difference(cell, "p50").map(|d| d.distinction);
    let shown = figures::duration_interval(p99.value, p99.low, p99.high);
    match p99.distinction {
        d if Some(d) == median && d == Distinction::Higher => format!(" and {shown} to p99"),
        Distinction::Higher => format!(" (and p99 was higher by {shown})"),
        Distinction::Lower => format!(" (and p99 was lower: {shown})"),
        Distinction::NotDistinguishable if median != Some(Distinction::NotDistinguishable) => {
            " (p99: not distinguishable)".to_owned()
        }
        _ => String::new(),
    }
}

/// CPU and memory of the data plane; empty if they were not measured.
fn cost(cell: &Cell) -> String {
    let Some(plane) = cell.planes.get(&Plane::DataPlane) else {
        return String::new();
    };
    let Some(per_krps) = &plane.cpu_cores_per_krps else {
        return String::new();
    };
    let tenth = |x: f64| x / 10.0;
    let shown = figures::interval(
        tenth(per_krps.value),
        per_krps.low.map(tenth),
        per_krps.high.map(tenth),
        "cores",
    );
    format!(
        "; the data plane used {shown} per 100 rps and {} of memory",
        figures::bytes(plane.memory_bytes.value)
    )
}
