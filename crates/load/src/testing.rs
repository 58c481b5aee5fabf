//! Specifications for this crate's own tests, and a way to run them on any driver.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_analysis::LoadStream;
use tare_model::load::schedule::SchedulePlan;
use tare_model::load::{Arrivals, RateStep, Trace};
use tare_model::load::{Counts, Endpoint, ErrorClass, LoadResult, LoadSpec, Mode};
use tare_model::rng::Rng;

use crate::collect::{About, Collector};
use crate::driver::{ConnId, Driver, Fault, SimServer, Step};
use crate::engine::{Engine, LoopPlan, OpenLoop};
use crate::stream::RecordWriter;
use crate::targets::{Targets, connections_of};

/// An open-loop specification of 1,000 rps for one second.
pub(crate) fn spec(urls: &[&str]) -> LoadSpec {
    let mode = Mode::Open {
        rate_rps: 1000.0,
        arrivals: Default::default(),
    };
    let endpoints = urls.iter().map(|url| Endpoint::get(*url)).collect();
    LoadSpec {
        timeout_ns: 1_000_000_000,
        ..LoadSpec::new(endpoints, mode, 1_000_000_000)
    }
}

/// Runs one engine on `driver` and checks what must hold for any run: every slot is
/// accounted for, and the intervals add up to the result.
pub(crate) fn drive<D: Driver>(
    driver: &mut D,
    spec: &LoadSpec,
    addrs: Vec<Vec<SocketAddr>>,
    stop: &AtomicBool,
) -> LoadResult {
    let plan = plan(spec, addrs);
    let names = plan.targets.names.clone();
    let mut flushes = Vec::new();
    let mut sink = |flush| flushes.push(flush);
    let mut engine = Engine::new(driver, &plan, &mut sink);
    engine.open_all(2_000_000_000, stop);
    let start = engine.now() + 1_000_000;
    engine.run(start, stop);
    let mut lines = Vec::new();
    let mut writer = RecordWriter::begin(&mut lines).unwrap();
    let mut collector = Collector::new(&names, 1, spec, true);
    for flush in flushes {
        collector.take(0, flush, &mut |record| writer.write(&record).unwrap());
    }
    assert!(collector.is_complete());
    let about = About {
        window_start_unix_ns: 0,
        throttled_ns: None,
        driver: driver.driver_report(),
    };
    writer.finish(collector.result(spec, &about)).unwrap();
    let mut stream = LoadStream::new();
    for line in String::from_utf8(lines).unwrap().lines() {
        stream.line(line).unwrap();
    }
    let result = stream.finish().unwrap();
    check(&result);
    result
}

/// The plan of the only loop.
pub(crate) fn plan(spec: &LoadSpec, addrs: Vec<Vec<SocketAddr>>) -> LoopPlan {
    let targets = Arc::new(Targets::new(spec).unwrap());
    let origins = targets.origins.len() as u32;
    LoopPlan {
        targets: Arc::clone(&targets),
        addrs: Arc::new(addrs),
        connections: (0..origins)
            .map(|o| connections_of(spec.connections, o, origins, 0, 1))
            .collect(),
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
    }
}

/// What must hold for any result.
pub(crate) fn check(r: &LoadResult) {
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

/// How many slots ended in `class`.
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

/// Seeds of the random worlds to try. For a long run, TARE_WORLDS asks for others:
/// `100000` for the first so many, `20000..40000` for a slice of them.
pub(crate) fn worlds(usual: u64) -> Range<u64> {
    let number = |text: &str| text.parse().expect("TARE_WORLDS is N or FROM..TO");
    match std::env::var("TARE_WORLDS") {
        Err(_) => 0..usual,
        Ok(text) => match text.split_once("..") {
            None => 0..number(&text),
            Some((from, to)) => number(from)..number(to),
        },
    }
}

/// Closed loop, or any arrivals at all at 100 to 1,000 rps over the window.
pub(crate) fn any_mode(rng: &mut Rng, window_ns: u64) -> Mode {
    let rate_rps = 100.0 + rng.below(900) as f64;
    let arrivals = match rng.below(12) {
        0 | 1 => return Mode::Saturate,
        2 | 3 => Arrivals::Poisson,
        4 => Arrivals::Wrk2,
        5 => Arrivals::Bursts {
            slots: 1 + rng.below(30) as u32,
        },
        6 => Arrivals::Ramp {
            from_rps: rng.below(900) as f64,
            to_rps: rate_rps,
        },
        7 => {
            let of = |rate_rps| RateStep {
                rate_rps,
                duration_ns: 1 + window_ns / 3,
            };
            Arrivals::Steps([rate_rps, 0.0, 900.0].map(of).to_vec())
        }
        8 => {
            let instants = (0..1 + rng.below(200)).map(|_| rng.below(window_ns));
            Arrivals::Trace(Trace::new(instants.collect()).unwrap())
        }
        _ => Arrivals::Constant,
    };
    Mode::Open {
        rate_rps: arrivals.own_rate_rps(window_ns).unwrap_or(rate_rps),
        arrivals,
    }
}

/// A server that interrupts the generator from an instant on.
pub(crate) struct Interrupting<S> {
    pub(crate) server: S,
    /// `u64::MAX` for never.
    pub(crate) at: u64,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<S> Interrupting<S> {
    fn look(&self, now: u64) {
        if now >= self.at {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl<S: SimServer> SimServer for Interrupting<S> {
    fn connect(&mut self, now: u64, to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        self.look(now);
        self.server.connect(now, to)
    }

    fn request(&mut self, now: u64, to: SocketAddr, request: &[u8]) -> Vec<Step> {
        self.look(now);
        self.server.request(now, to, request)
    }

    fn bytes(&mut self, now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        self.look(now);
        self.server.bytes(now, on, bytes)
    }
}
