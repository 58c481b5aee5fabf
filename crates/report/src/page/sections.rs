//! The sections with charts: what each shows, how to read it, and its figures as a table that
//! unfolds.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, open_section};
use super::{capacity, churn, cost, instrument, sweep, tables};

/// One section of the page.
struct Section {
    id: &'static str,
    heading: &'static str,
    caption: &'static str,
    /// The chart, by its name in the script.
    chart: &'static str,
    /// Appends the figures of the chart.
    figures: Option<fn(&mut Html, &Summary)>,
}

const LATENCY: Section = Section {
    id: "latency",
    heading: "Latency by percentile",
    caption: "All used trials pooled. The band is the range of the single trials. Dot and bar: the typical run \
              (the median of the trials' percentiles), with its interval or range. A dotted line has too few \
              responses. Latency counts from the intended instant of each request.",
    chart: "latency",
    figures: Some(tables::latency),
};

const RATIOS: Section = Section {
    id: "ratios",
    heading: "Ratios of the meshes",
    caption: "Latency and CPU of a mesh divided by those of another, by block, with intervals. Grey band: the margin \
              within which two count as the same. A filled dot is different, a hollow one is not.",
    chart: "ratios",
    figures: Some(tables::ratios),
};

const CPU: Section = Section {
    id: "cpu",
    heading: "CPU",
    caption: "Cores, mean over the measured window. Data plane (solid) and control plane (pale) are stacked. Whisker: \
              interval over blocks. Dots: single trials.",
    chart: "cpu",
    figures: None,
};

const MEMORY: Section = Section {
    id: "memory",
    heading: "Memory",
    caption: "Mean over the measured window, sum over the processes of each plane.",
    chart: "memory",
    figures: Some(|page, summary| {
        tables::resources(page, summary);
        tables::proxy_cpu(page, summary);
    }),
};

const SCALING: Section = Section {
    id: "scaling",
    heading: "Scaling with the rate",
    caption: "Latency of the typical run and CPU of the data plane at each rate. Bars of latency: its interval or \
              range; bars of CPU: its interval over blocks. A curve that bends upwards is near its limit.",
    chart: "scaling",
    figures: None,
};

const ENDPOINTS: Section = Section {
    id: "endpoints",
    heading: "Latency by endpoint",
    caption: "Median (dot) and p99 (tick) of each endpoint, all used trials pooled.",
    chart: "endpoints",
    figures: Some(tables::endpoints),
};

const TIME: Section = Section {
    id: "time",
    heading: "One trial over time",
    caption: "Latency: each column is a part of the measured window; the stronger the colour of a cell, the more responses it \
              has. Lines: median (solid) and p99 (dashed) of each column.",
    chart: "time",
    figures: None,
};

const DISTRIBUTIONS: Section = Section {
    id: "distributions",
    heading: "Two latency distributions",
    caption: "Share of responses by latency, and the cumulative share. The latency axis is logarithmic.",
    chart: "distributions",
    figures: None,
};

const INSTRUMENT: Section = Section {
    id: "instrument",
    heading: "Measurement error",
    caption: "Lateness is the generator's own delay: how long after its intended instant a request was sent. It is \
              part of the latency above and should be small compared with it. Dot: median lateness. End of the \
              line: p99. Diamond: median latency of the typical run.",
    chart: "lateness",
    figures: Some(instrument::table),
};

/// Appends all sections with charts. Charts over time need the page's `details`.
pub(super) fn write(page: &mut Html, summary: &Summary, details: bool) {
    if capacity::is_of(summary) {
        return capacity::resources(page, summary);
    }
    churn::section(page, summary);
    sweep::section(page, summary);
    for s in [LATENCY, RATIOS, CPU, MEMORY] {
        section(page, summary, &s);
    }
    cost::calculator(page, summary);
    cost::section(page, summary);
    if has_scaling(summary) {
        section(page, summary, &SCALING);
    }
    section(page, summary, &ENDPOINTS);
    if details {
        section(page, summary, &TIME);
        section(page, summary, &DISTRIBUTIONS);
    }
    section(page, summary, &INSTRUMENT);
}

/// Whether the loads differ in their rate only.
fn has_scaling(summary: &Summary) -> bool {
    summary.setup.loads.len() > 1 && summary.sweep.is_none()
}

/// Appends links to the sections that the page has.
pub(super) fn contents(page: &mut Html, summary: &Summary) {
    let mut entries = vec![];
    if summary.cells.iter().any(|c| c.churn.is_some()) {
        entries.push(("control-plane", "Control plane"));
    }
    if summary.sweep.is_some() {
        entries.push(("sweep", "Sweep"));
    }
    entries.extend([
        ("latency", "Latency"),
        ("ratios", "Ratios"),
        ("cpu", "CPU"),
        ("memory", "Memory"),
    ]);
    if cost::has_calculator(summary) {
        entries.push(("service", "For your service"));
    }
    if summary.setup.prices.is_some() {
        entries.push(("cost", "Cost"));
    }
    if has_scaling(summary) {
        entries.push(("scaling", "Scaling"));
    }
    if summary.path.is_some() {
        entries.push(("path", "Where in the path"));
    }
    entries.extend([
        ("endpoints", "Endpoints"),
        ("instrument", "Measurement error"),
    ]);
    if summary.profiles.is_some() {
        entries.push(("profiles", "Profiles"));
    }
    entries.extend([
        ("trials", "Trials"),
        ("setup", "Setup"),
        ("method", "Method"),
        ("reproduce", "Reproduce"),
    ]);
    if capacity::is_of(summary) {
        let shown = ["cpu", "profiles", "trials", "setup", "method", "reproduce"];
        entries.retain(|(id, _)| shown.contains(id));
    }
    page.raw("<nav aria-label=\"contents\"><ul>");
    for (id, words) in entries {
        page.raw(&format!("<li><a href=\"#{id}\">{words}</a></li>"));
    }
    page.raw("</ul></nav>\n");
}

fn section(page: &mut Html, summary: &Summary, s: &Section) {
    open_section(page, s.id, s.heading);
    caption(page, s.caption);
    chart(page, s.chart);
    if let Some(figures) = s.figures {
        page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
        figures(page, summary);
        page.raw("</details>\n");
    }
    page.raw("</section>\n");
}

/// Appends the place where the script draws a chart.
pub(super) fn chart(page: &mut Html, name: &str) {
    page.raw(&format!("<div class=\"charts\" data-chart=\"{name}\">"));
    page.raw(
        "<noscript><p>This chart needs JavaScript. The figures are in the tables.</p></noscript>",
    );
    page.raw("</div>\n");
}
