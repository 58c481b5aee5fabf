//! The stacks that the agents of all nodes sampled, as one.

use tare_records::record::AgentRecord;
use tare_records::stacks::{ProcessStacks, StackSampling};

use super::pprof::PprofStacks;

/// The stacks of all nodes.
#[derive(Default)]
pub(super) struct MergedStacks {
    processes: Vec<ProcessStacks>,
    /// The sampling of all nodes; `None` if no agent sampled stacks.
    sampling: Option<StackSampling>,
}

impl MergedStacks {
    /// Adds the stacks of a process on some node.
    pub(super) fn add_process(&mut self, process: ProcessStacks) {
        self.processes.push(process);
    }

    /// Adds the sampling of a node.
    pub(super) fn add_sampling(&mut self, node: &str, of_node: StackSampling) {
        let all = self.sampling.get_or_insert_with(StackSampling::default);
        all.period_ns = all.period_ns.max(of_node.period_ns);
        all.lost += of_node.lost;
        all.other_processes += of_node.other_processes;
        let limits = of_node.limits.into_iter();
        all.limits.extend(limits.map(|l| format!("{node}: {l}")));
    }

    /// Adds the profiles that pods of a control plane served, in the place of what was sampled of them: they have the
    /// names of the functions.
    pub(super) fn add(&mut self, control_plane: PprofStacks) {
        if let Some(sampling) = &mut self.sampling {
            sampling.limits.extend(control_plane.limits);
        }
        let processes = control_plane.processes.into_iter();
        // An idle program has no samples at the low rate of pprof.
        for process in processes.filter(|p| !p.stacks.is_empty()) {
            let of_pod = format!("{}/", process.name);
            self.processes.retain(|p| !p.name.starts_with(&of_pod));
            self.processes.push(process);
        }
    }

    /// The records for the merged stream.
    pub(super) fn records(self) -> impl Iterator<Item = AgentRecord> {
        let processes = self.processes.into_iter().map(AgentRecord::Stacks);
        processes.chain(self.sampling.map(AgentRecord::StackSampling))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::stacks::SampledStack;
    use tare_records::worker::Plane;

    fn process(name: &str) -> ProcessStacks {
        ProcessStacks {
            name: name.to_owned(),
            plane: Plane::ControlPlane,
            frames: Vec::new(),
            stacks: vec![SampledStack {
                frames: Vec::new(),
                samples: 1,
            }],
        }
    }

    #[test]
    fn a_profile_of_a_pod_takes_the_place_of_what_was_sampled_of_it() {
        let mut merged = MergedStacks::default();
        for name in ["mesh/istiod-1/discovery", "mesh/istiod-10/discovery"] {
            merged.add_process(process(name));
        }
        for node in ["node1", "node2"] {
            let sampling = StackSampling {
                period_ns: 997,
                lost: 2,
                other_processes: 3,
                limits: vec!["no names".to_owned()],
            };
            merged.add_sampling(node, sampling);
        }
        let idle = ProcessStacks {
            stacks: Vec::new(),
            ..process("mesh/istiod-10")
        };
        merged.add(PprofStacks {
            processes: vec![process("mesh/istiod-1"), idle],
            limits: vec!["no functions of mesh/istiod-10: status 401".to_owned()],
        });
        let records: Vec<AgentRecord> = merged.records().collect();
        let expected = StackSampling {
            period_ns: 997,
            lost: 4,
            other_processes: 6,
            limits: vec![
                "node1: no names".to_owned(),
                "node2: no names".to_owned(),
                "no functions of mesh/istiod-10: status 401".to_owned(),
            ],
        };
        assert_eq!(
            records,
            [
                AgentRecord::Stacks(process("mesh/istiod-10/discovery")),
                AgentRecord::Stacks(process("mesh/istiod-1")),
                AgentRecord::StackSampling(expected),
            ]
        );
    }

    #[test]
    fn without_sampled_stacks_there_are_no_records() {
        assert_eq!(MergedStacks::default().records().count(), 0);
    }
}
