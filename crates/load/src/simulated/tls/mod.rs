//! TLS against correct and incorrect servers: one set of tests for virtual time and
//! loopback.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustls::{ServerConfig, version};
use tare_plan::load::transport::{TlsSpec, TlsVersion};
use tare_plan::load::{LoadSpec, Mode, Pace, Protocol};
use tare_records::load::TlsResult;
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::Finding;
use tare_stats::rng::Rng;

use crate::driver::{ConnId, Driver, EpollDriver, Fault, Ready, TlsDriver};
use crate::target::Targets;
use crate::target::tls::{TlsError, peers};

use super::driver::{SimDriver, SimServer, Step};
use super::support::{MS, errors_of, ok_response, run_until, spec};

mod server;
mod silent;
mod worlds;

use server::{Authority, Behaviour, Server};
use worlds::{Loopback, RandomPieces, Simulated, World, addr, over};

fn of(tls: TlsSpec) -> LoadSpec {
    let mut s = spec(&["https://server/"]);
    s.mode = Mode::Open {
        rate_rps: 200.0,
        arrivals: Default::default(),
    };
    s.duration_ns = 200 * MS;
    s.timeout_ns = 60_000 * MS;
    s.connections = 4;
    s.tls = Some(tls);
    s
}

fn tls_of(r: &LoadResult) -> &TlsResult {
    r.tls.as_ref().unwrap()
}

fn good_handshakes(world: &impl World) {
    for (version, name) in [(TlsVersion::V12, "TLSv1_2"), (TlsVersion::V13, "TLSv1_3")] {
        let (server, mut tls) = Server::new("server", 2100, Behaviour::Good);
        (tls.version_min, tls.version_max) = (version, version);
        let r = world.run(&server, &of(tls));
        assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
        let tls = tls_of(&r);
        assert_eq!((tls.handshake_ns.count, tls.handshakes_full), (4, 4));
        let protocols: Vec<&String> = tls.protocols.keys().collect();
        assert!(protocols[0].starts_with(name), "{protocols:?}");
        assert!(tls.failures.is_empty(), "{:?}", tls.failures);
    }
    let (server, mut tls) = Server::new("else", 2100, Behaviour::UntilClose);
    tls.server_name = Some("else".to_owned());
    let r = world.run(&server, &of(tls));
    assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
}

fn churn(world: &impl World) {
    for (resumption, per_connection) in [(true, 1), (false, 1), (true, 5)] {
        let (server, mut tls) = Server::new("server", 2100, Behaviour::Good);
        tls.resumption = resumption;
        let mut s = of(tls);
        s.requests_per_connection = Some(per_connection);
        let r = world.run(&server, &s);
        assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
        let tls = tls_of(&r);
        let opened = r.generator.connections_opened;
        assert_eq!(tls.handshakes_full + tls.handshakes_resumed, opened);
        assert_eq!(tls.handshakes_resumed > 0, resumption, "{tls:?}");
        if per_connection == 1 {
            assert_eq!(opened, 40);
            assert!(r.wait_ns.min >= world.open_ns_min(), "{:?}", r.wait_ns);
            assert!(r.latency_ns.min > r.wait_ns.min, "{:?}", r.latency_ns);
        } else {
            assert!((8..40).contains(&opened), "{opened}");
        }
    }
}

