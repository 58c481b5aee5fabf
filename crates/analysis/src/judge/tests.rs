use std::collections::BTreeMap;

use tare_records::trial::{MachineUse, MemoryKind};
use tare_records::verdict::START_THE_SERVER;

use super::*;
use crate::streams::merge::tests::nothing_sent;

const NOTHING: Evidence<'_> = Evidence {
    load: None,
    resources: None,
    proofs: &[],
    events: &[],
    incomplete: &[],
    debug_build: false,
};

fn exit_of(name: &str) -> Event {
    Event {
        at_unix_ns: 1,
        kind: EventKind::Exited,
        subject: name.into(),
        found: "ended with signal 9".into(),
    }
}

fn process(name: &str, cpu_cores: f64) -> ProcessUse {
    ProcessUse {
        name: name.into(),
        plane: Plane::Application,
        cpu_cores,
        cpu_cores_max: cpu_cores,
        run_queue_delay_ns: None,
        counters: None,
        memory_mean_bytes: 0.0,
        memory_max_bytes: 0,
        memory_kind: MemoryKind::Rss,
        rss_mean_bytes: None,
        throttled_ns: None,
        gone_at_ns: None,
    }
}

fn of_machine(machine: MachineUse, own_cores: f64) -> Verdict {
    let resources = Resources {
        window_ns: 1,
        processes: vec![process("web", own_cores)],
        planes: BTreeMap::new(),
        machine,
        sampling_cores: 0.01,
        kubelet_age_ns_max: None,
        whole_window_cores: None,
    };
    judge(&Evidence {
        resources: Some(&resources),
        ..NOTHING
    })
}

fn with_machine(busy: f64, other: f64, stolen: f64) -> Verdict {
    let machine = MachineUse {
        cores: 2,
        cores_allowed: 2,
        busy_cores: busy,
        busy_cores_max: busy,
        other_cores: other,
        stolen_cores: stolen,
        ..MachineUse::default()
    };
    of_machine(machine, busy - other)
}

/// A trial that may run on one of four cores and uses `own` of it. Others use 0.04 cores.
fn on_one_core(own: f64) -> Verdict {
    let machine = MachineUse {
        cores: 4,
        cores_allowed: 1,
        busy_cores: own + 0.04,
        other_cores: 0.04,
        ..MachineUse::default()
    };
    of_machine(machine, own)
}

#[test]
fn allowed_cores_are_judged_by_the_trials_own_use() {
    assert_eq!(on_one_core(0.85), Verdict::default());
    let v = on_one_core(0.90);
    assert_eq!(
        (v.grade, v.reasons[0].reason, v.reasons[0].found.as_str()),
        (
            Grade::Suspect,
            Reason::MachineSaturated,
            "the trial used 0.91 of 1 allowed cores"
        )
    );
    assert_eq!(on_one_core(0.985).grade, Grade::Invalid);
}

#[test]
fn a_neighbour_on_another_core_is_judged_by_all_cores() {
    let machine = MachineUse {
        cores: 2,
        cores_allowed: 1,
        busy_cores: 1.3,
        other_cores: 1.0,
        ..MachineUse::default()
    };
    let v = of_machine(machine, 0.29);
    assert_eq!(v.reasons.len(), 1, "{:?}", v.reasons);
    assert_eq!(
        v.reasons[0].found,
        "processes outside the trial used 1.00 of 2 cores, the trial itself 0.30"
    );
}

#[test]
fn old_values_of_kubelets_are_suspect_in_a_short_window() {
    let graded = |age_ns, window_ns| {
        let resources = Resources {
            window_ns,
            processes: Vec::new(),
            planes: BTreeMap::new(),
            machine: MachineUse::default(),
            sampling_cores: 0.0,
            kubelet_age_ns_max: age_ns,
            whole_window_cores: None,
        };
        judge(&Evidence {
            resources: Some(&resources),
            ..NOTHING
        })
        .grade
    };
    assert_eq!(graded(Some(900_000_000), 10_000_000_000), Grade::Valid);
    assert_eq!(graded(Some(1_100_000_000), 10_000_000_000), Grade::Suspect);
    assert_eq!(graded(Some(10_000_000_000), 10_000_000_000), Grade::Invalid);
    assert_eq!(graded(None, 1), Grade::Valid);
}

