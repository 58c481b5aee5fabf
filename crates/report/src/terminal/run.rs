//! The result of a run: the answers, then one block of tables per load.

use tare_analysis::compare::stopping;
use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::path::PathEdge;
use tare_records::summary::{Cell, Outcome, Ratio, Summary};
use tare_records::worker::Plane;

use super::output::{BOLD, DIM, Output, PLAIN, RED};
use super::{findings, gate, price_list, profiles, sweep};
use crate::findings::no_answer;
use crate::prices::{self, Shortened};
use crate::table::{Mark, Table, text};
use crate::text::{fit, printable};
use crate::{churn_words, tables, words};

/// Returns the result as text that ends in a newline.
#[must_use]
pub fn render_table(summary: &Summary, colour: bool) -> String {
    let mut out = Output::new(colour);
    failures(&mut out, summary);
    let none = no_answer(summary);
    if let Some(words) = &none {
        out.wrapped(RED, words, "", "  ");
        out.line("");
    }
    gate::write(&mut out, summary);
    // Nothing is stressed that answers nothing.
    answers(&mut out, summary, none.map_or(BOLD, |_| PLAIN));
    sweep::tables(&mut out, summary);
    // Of a sweep, the load with the first level of each factor.
    let loads = if summary.sweep.is_some() {
        1
    } else {
        usize::MAX
    };
    overloads(&mut out, summary);
    churn(&mut out, summary);
    let loads = summary.setup.loads.iter().take(loads);
    for load in loads.filter(|l| l.overload().is_none()) {
        let heading = format!(
            "{}, {} connections, {}{} x {} blocks{}",
            words::load_heading(&fit(&load.name, 24), load),
            load.connections,
            load.capacity().map_or("", |_| "steps of "),
            figures::duration(load.duration_ns as f64),
            words::blocks(summary, |t| t.load == load.name),
            words::pairing(summary)
        );
        out.painted(BOLD, &printable(&heading));
        if load.is_open() {
            written(&mut out, &tables::latency(summary, &load.name));
            // Those of features are in the price list.
            if summary.price_list.is_none() {
                ratios(&mut out, summary, &load.name);
            }
        } else {
            written(&mut out, &tables::without_rate(summary, load));
            let cells = summary.cells.iter().filter(|c| c.load == load.name);
            let cells: Vec<&Cell> = cells.collect();
            out.wrapped(PLAIN, &words::without_rate(load, &cells), "", "");
            out.line("");
        }
        let plane = Some(Plane::DataPlane);
        written(&mut out, &tables::resources(summary, &load.name, plane));
        if let Some(cost) = tables::cost(summary, &load.name) {
            written(&mut out, &cost);
        }
    }
    path(&mut out, summary);
    written(&mut out, &tables::proxy_cpu(summary));
    out.wrapped(DIM, &legend(summary), "", "");
    out.line("");
    profiles::write(&mut out, summary);
    findings::write(&mut out, summary);
    out.text.truncate(out.text.trim_end().len());
    out.line("");
    out.text
}

/// Most meshes and loads whose failures are listed; the page lists all.
const FAILURES_SHOWN: usize = 4;

/// What failed, how often and since when.
fn failures(out: &mut Output, summary: &Summary) {
    let all = words::failures(summary);
    for sentence in all.iter().take(FAILURES_SHOWN) {
        out.wrapped(RED, sentence, "", "  ");
    }
    match all.len().saturating_sub(FAILURES_SHOWN) {
        0 => {}
        more => out.painted(RED, &format!("Failed: {more} more, listed in report.html.")),
    }
    if !all.is_empty() {
        out.line("");
    }
}

