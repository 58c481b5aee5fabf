//! What the meshes cost at the reader's size, where the plan gives prices.

use tare_analysis::figures;
use tare_model::summary::Summary;

use crate::page::html::Html;
use crate::page::tables::{estimate, per_load, plain, row_head};

pub(crate) fn table(page: &mut Html, summary: &Summary) {
    let Some(prices) = &summary.setup.prices else {
        return;
    };
    let currency = &prices.currency;
    page.tag(
        "p class=\"caption\"",
        &format!(
            "A core at {} {currency} an hour, a GiB at {}; a month of 730.5 hours. The data plane's CPU is \
             taken to follow the rate and its memory the number of proxies; the control plane counts as \
             measured. Below each figure: its interval over runs.",
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
        row_head(page, summary, cell);
        plain(page, &figures::rate(cost.rps));
        plain(page, &figures::count(cost.proxies.round() as u64));
        estimate(page, &cost.cores, figures::cores);
        estimate(page, &cost.memory_gib, figures::significant);
        estimate(page, &cost.per_month, figures::significant);
        page.raw("</tr>\n");
    });
}
