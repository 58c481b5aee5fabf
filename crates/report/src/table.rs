//! The answer in a terminal: one block for each load, 80 columns wide.

use tare_analysis::figures;
use tare_model::summary::{
    Cell, Difference, Distinction, Estimate, Quantile, Stopping, Summary, TrialRow,
};
use tare_model::verdict::{Finding, Grade};
use tare_model::worker::Plane;

use crate::money;
use crate::page::{blocks, cores_words, instrument_words, outlier_cores_words};
use crate::text::{fit, printable, wrap};

/// Widest line, in characters.
const WIDTH: usize = 80;

/// Width of the column of mesh names.
const NAME: usize = 15;

/// The percentiles with intervals, of which the differences are shown.
const OVER: [&str; 2] = ["p50", "p99"];

/// How a table is printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableOptions {
    /// Whether the reader is a terminal that shows colours.
    pub colour: bool,
}

/// The whole answer as text, ending in a newline.
#[must_use]
pub fn render_table(summary: &Summary, options: TableOptions) -> String {
    let mut out = Output {
        text: String::new(),
        colour: options.colour,
    };
    answers(&mut out, summary);
    for load in &summary.setup.loads {
        let cells: Vec<&Cell> = summary
            .cells
            .iter()
            .filter(|c| c.load == load.name)
            .collect();
        out.line(&out.bold(&printable(&heading(summary, load))));
        latency_rows(&mut out, summary, &cells);
        over_rows(&mut out, summary, &cells);
        plane_rows(&mut out, summary, &cells);
        if let Some((head, lines)) = money::lines(summary, &cells, NAME) {
            out.line("");
            out.dim(&head);
            lines.iter().for_each(|line| out.line(line));
        }
        out.line("");
    }
    let from = out.text.len();
    out.wrapped(&legend(summary), "", "");
    for line in out.text.split_off(from).lines() {
        out.dim(line);
    }
    out.line("");
    doubts(&mut out, summary);
    out.text.truncate(out.text.trim_end().len());
    out.line("");
    out.text
}

/// What the run says about each mesh, in a sentence, before any figure.
fn answers(out: &mut Output, summary: &Summary) {
    for answer in &summary.answers {
        let from = out.text.len();
        out.wrapped(&answer.text, "* ", "  ");
        let text = out.text.split_off(from);
        for line in text.lines() {
            let line = out.bold(line);
            out.line(&line);
        }
        if let Some(caution) = &answer.caution {
            out.wrapped(caution, "  ", "  ");
        }
    }
    if !summary.answers.is_empty() {
        out.line("");
    }
}

fn heading(summary: &Summary, load: &tare_model::plan::Load) -> String {
    let rate = figures::rate(load.rate_rps);
    let name = if load.name.replace(' ', "") == rate.replace([' ', ','], "") {
        rate
    } else {
        format!("{} ({rate})", fit(&load.name, 24))
    };
    format!(
        "{name}, {} connections, {} x {} blocks",
        load.connections,
        figures::duration(load.duration_ns as f64),
        blocks(summary, |t| t.load == load.name)
    )
}

/// What the signs in the table mean, as far as they are there.
fn legend(summary: &Summary) -> String {
    let mut text = format!("{:.0} % intervals over blocks", summary.confidence * 100.0);
    let overheads = || summary.cells.iter().filter_map(|c| c.overhead.as_ref());
    let shown = |d: &&Difference| d.supported && OVER.contains(&d.what.as_str());
    let differences = || overheads().flat_map(|o| &o.latency).filter(shown);
    for (distinction, words) in [
        (Distinction::NotDistinguishable, "not distinguishable"),
        (Distinction::TooFewBlocks, "too few blocks to tell"),
    ] {
        if differences().any(|d| d.distinction == distinction) {
            text += &format!("; {} {words}", sign(distinction).trim());
        }
    }
    if let Some(stopping) = &summary.stopping {
        text += &format!("; {}", stopped(stopping));
    }
    if summary
        .cells
        .iter()
        .any(|c| c.latency.iter().any(|q| !q.supported))
    {
        text += "; - too few responses";
    }
    for words in [instrument_words(summary), cores_words(summary)] {
        text += &words.map_or(String::new(), |w| format!("; {w}"));
    }
    text
}

fn stopped(stopping: &Stopping) -> String {
    let share = |x: f64| figures::percent(x).trim_start_matches('+').to_owned();
    let targets: Vec<String> = stopping
        .targets
        .iter()
        .map(|t| {
            let now = t.widest.map_or("unknown".to_owned(), share);
            format!(
                "{} within {now} (asked for: {})",
                t.what,
                share(t.half_width)
            )
        })
        .collect();
    let when = match stopping.reached_after {
        Some(blocks) => format!("stopped after {blocks} of at most {}", stopping.blocks_max),
        None => format!(
            "not narrow enough yet, at most {} blocks",
            stopping.blocks_max
        ),
    };
    format!("{when}: {}", targets.join(", "))
}

