//! What limited the rate of a search for the capacity, from the CPU of all processes in a step at the
//! limit.

use tare_plan::graph::ServiceGraph;
use tare_plan::mesh::Mesh;
use tare_records::capacity::{CapacityLimit, CapacityStep};
use tare_records::search::SearchLimit;
use tare_records::trial::{ProcessUse, Resources};
use tare_records::worker::Plane;

use crate::judge::{MACHINE_BUSY_SUSPECT, OTHERS_SUSPECT};

/// From this share of the cores that its threads can use, a proxy or a service is the limit. Requests
/// queue well before all of its time is used, so the objective is missed below 100 %.
pub const PROCESS_BUSY: f64 = 0.80;

/// The limit of a search in a trial of `mesh`, and the evidence as a fragment, which may be empty.
/// `step` is a step at the limit: the one above the rate that missed the objectives.
///
/// In this order, because each explains those after it: the end of the range, the generator, the
/// machine, and then the busiest of proxies and services relative to the cores that they can use: an
/// Envoy one for each of its worker threads, a service one. Without any of these, a service of `graph`
/// with a limit of its own (`concurrency`) is the limit.
#[must_use]
pub fn of(
    search: SearchLimit,
    step: Option<&CapacityStep>,
    mesh: &Mesh,
    graph: &ServiceGraph,
) -> (CapacityLimit, String) {
    let plain = |limit| (limit, String::new());
    match search {
        SearchLimit::MaxRate => return plain(CapacityLimit::MaxRate),
        SearchLimit::MinRate => return plain(CapacityLimit::MinRate),
        SearchLimit::Unknown => {
            let found = "the search ended before it found a rate";
            return (CapacityLimit::Unknown, found.to_owned());
        }
        SearchLimit::Generator => {
            let found = step.map_or_else(String::new, |s| {
                let busy = s.step.loop_utilisation * 100.0;
                format!("the generator's event loop was {busy:.0} % busy")
            });
            return (CapacityLimit::Generator, found);
        }
        SearchLimit::Target => {}
    }
    let Some(resources) = step.and_then(|s| s.resources.as_ref()) else {
        let found = "CPU was not sampled in the step above the rate";
        return (CapacityLimit::Unknown, found.to_owned());
    };
    if let Some(found) = machine(resources) {
        return (CapacityLimit::Machine, found);
    }
    let threads = |p: &ProcessUse| match p.plane {
        Plane::DataPlane | Plane::GeneratorProxy => {
            Some((CapacityLimit::Mesh, mesh.settings.concurrency.max(1)))
        }
        Plane::Application => Some((CapacityLimit::Application, 1)),
        _ => None,
    };
    let busy = |p: &ProcessUse| {
        let (limit, threads) = threads(p)?;
        let share = p.cpu_cores / f64::from(threads);
        let cores = if threads == 1 { "core" } else { "cores" };
        let found = format!("{} used {:.2} of {threads} {cores}", p.name, p.cpu_cores);
        Some((share, limit, found))
    };
    let busiest = resources.processes.iter().filter_map(busy);
    let busiest = busiest.max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((share, limit, found)) = &busiest
        && *share >= PROCESS_BUSY
    {
        return (*limit, found.clone());
    }
    if let Some(service) = graph.services.iter().find(|s| s.concurrency > 0) {
        let found = format!(
            "{} serves {} at a time, and no process used its cores",
            service.name, service.concurrency
        );
        return (CapacityLimit::Application, found);
    }
    let found = busiest.map_or_else(String::new, |(_, _, found)| {
        format!("no process used its cores; the busiest: {found}")
    });
    (CapacityLimit::Unknown, found)
}

