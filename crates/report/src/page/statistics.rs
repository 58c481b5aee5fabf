//! The statistics of each comparison beyond its interval.

use tare_analysis::figures;
use tare_model::summary::{Difference, Inference, Summary};

use super::html::Html;
use super::parts::{caption, open_row, per_load, plain};

pub(super) fn table(page: &mut Html, summary: &Summary) {
    let supported = |d: &&Difference| d.supported && d.inference.is_some();
    let overheads = summary.cells.iter().filter_map(|c| c.overhead.as_ref());
    if !overheads.flat_map(|o| &o.latency).any(|d| supported(&d)) {
        return;
    }
    let margin = figures::significant(summary.equivalence_margin * 100.0);
    caption(
        page,
        &format!(
            "Statistics of the comparisons. p belongs to the interval. Holm's p is corrected for all latency \
             comparisons of this page. The permutation and Mann-Whitney tests use one figure per trial. \
             \"Equivalent within\" is the smallest margin within which the two are shown to be the same (bold up to \
             {margin} %). \"Detectable\" is the true difference that this number of blocks detects in 80 % of \
             repetitions."
        ),
    );
    let columns = [
        "mesh",
        "figure",
        "p",
        "p, Holm",
        "permutation",
        "Mann-Whitney",
        "equivalent within",
        "detectable",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for d in cell
            .overhead
            .iter()
            .flat_map(|o| &o.latency)
            .filter(supported)
        {
            let Some(inference) = &d.inference else {
                continue;
            };
            open_row(page, summary, &cell.mesh);
            plain(page, &d.what);
            row(page, inference);
            page.raw("</tr>\n");
        }
    });
}

fn row(page: &mut Html, i: &Inference) {
    for p in [i.p, i.p_holm, i.p_permutation, i.p_mann_whitney] {
        plain(page, &probability(p));
    }
    let within = size(i.equivalent_within, i.equivalent_within_ratio);
    if i.equivalent {
        page.raw("<td>").tag("b", &within).raw("</td>");
    } else {
        plain(page, &within);
    }
    plain(page, &size(i.detectable, i.detectable_ratio));
}

/// A duration and its share of the baseline's figure.
fn size(ns: f64, ratio: Option<f64>) -> String {
    let share = ratio.map_or(String::new(), |r| {
        format!(", {} %", figures::significant(r * 100.0))
    });
    format!("{}{share}", figures::duration(ns))
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "< 0.0001".to_owned()
    } else {
        figures::significant(p)
    }
}
