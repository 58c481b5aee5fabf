//! What the meshes would cost elsewhere: the proxies of another service, and in a month if the plan has prices.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::tables;

/// Whether the cost of a hop is known, from which that of another service is computed.
pub(super) fn has_calculator(summary: &Summary) -> bool {
    summary.proxy_cpu.iter().any(|cpu| cpu.hop_ns.is_some())
}

/// Appends the place of the form, if the cost of a hop is known.
pub(super) fn calculator(page: &mut Html, summary: &Summary) {
    if !has_calculator(summary) {
        return;
    }
    open_section(page, "service", "For your service");
    caption(
        page,
        "The CPU of idle proxies plus that of each request, and their memory, as measured here, times what you enter. The ends \
         are the sums of the ends of the intervals. Another machine and larger requests change both; the control plane is not in it.",
    );
    page.raw(
        "<div data-calculator><noscript><p>This form needs JavaScript. The costs of a hop are in the tables of \
         CPU and memory.</p></noscript></div>\n</section>\n",
    );
}

/// Appends the cost in a month.
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
