//! Proofs that the mesh of a trial is in the path of every call, that mutual TLS protects every
//! call, and that `bare` has no proxy. Each negative check has a positive counterpart, so that a
//! broken part does not pass as a proof.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::ErrorKind;

use futures_util::future::join_all;
use tare_plan::mesh::{Mtls, Placement};
use tare_records::trial::Proof;
use tokio::net::TcpStream;

use super::LocalDeployment;
use super::carried;
use super::command;
use super::datastore;
use super::echo::{self, ECHO_PATH, Edge, Received};
use super::identity::{self, Authority, Leaf, spiffe_id};
use super::retries;
use super::stopped;
use super::topology::{Pod, PodService, Sides, Topology};
use crate::envoy::admin;
use crate::envoy::config;
use crate::envoy::config::{INBOUND, OUTBOUND, VIA_HEADER};
use tare_run::environment::{EnvironmentError, proof};
use tare_run::http as probe;
use tare_run::http::{ProbeError, Response, Tls};

/// Maximum number of failures that a proof lists.
const NAMED_MAX: usize = 3;
const CLIENT_CERTIFICATE_HEADER: &str = "x-forwarded-client-cert";

pub(super) async fn before(
    deployment: &mut LocalDeployment,
    authority: &Authority,
    version: &str,
) -> Result<Vec<Proof>, EnvironmentError> {
    let topology = &deployment.topology;
    let sides = Sides::of(&deployment.mesh);
    let before = carried::read(deployment).await;
    let threads = deployment.mesh.settings.concurrency;
    // Programs of the user have no echo.
    let (mut received, mut own) = (Vec::new(), Vec::new());
    match &deployment.own {
        Some(workload) => own = command::prove(deployment, workload).await,
        None => received = echo::all(topology, sides, threads).await,
    }
    let Some(placement) = sides.0 else {
        own.push(match deployment.own {
            Some(_) => listeners(topology, sides).await,
            None => no_proxy(topology, &received),
        });
        return Ok(own);
    };
    // A TCP proxy adds no header to a request.
    let to_tcp = |edge: &Edge| topology.pods[edge.to].is_tcp();
    let (tcp, received): (Vec<_>, Vec<_>) = received.into_iter().partition(to_tcp);
    let mut proofs = own;
    if deployment.mesh.proxy.is_none() {
        proofs.insert(0, sidecars_ready(deployment, version).await);
    }
    let by_stopping = deployment.is_proven_by_stopping();
    if by_stopping {
        proofs.extend(stopped::prove(deployment).await);
    } else if !received.is_empty() {
        proofs.push(through_sidecars(topology, placement, &received));
    }
    if !tcp.is_empty() && !by_stopping {
        proofs.push(carried::tcp_calls(deployment, &tcp, &before).await);
    }
    if !placement.is_both() || topology.pods.iter().any(Pod::is_outside) {
        proofs.push(listeners(topology, sides).await);
    }
    if deployment.mesh.feature.is_none() && deployment.own.is_none() {
        proofs.extend(retries::prove(topology, sides).await);
    }
    match deployment.mesh.settings.mtls {
        Mtls::Off | Mtls::Permissive => proofs.extend(plain(topology, sides, &received).await),
        Mtls::Strict => {
            if !received.is_empty() && !by_stopping {
                proofs.push(identities(topology, &received));
            }
            proofs.extend(strict(deployment, authority).await?);
        }
        Mtls::Server => proofs.extend(server_certificates(deployment).await?),
    }
    let LocalDeployment {
        features,
        topology,
        admins,
        ..
    } = deployment;
    proofs.extend(features.before(topology, admins).await);
    deployment.before = carried::read(deployment).await;
    Ok(proofs)
}

/// Proves that the sidecars carried the load, and that the features are on or off.
pub(super) async fn after(deployment: &LocalDeployment, load_sent: u64) -> Vec<Proof> {
    if deployment.is_proven_by_stopping() {
        return stopped::prove(deployment).await;
    }
    let mut proofs = carried::load(deployment, load_sent).await;
    if !proofs.is_empty() {
        proofs.extend(deployment.features.after(&deployment.admins).await);
    }
    proofs
}

