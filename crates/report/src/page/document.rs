//! The page as one HTML document, with the bundle of the front end.

use std::path::Path;

use tare_records::layout::PARTIAL_PREFIX;
use tare_records::summary::Summary;

use super::details::{self, Details};
use super::html::Html;
use super::{about, header, path, profiles, published, sections, trials};
use crate::findings;
use crate::store::{LoadedRun, StoreError, load_run};

/// The script of the page, embedded compressed: a third of its size.
const SCRIPT: &str = include_str!("../../../../web/dist/page.js");
/// The script that runs it.
const START: &str = include_str!("../../../../web/dist/start.js");
const STYLE: &str = include_str!("../../../../web/dist/page.css");
/// `sha256-...` of both scripts, for the content security policy.
const SCRIPT_HASH: &str = include_str!("../../../../web/dist/page.js.integrity");
const START_HASH: &str = include_str!("../../../../web/dist/start.js.integrity");

/// Returns the page of a summary alone, without charts over time.
#[must_use]
pub fn render_page(summary: &Summary) -> String {
    document(summary, None, false)
}

/// Returns the whole page of a run.
#[must_use]
pub fn render_report(run: &LoadedRun, summary: &Summary) -> String {
    document(summary, Some(&details::read(run)), false)
}

/// Returns the page of the run that is in progress in `dir`. The page follows `/events` of the
/// server that it came from: it shows the current trial and reloads after each trial.
///
/// # Errors
/// [`StoreError`] if `dir` has no readable run.
pub fn render_live(dir: &Path) -> Result<String, StoreError> {
    let mut run = load_run(dir)?;
    // The trial in progress is incomplete, which is not worth a note.
    run.notes.retain(|note| !note.starts_with(PARTIAL_PREFIX));
    let summary = crate::summarise(&run);
    Ok(document(&summary, Some(&details::read(&run)), true))
}

fn document(summary: &Summary, details: Option<&Details>, live: bool) -> String {
    let mut page = Html::default();
    let connect = if live { "connect-src 'self'; " } else { "" };
    let (script, start) = (SCRIPT_HASH.trim(), START_HASH.trim());
    let scripts = format!("{connect}script-src '{script}' '{start}'");
    let title = format!("{}: cost of a service mesh", summary.plan);
    head(&mut page, &title, &scripts, "");
    page.raw("<body>\n");
    header::header(&mut page, summary, details);
    page.raw("<main>\n");
    if live {
        header::live(&mut page);
    }
    // A run that may still get an answer does not say that it has none.
    let none = findings::no_answer(summary).filter(|_| !live);
    // A plan with proxies on one side only asks where in the path they cost.
    let asks_where = none.is_none()
        && summary
            .path
            .as_ref()
            .is_some_and(|p| !p.decompositions.is_empty());
    if asks_where {
        path::section(&mut page, summary);
    }
    header::answers(&mut page, summary, none.as_deref(), details);
    sections::write(&mut page, summary, details.is_some());
    if !asks_where {
        path::section(&mut page, summary);
    }
    profiles::section(&mut page, summary);
    let beside = details.map_or(&[][..], |d| &d.beside);
    trials::section(&mut page, summary, beside);
    published::section(&mut page, summary);
    about::setup(&mut page, summary);
    about::method(&mut page, summary);
    about::reproduce(&mut page, summary, details.map(|d| d.plan.as_str()));
    page.raw("</main>\n")
        .chart_data("summary", summary, &["path"]);
    if let Some(details) = details {
        page.chart_data("details", details, &[]);
    }
    page.packed("script", SCRIPT.as_bytes())
        .raw("<script>")
        .raw(START)
        .raw("</script>\n</body>\n</html>\n");
    page.0
}

/// Appends the head of a page that loads nothing from outside. `scripts` are the rules of its content security
/// policy for scripts and connections. `style` follows the style of all pages.
pub(super) fn head(page: &mut Html, title: &str, scripts: &str, style: &str) {
    page.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ")
        .raw("style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; ")
        .raw(scripts)
        .raw("\">\n");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.raw("<meta name=\"color-scheme\" content=\"light dark\">\n");
    page.tag("title", title).raw("\n");
    page.raw("<style>")
        .raw(STYLE)
        .raw(style)
        .raw("</style>\n</head>\n");
}
