//! `report.html`: one file that needs nothing else. Text and tables are written here, so that
//! they are there without scripts, for screen readers and for printing. The charts are drawn by
//! the bundle of `web/` from the embedded summary.

mod about;
mod assets;
mod charts;
mod details;
mod embed;
mod front;
mod html;
mod inference;
mod instrument;
mod money;
mod published;
mod series;
mod tables;
mod trials;

pub use assets::{render_live, render_page, render_report};
pub use details::Details;
pub(crate) use instrument::outlier_cores_words;
pub use instrument::{cores_words, instrument_words};
pub(crate) use series::{SeriesBuilder, TrialSeries};

use std::collections::BTreeSet;

use tare_model::summary::{Summary, TrialRow};

use html::Html;

/// In how many blocks there are trials of a kind, in words: `3`, or `2 of 3`.
pub(crate) fn blocks(summary: &Summary, of: impl Fn(&&TrialRow) -> bool) -> String {
    let there: BTreeSet<u32> = summary.trials.iter().filter(of).map(|t| t.block).collect();
    let (there, planned) = (there.len(), summary.setup.repeats);
    if there == planned as usize {
        planned.to_string()
    } else {
        format!("{there} of {planned}")
    }
}

type Part = fn(&mut Html, &Summary);

/// The parts of the page that hold figures, by name.
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

/// Writes a part in an element that carries its name.
fn part(page: &mut Html, summary: &Summary, name: &str) {
    page.raw(&format!("<div data-part=\"{name}\">"));
    if let Some((_, write)) = PARTS.iter().find(|(n, _)| *n == name) {
        write(page, summary);
    }
    page.raw("</div>\n");
}

/// The page as one HTML document. Without `details` it has no charts over time. A `live` page
/// listens to `/events`, shows the trial that is running, and reloads after each trial.
fn document(summary: &Summary, details: Option<&Details>, live: bool) -> String {
    let mut page = Html::default();
    head(&mut page, summary, live);
    page.raw("<body>\n");
    front::header(&mut page, summary);
    page.raw("<main>\n");
    if live {
        front::live(&mut page);
    }
    front::first_screen(&mut page, summary);
    charts::sections(&mut page, summary, details.is_some());
    trials::section(&mut page, summary);
    published::section(&mut page, summary);
    about::environment(&mut page, summary);
    about::method(&mut page, summary);
    about::reproduce(&mut page, summary, details.map(|d| d.plan.as_str()));
    page.raw("</main>\n");
    embed::block(&mut page, "summary", &embed::packed(summary));
    if let Some(details) = details {
        embed::block(&mut page, "details", &embed::packed(details));
    }
    page.raw("<script>")
        .raw(assets::SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
    page.0
}

fn head(page: &mut Html, summary: &Summary, live: bool) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Nothing may be loaded from anywhere, and no script but ours may run.
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
        .raw("style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; ")
        .raw(if live { "connect-src 'self'; " } else { "" })
        .raw("script-src '")
        .raw(assets::SCRIPT_HASH.trim())
        .raw("'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.tag("title", &format!("{}: what the mesh costs", summary.plan))
        .raw("\n");
    page.raw("<style>")
        .raw(assets::STYLE)
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
    let rate = tare_analysis::figures::rate(load.rate_rps);
    let same = load.name.replace(' ', "") == rate.replace([' ', ','], "");
    if same {
        rate
    } else {
        format!("{} ({rate})", load.name)
    }
}
