//! The runs of one plan on several clusters, side by side: which cluster is unlike the others.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use tare_analysis::compare::across::Side;
use tare_analysis::figures;
use tare_model::layout;
use tare_model::summary::Distinction;
use tare_model::summary::clusters::{
    ClusterCell, ClusterRow, ClustersComparison, ClustersManifest,
};

use crate::comparison::{figure, unit, words};
use crate::text::{fit, wrap};
use crate::{LoadedRun, WriteError, load_run, summarise, write_whole};

/// Widest line of prose, in characters; tables are as wide as there are clusters.
const WIDTH: usize = 80;
const NAME_WIDTH: usize = 20;
const COLUMN_WIDTH: usize = 14;

/// Compares the runs that are there and writes `comparison.json` and `comparison.txt`
/// into `dir`. Runs that cannot be read are left out, and returned with the reason.
///
/// # Errors
/// [`WriteError::Io`] when a file cannot be written.
pub fn write_clusters(
    dir: &Path,
    manifest: &ClustersManifest,
) -> Result<(ClustersComparison, Vec<String>), WriteError> {
    let mut runs: Vec<(&str, LoadedRun)> = Vec::new();
    let mut missing = Vec::new();
    for cluster in &manifest.clusters {
        match load_run(&dir.join(&cluster.dir)) {
            Ok(run) => runs.push((&cluster.context, run)),
            Err(error) => missing.push(format!("cluster {}: {error}", cluster.context)),
        }
    }
    let sides: Vec<(&str, Side<'_>)> = runs
        .iter()
        .map(|(context, run)| {
            let side = Side {
                manifest: &run.manifest,
                trials: &run.trials,
                grade: summarise(run).grade,
            };
            (*context, side)
        })
        .collect();
    let comparison = tare_analysis::compare::clusters::compare(&sides);
    let mut json = serde_json::to_string_pretty(&comparison).map_err(WriteError::Json)?;
    json.push('\n');
    write_whole(&dir.join(layout::CLUSTERS_COMPARISON), json.as_bytes())?;
    let text = render_clusters(&comparison, false);
    write_whole(&dir.join(layout::CLUSTERS_TEXT), text.as_bytes())?;
    Ok((comparison, missing))
}

/// The comparison as text: a table for each mesh under each load, and what is unlike.
#[must_use]
pub fn render_clusters(comparison: &ClustersComparison, colour: bool) -> String {
    let paint = |code: &str, text: &str| match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    let mut out = String::new();
    for cluster in &comparison.clusters {
        let line = format!(
            "cluster {}: {}, {} trials",
            cluster.context,
            cluster.grade.word(),
            cluster.trials
        );
        let _ = writeln!(out, "{}", fit(&line, WIDTH));
    }
    let mut tables: Vec<((&str, &str), Vec<&ClusterRow>)> = Vec::new();
    for row in &comparison.rows {
        let key = (row.mesh.as_str(), row.load.as_str());
        match tables.last_mut().filter(|t| t.0 == key) {
            Some(table) => table.1.push(row),
            None => tables.push((key, vec![row])),
        }
    }
    for ((mesh, load), rows) in tables {
        let title = fit(&format!("{mesh} at {load}"), NAME_WIDTH);
        let mut head = format!("{title:<NAME_WIDTH$}");
        for cluster in &comparison.clusters {
            let name = fit(&cluster.context, COLUMN_WIDTH - 3);
            let _ = write!(head, "{name:>width$}  ", width = COLUMN_WIDTH - 2);
        }
        let _ = writeln!(out, "\n{}", paint("1", head.trim_end()));
        for row in rows {
            let mut line = format!(
                "{:<NAME_WIDTH$}",
                format!("{}, {}", words(&row.what), unit(&row.unit))
            );
            for cell in &row.cells {
                line += &column(&row.unit, cell.as_ref());
            }
            let unlike = row.cells.iter().flatten().any(|c| c.unlike);
            let code = if unlike { "31" } else { "0" };
            let _ = writeln!(out, "{}", paint(code, line.trim_end()));
        }
    }
    out.push('\n');
    for sentence in sentences(comparison) {
        for line in wrap(&sentence, WIDTH, "", "  ") {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn column(unit: &str, cell: Option<&ClusterCell>) -> String {
    let Some(cell) = cell else {
        return format!("{:>width$}  ", "-", width = COLUMN_WIDTH - 2);
    };
    let mark = match cell.distinction {
        _ if cell.unlike => '*',
        Distinction::Higher | Distinction::Lower => '?',
        _ => ' ',
    };
    let figure = figure(unit, cell.value);
    format!("{figure:>width$} {mark}", width = COLUMN_WIDTH - 2)
}

/// What may be said: the farthest figure of each cluster that is unlike the others.
fn sentences(comparison: &ClustersComparison) -> Vec<String> {
    if comparison.rows.is_empty() {
        return vec![
            "Nothing to compare: no mesh and load has usable trials on two clusters.".into(),
        ];
    }
    let mut farthest: BTreeMap<usize, (f64, usize, String)> = BTreeMap::new();
    for row in &comparison.rows {
        let two = row.cells.iter().flatten().count() == 2;
        for (place, cell) in row.cells.iter().enumerate() {
            let Some(cell) = cell.as_ref().filter(|c| c.unlike) else {
                continue;
            };
            // Of two clusters neither is the odd one: the higher is named, against the other.
            if two && cell.difference < 0.0 {
                continue;
            }
            let far = farness(cell);
            let entry = farthest
                .entry(place)
                .or_insert_with(|| (-1.0, 0, String::new()));
            entry.1 += 1;
            if far > entry.0 {
                let against = if two {
                    "the other's"
                } else {
                    "the others' median"
                };
                entry.0 = far;
                entry.2 = format!(
                    "{} of {} at {} is {} {unit}, {against} {} {unit}",
                    words(&row.what),
                    row.mesh,
                    row.load,
                    figure(&row.unit, cell.value),
                    figure(&row.unit, median_of_others(row, place)),
                    unit = unit(&row.unit),
                );
            }
        }
    }
    let mut all: Vec<String> = farthest
        .iter()
        .map(|(place, (_, count, farthest))| {
            let context = &comparison.clusters[*place].context;
            let figures = if *count == 1 { "figure" } else { "figures" };
            format!("Unlike: {context}, in {count} {figures}; farthest: {farthest}.")
        })
        .collect();
    if all.is_empty() {
        let cells = || {
            comparison
                .rows
                .iter()
                .flat_map(|r| r.cells.iter().flatten())
        };
        let without = cells().all(|c| c.p.is_none());
        all.push(
            match without {
                true => {
                    "Too few blocks to tell the clusters apart: two usable trials of each at least."
                }
                false => "No cluster is told apart from the others.",
            }
            .to_owned(),
        );
    }
    all.push(format!(
        "* unlike, ? perhaps chance: differs in one direction from more than half of the others, pair by pair, at {} \
         (Welch), * also after Holm's correction for all pairs and figures here.",
        figures::percent(comparison.confidence)
    ));
    all
}

/// How far a cluster lies from the others, in halves of the interval of that difference:
/// a share of the others' figure would be boundless where that is near zero. Zero
/// without a width, so that any figure that has one goes before it.
fn farness(cell: &ClusterCell) -> f64 {
    let width = cell.low.zip(cell.high).map(|(low, high)| high - low);
    let half = width.map(|w| w / 2.0).filter(|half| *half > 0.0);
    half.map_or(0.0, |half| cell.difference.abs() / half)
}

/// Median of the other clusters' figures, in the row's unit: what a reader holds the
/// cluster against, as another bad one would pull their mean.
fn median_of_others(row: &ClusterRow, place: usize) -> f64 {
    let others = row.cells.iter().enumerate().filter(|(i, _)| *i != place);
    let mut values: Vec<f64> = others
        .filter_map(|(_, c)| c.as_ref().map(|c| c.value))
        .collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.as_slice() {
        [] => f64::NAN,
        some => f64::midpoint(some[(some.len() - 1) / 2], some[some.len() / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::summary::clusters::ComparedCluster;
    use tare_model::verdict::Grade;

    fn cell(value: f64, others: f64, unlike: bool) -> ClusterCell {
        let distinction = match unlike {
            true => Distinction::Higher,
            false => Distinction::NotDistinguishable,
        };
        ClusterCell {
            value,
            trials: 5,
            others,
            difference: value - others,
            low: Some(0.0),
            high: Some(0.0),
            p: Some(0.5),
            p_holm: Some(0.5),
            distinction,
            unlike,
        }
    }

    fn comparison(cells: Vec<Option<ClusterCell>>) -> ClustersComparison {
        let clusters = ["blue", "green", "red"][..cells.len()].iter();
        ClustersComparison {
            schema_version: tare_model::SCHEMA_VERSION,
            confidence: 0.95,
            clusters: clusters
                .map(|c| ComparedCluster {
                    context: (*c).to_owned(),
                    run: "r".into(),
                    grade: Grade::Valid,
                    trials: 9,
                })
                .collect(),
            rows: vec![ClusterRow {
                mesh: "bare".into(),
                load: "60rps".into(),
                what: "p50".into(),
                unit: "ns".into(),
                cells,
            }],
        }
    }

    #[test]
    fn the_lemon_is_named_with_its_figure() {
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
            text.contains("Unlike: red, in 1 figure; farthest: p50 of bare at 60rps is 2.00 ms"),
            "{text}"
        );
        assert!(text.contains("2.00 *"), "{text}");
    }

    #[test]
    fn the_farthest_figure_is_the_surest_not_the_one_against_nearly_nothing() {
        let reaching = |cell: ClusterCell, half: f64| ClusterCell {
            low: Some(cell.difference - half),
            high: Some(cell.difference + half),
            ..cell
        };
        let near_zero = reaching(cell(0.2e6, 0.0, true), 0.15e6);
        let sure = reaching(cell(2e6, 1e6, true), 0.1e6);
        assert!(farness(&sure) > farness(&near_zero));
        assert_eq!(farness(&reaching(cell(2e6, 1e6, true), 0.0)), 0.0);
        let mut of = comparison(vec![
            Some(cell(0.0, 0.1e6, false)),
            Some(cell(0.0, 0.1e6, false)),
            Some(near_zero),
        ]);
        of.rows[0].what = "over_p50".into();
        let one = cell(1e6, 1.5e6, false);
        let p50 = comparison(vec![Some(one.clone()), Some(one), Some(sure)]);
        of.rows.extend(p50.rows);
        let text = render_clusters(&of, false);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains("red, in 2 figures; farthest: p50"), "{text}");
        assert!(flat.contains("the others' median 1.00 ms"), "{text}");
    }

    #[test]
    fn one_bad_cluster_does_not_hide_another_in_what_it_is_held_against() {
        let values = [1e6, 1e6, 1e6, 3e6, 10e6];
        let row = ClusterRow {
            cells: values.map(|v| Some(cell(v, v, false))).to_vec(),
            ..comparison(Vec::new()).rows.remove(0)
        };
        assert_eq!(median_of_others(&row, 3), 1e6);
        assert_eq!(median_of_others(&row, 0), 2e6);
    }

    #[test]
    fn clusters_alike_and_clusters_without_trials_are_said_to_be() {
        let text = render_clusters(&comparison(vec![Some(cell(1e6, 1e6, false)); 2]), false);
        assert!(text.contains("No cluster is told apart"), "{text}");
        let mut none = comparison(vec![None, None]);
        none.rows.clear();
        assert!(render_clusters(&none, false).contains("Nothing to compare"));
    }
}
