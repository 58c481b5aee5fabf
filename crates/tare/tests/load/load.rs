//! `tare load` against servers with known behaviour.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use tare_analysis::LoadStream;
use tare_plan::load::{Endpoint, LoadSpec, Mode, Shard};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::record::LoadRecord;
use tare_records::verdict::{Grade, Reason};
use tare_stats::Histogram;
use tare_stats::rng::Rng;

use crate::support;

use crate::judged::exit_code;
use crate::support::witness::Witness;
use crate::support::{refusing, serve, unix_ns};

/// Time limit, longer than a busy machine takes for any of these loads.
const TIMEOUT: Duration = Duration::from_secs(120);
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn good_server() -> SocketAddr {
    serve(|_, stream| stream.write_all(OK).is_ok())
}

fn start(args: &[&str]) -> Child {
    Command::new(support::TARE)
        .arg("load")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the child's output. After two minutes the child is killed and the test fails.
fn finish(child: Child) -> Output {
    let pid = pid_of(&child);
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let timed_out = waiting.recv_timeout(TIMEOUT).is_err();
        if timed_out {
            kill_process(pid, Signal::KILL).ok();
        }
        timed_out
    });
    let output = child.wait_with_output().unwrap();
    done.send(()).ok();
    assert!(
        !watchdog.join().unwrap(),
        "tare did not end in time: {output:?}"
    );
    output
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

fn parse(output: &Output) -> LoadResult {
    let result: LoadResult =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    assert!(result.counts.identity_holds(), "{:?}", result.counts);
    result
}

/// Runs a load with JSON output, and checks that the exit code is that of the verdict.
fn load(args: &[&str]) -> LoadResult {
    let output = finish(start(&[args, &["--output", "json"]].concat()));
    let result = parse(&output);
    let expected = exit_code(result.verdict.grade);
    assert_eq!(output.status.code(), Some(expected), "{:?}", result.verdict);
    result
}

/// Whether each thread of a process has stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut stats = threads.map(|t| std::fs::read_to_string(t.unwrap().path().join("stat")));
    stats.all(|stat| stat.is_ok_and(|s| s.rsplit(") ").next().is_some_and(|s| s.starts_with('T'))))
}

fn has(result: &LoadResult, reason: Reason) -> bool {
    result.verdict.reasons.iter().any(|f| f.reason == reason)
}

/// Whether the kernel controls how cores idle, and this process may change it.
fn can_keep_cores_awake() -> bool {
    let driver = std::fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver");
    let driver = driver.unwrap_or_default();
    let mut device = std::fs::OpenOptions::new();
    let device = device.write(true).open("/dev/cpu_dma_latency");
    !matches!(driver.trim(), "" | "none") && device.is_ok()
}

/// Only root can keep cores awake, and only where the kernel controls how they idle.
#[test]
fn cores_are_kept_awake_on_request_and_reported() {
    let url = format!("http://{}/", good_server());
    let args = ["--rate", "50", "--duration", "300ms", "--warmup", "0s"];
    let result = load(&[&args[..], &[&url]].concat());
    assert!(!result.generator.awake);
    let json = ["--output", "json", "--awake", &url];
    let output = finish(start(&[&args[..], &json].concat()));
    if !can_keep_cores_awake() {
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let printed = String::from_utf8_lossy(&output.stderr);
        return assert!(
            printed.contains("failed to keep the cores awake: "),
            "{printed}"
        );
    }
    assert!(parse(&output).generator.awake);
    let output = finish(start(&[&args[..], &["--awake", &url]].concat()));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("; cores kept awake"), "{printed}");
}

#[test]
fn the_utilisation_of_a_busy_loop_is_reported() {
    let url = format!("http://{}/", good_server());
    let r = load(&[&url, "--max", "--duration", "1s", "--connections", "1"]);
    let g = &r.generator;
    assert!(g.cpu_cores > 0.0, "{g:?}");
    // A loop is busy mostly by sending and reading. Falling asleep and waking up also use CPU time.
    assert!(g.loop_utilisation > g.cpu_cores / 4.0, "{g:?}");
}

