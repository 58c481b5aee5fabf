//! CPU and memory over the measured window, from the samples of an agent.
//!
//! CPU of a process is the difference of its CPU clock between the edges of the window, divided by
//! the length of the window. Each process is read at its own instant, a little after the edge. So
//! that the figures of all processes and of the machine are of the same window, the clock is
//! interpolated linearly to the edge from the readings around it. The first edge is before all
//! readings; there the clock is extrapolated from the first two readings.

use std::collections::BTreeMap;

use tare_model::record::{AgentRecord, ProcessSample, ResourceSample};
use tare_model::trial::{MachineUse, MemoryKind, PlaneUse, ProcessUse, Resources};
use tare_model::worker::{AgentSpec, Plane};

/// Summarises an agent's records. `cores_allowed` is the number of cores that the trial's processes
/// may run on; the samples contain the number of cores of the machine. A process that vanished
/// counts with its use until its last reading. `None` with fewer than two samples.
#[must_use]
pub fn summarise(
    spec: &AgentSpec,
    records: &[AgentRecord],
    cores_allowed: u32,
) -> Option<Resources> {
    let samples: Vec<&ResourceSample> = records
        .iter()
        .filter_map(|r| match r {
            AgentRecord::Sample(s) => Some(s),
            _ => None,
        })
        .collect();
    let (first, last) = (samples.first()?, samples.last()?);
    let edges: Vec<i64> = samples.iter().map(|s| s.t_ns).collect();
    let window_ns = u64::try_from(last.t_ns - first.t_ns)
        .ok()
        .filter(|&w| w > 0)?;

    let tracks: Vec<Track> = (0..spec.processes.len())
        .map(|i| Track::new(&samples, i, &edges))
        .collect();
    let processes: Vec<ProcessUse> = spec
        .processes
        .iter()
        .zip(&tracks)
        .enumerate()
        .map(|(i, (watched, track))| {
            track.process(&watched.name, watched.plane, window_ns, gone_at(records, i))
        })
        .collect();
    let planes = planes(&processes, &tracks, window_ns);
    let sampling_cores = sampling_cores(records, window_ns);
    let watched: f64 = processes.iter().map(|p| p.cpu_cores).sum();
    Some(Resources {
        window_ns,
        machine: machine(&samples, window_ns, cores_allowed, watched + sampling_cores),
        processes,
        planes,
        sampling_cores,
        kubelet_age_ns_max: records.iter().find_map(|r| match r {
            AgentRecord::Kubelet { age_ns_max } => Some(*age_ns_max),
            _ => None,
        }),
    })
}

fn gone_at(records: &[AgentRecord], index: usize) -> Option<i64> {
    records.iter().find_map(|r| match r {
        AgentRecord::Gone { process, t_ns } if *process as usize == index => Some(*t_ns),
        _ => None,
    })
}

fn sampling_cores(records: &[AgentRecord], window_ns: u64) -> f64 {
    records
        .iter()
        .find_map(|r| match r {
            AgentRecord::Final { own_cpu_ns, .. } => Some(*own_cpu_ns as f64 / window_ns as f64),
            _ => None,
        })
        .unwrap_or(0.0)
}

/// One process over time: its CPU clock at each edge, and its memory at each sample.
struct Track {
    /// CPU used since the first edge, at each edge, in nanoseconds.
    cpu_ns: Vec<f64>,
    /// Instants of the edges.
    edges: Vec<i64>,
    /// Resident bytes at each sample; `None` where the process was not read.
    rss: Vec<Option<u64>>,
    /// Memory in bytes at each sample, of the kind `memory_kind`; `None` where it was not read.
    memory: Vec<Option<u64>>,
    /// The best kind of memory that was read of this process.
    memory_kind: MemoryKind,
}

