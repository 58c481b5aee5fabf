//! The proofs of each mesh, and cases in which they must fail.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tare_local::envoy::install;
use tare_plan::mesh::{DataPlaneKind, Mesh, Placement};
use tare_records::layout::{CONFIG, LOGS};
use tare_records::record::ProxySettings;
use tare_records::trial::{Event, EventKind, Proof};
use tare_run::environment::{Deployed, Environment, Phase};
use tare_run::http as probe;

use crate::executable::executable;

use super::bench::{Bench, all_hold, bare, claims, envoy, is_running, placed, send, strict};

/// Checks that the configuration and the version of the generator's sidecar are saved, if it has
/// one.
fn assert_sidecar_settings_are_saved(config: &Path, meshed: bool) {
    let read = |name: &str| -> Option<ProxySettings> {
        let file = format!("generator-sidecar-{name}.json");
        let text = std::fs::read_to_string(config.join(file)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    };
    let dump = read("config_dump");
    assert_eq!(dump.is_some(), meshed);
    let Some(dump) = dump else { return };
    let names = &dump.settings["Listener.name"];
    let outbound = names.keys().filter(|name| name.starts_with("outbound"));
    assert!(outbound.count() > 0, "{names:?}");
    assert!(
        !names.contains_key("inbound"),
        "a generator's sidecar has no inbound listener: {names:?}"
    );
    let info = read("server_info").unwrap();
    assert_eq!(info.settings["state"]["LIVE"], 1);
    assert_eq!(info.settings["concurrency"].len(), 1);
}

/// Runs a trial from its deployment to its last proof, and checks that nothing is left afterwards.
async fn whole_trial(mesh: Mesh) -> Vec<Proof> {
    whole_trial_on(Bench::new(mesh, 2).await).await
}

async fn whole_trial_on(mut bench: Bench) -> Vec<Proof> {
    let access_log = bench.plan.meshes[0].settings.access_log;
    let mut deployment = bench.deploy().await;
    let mut proofs = bench
        .local
        .prove(&mut deployment, Phase::Before)
        .await
        .unwrap();
    all_hold(&proofs);
    send(&deployment, 5).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let after = loop {
        let phase = Phase::After { load_sent: 10 };
        let after = bench.local.prove(&mut deployment, phase).await.unwrap();
        let is_late = |e: &Event| e.kind == EventKind::ProxyConfigMissing;
        let (late, others): (Vec<_>, Vec<_>) = deployment.exited().into_iter().partition(is_late);
        assert_eq!(others, []);
        // A slow machine may exceed the time limit of a document.
        if late.is_empty() {
            break after;
        }
        assert!(Instant::now() < deadline, "{late:?}");
    };
    proofs.extend(after);
    all_hold(&proofs);
    let mesh = &bench.plan.meshes[0];
    let meshed = mesh.data_plane == DataPlaneKind::EnvoySidecar;
    let meshed = meshed && [Placement::Both, Placement::Client].contains(&mesh.settings.placement);
    assert_sidecar_settings_are_saved(&bench.folder(CONFIG), meshed);

    let watched = deployment.watched();
    assert!(
        watched.iter().all(|w| w.pid != std::process::id()),
        "tare itself must not be in the list, because the trial adds it"
    );
    let addresses: Vec<SocketAddr> = deployment
        .targets()
        .values()
        .map(|t| t.connect.parse().unwrap())
        .collect();
    assert_eq!(bench.local.teardown(deployment).await, []);
    for process in watched {
        assert!(!is_running(process.pid), "{} is left", process.name);
    }
    for address in addresses {
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} still accepts connections"
        );
    }
    let log = bench.folder(LOGS).join("shop-0-front-access.log");
    let logged = std::fs::read_to_string(log).unwrap_or_default();
    assert_eq!(logged.contains("GET / HTTP/1.1"), access_log, "{logged}");
    assert_no_private_keys(&bench.folder(CONFIG));
    assert_no_private_keys(&bench.folder(LOGS));
    let dir = bench.dir;
    assert_eq!(bench.local.close().await, []);
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|name| name != "trial")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    proofs
}

fn assert_no_private_keys(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(
            !text.contains("PRIVATE KEY"),
            "{} holds a key",
            path.display()
        );
    }
}

