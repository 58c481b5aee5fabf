//! Merges the streams of the agents of all nodes into one, sample by sample.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tare_analysis::AgentStream;
use tare_records::record::{AgentRecord, Hello, MachineSample, ResourceSample};
use tare_records::trial::EventKind;
use tare_records::worker::{AgentSpec, Plane};
use tare_records::writer;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::pprof::PprofStacks;
use super::stacks::MergedStacks;
use crate::objects::Node;
use crate::trial::{Events, Line};
use tare_files::unix_ns;
use tare_run::agent_records::AgentRecords;

/// How long after the window the last records of agents may arrive.
const LAST_RECORDS_WITHIN: Duration = Duration::from_secs(8);

/// The part of a specification for the agent of one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NodePart {
    pub(crate) node: String,
    /// Cores of its machine, if this node represents the machine.
    pub(crate) machine_cores: Option<u32>,
    /// Whether its machine runs a service of the application.
    pub(crate) has_application: bool,
    /// Indexes of its processes in the whole specification.
    pub(crate) indexes: Vec<usize>,
    pub(crate) spec: AgentSpec,
}

/// Divides a specification by nodes. One node of each machine represents the machine.
pub(crate) fn divide(spec: &AgentSpec, nodes: &[Node]) -> Vec<NodePart> {
    let mut by_node: BTreeMap<&str, NodePart> = BTreeMap::new();
    for (index, watched) in spec.processes.iter().enumerate() {
        let Some((node, id)) = watched.container.as_deref().and_then(|c| c.split_once('/')) else {
            continue;
        };
        let part = by_node.entry(node).or_insert_with(|| NodePart {
            node: node.to_owned(),
            machine_cores: None,
            has_application: false,
            indexes: Vec::new(),
            spec: AgentSpec {
                processes: Vec::new(),
                ..spec.clone()
            },
        });
        let mut watched = watched.clone();
        watched.container = Some(id.to_owned());
        part.indexes.push(index);
        part.spec.processes.push(watched);
    }
    let mut parts: Vec<NodePart> = by_node.into_values().collect();
    let node = |part: &NodePart| nodes.iter().find(|n| n.name == part.node);
    let machine = |part: &NodePart| node(part).map_or(part.node.clone(), |n| n.machine.clone());
    let of_application = |part: &&NodePart| {
        let mut processes = part.spec.processes.iter();
        processes.any(|p| p.plane == Plane::Application)
    };
    let of_application: BTreeSet<String> =
        parts.iter().filter(of_application).map(machine).collect();
    let mut represented = BTreeSet::new();
    for part in &mut parts {
        let machine = machine(part);
        part.has_application = of_application.contains(&machine);
        if represented.insert(machine) {
            part.machine_cores = Some(node(part).map_or(0, |n| n.cores));
        }
    }
    parts
}

/// Merges the agents' lines until all streams end. Reports faults as events. The processes of a
/// stream that ends early are gone from the same instant on.
pub(crate) async fn merge(
    mut merged: MergedSamples,
    mut logs: mpsc::Receiver<Line>,
    out: mpsc::Sender<String>,
    events: Events,
    pprof: impl Future<Output = PprofStacks>,
) {
    let until = merged.until();
    let read = async {
        while let Ok(Some(line)) = timeout_at(until, logs.recv()).await {
            for line in merged.line(line.source, &line.text)? {
                if out.send(line).await.is_err() {
                    return Ok::<_, String>(false);
                }
            }
        }
        Ok(true)
    };
    match tokio::join!(read, pprof) {
        (Ok(true), control_plane) => merged.stacks.add(control_plane),
        (Ok(false), _) => return,
        (Err(found), _) => return events.push(EventKind::SamplingFailed, "", found),
    }
    let unfinished = merged.unfinished();
    for node in &unfinished {
        let found = format!(
            "lost: no samples from its agent after {:.1} s of the window",
            node.last_ns as f64 / 1e9
        );
        events.push(EventKind::Exited, &node.part.node, found);
    }
    if let n @ 1.. = merged.unpaired()
        && unfinished.is_empty()
    {
        let found = format!("{n} samples are of seconds that other agents did not sample");
        events.push(EventKind::SamplingFailed, "", found);
    }
    match merged.finish() {
        Ok(last) => {
            for line in last {
                let _ = out.send(line).await;
            }
        }
        Err(found) => events.push(EventKind::SamplingFailed, "", found),
    }
}

