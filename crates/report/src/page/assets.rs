//! The page with the bundle of the front end, `web/dist`.

use std::path::Path;

use tare_model::layout::PARTIAL_PREFIX;
use tare_model::summary::Summary;

use super::document;
use crate::series;
use crate::store::{LoadedRun, StoreError, load_run};

/// The script of the page.
pub(super) const SCRIPT: &str = include_str!("../../../../web/dist/page.js");
/// The style of the page.
pub(super) const STYLE: &str = include_str!("../../../../web/dist/page.css");
/// `sha256-...` of the script, for the content security policy.
pub(super) const SCRIPT_HASH: &str = include_str!("../../../../web/dist/page.js.integrity");

/// Returns the page of a summary alone, without charts over time.
#[must_use]
pub fn render_page(summary: &Summary) -> String {
    document(summary, None, false)
}

/// Returns the whole page of a run.
#[must_use]
pub fn render_report(run: &LoadedRun, summary: &Summary) -> String {
    document(summary, Some(&series::details(run)), false)
}

/// Returns the page of the run that is in progress in `dir`. The page follows `/events` of the
/// server that it came from.
///
/// # Errors
/// [`StoreError`] when `dir` holds no readable run.
pub fn render_live(dir: &Path) -> Result<String, StoreError> {
    let mut run = load_run(dir)?;
    // The trial that is being written is not damaged.
    run.notes.retain(|note| !note.starts_with(PARTIAL_PREFIX));
    let summary = crate::summarise(&run);
    Ok(document(&summary, Some(&series::details(&run)), true))
}
