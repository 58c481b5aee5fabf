//! An hour in virtual time: memory does not grow with the requests.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use tare_model::load::{ErrorClass, LoadResult, LoadSpec, Mode, Protocol, Streaming};
use tare_model::rng::Rng;

use crate::collect::{About, Collector};
use crate::conformance::Streams;
use crate::driver::{Driver, Fault, SimDriver, SimServer, Step};
use crate::engine::Engine;
use crate::http2::steps::{Asked, Script};
use crate::http2::testing as h2;
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

/// What every request leaves behind.
struct Leak {
    on: bool,
    leaked: Vec<Vec<u8>>,
}

impl Leak {
    fn request(&mut self) {
        if self.on {
            self.leaked.push(vec![1; 16]);
        }
    }
}

/// Answers most requests.
struct Mostly {
    rng: Rng,
    leak: Leak,
}

impl SimServer for Mostly {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((10_000, Ok(Vec::new())))
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        self.leak.request();
        match self.rng.below(1_000) {
            0 => Vec::new(),
            1 => vec![Step::Reset(MS)],
            _ => vec![Step::Bytes(MS + self.rng.below(MS), ok_response("x"))],
        }
    }
}

/// The same on streams: answers at once, three messages in a row, or by turns.
fn on_streams(mut rng: Rng, mut leak: Leak) -> impl FnMut(Asked<'_>) -> Vec<Step> {
    move |asked| {
        let (s, turn) = (asked.stream, asked.body.len() / FRAMED_BYTES);
        if turn <= 1 {
            leak.request();
            match rng.below(2_000) {
                0 => return Vec::new(),
                1 => return vec![Step::Bytes(MS, h2::reset(s, 2))],
                2 => return vec![Step::Reset(MS)],
                _ => {}
            }
        }
        let at = MS + rng.below(MS);
        let message = |n: u64| Step::Bytes(at + n * MS, h2::grpc_message(s, b"m"));
        let head = Step::Bytes(at, h2::grpc_head(s));
        let status = |n: u64| Step::Bytes(at + n * MS, h2::grpc_status(s, "0"));
        // What was taken is given back, or the connection would stand still.
        let window = Step::Bytes(at, h2::window_update(0, FRAMED_BYTES as u32));
        match (asked.path, asked.over, turn) {
            ("/plain", ..) => vec![Step::Bytes(at, h2::ok(s, b"x"))],
            ("/server", ..) => vec![window, head, message(1), message(2), message(3), status(4)],
            (_, false, 1) => vec![window, head, message(0)],
            (_, false, _) => vec![window, message(0)],
            (_, true, _) => vec![window, message(0), status(0)],
        }
    }
}

/// A message of one byte with its length prefix.
const FRAMED_BYTES: usize = 6;

/// What [`crate::testing::drive`] does, without keeping the records.
fn run(server: impl SimServer, spec: &LoadSpec) -> LoadResult {
    let plan = plan(spec, vec![vec!["10.0.0.1:80".parse().unwrap()]]);
    let names = plan.targets.names.clone();
    let mut driver = SimDriver::new(server);
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

/// Ten endpoints of one protocol; of gRPC, half are streamed to and half go by turns.
fn of(protocol: Protocol) -> LoadSpec {
    let paths = match protocol {
        Protocol::Grpc => ["server", "bidi"],
        _ => ["plain", "plain"],
    };
    let urls = paths.map(|path| format!("http://h/{path}"));
    let urls: Vec<&str> = urls.iter().map(String::as_str).cycle().take(10).collect();
    let mut s = spec(&urls);
    for (i, endpoint) in s.endpoints.iter_mut().enumerate() {
        endpoint.name = i.to_string();
        endpoint.protocol = protocol;
        if protocol == Protocol::Grpc {
            let (streaming, messages) = [(Streaming::Server, 1), (Streaming::Bidi, 3)][i % 2];
            endpoint.grpc.streaming = streaming;
            endpoint.messages_base64 = vec!["QQ==".to_owned(); messages];
        }
    }
    if !protocol.is_http1() {
        (s.connections, s.streams) = (2, 100);
    }
    s
}

fn run_minutes(protocol: Protocol, minutes: u64, leaks: bool) -> LoadResult {
    let mut s = of(protocol);
    s.mode = Mode::Open {
        rate_rps: RATE_RPS as f64,
        arrivals: Default::default(),
    };
    s.duration_ns = minutes * MINUTE;
    let rng = Rng::new(1);
    let leak = Leak {
        on: leaks,
        leaked: Vec::new(),
    };
    let r = match protocol {
        Protocol::Http1 => run(Mostly { rng, leak }, &s),
        _ => run(Streams(Script::new(&[], on_streams(rng, leak))), &s),
    };
    assert_eq!(r.counts.planned, minutes * 60 * RATE_RPS);
    r
}

fn measure_self(protocol: Protocol, leaks: bool) {
    run_minutes(protocol, 5, false);
    let before = resident_bytes_max();
    let r = run_minutes(protocol, 60, leaks);
    let growth = resident_bytes_max() - before;
    let of_streams = (!protocol.is_http1()).then_some(ErrorClass::StreamReset);
    let usual = [ErrorClass::Timeout, ErrorClass::Reset];
    for class in usual.into_iter().chain(of_streams) {
        assert!(errors_of(&r, class) > 50, "{:?}", r.errors);
    }
    assert!(r.counts.ok > r.counts.planned / 100 * 99, "{:?}", r.errors);
    let messages = r.message_latency_ns.map_or(0, |m| m.count);
    let least = if protocol == Protocol::Grpc {
        3 * r.counts.ok
    } else {
        0
    };
    assert!(messages >= least, "{messages} messages");
    assert!(
        growth <= GROWTH_BYTES_MAX,
        "an hour took {growth} bytes more than five minutes"
    );
}

/// Each in a process of its own: the other tests here take memory, too.
fn keeps_and_does_not_leak(test: &str, protocol: Protocol) {
    if let Some(part) = std::env::var_os(PART) {
        return measure_self(protocol, part == "leak");
    }
    let program = std::env::current_exe().unwrap();
    let start = |part: &str| {
        let name = format!("simulated_hour::{test}");
        let mut command = Command::new(&program);
        command.args(["--exact", &name, "--nocapture"]);
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

#[test]
fn an_hour_takes_no_more_memory_than_minutes() {
    keeps_and_does_not_leak("an_hour_takes_no_more_memory_than_minutes", Protocol::Http1);
}

#[test]
fn an_hour_of_http2_takes_no_more_memory_than_minutes() {
    let name = "an_hour_of_http2_takes_no_more_memory_than_minutes";
    keeps_and_does_not_leak(name, Protocol::Http2);
}

#[test]
fn an_hour_of_streamed_messages_takes_no_more_memory_than_minutes() {
    let name = "an_hour_of_streamed_messages_takes_no_more_memory_than_minutes";
    keeps_and_does_not_leak(name, Protocol::Grpc);
}
