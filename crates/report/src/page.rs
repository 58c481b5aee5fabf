//! The page with the front end that was built beside it.

use std::path::Path;

use tare_model::layout::PARTIAL_PREFIX;
use tare_model::summary::Summary;
use tare_page::{Assets, Evidence, RunInput};

use crate::series;
use crate::store::{LoadedRun, StoreError, load_run};

const ASSETS: Assets<'_> = Assets {
    script: include_str!(concat!(env!("OUT_DIR"), "/web/page.js")),
    style: include_str!(concat!(env!("OUT_DIR"), "/web/page.css")),
    script_hash: include_str!(concat!(env!("OUT_DIR"), "/web/page.js.integrity")),
    analysis: include_str!(concat!(env!("OUT_DIR"), "/web/analysis.wasm.z64")),
};

/// The page of an analysis alone: without charts over time, and without leaving out
/// trials in the page.
#[must_use]
pub fn render_page(summary: &Summary) -> String {
    tare_page::render(summary, None, &ASSETS)
}

/// The whole page of a run.
#[must_use]
pub fn render_report(run: &LoadedRun, summary: &Summary) -> String {
    tare_page::render(summary, Some(&evidence(run)), &ASSETS)
}

/// The page of a run that still goes on in `dir`: it follows `/events` of the server
/// that it came from.
///
/// # Errors
/// [`StoreError`] when there is no readable run.
pub fn render_live(dir: &Path) -> Result<String, StoreError> {
    let mut run = load_run(dir)?;
    // The trial that is being written is no damage.
    run.notes.retain(|note| !note.starts_with(PARTIAL_PREFIX));
    let summary = crate::summarise(&run);
    Ok(tare_page::render_live(&summary, &evidence(&run), &ASSETS))
}

fn evidence(run: &LoadedRun) -> Evidence {
    Evidence {
        input: RunInput::new(&run.manifest, &run.trials, &run.notes),
        details: series::details(run),
    }
}
