//! Readings from kubelets' summaries (`/stats/summary`), and samples made from them. Each value has
//! a timestamp of its own, some seconds before the request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tare_records::record::{MachineSample, NodesSample, ProcessSample, ResourceSample};

use crate::objects::timestamp;

/// Namespace, pod and container.
pub(crate) type ContainerKey = (String, String, String);

/// CPU and memory of a container at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContainerReading {
    /// Timestamp of the value.
    pub(crate) unix_ns: i64,
    /// Start of the container, which distinguishes it from others of the same name.
    pub(crate) started_unix_ns: i64,
    pub(crate) cpu_ns: u64,
    pub(crate) working_set_bytes: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
}

/// CPU and memory of a node at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeReading {
    unix_ns: i64,
    cpu_ns: u64,
    available_bytes: u64,
}

/// Readings of the node and the containers in a summary. Containers without CPU are left out.
pub(crate) fn parse(
    summary: &Value,
) -> (
    Option<NodeReading>,
    BTreeMap<ContainerKey, ContainerReading>,
) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let time = |v: &Value| timestamp::unix_ns(v.as_str()?);
    let node = &summary["node"];
    let machine = (|| {
        Some(NodeReading {
            unix_ns: time(&node["cpu"]["time"])?,
            cpu_ns: node["cpu"]["usageCoreNanoSeconds"].as_u64()?,
            available_bytes: node["memory"]["availableBytes"].as_u64().unwrap_or(0),
        })
    })();
    let mut readings = BTreeMap::new();
    for pod in summary["pods"].as_array().into_iter().flatten() {
        let of = &pod["podRef"];
        for container in pod["containers"].as_array().into_iter().flatten() {
            let key = (
                text(&of["namespace"]),
                text(&of["name"]),
                text(&container["name"]),
            );
            let reading = (|| {
                let (cpu, memory) = (&container["cpu"], &container["memory"]);
                Some(ContainerReading {
                    unix_ns: time(&cpu["time"])?,
                    started_unix_ns: time(&container["startTime"]).unwrap_or(0),
                    cpu_ns: cpu["usageCoreNanoSeconds"].as_u64()?,
                    working_set_bytes: memory["workingSetBytes"].as_u64(),
                    rss_bytes: memory["rssBytes"].as_u64(),
                })
            })();
            readings.extend(reading.map(|r| (key, r)));
        }
    }
    (machine, readings)
}

/// All readings of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerReadings {
    readings: Vec<ContainerReading>,
    /// When a summary no longer had the container.
    gone_unix_ns: Option<i64>,
}

impl ContainerReadings {
    /// Adds the reading of a summary received at `now_unix_ns`; `None` if the summary does not
    /// have the container.
    pub(crate) fn push(&mut self, reading: Option<ContainerReading>, now_unix_ns: i64) {
        if self.gone_unix_ns.is_some() {
            return;
        }
        let last = self.readings.last();
        let same = |r: &ContainerReading| {
            last.is_none_or(|l| l.started_unix_ns == r.started_unix_ns && l.cpu_ns <= r.cpu_ns)
        };
        match reading.filter(same) {
            Some(r) if last.is_none_or(|l| l.unix_ns < r.unix_ns) => self.readings.push(r),
            Some(_) => {}
            // A kubelet has no reading of a container that has just started.
            None if self.readings.is_empty() => {}
            None => self.gone_unix_ns = Some(now_unix_ns),
        }
    }

    /// Whether further readings cannot change a window that ends at this instant.
    pub(crate) fn covers(&self, end_unix_ns: i64) -> bool {
        let last = self.readings.last();
        self.gone_unix_ns.is_some() || last.is_some_and(|r| r.unix_ns >= end_unix_ns)
    }

