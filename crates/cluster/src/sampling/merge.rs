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
        let found = format!("{n} samples are of instants at which other agents did not sample");
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

/// Index of the nearest of the instants at which agents sample.
fn nearest(instants_ns: &[i64], sample: &ResourceSample) -> usize {
    let next = instants_ns.partition_point(|at| *at < sample.t_ns);
    let distance = |i: &usize| {
        instants_ns
            .get(*i)
            .map_or(u64::MAX, |at| at.abs_diff(sample.t_ns))
    };
    let near = [next.saturating_sub(1), next].into_iter();
    near.min_by_key(distance).unwrap_or_default()
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
    /// When the agents sample, in nanoseconds since the start of the window.
    instants_ns: Vec<i64>,
    /// Samples of instants that not every agent sampled.
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
        let first = parts.first().map(|part: &NodePart| &part.spec);
        Self {
            instants_ns: first.map_or_else(Vec::new, AgentSpec::sample_instants_ns),
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

    /// Whether every node has a sample of the same instant. Drops samples of earlier instants than
    /// the latest of the first ones; their CPU time is in the later ones, which are cumulative.
    fn next_is_complete(&mut self) -> bool {
        let instants_ns = &self.instants_ns;
        let first = |node: &NodeStream| Some(nearest(instants_ns, node.waiting.front()?));
        loop {
            let instants: Option<Vec<usize>> = self.nodes.iter().map(first).collect();
            let Some(latest) = instants.and_then(|s| s.into_iter().max()) else {
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

    /// Merges the first waiting sample of every node: they are of the same instant.
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
mod tests;