/// Set if nearly all cores were busy, or nearly all that the trial may use.
fn machine(resources: &Resources) -> Option<String> {
    let machine = &resources.machine;
    let cores = f64::from(machine.cores.max(1));
    if machine.busy_cores / cores > MACHINE_BUSY_SUSPECT {
        let others = match machine.other_cores / cores > OTHERS_SUSPECT {
            true => format!(
                ", {:.2} by processes outside the trial",
                machine.other_cores
            ),
            false => String::new(),
        };
        return Some(format!(
            "{:.2} of {cores} cores were busy{others}",
            machine.busy_cores
        ));
    }
    let own: f64 = resources.processes.iter().map(|p| p.cpu_cores).sum();
    let own = own + resources.sampling_cores;
    let allowed = f64::from(machine.cores_allowed.max(1));
    (machine.cores_allowed < machine.cores && own / allowed > MACHINE_BUSY_SUSPECT)
        .then(|| format!("the trial used {own:.2} of {allowed} allowed cores"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use tare_plan::graph::builtin;
    use tare_records::search::{SearchStep, StepOutcome};
    use tare_records::trial::{MachineUse, MemoryKind};
    use tare_records::verdict::Verdict;

    /// A step with these cores of proxy, service and machine, on a machine with 8 cores.
    fn step(proxy: f64, service: f64, busy: f64) -> CapacityStep {
        let process = |name: &str, plane, cpu_cores| ProcessUse {
            name: name.into(),
            plane,
            cpu_cores,
            cpu_cores_max: cpu_cores,
            run_queue_delay_ns: None,
            counters: None,
            memory_mean_bytes: 0.0,
            memory_max_bytes: 0,
            memory_kind: MemoryKind::Rss,
            rss_mean_bytes: None,
            throttled_ns: None,
            gone_at_ns: None,
        };
        CapacityStep {
            number: 1,
            step: SearchStep {
                rate_rps: 1.0,
                achieved_rps: 1.0,
                duration_ns: 1,
                outcome: StepOutcome::Missed,
                missed: Vec::new(),
                latency_ns: Default::default(),
                errors_share: 0.0,
                lateness_ns: Default::default(),
                loop_utilisation: 0.97,
                verdict: Verdict::default(),
            },
            resources: Some(Resources {
                window_ns: 1,
                processes: vec![
                    process("web/sidecar", Plane::DataPlane, proxy),
                    process("web", Plane::Application, service),
                    process("generator", Plane::Generator, 1.0),
                ],
                planes: BTreeMap::new(),
                machine: MachineUse {
                    cores: 8,
                    cores_allowed: 8,
                    busy_cores: busy,
                    ..MachineUse::default()
                },
                sampling_cores: 0.0,
                kubelet_age_ns_max: None,
                whole_window_cores: None,
            }),
        }
    }

    fn limit(step: &CapacityStep, concurrency: u32, places: u32) -> (CapacityLimit, String) {
        let text = "meshes: [envoy]";
        let plan = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new()));
        let mut mesh = plan.unwrap().meshes.remove(0);
        mesh.settings.concurrency = concurrency;
        let mut graph = builtin("echo").unwrap();
        graph.services[0].concurrency = places;
        of(SearchLimit::Target, Some(step), &mesh, &graph)
    }

    #[test]
    fn the_limit_is_what_had_no_cpu_left() {
        use CapacityLimit::{Application, Machine, Mesh, Unknown};
        let mesh = limit(&step(0.93, 0.4, 3.0), 1, 0);
        let expected = "web/sidecar used 0.93 of 1 core".to_owned();
        assert_eq!(mesh, (Mesh, expected));
        // The same proxy with two worker threads has CPU left.
        assert_eq!(limit(&step(0.93, 0.4, 3.0), 2, 0).0, Unknown);
        assert_eq!(limit(&step(0.93, 0.97, 3.0), 1, 0).0, Application);
        assert_eq!(limit(&step(0.93, 0.97, 7.5), 1, 0).0, Machine);
        // Only a service with a limit of its own can be the limit if nothing is busy.
        assert_eq!(limit(&step(0.1, 0.1, 0.5), 1, 0).0, Unknown);
        let own = limit(&step(0.1, 0.1, 0.5), 1, 3);
        assert_eq!(own.0, Application);
        assert!(own.1.contains("serves 3 at a time"), "{}", own.1);
    }

    #[test]
    fn the_generator_is_the_limit_if_the_search_found_so() {
        let text = "meshes: [bare]";
        let plan = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new()));
        let (mesh, graph) = (plan.unwrap().meshes.remove(0), builtin("echo").unwrap());
        let found = of(
            SearchLimit::Generator,
            Some(&step(0.9, 0.9, 8.0)),
            &mesh,
            &graph,
        );
        assert_eq!(found.0, CapacityLimit::Generator);
        assert!(found.1.contains("97 % busy"), "{}", found.1);
        let none = of(SearchLimit::Target, None, &mesh, &graph);
        assert_eq!(none.0, CapacityLimit::Unknown);
        let most = of(SearchLimit::MaxRate, None, &mesh, &graph);
        assert_eq!(most.0, CapacityLimit::MaxRate);
    }
}
