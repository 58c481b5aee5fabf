//! Tests of the driver on real sockets.

use std::io::Write;

use super::*;
use rustix::net::{bind, getsockname, listen};

/// How long a test waits for what must happen, so that a slow machine fails no test.
const LIMIT_NS: u64 = 60_000_000_000;

/// Repeats `seen` until it is true.
fn until(mut seen: impl FnMut() -> bool) {
    let end = clock() + LIMIT_NS;
    while !seen() {
        assert!(clock() < end, "not seen within a minute");
    }
}

#[test]
fn a_local_shortage_is_not_a_failure_of_the_peer() {
    for errno in [Errno::ADDRNOTAVAIL, Errno::MFILE, Errno::NFILE] {
        assert_eq!(fault(errno).class_of_connect().key(), "local_shortage");
    }
    assert_eq!(
        fault(Errno::HOSTUNREACH).class_of_connect().key(),
        "connect_failed"
    );
}

#[test]
fn an_unfinished_connection_attempt_does_not_count_as_open() {
    let (inet, stream) = (AddressFamily::INET, SocketType::STREAM);
    let listener = socket_with(inet, stream, SocketFlags::CLOEXEC, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&listener, &any).unwrap();
    // Without accept, the kernel completes a few connections and keeps the others waiting.
    listen(&listener, 0).unwrap();
    let to = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let mut driver = EpollDriver::new(Pace::Spin).unwrap();
    driver.connect(0, to).unwrap();
    until(|| driver.connected(0) == Ok(()));
    assert!((1..100).any(|id| {
        driver.connect(id, to).unwrap();
        driver.connected(id) == Err(Fault::WouldBlock)
    }));
}

#[test]
fn a_timer_ends_waits_with_nanosecond_resolution() {
    let mut driver = EpollDriver::with_timer(Pace::Sleep).unwrap();
    assert!(driver.timer.is_some());
    let wait_ns = 300_000;
    // On a busy machine most waits end late.
    until(|| {
        let before = clock();
        assert_eq!(driver.poll(wait_ns), Ok(0));
        let waited_ns = clock() - before;
        assert!(waited_ns >= wait_ns, "{waited_ns}");
        waited_ns < 1_000_000
    });
}

#[test]
fn an_expiration_after_its_wait_is_discarded() {
    let (mut driver, mut peer) = connected(Pace::Spin);
    driver.timer = Some(Timer::new(&driver.epoll).unwrap());
    peer.write_all(b"0123").unwrap();
    assert_eq!(driver.poll(LIMIT_NS), Ok(1));
    peer.write_all(b"4567").unwrap();
    until(|| driver.poll(1_000_000) == Ok(1));
    let armed = clock();
    while clock() - armed < 3_000_000 {}
    assert_eq!(driver.poll(0), Ok(0));
    let before = clock();
    assert_eq!(driver.poll(2_000_000), Ok(0));
    assert!(clock() - before >= 2_000_000);
}

/// A driver with one open connection, and the peer's end of the connection.
fn connected(pace: Pace) -> (EpollDriver, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut driver = EpollDriver::new(pace).unwrap();
    driver.connect(0, listener.local_addr().unwrap()).unwrap();
    let peer = listener.accept().unwrap().0;
    assert!(waited(&mut driver).unwrap().writable);
    driver.connected(0).unwrap();
    (driver, peer)
}

/// Lets the peer send `bytes`, and returns instants before they arrived and after it.
fn sent(driver: &EpollDriver, peer: &mut std::net::TcpStream, bytes: &[u8]) -> (u64, u64) {
    let before = clock();
    peer.write_all(bytes).unwrap();
    let fd = driver.fd(0).unwrap();
    let mut there = vec![0; bytes.len()];
    while recv(fd, &mut there[..], RecvFlags::PEEK).map(|(read, _)| read) != Ok(bytes.len()) {
        assert!(clock() - before < LIMIT_NS, "the bytes did not arrive");
    }
    (before, clock())
}

/// Reads one byte at a time until one has a timestamp: the kernel begins to record them some time
/// after the first request for them.
fn prove(driver: &mut EpollDriver, peer: &mut std::net::TcpStream) {
    until(|| {
        sent(driver, peer, b"x");
        assert_eq!(driver.recv(0, &mut [0; 64]), Ok(1));
        driver.may_read_later()
    });
}

/// The clocks of the driver and of timestamps are read one after the other, and the system's time
/// may be adjusted between them.
const CLOCKS_NS: u64 = 2_000_000;

#[test]
fn bytes_read_later_have_the_time_of_their_arrival() {
    let (mut driver, mut peer) = connected(Pace::Sleep);
    driver.read_later(true);
    let (mut ready, mut buffer) = (Vec::new(), [0; 64]);
    // The socket has shown no timestamp yet, so its first bytes end the wait.
    peer.write_all(b"first").unwrap();
    let far = clock() + LIMIT_NS;
    assert!(driver.wait(clock(), far, &mut ready) < far);
    assert_eq!(driver.recv(0, &mut buffer), Ok(5));
    assert_eq!(driver.arrival(0), None);
    prove(&mut driver, &mut peer);

    let (before, after) = sent(&driver, &mut peer, b"second");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let begin = clock();
    let end = begin + 1_000_000;
    let now = driver.wait(begin, end, &mut ready);
    assert!(now >= end - 200_000, "the wait ended before its sleep");
    while ready.is_empty() {
        driver.wait(clock(), clock(), &mut ready);
    }
    assert_eq!(driver.recv(0, &mut buffer), Ok(6));
    let arrival = driver.arrival(0).unwrap();
    let possible = before - CLOCKS_NS..after + CLOCKS_NS;
    assert!(
        possible.contains(&arrival),
        "{arrival} is not in {possible:?}"
    );
    assert!(arrival < now - 15_000_000);
}