fn bad_handshakes(world: &impl World) {
    let other = Authority::new("others").pem;
    let (good, trusting) = Server::new("server", 2100, Behaviour::Good);
    let (expired, trusting_expired) = Server::new("server", 2002, Behaviour::Good);
    let (named, trusting_named) = Server::new("somebody.else", 2100, Behaviour::Good);
    let clients = Authority::new("clients");
    let both = [&version::TLS13, &version::TLS12];
    let (strict, anonymous) = Server::with("server", 2100, Behaviour::Good, Some(&clients), &both);
    let (old, modern) = Server::with("server", 2100, Behaviour::Good, None, &[&version::TLS12]);
    let trusts_others = TlsSpec {
        ca_pem: Some(other),
        ..trusting.clone()
    };
    let modern = TlsSpec {
        version_min: TlsVersion::V13,
        ..modern
    };
    let mut cases = vec![
        (good.clone(), trusts_others.clone(), "UnknownIssuer"),
        (expired, trusting_expired, "expired"),
        (named.clone(), trusting_named, "name"),
        (strict.clone(), anonymous.clone(), "CertificateRequired"),
        (old, modern, "ProtocolVersion"),
    ];
    for (behaviour, why) in [
        (Behaviour::Garbage, "corrupt message"),
        (Behaviour::CloseAtHello, "closed during the handshake"),
        (Behaviour::ResetAtHello, "reset during the handshake"),
        (Behaviour::HalfHandshake, "closed during the handshake"),
        (Behaviour::Corrupt, "decrypt"),
    ] {
        let server = Server {
            behaviour,
            ..good.clone()
        };
        cases.push((server, trusting.clone(), why));
    }
    for (server, tls, why) in cases {
        let r = world.run(&server, &of(tls));
        let all = r.counts.planned;
        assert_eq!(
            errors_of(&r, ErrorClass::Tls),
            all,
            "{why}: {:?} {:?}",
            r.errors,
            r.tls
        );
        let failures = &tls_of(&r).failures;
        assert!(
            failures.keys().any(|k| k.contains(why)),
            "{why}: {failures:?}"
        );
        let is_tls = |f: &Finding| {
            f.found.contains("TLS failed on") || f.found.contains("not respond with TLS")
        };
        assert!(r.verdict.reasons.iter().any(is_tls), "{:?}", r.verdict);
    }
    // The same servers with clients that they accept.
    let insecure = TlsSpec {
        insecure: true,
        ..trusts_others
    };
    let r = world.run(&named, &of(insecure));
    assert!(r.counts.ok == 40 && tls_of(&r).insecure, "{:?}", r.errors);
    let (cert, key) = clients.signed("client", 2100);
    let known = TlsSpec {
        client_cert_pem: Some(cert),
        client_key_pem: Some(key.serialize_pem()),
        ..anonymous
    };
    let r = world.run(&strict, &of(known));
    assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
}

fn protocols_disagree(world: &impl World) {
    let (mut server, tls) = Server::new("server", 2100, Behaviour::Good);
    let alpn = |server: &mut Server, protocols: &[&str]| {
        let mut config = ServerConfig::clone(&server.config);
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        server.config = Arc::new(config);
    };
    alpn(&mut server, &["h2"]);
    let r = world.run(&server, &of(tls.clone()));
    assert_eq!(errors_of(&r, ErrorClass::Tls), 40, "{:?}", r.errors);
    let failures = &tls_of(&r).failures;
    assert!(
        failures.keys().all(|k| k.contains("NoApplicationProtocol")),
        "{failures:?}"
    );
    // A server without ALPN uses HTTP/1.1.
    alpn(&mut server, &[]);
    let r = world.run(&server, &of(tls));
    assert_eq!(r.counts.ok, 40, "{:?}", r.errors);
}

fn http2(world: &impl World) {
    let (mut server, tls) = Server::new("server", 2100, Behaviour::Good);
    let mut config = ServerConfig::clone(&server.config);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    server.config = Arc::new(config);
    let mut s = of(tls);
    s.endpoints[0].protocol = Protocol::Http2;
    s.streams = 10;
    s.connections = 2;
    let r = world.run(&server, &s);
    assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
    assert_eq!(tls_of(&r).handshake_ns.count, 2);
    // Both protocols on the same server have separate connections.
    s.endpoints.extend(spec(&["https://server/1"]).endpoints);
    let r = world.run(&server, &s);
    assert_eq!(r.counts.ok, 40, "{:?} {:?}", r.errors, r.tls);
    assert_eq!(tls_of(&r).handshake_ns.count, 2);
}