/// The second of the window that a sample belongs to.
fn second(sample: &ResourceSample) -> i64 {
    (sample.t_ns as f64 / 1e9).round() as i64
}

/// The stream of one node's agent so far.
struct NodeStream {
    part: NodePart,
    stream: AgentStream,
    /// Samples that wait for those of other nodes.
    waiting: VecDeque<ResourceSample>,
    /// Whether the stream has its final record.
    finished: bool,
    /// Time of the last sample, since the start of the window.
    last_ns: i64,
}

/// The streams of all nodes, and the merged stream so far.
pub(crate) struct MergedSamples {
    nodes: Vec<NodeStream>,
    /// Number of processes in the whole specification.
    processes: usize,
    records: AgentRecords<Vec<u8>>,
    has_hello: bool,
    own_cpu_ns: u64,
    elapsed_ns: u64,
    /// Samples of seconds that not every agent sampled.
    dropped: usize,
    stacks: MergedStacks,
}

impl MergedSamples {
    pub(crate) fn new(parts: Vec<NodePart>, processes: usize) -> Self {
        let node = |part| NodeStream {
            part,
            stream: AgentStream::new(),
            waiting: VecDeque::new(),
            finished: false,
            last_ns: 0,
        };
        Self {
            nodes: parts.into_iter().map(node).collect(),
            processes,
            records: AgentRecords::default(),
            has_hello: false,
            own_cpu_ns: 0,
            elapsed_ns: 0,
            dropped: 0,
            stacks: MergedStacks::default(),
        }
    }

    /// When to stop waiting for records.
    fn until(&self) -> Instant {
        let spec = self.nodes.first().map(|n| &n.part.spec);
        let end = spec.map_or(0, |s| s.window_start_unix_ns + s.window_ns);
        let left = Duration::from_nanos(end.saturating_sub(unix_ns()));
        Instant::now() + left + LAST_RECORDS_WITHIN
    }

    /// Nodes whose agents wrote no final record.
    fn unfinished(&self) -> Vec<&NodeStream> {
        self.nodes.iter().filter(|n| !n.finished).collect()
    }

    /// Takes a line of an agent and returns the lines that it adds to the merged stream.
    fn line(&mut self, source: usize, line: &str) -> Result<Vec<String>, String> {
        let node = &mut self.nodes[source];
        let record = node.stream.line(line);
        let record = record.map_err(|e| format!("agent on {}: {e}", node.part.node))?;
        // Writing to memory does not fail.
        match record.clone() {
            AgentRecord::Hello(hello) => {
                if !std::mem::replace(&mut self.has_hello, true) {
                    let hello = Hello { pid: 0, ..hello };
                    let _ = self.records.write(&AgentRecord::Hello(hello));
                }
            }
            AgentRecord::Gone { process, t_ns } => {
                let index = node.part.indexes.get(process as usize).copied();
                let _ = self.records.gone(index.unwrap_or_default(), t_ns);
            }
            AgentRecord::Sample(sample) => {
                node.last_ns = sample.t_ns;
                node.waiting.push_back(sample);
                while self.next_is_complete() {
                    let merged = AgentRecord::Sample(self.next_sample());
                    let _ = self.records.write(&merged);
                }
            }
            AgentRecord::Stacks(process) => self.stacks.add_process(process),
            AgentRecord::StackSampling(sampling) => {
                self.stacks.add_sampling(&node.part.node, sampling);
            }
            AgentRecord::Kubelet { .. }
            | AgentRecord::NotCounted { .. }
            | AgentRecord::CpuMissing { .. } => {}
            AgentRecord::Final {
                own_cpu_ns,
                elapsed_ns,
                ..
            } => {
                node.finished = true;
                self.own_cpu_ns += own_cpu_ns;
                self.elapsed_ns = self.elapsed_ns.max(elapsed_ns);
            }
        }
        Ok(self.records.take_lines())
    }

