//! The features of sidecars with real Envoys: each is on in its own trial and off in that of plain
//! sidecars.

use tare_plan as plan;
use tare_plan::Plan;
use tare_plan::mesh::Mesh;
use tare_records::trial::Proof;
use tare_records::worker::Plane;
use tare_run::environment::{Deployed, Environment, Phase};

use super::bench::{Bench, all_hold, claims, envoy, send};

/// Requests of a test.
const REQUESTS: u32 = 10;

/// The proxies of this workload have HTTP/2 without the feature, because one of its services has gRPC.
const HTTP2: &str = "features/http2";

/// The built-in plan, with the features of the others.
fn shipped() -> Plan {
    let plan = |name: &str| {
        let text = plan::builtin(name).unwrap().text;
        plan::resolve(name, text, &[], &|_| Err(String::new())).unwrap()
    };
    let mut shipped = plan("features");
    for mesh in ["tls", "extensions"]
        .map(plan)
        .into_iter()
        .flat_map(|p| p.meshes)
    {
        if shipped.meshes.iter().all(|m| m.name != mesh.name) {
            shipped.meshes.push(mesh);
        }
    }
    shipped
}

fn shipped_mesh(name: &str) -> Mesh {
    let meshes = shipped().meshes;
    meshes.into_iter().find(|m| m.name == name).unwrap()
}

/// The proofs of a trial with `mesh`, in a plan that has all features of the shipped one.
async fn proofs(mesh: Mesh) -> Vec<Proof> {
    let services = mesh.feature.as_ref().map_or(0, |f| f.services.len());
    let mut bench = Bench::new(mesh, 1).await;
    let others = shipped().meshes.into_iter();
    bench.plan.meshes.extend(others.filter(|m| m.name != HTTP2));
    let trial = tare_plan::trial::order(&bench.plan);
    let own = |t: &&tare_plan::trial::TrialSpec| t.mesh == bench.plan.meshes[0];
    let trial = trial.iter().find(own).unwrap().clone();
    let dir = bench.dir.path().join("trial");
    let mut deployment = bench.local.deploy(&bench.plan, &trial, &dir).await.unwrap();
    let watched = deployment.watched();
    let of_services = watched.iter().filter(|w| w.plane == Plane::ControlPlane);
    assert_eq!(of_services.count(), services, "they are no proxies");
    let before = Phase::Before;
    let mut proofs = bench.local.prove(&mut deployment, before).await.unwrap();
    send(&deployment, REQUESTS).await;
    let load_sent = u64::from(REQUESTS);
    let after = Phase::After { load_sent };
    proofs.extend(bench.local.prove(&mut deployment, after).await.unwrap());
    assert_eq!(deployment.exited(), []);
    assert_eq!(bench.local.teardown(deployment).await, []);
    proofs
}

async fn is_on(name: &str) -> String {
    let proofs = proofs(shipped_mesh(name)).await;
    all_hold(&proofs);
    let of_feature = |p: &Proof| p.claim.contains("is on: ");
    assert!(proofs.iter().any(of_feature), "{name}");
    claims(&proofs)
}

/// Checks that a proof has `claim` in its claim, and exactly `seen` as what was seen.
fn assert_line(text: &str, claim: &str, seen: &str) {
    let seen = format!(": {seen}");
    let found = |line: &str| line.strip_suffix(&seen).is_some_and(|c| c.contains(claim));
    assert!(
        text.lines().any(found),
        "{claim:?}, {seen:?} not in\n{text}"
    );
}

/// Checks that there is a proof with `claim` in its claim.
fn assert_claim(text: &str, claim: &str) {
    assert!(text.contains(claim), "{claim:?} not in\n{text}");
}

#[tokio::test]
async fn all_features_are_off_in_plain_sidecars() {
    let proofs = proofs(envoy()).await;
    all_hold(&proofs);
    let text = claims(&proofs);
    let priced = shipped().meshes;
    let priced = priced.iter().filter_map(|m| Some((m, m.feature.as_ref()?)));
    let mut off = 0;
    for (mesh, _) in priced.filter(|(m, feature)| !feature.is_nothing() && m.name != HTTP2) {
        assert_claim(&text, &format!("the feature of {} is off: ", mesh.name));
        off += 1;
    }
    assert!(off >= 25, "{off} features");
    assert_line(
        &text,
        "features/rbac-1000-last is off",
        "GET /denied: 404, 200, 404; http.inbound.rbac.allowed is 0",
    );
    assert_claim(&text, "features/jwt is off: GET /: 200, 200, 404; ");
    assert_line(
        &text,
        "features/workers-4 is off",
        "server.concurrency is 1, 1, 1, 1",
    );
}