    /// Returns the age of the newest value at `now`.
    pub(crate) fn age_ns(&self, now_unix_ns: i64) -> Option<u64> {
        let last = self
            .readings
            .last()
            .filter(|_| self.gone_unix_ns.is_none())?;
        u64::try_from(now_unix_ns - last.unix_ns).ok()
    }

    /// Returns the longest time over which the samples of a window extend a reading to an edge of
    /// the window. This is the whole window if they contain fewer than two readings, because one
    /// reading gives no CPU.
    pub(crate) fn extrapolated_ns(&self, window: (i64, i64), step_ns: usize) -> u64 {
        let end = window.0 + window.1;
        match (self.readings.first(), self.readings.last()) {
            (Some(first), Some(last)) if self.distinct(window, step_ns) > 1 => {
                // The readings of a container that is gone are not extended.
                let is_gone = self.gone_unix_ns.is_some_and(|gone| gone <= end);
                let last = if is_gone { end } else { last.unix_ns };
                extrapolated_ns((first.unix_ns, last), window)
            }
            _ => whole_ns(window),
        }
    }

    /// Number of different readings in the samples of a window.
    fn distinct(&self, window: (i64, i64), step_ns: usize) -> usize {
        let (start, length) = window;
        let all = instants(length, step_ns).filter_map(|t| self.at(start + t, t == length));
        all.map(|r| r.unix_ns).collect::<BTreeSet<_>>().len()
    }

    /// Returns the reading for an instant: the last one before it or, at the end of the window, the
    /// first one after it, to extrapolate as little as possible.
    fn at(&self, edge_unix_ns: i64, is_end: bool) -> Option<ContainerReading> {
        if self.gone_unix_ns.is_some_and(|gone| gone <= edge_unix_ns) {
            return None;
        }
        let after = self.readings.partition_point(|r| r.unix_ns <= edge_unix_ns);
        let index = match is_end {
            true => after.min(self.readings.len().saturating_sub(1)),
            false => after.saturating_sub(1),
        };
        self.readings.get(index).copied()
    }
}

/// All readings of one node that represents its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeReadings {
    pub(crate) cores: u32,
    /// Whether its machine runs a service of the application.
    pub(crate) has_application: bool,
    pub(crate) readings: Vec<NodeReading>,
}

impl NodeReadings {
    pub(crate) fn push(&mut self, reading: NodeReading) {
        if self
            .readings
            .last()
            .is_none_or(|l| l.unix_ns < reading.unix_ns)
        {
            self.readings.push(reading);
        }
    }

    /// Whether further readings cannot change a window that ends at this instant.
    pub(crate) fn covers(&self, end_unix_ns: i64) -> bool {
        let last = self.readings.last();
        last.is_some_and(|r| r.unix_ns >= end_unix_ns)
    }

    /// Returns the longest time over which its readings are extended to an edge of a window. This
    /// is the whole window with fewer than two readings, which would make the machine appear idle.
    pub(crate) fn extrapolated_ns(&self, window: (i64, i64)) -> u64 {
        match self.readings.as_slice() {
            [first, .., last] => extrapolated_ns((first.unix_ns, last.unix_ns), window),
            _ => whole_ns(window),
        }
    }

    /// Returns the CPU time used until an instant, by linear interpolation, or by extrapolation
    /// from the nearest two readings.
    fn cpu_ns(&self, unix_ns: i64) -> f64 {
        match self.readings.as_slice() {
            [] => 0.0,
            [only] => only.cpu_ns as f64,
            all => {
                let after = all.partition_point(|r| r.unix_ns <= unix_ns);
                let after = after.clamp(1, all.len() - 1);
                let (a, b) = (all[after - 1], all[after]);
                let slope = (b.cpu_ns as f64 - a.cpu_ns as f64) / (b.unix_ns - a.unix_ns) as f64;
                a.cpu_ns as f64 + slope * (unix_ns - a.unix_ns) as f64
            }
        }
    }

