//! Streams of the agents of all nodes made one, sample by sample.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tare_analysis::AgentStream;
use tare_model::record::{AgentRecord, Hello, MachineSample, ResourceSample, StreamChecksum};
use tare_model::worker::AgentSpec;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::events::Events;
use super::log::Line;
use super::nodes::Node;
use crate::experiment::unix_ns;

/// So long after the window agents may need for their last records to come.
const SILENT_MAX: Duration = Duration::from_secs(8);

/// One node's part of a specification.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) node: String,
    /// Whether this node speaks for its machine.
    pub(super) speaks: bool,
    /// Places of its containers in the whole specification.
    places: Vec<usize>,
    pub(super) spec: AgentSpec,
}

/// Divides a specification by nodes. Of the nodes of one machine one speaks for it.
pub(super) fn parts(spec: &AgentSpec, nodes: &[Node]) -> Vec<Part> {
    let mut by_node: BTreeMap<&str, Part> = BTreeMap::new();
    for (place, watched) in spec.processes.iter().enumerate() {
        let Some((node, id)) = watched.container.as_deref().and_then(|c| c.split_once('/')) else {
            continue;
        };
        let part = by_node.entry(node).or_insert_with(|| Part {
            node: node.to_owned(),
            speaks: false,
            places: Vec::new(),
            spec: AgentSpec {
                processes: Vec::new(),
                ..spec.clone()
            },
        });
        let mut watched = watched.clone();
        watched.container = Some(id.to_owned());
        part.places.push(place);
        part.spec.processes.push(watched);
    }
    let machine = |name: &str| {
        nodes
            .iter()
            .find(|n| n.name == name)
            .map_or(name, |n| n.machine.as_str())
            .to_owned()
    };
    let mut spoken = Vec::new();
    let mut parts: Vec<Part> = by_node.into_values().collect();
    for part in &mut parts {
        let machine = machine(&part.node);
        if !spoken.contains(&machine) {
            part.speaks = true;
            spoken.push(machine);
        }
    }
    parts
}

/// Takes all lines and sends those of the one stream. What is wrong with one of them is
/// an event with its node; one that falls silent ends the stream where it did.
pub(super) async fn merge(
    mut merged: Merged,
    mut raw: mpsc::Receiver<Line>,
    out: mpsc::Sender<String>,
    events: Events,
) {
    let until = merged.until();
    while let Ok(line) = tokio::time::timeout_at(until, raw.recv()).await {
        let Some(line) = line else { break };
        match merged.line(line.source, &line.text) {
            Ok(lines) => {
                for line in lines {
                    if out.send(line).await.is_err() {
                        return;
                    }
                }
            }
            Err(found) => {
                events.say("agent", found);
                return;
            }
        }
    }
    for (node, last_ns) in merged.silent() {
        let message = format!(
            "{node} is lost: its agent told nothing after {:.1} s of the window",
            last_ns as f64 / 1e9
        );
        events.say("exited", message);
    }
    if let n @ 1.. = merged.unpaired()
        && merged.silent().is_empty()
    {
        events.say(
            "agent",
            format!("{n} samples are of seconds that not every agent told of"),
        );
    }
    match merged.finish() {
        Ok(last) => {
            for line in last {
                let _ = out.send(line).await;
            }
        }
        Err(found) => events.say("agent", found),
    }
}

/// Which of the agents' instants a sample belongs to: one a second.
fn instant(sample: &ResourceSample) -> i64 {
    (sample.t_ns as f64 / 1e9).round() as i64
}

/// Streams of agents made one, sample by sample.
pub(super) struct Merged {
    parts: Vec<Part>,
    total: usize,
    streams: Vec<AgentStream>,
    waiting: Vec<VecDeque<ResourceSample>>,
    /// Which have told their last.
    finished: Vec<bool>,
    /// When each told last, since the start of the window.
    last_ns: Vec<i64>,
    checksum: StreamChecksum,
    begun: bool,
    own_cpu_ns: u64,
    elapsed_ns: u64,
    /// Samples of instants that not every agent has told of.
    alone: usize,
}

impl Merged {
    pub(super) fn new(parts: Vec<Part>, total: usize) -> Self {
        Self {
            streams: parts.iter().map(|_| AgentStream::new()).collect(),
            waiting: parts.iter().map(|_| VecDeque::new()).collect(),
            finished: vec![false; parts.len()],
            last_ns: vec![0; parts.len()],
            parts,
            total,
            checksum: StreamChecksum::default(),
            begun: false,
            own_cpu_ns: 0,
            elapsed_ns: 0,
            alone: 0,
        }
    }

    /// After this nothing is waited for.
    fn until(&self) -> Instant {
        let spec = self.parts.first().map(|p| &p.spec);
        let end = spec.map_or(0, |s| s.window_start_unix_ns + s.window_ns);
        let left = Duration::from_nanos(end.saturating_sub(unix_ns()));
        Instant::now() + left + SILENT_MAX
    }