#[tokio::test]
async fn bare_has_no_proxy_in_any_path() {
    let proofs = whole_trial(bare()).await;
    assert_eq!(
        claims(&proofs),
        "no proxy is in the path of any call: 6 of 6\n"
    );
}

#[tokio::test]
async fn envoy_is_in_the_path_of_every_call() {
    let text = claims(&whole_trial(envoy()).await);
    assert!(
        text.contains("the sidecars of the caller and of the called service: 6 of 6"),
        "{text}"
    );
    assert!(
        text.contains("an inbound port accepts plain text: 6 of 6"),
        "{text}"
    );
    assert!(
        text.contains("carried the load: 10 requests, 10 sent"),
        "{text}"
    );
}

/// Requests of two fronts, five each: the size of each is at least that of its line and its Host header.
#[tokio::test]
async fn tcp_proxies_are_proven_by_their_connections_and_bytes() {
    for mesh in [envoy(), strict()] {
        let is_strict = mesh == strict();
        let text = claims(&whole_trial_on(Bench::tcp(mesh, 2, None).await).await);
        let before = "received the bytes of every call to a TCP service, and no HTTP proxy is in its \
                      path: 6 of 6";
        assert!(text.contains(before), "{text}");
        // No header shows a proxy or an identity.
        assert!(!text.contains("every call passes through"), "{text}");
        assert!(!text.contains("every call carries the identity"), "{text}");
        let tls = match is_strict {
            true => "an inbound port refuses plain text: 6 of 6",
            false => "an inbound port accepts plain text: 6 of 6",
        };
        assert!(text.contains(tls), "{text}");
        let least = "GET / HTTP/1.1\r\nHost: front.shop-0\r\n\r\n".len();
        for side in [
            "the generator's sidecar",
            "the sidecars of the called services",
        ] {
            let claim = format!(
                "{side} carried the load: its TCP proxies received the bytes of every request to a TCP \
                 service: "
            );
            let (_, seen) = text.split_once(&claim).unwrap_or_else(|| panic!("{text}"));
            let seen = seen.lines().next().unwrap();
            let bytes: usize = seen.split(' ').next().unwrap().parse().unwrap();
            // The exact size of what the test sends.
            assert!((10 * least..20 * least).contains(&bytes), "{seen}");
            let rest = format!(
                " bytes on 10 connections of TCP, and 0 requests of HTTP; 10 requests sent, those to TCP \
                 services of at least {least} bytes"
            );
            assert!(seen.contains(&rest), "{seen}");
        }
    }
}

/// Only one of three services has the protocol `tcp`.
#[tokio::test]
async fn http_and_tcp_are_proven_side_by_side() {
    let bench = Bench::tcp(strict(), 2, Some("back")).await;
    let text = claims(&whole_trial_on(bench).await);
    for claim in [
        "to HTTP services: every call passes through the sidecars of the caller and of the called \
         service: 4 of 4",
        "to HTTP services: every call carries the identity of the caller's certificate: 4 of 4",
        "and no HTTP proxy is in its path: 2 of 2",
        "an inbound port refuses plain text: 6 of 6",
        "carried the load: 10 requests, 10 sent",
    ] {
        assert!(text.contains(claim), "{claim:?} is missing in\n{text}");
    }
    let (_, hops) = text.split_once("reached one, and ").unwrap();
    assert!(hops.contains(" bytes of TCP left a sidecar"), "{text}");
}

