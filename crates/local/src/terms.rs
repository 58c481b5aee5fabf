//! On which terms the proxies of a trial work, as far as it can be seen from outside: a comparison of proxies is fair only
//! if they are equal, or the difference is stated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use tare_plan::mesh::Mtls;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::pki_types::ServerName;

use super::LocalDeployment;
use super::echo::ECHO_PATH;
use super::identity;
use super::is_started_only;
use super::sockets;
use super::topology::{Pod, Sides};
use crate::envoy::config;
use tare_run::http::Tls;

/// How long a server may take to send what resumes a session.
const TICKET_WITHIN: Duration = Duration::from_millis(200);

/// The terms by name; none without proxies.
pub(super) async fn of(deployment: &LocalDeployment) -> BTreeMap<String, String> {
    let mut terms = BTreeMap::new();
    let sides = Sides::of(&deployment.mesh);
    if sides.0.is_none() || is_started_only(&deployment.mesh) {
        return terms;
    }
    let mut add = |name: &str, value: String| terms.insert(name.to_owned(), value);
    let settings = &deployment.mesh.settings;
    add("workers of a proxy", settings.concurrency.to_string());
    add(
        "access log",
        if settings.access_log { "on" } else { "off" }.to_owned(),
    );
    match settings.mtls {
        Mtls::Off | Mtls::Permissive => {
            add("TLS between pods", "none".to_owned());
        }
        Mtls::Strict | Mtls::Server => {
            if let Some((tls, sessions)) = tls(deployment).await {
                add("TLS between pods", tls);
                add("TLS sessions", sessions);
            }
        }
    }
    if deployment.namespaces.is_empty() {
        let pods = &deployment.topology.pods;
        let count = |of: &dyn Fn(&Pod) -> Option<SocketAddrV4>| {
            let addresses: BTreeSet<SocketAddr> =
                pods.iter().filter_map(|p| Some(of(p)?.into())).collect();
            let all = sockets::established().into_iter();
            all.filter(|to| addresses.contains(to)).count().to_string()
        };
        let inbound = |pod: &Pod| pod.has_inbound(sides).then(|| pod.inbound());
        let application = |pod: &Pod| pod.service.as_ref().map(|_| pod.application());
        add("open connections to proxies", count(&inbound));
        add("open connections to applications", count(&application));
    }
    terms
}

/// Version, cipher and key exchange of TLS at a called service, and whether it resumes a session.
async fn tls(deployment: &LocalDeployment) -> Option<(String, String)> {
    let is_mutual = deployment.mesh.settings.mtls == Mtls::Strict;
    let pods = deployment.topology.pods.iter().zip(&deployment.leaves);
    let mut called = pods.filter(|(pod, _)| !pod.is_outside() && !pod.callers.is_empty());
    let (pod, leaf) = called.next()?;
    let service = pod.service.as_ref()?;
    let caller = deployment.leaves.get(*pod.callers.first()?);
    let client = caller.filter(|_| is_mutual);
    let alpn = config::alpn(service.protocol);
    let config = identity::client(client, leaf.der(), alpn).ok()?;
    // Some servers send tickets with their first response only; with HTTP/2 they speak first.
    let request = match service.protocol.has_streams() {
        true => String::new(),
        false => format!(
            "GET {ECHO_PATH} HTTP/1.1\r\nHost: {}\r\n\r\n",
            service.authority()
        ),
    };
    let (first, _) = handshake(&config, pod.inbound(), &request).await?;
    let (_, kind) = handshake(&config, pod.inbound(), &request).await?;
    let sessions = match kind {
        Some(HandshakeKind::Resumed) => "resumed",
        _ => "not resumed",
    };
    Some((first, sessions.to_owned()))
}

async fn handshake(
    config: &Tls,
    at: SocketAddrV4,
    request: &str,
) -> Option<(String, Option<HandshakeKind>)> {
    let tcp = TcpStream::connect(at).await.ok()?;
    let name = ServerName::IpAddress((*at.ip()).into());
    let connected = TlsConnector::from(config.clone()).connect(name, tcp).await;
    let mut stream = connected.ok()?;
    let (_, connection) = stream.get_ref();
    let kind = connection.handshake_kind();
    let parts = [
        connection
            .protocol_version()
            .and_then(|v| v.as_str().map(str::to_owned)),
        connection
            .negotiated_cipher_suite()
            .and_then(|c| c.suite().as_str().map(str::to_owned)),
        connection
            .negotiated_key_exchange_group()
            .and_then(|g| g.name().as_str().map(str::to_owned)),
    ];
    let words: Vec<String> = parts.into_iter().flatten().collect();
    // Tickets of TLS 1.3 come after the handshake.
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut some = [0; 1024];
    let _ = tokio::time::timeout(TICKET_WITHIN, stream.read(&mut some)).await;
    Some((words.join(", "), kind))
}
