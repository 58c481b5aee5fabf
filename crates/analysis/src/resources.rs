//! CPU, run-queue delay, hardware counters and memory over the measured window, from the samples of an agent.
//!
//! CPU of a process is the difference of its CPU clock between the edges of the window, divided by
//! the length of the window. Each process is read at its own instant, a little after the edge. So
//! that the figures of all processes and of the machine are of the same window, the clock is
//! interpolated linearly to the edge from the readings around it. The first edge is before all
//! readings; there the clock is extrapolated from the first two readings.

use std::collections::BTreeMap;

use tare_records::record::{
    AgentRecord, HardwareCounts, NodesSample, ProcessSample, ResourceSample,
};
use tare_records::trial::{MachineUse, MemoryKind, PlaneUse, ProcessUse, Resources};
use tare_records::worker::{AgentSpec, Plane, Slices};

pub mod rounds;

/// Longest time from the edge of a slice without a lead to its sample: of a slice, it is a hundredth or so.
const LATE_NS_MAX: i64 = 5_000_000;

/// Summarises an agent's records. `cores_allowed` is the number of cores that the trial's processes
/// may run on; the samples contain the number of cores of the machine. A process that vanished
/// counts with its use until its last reading. Of a trial in slices, the rounds of `left_out` do not count. `None` with
/// fewer than two samples.
#[must_use]
pub fn summarise(
    spec: &AgentSpec,
    records: &[AgentRecord],
    cores_allowed: u32,
    left_out: &[u32],
) -> Option<Resources> {
    let samples = samples(records);
    let (first, last) = (samples.first()?, samples.last()?);
    let edges: Vec<i64> = samples.iter().map(|s| s.t_ns).collect();
    let whole_ns = u64::try_from(last.t_ns - first.t_ns)
        .ok()
        .filter(|&w| w > 0)?;
    let spans = spans(spec, &edges, left_out);
    let window_ns = match &spec.slices {
        None => whole_ns,
        Some(slices) => slices.length_ns * spans.len() as u64,
    };
    if window_ns == 0 {
        return None;
    }

    let tracks: Vec<Track> = (0..spec.processes.len())
        .map(|i| Track::new(&samples, i, &edges, &spans))
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
    let sampling_cores = sampling_cores(records, whole_ns);
    let whole = |of: &dyn Fn(Plane) -> bool| {
        let own = tracks
            .iter()
            .zip(&spec.processes)
            .filter(|(_, w)| of(w.plane));
        own.map(|(t, _)| t.whole_cpu_ns()).sum::<f64>() / whole_ns as f64 + sampling_cores
    };
    let mut machine = machine(&samples, whole_ns, cores_allowed, whole(&|_| true));
    if spec.slices.is_some() {
        // What is left for a gap is work of the slice. All else that runs is the same in slices and gaps.
        let own_ns: f64 = tracks.iter().map(Track::used_ns).sum();
        let spans_ns: i64 = spans.iter().map(|(from, to)| to - from).sum();
        let beside_ns = (busy_in(&samples, &spans) - own_ns).max(0.0);
        machine.busy_cores = own_ns / window_ns as f64 + beside_ns / spans_ns.max(1) as f64;
    }
    Some(Resources {
        window_ns,
        machine,
        whole_window_cores: spec
            .slices
            .as_ref()
            .map(|_| whole(&|plane| plane != Plane::Tare)),
        processes,
        planes,
        sampling_cores,
        kubelet_age_ns_max: records.iter().find_map(|r| match r {
            AgentRecord::Kubelet { age_ns_max } => Some(*age_ns_max),
            _ => None,
        }),
    })
}

fn samples(records: &[AgentRecord]) -> Vec<&ResourceSample> {
    fn sample(record: &AgentRecord) -> Option<&ResourceSample> {
        match record {
            AgentRecord::Sample(s) => Some(s),
            _ => None,
        }
    }
    records.iter().filter_map(sample).collect()
}

