//! What ran and where, how it was measured, how to repeat it.

use tare_analysis::figures;
use tare_plan::LoadKind;
use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::tables;

fn entry(page: &mut Html, term: &str, value: &str) {
    if !value.is_empty() {
        page.tag("dt", term).tag("dd", value).raw("\n");
    }
}

pub(super) fn setup(page: &mut Html, summary: &Summary) {
    let (setup, machine) = (&summary.setup, &summary.fingerprint);
    open_section(page, "setup", "Setup");
    page.raw("<dl>\n");
    let protocols: Vec<&str> = setup.protocols.iter().map(|p| p.title()).collect();
    let workload = format!(
        "{} x {} ({}), mix {}{}{}",
        setup.instances,
        setup.workload,
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
            "{}, {} connections, {} arrivals, {} after {} of warm-up, timeout {}",
            match &load.kind {
                LoadKind::Open { rate_rps } => figures::rate(*rate_rps),
                LoadKind::Closed { .. } => format!("closed loop of {}", load.users()),
                LoadKind::Capacity(search) =>
                    format!("highest rate with {}", search.objectives.join(", ")),
                LoadKind::Overload(overload) => overload.words(),
            },
            load.connections,
            load.arrivals,
            figures::duration(load.duration_ns as f64),
            figures::duration(load.warmup_ns as f64),
            figures::duration(load.timeout_ns as f64)
        );
        let words = words + &crate::words::pairing(summary);
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
        "Virtual machine",
        machine.virtualised.as_deref().unwrap_or(""),
    );
    let counters = machine.hardware_counters.as_deref();
    entry(page, "Hardware counters", counters.unwrap_or(""));
    let load = f64::from(machine.load_average_centi) / 100.0;
    entry(
        page,
        "Load average before",
        &format!("{load:.2} over one minute"),
    );
    for (name, version) in &machine.programs {
        entry(page, name, version);
    }
    entry(
        page,
        "tare",
        &format!("{}, {} build", summary.tare_version, summary.tare_build),
    );
    page.raw("</dl>\n");
    let terms = tables::terms(summary);
    if !terms.rows.is_empty() {
        page.raw("<h3>Terms of the proxies</h3>\n");
        if let Some(sentence) = tables::differing(summary) {
            page.tag("p", &sentence).raw("\n");
        }
        table(page, &terms);
        caption(
            page,
            "As tare saw them after the load. TLS: version, cipher and key exchange at a called service; sessions: whether a second \
             connection resumed the first. The whole configuration of each proxy is in the folder of each trial.",
        );
    }
    page.raw("</section>\n");
}

pub(super) fn method(page: &mut Html, summary: &Summary) {
    let percent = summary.confidence * 100.0;
    open_section(page, "method", "Method");
    page.raw("<ul>\n");
    for line in [
        "Open loop: requests follow the schedule and never wait for earlier responses. Latency is the time from the \
         intended instant of a request to its complete response, so a stall counts for every request that it \
         delays.",
        "A latency is that of the typical trial: the median over the trials of each trial's percentile. Beside it \
         stands the percentile of all requests pooled. Percentiles are never averaged.",
        &format!(
            "Meshes are compared by ratios, paired by block: each block runs every mesh under every load once, in \
             random order, so that the state of the machine cancels out. The {percent:.0} % interval of a ratio is \
             Student's t on the logarithms of the blocks' ratios below 10 blocks, and from there on that of \
             Hodges and Lehmann with signed ranks. With few blocks the intervals are wide."
        ),
        "A ratio has one of three outcomes: different; the same within the margin, which was fixed before the run; \
         or not resolved. The primary ratios are corrected for each other by Holm's method. The others are \
         exploratory: of twenty without any true difference, about one appears as different.",
        "Something outside the trials (stolen time, other processes) can disturb a block. Such a block is left out \
         whole, for all meshes, or run again. What a trial itself measured is never a reason to leave it out.",
        "p99 needs 299 responses, p99.9 needs 2,995 and p99.99 needs 29,956. With fewer, the sample may not reach \
         the percentile, and it is not shown.",
        "CPU is CPU time divided by the length of the measured window, in cores. The generator's own proxy is in \
         the path; it is listed separately from the data plane.",
        "Lateness is the generator's own delay: how long after its intended instant a request was sent, without \
         the wait for a free connection.",
    ] {
        page.tag("li", line).raw("\n");
    }
    page.raw("</ul>\n</section>\n");
}

pub(super) fn reproduce(page: &mut Html, summary: &Summary, plan: Option<&str>) {
    open_section(page, "reproduce", "Reproduce");
    page.raw("<p>The seed <code>")
        .text(&summary.setup.seed)
        .raw("</code> determines the order of trials and all arrivals. The run was started with:</p>\n");
    let command: Vec<String> = summary.setup.command.iter().map(|w| quoted(w)).collect();
    page.raw("<pre tabindex=\"0\"><code>")
        .text(&command.join(" "))
        .raw("</code></pre>\n");
    if let Some(plan) = plan.filter(|p| !p.is_empty()) {
        page.raw("<details><summary>The plan</summary>\n<pre tabindex=\"0\"><code>")
            .text(plan)
            .raw("</code></pre></details>\n");
    }
    page.raw("<p><code>tare report DIR</code> creates this page again from the run directory.</p>\n</section>\n");
}

/// Quotes a word of a command for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