#[tokio::test]
async fn the_thousandth_rule_decides() {
    let text = is_on("features/rbac-1000-last").await;
    assert_line(&text, "GET /denied is answered with 403", "403, 403, 403");
    assert_line(
        &text,
        "rbac.allowed grows with each request",
        "grew by 30 over 30 requests",
    );
}

#[tokio::test]
async fn a_token_without_its_signature_is_refused() {
    let text = is_on("features/jwt").await;
    assert_line(&text, "GET / is answered with 401", "401, 401, 401");
    assert_line(
        &text,
        "jwt_authn.allowed grows with each request",
        "grew by 30 over 30 requests",
    );
    let tokens = text.lines().filter(|l| l.contains("authorization: Bearer"));
    assert_eq!(tokens.count(), 2, "{text}");
}

#[tokio::test]
async fn services_of_features_are_called() {
    let text = is_on("features/ext-authz").await;
    assert_line(&text, "the service authorizer is called", "30 calls");
    let text = is_on("features/tracing-100").await;
    assert_claim(&text, "spans_sent grows");
    assert_claim(&text, "the service collector is called");
}

#[tokio::test]
async fn features_of_both_listeners_are_on() {
    let text = is_on("features/access-log-json").await;
    // 3 services and the generator: 3 inbound and 3 outbound passes of each request.
    assert_line(
        &text,
        "write_buffered grows with each request",
        "grew by 60 over 60 requests",
    );
    is_on("features/route-histograms").await;
    is_on("features/routes-1000").await;
}

#[tokio::test]
async fn features_of_clusters_and_settings_are_on() {
    let text = is_on("features/tls").await;
    assert_line(
        &text,
        "TLS without a certificate of the caller is accepted",
        "3 of 3",
    );
    assert_claim(&text, "an inbound port refuses plain text: 3 of 3 (");
    let text = is_on("features/retries").await;
    assert_line(&text, "GET /refused is answered with 503", "503, 503, 503");
    is_on(HTTP2).await;
    is_on("features/workers-2").await;
}

#[tokio::test]
async fn forms_of_tls_are_on() {
    is_on("features/mtls-1.2").await;
    is_on("features/mtls-post-quantum").await;
    let text = is_on("features/mtls-new").await;
    assert_claim(&text, "ssl.session_reused grows");
    is_on("features/mtls-new-full").await;
    is_on("features/mtls-new-post-quantum").await;
}

#[tokio::test]
async fn code_of_others_is_on() {
    is_on("features/lua").await;
    let text = is_on("features/ext-proc").await;
    // Two services of HTTP and one of gRPC: headers of request and response.
    assert_claim(&text, "the service processor is called");
    is_on("features/ext-proc-bodies").await;
}

/// The proofs fail if the configuration lacks the feature.
#[tokio::test]
async fn a_feature_that_is_not_in_the_configuration_is_found() {
    let mut mesh = shipped_mesh("features/rbac-1000-last");
    let feature = mesh.feature.as_mut().unwrap();
    feature.inbound.filters.clear();
    let proofs = proofs(mesh).await;
    let broken = proofs.iter().filter(|p| !p.holds);
    let broken: Vec<&str> = broken.map(|p| p.seen.as_str()).collect();
    // The gRPC service answers an unknown method with its status in a header.
    assert_eq!(broken, ["404, 200, 404", "grew by 0 over 30 requests"]);
}

/// The proofs fail if a feature is on in the trial of the baseline.
#[tokio::test]
async fn a_feature_that_is_on_in_plain_sidecars_is_found() {
    let mut mesh = envoy();
    mesh.settings.concurrency = 2;
    mesh.settings.access_log = true;
    let proofs = proofs(mesh).await;
    let broken = proofs.iter().filter(|p| !p.holds);
    let broken: Vec<&str> = broken.map(|p| p.claim.as_str()).collect();
    let expected = ["access-log-text", "access-log-json", "workers-2"];
    assert_eq!(
        broken,
        expected.map(|name| format!("the feature of features/{name} is off"))
    );
}
