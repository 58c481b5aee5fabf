//! One set of tests for both drivers: the same servers, described as steps, in virtual
//! time and on loopback sockets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use tare_plan::load::{LoadSpec, Mode, Pace, Protocol};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::{Finding, Grade, Reason};

use crate::driver::{ConnId, EpollDriver, Fault};
use crate::http2::testing as h2;
use crate::target::Targets;

use super::driver::{SimDriver, SimServer, Step};
use super::script::{Received, Script};
use super::support::{MS, addr, drive, errors_of, ok_response, run_until, spec};

const DELAY_NS: u64 = 2 * MS;

/// The server's reaction to an HTTP/1.1 request for `path`.
fn answer(path: &str) -> Vec<Step> {
    let now = |bytes: &[u8]| Step::Bytes(0, bytes.to_vec());
    match path {
        "/ok" => vec![now(&ok_response("hello"))],
        "/delay" => vec![Step::Bytes(DELAY_NS, ok_response("hello"))],
        "/pieces" => vec![
            now(b"HTTP/1.1 200 OK\r\nTransfer-Enc"),
            Step::Bytes(MS, b"oding: chunked\r\n\r\n5\r\nhel".to_vec()),
            Step::Bytes(2 * MS, b"lo\r\n0\r\n\r\n".to_vec()),
        ],
        "/404" => vec![now(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")],
        "/500" => vec![now(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno")],
        "/reset" => vec![Step::Reset(0)],
        "/half" => vec![
            now(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
            Step::Close(MS),
        ],
        "/garbage" => vec![now(b"SSH-2.0-OpenSSH\r\n")],
        "/late" => vec![Step::Bytes(250 * MS, ok_response("late"))],
        "/never" => Vec::new(),
        "/close" => vec![
            now(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"),
            Step::Close(0),
        ],
        "/until-close" => vec![now(b"HTTP/1.1 200 OK\r\n\r\nall of it"), Step::Close(MS)],
        other => panic!("no answer for {other:?}"),
    }
}

/// The server's reaction to an HTTP/2 request. A stream or the whole connection can fail.
fn answer_stream(request: Received<'_>) -> Vec<Step> {
    let s = request.stream;
    let now = |bytes: Vec<u8>| Step::Bytes(0, bytes);
    let status = |status| h2::headers(s, &[(":status", status)], true);
    match request.path {
        "/ok" => vec![now(h2::ok(s, b"hello"))],
        "/delay" => vec![Step::Bytes(DELAY_NS, h2::ok(s, b"hello"))],
        // Split only between frames: frames of other streams may come between them.
        "/pieces" => vec![
            now(h2::headers(s, &[(":status", "103")], false)),
            Step::Bytes(MS / 2, h2::headers(s, &[(":status", "200")], false)),
            Step::Bytes(MS, h2::data(s, b"hello", false)),
            Step::Bytes(2 * MS, h2::headers(s, &[("x", "y")], true)),
        ],
        "/404" => vec![now(status("404"))],
        "/500" => vec![now(status("500"))],
        "/reset" => vec![Step::Reset(0)],
        "/half" => vec![now(h2::ok(s, b"hello")[..9].to_vec()), Step::Close(MS)],
        "/garbage" => vec![now(h2::data(0, b"", false))],
        "/late" => vec![Step::Bytes(250 * MS, h2::ok(s, b"late"))],
        "/never" => Vec::new(),
        "/close" => vec![
            now([h2::ok(s, b"ok"), h2::goaway(s, 0)].concat()),
            Step::Close(0),
        ],
        "/stream-reset" => vec![now(h2::reset(s, 2))],
        "/go-away" => vec![now(h2::goaway(s.saturating_sub(2), 0))],
        other => panic!("no answer for {other:?}"),
    }
}

fn script() -> Script<fn(Received<'_>) -> Vec<Step>> {
    Script::new(&[(3, 100)], answer_stream)
}

fn path_of(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// An environment that runs a specification, whose URLs have the authority `server` or `refused`.
trait World {
    fn run(&self, spec: &LoadSpec) -> LoadResult;
}

struct Simulated;

/// Answers HTTP/1.1 requests with [`answer`].
struct Steps;

impl SimServer for Steps {
    fn request(&mut self, _now: u64, _to: SocketAddr, request: &[u8]) -> Vec<Step> {
        answer(&path_of(request))
    }
}

const REFUSED: &str = "10.0.0.2:80";

/// Refuses connections to [`REFUSED`].
struct RefusesOne<S>(S);

impl<S: SimServer> SimServer for RefusesOne<S> {
    fn connect(&mut self, now: u64, to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        match to.to_string() == REFUSED {
            true => Some((50_000, Err(Fault::Refused))),
            false => self.0.connect(now, to),
        }
    }

    fn request(&mut self, now: u64, to: SocketAddr, request: &[u8]) -> Vec<Step> {
        self.0.request(now, to, request)
    }

    fn bytes(&mut self, now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        self.0.bytes(now, on, bytes)
    }
}

fn addrs(spec: &LoadSpec, server: SocketAddr, refused: SocketAddr) -> Vec<Vec<SocketAddr>> {
    Targets::new(spec)
        .unwrap()
        .origins
        .iter()
        .map(|o| match o.server_name.as_str() {
            "server" => vec![server],
            "refused" => vec![refused],
            _ => Vec::new(),
        })
        .collect()
}

impl World for Simulated {
    fn run(&self, spec: &LoadSpec) -> LoadResult {
        let addrs = addrs(spec, addr(), REFUSED.parse().unwrap());
        let stop = AtomicBool::new(false);
        match spec.endpoints[0].protocol {
            Protocol::Http1 => {
                let mut driver = SimDriver::new(RefusesOne(Steps));
                drive(&mut driver, spec, addrs, &stop)
            }
            _ => {
                let mut driver = SimDriver::new(RefusesOne(script()));
                drive(&mut driver, spec, addrs, &stop)
            }
        }
    }
}

/// Runs on loopback sockets, with the driver that this function creates.
struct Loopback(fn(Pace) -> std::io::Result<EpollDriver>);

impl World for Loopback {
    fn run(&self, spec: &LoadSpec) -> LoadResult {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // A socket that does not listen refuses connections, and keeps others from its port.
        let (inet, stream) = (AddressFamily::INET, SocketType::STREAM);
        let closed = socket_with(inet, stream, SocketFlags::CLOEXEC, None).unwrap();
        bind(&closed, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let refused = SocketAddr::try_from(getsockname(&closed).unwrap()).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let http1 = spec.endpoints[0].protocol.is_http1();
        let accepting = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let stream = stream.unwrap();
                    std::thread::spawn(move || match http1 {
                        true => serve(stream),
                        false => serve_streams(stream),
                    });
                }
            })
        };
        let mut driver = self.0(spec.pace).unwrap();
        let result = drive(
            &mut driver,
            spec,
            addrs(spec, server, refused),
            &AtomicBool::new(false),
        );
        over.store(true, Ordering::Relaxed);
        TcpStream::connect(server).unwrap();
        accepting.join().unwrap();
        result
    }
}

/// Takes a step on a real socket, without its delay; false when it ends the connection.
pub(super) fn take(step: &Step, stream: &mut TcpStream) -> bool {
    match step {
        Step::Bytes(_, bytes) => stream.write_all(bytes).is_ok(),
        Step::Close(_) => false,
        Step::Reset(_) => {
            let zero = Some(Duration::ZERO);
            rustix::net::sockopt::set_socket_linger(stream, zero).unwrap();
            false
        }
    }
}

/// Answers HTTP/1.1 requests on a real socket until the connection ends.
fn serve(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            return;
        }
        received.extend_from_slice(&buffer[..n]);
        if !received.ends_with(b"\r\n\r\n") {
            continue;
        }
        let mut passed = 0;
        for step in answer(&path_of(&std::mem::take(&mut received))) {
            std::thread::sleep(Duration::from_nanos(step.delay() - passed));
            passed = step.delay();
            if !take(&step, &mut stream) {
                return;
            }
        }
    }
}

/// Answers HTTP/2 requests on a real socket; answers may overtake each other.
fn serve_streams(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let (mut script, start) = (script(), Instant::now());
    let mut due: BinaryHeap<Reverse<(Duration, u64, Step)>> = BinaryHeap::new();
    let (mut nth, mut buffer) = (0, [0; 4096]);
    loop {
        while let Some(Reverse((at, ..))) = due.peek()
            && *at <= start.elapsed()
            && let Some(Reverse((.., step))) = due.pop()
        {
            if !take(&step, &mut stream) {
                return;
            }
        }
        let wait = due.peek().map(|Reverse((at, ..))| {
            at.saturating_sub(start.elapsed())
                .max(Duration::from_micros(10))
        });
        stream.set_read_timeout(wait).unwrap();
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                for step in script.feed((0, 0), &buffer[..n]) {
                    nth += 1;
                    let at = start.elapsed() + Duration::from_nanos(step.delay());
                    due.push(Reverse((at, nth, step)));
                }
            }
            // A stop of the process interrupts reads.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

/// 400 rps for 250 ms with eight requests in flight: on eight connections of HTTP/1.1,
/// or on two of HTTP/2.
fn of(protocol: Protocol, url: &str) -> LoadSpec {
    let mut s = spec(&[url]);
    s.endpoints[0].protocol = protocol;
    s.mode = Mode::Open {
        rate_rps: 400.0,
        arrivals: Default::default(),
    };
    s.duration_ns = 250 * MS;
    // Long enough for a busy machine; requests that time out here are never answered.
    s.timeout_ns = 60_000 * MS;
    if protocol.is_http1() {
        s.connections = 8;
    } else {
        (s.connections, s.streams) = (2, 4);
    }
    s
}

fn good_servers(world: &impl World, protocol: Protocol) {
    let until_close = protocol.is_http1().then_some("until-close");
    for path in ["ok", "delay", "pieces", "close"]
        .into_iter()
        .chain(until_close)
    {
        let mut s = of(protocol, &format!("http://server/{path}"));
        if path == "close" {
            // Otherwise GOAWAY may refuse concurrent requests.
            s.streams = 1;
        }
        let closes = path.contains("close");
        let r = run_until(|| world.run(&s), |r| !closes || r.generator.reconnects > 10);
        assert_eq!(r.counts.planned, 100, "{path}");
        assert_eq!(r.counts.ok, 100, "{path}: {:?}", r.errors);
        assert_eq!(r.status["200"], 100, "{path}");
        assert_eq!(r.generator.reconnects > 10, closes, "{path}");
        if path == "delay" {
            assert!(r.service_time_ns.min >= DELAY_NS, "{:?}", r.service_time_ns);
            assert!(r.latency_ns.min >= r.service_time_ns.min);
        }
    }
}

fn bad_servers(world: &impl World, protocol: Protocol) {
    let streams = [
        ("stream-reset", ErrorClass::StreamReset),
        ("go-away", ErrorClass::GoAway),
    ];
    let streams = streams.into_iter().filter(|_| !protocol.is_http1());
    for (path, class) in [
        ("404", ErrorClass::Status4xx),
        ("500", ErrorClass::Status5xx),
        ("reset", ErrorClass::Reset),
        ("half", ErrorClass::Closed),
        ("garbage", ErrorClass::BadResponse),
    ]
    .into_iter()
    .chain(streams)
    {
        let mut s = of(protocol, &format!("http://server/{path}"));
        if path == "half" {
            // Otherwise a frame of another stream would count as the other half.
            s.streams = 1;
        }
        let r = world.run(&s);
        assert_eq!(
            errors_of(&r, class),
            100,
            "{path}: {:?} {:?}",
            r.errors,
            r.counts
        );
        assert_eq!(r.error_latency_ns.count, 100, "{path}");
    }
    let r = world.run(&of(protocol, "http://refused/ok"));
    assert_eq!(
        errors_of(&r, ErrorClass::ConnectRefused),
        100,
        "{:?}",
        r.errors
    );
    let r = world.run(&of(protocol, "http://unknown/ok"));
    assert_eq!(errors_of(&r, ErrorClass::Dns), 100, "{:?}", r.errors);
}

fn late_servers(world: &impl World, protocol: Protocol) {
    let mut s = of(protocol, "http://server/late");
    s.timeout_ns = 150 * MS;
    let r = run_until(
        || world.run(&s),
        |r| {
            let reconnects = !protocol.is_http1() || r.generator.reconnects > 0;
            reconnects && errors_of(r, ErrorClass::Timeout) >= 8
        },
    );
    assert_eq!(r.counts.timeout, 100, "{:?}", r.errors);
    assert!(errors_of(&r, ErrorClass::Timeout) >= 8, "{:?}", r.errors);
    assert_eq!(r.error_latency_ns.max, 150 * MS);
    // A stream that times out does not close its connection.
    assert_eq!(r.generator.reconnects > 0, protocol.is_http1(), "{r:?}");
    let mut long_timeout = of(protocol, "http://server/late");
    let connections = if protocol.is_http1() { 200 } else { 2 };
    (long_timeout.connections, long_timeout.streams) = (connections, 100);
    let r = world.run(&long_timeout);
    assert_eq!(r.counts.ok, 100, "{:?}", r.errors);
    let no_drain = LoadSpec {
        drain_ns: Some(0),
        ..long_timeout
    };
    let r = run_until(|| world.run(&no_drain), |r| r.counts.in_flight > 10);
    assert!(r.counts.in_flight > 10, "{:?}", r.counts);
    let cut = |f: &Finding| (f.reason, f.grade) == (Reason::DrainCut, Grade::Invalid);
    assert!(r.verdict.reasons.iter().any(cut), "{:?}", r.verdict);
}

fn mixed_servers(world: &impl World, protocol: Protocol) {
    let mut s = of(protocol, "http://server/ok");
    s.endpoints[0].weight = 2;
    s.endpoints
        .extend(of(protocol, "http://server/500").endpoints);
    s.endpoints
        .extend(of(protocol, "http://unknown/ok").endpoints);
    let r = world.run(&s);
    assert_eq!((r.counts.ok, r.counts.error), (50, 50), "{:?}", r.errors);
    assert_eq!(r.endpoints[1].errors["status5xx"], 25);
    assert_eq!(errors_of(&r, ErrorClass::Dns), 25);
}

fn closed_loop(world: &impl World, protocol: Protocol) {
    let mut s = of(protocol, "http://server/delay");
    s.mode = Mode::Saturate;
    let r = run_until(|| world.run(&s), |r| r.counts.ok >= 8);
    // 8 connections, 250 ms, at least 2 ms each.
    assert!((8..=1000).contains(&r.counts.ok), "{:?}", r.counts);
    assert_eq!(r.counts.ok, r.counts.planned);
    assert!(r.latency_ns.min >= DELAY_NS);
    assert_eq!(r.lateness_ns.count, 0);
    s.think_ns = 100 * DELAY_NS / 2;
    let r = run_until(|| world.run(&s), |r| r.counts.ok >= 1);
    // At most one request in each 102 ms, and one more.
    assert!((1..=8 * 3).contains(&r.counts.ok), "{:?}", r.counts);
    assert_eq!(r.counts.ok, r.counts.planned);
    let mut s = of(protocol, "http://server/never");
    (s.mode, s.timeout_ns) = (Mode::Saturate, 100 * MS);
    let r = run_until(|| world.run(&s), |r| r.counts.planned >= 8);
    assert_eq!(r.counts.timeout, r.counts.planned, "{:?}", r.errors);
    assert!(r.counts.planned >= 8, "{:?}", r.counts);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    let mut s = of(protocol, "http://refused/ok");
    s.mode = Mode::Saturate;
    let r = run_until(
        || world.run(&s),
        |r| errors_of(r, ErrorClass::ConnectRefused) > 0,
    );
    assert!(
        errors_of(&r, ErrorClass::ConnectRefused) > 0,
        "{:?}",
        r.counts
    );
    let mut s = of(protocol, "http://unknown/ok");
    s.mode = Mode::Saturate;
    let r = world.run(&s);
    assert_eq!(errors_of(&r, ErrorClass::Dns), 1, "{:?}", r.counts);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    s.endpoints
        .extend(of(protocol, "http://server/delay").endpoints);
    let r = run_until(|| world.run(&s), |r| r.counts.ok >= 4);
    assert!(r.counts.ok >= 4, "{:?}", r.counts);
    assert_eq!(r.endpoints[0].errors["dns"], 1);
    assert!(r.rate.achieved <= r.counts.ok as f64 * 4.0, "{:?}", r.rate);
    let dead = |f: &Finding| f.reason == Reason::Errors && f.found.contains("unknown");
    assert!(r.verdict.reasons.iter().any(dead), "{:?}", r.verdict);
}

fn all(world: &impl World, protocol: Protocol) {
    good_servers(world, protocol);
    bad_servers(world, protocol);
    late_servers(world, protocol);
    mixed_servers(world, protocol);
    closed_loop(world, protocol);
}

#[test]
fn http1_servers_in_virtual_time() {
    all(&Simulated, Protocol::Http1);
}

#[test]
fn http2_servers_in_virtual_time() {
    all(&Simulated, Protocol::Http2);
}

#[test]
fn http1_servers_on_loopback() {
    all(&Loopback(EpollDriver::new), Protocol::Http1);
}

#[test]
fn http2_servers_on_loopback() {
    all(&Loopback(EpollDriver::new), Protocol::Http2);
}

#[test]
fn servers_on_loopback_without_epoll_pwait2() {
    all(&Loopback(EpollDriver::with_timer), Protocol::Http1);
    all(&Loopback(EpollDriver::with_timer), Protocol::Http2);
}

#[test]
fn a_spinning_loop_on_loopback() {
    let mut s = of(Protocol::Http1, "http://server/delay");
    s.pace = Pace::Spin;
    let r = Loopback(EpollDriver::new).run(&s);
    assert_eq!(r.counts.ok, 100, "{:?}", r.errors);
}
