//! The runs of one plan on several clusters, side by side, and which cluster differs.

use tare_analysis::figures;
use tare_plan::Unit;
use tare_records::summary::clusters::{ClusterCell, ClusterRow, ClustersComparison};

use super::output::{Output, PLAIN, RED, WIDTH, YELLOW};
use crate::table::{Cell, Column, Columns, Scale, Table, text};
use crate::text::fit;

/// Most characters of the name of a cluster above its column.
const NAME_MAX: usize = 14;

/// Below this p-value, a figure that does not differ after the correction has a mark.
const CHANCE_P_MAX: f64 = 0.05;

/// Returns the comparison as text: one table per mesh and load, then which clusters differ.
#[must_use]
pub fn render_clusters(comparison: &ClustersComparison, colour: bool) -> String {
    let mut out = Output::new(colour);
    for cluster in &comparison.clusters {
        let line = format!(
            "cluster {}: {}, {} trials",
            cluster.context,
            cluster.grade.word(),
            cluster.trials
        );
        out.line(&fit(&line, WIDTH));
    }
    for warning in &comparison.warnings {
        out.wrapped(YELLOW, &format!("warning: {warning}."), "", "  ");
    }
    let same = |a: &ClusterRow, b: &ClusterRow| (&a.mesh, &a.load) == (&b.mesh, &b.load);
    for rows in comparison.rows.chunk_by(same) {
        out.line("");
        text::write(&mut out, &figures_of(comparison, rows));
    }
    out.line("");
    for (code, sentence) in sentences(comparison) {
        out.wrapped(code, &sentence, "", "  ");
    }
    out.text
}

/// The figures of a mesh under a load, on each cluster.
fn figures_of(comparison: &ClustersComparison, rows: &[ClusterRow]) -> Table {
    let clusters = &comparison.clusters;
    let column = |i: usize| Column::number(fit(&clusters[i].context, NAME_MAX), Scale::Number);
    let title = format!("{} at {}", rows[0].mesh, rows[0].load);
    Columns::of(rows)
        .with(Column::text(title), |row| Cell::text(row.what.label()))
        .each(0..clusters.len(), column, |row, i| {
            let found = row.cells[i].as_ref();
            found.map_or(Cell::Absent(""), |found| marked(row.unit, found))
        })
        .table("")
}

fn marked(unit: Unit, cell: &ClusterCell) -> Cell {
    let mark = match cell.p {
        _ if cell.differs => "* ",
        Some(p) if p < CHANCE_P_MAX => "? ",
        _ => "",
    };
    Cell::text(format!("{mark}{}", figures::in_unit(cell.value, unit)))
}

/// Returns which clusters differ, each with its clearest figure; each sentence with its colour.
fn sentences(comparison: &ClustersComparison) -> Vec<(&'static str, String)> {
    if comparison.rows.is_empty() {
        let text = "Nothing to compare: no mesh and load has usable trials on two clusters.";
        return vec![(PLAIN, text.to_owned())];
    }
    let clusters = 0..comparison.clusters.len();
    let differences = clusters.filter_map(|index| difference(comparison, index));
    let mut all: Vec<(&str, String)> = differences.map(|text| (RED, text)).collect();
    if all.is_empty() {
        let mut cells = comparison
            .rows
            .iter()
            .flat_map(|r| r.cells.iter().flatten());
        let text = if cells.all(|c| c.p.is_none()) {
            "Too few blocks to compare the clusters: each needs at least two usable trials."
        } else {
            "No cluster differs from the others."
        };
        all.push((PLAIN, text.to_owned()));
    }
    let legend = format!(
        "* different; ? different, but may be chance. A cluster is different if it differs in the same direction from \
         more than half of the others, in pairwise Welch tests at {:.0} %; * also after Holm's correction for all \
         pairs and figures here.",
        comparison.confidence * 100.0
    );
    all.push((PLAIN, legend));
    all
}