    /// Idle CPU time between two instants.
    fn idle_ns(&self, from_unix_ns: i64, unix_ns: i64) -> u64 {
        let all = f64::from(self.cores) * (unix_ns - from_unix_ns) as f64;
        let used = self.cpu_ns(unix_ns) - self.cpu_ns(from_unix_ns);
        (all - used).max(0.0) as u64
    }
}

/// Returns the longer of two times: from the start of a window to the first reading, and from the
/// last reading to the end of the window. 0 if the readings cover the window.
fn extrapolated_ns((first, last): (i64, i64), (start_unix_ns, window_ns): (i64, i64)) -> u64 {
    let (before, after) = (first - start_unix_ns, start_unix_ns + window_ns - last);
    u64::try_from(before.max(after)).unwrap_or(0)
}

fn whole_ns((_, window_ns): (i64, i64)) -> u64 {
    u64::try_from(window_ns).unwrap_or(0)
}

/// Returns the instants of the samples of a window, since its start.
fn instants(window_ns: i64, step_ns: usize) -> impl Iterator<Item = i64> {
    (0..window_ns).step_by(step_ns).chain([window_ns])
}

/// Returns the samples of a window: at its start, at each step, and at its end.
pub(crate) fn samples(
    containers: &[ContainerReadings],
    nodes: &[NodeReadings],
    (start_unix_ns, window_ns): (i64, i64),
    step_ns: usize,
) -> Vec<ResourceSample> {
    instants(window_ns, step_ns)
        .map(|t_ns| {
            let edge = start_unix_ns + t_ns;
            let process = |container: &ContainerReadings| {
                let r = container.at(edge, t_ns == window_ns)?;
                Some(ProcessSample {
                    t_ns: r.unix_ns - start_unix_ns,
                    cpu_ns: r.cpu_ns,
                    run_queue_delay_ns: None,
                    counters: None,
                    throttled_ns: None,
                    rss_bytes: r.rss_bytes,
                    pss_bytes: None,
                    working_set_bytes: r.working_set_bytes,
                })
            };
            let cpu = |nodes: &[&NodeReadings]| NodesSample {
                cpus: nodes.iter().map(|n| n.cores).sum(),
                idle_ns: nodes.iter().map(|n| n.idle_ns(start_unix_ns, edge)).sum(),
                stolen_ns: 0,
            };
            let all = cpu(&nodes.iter().collect::<Vec<_>>());
            let of_application: Vec<_> = nodes.iter().filter(|n| n.has_application).collect();
            ResourceSample {
                t_ns,
                processes: containers.iter().map(process).collect(),
                application_nodes: (!of_application.is_empty()).then(|| cpu(&of_application)),
                machine: MachineSample {
                    cpus: all.cpus,
                    idle_ns: all.idle_ns,
                    stolen_ns: 0,
                    interrupt_ns: None,
                    pressure_ns: None,
                    memory_available_bytes: nodes
                        .iter()
                        .filter_map(|n| n.readings.last())
                        .map(|r| r.available_bytes)
                        .sum(),
                },
                throttled_ns: None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const S: i64 = 1_000_000_000;

    fn reading(t: f64, cpu_s: f64) -> ContainerReading {
        ContainerReading {
            unix_ns: (t * S as f64) as i64,
            started_unix_ns: 0,
            cpu_ns: (cpu_s * S as f64) as u64,
            working_set_bytes: Some(100),
            rss_bytes: Some(80),
        }
    }

    fn container(readings: &[(f64, f64)]) -> ContainerReadings {
        let mut container = ContainerReadings::default();
        for (t, cpu) in readings {
            container.push(Some(reading(*t, *cpu)), (*t * S as f64) as i64);
        }
        container
    }

    #[test]
    fn readings_have_the_timestamps_of_the_values() {
        let summary = json!({
            "node": {"cpu": {"time": "1970-01-01T00:00:09Z", "usageCoreNanoSeconds": 7},
                "memory": {"availableBytes": 5}},
            "pods": [{"podRef": {"name": "web-1", "namespace": "n"}, "containers": [
                {"name": "tare", "startTime": "1970-01-01T00:00:01Z",
                 "cpu": {"time": "1970-01-01T00:00:08.5Z", "usageCoreNanoSeconds": 3},
                 "memory": {"workingSetBytes": 10, "rssBytes": 8}},
                {"name": "young", "cpu": {"time": "1970-01-01T00:00:08Z"}}]}]});
        let (node, containers) = parse(&summary);
        assert_eq!(node.unwrap().cpu_ns, 7);
        let place = ("n".to_owned(), "web-1".to_owned(), "tare".to_owned());
        assert_eq!(containers.len(), 1, "a container without CPU is left out");
        assert_eq!(containers[&place].unix_ns, 8_500_000_000);
        assert_eq!(containers[&place].working_set_bytes, Some(10));
    }

    #[test]
    fn an_instant_takes_the_reading_before_it_and_the_end_the_one_after() {
        let container = container(&[
            (9.0, 1.0),
            (11.0, 2.0),
            (11.0, 2.0),
            (15.0, 3.0),
            (21.0, 6.0),
        ]);
        let at = |t: f64, end| container.at((t * S as f64) as i64, end).unwrap().unix_ns / S;
        assert_eq!((at(10.0, false), at(16.0, false)), (9, 15));
        assert_eq!(at(20.0, true), 21);
        assert_eq!(at(25.0, true), 21, "nothing newer");
        assert_eq!(at(1.0, false), 9, "nothing older");
        assert!(container.covers(20 * S) && !container.covers(22 * S));
        assert_eq!(container.age_ns(22 * S), Some(S as u64));
    }

    #[test]
    fn a_container_that_is_gone_or_restarted_keeps_its_readings() {
        let mut gone = container(&[(0.0, 1.0), (2.0, 2.0)]);
        gone.push(None, 4 * S);
        let restarted = ContainerReading {
            started_unix_ns: 3 * S,
            ..reading(4.0, 0.1)
        };
        let mut again = container(&[(0.0, 1.0), (2.0, 2.0)]);
        again.push(Some(restarted), 4 * S);
        again.push(Some(reading(6.0, 9.0)), 6 * S);
        for container in [gone, again] {
            assert_eq!(container.at(3 * S, false).unwrap().unix_ns, 2 * S);
            assert_eq!(container.at(4 * S, false), None);
            assert!(container.covers(10 * S));
        }
        let mut young = ContainerReadings::default();
        young.push(None, S);
        young.push(Some(reading(2.0, 0.1)), 2 * S);
        assert!(young.at(2 * S, false).is_some());
    }

    /// Extrapolated time in a window that starts at 0, in seconds.
    fn extrapolated(container: &ContainerReadings, window_s: i64) -> f64 {
        container.extrapolated_ns((0, window_s * S), 2 * S as usize) as f64 / S as f64
    }

    fn node(readings: &[f64]) -> NodeReadings {
        let mut node = NodeReadings::default();
        for t in readings {
            node.push(NodeReading {
                unix_ns: (t * S as f64) as i64,
                cpu_ns: 0,
                available_bytes: 1,
            });
        }
        node
    }

    #[test]
    fn the_time_without_readings_is_extrapolated() {
        let before = container(&[(-2.0, 1.0), (-0.5, 2.0)]);
        assert_eq!(
            extrapolated(&before, 60),
            60.0,
            "one reading for all instants"
        );
        assert_eq!(extrapolated(&container(&[]), 60), 60.0);
        assert_eq!(extrapolated(&container(&[(30.0, 1.0)]), 60), 60.0);
        let times: Vec<(f64, f64)> = (-1..=30).map(|i| (2.0 * f64::from(i), 0.0)).collect();
        assert_eq!(
            extrapolated(&container(&times), 120),
            60.0,
            "no readings in its second half"
        );
        let late = container(&[(50.0, 1.0), (52.0, 2.0), (61.0, 3.0)]);
        assert_eq!(extrapolated(&late, 60), 50.0, "first reading near its end");
        let all = container(&[(-1.0, 1.0), (30.0, 2.0), (60.5, 3.0)]);
        assert_eq!(extrapolated(&all, 60), 0.0);
    }

    #[test]
    fn a_container_that_is_gone_is_not_extrapolated() {
        let gone = |readings: &[(f64, f64)], at: i64| {
            let mut container = container(readings);
            container.push(None, at * S);
            extrapolated(&container, 60)
        };
        assert_eq!(gone(&[(-1.0, 1.0), (5.0, 2.0)], 10), 0.0);
        assert_eq!(gone(&[(-1.0, 1.0), (9.0, 2.0)], 62), 51.0, "after the end");
        assert_eq!(
            gone(&[(-2.0, 1.0), (-1.0, 2.0)], 1),
            60.0,
            "no reading in the window"
        );
    }

    #[test]
    fn a_machine_with_fewer_than_two_readings_is_extrapolated_over_the_window() {
        let extrapolated =
            |readings: &[f64]| node(readings).extrapolated_ns((0, 60 * S)) / S as u64;
        assert_eq!(extrapolated(&[]), 60);
        assert_eq!(extrapolated(&[30.0]), 60);
        assert_eq!(extrapolated(&[-2.0, -1.0]), 61);
        assert_eq!(extrapolated(&[-1.0, 20.0]), 40);
        assert_eq!(extrapolated(&[50.0, 61.0]), 50);
        assert_eq!(extrapolated(&[-1.0, 60.0]), 0);
        assert!(node(&[60.0]).covers(60 * S) && !node(&[59.0]).covers(60 * S));
        assert!(!node(&[]).covers(60 * S));
    }

    #[test]
    fn samples_of_a_steady_container_have_its_cpu_rate() {
        // The container uses 0.5 cores, the node 1.25 of 2. Values are 0.7 s old.
        let times: Vec<f64> = (0..9).map(|i| 99.3 + 2.0 * f64::from(i)).collect();
        let readings: Vec<(f64, f64)> = times.iter().map(|t| (*t, (t - 50.0) / 2.0)).collect();
        let mut node = NodeReadings {
            cores: 2,
            has_application: true,
            readings: Vec::new(),
        };
        for t in &times {
            node.push(NodeReading {
                unix_ns: (t * S as f64) as i64,
                cpu_ns: ((t - 50.0) * 1.25 * S as f64) as u64,
                available_bytes: 1,
            });
        }
        // The node of the generators uses as much.
        let other = NodeReadings {
            has_application: false,
            ..node.clone()
        };
        let samples = samples(
            &[container(&readings)],
            &[node, other],
            (100 * S, 10 * S),
            2 * S as usize,
        );
        assert_eq!(samples.len(), 6);
        let (first, last) = (&samples[0], &samples[5]);
        assert_eq!(last.processes[0].unwrap().t_ns, 11_300_000_000);
        let idle = (last.machine.idle_ns - first.machine.idle_ns) as f64 / (10 * S) as f64;
        assert!((idle - 1.5).abs() < 1e-6, "{idle}");
        let [from, to] = [first, last].map(|s| s.application_nodes.unwrap());
        let idle = (to.idle_ns - from.idle_ns) as f64 / (10 * S) as f64;
        assert!((idle - 0.75).abs() < 1e-6, "{idle}");
        assert_eq!((to.cpus, last.machine.cpus), (2, 4));
        let (a, b) = (first.processes[0].unwrap(), last.processes[0].unwrap());
        let cores = (b.cpu_ns - a.cpu_ns) as f64 / (b.t_ns - a.t_ns) as f64;
        assert!((cores - 0.5).abs() < 1e-6, "{cores}");
    }
}
