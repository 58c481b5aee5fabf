//! `report.html`: one file that needs nothing else. The text and all tables are
//! written here, so that they are there without scripts, for readers by ear and for
//! printing; the charts are drawn by the bundle of `web/` from the embedded summary.
//!
//! The same crate, compiled to WebAssembly, is inside the page: when a reader leaves
//! trials out, it analyses the run again and writes the tables anew. So there is one
//! analysis, on the command line and in the page.

mod about;
mod charts;
mod embed;
mod evidence;
mod front;
mod html;
mod inference;
mod instrument;
mod money;
mod published;
mod series;
mod tables;
mod trials;
#[cfg(target_arch = "wasm32")]
mod wasm;

pub use evidence::{Details, Evidence, RunInput};
pub use instrument::{cores_words, instrument_words, outlier_cores_words};
pub use series::{
    BUCKETS_FROM_NS, BUCKETS_PER_DECADE, COLUMNS_MAX, Column, SeriesBuilder, TrialSeries,
};

use std::collections::{BTreeMap, BTreeSet};

use tare_model::summary::{Summary, TrialRow};

use html::Html;

/// What `web/` was built into.
#[derive(Debug, Clone, Copy)]
pub struct Assets<'a> {
    /// The script.
    pub script: &'a str,
    /// The style.
    pub style: &'a str,
    /// `sha256-...` of the script, for the content security policy.
    pub script_hash: &'a str,
    /// This crate as WebAssembly, compressed (zlib) and in base64.
    pub analysis: &'a str,
}

/// In how many blocks there are trials of a kind, in words: `3`, or `2 of 3`.
pub fn blocks(summary: &Summary, of: impl Fn(&&TrialRow) -> bool) -> String {
    let there: BTreeSet<u32> = summary.trials.iter().filter(of).map(|t| t.block).collect();
    let (there, planned) = (there.len(), summary.setup.repeats);
    if there == planned as usize {
        planned.to_string()
    } else {
        format!("{there} of {planned}")
    }
}

/// A run that would make the page longer, in bytes, is not carried in it: then trials are
/// left out on the command line alone, and the page says so.
const BYTES_MAX: usize = 2_950_000;

type Part = fn(&mut Html, &Summary);

/// The parts of the page that follow from the figures: written again when trials
/// are left out.
const PARTS: [(&str, Part); 10] = [
    ("verdict", front::verdict),
    ("answers", front::answers),
    ("latency", tables::latency),
    ("overhead", tables::overhead),
    ("resources", tables::resources),
    ("money", money::table),
    ("endpoints", tables::endpoints),
    ("inference", inference::table),
    ("named", published::named),
    ("instrument", instrument::table),
];

/// The parts that follow from the figures, by name, as HTML.
#[must_use]
pub fn parts(summary: &Summary) -> BTreeMap<&'static str, String> {
    let write = |(name, part): (&'static str, Part)| {
        let mut html = Html::default();
        part(&mut html, summary);
        (name, html.0)
    };
    PARTS.into_iter().map(write).collect()
}

/// A part in its place, which the script finds by its name.
fn part(page: &mut Html, summary: &Summary, name: &str) {
    page.raw(&format!("<div data-part=\"{name}\">"));
    if let Some((_, write)) = PARTS.iter().find(|(n, _)| *n == name) {
        write(page, summary);
    }
    page.raw("</div>\n");
}

/// The page as one HTML document. Without `evidence` it has no charts over time, and
/// trials cannot be left out in it.
#[must_use]
pub fn render(summary: &Summary, evidence: Option<&Evidence>, assets: &Assets<'_>) -> String {
    document(summary, evidence, assets, false)
}

/// The page of a run that still goes on: it listens to `events` beside it, shows the
/// trial that is running, and loads itself again after each.
#[must_use]
pub fn render_live(summary: &Summary, evidence: &Evidence, assets: &Assets<'_>) -> String {
    document(summary, Some(evidence), assets, true)
}

fn document(
    summary: &Summary,
    evidence: Option<&Evidence>,
    assets: &Assets<'_>,
    live: bool,
) -> String {
    let mut page = Html::default();
    head(&mut page, summary, assets, live);
    page.raw("<body>\n");
    front::header(&mut page, summary);
    page.raw("<main>\n");
    if live {
        front::live(&mut page);
    }
    front::first_screen(&mut page, summary);
    charts::sections(&mut page, summary, evidence.is_some());
    trials::section(&mut page, summary);
    published::section(&mut page, summary);
    about::environment(&mut page, summary);
    about::method(&mut page, summary);
    about::reproduce(
        &mut page,
        summary,
        evidence.map(|e| e.details.plan.as_str()),
    );
    page.raw("</main>\n");
    embed::block(&mut page, "summary", &embed::packed(summary));
    if let Some(evidence) = evidence {
        embed::block(&mut page, "details", &embed::packed(&evidence.details));
        let (input, analysis) = (embed::packed(&evidence.input), assets.analysis.trim());
        let whole = page.0.len() + input.len() + analysis.len() + assets.script.len();
        if whole <= BYTES_MAX {
            embed::block(&mut page, "input", &input);
            embed::block(&mut page, "analysis", analysis);
        }
    }
    page.raw("<script>")
        .raw(assets.script)
        .raw("</script>\n</body>\n</html>\n");
    page.0
}

fn head(page: &mut Html, summary: &Summary, assets: &Assets<'_>, live: bool) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Nothing may be loaded from anywhere, and no script but ours may run. The
    // analysis in the page is compiled, from bytes that are in the page.
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
        .raw("style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; ")
        .raw(if live { "connect-src 'self'; " } else { "" })
        .raw("script-src '")
        .raw(assets.script_hash.trim())
        .raw("' 'wasm-unsafe-eval'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.tag("title", &format!("{}: what the mesh costs", summary.plan))
        .raw("\n");
    page.raw("<style>")
        .raw(assets.style)
        .raw("</style>\n</head>\n");
}

/// Index of a mesh's colour: 0 for the baseline, then in the order of the plan.
fn colour_of(summary: &Summary, mesh: &str) -> usize {
    if mesh == summary.baseline {
        return 0;
    }
    let others = summary
        .setup
        .meshes
        .iter()
        .filter(|m| m.name != summary.baseline);
    others
        .map(|m| m.name.as_str())
        .position(|name| name == mesh)
        .map_or(0, |i| i % 7 + 1)
}

/// A mesh's name with its colour before it.
fn mesh_label(page: &mut Html, summary: &Summary, mesh: &str) {
    let colour = colour_of(summary, mesh);
    page.raw(&format!("<span class=\"mesh mesh-{colour}\">"))
        .text(mesh)
        .raw("</span>");
}

/// A grade as a badge: its word, never only its colour.
fn badge(page: &mut Html, grade: tare_model::verdict::Grade) {
    let word = grade.word();
    page.raw(&format!("<span class=\"badge {word}\">{word}</span>"));
}

/// The heading of a load, as `400rps`.
fn load_words(load: &tare_model::plan::Load) -> String {
    let rate = tare_stats::figures::rate(load.rate_rps);
    let same = load.name.replace(' ', "") == rate.replace([' ', ','], "");
    if same {
        rate
    } else {
        format!("{} ({rate})", load.name)
    }
}
