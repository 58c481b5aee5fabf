//! An hour in virtual time: memory does not grow with the requests.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use tare_model::load::{ErrorClass, LoadResult, LoadSpec, Mode};
use tare_model::rng::Rng;

use crate::collect::{About, Collector};
use crate::driver::{Driver, Fault, SimDriver, SimServer, Step};
use crate::engine::Engine;
use crate::stream::RecordWriter;
use crate::testing::{check, errors_of, ok_response, plan, spec};

const MS: u64 = 1_000_000;
const MINUTE: u64 = 60_000 * MS;
const RATE_RPS: u64 = 50;
/// Six bytes a request, or 300 a second, would be more.
const GROWTH_BYTES_MAX: u64 = 1 << 20;
/// In the process that measures itself: `keep` for an engine that keeps what it should,
/// `leak` for one beside which every request leaves something.
const PART: &str = "TARE_TEST_HOUR";

/// Answers most requests.
struct Mostly {
    rng: Rng,
    leaks: bool,
    leaked: Vec<Vec<u8>>,
}

impl SimServer for Mostly {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((10_000, Ok(Vec::new())))
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        if self.leaks {
            self.leaked.push(vec![1; 16]);
        }
        match self.rng.below(1_000) {
            0 => Vec::new(),
            1 => vec![Step::Reset(MS)],
            _ => vec![Step::Bytes(MS + self.rng.below(MS), ok_response("x"))],
        }
    }
}

/// What [`crate::testing::drive`] does, without keeping the records.
fn run(leaks: bool, spec: &LoadSpec) -> LoadResult {
    let plan = plan(spec, vec![vec!["10.0.0.1:80".parse().unwrap()]]);
    let names = plan.targets.names.clone();
    let mut driver = SimDriver::new(Mostly {
        rng: Rng::new(1),
        leaks,
        leaked: Vec::new(),
    });
    let mut writer = RecordWriter::begin(std::io::sink()).unwrap();
    let mut collector = Collector::new(&names, 1, spec, true);
    let mut sink = |flush| collector.take(0, flush, &mut |record| writer.write(&record).unwrap());
    let stop = AtomicBool::new(false);
    let mut engine = Engine::new(&mut driver, &plan, &mut sink);
    engine.open_all(2_000 * MS, &stop);
    let start = engine.now() + MS;
    engine.run(start, &stop);
    assert!(collector.is_complete());
    let about = About {
        window_start_unix_ns: 0,
        throttled_ns: None,
        driver: driver.driver_report(),
    };
    let result = collector.result(spec, &about);
    check(&result);
    result
}

/// The most memory that this process has had resident so far.
fn resident_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

fn measure_self(leaks: bool) {
    let urls: Vec<String> = (0..10).map(|i| format!("http://h/{i}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let mut s = spec(&urls);
    s.mode = Mode::Open {
        rate_rps: RATE_RPS as f64,
        arrivals: Default::default(),
    };
    let planned = |minutes: u64| minutes * 60 * RATE_RPS;
    s.duration_ns = 5 * MINUTE;
    assert_eq!(run(false, &s).counts.planned, planned(5));
    let before = resident_bytes_max();
    s.duration_ns = 60 * MINUTE;
    let r = run(leaks, &s);
    let growth = resident_bytes_max() - before;
    assert_eq!(r.counts.planned, planned(60));
    for class in [ErrorClass::Timeout, ErrorClass::Reset] {
        assert!(errors_of(&r, class) > 50, "{:?}", r.errors);
    }
    assert!(
        growth <= GROWTH_BYTES_MAX,
        "an hour took {growth} bytes more than five minutes"
    );
}

#[test]
fn an_hour_takes_no_more_memory_than_minutes() {
    if let Some(part) = std::env::var_os(PART) {
        return measure_self(part == "leak");
    }
    // In a process of its own: the other tests here take memory, too.
    let program = std::env::current_exe().unwrap();
    let start = |part: &str| {
        let name = "simulated_hour::an_hour_takes_no_more_memory_than_minutes";
        let mut command = Command::new(&program);
        command.args(["--exact", name, "--nocapture"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(PART, part).spawn().unwrap()
    };
    let end = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    };
    let (good, leaking) = (start("keep"), start("leak"));
    let (good, leaking) = (end(good), end(leaking));
    assert!(good.contains("1 passed"), "{good}");
    // The test would see a leak.
    assert!(
        leaking.contains("bytes more than five minutes"),
        "{leaking}"
    );
}
