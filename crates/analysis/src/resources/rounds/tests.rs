use tare_records::record::{MachineSample, ProcessSample};
use tare_records::worker::{Slices, WatchedProcess};

use super::*;

const MS: u64 = 1_000_000;
const ROUNDS: u64 = 10;

/// What happens in each round, in milliseconds of CPU on two cores.
#[derive(Clone, Copy, Default)]
struct World {
    others_ms: u64,
    stolen_ms: u64,
}

/// Two trials that take turns in each round: a mesh uses 300 ms of CPU in its slice, and 10 ms in that of the other one.
struct Block {
    specs: Vec<AgentSpec>,
    records: Vec<Vec<AgentRecord>>,
}

fn block(world: impl Fn(u64) -> World) -> Block {
    block_of(500, world)
}

/// A block whose slices take so long with their gaps.
fn block_of(each_ms: u64, world: impl Fn(u64) -> World) -> Block {
    // In one round the first trial is first, in the next one the second.
    let trial_at = |slice: u64| (slice % 2) ^ (slice / 2 % 2);
    let slices = 2 * ROUNDS;
    let starts = |trial: u64| (0..slices).filter(move |s| trial_at(*s) == trial);
    let window_ns = slices * each_ms * MS;
    let used_ms = |trial: u64, until: u64| -> u64 {
        let of = |s: u64| if trial_at(s) == trial { 300 } else { 10 };
        (0..until).map(of).sum()
    };
    let machine = |until: u64| -> (u64, u64) {
        let outside = (0..until).map(|s| world(s / 2));
        let (others, stolen) = outside.fold((0, 0), |(o, s), w| {
            (o + w.others_ms / 2, s + w.stolen_ms / 2)
        });
        (used_ms(0, until) + used_ms(1, until) + others, stolen)
    };
    let sample = |trial: u64, slice: u64| {
        let t_ns = (slice * each_ms * MS) as i64;
        let (busy_ms, stolen_ms) = machine(slice);
        let process = ProcessSample {
            t_ns,
            cpu_ns: used_ms(trial, slice) * MS,
            run_queue_delay_ns: None,
            counters: None,
            rss_bytes: Some(1),
            throttled_ns: None,
            pss_bytes: None,
            working_set_bytes: None,
        };
        AgentRecord::Sample(ResourceSample {
            t_ns,
            processes: vec![Some(process)],
            machine: MachineSample {
                cpus: 2,
                idle_ns: 2 * t_ns as u64 - (busy_ms + stolen_ms) * MS + 1_000_000 * MS,
                stolen_ns: stolen_ms * MS,
                interrupt_ns: None,
                pressure_ns: None,
                memory_available_bytes: 1,
            },
            application_nodes: None,
            throttled_ns: None,
        })
    };
    let spec = |trial: u64| AgentSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        processes: vec![WatchedProcess::process("web", Plane::Application, 1)],
        window_start_unix_ns: 0,
        window_ns,
        stack_period_ns: None,
        slices: Some(Slices {
            length_ns: (each_ms - 100) * MS,
            gap_ns: 100 * MS,
            lead_ns: 10 * MS,
            warm_ns: 0,
            starts_ns: starts(trial).map(|s| s * each_ms * MS).collect(),
        }),
    };
    let records = |trial: u64| {
        let mut edges: Vec<u64> = starts(trial).flat_map(|s| [s, s + 1]).collect();
        edges.extend([0, slices]);
        edges.sort_unstable();
        edges.dedup();
        edges.into_iter().map(|s| sample(trial, s)).collect()
    };
    Block {
        specs: (0..2).map(spec).collect(),
        records: (0..2).map(records).collect(),
    }
}

fn find_in(block: &Block) -> Rounds {
    let trials = block.specs.iter().zip(&block.records);
    let trials: Vec<_> = trials
        .map(|(spec, records)| Sampled { spec, records })
        .collect();
    find(&trials).unwrap_or_default()
}

#[test]
fn a_quiet_machine_has_no_disturbed_round() {
    let found = find_in(&block(|_| World::default()));
    assert_eq!((found.all, &*found.disturbed), (10, &[][..]));
    assert!(
        found.other_cores.abs() < 1e-9 && found.stolen_cores.abs() < 1e-9,
        "{found:?}"
    );
}

#[test]
fn what_others_or_the_hypervisor_take_in_a_round_is_found_in_that_round() {
    let others = |ms| World {
        others_ms: ms,
        stolen_ms: 0,
    };
    let stolen = |ms| World {
        others_ms: 0,
        stolen_ms: ms,
    };
    // Below the limits: 5 % of a core for others, and 5 % of both cores for the hypervisor.
    let world = |round| match round {
        2 => others(80),
        3 => others(40),
        6 => stolen(120),
        7 => stolen(80),
        _ => World::default(),
    };
    let found = find_in(&block(world));
    assert_eq!(
        (&*found.disturbed, found.left_out()),
        (&[2, 6][..], &[2, 6][..])
    );
    // The means of the eight others.
    assert!((found.other_cores - 0.040 / 8.0).abs() < 1e-9, "{found:?}");
    assert!((found.stolen_cores - 0.080 / 8.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn if_most_rounds_are_disturbed_none_is_left_out() {
    let busy = World {
        others_ms: 200,
        stolen_ms: 0,
    };
    let quiet_from = |from| move |round| if round < from { busy } else { World::default() };
    assert_eq!(find_in(&block(quiet_from(5))).left_out(), [0, 1, 2, 3, 4]);
    let found = find_in(&block(quiet_from(6)));
    assert_eq!((found.disturbed.len(), found.left_out()), (6, &[][..]));
    assert!((found.other_cores - 0.2 * 0.6).abs() < 1e-9, "{found:?}");
}

#[test]
fn rounds_that_are_no_whole_seconds_stay_and_so_does_what_the_machine_did_in_them() {
    let busy = World {
        others_ms: 200,
        stolen_ms: 0,
    };
    let found = find_in(&block_of(480, |round| match round {
        4 => busy,
        _ => World::default(),
    }));
    assert_eq!((&*found.disturbed, found.left_out()), (&[4][..], &[][..]));
    let mean = 0.2 / (0.96 * 10.0);
    assert!((found.other_cores - mean).abs() < 1e-9, "{found:?}");
}

#[test]
fn cpu_of_the_rounds_that_are_left_out_does_not_count() {
    let block = block(|_| World::default());
    let of = |left_out: &[u32]| {
        let found = crate::resources::summarise(&block.specs[0], &block.records[0], 2, left_out);
        let found = found.map(|r| (r.window_ns, r.processes[0].cpu_cores));
        found.unwrap_or_default()
    };
    let (window_ns, cores) = of(&[]);
    assert_eq!(window_ns, 10 * 400 * MS);
    assert!((cores - 0.3 / 0.4).abs() < 1e-9, "{cores}");
    let (window_ns, cores) = of(&[0, 9]);
    assert_eq!(window_ns, 8 * 400 * MS);
    assert!((cores - 0.3 / 0.4).abs() < 1e-9, "{cores}");
}
