//! An hour in virtual time: memory does not grow with the number of requests.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use tare_plan::load::{LoadSpec, Mode, Protocol, Streaming};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::writer::RecordWriter;
use tare_stats::rng::Rng;

use crate::http2::testing as h2;
use crate::record::Collector;

use super::driver::{SimDriver, SimServer, Step};
use super::script::{Received, Script};
use super::support::{MS, S, addr, errors_of, ok_response, plan, result_of, run_engine, spec};

const MINUTE: u64 = 60 * S;
const RATE_RPS: u64 = 50;
/// A leak of six bytes per request, or of 300 per second, exceeds this.
const GROWTH_BYTES_MAX: u64 = 1 << 20;
/// Environment variable of the child process that measures itself: `plain`, or `leak`
/// for a server that keeps some memory for each request.
const PART: &str = "TARE_TEST_HOUR";

/// Memory that is kept for each request, if `on`.
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

/// Answers nearly all requests.
struct NearlyAll {
    rng: Rng,
    leak: Leak,
}

impl SimServer for NearlyAll {
    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        self.leak.request();
        match self.rng.below(1_000) {
            0 => Vec::new(),
            1 => vec![Step::Reset(MS)],
            _ => vec![Step::Bytes(MS + self.rng.below(MS), ok_response("x"))],
        }
    }
}

/// Answers nearly all requests on streams: with one response, three messages in a row, or one
/// message per turn.
fn on_streams(mut rng: Rng, mut leak: Leak) -> impl FnMut(Received<'_>) -> Vec<Step> {
    move |request| {
        let (s, turn) = (request.stream, request.body.len() / FRAMED_BYTES);
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
        // Without this update the connection's window would run out.
        let window = Step::Bytes(at, h2::window_update(0, FRAMED_BYTES as u32));
        match (request.path, request.ended, turn) {
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

/// Runs `spec` without keeping the records.
fn run(server: impl SimServer, spec: &LoadSpec) -> LoadResult {
    let plan = plan(spec, vec![vec![addr()]]);
    let mut driver = SimDriver::new(server);
    let mut writer = RecordWriter::new(std::io::sink());
    let mut collector = Collector::new(&plan.targets.names, 1, spec, true);
    run_engine(&mut driver, &plan, &AtomicBool::new(false), &mut |flush| {
        collector.take(0, flush, &mut |record| writer.write(&record).unwrap());
    });
    result_of(collector, spec, &mut driver)
}

/// Peak resident memory of this process.
fn resident_bytes_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Ten endpoints of one protocol. Of gRPC, half are server streams and half bidirectional.
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
        Protocol::Http1 => run(NearlyAll { rng, leak }, &s),
        _ => run(Script::new(&[], on_streams(rng, leak)), &s),
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

/// Measures in child processes, because other tests of this process also take memory.
fn check_memory(test: &str, protocol: Protocol) {
    if let Some(part) = std::env::var_os(PART) {
        return measure_self(protocol, part == "leak");
    }
    let program = std::env::current_exe().unwrap();
    let start = |part: &str| {
        let name = format!("simulated::memory::{test}");
        let mut command = Command::new(&program);
        command.args(["--exact", &name, "--nocapture"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env(PART, part).spawn().unwrap()
    };
    let end = |child: Child| {
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let (good, leaking) = (start("plain"), start("leak"));
    let (good, leaking) = (end(good), end(leaking));
    assert!(good.contains("1 passed"), "{good}");
    // The limit is low enough to detect a leak.
    assert!(
        leaking.contains("bytes more than five minutes"),
        "{leaking}"
    );
}

#[test]
fn an_hour_takes_no_more_memory_than_minutes() {
    check_memory("an_hour_takes_no_more_memory_than_minutes", Protocol::Http1);
}

#[test]
fn an_hour_of_http2_takes_no_more_memory_than_minutes() {
    let name = "an_hour_of_http2_takes_no_more_memory_than_minutes";
    check_memory(name, Protocol::Http2);
}

#[test]
fn an_hour_of_streamed_messages_takes_no_more_memory_than_minutes() {
    let name = "an_hour_of_streamed_messages_takes_no_more_memory_than_minutes";
    check_memory(name, Protocol::Grpc);
}