/// Opens one connection on which only HTTP/2 is offered.
fn open_h2(protocols: &[&str]) -> (Result<(), Fault>, Vec<String>) {
    let (mut server, tls) = Server::new("server", 2100, Behaviour::Good);
    let mut config = ServerConfig::clone(&server.config);
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    server.config = Arc::new(config);
    let mut s = of(tls.clone());
    s.endpoints[0].protocol = Protocol::Http2;
    let origins = Targets::new(&s).unwrap().origins;
    let mut driver = TlsDriver::new(
        SimDriver::new(RandomPieces::new(&server, &Rng::new(3), 0)),
        peers(&tls, &origins).unwrap(),
    );
    driver.connect(0, addr()).unwrap();
    let mut now = driver.now();
    let outcome = loop {
        match driver.connected(0) {
            Err(Fault::WouldBlock) => now = driver.wait(now, now + MS, &mut Vec::new()),
            outcome => break outcome,
        }
    };
    let failures = driver.driver_report().tls.unwrap().failures;
    (outcome, failures.into_keys().collect())
}

#[test]
fn http2_is_used_only_when_alpn_selects_it() {
    assert_eq!(open_h2(&["http/1.1", "h2"]), (Ok(()), Vec::new()));
    let (outcome, why) = open_h2(&[]);
    assert_eq!(outcome, Err(Fault::Tls));
    assert_eq!(why, ["the server negotiated no protocol, expected h2"]);
}

fn truncation(world: &impl World) {
    let (server, tls) = Server::new("server", 2100, Behaviour::Truncated);
    let r = world.run(&server, &of(tls));
    assert_eq!(errors_of(&r, ErrorClass::Closed), 40, "{:?}", r.errors);
    let failures = &tls_of(&r).failures;
    assert!(
        failures["connection closed without close_notify"] >= 40,
        "{failures:?}"
    );
}

#[test]
fn tls_in_virtual_time_in_random_pieces() {
    for seed in 0..12 {
        let world = Simulated { seed };
        good_handshakes(&world);
        churn(&world);
        bad_handshakes(&world);
        protocols_disagree(&world);
        http2(&world);
        truncation(&world);
    }
}

#[test]
fn every_slot_is_accounted_for_in_faulty_worlds_over_tls() {
    let mut seen = std::collections::BTreeSet::new();
    let (server, tls) = Server::new("server", 2100, Behaviour::Good);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut s = of(tls.clone());
        s.timeout_ns = 10 * MS + rng.below(40) * MS;
        s.duration_ns = 100 * MS;
        s.drain_ns = (rng.below(3) == 0).then(|| rng.below(20) * MS);
        s.requests_per_connection = (rng.below(2) == 0).then(|| 1 + rng.below(3) as u32);
        if rng.below(5) == 0 {
            s.mode = Mode::Saturate;
            s.duration_ns = 5 * MS;
        }
        let fault_percent = [2, 20, 60][rng.below(3) as usize];
        let mut driver = SimDriver::new(RandomPieces::new(&server, &rng, fault_percent));
        driver.send_bytes_max = [0, 40][rng.below(2) as usize];
        driver.send_refused_first = rng.below(3) == 0;
        // `drive` checks that the slots add up.
        let r = over(driver, &s, addr());
        if s.drain_ns.is_none() {
            assert_eq!(
                (r.counts.in_flight, r.counts.not_sent),
                (0, 0),
                "seed {seed}"
            );
        }
        let tls = tls_of(&r);
        assert_eq!(
            tls.handshakes_full + tls.handshakes_resumed,
            tls.handshake_ns.count
        );
        seen.extend(r.errors.into_keys());
        seen.extend((r.counts.ok > 0).then(|| "ok".to_owned()));
    }
    for outcome in ["ok", "tls", "closed", "reset", "timeout"] {
        assert!(seen.contains(outcome), "no {outcome} in {seen:?}");
    }
}

#[test]
fn tls_on_loopback() {
    good_handshakes(&Loopback);
    churn(&Loopback);
    bad_handshakes(&Loopback);
    protocols_disagree(&Loopback);
    http2(&Loopback);
    truncation(&Loopback);
}

