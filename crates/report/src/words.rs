//! Words that the terminal and the page share.

use std::collections::{BTreeMap, BTreeSet};

use tare_analysis::{cores, disturbance, figures};
use tare_plan::limits::REPEATS_MAX;
use tare_plan::{CapacityOf, EnvironmentKind, Figure, Load, Pairing, Unit};
use tare_records::summary::path::{Decomposition, Part};
use tare_records::summary::{
    Cell, CellOverload, LimitCount, MeshComparison, MeshTrials, Outcome, Outlier, QuantileSpread,
    Summary, TrialRow, TrialStatus,
};
use tare_records::verdict::Reason;
use tare_records::worker::Plane;

use crate::{prices, tables};

/// Returns the text with a capital letter first.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Returns the heading of a load: its rate, and its name unless that is only the rate.
/// A load without a rate has its name only.
pub(crate) fn load_heading(name: &str, load: &Load) -> String {
    let Some(rate_rps) = load.rate_rps() else {
        return name.to_owned();
    };
    let rate = figures::rate(rate_rps);
    if name.replace(' ', "") == rate.replace([' ', ','], "") {
        rate
    } else {
        format!("{name} ({rate})")
    }
}

/// Returns the heading of the load with this name.
pub(crate) fn load_of(summary: &Summary, name: &str) -> String {
    let load = summary.setup.loads.iter().find(|l| l.name == name);
    load.map_or(name.to_owned(), |l| load_heading(name, l))
}

/// Returns the name of a mesh; in a price list that of its feature, so that it fits.
pub(crate) fn mesh_label<'a>(summary: &Summary, mesh: &'a str) -> &'a str {
    match summary.price_list {
        Some(_) => prices::name(mesh),
        None => mesh,
    }
}

/// Returns the number of a mesh's colour: 0 for the baseline, then in the order of the plan.
pub(crate) fn colour_of(summary: &Summary, mesh: &str) -> usize {
    if mesh == summary.baseline {
        return 0;
    }
    let meshes = summary.setup.meshes.iter().map(|m| m.name.as_str());
    let mut others = meshes.filter(|name| *name != summary.baseline);
    others
        .position(|name| name == mesh)
        .map_or(0, |i| i % 7 + 1)
}

/// Returns a limit, in how many of `all` trials it was the limit, and what showed it.
pub(crate) fn limit(limit: &LimitCount, all: usize) -> String {
    let evidence = match limit.evidence.as_str() {
        "" => String::new(),
        text => format!(" ({text})"),
    };
    let trials = limit.trials;
    format!(
        "{} in {trials} of {all} trials{evidence}",
        limit.limit.words()
    )
}

/// How to read the tables of overloads.
pub(crate) const OVERLOAD: &str = "Before and after the overload, each mesh gets half of its own capacity. Goodput:      successful responses within the timeout, for each second of the overload in which their requests were      due. Failed: all other requests. p50 and p99 are of the successful responses. Recovery: from the end of      the overload to the first whole second that met the objectives of the capacity; 0 s if the first one did.";

/// An overload with the name of its mesh.
pub(crate) type MeshOverload<'a> = (&'a str, &'a CellOverload);

/// The tables of overloads: headings, and the overloads by percentage. Empty for a plan without an overload.
pub(crate) fn overloads(summary: &Summary) -> Vec<(&'static str, Vec<MeshOverload<'_>>)> {
    let tables = [
        (
            CapacityOf::Baseline,
            "Overload, in percent of the baseline's capacity",
        ),
        (
            CapacityOf::Own,
            "Overload, in percent of the mesh's own capacity",
        ),
    ];
    let table = |(of, heading)| {
        let cells = summary.cells.iter();
        let found = cells.filter_map(|c| Some((c.mesh.as_str(), c.overload.as_ref()?)));
        let mut found: Vec<MeshOverload<'_>> = found.filter(|(_, o)| o.of == of).collect();
        // Stable: meshes keep their order.
        found.sort_by_key(|(_, overload)| overload.percent);
        (heading, found)
    };
    let tables = tables.into_iter().map(table);
    tables.filter(|(_, found)| !found.is_empty()).collect()
}

/// A share as a percentage without a sign: `4.2 %`.
pub(crate) fn share(share: f64) -> String {
    format!("{} %", figures::significant(share * 100.0))
}

