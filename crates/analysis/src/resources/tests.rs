use super::*;
use tare_records::record::{MachineSample, NodesSample};
use tare_records::worker::{Slices, WatchedProcess};

const S: i64 = 1_000_000_000;

fn spec(planes: &[Plane]) -> AgentSpec {
    AgentSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        processes: planes
            .iter()
            .enumerate()
            .map(|(i, &plane)| WatchedProcess {
                name: format!("p{i}"),
                plane,
                pid: i as u32 + 1,
                container: None,
                only_below: false,
            })
            .collect(),
        window_start_unix_ns: 0,
        window_ns: 2 * S as u64,
        stack_period_ns: None,
        slices: None,
    }
}

fn process(t_ns: i64, cpu_ms: u64, rss: u64, pss: Option<u64>) -> Option<ProcessSample> {
    Some(ProcessSample {
        t_ns,
        cpu_ns: cpu_ms * 1_000_000,
        run_queue_delay_ns: None,
        counters: None,
        rss_bytes: Some(rss),
        throttled_ns: None,
        pss_bytes: pss,
        working_set_bytes: None,
    })
}

fn sample(t_ns: i64, busy_ms: u64, processes: Vec<Option<ProcessSample>>) -> AgentRecord {
    AgentRecord::Sample(ResourceSample {
        application_nodes: None,
        t_ns,
        processes,
        machine: MachineSample {
            cpus: 2,
            idle_ns: (2 * t_ns + 100 * S) as u64 - busy_ms * 1_000_000,
            stolen_ns: 0,
            interrupt_ns: None,
            pressure_ns: None,
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
    let r = summarise(
        &spec(&[Plane::DataPlane, Plane::DataPlane]),
        &records,
        2,
        &[],
    )
    .unwrap();
    assert_eq!(r.window_ns, 2 * S as u64);
    assert!(close(r.processes[0].cpu_cores, 0.4), "0.8 s of CPU in 2 s");
    assert!(close(r.processes[0].cpu_cores_max, 0.6));
    assert_eq!(r.processes[0].memory_kind, MemoryKind::Pss);
    assert!(close(r.processes[0].memory_mean_bytes, 10.0));
    assert_eq!(r.processes[0].memory_max_bytes, 12);
    assert!(close(r.processes[0].rss_mean_bytes.unwrap(), 20.0));
    let plane = &r.planes[&Plane::DataPlane];
    assert_eq!(plane.processes, 2);
    assert!(close(plane.cpu_cores, 0.75));
    assert!(close(plane.cpu_cores_max, 0.8), "0.2 + 0.6 and 0.6 + 0.1");
    assert_eq!(plane.memory_max_bytes, 82);
    assert_eq!(plane.memory_first_bytes, Some(58));
    assert_eq!(plane.memory_last_bytes, Some(82));
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
    let r = summarise(&spec(&[Plane::Application]), &records, 1, &[]).unwrap();
    assert_eq!((r.machine.cores, r.machine.cores_allowed), (2, 1));
    assert!(close(r.machine.busy_cores, 1.3));
    assert!(close(r.machine.other_cores, 1.0));
}

#[test]
fn busy_cores_of_the_application_nodes_are_apart_from_those_of_all() {
    let of = |t_ns: i64, busy_ms: u64, of_application_ms: Option<u64>| {
        let AgentRecord::Sample(mut sample) = sample(t_ns, busy_ms, Vec::new()) else {
            panic!("a sample")
        };
        sample.application_nodes = of_application_ms.map(|ms| NodesSample {
            cpus: 1,
            idle_ns: (t_ns + 7 * S) as u64 - ms * 1_000_000,
            stolen_ns: 0,
        });
        AgentRecord::Sample(sample)
    };
    let use_of =
        |records: [AgentRecord; 2]| summarise(&spec(&[]), &records, 2, &[]).unwrap().machine;
    let known = use_of([of(0, 0, Some(0)), of(2 * S, 2600, Some(500))]);
    assert!(close(known.busy_cores, 1.3));
    assert!(close(known.application_nodes_busy_cores.unwrap(), 0.25));
    let unknown = use_of([of(0, 0, None), of(2 * S, 2600, None)]);
    assert_eq!(unknown.application_nodes_busy_cores, None);
}

/// Like [`sample`], with the run-queue delay of each process, interrupts and pressure, in
/// milliseconds.
fn waiting(t_ns: i64, waits: &[Option<u64>], interrupts: u64, pressure: u64) -> AgentRecord {
    let one = |wait: &Option<u64>| {
        let process = process(t_ns, t_ns as u64 / 5_000_000, 1, None)?;
        let run_queue_delay_ns = wait.map(|ms| ms * 1_000_000);
        Some(ProcessSample {
            run_queue_delay_ns,
            ..process
        })
    };
    let busy_ms = t_ns as u64 / 1_000_000;
    match sample(t_ns, busy_ms, waits.iter().map(one).collect()) {
        AgentRecord::Sample(mut sample) => {
            sample.machine.interrupt_ns = Some(interrupts * 1_000_000);
            sample.machine.pressure_ns = Some(pressure * 1_000_000);
            AgentRecord::Sample(sample)
        }
        other => other,
    }
}

#[test]
fn waiting_and_interrupts_by_hand() {
    // Each of two processes uses 0.2 cores, the machine 1. The first waited 30 ms, and was not
    // read in between. Interrupts took 0.5 cores, so that 0.1 are left for other processes.
    let records = [
        waiting(0, &[Some(5), Some(100)], 4_000, 700),
        waiting(S, &[None, Some(101)], 4_100, 900),
        waiting(2 * S, &[Some(35), Some(140)], 5_000, 1_700),
    ];
    let planes = [Plane::DataPlane, Plane::DataPlane];
    let r = summarise(&spec(&planes), &records, 2, &[]).unwrap();
    let waits: Vec<_> = r.processes.iter().map(|p| p.run_queue_delay_ns).collect();
    assert_eq!(waits, [Some(30_000_000), Some(40_000_000)]);
    let plane = r.planes[&Plane::DataPlane].run_queue_delay_ns;
    assert_eq!(plane, Some(70_000_000));
    assert!(close(r.machine.interrupt_cores.unwrap(), 0.5));
    assert!(close(r.machine.other_cores, 1.0 - 0.4 - 0.5));
    assert!(close(r.machine.pressure.unwrap(), 0.5));

    let records = [
        waiting(0, &[Some(5), None], 0, 0),
        waiting(2 * S, &[Some(35), None], 0, 0),
    ];
    let r = summarise(&spec(&planes), &records, 2, &[]).unwrap();
    assert_eq!(r.processes[1].run_queue_delay_ns, None);
    assert_eq!(
        r.planes[&Plane::DataPlane].run_queue_delay_ns,
        None,
        "in part"
    );
}

#[test]
fn hardware_counters_of_the_window_by_hand() {
    let at = |t_ns: i64, counts: &[Option<(u64, u64)>]| {
        let one = |counts: &Option<(u64, u64)>| {
            Some(ProcessSample {
                counters: counts.map(|(instructions, cycles)| HardwareCounts {
                    instructions,
                    cycles,
                    user_only: true,
                }),
                ..process(t_ns, 0, 1, None)?
            })
        };
        sample(t_ns, 0, counts.iter().map(one).collect())
    };
    let planes = [Plane::DataPlane, Plane::DataPlane, Plane::Application];
    let records = [
        at(0, &[Some((1_000, 500)), Some((70, 60)), Some((1, 1))]),
        at(S, &[None, None, None]),
        at(2 * S, &[Some((4_000, 2_000)), Some((71, 62)), None]),
    ];
    let r = summarise(&spec(&planes), &records, 2, &[]).unwrap();
    let counts = |instructions, cycles| {
        Some(HardwareCounts {
            instructions,
            cycles,
            user_only: true,
        })
    };
    let each: Vec<_> = r.processes.iter().map(|p| p.counters).collect();
    assert_eq!(each, [counts(3_000, 1_500), counts(1, 2), None]);
    assert_eq!(r.planes[&Plane::DataPlane].counters, counts(3_001, 1_502));
    assert_eq!(r.planes[&Plane::Application].counters, None, "read once");

    let records = [
        at(0, &[Some((7, 7)), None]),
        at(2 * S, &[Some((9, 9)), None]),
    ];
    let r = summarise(&spec(&planes[..2]), &records, 2, &[]).unwrap();
    assert_eq!(r.planes[&Plane::DataPlane].counters, None, "in part");
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
    let r = summarise(&spec(&[Plane::Application]), &records, 1, &[]).unwrap();
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
    let r = summarise(
        &spec(&[Plane::DataPlane, Plane::DataPlane]),
        &records,
        1,
        &[],
    )
    .unwrap();
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
    let r = summarise(
        &spec(&[Plane::DataPlane, Plane::DataPlane]),
        &records,
        1,
        &[],
    )
    .unwrap();
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
        let r = summarise(&spec(&[Plane::DataPlane]), &records, 2, &[]).unwrap();
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
        summarise(&spec(&[]), &records, 2, &[])
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
    assert_eq!(summarise(&spec(&[]), &[], 1, &[]), None);
    let one = [sample(0, 0, vec![])];
    assert_eq!(summarise(&spec(&[]), &one, 1, &[]), None);
}

#[test]
fn a_trial_in_slices_has_the_cpu_of_its_slices_and_not_that_between() {
    // Two slices of 0.8 s with gaps of 0.2 s: 0 to 1 s, and 3 to 4 s, of 5 s. Loaded, the process uses 500 ms in each, and
    // 10 ms a second otherwise.
    let mut spec = spec(&[Plane::DataPlane, Plane::Tare]);
    spec.window_ns = 5 * S as u64;
    spec.slices = Some(Slices {
        length_ns: 800_000_000,
        gap_ns: 200_000_000,
        lead_ns: 0,
        warm_ns: 0,
        starts_ns: vec![0, 3 * S as u64],
    });
    // Each process is read a little after the machine, and a millisecond of the slice has passed.
    let read = |second: i64, busy_ms, cpu_ms| {
        let at = second * S + 100_000;
        let later = at + 900_000;
        let own = vec![
            process(later, cpu_ms, 10, None),
            process(later, 20 * second as u64, 5, None),
        ];
        sample(at, busy_ms, own)
    };
    let records = [
        read(0, 0, 0),
        read(1, 900, 500),
        read(3, 1_500, 520),
        read(4, 2_400, 1_020),
        read(5, 2_700, 1_030),
        AgentRecord::Final {
            checksum: String::new(),
            own_cpu_ns: 50_000_000,
            elapsed_ns: 5 * S as u64,
        },
    ];
    let r = summarise(&spec, &records, 2, &[]).unwrap();
    assert_eq!(r.window_ns, 1_600_000_000);
    // Within a thousandth: the readings are a millisecond late.
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.002;
    assert!(near(r.processes[0].cpu_cores, 1.0 / 1.6), "{r:?}");
    assert!(near(r.planes[&Plane::DataPlane].cpu_cores, 1.0 / 1.6));
    // 1.8 s busy in 2 s, of which 1 s is the process and 0.04 s tare: these two for each second of load.
    let busy_cores = 1.04 / 1.6 + (1.8 - 1.04) / 2.0;
    assert!(near(r.machine.busy_cores, busy_cores), "{:?}", r.machine);
    // Over the whole window: 2.7 s busy, of which the process used 1.03 s, tare 0.1 s and the sampling 0.05 s.
    assert!(near(r.machine.other_cores, (2.7 - 1.03 - 0.1 - 0.05) / 5.0));
    assert!(near(r.whole_window_cores.unwrap(), 1.08 / 5.0));
    // A slice counts only if both its edges were read in time: here the first is, and the second begins 6 ms late.
    let late = [
        read(0, 0, 0),
        read(1, 900, 500),
        sample(
            3 * S + 6_000_000,
            1_510,
            vec![process(3 * S + 6_000_000, 530, 10, None), None],
        ),
        read(4, 2_400, 1_020),
        read(5, 2_700, 1_030),
    ];
    let r = summarise(&spec, &late, 2, &[]).unwrap();
    assert_eq!(r.window_ns, 800_000_000);
    assert!(near(r.processes[0].cpu_cores, 0.5 / 0.8), "{r:?}");
    // A process that ends in its first slice counts until its last reading.
    let gone = [
        read(0, 0, 0),
        sample(
            S + 100_000,
            900,
            vec![process(S + 1_000_000, 500, 10, None), None],
        ),
        sample(3 * S, 1_500, vec![None, None]),
        sample(4 * S, 2_400, vec![None, None]),
        sample(5 * S, 2_700, vec![None, None]),
    ];
    let r = summarise(&spec, &gone, 2, &[]).unwrap();
    assert!(
        near(r.processes[0].cpu_cores, 0.5 / 1.6),
        "{:?}",
        r.processes[0]
    );
}
