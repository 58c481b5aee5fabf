//! Every trial with its verdict, the reasons and the way out.

use tare_model::hist::LatencySummary;
use tare_model::summary::{Summary, TrialRow};
use tare_model::verdict::Grade;
use tare_stats::bootstrap::samples_needed;
use tare_stats::figures;

use super::{badge, mesh_label};
use crate::html::Html;
use crate::instrument::outlier_cores_words;

const COLUMNS: [&str; 12] = [
    "use",
    "trial",
    "block",
    "mesh",
    "load",
    "verdict",
    "achieved",
    "p50, ms",
    "p99, ms",
    "max, ms",
    "lateness p99",
    "data plane",
];

pub(super) fn section(page: &mut Html, summary: &Summary) {
    page.raw("<section aria-labelledby=\"trials\">\n<h2 id=\"trials\">Trials</h2>\n");
    page.tag(
        "p class=\"caption\"",
        "Every trial on disk, in the order in which they ran. Suspect trials are used; invalid ones are not. \
         Take a tick away to leave a trial out: every figure and chart on this page is then computed again. \
         A trial's number leads to it over time.",
    );
    // The script fills this with a filter and says there what was left out.
    page.raw("\n<div class=\"trial-tools\" data-trials></div>");
    page.raw("\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"trials\"><table class=\"trials\">\n<thead><tr>");
    for (i, column) in COLUMNS.iter().enumerate() {
        page.tag(
            match i {
                // Goes with its ticks, which are not for paper.
                0 => "th scope=\"col\" class=\"use\"",
                3..6 => "th scope=\"col\" class=\"l\"",
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

fn row(page: &mut Html, summary: &Summary, trial: &TrialRow) {
    let index = trial.index;
    let unused = if trial.used { "" } else { " class=\"unused\"" };
    page.raw(&format!("<tr{unused} data-trial=\"{index}\">"));
    // Only the script can act on it, and enables it. What is invalid stays out.
    let able = trial.verdict.grade != Grade::Invalid && (trial.used || trial.excluded);
    let ticked = if trial.used { " checked" } else { "" };
    page.raw(&format!(
        "<td><input type=\"checkbox\" disabled{ticked}{} aria-label=\"use trial {index}\"></td>",
        if able { " data-exclude" } else { "" }
    ));
    page.raw(&format!(
        "<td title=\"{}\"><a href=\"#trial-{index}\">{index}</a></td>",
        crate::html::escape(&trial.dir)
    ));
    page.tag("td", &(trial.block + 1).to_string());
    page.raw("<td class=\"l\">");
    mesh_label(page, summary, &trial.mesh);
    page.raw("</td>")
        .tag("td class=\"l\"", &trial.load)
        .raw("<td class=\"l\">");
    badge(page, trial.verdict.grade);
    page.raw("</td>");
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let latency = trial.latency_ns;
    let ms = |ns: Option<u64>| or_dash(ns.map(|ns| figures::ms(ns as f64)));
    page.tag("td", &or_dash(trial.achieved_rps.map(figures::rate)));
    page.tag("td", &ms(stated(latency, 0.5).map(|l| l.p50)));
    page.tag("td", &ms(stated(latency, 0.99).map(|l| l.p99)));
    page.tag("td", &ms(latency.map(|l| l.max)));
    page.tag(
        "td",
        &or_dash(stated(trial.lateness_ns, 0.99).map(|l| figures::duration(l.p99 as f64))),
    );
    let cores = trial.data_plane_cores.filter(|c| *c > 0.0);
    page.tag(
        "td",
        &or_dash(cores.map(|c| format!("{} cores", figures::cores(c)))),
    );
    page.raw("</tr>\n");
    reasons(page, trial);
}

/// The latencies, if there are enough of them to state quantile `q`.
fn stated(latency: Option<LatencySummary>, q: f64) -> Option<LatencySummary> {
    latency.filter(|l| l.count >= samples_needed(q))
}

fn reasons(page: &mut Html, trial: &TrialRow) {
    let failed: Vec<_> = trial.proofs.iter().filter(|p| !p.holds).collect();
    let unlike = unlike(trial);
    let quiet = failed.is_empty() && trial.gone.is_empty() && unlike.is_empty();
    if trial.verdict.grade == Grade::Valid && quiet {
        return;
    }
    page.raw("<tr class=\"reasons\"><td colspan=\"2\"></td><td colspan=\"10\" class=\"l\"><ul>");
    for finding in &trial.verdict.reasons {
        page.raw("<li>")
            .text(&finding.found)
            .raw(". <em>")
            .text(&finding.remedy)
            .raw("</em></li>");
    }
    for proof in failed {
        page.raw("<li>Not so: ")
            .text(&proof.claim)
            .raw(" (")
            .text(&proof.seen)
            .raw(")</li>");
    }
    for words in unlike {
        page.tag("li", &words);
    }
    if !trial.gone.is_empty() {
        page.raw("<li>Vanished in the trial: ")
            .text(&trial.gone.join(", "))
            .raw("</li>");
    }
    page.raw("</ul></td></tr>\n");
}

/// What sets the trial apart from the others of its cell, or its beginning from its end.
fn unlike(trial: &TrialRow) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(o) = &trial.outlier {
        found.push(format!(
            "Unlike its fellows: {} of {}, their median is {}{}. It is used all the same.",
            o.what,
            figures::duration(o.value_ns as f64),
            figures::duration(o.median_ns as f64),
            outlier_cores_words(o)
        ));
    }
    let stability = trial.stability.as_ref();
    if let Some(seconds) = stability.and_then(|s| s.warmup_seconds) {
        found.push(format!(
            "The first {seconds} s look as if the warm-up went on."
        ));
    }
    if let Some(seconds) = stability.and_then(|s| s.period_seconds) {
        found.push(format!(
            "Its medians come and go every {} s.",
            figures::significant(seconds)
        ));
    }
    found
}
