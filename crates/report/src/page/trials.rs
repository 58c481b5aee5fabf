//! Every trial with its verdict, reasons and remedies.

use tare_analysis::figures;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::verdict::Grade;

use super::about::quoted;
use super::html::{Html, escape};
use super::noise::{self, Beside};
use super::parts::{caption, open_section};
use crate::table::html;
use crate::{tables, words};

pub(super) fn section(page: &mut Html, summary: &Summary, beside: &[Beside]) {
    open_section(page, "trials", "Trials");
    caption(
        page,
        "All trials on disk, in the order in which they ran. A block that something outside the trials disturbed is \
         left out with the trials of all meshes; what a trial itself did, such as saturation, is never a reason \
         to leave it out. The number of a trial links to its chart over time.",
    );
    noise::strip(page, summary, beside);
    exclusion(page, summary);
    // The script puts a filter here.
    page.raw("\n<div class=\"trial-tools\" data-trials></div>");
    let table = tables::trials(summary);
    let trial = |n: usize| &summary.trials[n];
    html::write_rows(
        page,
        &table,
        "table class=\"trials\"",
        |n| attributes(trial(n)),
        |page, n, columns| reasons(page, trial(n), columns),
    );
    page.raw("</section>\n");
}

/// The command that excludes trials and computes every figure again.
fn exclusion(page: &mut Html, summary: &Summary) {
    let excluded: Vec<String> = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::Excluded)
        .map(|t| t.index.to_string())
        .collect();
    let (words, example) = if excluded.is_empty() {
        (
            "To compute every figure again without certain trials, give their numbers:",
            "3,7".to_owned(),
        )
    } else {
        (
            "Excluded from every figure by this command:",
            excluded.join(","),
        )
    };
    caption(page, words);
    page.raw("<pre class=\"copy\" tabindex=\"0\"><code>")
        .text(&format!(
            "tare report {} --exclude {example}",
            quoted(&summary.run)
        ))
        .raw("</code></pre>\n");
}

/// The attributes of a row: what the script finds it by, the folder, and whether its figures are left out.
fn attributes(trial: &TrialRow) -> String {
    let unused = match trial.status {
        TrialStatus::Used => "",
        _ => " class=\"unused\"",
    };
    let dir = escape(&trial.dir);
    format!("{unused} data-trial=\"{}\" title=\"{dir}\"", trial.index)
}

/// Appends a row with the reasons of the verdict and with what is unusual, if there are any, below all but the first two of
/// the table's columns.
fn reasons(page: &mut Html, trial: &TrialRow, columns: usize) {
    let failed: Vec<_> = trial.proofs.iter().filter(|p| !p.holds).collect();
    let unusual = unusual(trial);
    let nothing = failed.is_empty() && trial.gone.is_empty() && unusual.is_empty();
    if trial.verdict.grade == Grade::Valid && nothing {
        return;
    }
    let rest = columns - 2;
    page.raw(&format!(
        "<tr class=\"reasons\"><td colspan=\"2\"></td><td colspan=\"{rest}\" class=\"l\"><ul>"
    ));
    for finding in &trial.verdict.reasons {
        page.raw("<li>")
            .text(&finding.found)
            .raw(". <em>")
            .text(&finding.remedy)
            .raw("</em></li>");
    }
    for proof in failed {
        page.raw("<li>Proof failed: ")
            .text(&proof.claim)
            .raw(" (observed: ")
            .text(&proof.seen)
            .raw(")</li>");
    }
    for words in unusual {
        page.tag("li", &words);
    }
    if !trial.gone.is_empty() {
        page.raw("<li>Exited during the trial: ")
            .text(&trial.gone.join(", "))
            .raw("</li>");
    }
    page.raw("</ul></td></tr>\n");
}

/// Describes how the trial differs from the others of its cell, and how its latency changes over
/// time.
fn unusual(trial: &TrialRow) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(o) = &trial.outlier {
        found.push(format!("Outlier, used: {}.", words::outlier(o)));
    }
    let stability = trial.stability.as_ref();
    if let Some(seconds) = stability.and_then(|s| s.warmup_seconds) {
        found.push(format!(
            "The warm-up seems to continue in the first {seconds} s."
        ));
    }
    if let Some(seconds) = stability.and_then(|s| s.period_seconds) {
        found.push(format!(
            "Latency has a cycle of {} s.",
            figures::significant(seconds)
        ));
    }
    found
}