/// A window of 10 s; each process with the instant at which it vanished, in seconds.
fn with_vanished(all: &[(&str, Plane, Option<f64>)], exited: &[&str]) -> Verdict {
    sampled_for(10.0, all, exited)
}

/// Like [`with_vanished`], with `sampled_s` seconds between the first and the last sample.
fn sampled_for(sampled_s: f64, all: &[(&str, Plane, Option<f64>)], exited: &[&str]) -> Verdict {
    let process = |(name, plane, vanished_s): &(&str, Plane, Option<f64>)| ProcessUse {
        plane: *plane,
        gone_at_ns: vanished_s.map(|s| (s * 1e9) as i64),
        ..process(name, 0.1)
    };
    let resources = Resources {
        window_ns: (sampled_s * 1e9) as u64,
        processes: all.iter().map(process).collect(),
        planes: BTreeMap::new(),
        machine: MachineUse::default(),
        sampling_cores: 0.0,
        kubelet_age_ns_max: None,
        whole_window_cores: None,
    };
    let events: Vec<Event> = exited.iter().copied().map(exit_of).collect();
    let load = LoadResult {
        window_ns: 10_000_000_000,
        ..nothing_sent()
    };
    judge(&Evidence {
        load: Some(&load),
        resources: Some(&resources),
        events: &events,
        ..NOTHING
    })
}

#[test]
fn a_vanished_process_makes_the_trial_invalid_even_without_an_event() {
    let all = [
        ("web", Plane::Application, None),
        ("web/sidecar", Plane::DataPlane, Some(9.25)),
        ("api", Plane::Application, Some(10.0)),
    ];
    let v = with_vanished(&all, &[]);
    let found: Vec<&str> = v.reasons.iter().map(|r| r.found.as_str()).collect();
    assert_eq!(
        found,
        [
            "web/sidecar vanished 9.2 s into the window (and 1 more); the figures include its use until then"
        ]
    );
    assert_eq!(
        (v.grade, v.reasons[0].reason),
        (Grade::Invalid, Reason::Restart)
    );
    let v = with_vanished(&all, &["web/sidecar", "api"]);
    assert_eq!(v.reasons.len(), 2, "one reason each: {:?}", v.reasons);
}

#[test]
fn a_generator_that_ends_with_the_window_has_not_vanished() {
    let generator = |s| with_vanished(&[("generator-0", Plane::Generator, Some(s))], &[]).grade;
    assert_eq!(generator(10.0), Grade::Valid);
    assert_eq!(generator(9.0), Grade::Invalid);
}

/// Agents that start late sample only a part of the window; their times count from its start.
#[test]
fn the_end_of_the_window_is_that_of_the_load_and_not_of_the_sampling() {
    let generator = |sampled_s, vanished_s| {
        let all = [("generator-0", Plane::Generator, Some(vanished_s))];
        sampled_for(sampled_s, &all, &[]).grade
    };
    assert_eq!(generator(7.0, 8.0), Grade::Invalid);
    assert_eq!(generator(7.0, 10.001), Grade::Valid);
    assert_eq!(generator(10.002, 10.001), Grade::Valid);
}

#[test]
fn a_process_that_was_never_sampled_is_incomplete() {
    let all = [
        ("web/sidecar", Plane::DataPlane, Some(0.0)),
        ("web", Plane::Application, Some(3.0)),
        ("generator-0", Plane::Generator, Some(0.0)),
    ];
    let v = with_vanished(&all, &[]);
    let found: Vec<_> = v.reasons.iter().map(|r| (r.reason, &*r.found)).collect();
    let never = "web/sidecar (and 1 more) could never be sampled: the figures do not include its CPU and memory";
    let vanished = "web vanished 3.0 s into the window; the figures include its use until then";
    assert_eq!(v.grade, Grade::Invalid);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&(Reason::Incomplete, never)), "{found:?}");
    assert!(found.contains(&(Reason::Restart, vanished)), "{found:?}");
}

#[test]
fn a_generator_with_an_exit_event_is_reported_once() {
    let all = [("generator-0", Plane::Generator, Some(4.0))];
    let v = with_vanished(&all, &["generator-0"]);
    assert_eq!(v.reasons.len(), 1, "{:?}", v.reasons);
    let v = with_vanished(&all, &["generator-01"]);
    assert_eq!(v.reasons.len(), 2, "no event explains it: {:?}", v.reasons);
}

#[test]
fn a_quiet_machine_adds_no_finding() {
    assert_eq!(with_machine(1.5, 0.05, 0.0), Verdict::default());
}

