//! Specifications for this crate's tests, and a way to run them on any driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tare_analysis::LoadStream;
use tare_plan::load::schedule::SchedulePlan;
use tare_plan::load::{Endpoint, LoadSpec, Mode};
use tare_records::load::{Counts, ErrorClass, LoadResult};
use tare_records::record::{Hello, LoadRecord};
use tare_records::writer::RecordWriter;

use crate::driver::Driver;
use crate::engine::{Engine, Flush, LoopPlan, OpenLoop};
use crate::record::{Collector, RunInfo};
use crate::target::{Targets, connections_of};

/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// Nanoseconds of a second.
pub(crate) const S: u64 = 1_000 * MS;

/// The address of the simulated server.
pub(crate) fn addr() -> SocketAddr {
    "10.0.0.1:80".parse().unwrap()
}

/// An open-loop specification of 1,000 rps for one second.
pub(crate) fn spec(urls: &[&str]) -> LoadSpec {
    let mode = Mode::Open {
        rate_rps: 1000.0,
        arrivals: Default::default(),
    };
    let endpoints = urls.iter().map(|url| Endpoint::get(*url)).collect();
    LoadSpec {
        timeout_ns: S,
        ..LoadSpec::new(endpoints, mode, S)
    }
}

/// Runs one engine on `driver` and checks what must hold for any run: every slot is
/// accounted for, and the intervals add up to the result. Flushes are read only at the
/// end, so that the engine also runs with a reader that is behind.
pub(crate) fn drive<D: Driver>(
    driver: &mut D,
    spec: &LoadSpec,
    addrs: Vec<Vec<SocketAddr>>,
    stop: &AtomicBool,
) -> LoadResult {
    let plan = plan(spec, addrs);
    let mut flushes = Vec::new();
    run_engine(driver, &plan, stop, &mut |flush| flushes.push(flush));
    let mut writer = RecordWriter::default();
    let hello = Hello::new("load", 0);
    writer.write(&LoadRecord::Hello(hello)).unwrap();
    let mut collector = Collector::new(&plan.targets.names, 1, spec, true);
    for flush in flushes {
        collector.take(0, flush, &mut |record| writer.write(&record).unwrap());
    }
    let result = result_of(collector, spec, driver);
    let mut stream = LoadStream::new();
    for line in writer.finish_lines(|checksum| LoadRecord::Final {
        checksum,
        result: Box::new(result),
    }) {
        stream.line(&line).unwrap();
    }
    let result = stream.finish().unwrap();
    check(&result);
    result
}

/// Runs one engine from its first connection to its last flush.
pub(crate) fn run_engine<D: Driver>(
    driver: &mut D,
    plan: &LoopPlan,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(Flush),
) {
    let mut engine = Engine::new(driver, plan, sink);
    engine.open_all(2 * S, stop);
    let start = engine.now() + MS;
    engine.run(start, stop);
}

/// The checked result of a run whose flushes `collector` has taken.
pub(crate) fn result_of<D: Driver>(
    collector: Collector<'_>,
    spec: &LoadSpec,
    driver: &mut D,
) -> LoadResult {
    assert!(collector.is_complete());
    let info = RunInfo {
        window_start_unix_ns: 0,
        throttled_ns: None,
        driver: driver.driver_report(),
    };
    let result = collector.result(spec, &info);
    check(&result);
    result
}

/// The plan of a generator with one loop.
pub(crate) fn plan(spec: &LoadSpec, addrs: Vec<Vec<SocketAddr>>) -> LoopPlan {
    let targets = Arc::new(Targets::new(spec).unwrap());
    let origins = targets.origins.len() as u32;
    LoopPlan {
        targets: Arc::clone(&targets),
        addrs: Arc::new(addrs),
        connections: (0..origins)
            .map(|o| connections_of(spec.connections, o, origins, 0, 1))
            .collect(),
        before: vec![0; origins as usize],
        open_loop: SchedulePlan::of(spec).map(|schedule| OpenLoop {
            schedule,
            shard: u64::from(spec.shard.index),
            shards: u64::from(spec.shard.count),
        }),
        window_ns: spec.duration_ns,
        warmup_ns: spec.warmup_ns,
        timeout_ns: spec.timeout_ns,
        drain_ns: spec.drain_ns.unwrap_or(spec.timeout_ns),
        requests_per_connection: spec.requests_per_connection,
        streams: spec.streams,
        think_ns: spec.think_ns,
    }
}

/// Asserts what must hold for any result.
fn check(r: &LoadResult) {
    assert!(r.counts.identity_holds(), "{:?}", r.counts);
    let mut sum = Counts::default();
    r.endpoints.iter().for_each(|e| sum.add(&e.counts));
    assert_eq!(sum, r.counts, "the endpoints do not add up to the whole");
    let by_class = |timeouts: bool| -> u64 {
        ErrorClass::ALL
            .into_iter()
            .filter(|c| c.is_timeout() == timeouts)
            .filter_map(|c| r.errors.get(c.key()))
            .sum()
    };
    assert_eq!(
        (by_class(false), by_class(true)),
        (r.counts.error, r.counts.timeout)
    );
    assert_eq!(r.latency_ns.count, r.counts.ok);
    assert_eq!(r.service_time_ns.count, r.counts.ok);
    assert_eq!(r.lateness_ns.count, r.wait_ns.count);
}

/// Runs until `seen`, for up to a minute: where the machine stops during a short window, there is
/// nothing to see.
pub(crate) fn run_until(
    run: impl Fn() -> LoadResult,
    seen: impl Fn(&LoadResult) -> bool,
) -> LoadResult {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let r = run();
        if seen(&r) || Instant::now() > until {
            return r;
        }
    }
}

/// The number of slots that ended in `class`.
pub(crate) fn errors_of(r: &LoadResult, class: ErrorClass) -> u64 {
    r.errors.get(class.key()).copied().unwrap_or(0)
}

/// `200 OK` with `body`.
pub(crate) fn ok_response(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