#[test]
fn plain_and_encrypted_origins_share_a_loop() {
    struct Both(RandomPieces);
    impl SimServer for Both {
        fn connect(&mut self, now: u64, to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            self.0.connect(now, to)
        }
        fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
            vec![Step::Bytes(1_000, ok_response("plain"))]
        }
        fn bytes(&mut self, now: u64, stream: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
            match bytes.starts_with(b"GET ") {
                true => None,
                false => self.0.bytes(now, stream, bytes),
            }
        }
    }
    let (server, tls) = Server::new("server", 2100, Behaviour::Good);
    let mut s = of(tls);
    s.endpoints.extend(spec(&["http://server/"]).endpoints);
    let driver = SimDriver::new(Both(RandomPieces::new(&server, &Rng::new(1), 0)));
    let r = over(driver, &s, addr());
    assert_eq!(r.counts.ok, 40, "{:?}", r.errors);
    assert_eq!(tls_of(&r).handshake_ns.count, 2);
}

#[test]
fn decrypted_bytes_that_rustls_buffers_are_reported_at_once() {
    let (server, tls) = Server::new("server", 2100, Behaviour::Good);
    let s = of(tls);
    let origins = Targets::new(&s).unwrap().origins;
    let peers = peers(s.tls.as_ref().unwrap(), &origins).unwrap();
    let inner = SimDriver::new(RandomPieces::new(&server, &Rng::new(3), 0));
    let mut driver = TlsDriver::new(inner, peers);
    let mut ready: Vec<Ready> = Vec::new();
    driver.connect(0, addr()).unwrap();
    let mut now = driver.now();
    while driver.connected(0) == Err(Fault::WouldBlock) {
        now = driver.wait(now, now + MS, &mut ready);
    }
    driver.send(0, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // Everything has arrived before it is read, byte by byte.
    now = driver.now();
    driver.wait(now, now, &mut ready);
    let (mut got, mut byte, mut idle) = (Vec::new(), [0], 0);
    while got.len() < 20_000 && idle < 1_000 {
        now = driver.now();
        driver.wait(now, now + MS, &mut ready);
        match driver.recv(0, &mut byte) {
            Ok(n) => got.extend_from_slice(&byte[..n]),
            Err(fault) => {
                assert_eq!(fault, Fault::WouldBlock);
                idle += 1;
            }
        }
        if !got.is_empty() {
            assert!(!ready.is_empty(), "byte {} was not reported", got.len());
        }
    }
    assert!(
        got.len() >= 20_000,
        "{} bytes, {idle} idle turns",
        got.len()
    );
}

#[test]
fn errors_in_a_tls_specification_name_the_field_and_the_option() {
    let origins = Targets::new(&of(TlsSpec::default())).unwrap().origins;
    let error = |change: &dyn Fn(&mut TlsSpec)| {
        let mut spec = TlsSpec {
            insecure: true,
            ..TlsSpec::default()
        };
        change(&mut spec);
        peers(&spec, &origins).unwrap_err().to_string()
    };
    assert!(error(&|s| s.client_cert_pem = Some("x".into())).contains("client_key_pem"));
    let versions = error(&|s| {
        s.version_min = TlsVersion::V13;
        s.version_max = TlsVersion::V12;
    });
    assert!(versions.contains("no TLS version is left"), "{versions}");
    let ca = error(&|s| {
        s.insecure = false;
        s.ca_pem = Some("no pem".into());
    });
    assert!(ca.contains("--ca: found no certificate"), "{ca}");
    assert!(error(&|s| s.server_name = Some("a b".into())).contains("--server-name"));
    let plain = Targets::new(&spec(&["http://h/"])).unwrap().origins;
    let bad = TlsSpec {
        ca_pem: Some("no pem".into()),
        ..TlsSpec::default()
    };
    assert_eq!(
        peers(&bad, &plain).map(|p| p.len()),
        Ok::<usize, TlsError>(1)
    );
}
