//! The first screen: what was compared, the answers, one chart.

use tare_analysis::formats::rfc3339;
use tare_plan::EnvironmentKind;
use tare_plan::limits::SECOND_NS;
use tare_records::summary::{Summary, TrialStatus};
use tare_records::verdict::Grade;

use super::details::Details;
use super::html::Html;
use super::parts::{badge, caption, mesh_label, open_section};
use super::{capacity, churn, gate, price_list, sections, sweep};
use crate::prices::{self, Shortened};
use crate::{gate_words, words};

pub(super) fn header(page: &mut Html, summary: &Summary, details: Option<&Details>) {
    page.raw("<header>\n<p class=\"brand\"><b>tare</b> ")
        .text(&summary.run)
        .raw("</p>\n");
    page.tag("h1", &title(summary)).raw("\n");
    if !summary.setup.description.is_empty() {
        page.tag("p class=\"lead\"", &summary.setup.description)
            .raw("\n");
    }
    page.tag("p class=\"brand\"", &facts(summary, details))
        .raw("\n");
    page.raw("<p class=\"verdict\">");
    badge(page, summary.grade);
    page.text(&format!(" {}", verdict(summary))).raw("</p>\n");
    for sentence in words::failures(summary) {
        page.tag("p class=\"failed\"", &sentence).raw("\n");
    }
    page.raw("</header>\n");
}

/// When it ran and for how long, the application, and the machine.
fn facts(summary: &Summary, details: Option<&Details>) -> String {
    let (setup, machine) = (&summary.setup, &summary.fingerprint);
    let started = rfc3339(summary.started_unix_ns);
    let (date, time) = (&started[..10], &started[11..16]);
    let mut parts = vec![format!("{date} {time} UTC")];
    let ended = details.map_or(0, |d| d.ended_unix_ns);
    if let Some(ns) = ended.checked_sub(summary.started_unix_ns) {
        parts.push(match (ns as f64 / SECOND_NS as f64 / 60.0).round() as u64 {
            0 => "less than a minute".to_owned(),
            minutes => format!("{minutes} min"),
        });
    }
    parts.push(match setup.instances {
        1 => setup.workload.clone(),
        n => format!("{n} x {}", setup.workload),
    });
    parts.push(match setup.environment {
        EnvironmentKind::Kubernetes => "on Kubernetes".to_owned(),
        _ => format!("{}, {} cores", machine.cpu_model, machine.cores),
    });
    parts.join(" · ")
}

/// The place where the script shows the current trial.
pub(super) fn live(page: &mut Html) {
    open_section(page, "live", "Current trial");
    page.raw(
        "<p data-live role=\"status\">Waiting for the run…</p>\n<p data-live-now></p>\n\
         <progress data-live-done value=\"0\" max=\"1\" aria-label=\"completed trials\"></progress>\n\
         <div class=\"charts\" data-live-charts></div>\n</section>\n",
    );
}

/// Appends the answers with their charts, and the table of contents. If a run has no answer, `reason` says why: it comes
/// first, and the figures are folded away.
pub(super) fn answers(
    page: &mut Html,
    summary: &Summary,
    reason: Option<&str>,
    details: Option<&Details>,
) {
    page.raw(
        "<section aria-labelledby=\"answers\">\n<h2 id=\"answers\" class=\"quiet\">Answers</h2>\n",
    );
    if let Some(words) = reason {
        page.tag("p class=\"no-answer\"", words).raw("\n");
        page.raw("<details class=\"figures\"><summary>What was measured</summary>\n");
    }
    shown(page, summary, details);
    if reason.is_some() {
        page.raw("</details>\n");
    }
    sections::contents(page, summary);
    page.raw("</section>\n");
}

fn shown(page: &mut Html, summary: &Summary, details: Option<&Details>) {
    gate::first_screen(page, summary);
    if capacity::is_of(summary) {
        sentences(page, summary);
        return capacity::tables(page, summary, details);
    }
    churn::first_screen(page, summary);
    sweep::first_screen(page, summary);
    match &summary.price_list {
        Some(list) => {
            price_list::first_screen(page, summary, list);
            sentences(page, summary);
        }
        None => {
            sentences(page, summary);
            if summary.sweep.is_none() {
                sections::chart(page, "headline");
            }
        }
    }
}

fn title(summary: &Summary) -> String {
    if let Some(gate) = &summary.gate {
        return format!(
            "{}: {}",
            gate_words::heading(gate),
            gate_words::verdict(gate)
        );
    }
    if let Some(list) = &summary.price_list {
        let features = list.features.iter().filter(|f| !f.nothing).count();
        return match features {
            1 => format!("What 1 feature adds to {}", list.reference),
            n => format!("What {n} features add to {}", list.reference),
        };
    }
    let others: Vec<&str> = summary
        .setup
        .meshes
        .iter()
        .map(|m| m.name.as_str())
        .filter(|name| *name != summary.baseline)
        .collect();
    let list = match others.split_last() {
        None => return format!("Latency and resources of {}", summary.baseline),
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    };
    if capacity::is_of(summary) {
        let overload = summary.setup.loads.iter().any(|l| l.overload().is_some());
        if overload {
            return format!("Overload of {list} beside {}", summary.baseline);
        }
        return format!("Capacity of {list} beside {}", summary.baseline);
    }
    let by = summary.sweep.as_ref().map_or(String::new(), |sweep| {
        let titles: Vec<&str> = sweep.factors.iter().map(|f| f.title.as_str()).collect();
        format!(", by {}", titles.join(" and "))
    });
    format!("Cost of {list} over {}{by}", summary.baseline)
}