/// The parts of the window that count, from edge to edge: all of it, or the slices that are sampled in time and not left
/// out.
fn spans(spec: &AgentSpec, sampled_ns: &[i64], left_out: &[u32]) -> Vec<(i64, i64)> {
    let [first, .., last] = *sampled_ns else {
        return Vec::new();
    };
    let Some(slices) = &spec.slices else {
        return vec![(first, last)];
    };
    let kept = (0..)
        .zip(slices.counted_spans_ns())
        .filter(|(i, _)| !left_out.contains(i));
    let kept = kept.map(|(_, span)| span);
    kept.filter(|span| is_in_time(slices, sampled_ns, *span))
        .collect()
}

/// Whether both edges of a slice were sampled before its first request, and the first one after it.
fn is_in_time(slices: &Slices, sampled_ns: &[i64], (from, to): (i64, i64)) -> bool {
    let late_ns_max = match slices.lead_ns {
        0 => LATE_NS_MAX,
        lead_ns => lead_ns as i64,
    };
    let in_time = |edge: i64| {
        let next = sampled_ns.partition_point(|at| *at < edge);
        sampled_ns
            .get(next)
            .is_some_and(|at| at - edge <= late_ns_max)
    };
    in_time(from) && in_time(to)
}

/// CPU time of the machine in these parts, in nanoseconds.
fn busy_in(samples: &[&ResourceSample], spans: &[(i64, i64)]) -> f64 {
    let at = |t_ns: i64| {
        let i = samples.partition_point(|s| s.t_ns < t_ns);
        samples[i.min(samples.len() - 1)]
    };
    let busy = |(from, to): &(i64, i64)| {
        let [a, b] = [at(*from), at(*to)];
        let elapsed_ns = b.t_ns - a.t_ns;
        let [from, to] = [a, b].map(|s| NodesSample::from(&s.machine));
        busy_cores(&from, &to, elapsed_ns) * elapsed_ns as f64
    };
    spans.iter().map(busy).sum()
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
    /// CPU used in each part of the window that counts, in nanoseconds.
    used_each_ns: Vec<f64>,
    /// Run-queue delay between the first and the last edge, in nanoseconds; `None` with fewer than
    /// two readings.
    run_queue_delay_ns: Option<u64>,
    /// Hardware counters between the first and the last edge; `None` with fewer than two readings.
    counters: Option<HardwareCounts>,
    /// Time for which CPU quotas stopped the process between the first and the last edge, in nanoseconds;
    /// `None` with fewer than two readings.
    throttled_ns: Option<u64>,
    /// Instants of the edges.
    edges: Vec<i64>,
    /// Whether the process was read, at each sample.
    is_read: Vec<bool>,
    /// Resident bytes at each sample; `None` where they were not read.
    rss: Vec<Option<u64>>,
    /// Memory in bytes at each sample, of the kind `memory_kind`; `None` where it was not read.
    memory: Vec<Option<u64>>,
    /// The best kind of memory that was read of this process.
    memory_kind: MemoryKind,
}