/// What stands before a difference from which nothing may be concluded.
fn sign(distinction: Distinction) -> &'static str {
    match distinction {
        Distinction::Higher | Distinction::Lower => "",
        Distinction::NotDistinguishable => "~ ",
        Distinction::TooFewBlocks => "? ",
    }
}

fn latency_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let names = ["p50", "p90", "p99", "p99.9", "max"];
    let head: String = names.iter().map(|n| format!("{n:>8}")).collect();
    out.dim(&format!(
        "{:<NAME$}{head}{:>8}  {:<8}",
        "latency, ms", "errors", "verdict"
    ));
    for cell in cells {
        let figure = |name: &&str| {
            let stated = |q: &&Quantile| q.name == **name && q.supported;
            let row = cell.latency.iter().find(stated);
            format!(
                "{:>8}",
                row.map_or("-".to_owned(), |q| figures::ms(q.value_ns as f64))
            )
        };
        let latencies: String = names.iter().map(figure).collect();
        let errors = figures::count(cell.counts.error + cell.counts.timeout);
        out.line(&format!(
            "{:<NAME$}{latencies}{errors:>8}  {}",
            fit(&mesh_name(summary, cell), NAME - 1),
            out.grade(cell.verdict.grade)
        ));
        let [median, tail] = OVER.map(|name| between(cell, name));
        if !(median.is_empty() && tail.is_empty()) {
            // Right below their figures.
            out.dim(&format!("{median:>23} {tail:>15}"));
        }
    }
    out.line("");
}

/// The interval of a percentile that is stated, or nothing.
fn between(cell: &Cell, name: &str) -> String {
    let stated = |q: &&Quantile| q.name == name && q.supported;
    let interval = cell
        .latency
        .iter()
        .find(stated)
        .and_then(|q| q.low_ns.zip(q.high_ns));
    interval.map_or(String::new(), |(low, high)| {
        format!(
            "{} to {}",
            figures::ms(low as f64),
            figures::ms(high as f64)
        )
    })
}

fn mesh_name(summary: &Summary, cell: &Cell) -> String {
    let mark = if cell.mesh == summary.baseline {
        " (base)"
    } else {
        ""
    };
    format!("{}{mark}", cell.mesh)
}

/// Differences to the baseline, and nothing else.
fn over_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let others: Vec<_> = cells
        .iter()
        .filter(|c| c.mesh != summary.baseline)
        .collect();
    if others.is_empty() {
        return;
    }
    out.dim(&format!(
        "{:<NAME$}{:>24} {:>23}",
        format!("over {}", fit(&summary.baseline, NAME - 6)),
        "p50, ms",
        "p99, ms",
    ));
    for cell in others {
        let [median, tail] = OVER.map(|what| {
            let stated = |d: &&Difference| d.what == what && d.supported;
            cell.overhead
                .as_ref()
                .and_then(|o| o.latency.iter().find(stated))
        });
        out.line(&format!(
            "{:<NAME$}{} {}",
            fit(&cell.mesh, NAME - 1),
            out.difference(median, 24),
            out.difference(tail, 23),
        ));
    }
    out.line("");
}

/// What the data plane of each mesh used, the baseline's too.
fn plane_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let plane = |c: &Cell| c.planes.get(&Plane::DataPlane).cloned();
    if !cells.iter().any(|c| plane(c).is_some()) {
        out.text.truncate(out.text.trim_end().len());
        out.line("");
        return;
    }
    out.dim(&format!(
        "{:<NAME$}{:>22} {:>22}{:>20}",
        "data plane", "CPU, cores", "per 1,000 rps", "memory, MiB"
    ));
    for cell in cells {
        let plane = plane(cell);
        let words = |e: Option<&Estimate>, words: fn(f64) -> String| {
            e.map_or("-".to_owned(), |e| estimate(e, words))
        };
        let cpu = words(plane.as_ref().map(|p| &p.cpu_cores), figures::cores);
        let per_krps = plane.as_ref().and_then(|p| p.cpu_cores_per_krps.as_ref());
        let per_krps = words(per_krps, figures::cores);
        let memory = words(plane.as_ref().map(|p| &p.memory_bytes), figures::mib);
        out.line(&format!(
            "{:<NAME$}{cpu:>22} {per_krps:>22}{memory:>20}",
            fit(&mesh_name(summary, cell), NAME - 1),
        ));
    }
}