async fn sidecars_ready(deployment: &LocalDeployment, version: &str) -> Proof {
    let asks = deployment.admins.iter().map(|(_, socket)| async move {
        let (ready, word) = admin::ready(socket).await?;
        Ok::<_, ProbeError>((ready, word, admin::version(socket).await?))
    });
    let answers = join_all(asks).await.into_iter();
    let checks = answers.map(|answer| match answer {
        Ok((true, _, found)) if found == version => Ok(None),
        Ok((true, _, found)) => Err(format!("runs version {found}")),
        Ok((false, word, _)) => Err(word),
        Err(error) => Err(error.to_string()),
    });
    let admins = deployment.admins.iter();
    let pods = admins.map(|(i, _)| &deployment.topology.pods[*i].name);
    let claim = format!("every sidecar is ready and runs Envoy {version}");
    all_pass(&claim, pods.zip(checks))
}

/// Checks each edge by what its server received. Edges to TCP services may be left out.
fn judge_edges(
    topology: &Topology,
    edges: &[Edge],
    claim: &str,
    wrong: impl Fn(&Pod, &Pod, &Received) -> Option<String>,
) -> Proof {
    let checks = edges.iter().map(|edge| {
        let (from, to) = (&topology.pods[edge.from], &topology.pods[edge.to]);
        let check = wrong_arrival(to, edge, |received| wrong(from, to, received));
        (format!("{} to {}", from.name, to.name), check)
    });
    let left_out = topology.pods.iter().any(Pod::is_tcp)
        && !edges.iter().any(|edge| topology.pods[edge.to].is_tcp());
    match left_out {
        true => all_pass(&format!("to HTTP services: {claim}"), checks),
        false => all_pass(claim, checks),
    }
}

/// Checks that a call arrived at its pod, without what is `wrong` with the received request.
pub(super) fn wrong_arrival(
    to: &Pod,
    edge: &Edge,
    wrong: impl Fn(&Received) -> Option<String>,
) -> Check {
    match &edge.received {
        Err(error) => Err(error.to_string()),
        Ok(received) if !received.is_of(to) => Err(format!("arrived at {}", received.pod())),
        Ok(received) => wrong(received).map_or(Ok(None), Err),
    }
}

fn through_sidecars(topology: &Topology, placement: Placement, edges: &[Edge]) -> Proof {
    let claim = match placement {
        Placement::Both => {
            "every call passes through the sidecars of the caller and of the called service"
        }
        Placement::Client => {
            "every call passes through the sidecar of the caller and no other proxy"
        }
        Placement::Server => {
            "every call passes through the sidecar of the called service and no other proxy"
        }
        Placement::Entry => {
            "every call of the generator passes through the sidecar of the called service and no other \
             proxy, and no other call passes through a proxy"
        }
    };
    let sides = Sides(Some(placement));
    judge_edges(topology, edges, claim, |from, to, received| {
        let outbound = sides
            .outbound()
            .then(|| format!("{}/{OUTBOUND}", from.name));
        let inbound = sides
            .inbound(from)
            .then(|| format!("{}/{INBOUND}", to.name));
        let expected: Vec<String> = outbound.into_iter().chain(inbound).collect();
        if expected.is_empty() {
            return received.sign_of_proxy();
        }
        let found = received.header(VIA_HEADER).unwrap_or("no sidecar");
        (found.replace(", ", ",") != expected.join(",")).then(|| format!("passed {found}"))
    })
}