impl Track {
    fn new(samples: &[&ResourceSample], index: usize, edges: &[i64], spans: &[(i64, i64)]) -> Self {
        let points: Vec<Option<ProcessSample>> = samples
            .iter()
            .map(|s| s.processes.get(index).copied().flatten())
            .collect();
        let at_edges = |of: fn(&ProcessSample) -> Option<u64>| -> (usize, Vec<f64>) {
            let known = readings(&points, of);
            let edges = edges.iter().zip(&points);
            let at = edges.map(|(&edge, point)| at_edge(&known, edge, point.is_some()));
            (known.len(), at.collect())
        };
        let (_, at) = at_edges(|p| Some(p.cpu_ns));
        let is_last = points.last().is_some_and(Option::is_some);
        let in_spans = |of: fn(&ProcessSample) -> Option<u64>| -> Option<Vec<f64>> {
            let known = readings(&points, of);
            let [(first, _), .., (last, _)] = known[..] else {
                return None;
            };
            // Nothing is counted before the first reading, nor after the last one of a process that ended.
            let from = if points[0].is_some() { i64::MIN } else { first };
            let to = if is_last { i64::MAX } else { last };
            let used = |(a, b): &(i64, i64)| {
                let [a, b] = [a, b].map(|t| at_instant(&known, (*t).clamp(from, to)));
                (b - a).max(0.0)
            };
            Some(spans.iter().map(used).collect())
        };
        let growth = |of| in_spans(of).map(|each| each.iter().sum::<f64>().round() as u64);
        let counted = points.iter().flatten().find_map(|p| p.counters);
        let counters = counted.and_then(|first| {
            Some(HardwareCounts {
                instructions: growth(|p| Some(p.counters?.instructions))?,
                cycles: growth(|p| Some(p.counters?.cycles))?,
                ..first
            })
        });
        let base = at.first().copied().unwrap_or(0.0);
        let read = |of: fn(&ProcessSample) -> Option<u64>| -> Vec<Option<u64>> {
            points.iter().map(|p| p.as_ref().and_then(of)).collect()
        };
        let rss = read(|p| p.rss_bytes);
        let (memory_kind, memory) = [
            (MemoryKind::WorkingSet, read(|p| p.working_set_bytes)),
            (MemoryKind::Pss, read(|p| p.pss_bytes)),
        ]
        .into_iter()
        .find(|(_, memory)| memory.iter().any(Option::is_some))
        .unwrap_or_else(|| (MemoryKind::Rss, rss.clone()));
        Self {
            cpu_ns: at.iter().map(|&cpu| (cpu - base).max(0.0)).collect(),
            used_each_ns: in_spans(|p| Some(p.cpu_ns)).unwrap_or_default(),
            run_queue_delay_ns: growth(|p| p.run_queue_delay_ns),
            counters,
            throttled_ns: growth(|p| p.throttled_ns),
            edges: edges.to_vec(),
            is_read: points.iter().map(Option::is_some).collect(),
            rss,
            memory,
            memory_kind,
        }
    }

    /// CPU used in the parts of the window that count, in nanoseconds.
    fn used_ns(&self) -> f64 {
        self.used_each_ns.iter().sum()
    }

    /// CPU used from the first to the last edge, in nanoseconds.
    fn whole_cpu_ns(&self) -> f64 {
        self.cpu_ns.last().copied().unwrap_or(0.0)
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
        let never = !self.is_read.contains(&true);
        let memory = &self.memory;
        ProcessUse {
            name: name.to_owned(),
            plane,
            cpu_cores: self.used_ns() / window_ns as f64,
            cpu_cores_max: max(&self.cores()),
            run_queue_delay_ns: self.run_queue_delay_ns,
            counters: self.counters,
            memory_mean_bytes: mean(&self.edges, memory).unwrap_or(0.0),
            memory_max_bytes: memory.iter().flatten().copied().max().unwrap_or(0),
            memory_kind: self.memory_kind,
            rss_mean_bytes: mean(&self.edges, &self.rss),
            throttled_ns: self.throttled_ns,
            gone_at_ns: gone.map(|t_ns| if never { 0 } else { t_ns }),
        }
    }
}

/// The readings of a counter: when and what.
fn readings(
    points: &[Option<ProcessSample>],
    of: fn(&ProcessSample) -> Option<u64>,
) -> Vec<(i64, u64)> {
    let points = points.iter().flatten();
    let mut known: Vec<_> = points.filter_map(|p| Some((p.t_ns, of(p)?))).collect();
    // A kubelet repeats a reading until it has a newer one.
    known.dedup_by_key(|&mut (t_ns, _)| t_ns);
    known
}

/// A counter of a process at an edge. Where the process was not read at the edge, nothing is counted
/// before its first reading and after its last.
fn at_edge(known: &[(i64, u64)], edge: i64, is_read: bool) -> f64 {
    match (known.first(), known.last()) {
        (Some(first), Some(last)) if !is_read => at_instant(known, edge.clamp(first.0, last.0)),
        _ => at_instant(known, edge),
    }
}

