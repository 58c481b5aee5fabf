//! Two runs side by side, for a terminal and for a pull request.

use std::fmt::Write as _;

use tare_analysis::figures;
use tare_model::summary::Distinction;
use tare_model::summary::comparison::{Change, ComparedCell, Comparison, Judged, JudgedBy};

use crate::text::{fit, printable, wrap};

/// Widest line of the text, in characters.
const WIDTH: usize = 80;

/// What the figures are called.
pub(crate) fn words(what: &str) -> &str {
    match what {
        "over_p50" => "overhead p50",
        "over_p99" => "overhead p99",
        "cpu" => "proxy CPU",
        "cpu_per_krps" => "per 1,000 rps",
        "memory" => "proxy memory",
        other => other,
    }
}

pub(crate) fn unit(of: &str) -> &'static str {
    match of {
        "ns" => "ms",
        "bytes" => "MiB",
        _ => "cores",
    }
}

/// A figure in that unit, without it.
pub(crate) fn figure(unit: &str, value: f64) -> String {
    match unit {
        "ns" => figures::ms(value),
        "bytes" => figures::mib(value),
        _ => figures::cores(value),
    }
}

/// The change as a share where it has one, else in its unit, with its interval.
fn shift(change: &Change) -> String {
    let signed = |text: String, value: f64| {
        if value > 0.0 {
            format!("+{text}")
        } else {
            text
        }
    };
    if let Some(ratio) = change.ratio {
        let percent = |x: Option<f64>| x.map(|x| x * 100.0);
        let (low, high) = (percent(change.ratio_low), percent(change.ratio_high));
        return signed(figures::interval(ratio * 100.0, low, high, "%"), ratio);
    }
    let scale = match change.unit.as_str() {
        "ns" => 1e6,
        "bytes" => 1_048_576.0,
        _ => 1.0,
    };
    let scaled = |x: Option<f64>| x.map(|x| x / scale);
    let (low, high) = (scaled(change.low), scaled(change.high));
    let text = figures::interval(change.difference / scale, low, high, unit(&change.unit));
    signed(text, change.difference)
}

/// What may be said, with what many comparisons take away from it.
fn verdict(change: &Change, level: f64) -> String {
    let certain = change.p_holm.is_some_and(|p| p < level);
    match change.distinction {
        Distinction::NotDistinguishable | Distinction::TooFewBlocks => {
            change.distinction.words().to_owned()
        }
        words if certain => words.words().to_owned(),
        words => format!("{} (perhaps chance)", words.words()),
    }
}

fn run_line(run: &tare_model::summary::comparison::ComparedRun) -> String {
    format!(
        "{} ({}, tare {})",
        run.run,
        run.grade.word(),
        run.tare_version
    )
}

fn stated(cell: &ComparedCell) -> impl Iterator<Item = &Change> {
    cell.changes.iter().filter(|c| c.supported)
}

