//! What a kubelet's summary (`/stats/summary`) tells, and samples made of many of them.
//! Each value has an instant of its own, some seconds before it was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tare_model::record::{MachineSample, ProcessSample, ResourceSample};

use super::log::rfc3339_ns;

/// Namespace, pod and container.
pub(super) type Place = (String, String, String);

/// One container at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// Of the value, not of the question.
    pub(super) unix_ns: i64,
    /// When the container started: another one is another container of the same name.
    started_unix_ns: i64,
    cpu_ns: u64,
    working_set_bytes: u64,
    rss_bytes: u64,
}

/// One node at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeReading {
    unix_ns: i64,
    cpu_ns: u64,
    available_bytes: u64,
}

/// Node and containers of a summary. Containers without CPU yet are left out.
pub(super) fn parse(summary: &Value) -> (Option<NodeReading>, BTreeMap<Place, Reading>) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let time = |v: &Value| rfc3339_ns(v.as_str()?);
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
            let place = (
                text(&of["namespace"]),
                text(&of["name"]),
                text(&container["name"]),
            );
            let reading = (|| {
                let (cpu, memory) = (&container["cpu"], &container["memory"]);
                Some(Reading {
                    unix_ns: time(&cpu["time"])?,
                    started_unix_ns: time(&container["startTime"]).unwrap_or(0),
                    cpu_ns: cpu["usageCoreNanoSeconds"].as_u64()?,
                    working_set_bytes: memory["workingSetBytes"].as_u64().unwrap_or(0),
                    rss_bytes: memory["rssBytes"].as_u64().unwrap_or(0),
                })
            })();
            readings.extend(reading.map(|r| (place, r)));
        }
    }
    (machine, readings)
}

/// All readings of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Track {
    readings: Vec<Reading>,
    /// When it was found to be no more.
    gone_unix_ns: Option<i64>,
}

impl Track {
    /// Takes what an answer of `asked_unix_ns` has of the container.
    pub(super) fn push(&mut self, reading: Option<Reading>, asked_unix_ns: i64) {
        if self.gone_unix_ns.is_some() {
            return;
        }
        let last = self.readings.last();
        let same = |r: &Reading| {
            last.is_none_or(|l| l.started_unix_ns == r.started_unix_ns && l.cpu_ns <= r.cpu_ns)
        };
        match reading.filter(same) {
            Some(r) if last.is_none_or(|l| l.unix_ns < r.unix_ns) => self.readings.push(r),
            Some(_) => {}
            // Before its first reading it may be too young for the kubelet to have one.
            None if self.readings.is_empty() => {}
            None => self.gone_unix_ns = Some(asked_unix_ns),
        }
    }

    /// Whether nothing more is to be had for a window that ends then.
    pub(super) fn covers(&self, end_unix_ns: i64) -> bool {
        let last = self.readings.last();
        self.gone_unix_ns.is_some() || last.is_some_and(|r| r.unix_ns >= end_unix_ns)
    }

    /// Age of the newest value at `now`.
    pub(super) fn age_ns(&self, now_unix_ns: i64) -> Option<u64> {
        let last = self
            .readings
            .last()
            .filter(|_| self.gone_unix_ns.is_none())?;
        u64::try_from(now_unix_ns - last.unix_ns).ok()
    }

    /// So far a window's samples carry its readings to where there are none; all of the
    /// window where the samples have fewer than two of them, which tell no CPU.
    pub(super) fn carried_ns(&self, window: (i64, i64), step_ns: usize) -> u64 {
        let end = window.0 + window.1;
        match (self.readings.first(), self.readings.last()) {
            (Some(first), Some(last)) if self.told(window, step_ns) > 1 => {
                // What is gone is not carried on.
                let is_gone = self.gone_unix_ns.is_some_and(|gone| gone <= end);
                let last = if is_gone { end } else { last.unix_ns };
                carried_ns((first.unix_ns, last), window)
            }
            _ => whole_ns(window),
        }
    }

    /// How many different readings the samples of a window have.
    fn told(&self, window: (i64, i64), step_ns: usize) -> usize {
        let (start, length) = window;
        let all = instants(length, step_ns).filter_map(|t| self.at(start + t, t == length));
        all.map(|r| r.unix_ns).collect::<BTreeSet<_>>().len()
    }

    /// The reading that speaks for an edge: the last before it; at the window's end the
    /// first after it, so that as little as possible is carried on.
    fn at(&self, edge_unix_ns: i64, is_end: bool) -> Option<Reading> {
        if self.gone_unix_ns.is_some_and(|gone| gone <= edge_unix_ns) {
            return None;
        }
        let after = self.readings.partition_point(|r| r.unix_ns <= edge_unix_ns);
        let place = match is_end {
            true => after.min(self.readings.len().saturating_sub(1)),
            false => after.saturating_sub(1),
        };
        self.readings.get(place).copied()
    }
}

/// All readings of one node that speaks for its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeTrack {
    pub(super) cores: u32,
    pub(super) readings: Vec<NodeReading>,
}

