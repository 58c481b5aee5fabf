//! The sections that hold charts: what each shows, how to read it, and the same
//! figures as a table that folds out.

use tare_model::summary::Summary;

use crate::page::html::Html;
use crate::page::part;

/// One section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    words: &'static str,
    /// Kinds of charts, as the script knows them.
    charts: &'static [&'static str],
    /// The part with the figures.
    figures: Option<&'static str>,
}

const LATENCY: Section = Section {
    id: "latency",
    title: "Latency by percentile",
    words: "Pooled over all usable trials. The band spans the single runs, the bars are the intervals. \
            A dotted line rests on too few requests to be stated. Latency counts from the intended instant.",
    charts: &["latency"],
    figures: Some("latency"),
};

const OVERHEAD: Section = Section {
    id: "overhead",
    title: "Latency added",
    words: "Difference to the baseline, paired by block, with its interval. \
            Hollow: not distinguishable from zero.",
    charts: &["overhead"],
    figures: Some("overhead"),
};

const CPU: Section = Section {
    id: "cpu",
    title: "CPU",
    words: "Cores, mean over the measured window: data plane (full) and control plane (pale) on top \
            of each other. Whisker: interval over runs; dots: the runs.",
    charts: &["cpu"],
    figures: None,
};

const MEMORY: Section = Section {
    id: "memory",
    title: "Memory",
    words: "Mean over the measured window, summed over the processes of a plane.",
    charts: &["memory"],
    figures: Some("resources"),
};

const SCALING: Section = Section {
    id: "scaling",
    title: "With the rate",
    words: "How latency and the mesh's CPU follow the rate. Bars: intervals over runs. A curve \
            that bends upwards is near its limit.",
    charts: &["scaling"],
    figures: None,
};

const ENDPOINTS: Section = Section {
    id: "endpoints",
    title: "By endpoint",
    words: "Median (dot) and p99 (end of the line) of each endpoint, pooled.",
    charts: &["endpoints"],
    figures: Some("endpoints"),
};

const TIME: Section = Section {
    id: "time",
    title: "One trial over time",
    words: "Each column is a stretch of the measured window. Above, the responses by latency: the \
            darker, the more; lines are the column's median and 99th percentile.",
    charts: &["time"],
    figures: None,
};

const DISTRIBUTIONS: Section = Section {
    id: "distributions",
    title: "Two distributions, side by side",
    words: "Share of responses by latency, on a logarithmic axis, and below it how many were done by then.",
    charts: &["distributions"],
    figures: None,
};

const INSTRUMENT: Section = Section {
    id: "instrument",
    title: "The instrument's own error",
    words: "Lateness is how long after its intended instant a request left: the generator's error, \
            and part of the latency above. Dot to the end of the line: its median to p99; diamond: the median \
            latency. It is good while it is small beside the latency.",
    charts: &["lateness"],
    figures: Some("instrument"),
};

pub(crate) fn sections(page: &mut Html, summary: &Summary, details: bool) {
    for s in [LATENCY, OVERHEAD, CPU, MEMORY] {
        section(page, summary, &s);
    }
    if summary.setup.prices.is_some() {
        page.raw("<section aria-labelledby=\"money\">\n<h2 id=\"money\">What it costs</h2>\n");
        part(page, summary, "money");
        page.raw("</section>\n");
    }
    if summary.setup.loads.len() > 1 {
        section(page, summary, &SCALING);
    }
    section(page, summary, &ENDPOINTS);
    if details {
        section(page, summary, &TIME);
        section(page, summary, &DISTRIBUTIONS);
    }
    section(page, summary, &INSTRUMENT);
}

/// Where the contents lead: the sections that are there.
pub(crate) fn contents(page: &mut Html, summary: &Summary) {
    let mut entries = vec![
        ("latency", "Latency"),
        ("overhead", "Added latency"),
        ("cpu", "CPU"),
        ("memory", "Memory"),
    ];
    if summary.setup.prices.is_some() {
        entries.push(("money", "Money"));
    }
    if summary.setup.loads.len() > 1 {
        entries.push(("scaling", "With the rate"));
    }
    entries.extend([
        ("endpoints", "Endpoints"),
        ("trials", "Trials"),
        ("instrument", "Instrument"),
        ("environment", "Environment"),
        ("again", "Once more"),
    ]);
    page.raw("<nav aria-label=\"contents\"><ul>");
    for (id, words) in entries {
        page.raw(&format!("<li><a href=\"#{id}\">{words}</a></li>"));
    }
    page.raw("</ul></nav>\n");
}

fn section(page: &mut Html, summary: &Summary, s: &Section) {
    let (id, title) = (s.id, s.title);
    page.raw(&format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n"
    ));
    page.tag("p class=\"caption\"", s.words).raw("\n");
    for chart in s.charts {
        place(page, chart);
    }
    if let Some(figures) = s.figures {
        page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
        part(page, summary, figures);
        if figures == "overhead" {
            part(page, summary, "inference");
        }
        page.raw("</details>\n");
    }
    page.raw("</section>\n");
}

/// Where the script draws charts of a kind.
pub(crate) fn place(page: &mut Html, chart: &str) {
    page.raw(&format!("<div class=\"charts\" data-chart=\"{chart}\">"));
    page.raw("<noscript><p>The chart needs scripts; the figures are in the tables.</p></noscript>");
    page.raw("</div>\n");
}
