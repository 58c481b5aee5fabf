//! The run summarised by the methods of published benchmarks, and the published figures.

use tare_analysis::figures;
use tare_records::summary::Summary;
use tare_records::summary::published::{Published, PublishedFigure};

use super::output::{Output, PLAIN, WIDTH};
use crate::table::text;
use crate::text::{fit, printable};
use crate::{tables, words};

/// Returns the run, summarised by the method of the benchmark `method`. `None` if no cell has a
/// summary of that name.
#[must_use]
pub fn render_method(summary: &Summary, method: &str) -> Option<String> {
    let mut named = summary
        .cells
        .iter()
        .filter_map(|c| tables::of_method(c, method));
    let words = &named.next()?.words;
    let mut out = Output::default();
    let intro =
        format!("By the method of {method}: {words}. Percentiles of single trials, not pooled.");
    out.wrapped(PLAIN, &intro, "", "");
    for load in &summary.setup.loads {
        out.line("");
        out.line(&fit(&words::load_heading(&load.name, load), WIDTH));
        for table in tables::by_method(summary, &load.name, method) {
            text::write(&mut out, &table);
        }
        for cell in summary.cells.iter().filter(|c| c.load == load.name) {
            let named = tables::of_method(cell, method);
            if let Some(trial) = named.and_then(|named| named.dropped) {
                out.line(&printable(&format!("{}: without trial {trial}", cell.mesh)));
            }
        }
    }
    Some(out.text)
}

/// Returns the published figures.
#[must_use]
pub fn render_published(summary: &Summary) -> String {
    let mut out = Output::default();
    let intro = "Published figures: measured by others on other machines, with other load generators. \
                 They are shown for comparison; no figure of this run includes them.";
    out.wrapped(PLAIN, intro, "", "");
    for source in &summary.published {
        publication(&mut out, source);
    }
    out.text
}

fn publication(out: &mut Output, source: &Published) {
    let method = source
        .method
        .as_ref()
        .map_or(String::new(), |m| format!("; same method as --method {m}"));
    out.line("");
    out.wrapped(PLAIN, &printable(&source.title), "", "  ");
    out.wrapped(PLAIN, &format!("{}{method}", source.setting), "  ", "  ");
    if let Some(url) = &source.url {
        out.wrapped(PLAIN, url, "  ", "  ");
    }
    let mut groups: Vec<(&str, Option<f64>, Vec<String>)> = Vec::new();
    for figure in &source.figures {
        let same = |g: &&mut (&str, Option<f64>, Vec<String>)| {
            g.0 == figure.mesh && g.1 == figure.rate_rps
        };
        let text = figure_words(figure);
        match groups.iter_mut().find(same) {
            Some(group) => group.2.push(text),
            None => groups.push((&figure.mesh, figure.rate_rps, vec![text])),
        }
    }
    for (mesh, rate, texts) in groups {
        let rate = rate.map_or(String::new(), |r| format!(" at {}", figures::rate(r)));
        let text = format!("{mesh}{rate}: {}", texts.join(", "));
        out.wrapped(PLAIN, &text, "  ", "    ");
    }
}

fn figure_words(figure: &PublishedFigure) -> String {
    let bound = figure.bound.words();
    let value = match figure.unit.as_str() {
        "ms" => figures::duration(figure.value * 1e6),
        "rps" => figures::rate(figure.value),
        "cores" => format!("{} cores", figures::cores(figure.value)),
        unit => format!("{} {unit}", figures::significant(figure.value)),
    };
    format!("{} {bound}{value}", figure.what.replace('_', " "))
}