/// Returns in what a cluster differs from the others, with its clearest figure.
fn difference(comparison: &ClustersComparison, index: usize) -> Option<String> {
    let two = |row: &ClusterRow| row.cells.iter().flatten().count() == 2;
    let rows = comparison.rows.iter();
    let cells = rows.filter_map(|row| Some((row, row.cells[index].as_ref()?)));
    // With two clusters each differs from the other: only the higher one is named.
    let named = cells.filter(|(row, c)| c.differs && !(two(row) && c.ratio < 1.0));
    let found: Vec<(&ClusterRow, &ClusterCell)> = named.collect();
    // The first of several that are equally clear.
    let clearest = found.iter().rev();
    let (row, cell) = clearest.max_by(|a, b| clearness(a.1).total_cmp(&clearness(b.1)))?;
    Some(format!(
        "Different: {}, in {} {}; clearest: {} of {} at {} is {}, x{} {}.",
        comparison.clusters[index].context,
        found.len(),
        if found.len() == 1 {
            "figure"
        } else {
            "figures"
        },
        row.what.label(),
        row.mesh,
        row.load,
        figures::in_unit(cell.value, row.unit),
        figures::significant(cell.ratio),
        if two(row) {
            "the other's"
        } else {
            "the others' median"
        },
    ))
}

/// Returns how far a cluster is from the others, as the logarithm of the ratio.
fn clearness(cell: &ClusterCell) -> f64 {
    cell.ratio.ln().abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::Figure;
    use tare_records::summary::clusters::ComparedCluster;
    use tare_records::verdict::Grade;

    fn cell(value: f64, others: f64, differs: bool) -> ClusterCell {
        ClusterCell {
            value,
            trials: 5,
            ratio: value / others,
            p: Some(0.5),
            p_holm: Some(0.5),
            differs,
        }
    }

    fn comparison(cells: Vec<Option<ClusterCell>>) -> ClustersComparison {
        let clusters = ["blue", "green", "red"][..cells.len()].iter();
        ClustersComparison {
            schema_version: tare_plan::SCHEMA_VERSION,
            confidence: 0.95,
            clusters: clusters
                .map(|c| ComparedCluster {
                    context: (*c).to_owned(),
                    run: "r".into(),
                    grade: Grade::Valid,
                    trials: 9,
                })
                .collect(),
            warnings: vec!["run-queue delay: measured on blue only".to_owned()],
            rows: vec![ClusterRow {
                mesh: "bare".into(),
                load: "60rps".into(),
                what: Figure::P50,
                unit: Unit::Ns,
                cells,
            }],
        }
    }

    #[test]
    fn a_different_cluster_is_named_with_its_figure() {
        let one = cell(1e6, 1.5e6, false);
        let text = render_clusters(
            &comparison(vec![
                Some(one.clone()),
                Some(one),
                Some(cell(2e6, 1e6, true)),
            ]),
            false,
        );
        assert!(
            text.contains(
                "Different: red, in 1 figure; clearest: p50 of bare at 60rps is 2.00 ms,"
            ),
            "{text}"
        );
        assert!(text.contains("* 2.00 ms"), "{text}");
        assert!(
            text.contains("\nwarning: run-queue delay: measured on blue only.\n"),
            "{text}"
        );
    }

    #[test]
    fn the_clearest_figure_has_the_largest_ratio() {
        let columns = |value| {
            let one = cell(1e6, 1e6, false);
            vec![Some(one.clone()), Some(one), Some(cell(value, 1e6, true))]
        };
        let mut of = comparison(columns(1.5e6));
        of.rows[0].what = Figure::P99;
        of.rows.extend(comparison(columns(0.25e6)).rows);
        let text = render_clusters(&of, false);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains("red, in 2 figures; clearest: p50 of bare"),
            "{text}"
        );
        assert!(
            flat.contains("is 250 µs, x0.250 the others' median."),
            "{text}"
        );
    }

    #[test]
    fn equal_clusters_and_clusters_without_trials_are_reported() {
        let text = render_clusters(&comparison(vec![Some(cell(1e6, 1e6, false)); 2]), false);
        assert!(
            text.contains("No cluster differs from the others"),
            "{text}"
        );
        let mut none = comparison(vec![None, None]);
        none.rows.clear();
        assert!(render_clusters(&none, false).contains("Nothing to compare"));
    }
}