fn estimate(e: &Estimate, words: fn(f64) -> String) -> String {
    let value = words(e.value);
    match e.low.zip(e.high) {
        Some((low, high)) => format!("{value} ({} to {})", words(low), words(high)),
        None => value,
    }
}

/// Reasons of cells that are not valid and what could not be read, each once,
/// with the way out.
fn doubts(out: &mut Output, summary: &Summary) {
    let before = out.text.len();
    for kind in kinds_of_doubt(summary) {
        let everywhere = kind.same.len() == summary.cells.len() && kind.same.len() > 1;
        let (place, alike) = if everywhere {
            ("all meshes and loads", 0)
        } else {
            (kind.same[0].as_str(), kind.same.len() - 1)
        };
        out.finding(place, kind.first, alike + kind.others);
    }
    for trial in &summary.trials {
        if let Some(outlier) = &trial.outlier {
            let text = format!(
                "outlier, kept: trial {}, {} at {}: {} of {}, where the median of the trials is {}{}.",
                trial.index,
                trial.mesh,
                trial.load,
                outlier.what,
                figures::duration(outlier.value_ns as f64),
                figures::duration(outlier.median_ns as f64),
                outlier_cores_words(outlier),
            );
            out.wrapped(&text, "", "  ");
        }
    }
    for note in &summary.notes {
        out.wrapped(&format!("note: {note}."), "", "  ");
    }
    if out.text.len() > before {
        out.line("");
    }
}

/// All findings of one reason and grade. A terminal shows the first; the page
/// lists them all.
struct Kind<'a> {
    first: &'a Finding,
    /// Where exactly this was found; never empty.
    same: Vec<String>,
    /// Findings of the kind with other figures.
    others: usize,
}

/// The kinds of findings of cells and of trials left out, worst first.
fn kinds_of_doubt<'a>(summary: &'a Summary) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    let mut add = |finding: &'a Finding, place: String| {
        let alike =
            |k: &&mut Kind<'_>| (k.first.grade, k.first.reason) == (finding.grade, finding.reason);
        match kinds.iter_mut().find(alike) {
            Some(kind) if kind.first == finding => kind.same.push(place),
            Some(kind) => kind.others += 1,
            None => kinds.push(Kind {
                first: finding,
                same: vec![place],
                others: 0,
            }),
        }
    };
    for cell in &summary.cells {
        for finding in &cell.verdict.reasons {
            add(finding, format!("{} at {}", cell.mesh, cell.load));
        }
    }
    let left_out = |t: &&TrialRow| t.verdict.grade == Grade::Invalid;
    for trial in summary.trials.iter().filter(left_out) {
        let here = |c: &&Cell| c.mesh == trial.mesh && c.load == trial.load;
        let cell = summary.cells.iter().find(here);
        // The findings of a cell without a used trial are those of its trials.
        if !cell.is_some_and(|c| c.trials_used.is_empty()) {
            let place = format!(
                "trial {}, {} at {}, left out",
                trial.index, trial.mesh, trial.load
            );
            for finding in &trial.verdict.reasons {
                add(finding, place.clone());
            }
        }
    }
    kinds.sort_by_key(|k| std::cmp::Reverse(k.first.grade));
    kinds
}

struct Output {
    text: String,
    colour: bool,
}

impl Output {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn wrapped(&mut self, text: &str, first: &str, further: &str) {
        for line in wrap(text, WIDTH, first, further) {
            self.line(&line);
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&mut self, text: &str) {
        let painted = self.paint("2", text.trim_end());
        self.line(&painted);
    }

    fn grade(&self, grade: Grade) -> String {
        let code = match grade {
            Grade::Valid => "32",
            Grade::Suspect => "33",
            Grade::Invalid => "31",
        };
        self.paint(code, grade.word())
    }

    /// A difference in a column of its own, with a sign and dimmed where nothing
    /// may be concluded.
    fn difference(&self, difference: Option<&Difference>, width: usize) -> String {
        let Some(d) = difference else {
            return format!("{:>width$}", "-");
        };
        let sign = sign(d.distinction);
        let text = format!("{sign}{}", figures::ms_interval(d.value, d.low, d.high));
        let text = format!("{text:>width$}");
        if sign.is_empty() {
            text
        } else {
            self.paint("2", &text)
        }
    }

    fn finding(&mut self, place: &str, finding: &Finding, more: usize) {
        let more = match more {
            0 => String::new(),
            n => format!(" (and {n} more like it)"),
        };
        let text = format!(
            "{}: {place}: {}{more}. {}",
            finding.grade.word(),
            finding.found,
            finding.remedy
        );
        self.wrapped(&text, "", "  ");
    }
}
