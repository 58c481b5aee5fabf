//! `report.html`: one file that needs nothing else. The text and all tables are
//! written here, so that they are there without scripts, for readers by ear and for
//! printing; the charts are drawn by the bundle of `web/` from the embedded summary.

mod about;
mod front;
mod tables;
mod trials;

use tare_model::summary::Summary;

use crate::html::{Html, json};

const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/web/page.js"));
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/web/page.css"));
/// `sha256-...` of the script, for the content security policy.
const SCRIPT_HASH: &str = include_str!(concat!(env!("OUT_DIR"), "/web/page.js.integrity"));

/// The page as one HTML document.
#[must_use]
pub fn render_page(summary: &Summary) -> String {
    let mut page = Html::default();
    head(&mut page, summary);
    page.raw("<body>\n");
    front::header(&mut page, summary);
    page.raw("<main>\n");
    front::answers(&mut page, summary);
    front::charts(&mut page);
    tables::latency(&mut page, summary);
    tables::overhead(&mut page, summary);
    tables::resources(&mut page, summary);
    tables::endpoints(&mut page, summary);
    trials::section(&mut page, summary);
    about::environment(&mut page, summary);
    about::method(&mut page, summary);
    about::reproduce(&mut page, summary);
    page.raw("</main>\n");
    let data = serde_json::to_string(summary).unwrap_or_else(|_| "null".to_owned());
    page.raw("<script type=\"application/json\" id=\"summary\">");
    page.raw(&json(&data)).raw("</script>\n");
    page.raw("<script>")
        .raw(SCRIPT)
        .raw("</script>\n</body>\n</html>\n");
    page.0
}

fn head(page: &mut Html, summary: &Summary) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // Nothing may be loaded from anywhere, and no script but ours may run.
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
        .raw("style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; ")
        .raw("script-src '")
        .raw(SCRIPT_HASH.trim())
        .raw("'\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.tag("title", &format!("{}: what the mesh costs", summary.plan))
        .raw("\n");
    page.raw("<style>").raw(STYLE).raw("</style>\n</head>\n");
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