#[test]
fn an_interval_log_that_cannot_be_written_never_loses_a_measurement() {
    let (sender, received) = std::sync::mpsc::channel();
    let addr = serve(move |request, stream| {
        sender.send(request.number).unwrap();
        stream.write_all(OK).is_ok()
    });
    let url = format!("http://{addr}/");
    let args = [&url, "--rate", "100", "--output", "json", "--hlog"];
    let output = finish(start(&[&args[..], &["/nowhere/at/all"]].concat()));
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    assert!(
        received.try_recv().is_err(),
        "a request was sent before the log was opened"
    );
    // Here the log can be opened but not written. The result is still printed.
    let short = ["/dev/full", "--duration", "200ms"];
    let output = finish(start(&[&args[..], &short[..]].concat()));
    assert!(!output.status.success());
    assert_eq!(parse(&output).counts.ok, 20);
}

/// The exact figures are tested in simulated time. Here real processes must agree with them. A busy
/// machine can only add latency, and not more than the generator and the server record.
#[test]
fn a_server_frozen_for_a_second_shows_in_the_percentiles() {
    const CONNECTIONS: usize = 20;
    let (begun, witness) = (Arc::new(OnceLock::new()), Witness::default());
    let addr = serve({
        let (begun, witness) = (Arc::clone(&begun), witness.clone());
        move |_, stream| {
            witness.note(stream);
            let since = *begun.get_or_init(unix_ns);
            let (from, until) = (since + 5_000_000_000, since + 6_000_000_000);
            let now = unix_ns();
            if (from..until).contains(&now) {
                std::thread::sleep(Duration::from_nanos(until - now));
            }
            stream.write_all(OK).is_ok()
        }
    });
    let url = format!("http://{addr}/");
    let often = ["--rate", "200", "--duration", "10s", "--connections", "20"];
    let r = load(&[&[url.as_str()], &often[..]].concat());
    assert_eq!(r.counts.ok, 2000, "{:?}", r.errors);
    let found = format!("{:?}, {:?}, {:?}", r.latency_ns, r.wait_ns, r.lateness_ns);
    let late_ns = r.lateness_ns.max as f64;
    // A connection is used again only after its response was read. So the first hundred requests
    // after the freeze began, and as many as can have overtaken them, were done at the latest when
    // their connections were next used.
    let freeze_unix_ns = begun.get().unwrap() + 5_000_000_000;
    let all = witness.all();
    let (_, frozen) = all.split_at(all.partition_point(|(at, _)| *at < freeze_unix_ns));
    let next_use = |(i, (_, port)): (usize, &(u64, u16))| {
        let next = frozen[i + 1..].iter().find(|(_, other)| other == port);
        next.expect("half of the load is still to come").0
    };
    let first = frozen.iter().enumerate().take(100 + CONNECTIONS);
    let done_unix_ns = first.map(next_use).max().unwrap();
    let added_ns = done_unix_ns.saturating_sub(freeze_unix_ns + 1_000_000_000) as f64;
    // A tenth of the requests fall into that second, and most of them wait for a connection.
    for (found_ns, expected_ns) in [(r.latency_ns.p95, 0.50e9), (r.latency_ns.p99, 0.90e9)] {
        let bounds = 0.98 * expected_ns..=1.02 * expected_ns + late_ns + added_ns;
        assert!(bounds.contains(&(found_ns as f64)), "{bounds:?}: {found}");
    }
    assert!(r.wait_ns.p99 > 500_000_000, "{found}");
    // The latency of a request that does not wait is its lateness plus its service time. So the
    // latency of 85 % of the requests is at most the service time of 96 % plus the lateness.
    let quantile = |h, q| Histogram::from_wire(h).unwrap().quantile(q) as f64;
    let p85_ns = quantile(&r.histograms.latency, 0.85);
    let service_ns = quantile(&r.histograms.service_time, 0.96);
    assert!(
        p85_ns < service_ns.max(5e6) + late_ns,
        "p85 {p85_ns}: {found}"
    );
    // The generator itself was not late.
    assert!(r.lateness_ns.p99 < r.latency_ns.p99 / 2, "{found}");
}

