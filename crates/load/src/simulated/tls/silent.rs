//! Servers that accept a connection and never finish its handshake.

use super::*;

/// Checks the result of a run in which no handshake ends; the timeout is 1 s.
fn check_without_handshakes(run: impl FnOnce(&LoadSpec) -> LoadResult) {
    let (_, tls) = Server::new("server", 2100, Behaviour::Good);
    let mut s = of(tls);
    s.timeout_ns = 1_000 * MS;
    s.duration_ns = 1_500 * MS;
    let r = run(&s);
    assert_eq!(r.counts.ok, 0);
    assert!(errors_of(&r, ErrorClass::Tls) > 0, "{:?}", r.errors);
    assert_eq!(errors_of(&r, ErrorClass::ConnectFailed), 0);
    let failures = &tls_of(&r).failures;
    let reason = "TLS handshake timed out";
    assert_eq!(failures.keys().collect::<Vec<_>>(), [reason]);
    assert_eq!(tls_of(&r).handshake_ns.count, 0);
}

/// Sends the given bytes of a handshake, and then nothing.
struct Silent(Vec<u8>);

impl SimServer for Silent {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((50_000, Ok(vec![Step::Bytes(20_000, self.0.clone())])))
    }

    fn bytes(&mut self, _now: u64, _on: (ConnId, u64), _bytes: &[u8]) -> Option<Vec<Step>> {
        Some(Vec::new())
    }
}

#[test]
fn a_handshake_that_never_ends_is_a_tls_error() {
    // Nothing, or the header of a handshake record whose body never arrives.
    for bytes in [Vec::new(), vec![22, 3, 3, 0, 100]] {
        check_without_handshakes(|s| over(SimDriver::new(Silent(bytes)), s, addr()));
    }
    // The kernel completes the connections, and no process accepts them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    check_without_handshakes(|s| {
        let run = || over(EpollDriver::new(Pace::Sleep).unwrap(), s, addr);
        // If the machine stops for the timeout, the loop does not see that a connection is open.
        run_until(run, |r| {
            errors_of(r, ErrorClass::Tls) > 0 && errors_of(r, ErrorClass::ConnectFailed) == 0
        })
    });
}

#[test]
fn a_connection_that_never_opens_is_not_a_tls_error() {
    struct Nowhere;
    impl SimServer for Nowhere {
        fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            None
        }
    }
    let (_, tls) = Server::new("server", 2100, Behaviour::Good);
    let mut s = of(tls);
    s.timeout_ns = 1_000 * MS;
    s.duration_ns = 1_500 * MS;
    let r = over(SimDriver::new(Nowhere), &s, addr());
    assert!(
        errors_of(&r, ErrorClass::ConnectFailed) > 0,
        "{:?}",
        r.errors
    );
    assert_eq!(
        errors_of(&r, ErrorClass::Tls),
        0,
        "{:?}",
        tls_of(&r).failures
    );
}