#[test]
fn nothing_is_read_later_where_it_would_delay_the_peer_or_lose_the_time() {
    let (mut driver, mut peer) = connected(Pace::Sleep);
    let mut buffer = vec![0; 64 * 1024];
    let allowed = |driver: &EpollDriver| driver.may_read_later();
    driver.read_later(true);
    assert!(!allowed(&driver), "no timestamp has been seen");
    assert!(driver.arrivals.is_some());
    prove(&mut driver, &mut peer);
    driver.read_later(false);
    assert!(!allowed(&driver));
    driver.read_later(true);
    driver.want_writable(0, true);
    driver.want_writable(0, true);
    assert!(!allowed(&driver), "a request is written in part");
    driver.want_writable(0, false);
    assert!(allowed(&driver));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    driver.connect(1, listener.local_addr().unwrap()).unwrap();
    assert!(!allowed(&driver), "the new socket has shown no timestamp");
    driver.close(1);
    assert!(allowed(&driver));
    sent(&driver, &mut peer, &[0; 20_000]);
    assert_eq!(driver.recv(0, &mut buffer), Ok(20_000));
    assert!(!allowed(&driver), "responses are large");
}

#[test]
fn a_thread_that_spins_requests_no_arrivals() {
    let (mut driver, _peer) = connected(Pace::Spin);
    driver.read_later(true);
    assert!(driver.arrivals.is_none());
}

/// Waits up to a minute for a report; `None` without one.
fn waited(driver: &mut EpollDriver) -> Option<Ready> {
    let mut ready = Vec::new();
    let now = driver.now();
    driver.wait(now, now + LIMIT_NS, &mut ready);
    assert!(ready.len() <= 1, "{ready:?}");
    ready.first().copied()
}

fn nothing_is_ready(driver: &mut EpollDriver) {
    let mut ready = Vec::new();
    let now = driver.now();
    driver.wait(now, now, &mut ready);
    assert_eq!(ready, []);
}

#[test]
fn a_connection_is_reported_until_it_is_read_to_the_end() {
    let (mut driver, mut peer) = connected(Pace::Spin);
    nothing_is_ready(&mut driver);
    peer.write_all(b"0123456789").unwrap();
    let mut buffer = [0; 4];
    for expected in [4, 4, 2] {
        for _not_read in 0..2 {
            let ready = waited(&mut driver).unwrap();
            assert!(ready.readable && !ready.writable && !ready.hangup);
        }
        assert_eq!(driver.recv(0, &mut buffer), Ok(expected));
    }
    nothing_is_ready(&mut driver);
    peer.write_all(b"0123").unwrap();
    assert!(waited(&mut driver).unwrap().readable);
    assert_eq!(driver.recv(0, &mut buffer), Ok(4));
    assert!(waited(&mut driver).unwrap().readable);
    assert_eq!(driver.recv(0, &mut buffer), Err(Fault::WouldBlock));
    nothing_is_ready(&mut driver);
}

#[test]
fn the_end_is_reported_until_the_connection_is_closed() {
    let (mut driver, mut peer) = connected(Pace::Spin);
    peer.write_all(b"last").unwrap();
    drop(peer);
    let mut buffer = [0; 64];
    until(|| waited(&mut driver).unwrap().hangup);
    assert_eq!(driver.recv(0, &mut buffer), Ok(4));
    for _ in 0..3 {
        let ready = waited(&mut driver).unwrap();
        assert!(ready.readable && ready.hangup);
        assert_eq!(driver.recv(0, &mut buffer), Ok(0));
    }
    driver.close(0);
    nothing_is_ready(&mut driver);
}

#[test]
fn unread_bytes_stay_reported_when_write_interest_changes() {
    let (mut driver, mut peer) = connected(Pace::Spin);
    peer.write_all(b"0123").unwrap();
    assert!(waited(&mut driver).unwrap().readable);
    driver.want_writable(0, true);
    for _ in 0..3 {
        let ready = waited(&mut driver).unwrap();
        assert!(ready.readable && ready.writable);
    }
    driver.want_writable(0, false);
    assert!(waited(&mut driver).unwrap().readable);
    assert_eq!(driver.recv(0, &mut [0; 64]), Ok(4));
    nothing_is_ready(&mut driver);
}

#[test]
fn an_unread_connection_can_be_replaced_by_another() {
    let (mut driver, mut peer) = connected(Pace::Spin);
    peer.write_all(b"0123").unwrap();
    assert!(waited(&mut driver).unwrap().readable);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    driver.connect(0, listener.local_addr().unwrap()).unwrap();
    let mut peer = listener.accept().unwrap().0;
    let ready = waited(&mut driver).unwrap();
    assert!(ready.writable && !ready.readable);
    driver.connected(0).unwrap();
    nothing_is_ready(&mut driver);
    peer.write_all(b"0123").unwrap();
    assert!(waited(&mut driver).unwrap().readable);
}
