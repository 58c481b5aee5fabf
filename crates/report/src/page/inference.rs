//! What a comparison bears beyond its interval: for those who take it apart.

use tare_analysis::figures;
use tare_model::summary::{Difference, Inference, Summary};

use crate::page::html::Html;
use crate::page::tables::{per_load, plain, row_head};

pub(crate) fn table(page: &mut Html, summary: &Summary) {
    let stated = |d: &&Difference| d.supported && d.inference.is_some();
    let overheads = summary.cells.iter().filter_map(|c| c.overhead.as_ref());
    if !overheads.flat_map(|o| &o.latency).any(|d| stated(&d)) {
        return;
    }
    let margin = figures::significant(summary.equivalence_margin * 100.0);
    page.tag(
        "p class=\"caption\"",
        &format!(
            "What the comparisons bear. p belongs to the interval; Holm's p is corrected for all latency \
             comparisons of this page; the permutation and Mann-Whitney tests are on the runs' figures. \
             \"The same within\" is the smallest margin inside which the two are equivalent (bold up to {margin} %); \
             \"would find\" is the true difference that as many blocks find four times of five."
        ),
    );
    let columns = [
        "mesh",
        "of",
        "p",
        "p, Holm",
        "permutation",
        "Mann-Whitney",
        "the same within",
        "would find",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for d in cell.overhead.iter().flat_map(|o| &o.latency).filter(stated) {
            let Some(inference) = &d.inference else {
                continue;
            };
            row_head(page, summary, cell);
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

/// A time, and what share of the baseline's figure it is.
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