impl Track {
    fn new(samples: &[&ResourceSample], index: usize, edges: &[i64]) -> Self {
        let points: Vec<Option<ProcessSample>> = samples
            .iter()
            .map(|s| s.processes.get(index).copied().flatten())
            .collect();
        let mut known: Vec<(i64, u64)> = points
            .iter()
            .flatten()
            .map(|p| (p.t_ns, p.cpu_ns))
            .collect();
        // A kubelet repeats a reading until it has a newer one.
        known.dedup_by_key(|&mut (t_ns, _)| t_ns);
        let at: Vec<f64> = edges
            .iter()
            .zip(&points)
            .map(
                |(&edge, point)| match (point, known.first(), known.last()) {
                    // The process was not read at this edge: without a reading there, no CPU is
                    // counted before its first reading and after its last.
                    (None, Some(first), Some(last)) => {
                        at_instant(&known, edge.clamp(first.0, last.0))
                    }
                    _ => at_instant(&known, edge),
                },
            )
            .collect();
        let base = at.first().copied().unwrap_or(0.0);
        let read = |of: fn(&ProcessSample) -> Option<u64>| -> Vec<Option<u64>> {
            points.iter().map(|p| p.as_ref().and_then(of)).collect()
        };
        let rss = read(|p| Some(p.rss_bytes));
        let (memory_kind, memory) = [
            (MemoryKind::WorkingSet, read(|p| p.working_set_bytes)),
            (MemoryKind::Pss, read(|p| p.pss_bytes)),
        ]
        .into_iter()
        .find(|(_, memory)| memory.iter().any(Option::is_some))
        .unwrap_or_else(|| (MemoryKind::Rss, rss.clone()));
        Self {
            cpu_ns: at.iter().map(|&cpu| (cpu - base).max(0.0)).collect(),
            edges: edges.to_vec(),
            rss,
            memory,
            memory_kind,
        }
    }

    /// Cores in each interval between edges.
    fn cores(&self) -> Vec<f64> {
        self.cpu_ns
            .windows(2)
            .zip(self.edges.windows(2))
            .map(|(cpu, t)| (cpu[1] - cpu[0]).max(0.0) / (t[1] - t[0]).max(1) as f64)
            .collect()
    }

    fn process(&self, name: &str, plane: Plane, window_ns: u64, gone: Option<i64>) -> ProcessUse {
        // Sampling may begin late. A process that no sample contains counts as absent from the
        // beginning.
        let never = self.rss.iter().all(Option::is_none);
        let memory = &self.memory;
        ProcessUse {
            name: name.to_owned(),
            plane,
            cpu_cores: self.cpu_ns.last().copied().unwrap_or(0.0) / window_ns as f64,
            cpu_cores_max: max(&self.cores()),
            memory_mean_bytes: mean(&self.edges, memory),
            memory_max_bytes: memory.iter().flatten().copied().max().unwrap_or(0),
            memory_kind: self.memory_kind,
            rss_mean_bytes: mean(&self.edges, &self.rss),
            gone_at_ns: gone.map(|t_ns| if never { 0 } else { t_ns }),
        }
    }
}

/// CPU clock at the instant `t`: interpolated linearly between the readings around `t`, or
/// extrapolated from the nearest two readings.
fn at_instant(known: &[(i64, u64)], t: i64) -> f64 {
    match known {
        [] => 0.0,
        [(_, cpu)] => *cpu as f64,
        _ => {
            let after = known
                .partition_point(|&(at, _)| at <= t)
                .clamp(1, known.len() - 1);
            let ((t0, c0), (t1, c1)) = (known[after - 1], known[after]);
            let slope = (c1 as f64 - c0 as f64) / (t1 - t0).max(1) as f64;
            c0 as f64 + slope * (t - t0) as f64
        }
    }
}