/// A counter at the instant `t`: interpolated linearly between the readings around `t`, or
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
/// before and after does not count. `None` without a reading.
fn mean(edges: &[i64], values: &[Option<u64>]) -> Option<f64> {
    let points: Vec<(i64, u64)> = edges
        .iter()
        .zip(values)
        .filter_map(|(&t, v)| v.map(|v| (t, v)))
        .collect();
    Some(match points.as_slice() {
        [] => return None,
        [(_, only)] => *only as f64,
        [first, .., last] => {
            let area: f64 = points
                .windows(2)
                .map(|w| (w[1].0 - w[0].0) as f64 * (w[0].1 as f64 + w[1].1 as f64) / 2.0)
                .sum();
            area / (last.0 - first.0).max(1) as f64
        }
    })
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
            let memory = memory_sums(&mine);
            PlaneUse {
                processes: mine.len() as u32,
                cpu_cores: mine.iter().map(|(_, t)| t.used_ns()).sum::<f64>() / window_ns as f64,
                cpu_cores_max: max(&sum_each(mine.iter().map(|(_, t)| t.cores()))),
                run_queue_delay_ns: mine.iter().map(|(p, _)| p.run_queue_delay_ns).sum(),
                counters: HardwareCounts::sum(mine.iter().map(|(p, _)| p.counters)),
                memory_mean_bytes: sum(|p| p.memory_mean_bytes),
                memory_max_bytes: memory.iter().copied().max().unwrap_or(0),
                memory_first_bytes: memory.first().copied(),
                memory_last_bytes: memory.last().copied(),
                rss_mean_bytes: mine.iter().map(|(p, _)| p.rss_mean_bytes).sum(),
            }
        });
    }
    planes
}

/// Memory of all processes together at each sample. Samples without the memory of a process that still existed are
/// omitted.
fn memory_sums(mine: &[(&ProcessUse, &Track)]) -> Vec<u64> {
    let samples = mine.first().map_or(0, |(_, t)| t.is_read.len());
    let sum = |s: usize| {
        mine.iter()
            .map(|(_, t)| if t.is_read[s] { t.memory[s] } else { Some(0) })
            .sum::<Option<u64>>()
    };
    (0..samples).filter_map(sum).collect()
}

fn sum_each(rows: impl Iterator<Item = Vec<f64>>) -> Vec<f64> {
    let mut total: Vec<f64> = Vec::new();
    for row in rows {
        total.resize(total.len().max(row.len()), 0.0);
        total.iter_mut().zip(row).for_each(|(t, v)| *t += v);
    }
    total
}

/// Cores of some machines that were neither idle nor stolen, on average between two samples.
fn busy_cores(from: &NodesSample, to: &NodesSample, elapsed_ns: i64) -> f64 {
    let idle_ns = to.idle_ns.saturating_sub(from.idle_ns);
    let stolen_ns = to.stolen_ns.saturating_sub(from.stolen_ns);
    (f64::from(to.cpus) - (idle_ns + stolen_ns) as f64 / elapsed_ns.max(1) as f64).max(0.0)
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
    let share = |from: Option<u64>, to: Option<u64>| {
        let both = from.zip(to);
        both.map(|(from, to)| to.saturating_sub(from) as f64 / window_ns as f64)
    };
    let interrupt_cores = share(first.machine.interrupt_ns, last.machine.interrupt_ns);
    let throttled = last.throttled_ns.zip(first.throttled_ns);
    let busy = |from: &ResourceSample, to: &ResourceSample| {
        let [a, b] = [from, to].map(|s| NodesSample::from(&s.machine));
        busy_cores(&a, &b, to.t_ns - from.t_ns)
    };
    let each: Vec<f64> = samples.windows(2).map(|w| busy(w[0], w[1])).collect();
    let of_application = first.application_nodes.zip(last.application_nodes);
    let busy_all = busy(first, last);
    MachineUse {
        cores: last.machine.cpus,
        cores_allowed,
        busy_cores: busy_all,
        busy_cores_max: max(&each),
        application_nodes_busy_cores: of_application
            .map(|(from, to)| busy_cores(&from, &to, last.t_ns - first.t_ns)),
        // The machine and the processes are read one after the other, and idle time has a
        // resolution of 10 ms. So the difference can be slightly negative, which has no meaning.
        // CPU clocks of processes do not include interrupts that the kernel accounts apart.
        other_cores: (busy_all - accounted - interrupt_cores.unwrap_or(0.0)).max(0.0),
        stolen_cores: stolen_ns as f64 / window_ns as f64,
        interrupt_cores,
        pressure: share(first.machine.pressure_ns, last.machine.pressure_ns),
        throttled_ns: throttled.map(|(to, from)| to.saturating_sub(from)),
    }
}

#[cfg(test)]
mod tests;