    /// Whether every node has a sample of the same second. Drops samples of earlier seconds than
    /// the latest of the first ones; their CPU time is in the later ones, which are cumulative.
    fn next_is_complete(&mut self) -> bool {
        let first = |node: &NodeStream| node.waiting.front().map(second);
        loop {
            let seconds: Option<Vec<i64>> = self.nodes.iter().map(first).collect();
            let Some(latest) = seconds.and_then(|s| s.into_iter().max()) else {
                return false;
            };
            let before = self.dropped;
            for node in &mut self.nodes {
                if first(node) < Some(latest) {
                    node.waiting.pop_front();
                    self.dropped += 1;
                }
            }
            if self.dropped == before {
                return true;
            }
        }
    }

    /// Number of samples without a counterpart on every other node.
    fn unpaired(&self) -> usize {
        self.dropped + self.nodes.iter().map(|n| n.waiting.len()).sum::<usize>()
    }

    /// Merges the first waiting sample of every node: they are of the same second.
    fn next_sample(&mut self) -> ResourceSample {
        let mut merged = ResourceSample {
            t_ns: i64::MAX,
            processes: vec![None; self.processes],
            machine: MachineSample {
                cpus: 0,
                idle_ns: 0,
                stolen_ns: 0,
                interrupt_ns: Some(0),
                pressure_ns: Some(0),
                memory_available_bytes: 0,
            },
            application_nodes: None,
            throttled_ns: None,
        };
        let mut machines = 0_u64;
        // Where a machine does not report a counter, the sum would be of the other machines only.
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        for NodeStream { part, waiting, .. } in &mut self.nodes {
            let Some(sample) = waiting.pop_front() else {
                continue;
            };
            if part.machine_cores.is_some() {
                if part.has_application {
                    merged
                        .application_nodes
                        .get_or_insert_default()
                        .add(&sample.machine);
                }
                let machine = &mut merged.machine;
                machine.cpus += sample.machine.cpus;
                machine.idle_ns += sample.machine.idle_ns;
                machine.stolen_ns += sample.machine.stolen_ns;
                machine.interrupt_ns = sum(machine.interrupt_ns, sample.machine.interrupt_ns);
                machine.pressure_ns = sum(machine.pressure_ns, sample.machine.pressure_ns);
                machines += 1;
                machine.memory_available_bytes += sample.machine.memory_available_bytes;
            }
            merged.t_ns = merged.t_ns.min(sample.t_ns);
            for (index, process) in part.indexes.iter().zip(sample.processes) {
                merged.processes[*index] = process;
            }
        }
        let pressure_ns = &mut merged.machine.pressure_ns;
        *pressure_ns = pressure_ns.and_then(|ns| ns.checked_div(machines));
        merged
    }