    /// Nodes whose agents have not told their last, and when they told something.
    fn silent(&self) -> Vec<(String, i64)> {
        let all = self.parts.iter().zip(&self.last_ns).zip(&self.finished);
        all.filter(|(_, finished)| !**finished)
            .map(|((part, last_ns), _)| (part.node.clone(), *last_ns))
            .collect()
    }

    fn push(&mut self, out: &mut Vec<String>, record: &AgentRecord) {
        let line = serde_json::to_string(record).unwrap_or_default();
        self.checksum.line(&line);
        out.push(line);
    }

    fn line(&mut self, source: usize, line: &str) -> Result<Vec<String>, String> {
        let node = &self.parts[source].node;
        let record = self.streams[source].line(line);
        let record = record.map_err(|e| format!("agent on {node}: {e}"))?.clone();
        let mut out = Vec::new();
        match record {
            AgentRecord::Hello(hello) => {
                if !std::mem::replace(&mut self.begun, true) {
                    self.push(&mut out, &AgentRecord::Hello(Hello { pid: 0, ..hello }));
                }
            }
            AgentRecord::Gone { process, t_ns } => {
                let place = self.parts[source].places.get(process as usize).copied();
                let process = place.unwrap_or_default() as u32;
                self.push(&mut out, &AgentRecord::Gone { process, t_ns });
            }
            AgentRecord::Sample(sample) => {
                self.last_ns[source] = sample.t_ns;
                self.waiting[source].push_back(sample);
                while self.next_is_whole() {
                    let merged = self.sample();
                    self.push(&mut out, &AgentRecord::Sample(merged));
                }
            }
            AgentRecord::Kubelet { .. } => {}
            AgentRecord::Final {
                own_cpu_ns,
                elapsed_ns,
                ..
            } => {
                self.finished[source] = true;
                self.own_cpu_ns += own_cpu_ns;
                self.elapsed_ns = self.elapsed_ns.max(elapsed_ns);
            }
        }
        Ok(out)
    }

    /// Whether every node has a sample of one instant. What was told of an instant before
    /// the latest node's first is left out: counters go on, so no CPU time is lost.
    fn next_is_whole(&mut self) -> bool {
        loop {
            let heads: Option<Vec<i64>> = self
                .waiting
                .iter()
                .map(|w| w.front().map(instant))
                .collect();
            let Some((heads, latest)) = heads.and_then(|h| h.iter().copied().max().map(|l| (h, l)))
            else {
                return false;
            };
            if heads.iter().all(|h| *h == latest) {
                return true;
            }
            for (waiting, head) in self.waiting.iter_mut().zip(heads) {
                if head < latest {
                    waiting.pop_front();
                    self.alone += 1;
                }
            }
        }
    }

    /// Samples that have no counterpart on every other node.
    fn unpaired(&self) -> usize {
        self.alone + self.waiting.iter().map(VecDeque::len).sum::<usize>()
    }

    /// The first waiting sample of every node: they are of the same instant.
    fn sample(&mut self) -> ResourceSample {
        let mut whole = ResourceSample {
            t_ns: i64::MAX,
            processes: vec![None; self.total],
            machine: MachineSample {
                cpus: 0,
                idle_ns: 0,
                stolen_ns: 0,
                memory_available_bytes: 0,
            },
            throttled_ns: None,
        };
        for (part, waiting) in self.parts.iter().zip(&mut self.waiting) {
            let Some(sample) = waiting.pop_front() else {
                continue;
            };
            if part.speaks {
                let machine = &mut whole.machine;
                machine.cpus += sample.machine.cpus;
                machine.idle_ns += sample.machine.idle_ns;
                machine.stolen_ns += sample.machine.stolen_ns;
                machine.memory_available_bytes += sample.machine.memory_available_bytes;
            }
            whole.t_ns = whole.t_ns.min(sample.t_ns);
            for (place, process) in part.places.iter().zip(sample.processes) {
                whole.processes[*place] = process;
            }
        }
        whole
    }

