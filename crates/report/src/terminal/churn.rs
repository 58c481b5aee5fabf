//! The control plane under loads with churn.

use tare_records::summary::Summary;

use super::output::{BOLD, DIM, Output, PLAIN};
use crate::churn_words::{self, COLUMNS, Words};
use crate::text::{fit, printable};

/// Width of the names of the figures.
const NAME: usize = 20;

/// Writes a sentence about each mesh.
pub(super) fn answers(out: &mut Output, summary: &Summary) {
    for answer in churn_words::answers(summary) {
        out.wrapped(BOLD, &answer, "* ", "  ");
    }
}

/// Writes a figure a line for each mesh and load; nothing for a plan without churn.
pub(super) fn table(out: &mut Output, summary: &Summary) {
    let cells = churn_words::cells(summary);
    if cells.is_empty() {
        return;
    }
    out.painted(BOLD, "Control plane, with endpoints that change");
    for (cell, churn) in cells {
        let heading = format!("{}, {}", cell.mesh, churn_words::heading(churn));
        out.painted(DIM, &printable(&heading));
        for (name, (value, ends)) in COLUMNS.iter().zip(churn_words::row(cell, churn)) {
            if value != "-" {
                line(out, name, (value, ends));
            }
        }
        let metrics = churn_words::metrics(churn);
        if !metrics.is_empty() {
            let words = format!("the control plane itself: {metrics}");
            out.wrapped(PLAIN, &printable(&words), "  ", "    ");
        }
    }
    out.line("");
    out.wrapped(DIM, churn_words::CHURN, "", "");
    out.line("");
}

fn line(out: &mut Output, name: &str, (value, ends): Words) {
    let ends = ends.map_or_else(String::new, |ends| format!(" ({ends})"));
    out.line(&format!("  {:<NAME$}{value}{ends}", fit(name, NAME - 1)));
}