/// The sentence about each pair of meshes, and what qualifies all of them.
fn answers(out: &mut Output, summary: &Summary, style: &str) {
    sweep::answers(out, summary);
    for answer in churn_words::answers(summary) {
        out.wrapped(BOLD, &answer, "* ", "  ");
    }
    price_list::write(out, summary);
    for Shortened { answer, sentence } in prices::answers(summary) {
        if sentence {
            out.wrapped(style, &answer.text, "* ", "  ");
        }
        let caution = answer.caution.as_deref();
        match caution {
            Some(caution) if sentence => out.wrapped(PLAIN, caution, "  ", "  "),
            Some(caution) => {
                let text = format!("{}: {caution}", prices::name(&answer.mesh));
                out.wrapped(PLAIN, &text, "* ", "  ");
            }
            None => {}
        }
    }
    for words in words::conditions(summary) {
        out.wrapped(PLAIN, &words, "", "  ");
    }
    out.line("");
}

/// Explains the signs that occur in the table.
fn legend(summary: &Summary) -> String {
    let mut parts = vec![words::spread(summary)];
    if !summary.comparisons.is_empty() {
        parts.push(words::questions(summary));
    }
    let shown = |r: &&Ratio| {
        let latency = [Figure::P50, Figure::P99].contains(&r.what);
        r.what.is_rate() || latency || Figure::CPU.contains(&r.what)
    };
    let ratios = || {
        summary
            .comparisons
            .iter()
            .flat_map(|c| &c.ratios)
            .filter(shown)
    };
    for outcome in [Outcome::Same, Outcome::NotResolved] {
        if ratios().any(|r| r.outcome == outcome) {
            parts.push(format!(
                "{}{}",
                Mark::Outcome(outcome).sign(),
                outcome.words()
            ));
        }
    }
    parts.extend(summary.stopping.as_ref().map(stopping::words));
    let mut quantiles = summary.cells.iter().flat_map(|c| &c.latency);
    if quantiles.any(|q| !q.supported) {
        parts.push("- too few responses".to_owned());
    }
    parts.extend(words::instrument_error(summary));
    parts.extend(words::core_distances(summary));
    parts.join("; ")
}

/// Appends a table and an empty line, if it has rows.
fn written(out: &mut Output, table: &Table) {
    if !table.rows.is_empty() {
        text::write(out, table);
        out.line("");
    }
}

/// The ratios of all pairs of meshes under a load, by the mesh that the others are divided by.
fn ratios(out: &mut Output, summary: &Summary, load: &str) {
    for table in tables::ratios(summary, load) {
        written(out, &table);
    }
    let here = summary.comparisons.iter().filter(|c| c.load == load);
    if let Some(sentence) = words::in_kernel(here) {
        out.wrapped(DIM, &sentence, "", "");
        out.line("");
    }
}

/// The meshes beyond the capacity.
fn overloads(out: &mut Output, summary: &Summary) {
    let tables = tables::overloads(summary);
    for table in &tables {
        out.painted(BOLD, &table.heading);
        written(out, table);
    }
    if !tables.is_empty() {
        out.wrapped(PLAIN, words::OVERLOAD, "", "");
        out.line("");
    }
}

/// The control plane under loads with churn.
fn churn(out: &mut Output, summary: &Summary) {
    let table = tables::churn(summary);
    if !table.rows.is_empty() {
        out.painted(BOLD, "Control plane, with endpoints that change");
        written(out, &table);
        out.wrapped(DIM, churn_words::CHURN, "", "");
        out.line("");
    }
}

/// Where in the path of a request a mesh costs time, if the plan has proxies on one side only.
fn path(out: &mut Output, summary: &Summary) {
    let Some(costs) = &summary.path else { return };
    for d in &costs.decompositions {
        out.wrapped(PLAIN, &words::decomposition(summary, d), "", "  ");
        out.line("");
        let own = |e: &&PathEdge| e.mesh == d.mesh && e.load == d.load && e.added_ns.is_some();
        let heading = format!("Calls with {}", d.mesh);
        let calls = tables::edges(summary, heading, costs.edges.iter().filter(own));
        let tables = [tables::parts(summary, d), calls];
        for table in tables.into_iter().filter_map(Table::if_any) {
            out.painted(BOLD, &printable(&table.heading));
            written(out, &table);
        }
    }
}