    /// The last lines. What an agent watched that fell silent is gone from then on.
    fn finish(mut self) -> Result<Vec<String>, String> {
        let mut out = Vec::new();
        let silent: Vec<usize> = (0..self.parts.len())
            .filter(|&i| !self.finished[i])
            .collect();
        for source in &silent {
            for place in self.parts[*source].places.clone() {
                let gone = AgentRecord::Gone {
                    process: place as u32,
                    t_ns: self.last_ns[*source],
                };
                self.push(&mut out, &gone);
            }
        }
        for (source, stream) in std::mem::take(&mut self.streams).into_iter().enumerate() {
            let problem = stream.finish().1;
            if let Some(problem) = problem.filter(|_| !silent.contains(&source)) {
                return Err(format!("agent on {}: {problem}", self.parts[source].node));
            }
        }
        let last = AgentRecord::Final {
            checksum: self.checksum.hex(),
            own_cpu_ns: self.own_cpu_ns,
            elapsed_ns: self.elapsed_ns,
        };
        out.push(serde_json::to_string(&last).unwrap_or_default());
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::record::ProcessSample;
    use tare_model::worker::{Plane, WatchedProcess};

    fn spec() -> AgentSpec {
        let watched = |name: &str, container: &str| WatchedProcess {
            container: Some(container.to_owned()),
            ..WatchedProcess::process(name, Plane::Application, 0)
        };
        AgentSpec {
            schema_version: tare_model::SCHEMA_VERSION,
            processes: vec![
                watched("a", "n2/x"),
                watched("b", "n1/y"),
                watched("c", "n2/z"),
            ],
            window_start_unix_ns: 0,
            window_ns: 1,
        }
    }

    fn node(name: &str, machine: &str) -> Node {
        Node {
            name: name.into(),
            machine: machine.into(),
            cores: 2,
            memory_bytes: 1,
            software: String::new(),
        }
    }

    fn stream(samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
        stream_from(0, samples, cpus)
    }

    /// One whose first samples are missing.
    fn stream_from(first: usize, samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
        let mut checksum = StreamChecksum::default();
        let mut lines = Vec::new();
        for (second, cpu) in samples.iter().enumerate().skip(first) {
            let t_ns = second as i64 * 1_000_000_000 + 3_000_000;
            let process = |cpu_ns: &u64| {
                Some(ProcessSample {
                    t_ns,
                    cpu_ns: *cpu_ns,
                    rss_bytes: 1,
                    pss_bytes: None,
                    working_set_bytes: Some(2),
                })
            };
            let record = AgentRecord::Sample(ResourceSample {
                t_ns,
                processes: cpu.iter().map(process).collect(),
                machine: MachineSample {
                    cpus,
                    idle_ns: 1,
                    stolen_ns: 0,
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
        let parts = parts(&spec(), nodes);
        let mut merged = Merged::new(parts, 3);
        let n1 = stream(&[vec![1], vec![2]], 2);
        let n2 = stream(&[vec![10, 100], vec![20, 200]], 4);
        let mut lines = Vec::new();
        for line in &n2 {
            lines.extend(merged.line(1, line)?);
        }
        for line in &n1[..n1.len() - cut] {
            lines.extend(merged.line(0, line)?);
        }
        assert_eq!(merged.silent().len(), usize::from(cut > 0));
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
    fn samples_of_all_nodes_become_one_in_the_order_of_the_specification() {
        let nodes = [node("n1", "m1"), node("n2", "m2")];
        let records = merged(&nodes, 0).unwrap();
        let AgentRecord::Sample(second) = &records[1] else {
            panic!("{records:?}")
        };
        let cpu: Vec<u64> = second.processes.iter().map(|p| p.unwrap().cpu_ns).collect();
        assert_eq!(cpu, [20, 2, 200]);
        assert_eq!(second.machine.cpus, 6);
        assert!(matches!(
            records[2],
            AgentRecord::Final { own_cpu_ns: 10, .. }
        ));
    }

    #[test]
    fn nodes_of_one_machine_count_its_cores_once() {
        let nodes = [node("n1", "m"), node("n2", "m")];
        let records = merged(&nodes, 0).unwrap();
        let AgentRecord::Sample(first) = &records[0] else {
            panic!("{records:?}")
        };
        assert_eq!(first.machine.cpus, 2);
    }

    #[test]
    fn a_node_that_falls_silent_is_named_and_its_containers_stay_with_what_they_had() {
        let nodes = [node("n1", "m1"), node("n2", "m2")];
        let records = merged(&nodes, 2).unwrap();
        let samples = records
            .iter()
            .filter(|r| matches!(r, AgentRecord::Sample(_)));
        assert_eq!(samples.count(), 1, "one that both have told");
        let gone = AgentRecord::Gone {
            process: 1,
            t_ns: 3_000_000,
        };
        assert!(records.contains(&gone), "{records:?}");
    }

    #[test]
    fn samples_of_one_instant_stay_together_when_an_agent_is_late() {
        let parts = parts(&spec(), &[node("n1", "m1"), node("n2", "m2")]);
        let mut merged = Merged::new(parts, 3);
        let n1 = stream_from(1, &[vec![1], vec![2], vec![3]], 2);
        let n2 = stream(&[vec![10, 100], vec![20, 200], vec![30, 300]], 4);
        let mut lines = Vec::new();
        for (source, stream) in [(1, n2), (0, n1)] {
            for line in stream {
                lines.extend(merged.line(source, &line).unwrap());
            }
        }
        assert_eq!(
            merged.unpaired(),
            1,
            "n1 has told nothing of the first second"
        );
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
    fn a_damaged_stream_is_named_by_its_node() {
        let parts = parts(&spec(), &[node("n1", "m1"), node("n2", "m2")]);
        let mut merged = Merged::new(parts, 3);
        for line in stream(&[vec![1], vec![2]], 2).iter().skip(1) {
            merged.line(0, line).unwrap();
        }
        let found = merged.finish().unwrap_err();
        assert!(found.contains("agent on n1"), "{found}");
    }
}