/// Returns how to read the figures of a load without a rate, in sentences.
pub(crate) fn without_rate(load: &Load, cells: &[&Cell]) -> String {
    let Some(search) = load.capacity() else {
        return "Closed loop: each user sends its next request after the response to the previous one, \
                so a slow mesh receives fewer requests. Response times are at the throughput beside \
                them, which differs by mesh: they are not compared."
            .to_owned();
    };
    let unseen = cells
        .iter()
        .filter_map(|c| c.capacity.as_ref()?.unseen_share);
    let unseen = unseen.reduce(f64::max).map_or_else(String::new, |share| {
        let percent = figures::percent(share);
        let percent = percent.trim_start_matches('+');
        format!(
            " A rate may exceed the sustainable one by up to {percent}, because a backlog shows only \
             when it reaches the allowed latency."
        )
    });
    format!(
        "The highest open-loop rate at which half of the steps meet {}; the interval is over blocks. \
         Latencies in these trials are at different rates, so they are not compared.{unseen}",
        search.objectives.join(", ")
    )
}

/// Returns what failed, in sentences that begin every output.
pub(crate) fn failures(summary: &Summary) -> Vec<String> {
    let failures = summary.failures.iter();
    failures.map(|f| format!("Failed: {}.", f.text)).collect()
}

/// Returns what the reader must know beside the answers: which trials the figures are made of, and
/// whether the machine changed. Sentences with their full stop.
pub(crate) fn conditions(summary: &Summary) -> Vec<String> {
    let mut sentences = vec![mesh_trials(&summary.mesh_trials)];
    sentences.extend(mostly_disturbed(&summary.trials));
    sentences.extend(generator_share(summary));
    sentences.extend(tables::differing(summary));
    if summary.machine.changed {
        sentences.push(
            "This machine changed its state during the run: ratios hold, absolute figures are of \
             this run only."
                .to_owned(),
        );
    }
    let unresolved = summary
        .answers
        .iter()
        .any(|a| a.outcome == Some(Outcome::NotResolved));
    if unresolved {
        sentences.extend(more_blocks(summary));
    }
    sentences
}

/// Returns how to get more blocks, with an option of the command that made the run; `None` if there cannot be more.
fn more_blocks(summary: &Summary) -> Option<String> {
    let option = if summary.gate.is_some() {
        "a longer --budget".to_owned()
    } else {
        let repeats = summary.setup.repeats;
        let more = repeats.saturating_mul(2).clamp(10, REPEATS_MAX);
        if more <= repeats {
            return None;
        }
        format!("--set repeats={more}")
    };
    Some(format!(
        "More blocks narrow down what is not resolved: {option}."
    ))
}

/// Returns what disturbed most blocks. `None` if at most half of them were disturbed: then no disturbed
/// trial is used.
fn mostly_disturbed(trials: &[TrialRow]) -> Option<String> {
    let used = || trials.iter().filter(|t| t.status == TrialStatus::Used);
    let all: BTreeSet<u32> = used().map(|t| t.block).collect();
    let found = used().filter_map(|t| Some((t.block, disturbance(&t.verdict)?.reason)));
    let named = found.map(|(block, reason)| match reason {
        Reason::HostStalled => (block, "stalls of the host"),
        _ => (block, "other users of the CPU"),
    });
    let (disturbed, words): (BTreeSet<u32>, BTreeSet<&str>) = named.unzip();
    let blocks = match disturbed.len() == all.len() {
        true => "Every block was".to_owned(),
        false => format!("{} of {} blocks were", disturbed.len(), all.len()),
    };
    (!words.is_empty()).then(|| {
        format!(
            "{blocks} disturbed by {}: all are used, and the answers hold for this disturbed machine \
             only.",
            Vec::from_iter(words).join(" and ")
        )
    })
}

/// Share of the CPU from which on a generator competes with what it measures.
const GENERATOR_SHARE_HIGH: f64 = 0.25;

/// Returns the share of the CPU that tare may use which the load generator used in a trial, from the
/// smallest to the largest. `None` on a cluster, and without samples.
fn generator_share(summary: &Summary) -> Option<String> {
    if summary.setup.environment == EnvironmentKind::Kubernetes {
        return None;
    }
    let planes = summary
        .cells
        .iter()
        .filter_map(|c| c.planes.get(&Plane::Generator));
    let runs = planes.flat_map(|p| p.cpu_cores.runs.iter());
    let shares: Vec<f64> = runs
        .map(|cores| cores / f64::from(summary.fingerprint.cores.max(1)))
        .collect();
    let least = shares.iter().copied().reduce(f64::min)?;
    let most = shares.iter().copied().reduce(f64::max)?;
    let decimals = if least < 0.02 { 1 } else { 0 };
    let percent = |share: f64| format!("{:.decimals$}", share * 100.0);
    let range = match (percent(least), percent(most)) {
        (least, most) if least == most => most,
        (least, most) => format!("{least} to {most}"),
    };
    let warning = match most >= GENERATOR_SHARE_HIGH {
        true => {
            " It competes with the meshes for the cores: lower the rate, or use a machine with more cores."
        }
        false => "",
    };
    Some(format!(
        "The load generator used {range} % of the CPU that tare may use.{warning}"
    ))
}