/// Proves that sidecars listen on the sides of the placement, and that nothing listens on the other side.
async fn listeners(topology: &Topology, sides: Sides) -> Proof {
    let claim = match sides.0 {
        Some(_) => "a proxy listens on the planned side of each pod, and none on another",
        None => "no proxy listens in any pod",
    };
    let ports = topology.pods.iter().flat_map(|pod| {
        let planned = topology.routes(pod, sides);
        let outbound = topology.calls(pod).map(|call| call.outbound);
        let outbound: BTreeSet<_> = outbound.chain([pod.outbound()]).collect();
        let outbound = outbound.into_iter().map(move |address| {
            let is_planned = planned.iter().any(|route| route.listen == address);
            (pod, OUTBOUND, address, is_planned)
        });
        let inbound = (pod, INBOUND, pod.inbound(), pod.has_inbound(sides));
        [inbound].into_iter().chain(outbound)
    });
    let checks = ports.map(async |(pod, side, address, expected)| {
        let found = TcpStream::connect(address).await;
        let check = match (found, expected) {
            (Ok(_), true) => Ok(None),
            (Err(e), false) if e.kind() == ErrorKind::ConnectionRefused => Ok(None),
            (Ok(_), false) => Err("something listens".to_owned()),
            (Err(e), _) => Err(e.to_string()),
        };
        (format!("{}/{side}", pod.name), check)
    });
    all_pass(claim, join_all(checks).await)
}

fn identities(topology: &Topology, edges: &[Edge]) -> Proof {
    let claim = "every call carries the identity of the caller's certificate";
    judge_edges(topology, edges, claim, |from, _, received| {
        let found = received.header(CLIENT_CERTIFICATE_HEADER).unwrap_or("none");
        let uri = format!("URI={}", from.identity);
        let name = identity::name_of(&from.identity).unwrap_or_default();
        let subject = format!("Subject=\"CN={name}\"");
        let proven = found
            .split([',', ';'])
            .any(|part| part == uri || part == subject);
        (!proven).then(|| format!("identity {found}"))
    })
}

fn no_proxy(topology: &Topology, edges: &[Edge]) -> Proof {
    let claim = "no proxy is in the path of any call";
    judge_edges(topology, edges, claim, |_, _, received| {
        received.sign_of_proxy()
    })
}

/// Proves that TLS is off: no call carries an identity, and inbound ports accept plain text.
async fn plain(topology: &Topology, sides: Sides, edges: &[Edge]) -> Vec<Proof> {
    let mut proofs = Vec::new();
    if !edges.is_empty() {
        let claim = "no call carries an identity, because TLS is off";
        proofs.push(judge_edges(topology, edges, claim, |_, _, received| {
            received.headers.get(CLIENT_CERTIFICATE_HEADER).cloned()
        }));
    }
    let inbound = topology
        .services()
        .filter(|(pod, _)| pod.has_inbound(sides));
    let clients: Vec<_> = inbound.map(|(pod, service)| (pod, service, None)).collect();
    if !clients.is_empty() {
        let claim = "an inbound port accepts plain text";
        proofs.push(expect_answer(claim, attempts(clients).await));
    }
    proofs
}

/// Proves that only the expected identities are accepted.
async fn strict(
    deployment: &LocalDeployment,
    authority: &Authority,
) -> Result<Vec<Proof>, EnvironmentError> {
    let topology = &deployment.topology;
    let stranger = authority.issue(&spiffe_id("tare", "stranger"))?;
    let other = Authority::new()?;
    let (mut good, mut plain, mut without) = (Vec::new(), Vec::new(), Vec::new());
    let (mut wrong, mut forged) = (Vec::new(), Vec::new());
    for (pod, leaf) in topology.pods.iter().zip(&deployment.leaves) {
        let Some(service) = pod.service.as_ref().filter(|_| !pod.is_outside()) else {
            continue;
        };
        let with = |client: Option<&Leaf>| {
            let alpn = config::alpn(service.protocol);
            let tls = identity::client(client, leaf.der(), alpn)?;
            Ok::<_, EnvironmentError>((pod, service, Some(tls)))
        };
        plain.push((pod, service, None));
        without.push(with(None)?);
        wrong.push(with(Some(&stranger))?);
        // A service without callers has no identity to compare with.
        if let Some(&caller) = pod.callers.first() {
            let forgery = other.issue(&topology.pods[caller].identity)?;
            good.push(with(deployment.leaves.get(caller))?);
            forged.push(with(Some(&forgery))?);
        }
    }
    let refused = [
        ("an inbound port refuses plain text", plain),
        ("TLS without a certificate is refused", without),
        ("a certificate with another identity is refused", wrong),
        (
            "the identity of a caller from another authority is refused",
            forged,
        ),
    ];
    let claim = "the certificate of a caller is accepted";
    let mut proofs = vec![expect_answer(claim, attempts(good).await)];
    for (claim, clients) in refused {
        proofs.push(expect_refusal(claim, attempts(clients).await));
    }
    Ok(proofs)
}

