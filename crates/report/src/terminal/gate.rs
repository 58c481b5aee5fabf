//! The result of a gate, as text and as Markdown.

use std::fmt::Write as _;

use tare_analysis::gate::{self, name};
use tare_records::summary::{GateOutcome, Summary};

use super::output::{BOLD, GREEN, Output, PLAIN, RED, YELLOW};
use crate::table::markdown::{self, escaped};
use crate::table::text;
use crate::{gate_words, tables, words};

/// Appends the result; nothing for a run without a gate.
pub(super) fn write(out: &mut Output, summary: &Summary) {
    let Some(gate) = &summary.gate else {
        return;
    };
    let colour = match gate.outcome {
        Some(GateOutcome::Regressed) => RED,
        Some(GateOutcome::Pass) => GREEN,
        Some(GateOutcome::Inconclusive) | None => YELLOW,
    };
    out.wrapped(BOLD, &gate_words::heading(gate), "", "  ");
    out.wrapped(colour, &gate_words::outcome(gate), "", "  ");
    out.line("");
    text::write(out, &tables::gate(gate));
    out.wrapped(PLAIN, &gate_words::reading(gate), "", "");
    out.line("");
}

/// Returns the result of a gate as Markdown, for a pull request; `None` for a run without a gate.
#[must_use]
pub fn render_gate_markdown(summary: &Summary) -> Option<String> {
    let gate = summary.gate.as_ref()?;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "### tare gate: {}\n\n{}\n",
        gate_words::verdict(gate),
        escaped(&gate_words::heading(gate))
    );
    for sentence in words::failures(summary) {
        let _ = writeln!(out, "- :x: {}", escaped(&sentence));
    }
    if !summary.failures.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "**{}**\n", escaped(&gate_words::outcome(gate)));
    out += &markdown::written(&tables::gate(gate));
    let _ = writeln!(out, "\n{}", escaped(&gate_words::reading(gate)));
    Some(out)
}

/// Returns the result of a gate as JUnit XML: one test for each figure and one for the gate; `None` for a
/// run without a gate.
#[must_use]
pub fn render_gate_junit(summary: &Summary) -> Option<String> {
    let gate = summary.gate.as_ref()?;
    let regressed = gate.outcome == Some(GateOutcome::Regressed);
    let failures = usize::from(regressed);
    let skipped = usize::from(gate.outcome != Some(GateOutcome::Pass) && !regressed);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let suite = xml(&gate_words::heading(gate));
    let _ = writeln!(
        out,
        "<testsuite name=\"tare gate\" tests=\"1\" failures=\"{failures}\" skipped=\"{skipped}\">"
    );
    let _ = writeln!(out, "  <testcase classname=\"tare.gate\" name=\"{suite}\">");
    let reason = xml(&gate_words::outcome(gate));
    match gate.outcome {
        Some(GateOutcome::Pass) => {}
        Some(GateOutcome::Regressed) => {
            let _ = writeln!(out, "    <failure message=\"{reason}\"/>");
        }
        Some(GateOutcome::Inconclusive) | None => {
            let _ = writeln!(out, "    <skipped message=\"{reason}\"/>");
        }
    }
    let failures = words::failures(summary).into_iter().map(|line| xml(&line));
    let lines = gate.questions.iter().map(|q| {
        let (name, margin) = (name(q.what), words::share(q.margin));
        let ratio = gate::ratio(q.ratio, q.low, q.high);
        xml(&format!("{name}: {ratio} (margin {margin})"))
    });
    let lines = failures.chain(lines).collect::<Vec<_>>().join("\n");
    let _ = writeln!(
        out,
        "    <system-out>{lines}</system-out>\n  </testcase>\n</testsuite>"
    );
    Some(out)
}

/// Escapes text for XML, and removes the characters that XML does not allow.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in crate::text::printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