/// Returns how many trials of each mesh are used, and what became of the others: `Trials used: 5
/// of each mesh.`
fn mesh_trials(meshes: &[MeshTrials]) -> String {
    let words = |m: &MeshTrials| {
        let others = [
            (m.run_again, "run again with the block"),
            (m.left_out, "left out with the block"),
            (m.failed, "failed"),
        ];
        let others: Vec<String> = others
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        match others.is_empty() {
            true => m.used.to_string(),
            false => format!("{} of {} ({})", m.used, m.trials, others.join(", ")),
        }
    };
    let all: Vec<String> = meshes.iter().map(words).collect();
    if all.windows(2).all(|pair| pair[0] == pair[1]) {
        let each = all.first().map_or("0", String::as_str);
        return format!("Trials used: {each} of each mesh.");
    }
    let same = |words: &String| all.iter().filter(|other| *other == words).count();
    let most = all.iter().max_by_key(|words| same(words)).cloned();
    // What most have is said once.
    let most = most.filter(|words| same(words) > 2);
    let named = meshes.iter().zip(&all);
    let named = named.filter(|(_, words)| Some(*words) != most.as_ref());
    let mut listed: Vec<String> = named
        .map(|(m, words)| format!("{} {words}", m.mesh))
        .collect();
    listed.extend(most.map(|words| format!("each other mesh {words}")));
    format!("Trials used: {}.", listed.join("; "))
}

/// Returns what the latencies are, and what stands beside them.
pub(crate) fn spread(summary: &Summary) -> String {
    let quantiles = summary.cells.iter().flat_map(|c| &c.latency);
    let is_interval = |spread| spread == QuantileSpread::Interval;
    let beside = if quantiles.filter_map(|q| q.spread).any(is_interval) {
        format!("its {} interval", confidence(summary))
    } else {
        "the range of the trials".to_owned()
    };
    format!("latency: median of the trials' percentiles, with {beside}")
}

/// Returns how the ratios were made, and which of them decide.
pub(crate) fn questions(summary: &Summary) -> String {
    let primary = |what: Figure| {
        let mut ratios = summary.comparisons.iter().flat_map(|c| &c.ratios);
        ratios.any(|r| r.primary && r.what == what)
    };
    let corrected = if primary(Figure::Capacity) {
        "those of the capacity"
    } else if primary(Figure::Throughput) {
        "those of the throughput"
    } else if summary.sweep.is_some() {
        "p50, p99 and CPU at the first level of each factor"
    } else {
        "p50, p99 and CPU at the highest rate"
    };
    format!(
        "ratios: by block, with {} intervals; {corrected} are corrected for each other (Holm), all \
         other ratios are exploratory",
        confidence(summary)
    )
}

fn confidence(summary: &Summary) -> String {
    format!("{:.0} %", summary.confidence * 100.0)
}

/// Returns how the trials of a block shared the machine, after a comma; nothing if they ran in turns.
pub(crate) fn pairing(summary: &Summary) -> String {
    match summary.setup.pairing {
        Pairing::Turns => String::new(),
        pairing => format!(", {}", pairing.words()),
    }
}

/// Returns the meshes that others are divided by, each once, in order.
pub(crate) fn references<'a>(comparisons: &[&'a MeshComparison]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for comparison in comparisons {
        if !names.contains(&comparison.reference.as_str()) {
            names.push(&comparison.reference);
        }
    }
    names
}

/// Returns a sentence about the comparisons whose CPU is that of the application's nodes; `None` without one.
pub(crate) fn in_kernel<'a>(
    comparisons: impl IntoIterator<Item = &'a MeshComparison>,
) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for c in comparisons {
        // Only a mesh that works in the kernel has no CPU of containers beside that of the nodes.
        if c.ratio(Figure::NodeCpu).is_some() && c.ratio(Figure::Cpu).is_none() {
            names.push(format!("{} over {}", c.mesh, c.reference));
        }
    }
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{}: {}, with everything that runs there, because the mesh also works in the \
             kernel, outside containers.",
            names.join(", "),
            Figure::NodeCpu.phrase()
        )
    })
}