/// The numbers of trials by verdict, and the number of blocks.
fn verdict(summary: &Summary) -> String {
    let count = |grade| {
        summary
            .trials
            .iter()
            .filter(|t| t.verdict.grade == grade)
            .count()
    };
    let (suspect, invalid) = (count(Grade::Suspect), count(Grade::Invalid));
    let done = summary.trials_done;
    let mut parts = vec![if done == summary.trials_planned {
        format!("{done} trials")
    } else {
        format!("{done} of {} planned trials", summary.trials_planned)
    }];
    if done > 0 && suspect == 0 && invalid == 0 {
        parts.push("all valid".to_owned());
    }
    if suspect > 0 {
        parts.push(format!("{suspect} suspect"));
    }
    if invalid > 0 {
        parts.push(format!("{invalid} invalid"));
    }
    let excluded = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::Excluded)
        .count();
    if excluded > 0 {
        parts.push(format!("{excluded} excluded by --exclude"));
    }
    let percent = summary.confidence * 100.0;
    parts.push(format!(
        "{percent:.0} % intervals over {} blocks",
        words::blocks(summary, |_| true)
    ));
    parts.join(" · ")
}

/// The sentence about each mesh, and what qualifies all of them.
fn sentences(page: &mut Html, summary: &Summary) {
    let answers = prices::answers(summary);
    if !answers.is_empty() {
        answer_list(page, summary, answers);
    }
    remarks(page, summary);
}

fn answer_list(page: &mut Html, summary: &Summary, answers: Vec<Shortened<'_>>) {
    page.raw("<ul class=\"answers\">\n");
    for Shortened { answer, sentence } in answers {
        let colour = words::colour_of(summary, &answer.mesh);
        page.raw(&format!("<li class=\"mesh-{colour}\">"));
        page.raw("<p class=\"who\">");
        mesh_label(page, summary, &answer.mesh);
        page.text(" over ");
        mesh_label(page, summary, &answer.reference);
        if answer.grade != Grade::Valid {
            page.raw(" ");
            badge(page, answer.grade);
        }
        page.raw("</p>");
        if sentence {
            page.raw("<p>");
            with_bold_figures(page, &answer.text);
            page.raw("</p>");
        }
        if let Some(caution) = &answer.caution {
            page.tag("p class=\"caution\"", caution);
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
}

/// What the reader must know beside the answers, and the notes.
fn remarks(page: &mut Html, summary: &Summary) {
    for words in words::conditions(summary) {
        caption(page, &words);
    }
    if !summary.notes.is_empty() {
        page.raw("<div class=\"notes\"><h3>Notes</h3><ul>\n");
        for note in &summary.notes {
            page.tag("li", note).raw("\n");
        }
        page.raw("</ul></div>\n");
    }
}

/// Appends a sentence with its figures (a ratio, or a number before a unit) in bold, but for those that are not resolved: the
/// parentheses behind them, or the words before them, say so.
pub(super) fn with_bold_figures(page: &mut Html, sentence: &str) {
    const UNITS: [&str; 8] = ["ns", "µs", "ms", "s", "cores", "KiB", "MiB", "GiB"];
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let unit = words.get(at + 1).filter(|next| UNITS.contains(next));
        let unit = unit.filter(|_| word.parse::<f64>().is_ok());
        let next = at + 1 + usize::from(unit.is_some());
        let behind = words[next.min(words.len())..].join(" ");
        let behind = behind.strip_prefix('(').and_then(|b| b.split_once(')'));
        let is_open = behind.is_some_and(|(interval, _)| interval.contains("not resolved"))
            || (at > 0 && words[at - 1] == "resolved:");
        let figure = word.trim_end_matches([',', ';', '.']);
        let ratio = figure.strip_prefix('x').and_then(|x| x.parse::<f64>().ok());
        match unit {
            Some(unit) if is_open => page.text(&format!("{word}\u{a0}{unit}")),
            Some(unit) => page.tag("b", &format!("{word}\u{a0}{unit}")),
            None if ratio.is_some() && !is_open => {
                page.tag("b", figure).text(&word[figure.len()..])
            }
            None => page.text(word),
        };
        at = next;
        if at < words.len() {
            page.raw(" ");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_bold_if_they_are_resolved() {
        let bold = |sentence: &str| {
            let mut page = Html::default();
            with_bold_figures(&mut page, sentence);
            page.0
        };
        let found = bold(
            "adds 2 ns (-85 to 88, not resolved) with a, 3 ms (2 to 4) with b; x1.5, and 7 things; not resolved: x0.6 in a single block",
        );
        assert_eq!(
            found,
            "adds 2\u{a0}ns (-85 to 88, not resolved) with a, <b>3\u{a0}ms</b> (2 to 4) with b; <b>x1.5</b>, and 7 things; not resolved: x0.6 in a single block"
        );
        assert_eq!(
            bold("x1.2 (1.0 to 1.4, not resolved)"),
            "x1.2 (1.0 to 1.4, not resolved)"
        );
        assert_eq!(bold("costs 5 ms"), "costs <b>5\u{a0}ms</b>");
    }
}