/// Time-weighted mean by the trapezoidal rule, from the first reading to the last one. The time
/// before and after does not count.
fn mean(edges: &[i64], values: &[Option<u64>]) -> f64 {
    let points: Vec<(i64, u64)> = edges
        .iter()
        .zip(values)
        .filter_map(|(&t, v)| v.map(|v| (t, v)))
        .collect();
    match points.as_slice() {
        [] => 0.0,
        [(_, only)] => *only as f64,
        [first, .., last] => {
            let area: f64 = points
                .windows(2)
                .map(|w| (w[1].0 - w[0].0) as f64 * (w[0].1 as f64 + w[1].1 as f64) / 2.0)
                .sum();
            area / (last.0 - first.0).max(1) as f64
        }
    }
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn planes(processes: &[ProcessUse], tracks: &[Track], window_ns: u64) -> BTreeMap<Plane, PlaneUse> {
    let mut planes = BTreeMap::new();
    for plane in processes.iter().map(|p| p.plane) {
        planes.entry(plane).or_insert_with(|| {
            let mine: Vec<(&ProcessUse, &Track)> = processes
                .iter()
                .zip(tracks)
                .filter(|(p, _)| p.plane == plane)
                .collect();
            let sum = |f: fn(&ProcessUse) -> f64| mine.iter().map(|(p, _)| f(p)).sum::<f64>();
            PlaneUse {
                processes: mine.len() as u32,
                cpu_cores: mine
                    .iter()
                    .map(|(_, t)| t.cpu_ns.last().copied().unwrap_or(0.0))
                    .sum::<f64>()
                    / window_ns as f64,
                cpu_cores_max: max(&sum_each(mine.iter().map(|(_, t)| t.cores()))),
                memory_mean_bytes: sum(|p| p.memory_mean_bytes),
                memory_max_bytes: memory_max(&mine),
                rss_mean_bytes: sum(|p| p.rss_mean_bytes),
            }
        });
    }
    planes
}

/// Largest sum over all processes at one sample. Samples without the memory of a process that still
/// existed are omitted.
fn memory_max(mine: &[(&ProcessUse, &Track)]) -> u64 {
    let samples = mine.first().map_or(0, |(_, t)| t.rss.len());
    (0..samples)
        .filter_map(|s| {
            mine.iter()
                .map(|(_, t)| t.rss[s].map_or(Some(0), |_| t.memory[s]))
                .sum::<Option<u64>>()
        })
        .max()
        .unwrap_or(0)
}

fn sum_each(rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut total: Vec<f64> = Vec::new();
    for row in rows {
        total.resize(total.len().max(row.len()), 0.0);
        total.iter_mut().zip(row).for_each(|(t, v)| *t += v);
    }
    total
}

/// Cores that were neither idle nor stolen, on average between two samples.
fn busy_cores(from: &ResourceSample, to: &ResourceSample) -> f64 {
    let elapsed_ns = (to.t_ns - from.t_ns).max(1) as f64;
    let idle_ns = to.machine.idle_ns.saturating_sub(from.machine.idle_ns);
    let stolen_ns = to.machine.stolen_ns.saturating_sub(from.machine.stolen_ns);
    (f64::from(to.machine.cpus) - (idle_ns + stolen_ns) as f64 / elapsed_ns).max(0.0)
}

fn machine(
    samples: &[&ResourceSample],
    window_ns: u64,
    cores_allowed: u32,
    accounted: f64,
) -> MachineUse {
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let stolen_ns = last
        .machine
        .stolen_ns
        .saturating_sub(first.machine.stolen_ns);
    let throttled = last.throttled_ns.zip(first.throttled_ns);
    let each = samples.windows(2).map(|w| busy_cores(w[0], w[1]));
    let each: Vec<f64> = each.collect();
    let busy_cores = busy_cores(first, last);
    MachineUse {
        cores: last.machine.cpus,
        cores_allowed,
        busy_cores,
        busy_cores_max: max(&each),
        // The machine and the processes are read one after the other, and idle time has a
        // resolution of 10 ms. So the difference can be slightly negative, which has no meaning.
        other_cores: (busy_cores - accounted).max(0.0),
        stolen_cores: stolen_ns as f64 / window_ns as f64,
        throttled_ns: throttled.map(|(to, from)| to.saturating_sub(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::record::MachineSample;
    use tare_model::worker::WatchedProcess;

    const S: i64 = 1_000_000_000;

    fn spec(planes: &[Plane]) -> AgentSpec {
        AgentSpec {
            schema_version: tare_model::SCHEMA_VERSION,
            processes: planes
                .iter()
                .enumerate()
                .map(|(i, &plane)| WatchedProcess {
                    name: format!("p{i}"),
                    plane,
                    pid: i as u32 + 1,
                    container: None,
                })
                .collect(),
            window_start_unix_ns: 0,
            window_ns: 2 * S as u64,
        }
    }

    fn process(t_ns: i64, cpu_ms: u64, rss: u64, pss: Option<u64>) -> Option<ProcessSample> {
        Some(ProcessSample {
            t_ns,
            cpu_ns: cpu_ms * 1_000_000,
            rss_bytes: rss,
            pss_bytes: pss,
            working_set_bytes: None,
        })
    }

    fn sample(t_ns: i64, busy_ms: u64, processes: Vec<Option<ProcessSample>>) -> AgentRecord {
        AgentRecord::Sample(ResourceSample {
            t_ns,
            processes,
            machine: MachineSample {
                cpus: 2,
                idle_ns: (2 * t_ns + 100 * S) as u64 - busy_ms * 1_000_000,
                stolen_ns: 0,
                memory_available_bytes: 1,
            },
            throttled_ns: None,
        })
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn two_seconds_by_hand() {
        let end = AgentRecord::Final {
            checksum: String::new(),
            own_cpu_ns: 20_000_000,
            elapsed_ns: 2 * S as u64,
        };
        let records = [
            sample(
                0,
                1000,
                vec![process(0, 500, 10, Some(8)), process(0, 0, 100, Some(50))],
            ),
            sample(
                S,
                2000,
                vec![process(S, 700, 20, None), process(S, 600, 100, None)],
            ),
            sample(
                2 * S,
                2600,
                vec![
                    process(2 * S, 1300, 30, Some(12)),
                    process(2 * S, 700, 100, Some(70)),
                ],
            ),
            end,
        ];
        let r = summarise(&spec(&[Plane::DataPlane, Plane::DataPlane]), &records, 2).unwrap();
        assert_eq!(r.window_ns, 2 * S as u64);
        assert!(close(r.processes[0].cpu_cores, 0.4), "0.8 s of CPU in 2 s");
        assert!(close(r.processes[0].cpu_cores_max, 0.6));
        assert_eq!(r.processes[0].memory_kind, MemoryKind::Pss);
        assert!(close(r.processes[0].memory_mean_bytes, 10.0));
        assert_eq!(r.processes[0].memory_max_bytes, 12);
        assert!(close(r.processes[0].rss_mean_bytes, 20.0));
        let plane = &r.planes[&Plane::DataPlane];
        assert_eq!(plane.processes, 2);
        assert!(close(plane.cpu_cores, 0.75));
        assert!(close(plane.cpu_cores_max, 0.8), "0.2 + 0.6 and 0.6 + 0.1");
        assert_eq!(plane.memory_max_bytes, 82);
        assert!(close(plane.memory_mean_bytes, 70.0));
        assert!(close(r.machine.busy_cores, 0.8));
        assert!(close(r.machine.busy_cores_max, 1.0));
        assert!(close(r.sampling_cores, 0.01));
        assert!(close(r.machine.other_cores, 0.8 - 0.75 - 0.01));
    }

    #[test]
    fn figures_of_the_machine_count_all_its_cores() {
        // The trial may run on one of two cores and uses 0.3 of it. Another process uses the other
        // core completely.
        let records = [
            sample(0, 0, vec![process(0, 0, 1, None)]),
            sample(2 * S, 2600, vec![process(2 * S, 600, 1, None)]),
        ];
        let r = summarise(&spec(&[Plane::Application]), &records, 1).unwrap();
        assert_eq!((r.machine.cores, r.machine.cores_allowed), (2, 1));
        assert!(close(r.machine.busy_cores, 1.3));
        assert!(close(r.machine.other_cores, 1.0));
    }

    #[test]
    fn late_readings_are_interpolated_to_the_edges() {
        // A process that uses exactly half a core is read 10, 30 and 20 ms late.
        let at = |t: i64| process(t, 5_000 + (t / 2_000_000) as u64, 1, None);
        let records = [
            sample(0, 0, vec![at(10_000_000)]),
            sample(S, 0, vec![at(S + 30_000_000)]),
            sample(2 * S, 0, vec![at(2 * S + 20_000_000)]),
        ];
        let r = summarise(&spec(&[Plane::Application]), &records, 1).unwrap();
        assert!(
            close(r.processes[0].cpu_cores, 0.5),
            "{}",
            r.processes[0].cpu_cores
        );
        assert!(close(r.processes[0].cpu_cores_max, 0.5));
        assert_eq!(r.processes[0].memory_kind, MemoryKind::Rss);
    }

    #[test]
    fn a_vanished_process_keeps_its_use() {
        let records = [
            sample(
                0,
                0,
                vec![process(0, 100, 50, Some(40)), process(0, 0, 1, Some(1))],
            ),
            sample(
                S,
                0,
                vec![process(S, 400, 70, Some(60)), process(S, 0, 1, Some(1))],
            ),
            AgentRecord::Gone {
                process: 0,
                t_ns: 2 * S,
            },
            sample(2 * S, 0, vec![None, process(2 * S, 0, 1, Some(1))]),
        ];
        let r = summarise(&spec(&[Plane::DataPlane, Plane::DataPlane]), &records, 1).unwrap();
        assert_eq!(r.processes[0].gone_at_ns, Some(2 * S));
        assert!(close(r.processes[0].cpu_cores, 0.15));
        assert!(close(r.processes[0].memory_mean_bytes, 50.0));
        assert_eq!(r.planes[&Plane::DataPlane].processes, 2);
        assert_eq!(r.planes[&Plane::DataPlane].memory_max_bytes, 61);
        assert!(r.machine.other_cores >= 0.0);
    }

    #[test]
    fn a_process_that_was_never_read_vanished_at_the_beginning() {
        let gone = AgentRecord::Gone {
            process: 0,
            t_ns: S,
        };
        let records = [
            gone,
            sample(S, 0, vec![None, process(S, 0, 1, None)]),
            sample(2 * S, 0, vec![None, process(2 * S, 0, 1, None)]),
        ];
        let r = summarise(&spec(&[Plane::DataPlane, Plane::DataPlane]), &records, 1).unwrap();
        let gone: Vec<Option<i64>> = r.processes.iter().map(|p| p.gone_at_ns).collect();
        assert_eq!(gone, [Some(0), None]);
    }

    #[test]
    fn no_use_is_assumed_before_the_first_and_after_the_last_reading() {
        let busy = |t: i64| process(t, (t / 2_000_000) as u64 + 5_000, 1, None);
        let with = |there: [bool; 3]| {
            let records: Vec<AgentRecord> = (0..3)
                .map(|i| i as i64 * S)
                .zip(there)
                .map(|(t, there)| sample(t, 0, vec![busy(t + 10_000_000).filter(|_| there)]))
                .collect();
            let r = summarise(&spec(&[Plane::DataPlane]), &records, 2).unwrap();
            (r.processes[0].cpu_cores, r.processes[0].cpu_cores_max)
        };
        // The process uses half a core all the time.
        for (there, cores, cores_max) in [
            ([true, false, true], 0.5, 0.5),
            ([false, true, true], 0.25, 0.5),
            ([false, false, true], 0.0, 0.0),
        ] {
            let found = with(there);
            let near = |a: f64, b: f64| (a - b).abs() < 0.01;
            assert!(near(found.0, cores), "{there:?}: {found:?}");
            assert!(near(found.1, cores_max), "{there:?}: {found:?}");
        }
    }

    #[test]
    fn throttling_is_counted_over_the_window_and_may_be_unknown() {
        let with = |t: i64, ns: Option<u64>| {
            let AgentRecord::Sample(mut s) = sample(t, 0, vec![]) else {
                unreachable!()
            };
            s.throttled_ns = ns;
            AgentRecord::Sample(s)
        };
        let of = |first, last| {
            let records = [with(0, first), with(S, Some(900)), with(2 * S, last)];
            summarise(&spec(&[]), &records, 2)
                .unwrap()
                .machine
                .throttled_ns
        };
        assert_eq!(of(Some(700), Some(1000)), Some(300));
        assert_eq!(of(Some(700), Some(700)), Some(0));
        assert_eq!(of(None, Some(1000)), None);
        assert_eq!(of(Some(700), None), None);
    }

    #[test]
    fn fewer_than_two_samples_give_no_figures() {
        assert_eq!(summarise(&spec(&[]), &[], 1), None);
        let one = [sample(0, 0, vec![])];
        assert_eq!(summarise(&spec(&[]), &one, 1), None);
    }
}