    /// Returns the last lines. The processes of an unfinished stream are gone since its last
    /// sample.
    fn finish(mut self) -> Result<Vec<String>, String> {
        for node in self.nodes {
            if !node.finished {
                for index in node.part.indexes {
                    let _ = self.records.gone(index, node.last_ns);
                }
            } else if let Some(problem) = node.stream.finish().1 {
                return Err(format!("agent on {}: {problem}", node.part.node));
            }
        }
        for record in self.stacks.records() {
            // Writing to memory does not fail.
            let _ = self.records.write(&record);
        }
        let written = self.records.last(self.own_cpu_ns, self.elapsed_ns);
        Ok(writer::lines(&written.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::record::{ProcessSample, StreamChecksum};
    use tare_records::worker::WatchedProcess;

    fn spec() -> AgentSpec {
        let watched = |name: &str, container: &str| WatchedProcess {
            container: Some(container.to_owned()),
            ..WatchedProcess::process(name, Plane::Application, 0)
        };
        AgentSpec {
            schema_version: tare_plan::SCHEMA_VERSION,
            processes: vec![
                watched("a", "n2/x"),
                watched("b", "n1/y"),
                watched("c", "n2/z"),
            ],
            window_start_unix_ns: 0,
            window_ns: 1,
            stack_period_ns: None,
            slices: None,
        }
    }

    fn node(name: &str, machine: &str) -> Node {
        Node {
            name: name.into(),
            machine: machine.into(),
            cores: 2,
            architecture: String::new(),
            is_for_generators: true,
            memory_bytes: 1,
            software: String::new(),
            platform: None,
            pod_ranges: Vec::new(),
        }
    }

    fn stream(samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
        stream_from(0, samples, cpus)
    }

    /// A stream without its first samples.
    fn stream_from(first: usize, samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
        let mut checksum = StreamChecksum::default();
        let mut lines = Vec::new();
        for (second, cpu) in samples.iter().enumerate().skip(first) {
            let t_ns = second as i64 * 1_000_000_000 + 3_000_000;
            let process = |cpu_ns: &u64| {
                Some(ProcessSample {
                    t_ns,
                    cpu_ns: *cpu_ns,
                    run_queue_delay_ns: Some(7),
                    counters: None,
                    rss_bytes: Some(1),
                    throttled_ns: None,
                    pss_bytes: None,
                    working_set_bytes: Some(2),
                })
            };
            let record = AgentRecord::Sample(ResourceSample {
                application_nodes: None,
                t_ns,
                processes: cpu.iter().map(process).collect(),
                machine: MachineSample {
                    cpus,
                    idle_ns: 1,
                    stolen_ns: 0,
                    // Only the kernel of the machine with 4 cores accounts interrupts apart.
                    interrupt_ns: (cpus == 4).then_some(9),
                    pressure_ns: Some(10 * u64::from(cpus)),
                    memory_available_bytes: 1,
                },
                throttled_ns: None,
            });
            let line = serde_json::to_string(&record).unwrap();
            checksum.line(&line);
            lines.push(line);
        }
        let last = AgentRecord::Final {
            checksum: checksum.hex(),
            own_cpu_ns: 5,
            elapsed_ns: 9,
        };
        lines.push(serde_json::to_string(&last).unwrap());
        lines
    }

    fn merged(nodes: &[Node], cut: usize) -> Result<Vec<AgentRecord>, String> {
        let parts = divide(&spec(), nodes);
        let mut merged = MergedSamples::new(parts, 3);
        let n1 = stream(&[vec![1], vec![2]], 2);
        let n2 = stream(&[vec![10, 100], vec![20, 200]], 4);
        let mut lines = Vec::new();
        for line in &n2 {
            lines.extend(merged.line(1, line)?);
        }
        for line in &n1[..n1.len() - cut] {
            lines.extend(merged.line(0, line)?);
        }
        assert_eq!(merged.unfinished().len(), usize::from(cut > 0));
        lines.extend(merged.finish()?);
        let mut whole = AgentStream::new();
        for line in &lines {
            whole.line(line).unwrap();
        }
        let (records, problem) = whole.finish();
        assert_eq!(problem, None);
        Ok(records)
    }

    #[test]
    fn samples_of_all_nodes_are_merged_in_the_order_of_the_specification() {
        let nodes = [node("n1", "m1"), node("n2", "m2")];
        let records = merged(&nodes, 0).unwrap();
        let AgentRecord::Sample(second) = &records[1] else {
            panic!("{records:?}")
        };
        let cpu: Vec<u64> = second.processes.iter().map(|p| p.unwrap().cpu_ns).collect();
        assert_eq!(cpu, [20, 2, 200]);
        assert_eq!(second.machine.cpus, 6);
        assert_eq!(second.processes[1].unwrap().run_queue_delay_ns, Some(7));
        assert_eq!(
            second.machine.pressure_ns,
            Some(30),
            "mean of both machines"
        );
        assert_eq!(second.machine.interrupt_ns, None, "unknown of one machine");
        assert!(matches!(
            records[2],
            AgentRecord::Final { own_cpu_ns: 10, .. }
        ));
    }

    #[test]
    fn the_cores_of_a_machine_with_two_nodes_count_once() {
        let nodes = [node("n1", "m"), node("n2", "m")];
        let records = merged(&nodes, 0).unwrap();
        let AgentRecord::Sample(first) = &records[0] else {
            panic!("{records:?}")
        };
        assert_eq!(first.machine.cpus, 2);
    }

    #[test]
    fn the_machines_of_the_application_are_those_that_run_its_services() {
        let of = |second: Plane, nodes: &[Node]| {
            let mut spec = spec();
            spec.processes[1].plane = second;
            let mut merged = MergedSamples::new(divide(&spec, nodes), 3);
            let mut lines = Vec::new();
            let streams = [stream(&[vec![1]], 2), stream(&[vec![10, 100]], 4)];
            for (source, stream) in streams.iter().enumerate() {
                for line in stream {
                    lines.extend(merged.line(source, line).unwrap());
                }
            }
            let AgentRecord::Sample(sample) = serde_json::from_str(&lines[0]).unwrap() else {
                panic!("{lines:?}")
            };
            (sample.machine.cpus, sample.application_nodes.unwrap().cpus)
        };
        let apart = [node("n1", "m1"), node("n2", "m2")];
        assert_eq!(of(Plane::Application, &apart), (6, 6));
        assert_eq!(of(Plane::Generator, &apart), (6, 4), "n1 runs no service");
        let together = [node("n1", "m"), node("n2", "m")];
        // The machine is represented by n1, and its service runs on n2.
        assert_eq!(of(Plane::Generator, &together), (2, 2));
    }

    #[test]
    fn the_containers_of_a_lost_node_keep_their_samples() {
        let nodes = [node("n1", "m1"), node("n2", "m2")];
        let records = merged(&nodes, 2).unwrap();
        let samples = records
            .iter()
            .filter(|r| matches!(r, AgentRecord::Sample(_)));
        assert_eq!(samples.count(), 1, "one second that both agents sampled");
        let gone = AgentRecord::Gone {
            process: 1,
            t_ns: 3_000_000,
        };
        assert!(records.contains(&gone), "{records:?}");
    }

    #[test]
    fn samples_of_one_second_stay_together_when_an_agent_starts_late() {
        let parts = divide(&spec(), &[node("n1", "m1"), node("n2", "m2")]);
        let mut merged = MergedSamples::new(parts, 3);
        let n1 = stream_from(1, &[vec![1], vec![2], vec![3]], 2);
        let n2 = stream(&[vec![10, 100], vec![20, 200], vec![30, 300]], 4);
        let mut lines = Vec::new();
        for (source, stream) in [(1, n2), (0, n1)] {
            for line in stream {
                lines.extend(merged.line(source, &line).unwrap());
            }
        }
        assert_eq!(merged.unpaired(), 1, "n1 did not sample the first second");
        let cpu: Vec<Vec<u64>> = lines
            .iter()
            .map(|line| match serde_json::from_str(line).unwrap() {
                AgentRecord::Sample(s) => s.processes.iter().map(|p| p.unwrap().cpu_ns).collect(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(cpu, [[20, 2, 200], [30, 3, 300]]);
    }

    #[test]
    fn a_damaged_stream_is_reported_with_its_node() {
        let parts = divide(&spec(), &[node("n1", "m1"), node("n2", "m2")]);
        let mut merged = MergedSamples::new(parts, 3);
        for line in stream(&[vec![1], vec![2]], 2).iter().skip(1) {
            merged.line(0, line).unwrap();
        }
        let found = merged.finish().unwrap_err();
        assert!(found.contains("agent on n1"), "{found}");
    }
}
