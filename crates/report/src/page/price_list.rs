//! The price list of features: the answer, a picture of it, a table with bars, and the proof of each feature.

use tare_plan::Unit;
use tare_records::summary::{FeaturePrice, PriceList, Summary};

use super::html::Html;
use super::lanes::{self, Lane, Lanes};
use super::parts::caption;
use crate::table::{Scale, html};
use crate::{prices, tables};

/// On a narrow screen, each feature is a block: its title, then the figures with their names.
const STYLE: &str = "<style>\
.prices td { min-width: 6.5rem; }\
.prices th[scope=row] small { display: block; font-weight: 400; color: var(--quiet); font-size: 0.75rem; }\
.prices .bar { margin: 0.25rem 0 0.1rem auto; print-color-adjust: exact; -webkit-print-color-adjust: exact; }\
.prices .open .bar { background: none !important; box-shadow: inset 0 0 0 1px var(--edge); }\
.prices .open b { font-weight: 400; color: var(--quiet); }\
@media (max-width: 40rem) {\
.prices thead { display: none; }\
.prices table, .prices tbody { display: block; }\
.prices tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.2rem; border-bottom: 1px solid var(--grid); padding: 0.5rem 0; }\
.prices th, .prices td { display: block; border: 0; padding: 0.2rem 0; min-width: 0; text-align: left; }\
.prices th[scope=row] { grid-column: 1 / -1; font-weight: 600; }\
.prices td::before { content: attr(data-label); display: block; color: var(--quiet); font-size: 0.75rem; }\
.prices .bar { margin-left: 0; }\
}</style>\n";

/// Appends what the features cost: the answer, its picture, and the table.
pub(super) fn first_screen(page: &mut Html, summary: &Summary, list: &PriceList) {
    match prices::no_answer(list) {
        Some(words) => page.tag("p", &words).raw("\n"),
        None => page
            .tag("p class=\"answer\"", &prices::answer(summary, list))
            .raw("\n"),
    };
    let nothing = list.features.iter().find(|f| f.nothing);
    let noise = nothing.and_then(|f| f.cpu.as_ref()?.added.as_ref());
    let noise = noise.and_then(|e| e.low.zip(e.high));
    let lane = |feature: &FeaturePrice| {
        let price = feature.cpu.as_ref()?;
        let (name, mark) = (prices::name(&feature.mesh), prices::mark(price));
        Some(Lane::new(name, price.added.as_ref()?, mark).on_band(noise))
    };
    let picture = Lanes {
        lanes: list.features.iter().filter_map(lane).collect(),
        origin: 0.0,
        scale: Scale::Added(Unit::Ns),
    };
    if !picture.lanes.is_empty() {
        page.raw("<h3>CPU time that a feature adds to a hop</h3>\n");
        lanes::write(page, &picture);
        caption(page, prices::PICTURE);
    }
    page.raw(
        "<details class=\"figures\"><summary>Latency, CPU and memory of each feature</summary>\n",
    );
    page.raw(STYLE);
    page.raw("<div class=\"prices\">");
    html::write(page, &tables::features(summary, list));
    page.raw("</div>");
    caption(page, &prices::legend(summary, list));
    page.raw("</details>\n");
    page.raw("<details class=\"figures\"><summary>Proof that each feature was on</summary>\n");
    html::write(page, &tables::proofs(list));
    page.raw("</details>\n");
}