/// Proves that every inbound port requires TLS, and asks for no certificate of the caller.
async fn server_certificates(deployment: &LocalDeployment) -> Result<Vec<Proof>, EnvironmentError> {
    let (mut plain, mut without) = (Vec::new(), Vec::new());
    let pods = deployment.topology.pods.iter();
    for (pod, leaf) in pods.zip(&deployment.leaves) {
        let Some(service) = pod.service.as_ref().filter(|_| !pod.is_outside()) else {
            continue;
        };
        let tls = identity::client(None, leaf.der(), config::alpn(service.protocol))?;
        plain.push((pod, service, None));
        without.push((pod, service, Some(tls)));
    }
    let accepted = "TLS without a certificate of the caller is accepted";
    let refused = "an inbound port refuses plain text";
    Ok(vec![
        expect_answer(accepted, attempts(without).await),
        expect_refusal(refused, attempts(plain).await),
    ])
}

type Attempt<'a> = (&'a str, Result<Response, ProbeError>);

/// Sends one request to the inbound port of each of these pods, to a real datastore in its own protocol.
async fn attempts<'a>(
    clients: impl IntoIterator<Item = (&'a Pod, &'a PodService, Option<Tls>)>,
) -> Vec<Attempt<'a>> {
    let asks = clients.into_iter().map(async |(pod, service, tls)| {
        let (protocol, authority) = (service.protocol, service.authority());
        let response = match service.store {
            Some(store) => datastore::answers(pod.inbound(), store, tls).await,
            None => probe::get_at(pod.inbound(), protocol, tls, &authority, ECHO_PATH).await,
        };
        (pod.name.as_str(), response)
    });
    join_all(asks).await
}

/// Any response except a 503 of the sidecar itself counts as accepted.
fn expect_answer(claim: &str, attempts: Vec<Attempt<'_>>) -> Proof {
    let check = |result| match result {
        Ok(Response { status: 503, .. }) => Err("status 503".to_owned()),
        Ok(_) => Ok(None),
        Err(error) => Err(ProbeError::to_string(&error)),
    };
    all_pass(
        claim,
        attempts
            .into_iter()
            .map(|(name, result)| (name, check(result))),
    )
}

/// Only a connection that was accepted and then closed without a response counts as refused.
fn expect_refusal(claim: &str, attempts: Vec<Attempt<'_>>) -> Proof {
    let check = |result| match result {
        Err(ProbeError::Refused(why)) => Ok(Some(why)),
        Err(error) => Err(error.to_string()),
        Ok(Response { status, .. }) => Err(format!("response with status {status}")),
    };
    all_pass(
        claim,
        attempts
            .into_iter()
            .map(|(name, result)| (name, check(result))),
    )
}

/// The result of a check: an example of an expected finding, or the unexpected finding.
pub(super) type Check = Result<Option<String>, String>;

/// Proves that all checks pass. Each has a name, for messages.
pub(super) fn all_pass(
    claim: &str,
    checks: impl IntoIterator<Item = (impl Display, Check)>,
) -> Proof {
    let (mut passed, mut example, mut failures) = (0, None, Vec::new());
    for (name, check) in checks {
        match check {
            Ok(found) => {
                passed += 1;
                example = example.or(found);
            }
            Err(found) => failures.push(format!("{name}: {found}")),
        }
    }
    let mut seen = format!("{passed} of {}", passed + failures.len());
    if let Some(example) = example {
        seen += &format!(" ({example})");
    }
    for failure in failures.iter().take(NAMED_MAX) {
        seen += &format!("; {failure}");
    }
    if failures.len() > NAMED_MAX {
        seen += &format!("; and {} more", failures.len() - NAMED_MAX);
    }
    // Without checks, nothing is proven.
    proof(claim, passed > 0 && failures.is_empty(), seen)
}