impl NodeTrack {
    pub(super) fn push(&mut self, reading: NodeReading) {
        if self
            .readings
            .last()
            .is_none_or(|l| l.unix_ns < reading.unix_ns)
        {
            self.readings.push(reading);
        }
    }

    /// Whether nothing more is to be had for a window that ends then.
    pub(super) fn covers(&self, end_unix_ns: i64) -> bool {
        let last = self.readings.last();
        last.is_some_and(|r| r.unix_ns >= end_unix_ns)
    }

    /// So far its readings are carried to a window's edges; all of the window where fewer
    /// than two came: the machine looks idle then.
    pub(super) fn carried_ns(&self, window: (i64, i64)) -> u64 {
        match self.readings.as_slice() {
            [first, .., last] => carried_ns((first.unix_ns, last.unix_ns), window),
            _ => whole_ns(window),
        }
    }

    /// CPU used at an instant: linear between the readings around it, and along the
    /// nearest two where it lies outside.
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

    /// Idle since the first of two instants: what is neither used nor told of.
    fn idle_ns(&self, from_unix_ns: i64, unix_ns: i64) -> u64 {
        let all = f64::from(self.cores) * (unix_ns - from_unix_ns) as f64;
        let used = self.cpu_ns(unix_ns) - self.cpu_ns(from_unix_ns);
        (all - used).max(0.0) as u64
    }
}

/// The longer of the stretches from a window's edges to the first and the last reading
/// where these lie inside of it; longer than the window where they lie outside.
fn carried_ns((first, last): (i64, i64), (start_unix_ns, window_ns): (i64, i64)) -> u64 {
    let (back, on) = (first - start_unix_ns, start_unix_ns + window_ns - last);
    u64::try_from(back.max(on)).unwrap_or(0)
}

fn whole_ns((_, window_ns): (i64, i64)) -> u64 {
    u64::try_from(window_ns).unwrap_or(0)
}

/// Of a window's samples, since its start.
fn instants(window_ns: i64, step_ns: usize) -> impl Iterator<Item = i64> {
    (0..window_ns).step_by(step_ns).chain([window_ns])
}