#[test]
fn machine_thresholds() {
    assert_eq!(with_machine(1.85, 0.0, 0.0).grade, Grade::Suspect);
    assert_eq!(with_machine(1.99, 0.0, 0.0).grade, Grade::Invalid);
    assert_eq!(
        with_machine(1.99, 0.1, 0.0).reasons[0].reason,
        Reason::MachineSaturated
    );
    // Others kept the machine busy.
    let reasons = with_machine(2.0, 1.0, 0.0).reasons;
    assert!(reasons.iter().all(|f| f.reason != Reason::MachineSaturated));
    assert_eq!(
        with_machine(1.0, 0.2, 0.0).reasons[0].reason,
        Reason::NoisyNeighbour
    );
    assert_eq!(with_machine(1.0, 0.6, 0.0).grade, Grade::Invalid);
    assert_eq!(with_machine(1.0, 0.0, 0.11).grade, Grade::Suspect);
    assert_eq!(with_machine(1.0, 0.0, 0.31).grade, Grade::Invalid);
}

#[test]
fn a_neighbour_is_judged_by_the_cores_that_the_trial_needed() {
    let of = |own: f64, other: f64| {
        let machine = MachineUse {
            cores: 16,
            cores_allowed: 16,
            busy_cores: own + other,
            other_cores: other,
            ..MachineUse::default()
        };
        of_machine(machine, own).grade
    };
    // 3 of 16 cores are much beside a trial that needed 2, and little beside one that needed 13.
    assert_eq!(of(2.0, 3.0), Grade::Invalid);
    assert_eq!(of(12.0, 2.0), Grade::Suspect);
    // A trial that hardly needed anything is judged by one core.
    assert_eq!(of(0.01, 0.04), Grade::Valid);
}

#[test]
fn the_end_of_a_process_has_its_time_and_failed_requests_a_remedy_for_runs() {
    let mut load = LoadResult {
        window_start_unix_ns: 1_000_000_000,
        window_ns: 10_000_000_000,
        ..nothing_sent()
    };
    let unreachable = Finding {
        remedy: START_THE_SERVER.to_owned(),
        ..Finding::new(Grade::Invalid, Reason::Errors, "all requests failed")
    };
    load.verdict = Verdict::from_findings(vec![unreachable]);
    let event = Event {
        at_unix_ns: 5_200_000_000,
        ..exit_of("web")
    };
    let v = judge(&Evidence {
        load: Some(&load),
        events: &[event],
        ..NOTHING
    });
    assert_eq!(
        v.reasons[0].found,
        "web: ended with signal 9, 4.2 s into the window"
    );
    assert_eq!(v.reasons[1].remedy, Reason::Errors.remedy());
}

#[test]
fn lost_samples_leave_the_latency_valid() {
    let events = [Event {
        kind: EventKind::NotSampled,
        found: "CPU and memory were not sampled".into(),
        ..exit_of("")
    }];
    let v = judge(&Evidence {
        events: &events,
        ..NOTHING
    });
    assert_eq!(
        (v.grade, v.reasons[0].reason),
        (Grade::Suspect, Reason::NotSampled)
    );
}

#[test]
fn each_kind_of_evidence_counts() {
    let proofs = [Proof {
        claim: "meshed".into(),
        holds: false,
        seen: "no proxy".into(),
    }];
    let v = judge(&Evidence {
        proofs: &proofs,
        ..NOTHING
    });
    assert_eq!(
        (v.grade, v.reasons[0].reason),
        (Grade::Invalid, Reason::NotMeshed)
    );
    let events = [exit_of("web")];
    let v = judge(&Evidence {
        events: &events,
        ..NOTHING
    });
    assert_eq!(
        (v.grade, v.reasons[0].reason, v.reasons[0].found.as_str()),
        (Grade::Invalid, Reason::Restart, "web: ended with signal 9")
    );
    let v = judge(&Evidence {
        incomplete: &["cut".into()],
        ..NOTHING
    });
    assert_eq!(
        (v.grade, v.reasons[0].reason),
        (Grade::Invalid, Reason::Incomplete)
    );
    let v = judge(&Evidence {
        debug_build: true,
        ..NOTHING
    });
    assert_eq!(
        (v.grade, v.reasons[0].reason),
        (Grade::Suspect, Reason::DebugBuild)
    );
}