#[test]
fn a_stopped_generator_is_found_late_and_invalid() {
    let witness = Witness::default();
    let addr = serve({
        let witness = witness.clone();
        move |_, stream| {
            witness.note(stream);
            stream.write_all(OK).is_ok()
        }
    });
    let url = format!("http://{addr}/");
    let child = start(&[
        &url,
        "--rate",
        "200",
        "--duration",
        "10s",
        "--connections",
        "20",
        "--output",
        "json",
    ]);
    let pid = pid_of(&child);
    std::thread::sleep(Duration::from_secs(4));
    kill_process(pid, Signal::STOP).unwrap();
    // A thread stops only when it next gets a core.
    let requested = Instant::now();
    while !is_stopped(child.id()) {
        assert!(
            requested.elapsed() < TIMEOUT,
            "the generator was not stopped in time"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let stopped = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let stall_ns = stopped.elapsed().as_nanos() as f64;
    kill_process(pid, Signal::CONT).unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        printed.matches("the generator cannot keep up").count(),
        1,
        "{printed}"
    );
    let r = parse(&output);
    assert_eq!(r.counts.ok, 2000, "{:?}", r.errors);
    // 5 % of the requests are late by more than half of the stall, and 1 % by more than 0.9 of it.
    let late = &r.lateness_ns;
    assert!(late.p95 as f64 > 0.48 * stall_ns, "{late:?}");
    assert!(late.p99 as f64 > 0.88 * stall_ns, "{late:?}");
    // Requests are sent in the order of their slots. So when the server had read as many requests
    // as the number of slots up to a slot, the request of that slot had been sent.
    let slots = (0..2000).map(|i| r.window_start_unix_ns + i * 5_000_000);
    let read = witness.all().into_iter().map(|(at, _)| at);
    let late_max_ns = read
        .zip(slots)
        .map(|(at, slot)| at.saturating_sub(slot))
        .max();
    let late_max_ns = late_max_ns.unwrap() as f64;
    assert!(
        late.max as f64 <= 1.02 * late_max_ns,
        "{late_max_ns}: {late:?}"
    );
    assert!(r.latency_ns.p99 >= late.p99, "{:?} {late:?}", r.latency_ns);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    assert!(has(&r, Reason::Lateness), "{:?}", r.verdict);
}

#[test]
fn seeded_faults_are_classified_and_every_request_is_accounted_for() {
    let addr = serve(|request, stream| {
        let fault = Rng::stream(11, request.number).below(12);
        let write = |stream: &mut TcpStream, bytes: &[u8]| stream.write_all(bytes).is_ok();
        match fault {
            0 => {
                rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
                false
            }
            1 => {
                write(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
                false
            }
            2 => {
                write(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nslow");
                std::thread::sleep(Duration::from_secs(8));
                write(stream, b"-body")
            }
            3 => write(stream, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            4 => write(stream, b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n"),
            5 => {
                write(stream, b"220 smtp.example ready\r\n");
                false
            }
            _ => write(stream, OK),
        }
    });
    let (_socket, refused) = refusing();
    let urls = [
        format!("http://{addr}/"),
        format!("http://{refused}/"),
        "http://no-such-host.invalid/".to_owned(),
    ];
    let r = load(&[
        &urls[0],
        &urls[1],
        &urls[2],
        "--rate",
        "300",
        "--duration",
        "2s",
        "--timeout",
        "5s",
        "--connections",
        "180",
        "--threads",
        "2",
    ]);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    assert_eq!(r.counts.planned, 600);
    assert_eq!((r.counts.in_flight, r.counts.not_sent), (0, 0));
    let of = |class: ErrorClass| r.errors.get(class.key()).copied().unwrap_or(0);
    assert_eq!(of(ErrorClass::Dns), 200);
    assert_eq!(of(ErrorClass::ConnectRefused), 200);
    for class in [
        ErrorClass::Reset,
        ErrorClass::Closed,
        ErrorClass::Timeout,
        ErrorClass::Status5xx,
        ErrorClass::Status4xx,
        ErrorClass::BadResponse,
    ] {
        assert!(of(class) > 0, "{} of {:?}", class.key(), r.errors);
    }
    assert!(r.counts.ok > 50, "{:?}", r.counts);
    assert!(has(&r, Reason::Errors));
}

#[test]
fn a_load_with_only_unknown_host_names_ends_at_once() {
    // The duration is longer than [`finish`] waits.
    let r = load(&[
        "http://no-such-host.invalid/",
        "--rate",
        "100",
        "--duration",
        "300s",
    ]);
    assert_eq!((r.verdict.grade, r.errors["dns"]), (Grade::Invalid, 30_000));
}

#[test]
fn a_recorded_trace_and_the_wrk2_mode_are_run_and_reported() {
    let url = format!("http://{}/", good_server());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let lines: Vec<String> = (0..50)
        .map(|i| format!("1700000000.{:03} GET /", i * 7))
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let trace = format!("trace:{}", file.display());
    let r = load(&[&url, "--arrivals", &trace]);
    assert_eq!((r.counts.planned, r.counts.ok), (50, 50), "{:?}", r.errors);
    assert_eq!(r.window_ns, 350_000_000);
    let mode = serde_json::to_string(&r.mode).unwrap();
    assert!(
        mode.contains("\"slots\":50") && !mode.contains("gaps"),
        "{mode}"
    );
    let wrk2 = ["--rate", "400", "--duration", "1s", "--arrivals", "wrk2"];
    let r = load(&[&[url.as_str()], &wrk2[..]].concat());
    assert_eq!(r.counts.ok, 400);
    assert!(has(&r, Reason::CompatibilityMode), "{:?}", r.verdict);
    let page = finish(start(&[&[url.as_str()], &wrk2[..]].concat())).stdout;
    assert!(
        String::from_utf8(page)
            .unwrap()
            .contains("compatibility mode")
    );
}

#[test]
fn an_interrupt_ends_early_with_a_valid_result() {
    let url = format!("http://{}/", good_server());
    let mut child = start(&[
        &url,
        "--rate",
        "100",
        "--duration",
        "30s",
        "--progress",
        "--output",
        "json",
    ]);
    // Interrupt after the second progress line, at the end of the second second.
    let mut printed = BufReader::new(child.stderr.take().unwrap()).lines();
    (0..2).for_each(|_| drop(printed.next().unwrap().unwrap()));
    std::thread::spawn(move || printed.for_each(drop));
    kill_process(pid_of(&child), Signal::INT).unwrap();
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let r = parse(&output);
    assert!(r.interrupted);
    assert_eq!(r.counts.planned, 3000);
    assert!(
        r.counts.ok > 50 && r.counts.not_sent > 2000,
        "{:?}",
        r.counts
    );
    assert!(r.window_ns < 20_000_000_000);
}

#[test]
fn a_worker_writes_a_complete_stream() {
    let addr = good_server();
    let mode = Mode::Open {
        rate_rps: 500.0,
        arrivals: Default::default(),
    };
    let endpoints = ["a", "b"].map(|name| Endpoint {
        name: name.into(),
        connect: Some(addr.to_string()),
        ..Endpoint::get(format!("http://{name}.example/"))
    });
    let spec = LoadSpec {
        warmup_ns: 500_000_000,
        timeout_ns: 2_000_000_000,
        threads: 2,
        seed: 3,
        shard: Shard { index: 1, count: 2 },
        ..LoadSpec::new(endpoints.to_vec(), mode, 2_500_000_000)
    };
    let mut child = start(&["--spec", "-"]);
    let json = serde_json::to_vec(&spec).unwrap();
    child.stdin.take().unwrap().write_all(&json).unwrap();
    let output = finish(child);
    let gone = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut stream = LoadStream::new();
    let mut kinds = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        kinds.push(match stream.line(line).unwrap() {
            LoadRecord::Hello(_) => 'h',
            LoadRecord::Armed { .. } => 'a',
            LoadRecord::Progress(_) => 'p',
            LoadRecord::Interval(_) => 'i',
            LoadRecord::ProxyConfig(_) | LoadRecord::ProxyConfigMissing { .. } => 'c',
            LoadRecord::Final { .. } => 'f',
        });
    }
    let text: String = kinds.iter().collect();
    assert!(text.starts_with("ha") && text.ends_with('f'), "{text}");
    assert!(text.contains('i') && text.contains('p'), "{text}");
    // `finish` checks the checksum, the sum of the counts, and that the intervals add up to the
    // whole.
    let result = stream.finish().unwrap();
    // The odd ones of the 1,250 slots from 250 on.
    assert_eq!(result.counts.planned, 625);
    assert_eq!(result.rate.target, Some(250.0));
    let names: Vec<&str> = result.endpoints.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    // The worker still runs when the agent takes its last sample.
    let end = Duration::from_nanos(result.window_start_unix_ns + result.window_ns);
    assert!(gone >= end + Duration::from_millis(200), "{gone:?} {end:?}");
}

#[test]
fn a_closed_loop_is_labelled_in_the_verdict() {
    let url = format!("http://{}/", good_server());
    let r = load(&[&url, "--max", "--duration", "1s", "-c", "4"]);
    assert!(has(&r, Reason::ClosedLoop));
    // Only throttling can make it invalid.
    let is_throttled = r.generator.throttled_ns.is_some_and(|ns| ns > 0);
    let expected = if is_throttled {
        Grade::Invalid
    } else {
        Grade::Suspect
    };
    assert_eq!(r.verdict.grade, expected, "{:?}", r.verdict);
    // The rate counts the requests of one second, except the last one of each connection.
    assert_eq!((r.rate.target, r.window_ns), (None, 1_000_000_000));
    assert!(
        r.counts.ok >= 4 && r.counts.ok == r.counts.planned,
        "{:?}",
        r.counts
    );
    let after = r.counts.planned as f64 - r.rate.achieved;
    assert!((0.0..=4.0).contains(&after), "{:?} {:?}", r.rate, r.counts);
}

#[test]
fn a_closed_standard_output_is_not_a_failure() {
    let url = format!("http://{}/", good_server());
    for output in ["json", "text"] {
        let args = ["--rate", "100", "--duration", "100ms", "--output", output];
        let mut child = start(&[&[url.as_str()], &args[..]].concat());
        drop(child.stdout.take());
        let output = finish(child);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{printed}");
    }
}

#[test]
fn the_text_output_and_the_interval_log_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("latency.hlog");
    let url = format!("http://{}/", good_server());
    let output = finish(start(&[
        &url,
        "--rate",
        "400",
        "--duration",
        "2s",
        "--progress",
        "--hlog",
        log.to_str().unwrap(),
    ]));
    let page = String::from_utf8(output.stdout).unwrap();
    for part in [
        "800 planned = 800 ok",
        "latency",
        "lateness",
        "verdict",
        "status       200 800",
    ] {
        assert!(page.contains(part), "no {part:?} in:\n{page}");
    }
    assert!(String::from_utf8(output.stderr).unwrap().lines().count() >= 2);
    let log = std::fs::read_to_string(log).unwrap();
    let lines = |tagged: bool| {
        let of = |l: &&str| l.contains("HIST") && l.starts_with("Tag=") == tagged;
        log.lines().filter(of).count()
    };
    assert_eq!((lines(false), lines(true)), (2, 2), "{log}");
}

#[test]
fn an_invalid_option_is_a_usage_error() {
    for (args, expected) in [
        (&["ftp://h/", "--rate", "1"][..], "https://"),
        (&["http://h/"], "--rate"),
        (
            &["http://h/", "--rate", "1", "--arrivals", "x"],
            "ramp:RATE..RATE",
        ),
        (
            &["http://h/", "--rate", "1", "--arrivals", "ramp:1..9"],
            "remove --rate",
        ),
        (&["http://h/", "--arrivals", "trace:/no/such"], "/no/such"),
        (
            &["https://h/", "--rate", "1", "--ca", "/no/such"],
            "/no/such",
        ),
        (
            &["https://h/", "--rate", "1", "--ca", "/dev/null"],
            "--ca: found no certificate",
        ),
        (
            &["http://h/", "--rate", "1", "--kernel-timestamps", "5"],
            "0%",
        ),
        (&["http://h/", "--rate", "fast"], "fast"),
        (&["http://h/", "--rate", "1", "--duration", "10"], "10"),
        (&["http://h/", "--rate", "1", "-H", "novalue"], "colon"),
        (
            &["http://h/", "--rate", "1", "--threads", "0"],
            "threads is 0",
        ),
    ] {
        let output = finish(start(args));
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {printed}");
        assert!(printed.contains(expected), "{args:?}: {printed}");
    }
}
