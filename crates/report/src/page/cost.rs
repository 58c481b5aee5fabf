//! The monthly cost of the meshes, if the plan has prices.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::tables;

pub(super) fn section(page: &mut Html, summary: &Summary) {
    let Some(prices) = &summary.setup.prices else {
        return;
    };
    let currency = &prices.currency;
    open_section(page, "cost", "Cost per month");
    caption(
        page,
        &format!(
            "At {} {currency} per core and hour and {} per GiB and hour, with 730.5 hours per month. CPU of the data \
             plane is that of the idle proxies and of the requests, if idle proxies were sampled, else in proportion to \
             the rate; its memory is in proportion to the number of proxies; the control plane is as \
             measured. Below each figure is its interval over blocks.",
            prices.core_hour, prices.gib_hour
        ),
    );
    for load in &summary.setup.loads {
        if let Some(cost) = tables::cost(summary, &load.name) {
            table(page, &cost);
        }
    }
    page.raw("</section>\n");
}