/// A window as samples at its edges and at the instants between.
pub(super) fn samples(
    tracks: &[Track],
    nodes: &[NodeTrack],
    (start_unix_ns, window_ns): (i64, i64),
    step_ns: usize,
) -> Vec<ResourceSample> {
    instants(window_ns, step_ns)
        .map(|t_ns| {
            let edge = start_unix_ns + t_ns;
            let process = |track: &Track| {
                let r = track.at(edge, t_ns == window_ns)?;
                Some(ProcessSample {
                    t_ns: r.unix_ns - start_unix_ns,
                    cpu_ns: r.cpu_ns,
                    rss_bytes: r.rss_bytes,
                    pss_bytes: None,
                    working_set_bytes: Some(r.working_set_bytes),
                })
            };
            ResourceSample {
                t_ns,
                processes: tracks.iter().map(process).collect(),
                machine: MachineSample {
                    cpus: nodes.iter().map(|n| n.cores).sum(),
                    idle_ns: nodes.iter().map(|n| n.idle_ns(start_unix_ns, edge)).sum(),
                    stolen_ns: 0,
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

    fn reading(t: f64, cpu_s: f64) -> Reading {
        Reading {
            unix_ns: (t * S as f64) as i64,
            started_unix_ns: 0,
            cpu_ns: (cpu_s * S as f64) as u64,
            working_set_bytes: 100,
            rss_bytes: 80,
        }
    }

    fn track(readings: &[(f64, f64)]) -> Track {
        let mut track = Track::default();
        for (t, cpu) in readings {
            track.push(Some(reading(*t, *cpu)), (*t * S as f64) as i64);
        }
        track
    }

    #[test]
    fn a_summary_is_read_with_the_instants_of_its_values() {
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
        assert_eq!(containers.len(), 1, "one without CPU is not there yet");
        assert_eq!(containers[&place].unix_ns, 8_500_000_000);
        assert_eq!(containers[&place].working_set_bytes, 10);
    }

    #[test]
    fn edges_take_the_reading_before_and_the_end_the_one_after() {
        let track = track(&[
            (9.0, 1.0),
            (11.0, 2.0),
            (11.0, 2.0),
            (15.0, 3.0),
            (21.0, 6.0),
        ]);
        let at = |t: f64, end| track.at((t * S as f64) as i64, end).unwrap().unix_ns / S;
        assert_eq!((at(10.0, false), at(16.0, false)), (9, 15));
        assert_eq!(at(20.0, true), 21);
        assert_eq!(at(25.0, true), 21, "nothing newer: it is carried on");
        assert_eq!(at(1.0, false), 9, "nothing older: it is carried back");
        assert!(track.covers(20 * S) && !track.covers(22 * S));
        assert_eq!(track.age_ns(22 * S), Some(S as u64));
    }

    #[test]
    fn a_container_that_is_gone_or_begun_anew_keeps_what_it_had() {
        let mut gone = track(&[(0.0, 1.0), (2.0, 2.0)]);
        gone.push(None, 4 * S);
        let anew = Reading {
            started_unix_ns: 3 * S,
            ..reading(4.0, 0.1)
        };
        let mut again = track(&[(0.0, 1.0), (2.0, 2.0)]);
        again.push(Some(anew), 4 * S);
        again.push(Some(reading(6.0, 9.0)), 6 * S);
        for track in [gone, again] {
            assert_eq!(track.at(3 * S, false).unwrap().unix_ns, 2 * S);
            assert_eq!(track.at(4 * S, false), None);
            assert!(track.covers(10 * S));
        }
        let mut young = Track::default();
        young.push(None, S);
        young.push(Some(reading(2.0, 0.1)), 2 * S);
        assert!(young.at(2 * S, false).is_some());
    }

    /// In seconds, of a window that begins at 0.
    fn carried(track: &Track, window_s: i64) -> f64 {
        track.carried_ns((0, window_s * S), 2 * S as usize) as f64 / S as f64
    }

    fn node(readings: &[f64]) -> NodeTrack {
        let mut node = NodeTrack::default();
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
    fn what_a_silent_kubelet_did_not_tell_is_carried() {
        let before = track(&[(-2.0, 1.0), (-0.5, 2.0)]);
        assert_eq!(carried(&before, 60), 60.0, "one reading serves all edges");
        assert_eq!(carried(&track(&[]), 60), 60.0);
        assert_eq!(carried(&track(&[(30.0, 1.0)]), 60), 60.0);
        let times: Vec<(f64, f64)> = (-1..=30).map(|i| (2.0 * f64::from(i), 0.0)).collect();
        assert_eq!(carried(&track(&times), 120), 60.0, "silent from its middle");
        let late = track(&[(50.0, 1.0), (52.0, 2.0), (61.0, 3.0)]);
        assert_eq!(carried(&late, 60), 50.0, "first heard at its end");
        let all = track(&[(-1.0, 1.0), (30.0, 2.0), (60.5, 3.0)]);
        assert_eq!(carried(&all, 60), 0.0);
    }

    #[test]
    fn what_is_gone_is_not_carried_on() {
        let gone = |readings: &[(f64, f64)], at: i64| {
            let mut track = track(readings);
            track.push(None, at * S);
            carried(&track, 60)
        };
        assert_eq!(gone(&[(-1.0, 1.0), (5.0, 2.0)], 10), 0.0);
        assert_eq!(gone(&[(-1.0, 1.0), (9.0, 2.0)], 62), 51.0, "after the end");
        assert_eq!(
            gone(&[(-2.0, 1.0), (-1.0, 2.0)], 1),
            60.0,
            "never read in it"
        );
    }

    #[test]
    fn a_machine_of_fewer_than_two_readings_is_not_known_to_be_idle() {
        let carried = |readings: &[f64]| node(readings).carried_ns((0, 60 * S)) / S as u64;
        assert_eq!(carried(&[]), 60);
        assert_eq!(carried(&[30.0]), 60);
        assert_eq!(carried(&[-2.0, -1.0]), 61);
        assert_eq!(carried(&[-1.0, 20.0]), 40);
        assert_eq!(carried(&[50.0, 61.0]), 50);
        assert_eq!(carried(&[-1.0, 60.0]), 0);
        assert!(node(&[60.0]).covers(60 * S) && !node(&[59.0]).covers(60 * S));
        assert!(!node(&[]).covers(60 * S));
    }

    #[test]
    fn samples_of_a_steady_container_give_its_cores() {
        // Half a core, read 0.7 s late, every 2 s; the node has 2 cores, 1.25 of them busy.
        let times: Vec<f64> = (0..9).map(|i| 99.3 + 2.0 * f64::from(i)).collect();
        let readings: Vec<(f64, f64)> = times.iter().map(|t| (*t, (t - 50.0) / 2.0)).collect();
        let mut node = NodeTrack {
            cores: 2,
            readings: Vec::new(),
        };
        for t in &times {
            node.push(NodeReading {
                unix_ns: (t * S as f64) as i64,
                cpu_ns: ((t - 50.0) * 1.25 * S as f64) as u64,
                available_bytes: 1,
            });
        }
        let samples = samples(
            &[track(&readings)],
            &[node],
            (100 * S, 10 * S),
            2 * S as usize,
        );
        assert_eq!(samples.len(), 6);
        let (first, last) = (&samples[0], &samples[5]);
        assert_eq!(last.processes[0].unwrap().t_ns, 11_300_000_000);
        let idle = (last.machine.idle_ns - first.machine.idle_ns) as f64 / (10 * S) as f64;
        assert!((idle - 0.75).abs() < 1e-6, "{idle}");
        let (a, b) = (first.processes[0].unwrap(), last.processes[0].unwrap());
        let cores = (b.cpu_ns - a.cpu_ns) as f64 / (b.t_ns - a.t_ns) as f64;
        assert!((cores - 0.5).abs() < 1e-6, "{cores}");
    }
}