/// Returns the verdict of a cell as a word. Saturation is a result and has a word of its own.
pub(crate) fn cell_verdict(cell: &Cell) -> &'static str {
    match cell.saturation {
        Some(_) => "saturated",
        None => cell.verdict.grade.word(),
    }
}

/// Returns the number of blocks that have a used trial of this kind: `3`, or `2 of 3`.
pub(crate) fn blocks(summary: &Summary, of: impl Fn(&&TrialRow) -> bool) -> String {
    let used = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::Used);
    let used: Vec<&TrialRow> = used.filter(of).collect();
    // Of each mesh: the baseline is in each part of a block, and the others in one of them.
    let mut of_mesh: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for trial in &used {
        of_mesh.entry(&trial.mesh).or_default().insert(trial.block);
    }
    if of_mesh.len() > 1 {
        of_mesh.remove(&*summary.baseline);
    }
    let found = of_mesh.values().map(BTreeSet::len).max().unwrap_or(0);
    let loads: BTreeSet<&str> = used.iter().map(|t| t.load.as_str()).collect();
    // Some loads have blocks of their own, such as the searches for the capacity.
    let planned = match loads.first() {
        Some(load) if loads.len() == 1 => summary.setup.blocks_of_load.get(*load).copied(),
        _ => None,
    };
    let planned = planned.unwrap_or(summary.setup.repeats);
    if found == planned as usize {
        planned.to_string()
    } else {
        format!("{found} of {planned}")
    }
}

/// Describes the largest measurement error of all cells, without a full stop. `None` if no trial
/// compared its timestamps with the kernel's.
pub(crate) fn instrument_error(summary: &Summary) -> Option<String> {
    let instruments = || summary.cells.iter().filter_map(|c| c.instrument.as_ref());
    let largest = |name: Figure| {
        let rows = instruments().flat_map(|i| &i.service_time);
        let supported = rows.filter(|q| q.name == name && q.supported);
        let ns = supported.filter_map(|q| q.value_ns).max()?;
        Some(format!("{} at {name}", figures::duration(ns as f64)))
    };
    let found: Vec<String> = [Figure::P50, Figure::P99]
        .into_iter()
        .filter_map(largest)
        .collect();
    let sampled: u64 = instruments().map(|i| i.sampled).sum();
    (!found.is_empty()).then(|| {
        format!(
            "the generator adds at most {} to a service time, by kernel timestamps of {} requests",
            found.join(" and "),
            figures::count(sampled)
        )
    })
}

/// Describes how the time from core to core varied, without a full stop. `None` if it did not, or
/// was not measured.
pub(crate) fn core_distances(summary: &Summary) -> Option<String> {
    let cells = summary.cells.iter().filter_map(|c| c.core_to_core);
    let all = cores::over(cells.flat_map(|c| [c.least_ns, c.most_ns]))?;
    cores::moved(all.least_ns, all.most_ns).then(|| {
        format!(
            "a cache line took {} to {} from core to core where the generators ran; the cost of a \
             request on one machine grows with that time",
            figures::nanoseconds(all.least_ns),
            figures::nanoseconds(all.most_ns)
        )
    })
}

/// Describes how a trial differs from the others of its cell, without a full stop.
pub(crate) fn outlier(outlier: &Outlier) -> String {
    let cores = outlier.cores.map_or_else(String::new, |c| {
        format!(
            "; core to core took {}, in the other trials {}",
            figures::nanoseconds(c.here_ns),
            figures::nanoseconds(c.median_ns)
        )
    });
    format!(
        "{} is {}, the median of the trials is {}{cores}",
        outlier.what,
        figures::duration(outlier.value_ns as f64),
        figures::duration(outlier.median_ns as f64),
    )
}

/// What the sides of a call add to the mean latency, in a sentence.
pub(crate) fn decomposition(summary: &Summary, d: &Decomposition) -> String {
    let added = |wanted: Part| {
        let part = d.parts.iter().find(|p| p.part == wanted);
        part.map_or("-".to_owned(), |p| {
            let e = &p.mean_ns;
            figures::amount_interval(e.value, e.low, e.high, Unit::Ns).to_string()
        })
    };
    format!(
        "{} adds {} to the mean latency at {}: the proxies of the callers alone add {}, those of the called \
         services alone add {}, and their interaction is {}.",
        d.mesh,
        added(Part::Whole),
        load_of(summary, &d.load),
        added(Part::Client),
        added(Part::Server),
        added(Part::Interaction)
    )
}