/// The comparison as text of at most 80 columns.
#[must_use]
pub fn render_comparison(comparison: &Comparison, colour: bool) -> String {
    let paint = |code: &str, text: &str| {
        if colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let level = 1.0 - comparison.confidence;
    let mut out = String::new();
    for (name, run) in [("before", &comparison.before), ("after", &comparison.after)] {
        let _ = writeln!(out, "{name:<7} {}", fit(&run_line(run), WIDTH - 8));
    }
    for warning in &comparison.warnings {
        for line in wrap(&format!("unlike: {warning}."), WIDTH, "", "  ") {
            let _ = writeln!(out, "{}", paint("33", &line));
        }
    }
    for cell in &comparison.cells {
        let title = format!(
            "{} at {}, {} and {} blocks",
            cell.mesh, cell.load, cell.trials_before, cell.trials_after
        );
        let _ = writeln!(out, "\n{}", paint("1", &fit(&title, WIDTH)));
        for change in stated(cell) {
            let line = format!(
                "{:<20}{:>8}{:>8}  {:<26}",
                format!("{}, {}", words(&change.what), unit(&change.unit)),
                figure(&change.unit, change.before),
                figure(&change.unit, change.after),
                shift(change),
            );
            let verdict = verdict(change, level);
            let room = WIDTH.saturating_sub(line.chars().count());
            let painted = match change.distinction {
                Distinction::Higher => paint("31", &fit(&verdict, room)),
                Distinction::Lower => paint("32", &fit(&verdict, room)),
                _ => paint("2", &fit(short(&verdict), room)),
            };
            let _ = writeln!(out, "{}", format!("{line}{painted}").trim_end());
        }
    }
    let legend = format!(
        "{:.0} % intervals of the change, runs unpaired; ~ not distinguishable; (perhaps chance): \
         not after Holm's correction for all comparisons here",
        comparison.confidence * 100.0
    );
    out.push('\n');
    for line in wrap(&legend, WIDTH, "", "") {
        let _ = writeln!(out, "{}", paint("2", &line));
    }
    for judged in &comparison.thresholds {
        let code = if judged.exceeded { "31" } else { "32" };
        for line in wrap(&judgement(judged), WIDTH, "", "  ") {
            let _ = writeln!(out, "{}", paint(code, &line));
        }
    }
    out
}

fn short(verdict: &str) -> &str {
    match verdict {
        "not distinguishable" => "~",
        other => other,
    }
}

fn judgement(judged: &Judged) -> String {
    let by = match judged.judged_by {
        JudgedBy::Bound => "lower end of the interval",
        JudgedBy::Estimate => "estimate",
    };
    let place = format!("{}: {} at {}", judged.threshold, judged.mesh, judged.load);
    match judged.found {
        None => format!("not judged {place}: no interval with fewer than 2 blocks"),
        Some(found) => format!(
            "{} {place}: {by} {}",
            if judged.exceeded { "exceeded" } else { "kept" },
            amount(judged, found)
        ),
    }
}

/// A figure in the unit of the threshold.
fn amount(judged: &Judged, value: f64) -> String {
    if judged.threshold.trim_end().ends_with('%') {
        return figures::percent(value);
    }
    match judged.threshold.split(':').next().unwrap_or("").trim() {
        "memory" => figures::bytes(value),
        "cpu" | "cpu_per_krps" => format!("{} cores", figures::cores(value)),
        _ => figures::duration(value),
    }
}

/// The comparison as Markdown, for a pull request.
#[must_use]
pub fn render_comparison_markdown(comparison: &Comparison) -> String {
    let level = 1.0 - comparison.confidence;
    let mut out = String::new();
    let exceeded = comparison.thresholds.iter().filter(|j| j.exceeded).count();
    let headline = match (comparison.thresholds.len(), exceeded) {
        (0, _) => "tare: two runs compared".to_owned(),
        (_, 0) => "tare: every threshold is kept".to_owned(),
        (_, n) => format!(
            "tare: {n} of {} thresholds exceeded",
            comparison.thresholds.len()
        ),
    };
    let _ = writeln!(out, "### {headline}\n");
    for (name, run) in [("Before", &comparison.before), ("After", &comparison.after)] {
        let _ = writeln!(out, "- {name}: {}", escaped(&run_line(run)));
    }
    for judged in comparison
        .thresholds
        .iter()
        .filter(|j| j.exceeded || j.found.is_none())
    {
        let _ = writeln!(out, "- **{}**", escaped(&judgement(judged)));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- :warning: {}", escaped(warning));
    }
    let _ = writeln!(
        out,
        "\n| mesh | load | figure | before | after | change ({:.0} % interval) | |\n\
         |---|---|---|--:|--:|--:|---|",
        comparison.confidence * 100.0
    );
    for cell in &comparison.cells {
        for change in stated(cell) {
            let verdict = verdict(change, level);
            let verdict = match change.distinction {
                Distinction::Higher | Distinction::Lower => format!("**{verdict}**"),
                _ => verdict,
            };
            let _ = writeln!(
                out,
                "| {} | {} | {}, {} | {} | {} | {} | {verdict} |",
                escaped(&cell.mesh),
                escaped(&cell.load),
                words(&change.what),
                unit(&change.unit),
                figure(&change.unit, change.before),
                figure(&change.unit, change.after),
                shift(change),
            );
        }
    }
    let _ = writeln!(
        out,
        "\nRuns are unpaired; \"perhaps chance\": not after Holm's correction for all comparisons here."
    );
    out
}

/// Text that may come from anywhere, without meaning in Markdown or HTML.
fn escaped(text: &str) -> String {
    printable(text)
        .chars()
        .flat_map(|c| {
            let special = c.is_ascii_punctuation()
                && !matches!(c, ',' | '.' | ':' | '/' | '%' | '-' | '+' | '(' | ')');
            special.then_some('\\').into_iter().chain([c])
        })
        .collect()
}
