//! Where it ran, how it was measured, how to repeat it.

use tare_analysis::figures;
use tare_model::summary::Summary;

use crate::page::html::Html;

fn entry(page: &mut Html, term: &str, value: &str) {
    if !value.is_empty() {
        page.tag("dt", term).tag("dd", value).raw("\n");
    }
}

pub(super) fn environment(page: &mut Html, summary: &Summary) {
    let (setup, machine) = (&summary.setup, &summary.fingerprint);
    page.raw("<section aria-labelledby=\"environment\">\n<h2 id=\"environment\">What ran, and where</h2>\n<dl>\n");
    let protocols: Vec<&str> = setup.protocols.iter().map(|p| p.title()).collect();
    let workload = format!(
        "{} x {} ({}), endpoints {}{}{}",
        setup.workload,
        setup.instances,
        setup.services.join(", "),
        setup.mix,
        if protocols.is_empty() { "" } else { " over " },
        protocols.join(" and ")
    );
    entry(page, "Workload", &workload);
    for mesh in &setup.meshes {
        let s = &mesh.settings;
        let settings = serde_json::to_string(s).unwrap_or_default();
        let plain = settings
            .replace(['{', '}', '"'], "")
            .replace(':', " ")
            .replace(',', ", ");
        entry(page, &mesh.name, &format!("{} ({plain})", mesh.title));
    }
    for load in &setup.loads {
        let words = format!(
            "{} over {} connections, {} arrivals, {} after {} of warm-up, timeout {}",
            figures::rate(load.rate_rps),
            load.connections,
            load.arrivals,
            figures::duration(load.duration_ns as f64),
            figures::duration(load.warmup_ns as f64),
            figures::duration(load.timeout_ns as f64)
        );
        entry(page, &load.name, &words);
    }
    let processor = format!("{}, {} cores", machine.cpu_model, machine.cores);
    entry(page, "Processor", &processor);
    entry(page, "Memory", &figures::bytes(machine.memory_bytes as f64));
    entry(page, "Kernel", &machine.kernel);
    entry(page, "Clock source", &machine.clocksource);
    entry(page, "Governor", machine.governor.as_deref().unwrap_or(""));
    let idle = machine.idle.as_ref().map(ToString::to_string);
    entry(page, "Idle cores", &idle.unwrap_or_default());
    entry(
        page,
        "Virtualised",
        machine.virtualised.as_deref().unwrap_or(""),
    );
    let load = f64::from(machine.load_average_centi) / 100.0;
    entry(page, "Load before", &format!("{load:.2} over a minute"));
    for (name, version) in &machine.programs {
        entry(page, name, version);
    }
    entry(
        page,
        "tare",
        &format!("{}, {} build", summary.tare_version, summary.tare_build),
    );
    page.raw("</dl>\n</section>\n");
}

pub(super) fn method(page: &mut Html, summary: &Summary) {
    let percent = summary.confidence * 100.0;
    page.raw("<section aria-labelledby=\"method\">\n<h2 id=\"method\">How to read it</h2>\n<ul>\n");
    for line in [
        "Open loop: requests are planned from the clock and never wait for earlier ones. Latency \
         is the time from the intended instant to the complete response, so a stall counts for \
         everybody who would have been kept waiting.",
        "Percentiles come from the pooled counts of all usable trials; percentiles are never averaged.",
        &format!(
            "Intervals ({percent:.0} %) are over runs, because runs differ more than requests do: the \
             standard error of the pooled figure from a bootstrap over runs, times Student's t. \
             With few blocks they are wide, and that is honest."
        ),
        "Differences are paired by block: each block runs every mesh under every load once, in random \
         order. Where the interval holds zero, the two are not distinguishable. Many comparisons \
         are made here, and of every twenty without any true difference about one will look like one.",
        "A percentile is stated from 299 responses for p99, 2,995 for p99.9 and 29,956 for p99.99: \
         below that the sample may not reach it.",
        "CPU is the integral over the measured window, in cores. The generator's own proxy is in the \
         path, and is listed apart from the data plane.",
        "Lateness is the generator's own error: how long after its instant a request left.",
    ] {
        page.tag("li", line).raw("\n");
    }
    page.raw("</ul>\n</section>\n");
}

pub(super) fn reproduce(page: &mut Html, summary: &Summary, plan: Option<&str>) {
    page.raw("<section aria-labelledby=\"again\">\n<h2 id=\"again\">Once more</h2>\n<p>The order of trials and all arrivals follow from seed <code>");
    page.text(&summary.setup.seed)
        .raw("</code>. The command was:</p>\n");
    let command: Vec<String> = summary.setup.command.iter().map(|w| quoted(w)).collect();
    page.raw("<pre tabindex=\"0\"><code>")
        .text(&command.join(" "))
        .raw("</code></pre>\n");
    if let Some(plan) = plan.filter(|p| !p.is_empty()) {
        page.raw(
            "<details><summary>The plan, as it was written</summary>\n<pre tabindex=\"0\"><code>",
        )
        .text(plan)
        .raw("</code></pre></details>\n");
    }
    page.raw("<p>This page was derived from the run directory; <code>tare report DIR</code> derives it again.</p>\n</section>\n");
}

/// A word of a command as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
