//! Kernel timestamps compared with the generator's own, on loopback.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};
use tare_plan::load::{Endpoint, LoadSpec, Mode};
use tare_records::load::LoadResult;

/// Starts a server that answers every request until the process ends; returns its URL.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{addr}/")
}

fn spec(url: String) -> LoadSpec {
    let mode = Mode::Open {
        rate_rps: 500.0,
        arrivals: Default::default(),
    };
    LoadSpec {
        warmup_ns: 100_000_000,
        connections: 5,
        kernel_timestamps_every: 1,
        // Long enough for a machine that stops for a while.
        timeout_ns: 60_000_000_000,
        ..LoadSpec::new(vec![Endpoint::get(url)], mode, 400_000_000)
    }
}

fn run(change: impl Fn(&mut LoadSpec)) -> LoadResult {
    LazyLock::force(&RECORDING);
    let mut spec = spec(server());
    change(&mut spec);
    let result = tare_load::run(&spec, &AtomicBool::new(false), false, &mut |_| {}).unwrap();
    assert_eq!(result.counts.ok, 200, "{:?}", result.errors);
    result
}

/// A socket with the timestamps that the engine requests; `None` where the kernel does not support
/// them. The kernel begins to record them some time after the first request, and then continues
/// while this socket is open.
static RECORDING: LazyLock<Option<TcpStream>> = LazyLock::new(|| {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(&stream, sockopt::Timestamping, &flags).ok()?;
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        peer.write_all(b"x").unwrap();
        let (mut byte, mut control) = ([0], nix::cmsg_space!(Timestamps));
        let mut iov = [IoSliceMut::new(&mut byte)];
        let (fd, flags) = (stream.as_raw_fd(), MsgFlags::empty());
        let message = recvmsg::<()>(fd, &mut iov, Some(&mut control), flags).unwrap();
        let is_time =
            |m| matches!(m, ControlMessageOwned::ScmTimestampsns(t) if t.system.tv_sec() > 0);
        if message.cmsgs().unwrap().any(is_time) {
            return Some(stream);
        }
    }
    panic!("no byte has a timestamp");
});

/// Checks that most requests have both timestamps, or that their absence has a reason where the
/// kernel does not support them. Returns whether the kernel recorded timestamps.
fn check_timestamps(result: &LoadResult) -> bool {
    let error = result.instrument_error.as_ref().unwrap();
    assert_eq!(error.send_ns.count, error.sampled);
    assert_eq!(error.service_time_ns.count, error.sampled);
    assert!(error.sampled + error.missed <= 200, "{error:?}");
    assert_eq!(error.absent.is_none(), RECORDING.is_some(), "{error:?}");
    if error.absent.is_some() {
        assert_eq!(error.sampled, 0, "{error:?}");
        return false;
    }
    assert!(error.sampled > error.missed, "{error:?}");
    // The kernel sent each request before its response arrived; otherwise the clocks disagree by
    // more than the reported uncertainty.
    let latest = result.latency_ns.max + error.clock_uncertainty_ns_max;
    assert!(error.send_ns.max <= latest, "{error:?}");
    assert!(error.service_time_ns.max <= result.service_time_ns.max);
    true
}

#[test]
fn kernel_timestamps_lie_within_the_reported_times() {
    let result = run(|_| {});
    if check_timestamps(&result) {
        let error = result.instrument_error.unwrap();
        assert!(error.sampled >= 150, "{error:?}");
    }
}

#[test]
fn new_connections_are_sampled_too() {
    let result = run(|s| s.requests_per_connection = Some(1));
    check_timestamps(&result);
    assert_eq!(result.generator.connections_opened, 250);
}

#[test]
fn only_the_requested_share_is_sampled() {
    let result = run(|s| s.kernel_timestamps_every = 10);
    let error = result.instrument_error.as_ref().unwrap();
    assert!(error.sampled + error.missed <= 25, "{error:?}");
    check_timestamps(&result);
    assert!(
        run(|s| s.kernel_timestamps_every = 0)
            .instrument_error
            .is_none()
    );
}

#[test]
fn requests_that_share_a_connection_have_no_timestamps_and_a_reason() {
    let url = server();
    let mut spec = spec(url);
    spec.endpoints[0].protocol = tare_plan::load::Protocol::Http2;
    spec.duration_ns = 20_000_000;
    spec.timeout_ns = 200_000_000;
    // The server does not support HTTP/2; the outcome of the requests does not matter.
    let result = tare_load::run(&spec, &AtomicBool::new(false), false, &mut |_| {}).unwrap();
    let error = result.instrument_error.unwrap();
    assert_eq!((error.sampled, error.missed), (0, 0));
    assert!(error.absent.unwrap().contains("HTTP/2"));
}

#[test]
fn pinned_threads_send_all_requests() {
    assert_eq!(run(|s| s.pin = true).counts.planned, 200);
}
