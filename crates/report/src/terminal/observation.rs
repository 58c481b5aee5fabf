//! The result of `tare observe`.

use tare_analysis::figures;
use tare_records::observation::{Observation, ObservedPart, Part, Usage};

use super::output::{BOLD, DIM, Output, PLAIN};
use crate::table::{Cell, Column, Columns, Scale, Table, text};
use crate::text::printable;

/// Workloads of a part that are listed; all of them are in the JSON document.
const WORKLOADS_MAX: usize = 12;

/// Returns an observation as text that ends in a newline.
#[must_use]
pub fn render_observation(observation: &Observation, colour: bool) -> String {
    let mut out = Output::new(colour);
    let Observation {
        observed_ns,
        server,
        nodes,
        ..
    } = observation;
    let heading = format!(
        "Observed for {} on {} of {server}",
        figures::duration(*observed_ns as f64),
        match nodes.len() {
            1 => "1 node".to_owned(),
            n => format!("{n} nodes"),
        }
    );
    out.wrapped(BOLD, &printable(&heading), "", "  ");
    out.line("");
    text::write(&mut out, &usage(observation));
    for part in &observation.parts {
        let more = part.workloads.len().saturating_sub(WORKLOADS_MAX);
        if more > 0 {
            let words = format!("{}: {more} more: --output json", part.part.words());
            out.painted(DIM, &words);
        }
    }
    out.line("");
    if let Some(share) = &observation.sidecar_share {
        let [value, low, high] = [Some(share.value), share.low, share.high]
            .map(|share| share.map(|share| share * 100.0));
        let share = figures::interval(value.unwrap_or_default(), low, high, "%");
        let text = format!("The sidecars used {share} as much CPU as the containers beside them.");
        out.wrapped(PLAIN, &text, "* ", "  ");
        out.line("");
    }
    let sidecars = observation.parts.iter().find(|p| p.part == Part::Sidecars);
    if let Some(sidecars) = sidecars.filter(|p| p.total.requests.is_some()) {
        text::write(&mut out, &requests(sidecars));
        out.line("");
    }
    out.wrapped(DIM, &legend(observation), "", "");
    for note in &observation.notes {
        out.wrapped(PLAIN, note, "note: ", "  ");
    }
    out.text
}

/// The parts of the mesh, each with the workloads that it consists of.
fn usage(observation: &Observation) -> Table {
    let memory = |label| Column::number(label, Scale::Mib);
    Columns::of(observation.parts.iter().flat_map(named))
        .with(Column::text("part"), |(name, _)| Cell::name(name))
        .count(Column::number("pods", Scale::Count), |(_, used)| {
            used.pods.into()
        })
        .estimate(Column::number("CPU", Scale::Cores), |(_, used)| {
            Some(&used.cpu_cores)
        })
        .with(memory("memory"), |(_, used)| {
            Cell::Number(used.memory_bytes)
        })
        .with(memory("largest"), |(_, used)| {
            Cell::Number(used.memory_max_bytes)
        })
        .table("")
}

/// A part, and its workloads if they are not the whole part.
fn named(part: &ObservedPart) -> Vec<(String, &Usage)> {
    let shown = match part.workloads.len() {
        1 if part.part != Part::Sidecars => 0,
        _ => WORKLOADS_MAX,
    };
    let total = (part.part.words().to_owned(), &part.total);
    let workloads = part.workloads.iter().take(shown);
    let workloads = workloads.map(|w| (format!("  {}", w.name), &w.usage));
    [total].into_iter().chain(workloads).collect()
}

/// What the sidecars cost by request, of those workloads that have counters.
fn requests(sidecars: &ObservedPart) -> Table {
    let named = named(sidecars).into_iter();
    let rows = named.filter_map(|(name, usage)| Some((name, usage.requests.as_ref()?)));
    let rate = Column::number("rate", Scale::Rps);
    let cores = Column::number("cores per 1,000 rps", Scale::Cores).without_unit();
    Columns::of(rows)
        .with(Column::text("requests"), |(name, _)| Cell::name(name))
        .with(rate, |(_, found)| Cell::Number(found.per_second.value))
        .estimate(cores, |(_, found)| found.cpu_cores_per_krps.as_ref())
        .table("")
}

fn legend(observation: &Observation) -> String {
    let windows = observation.parts.first();
    let windows = windows.map_or(0, |p| p.total.cpu_cores.runs.len());
    let mut parts = vec![format!(
        "CPU: mean with its {:.0} % interval, from {windows} windows. It holds for the observed time only; at other times \
         the traffic may differ",
        observation.confidence * 100.0
    )];
    if windows < 4 {
        parts.push("an interval needs a minute or more".to_owned());
    }
    parts.push("memory: mean of the working set, and its largest value".to_owned());
    parts.push(format!(
        "all values are those of the kubelets, up to {} old",
        figures::duration(observation.age_ns_max as f64)
    ));
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::observation::{ObservedPart, Requests, Workload};
    use tare_records::summary::Estimate;

    fn usage(pods: u32, cores: f64, mib: f64) -> Usage {
        Usage {
            pods,
            cpu_cores: Estimate {
                value: cores,
                low: Some(cores * 0.9),
                high: Some(cores * 1.1),
                runs: vec![cores; 20],
            },
            memory_bytes: mib * 1048576.0,
            memory_max_bytes: mib * 1.1 * 1048576.0,
            requests: None,
        }
    }

    #[test]
    fn parts_and_workloads_have_rows_of_at_most_80_columns() {
        let workload = |name: String, cores: f64| Workload {
            name,
            usage: usage(1, cores, 50.0),
        };
        let many =
            (0..14).map(|i| workload(format!("shop/service-with-a-rather-long-name-{i}"), 0.0123));
        let part = |part, workloads: Vec<Workload>| ObservedPart {
            part,
            total: usage(14, 0.172, 700.0),
            workloads,
        };
        let observation = Observation {
            schema_version: 1,
            tare_version: "0".into(),
            server: "https://k8s.example:6443".into(),
            started_unix_ns: 0,
            observed_ns: 290_000_000_000,
            confidence: 0.95,
            nodes: vec!["a".into(), "b".into()],
            parts: vec![
                part(Part::Sidecars, many.collect()),
                part(
                    Part::ControlPlane,
                    vec![workload("istio-system/istiod".into(), 0.01)],
                ),
            ],
            sidecar_share: Some(usage(0, 0.21, 0.0).cpu_cores),
            age_ns_max: 12_400_000_000,
            notes: vec![
                "the kubelet of b did not respond to 1 of 50 requests: no response within 4 s"
                    .into(),
            ],
        };
        let mut observation = observation;
        observation.parts[0].total.requests = Some(Requests {
            per_second: usage(0, 430.0, 0.0).cpu_cores,
            cpu_cores_per_krps: Some(usage(0, 0.4, 0.0).cpu_cores),
        });
        let text = render_observation(&observation, false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        for part in [
            "Observed for 290 s on 2 nodes of https://k8s.example:6443",
            "   14 0.172 (0.155 to 0.189)     700      770",
            "sidecars: 2 more: --output json",
            "control plane  ",
            "* The sidecars used 21 % (19 to 23) as much CPU",
            "      430  0.400 (0.360 to 0.440)",
            "up to 12.4 s\nold",
            "note: the kubelet of b",
        ] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        assert!(
            !text.contains("istiod"),
            "the only workload is the whole part: {text}"
        );
    }
}
