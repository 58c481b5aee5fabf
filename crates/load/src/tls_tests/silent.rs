//! Servers that take a connection and never finish its handshake.

use super::*;

/// What became of slots and handshakes, with a patience of a second.
fn without_end(run: impl FnOnce(&LoadSpec) -> LoadResult) {
    let (_, tls) = Server::new("server", 2100, Temper::Good);
    let mut s = of(tls);
    s.timeout_ns = 1_000 * MS;
    s.duration_ns = 1_500 * MS;
    let r = run(&s);
    assert_eq!(r.counts.ok, 0);
    assert!(errors_of(&r, ErrorClass::Tls) > 0, "{:?}", r.errors);
    assert_eq!(errors_of(&r, ErrorClass::ConnectFailed), 0);
    let failures = &tls_of(&r).failures;
    let reason = "no end of the handshake in time";
    assert_eq!(failures.keys().collect::<Vec<_>>(), [reason]);
    assert_eq!(tls_of(&r).handshake_ns.count, 0);
}

/// Says so much of its handshake, and then nothing.
struct Silent(Vec<u8>);

impl SimServer for Silent {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((50_000, Ok(vec![Step::Bytes(20_000, self.0.clone())])))
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        Vec::new()
    }

    fn bytes(&mut self, _now: u64, _on: (ConnId, u64), _bytes: &[u8]) -> Option<Vec<Step>> {
        Some(Vec::new())
    }
}

#[test]
fn a_handshake_without_end_is_an_error_of_tls() {
    let addr: SocketAddr = "10.0.0.1:443".parse().unwrap();
    // The header of a record of the handshake that does not come.
    for said in [Vec::new(), vec![22, 3, 3, 0, 100]] {
        without_end(|s| over(SimDriver::new(Silent(said)), s, addr));
    }
    // Nobody accepts: the kernel takes the connections, and that is all.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    without_end(|s| over(EpollDriver::new(Pace::Sleep).unwrap(), s, addr));
}

#[test]
fn a_connection_without_answer_is_none_of_tls() {
    struct Nowhere;
    impl SimServer for Nowhere {
        fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            None
        }
        fn request(&mut self, _: u64, _: SocketAddr, _: &[u8]) -> Vec<Step> {
            Vec::new()
        }
    }
    let (_, tls) = Server::new("server", 2100, Temper::Good);
    let mut s = of(tls);
    s.timeout_ns = 1_000 * MS;
    s.duration_ns = 1_500 * MS;
    let r = over(SimDriver::new(Nowhere), &s, "10.0.0.1:443".parse().unwrap());
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
