//! Every trial with its verdict, reasons and remedies.

use tare_analysis::figures;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::verdict::Grade;
use tare_stats::order::samples_needed;
use tare_stats::wire::LatencySummary;

use super::about::quoted;
use super::html::{Html, escape};
use super::parts::{badge, caption, mesh_label, open_section};
use crate::words;

const COLUMNS: [&str; 13] = [
    "trial",
    "block",
    "mesh",
    "load",
    "verdict",
    "figures",
    "achieved",
    "p50, ms",
    "p99, ms",
    "max, ms",
    "lateness p99",
    "data plane",
    "waited for a core",
];

pub(super) fn section(page: &mut Html, summary: &Summary) {
    open_section(page, "trials", "Trials");
    caption(
        page,
        "All trials on disk, in the order in which they ran. A block that something outside the trials disturbed is \
         left out with the trials of all meshes; what a trial itself did, such as saturation, is never a reason \
         to leave it out. The number of a trial links to its chart over time.",
    );
    exclusion(page, summary);
    // The script puts a filter here.
    page.raw("\n<div class=\"trial-tools\" data-trials></div>");
    page.raw("\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"trials\"><table class=\"trials\">\n<thead><tr>");
    for (i, column) in COLUMNS.iter().enumerate() {
        page.tag(
            match i {
                2..6 => "th scope=\"col\" class=\"l\"",
                _ => "th scope=\"col\"",
            },
            column,
        );
    }
    page.raw("</tr></thead>\n<tbody>\n");
    for trial in &summary.trials {
        row(page, summary, trial);
    }
    page.raw("</tbody></table></div>\n</section>\n");
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

fn row(page: &mut Html, summary: &Summary, trial: &TrialRow) {
    let index = trial.index;
    let unused = if trial.status == TrialStatus::Used {
        ""
    } else {
        " class=\"unused\""
    };
    page.raw(&format!("<tr{unused} data-trial=\"{index}\">"));
    page.raw(&format!(
        "<td title=\"{}\"><a href=\"#trial-{index}\">{index}</a></td>",
        escape(&trial.dir)
    ));
    page.tag("td", &(trial.block + 1).to_string());
    page.raw("<td class=\"l\">");
    mesh_label(page, summary, &trial.mesh);
    page.raw("</td>")
        .tag("td class=\"l\"", &trial.load)
        .raw("<td class=\"l\">");
    badge(page, trial.verdict.grade);
    page.raw("</td>")
        .tag("td class=\"l\"", trial.status.words());
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let latency = trial.latency_ns;
    let ms = |ns: Option<u64>| or_dash(ns.map(|ns| figures::ms(ns as f64)));
    page.tag("td", &or_dash(trial.achieved_rps.map(figures::rate)));
    page.tag("td", &ms(supported(latency, 0.5).map(|l| l.p50)));
    page.tag("td", &ms(supported(latency, 0.99).map(|l| l.p99)));
    page.tag("td", &ms(latency.map(|l| l.max)));
    page.tag(
        "td",
        &or_dash(supported(trial.lateness_ns, 0.99).map(|l| figures::duration(l.p99 as f64))),
    );
    let cores = trial.data_plane_cores.filter(|c| *c > 0.0);
    page.tag(
        "td",
        &or_dash(cores.map(|c| format!("{} cores", figures::cores(c)))),
    );
    let waited = trial.run_queue_delay_per_request_ns;
    let waited = waited.map(|ns| format!("{}/request", figures::duration(ns)));
    page.tag("td", &or_dash(waited));
    page.raw("</tr>\n");
    reasons(page, trial);
}

/// Returns the summary if it has enough responses for quantile `q`.
fn supported(latency: Option<LatencySummary>, q: f64) -> Option<LatencySummary> {
    latency.filter(|l| l.count >= samples_needed(q))
}

fn reasons(page: &mut Html, trial: &TrialRow) {
    let failed: Vec<_> = trial.proofs.iter().filter(|p| !p.holds).collect();
    let unusual = unusual(trial);
    let nothing = failed.is_empty() && trial.gone.is_empty() && unusual.is_empty();
    if trial.verdict.grade == Grade::Valid && nothing {
        return;
    }
    page.raw("<tr class=\"reasons\"><td colspan=\"2\"></td><td colspan=\"11\" class=\"l\"><ul>");
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
