use super::*;
use tare_records::record::{ProcessSample, StreamChecksum};
use tare_records::worker::{Slices, WatchedProcess};

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
        window_ns: 5_000_000_000,
        stack_period_ns: None,
        slices: None,
    }
}

fn node(name: &str, machine: &str) -> Node {
    Node {
        name: name.into(),
        machine: machine.into(),
        cores: 2,
        is_for_generators: true,
        memory_bytes: 1,
        ..Node::default()
    }
}

fn stream(samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
    stream_from(0, samples, cpus)
}

/// A stream without its first samples, which are a second apart.
fn stream_from(first: usize, samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
    stream_every(1_000_000_000, first, samples, cpus)
}

fn stream_every(every_ns: i64, first: usize, samples: &[Vec<u64>], cpus: u32) -> Vec<String> {
    let mut checksum = StreamChecksum::default();
    let mut lines = Vec::new();
    for (i, cpu) in samples.iter().enumerate().skip(first) {
        let t_ns = i as i64 * every_ns + 3_000_000;
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
fn samples_at_the_edges_of_slices_stay_together() {
    let slices = Slices {
        length_ns: 200_000_000,
        gap_ns: 100_000_000,
        lead_ns: 10_000_000,
        warm_ns: 0,
        starts_ns: vec![300_000_000, 600_000_000],
    };
    let spec = AgentSpec {
        window_ns: 1_200_000_000,
        slices: Some(slices),
        ..spec()
    };
    let parts = divide(&spec, &[node("n1", "m1"), node("n2", "m2")]);
    let mut merged = MergedSamples::new(parts, 3);
    // At 0, 300, 600, 900 and 1200 ms; the second agent starts after the first of them.
    let [one, two] = [
        stream_every(
            300_000_000,
            0,
            &[vec![1], vec![2], vec![3], vec![4], vec![5]],
            4,
        ),
        stream_every(
            300_000_000,
            1,
            &[
                vec![0; 2],
                vec![20; 2],
                vec![30; 2],
                vec![40; 2],
                vec![50; 2],
            ],
            2,
        ),
    ];
    let mut lines = Vec::new();
    for (source, stream) in [one, two].into_iter().enumerate() {
        for line in stream {
            lines.extend(merged.line(source, &line).unwrap());
        }
    }
    let samples = lines
        .iter()
        .map(|line| match serde_json::from_str(line).unwrap() {
            AgentRecord::Sample(s) => (
                s.t_ns / 1_000_000,
                s.processes.iter().map(|p| p.unwrap().cpu_ns).sum::<u64>(),
            ),
            other => panic!("{other:?}"),
        });
    let samples: Vec<(i64, u64)> = samples.collect();
    assert_eq!(samples, [(303, 42), (603, 63), (903, 84), (1203, 105)]);
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
