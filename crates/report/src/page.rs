//! The page with the front end that was built beside it.

use tare_model::summary::Summary;
use tare_page::{Assets, Evidence, RunInput};

use crate::series;
use crate::store::LoadedRun;

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
    let evidence = Evidence {
        input: RunInput::new(&run.manifest, &run.trials, &run.notes),
        details: series::details(run),
    };
    tare_page::render(summary, Some(&evidence), &ASSETS)
}
