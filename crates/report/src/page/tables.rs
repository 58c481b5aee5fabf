//! The figures of the charts as tables.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, per_load, table};
use crate::{tables, words};

/// Appends the latencies of the typical run, and those of all requests together.
pub(super) fn latency(page: &mut Html, summary: &Summary) {
    let spread = words::capitalised(&words::spread(summary));
    caption(
        page,
        &format!("{spread}. The maximum is that of all requests. A dash means too few responses."),
    );
    per_load(page, summary, tables::latency);
    caption(
        page,
        "Pooled: the percentiles of the requests of all used trials together, in which a single slow \
         trial can make up the whole tail. They have an interval from 20 trials on, if the trials are \
         alike enough. \"With failed requests\": of all planned requests; a request that failed counts \
         as not answered within the timeout.",
    );
    per_load(page, summary, tables::pooled);
}

/// Appends the ratios of all pairs of meshes.
pub(super) fn ratios(page: &mut Html, summary: &Summary) {
    caption(
        page,
        &format!(
            "A figure of a mesh divided by that of another, with the difference on this machine in the last line. \
             {}. A dash means too few responses.",
            words::capitalised(&words::questions(summary))
        ),
    );
    if let Some(sentence) = words::in_kernel(&summary.comparisons) {
        caption(page, &sentence);
    }
    for load in &summary.setup.loads {
        for ratios in tables::ratios(summary, &load.name) {
            table(page, &ratios);
        }
    }
    caption(
        page,
        "Statistics of the ratios. p is of the hypothesis that the ratio is 1; Holm's p is corrected \
         for all primary ratios; a ratio without it is exploratory. \"Margin\": up to this share, two \
         figures count as the same. \"Detectable\": the smallest ratio that this number of blocks \
         detects in 80 % of repetitions, as a range. \"More blocks\": about as many resolve it.",
    );
    per_load(page, summary, tables::statistics);
}

/// Appends CPU and memory of all planes.
pub(super) fn resources(page: &mut Html, summary: &Summary) {
    let mut words =
        "CPU in cores: the mean over the measured window with its interval over blocks, and the \
                     busiest second. Memory: the sum over the processes of the plane."
            .to_owned();
    let mut planes = summary.cells.iter().flat_map(|c| c.planes.values());
    if planes.any(|p| p.instructions_per_request.is_some()) {
        let what = summary.fingerprint.hardware_counters.as_deref();
        let what = what.unwrap_or("instructions and cycles");
        words += &format!(" Hardware counters: {what}.");
    }
    caption(page, &words);
    per_load(page, summary, |summary, load| {
        tables::resources(summary, load, None)
    });
}

/// Appends the fixed and the marginal CPU of the proxies, if their idle use was sampled.
pub(super) fn proxy_cpu(page: &mut Html, summary: &Summary) {
    if summary.proxy_cpu.is_empty() {
        return;
    }
    caption(
        page,
        "CPU of the proxies as a line through the idle proxies and the rates of the plan, for each block: what all \
         proxies use without load, and what a request adds on its whole way, up to the highest rate of the plan. A hop \
         is one pass of one request through one proxy; the number of hops follows from the calls of the service graph. \
         The cores per 1,000 rps contain both costs, and hold at the measured rate only.",
    );
    table(page, &tables::proxy_cpu(summary));
}

/// Appends the latencies of each endpoint.
pub(super) fn endpoints(page: &mut Html, summary: &Summary) {
    caption(page, "All usable trials pooled.");
    per_load(page, summary, tables::endpoints);
}
