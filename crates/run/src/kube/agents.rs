//! Sampling: a pod of `tare agent` on every node that holds a part of the trial, and
//! their records made one stream.

use std::collections::{BTreeMap, VecDeque};

use tare_model::plan::KubernetesSettings;
use tare_model::record::{AgentRecord, Hello, MachineSample, Sample, StreamChecksum};
use tare_model::worker::AgentSpec;
use tare_stats::AgentStream;
use tokio::sync::mpsc;

use super::api::Api;
use super::deploy::{Deployment, all};
use super::events::Events;
use super::kinds::{CONFIG_MAP, POD};
use super::log::{self, Line};
use super::nodes::Node;
use super::objects;
use crate::environment::{EnvironmentError, Worker};

const LINES_WAITING_MAX: usize = 4096;

/// One node's part of a specification.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    node: String,
    /// Whether this node speaks for its machine.
    speaks: bool,
    /// Places of its containers in the whole specification.
    places: Vec<usize>,
    spec: AgentSpec,
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

/// Makes the agents and hears them.
pub(super) async fn start(
    api: &Api,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    nodes: &[Node],
    spec_json: &str,
) -> Result<Worker, EnvironmentError> {
    let spec: AgentSpec = serde_json::from_str(spec_json).map_err(|e| EnvironmentError::Start {
        name: "agents".to_owned(),
        found: e.to_string(),
    })?;
    let parts = parts(&spec, nodes);
    let names = &deployment.names;
    let file = |i: usize| format!("{i}.json");
    let files: Vec<(String, String)> = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (file(i), serde_json::to_string(&p.spec).unwrap_or_default()))
        .collect();
    let map = objects::config_map(names, &names.agents(), "spec", &files);
    api.apply(CONFIG_MAP, &map).await?;
    let pods = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (POD, objects::agent(names, settings, &p.node, &file(i))))
        .collect();
    let pods = all(api, pods).await?;

    let (raw_sender, raw) = mpsc::channel(LINES_WAITING_MAX);
    for (index, pod) in pods.iter().enumerate() {
        let name = pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let namespace = deployment.names.agents();
        let task = log::follow(api.clone(), index, namespace, name, raw_sender.clone());
        deployment.tasks.push(tokio::spawn(task));
    }
    let (sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    let (stop, _) = mpsc::channel(1);
    let merged = Merged::new(parts, spec.processes.len());
    let task = merge(merged, raw, sender, deployment.events.clone());
    deployment.tasks.push(tokio::spawn(task));
    Ok(Worker {
        watched: Vec::new(),
        armed_within: std::time::Duration::MAX,
        lines,
        stop,
    })
}

async fn merge(
    mut merged: Merged,
    mut raw: mpsc::Receiver<Line>,
    out: mpsc::Sender<String>,
    events: Events,
) {
    while let Some(line) = raw.recv().await {
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
    match merged.finish() {
        Ok(last) => {
            let _ = out.send(last).await;
        }
        Err(found) => events.say("agent", found),
    }
}

/// Streams of agents made one, sample by sample.
struct Merged {
    parts: Vec<Part>,
    total: usize,
    streams: Vec<AgentStream>,
    waiting: Vec<VecDeque<Sample>>,
    checksum: StreamChecksum,
    begun: bool,
    own_cpu_ns: u64,
    elapsed_ns: u64,
}

impl Merged {
    fn new(parts: Vec<Part>, total: usize) -> Self {
        Self {
            streams: parts.iter().map(|_| AgentStream::new()).collect(),
            waiting: parts.iter().map(|_| VecDeque::new()).collect(),
            parts,
            total,
            checksum: StreamChecksum::default(),
            begun: false,
            own_cpu_ns: 0,
            elapsed_ns: 0,
        }
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
                self.waiting[source].push_back(sample);
                while self.waiting.iter().all(|w| !w.is_empty()) {
                    let merged = self.sample();
                    self.push(&mut out, &AgentRecord::Sample(merged));
                }
            }
            AgentRecord::Final {
                own_cpu_ns,
                elapsed_ns,
                ..
            } => {
                self.own_cpu_ns += own_cpu_ns;
                self.elapsed_ns = self.elapsed_ns.max(elapsed_ns);
            }
        }
        Ok(out)
    }

    /// The first waiting sample of every node: they are of the same instant.
    fn sample(&mut self) -> Sample {
        let mut whole = Sample {
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

    fn finish(self) -> Result<String, String> {
        for (part, stream) in self.parts.iter().zip(self.streams) {
            if let (_, Some(problem)) = stream.finish() {
                return Err(format!("agent on {}: {problem}", part.node));
            }
        }
        let last = AgentRecord::Final {
            checksum: self.checksum.hex(),
            own_cpu_ns: self.own_cpu_ns,
            elapsed_ns: self.elapsed_ns,
        };
        Ok(serde_json::to_string(&last).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::record::ProcessSample;
    use tare_model::worker::{Plane, Watched};

    fn spec() -> AgentSpec {
        let watched = |name: &str, container: &str| Watched {
            container: Some(container.to_owned()),
            ..Watched::process(name, Plane::Application, 0)
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
        let mut checksum = StreamChecksum::default();
        let mut lines = Vec::new();
        for (second, cpu) in samples.iter().enumerate() {
            let process = |cpu_ns: &u64| {
                Some(ProcessSample {
                    t_ns: second as i64,
                    cpu_ns: *cpu_ns,
                    rss_bytes: 1,
                    pss_bytes: None,
                    working_set_bytes: Some(2),
                })
            };
            let record = AgentRecord::Sample(Sample {
                t_ns: second as i64,
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

    fn merged(nodes: &[Node], cut: bool) -> Result<Vec<AgentRecord>, String> {
        let parts = parts(&spec(), nodes);
        let mut merged = Merged::new(parts, 3);
        let n1 = stream(&[vec![1], vec![2]], 2);
        let n2 = stream(&[vec![10, 100], vec![20, 200]], 4);
        let mut lines = Vec::new();
        for line in &n2 {
            lines.extend(merged.line(1, line)?);
        }
        for line in &n1[..n1.len() - usize::from(cut)] {
            lines.extend(merged.line(0, line)?);
        }
        lines.push(merged.finish()?);
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
        let records = merged(&nodes, false).unwrap();
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
        let records = merged(&nodes, false).unwrap();
        let AgentRecord::Sample(first) = &records[0] else {
            panic!("{records:?}")
        };
        assert_eq!(first.machine.cpus, 2);
    }

    #[test]
    fn a_cut_stream_is_named_by_its_node() {
        let nodes = [node("n1", "m1"), node("n2", "m2")];
        let found = merged(&nodes, true).unwrap_err();
        assert!(found.contains("agent on n1"), "{found}");
    }
}
