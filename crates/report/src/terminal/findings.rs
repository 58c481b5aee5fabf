//! The findings of a run below its tables, with remedies.

use std::cmp::Reverse;

use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::verdict::{Finding, Grade};

use super::output::{Output, PLAIN};
use crate::words;

/// Writes why cells are not valid, which trials are outliers, and what could not be read.
pub(super) fn write(out: &mut Output, summary: &Summary) {
    let before = out.text.len();
    for group in groups(summary) {
        let everywhere = group.same.len() == summary.cells.len() && group.same.len() > 1;
        let (place, alike) = if everywhere {
            ("all meshes and loads", 0)
        } else {
            (group.same[0].as_str(), group.same.len() - 1)
        };
        let more = match alike + group.others {
            0 => String::new(),
            n => format!(" (and {n} similar)"),
        };
        let Finding {
            grade,
            found,
            remedy,
            ..
        } = group.first;
        let text = format!("{}: {place}: {found}{more}. {remedy}", grade.word());
        out.wrapped(PLAIN, &text, "", "  ");
    }
    for trial in &summary.trials {
        if let Some(outlier) = &trial.outlier {
            let text = format!(
                "outlier, used: trial {}, {} at {}: {}.",
                trial.index,
                trial.mesh,
                trial.load,
                words::outlier(outlier)
            );
            out.wrapped(PLAIN, &text, "", "  ");
        }
    }
    for note in &summary.notes {
        out.wrapped(PLAIN, &format!("note: {note}."), "", "  ");
    }
    if out.text.len() > before {
        out.line("");
    }
}

/// All findings of one reason and grade. The terminal shows the first; the page lists all.
struct Group<'a> {
    first: &'a Finding,
    /// Where exactly this was found; never empty.
    same: Vec<String>,
    /// Number of findings of the same kind with other figures.
    others: usize,
}

/// Groups the findings of cells and of unused trials, worst first.
fn groups(summary: &Summary) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &summary.cells {
        for finding in &cell.verdict.reasons {
            add(
                &mut groups,
                finding,
                format!("{} at {}", cell.mesh, cell.load),
            );
        }
    }
    let unused = |t: &&TrialRow| t.status != TrialStatus::Used && t.verdict.grade == Grade::Invalid;
    for trial in summary.trials.iter().filter(unused) {
        let mut cells = summary.cells.iter();
        let cell = cells.find(|c| c.mesh == trial.mesh && c.load == trial.load);
        // A cell without a used trial already has the findings of its trials.
        if !cell.is_some_and(|c| c.trials_used.is_empty()) {
            let place = format!(
                "trial {}, {} at {}, {}",
                trial.index,
                trial.mesh,
                trial.load,
                trial.status.words()
            );
            for finding in &trial.verdict.reasons {
                add(&mut groups, finding, place.clone());
            }
        }
    }
    groups.sort_by_key(|g| Reverse(g.first.grade));
    groups
}

fn add<'a>(groups: &mut Vec<Group<'a>>, finding: &'a Finding, place: String) {
    let kind = |f: &Finding| (f.grade, f.reason);
    let alike = groups.iter_mut().find(|g| kind(g.first) == kind(finding));
    match alike {
        Some(group) if group.first == finding => group.same.push(place),
        Some(group) => group.others += 1,
        None => groups.push(Group {
            first: finding,
            same: vec![place],
            others: 0,
        }),
    }
}