#[tokio::test]
async fn only_the_planned_tcp_proxies_are_in_the_path() {
    // For each pod an inbound port and one for HTTP calls, and a port for each of 6 TCP calls.
    let listeners = 7 + 7 + 6;
    for placement in [Placement::Client, Placement::Server, Placement::Entry] {
        let bench = Bench::tcp(placed(placement), 2, None).await;
        let text = claims(&whole_trial_on(bench).await);
        let claim = format!(
            "on the planned side of each pod, and none on another: {listeners} of {listeners}"
        );
        assert!(text.contains(&claim), "{text}");
        assert!(
            text.contains("and no HTTP proxy is in its path: 6 of 6"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn load_that_bypasses_the_tcp_proxies_is_found() {
    let mut bench = Bench::tcp(envoy(), 1, None).await;
    let mut deployment = bench.deploy().await;
    let before = bench.local.prove(&mut deployment, Phase::Before).await;
    all_hold(&before.unwrap());
    // Send requests to the applications without any sidecar.
    let config = std::fs::read_to_string(bench.folder(CONFIG).join("shop-0-front.json")).unwrap();
    let protocol = tare_plan::graph::ServiceProtocol::Tcp;
    for _ in 0..3 {
        let response = probe::get_at(application(&config), protocol, None, "front.shop-0", "/");
        assert_eq!(response.await.unwrap().status, 200);
    }
    let phase = Phase::After { load_sent: 3 };
    let after = bench.local.prove(&mut deployment, phase).await.unwrap();
    let broken: Vec<&Proof> = after.iter().filter(|p| !p.holds).collect();
    assert_eq!(broken.len(), 2, "{after:?}");
    for proof in broken {
        assert!(
            proof.claim.contains("its TCP proxies received"),
            "{proof:?}"
        );
        let nothing = "0 bytes on 0 connections of TCP, and 0 requests of HTTP; 3 requests sent";
        assert!(proof.seen.starts_with(nothing), "{proof:?}");
    }
    bench.local.teardown(deployment).await;
}

#[tokio::test]
async fn only_the_planned_sides_are_in_the_path() {
    for (placement, sidecars, claim) in [
        (
            Placement::Client,
            5,
            "the sidecar of the caller and no other proxy: 6 of 6",
        ),
        (
            Placement::Server,
            6,
            "the sidecar of the called service and no other proxy: 6 of 6",
        ),
        (
            Placement::Entry,
            2,
            "no other call passes through a proxy: 6 of 6",
        ),
    ] {
        let text = claims(&whole_trial(placed(placement)).await);
        assert!(text.contains(claim), "{text}");
        // Both sides of 7 pods.
        let listeners = "on the planned side of each pod, and none on another: 14 of 14";
        assert!(text.contains(listeners), "{text}");
        let ready = format!("runs Envoy {}: {sidecars} of {sidecars}", install::VERSION);
        assert!(text.contains(&ready), "{text}");
        assert!(
            text.contains("carried the load: 10 requests, 10 sent"),
            "{text}"
        );
    }
}

/// A sidecar with a side that the placement does not have.
#[tokio::test]
async fn a_proxy_on_another_side_fails_the_proofs() {
    let mut bench = Bench::new(placed(Placement::Server), 1).await;
    let mut deployment = bench.deploy().await;
    let front = deployment.targets().values().next().unwrap();
    let mut outbound: std::net::SocketAddrV4 = front.connect.parse().unwrap();
    outbound.set_port(15001);
    let _held = std::net::TcpListener::bind(outbound).unwrap();
    let proofs = bench.local.prove(&mut deployment, Phase::Before).await;
    let proofs = proofs.unwrap();
    let broken: Vec<&Proof> = proofs.iter().filter(|p| !p.holds).collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].claim.contains("none on another"), "{broken:?}");
    let found = &broken[0].seen;
    assert!(
        found.contains("shop-0/front/outbound: something listens"),
        "{found}"
    );
    bench.local.teardown(deployment).await;
}

#[tokio::test]
async fn strict_mtls_accepts_only_the_callers() {
    let text = claims(&whole_trial(strict()).await);
    for claim in [
        "carries the identity of the caller's certificate: 6 of 6",
        "the certificate of a caller is accepted: 6 of 6",
        "an inbound port refuses plain text: 6 of 6",
        "TLS without a certificate is refused: 6 of 6",
        "a certificate with another identity is refused: 6 of 6",
        "the identity of a caller from another authority is refused: 6 of 6",
    ] {
        assert!(text.contains(claim), "{claim:?} is missing in\n{text}");
    }
}

/// The proofs also hold with fewer statistics and with an access log.
#[tokio::test]
async fn settings_of_the_mesh_are_applied() {
    let mut mesh = strict();
    mesh.settings.l7_stats = false;
    mesh.settings.access_log = true;
    mesh.settings.concurrency = 2;
    let text = claims(&whole_trial(mesh).await);
    assert!(
        text.contains("carried the load: 10 requests, 10 sent"),
        "{text}"
    );
}

/// The program that a mesh names is the one that runs, and no other.
#[tokio::test]
async fn a_mesh_runs_the_envoy_that_it_names() {
    let found = install::find(&install::Settings::from_env(false), None, None, &mut |_| {})
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (program, starts) = (dir.path().join("envoy"), dir.path().join("starts"));
    let script = format!(
        "#!/bin/sh\necho start >> {}\nexec {} \"$@\"\n",
        starts.display(),
        found.program.display()
    );
    executable(&program, &script);
    let mut mesh = envoy();
    let named = tare_plan::mesh::EnvoyProgram::new(program.to_str().unwrap());
    mesh.settings.envoy = Some(named.unwrap());
    let mut bench = Bench::new(mesh, 1).await;
    let mut deployment = bench.deploy().await;
    let before = Phase::Before;
    let proofs = bench.local.prove(&mut deployment, before).await.unwrap();
    all_hold(&proofs);
    let starts = std::fs::read_to_string(starts).unwrap();
    // Once for its version, then for the sidecars of three services and of the generator.
    assert_eq!(starts.lines().count(), 1 + 4);
    assert_eq!(bench.local.teardown(deployment).await, []);
}

/// A caller's sidecar does not send a request to a server whose certificate has another identity
/// than the expected one.
#[tokio::test]
async fn a_server_with_another_identity_is_refused() {
    let mut bench = Bench::new(strict(), 1).await;
    let deployment = bench.deploy().await;
    let config = bench.folder(CONFIG).join("generator.json");
    let config = std::fs::read_to_string(config).unwrap();
    let right = "spiffe://tare.local/ns/shop-0/sa/front";
    assert!(config.contains(right));
    let envoy = install::find(&install::Settings::from_env(false), None, None, &mut |_| {})
        .await
        .unwrap();
    for (port, identity, status) in [
        (15101, right, 200),
        (15102, "spiffe://tare.local/ns/shop-0/sa/back", 503),
    ] {
        let dir = bench.dir.path();
        let text = config
            .replace("15001", &port.to_string())
            .replace("/0.sock", &format!("/{port}.sock"))
            .replace(right, identity);
        let path = dir.join(format!("{port}.json"));
        std::fs::write(&path, text).unwrap();
        let mut proxy = tokio::process::Command::new(&envoy.program)
            .args([
                "--disable-hot-restart",
                "--log-level",
                "off",
                "--config-path",
            ])
            .arg(&path)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let target = deployment.targets().values().next().unwrap();
        let address: SocketAddr = target.connect.parse().unwrap();
        let address = format!("{}:{port}", address.ip()).parse().unwrap();
        let request = || {
            probe::get_at(
                address,
                tare_plan::graph::ServiceProtocol::Http,
                None,
                &target.authority,
                "/",
            )
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut response = request().await;
        while response.is_err() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            response = request().await;
        }
        assert_eq!(response.unwrap().status, status, "{identity}");
        proxy.kill().await.unwrap();
    }
    bench.local.teardown(deployment).await;
}

/// The address of the application in the configuration of its sidecar.
fn application(config: &str) -> std::net::SocketAddrV4 {
    let config: serde_json::Value = serde_json::from_str(config).unwrap();
    let endpoint = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    let endpoint = config.pointer(endpoint).unwrap();
    let ip = endpoint["address"].as_str().unwrap();
    format!("{ip}:{}", endpoint["port_value"]).parse().unwrap()
}

/// The proofs fail if the load bypasses the sidecars.
#[tokio::test]
async fn load_that_bypasses_the_sidecars_is_found() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    all_hold(
        &bench
            .local
            .prove(&mut deployment, Phase::Before)
            .await
            .unwrap(),
    );
    // Send requests directly to the application, at the IP address of its sidecar and its own port.
    let config = std::fs::read_to_string(bench.folder(CONFIG).join("shop-0-front.json")).unwrap();
    let address = application(&config);
    let protocol = tare_plan::graph::ServiceProtocol::Http;
    for _ in 0..3 {
        let response = probe::get_at(address, protocol, None, "front.shop-0", "/").await;
        assert_eq!(response.unwrap().status, 200);
    }
    let phase = Phase::After { load_sent: 3 };
    let after = bench.local.prove(&mut deployment, phase).await.unwrap();
    let broken: Vec<&str> = after
        .iter()
        .filter(|p| !p.holds)
        .map(|p| p.claim.as_str())
        .collect();
    assert_eq!(
        broken,
        [
            "the generator's sidecar carried the load",
            "the sidecars of the called services carried the load"
        ]
    );
    bench.local.teardown(deployment).await;
}
