//! The monthly cost of the meshes, if the plan has prices.

use tare_analysis::figures;
use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, estimate, open_row, open_section, per_load, plain};

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
    let money = format!("{currency} per month");
    let columns = [
        "mesh",
        "rate",
        "proxies",
        "cores",
        "memory, GiB",
        money.trim(),
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(cost) = &cell.cost else { return };
        open_row(page, summary, &cell.mesh);
        plain(page, &figures::rate(cost.rps));
        plain(page, &figures::count(cost.proxies.round() as u64));
        estimate(page, &cost.cores, figures::cores);
        estimate(page, &cost.memory_gib, figures::significant);
        estimate(page, &cost.per_month, figures::significant);
        page.raw("</tr>\n");
    });
    page.raw("</section>\n");
}
