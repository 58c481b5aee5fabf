//! Proxies that a mesh file describes, as sidecars: their configuration, how they start, what they count.

mod package;

use std::fs;
use std::path::Path;

use regex::Regex;
use tare_plan::mesh::{
    InboundValues, Mtls, OutboundValues, ProxyCounters, ProxyPlaces, ProxyProgram, SidecarValues,
    TlsValues,
};
use tare_records::layout;
use tare_records::process::sidecar_of;
use tare_records::worker::Plane;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::deploy::part::{Part, Role};
use super::deploy::parts::access_log;
use super::identity::{Authority, Leaf, name_of};
use super::topology::{Pod, Sides, is_configured};
use super::{Local, LocalDeployment, command, program};
use crate::envoy::admin::Carried;
use crate::envoy::config::{INBOUND, OUTBOUND};
use tare_run::environment::EnvironmentError;
use tare_run::http::{self as probe, Limits, ProbeError};

pub(super) use package::{Found, find};

/// A name that no certificate has, for a sidecar that nobody calls.
const NOBODY: &str = "nobody.invalid";

/// The sidecars of a mesh: one in each pod that has a side with a proxy.
pub(super) fn sidecars(
    local: &Local,
    deployment: &mut LocalDeployment,
    proxy: &ProxyProgram,
    dir: &Path,
    at: usize,
) -> Result<Vec<Part>, EnvironmentError> {
    let found = local.proxies.get(proxy.program());
    let found = found.filter(|_| proxy.package.is_some());
    let own = |found: &Found| {
        let name = proxy.program();
        program::own(local.scratch.path(), &found.program, name, at)
    };
    let copy = found.map(own).transpose()?;
    let copy = copy.map(|path| path.display().to_string());
    let has_tls = deployment.mesh.settings.mtls == Mtls::Strict;
    let sides = Sides::of(&deployment.mesh);
    let logs = dir.join(layout::LOGS);
    let mut parts = Vec::new();
    for index in 0..deployment.topology.pods.len() {
        let pod = deployment.topology.pods[index].clone();
        // One for each pod, in the order of the pods.
        let leaf = has_tls.then(|| local.authority.issue(&pod.identity));
        let leaf = leaf.transpose()?;
        if pod.has_sidecar(sides) {
            let name = pod.file_name();
            let own = deployment.scratch.path().join(format!("{index}-sidecar"));
            fs::create_dir(&own)
                .map_err(EnvironmentError::io("create a directory for a sidecar"))?;
            let mark = own.display().to_string();
            let places = ProxyPlaces {
                listen: &pod.inbound().to_string(),
                upstream: &pod.application().to_string(),
                dir: &mark,
                name: &name,
            };
            if proxy.is_configured() {
                let tls = leaf.as_ref();
                let tls = tls.map(|leaf| certificate(&local.authority, leaf, &own));
                let values = values(deployment, &pod, &mark, &logs, tls.transpose()?);
                write_files(deployment, proxy, &values, &own, &name)?;
            }
            if let Some(counters) = &proxy.counters {
                let socket = places.fill(&counters.socket).into();
                deployment.admins.push((index, socket));
            }
            let mut env = command::env(&mark);
            env.extend(found.and_then(Found::library_path));
            parts.push(Part {
                name: sidecar_of(&pod.name),
                plane: match pod.service {
                    Some(_) => Plane::DataPlane,
                    None => Plane::GeneratorProxy,
                },
                log: logs.join(format!("{name}-sidecar.log")),
                role: Role::Proxy {
                    run: proxy.run(copy.as_deref(), &places),
                    env,
                    mark,
                    listens: listens(deployment, &pod),
                },
                namespace: deployment.namespaces.get(&pod.ip).cloned(),
            });
        }
        deployment.leaves.extend(leaf);
    }
    Ok(parts)
}

/// The addresses on which the sidecar of a pod listens.
fn listens(deployment: &LocalDeployment, pod: &Pod) -> Vec<std::net::SocketAddrV4> {
    let sides = Sides::of(&deployment.mesh);
    let inbound = pod.has_inbound(sides).then(|| pod.inbound());
    let routes = match is_configured(&deployment.mesh) {
        true => deployment.topology.routes(pod, sides),
        false => Vec::new(),
    };
    inbound
        .into_iter()
        .chain(routes.into_iter().map(|r| r.listen))
        .collect()
}

/// Writes the certificate of a sidecar into its directory.
fn certificate(
    authority: &Authority,
    leaf: &Leaf,
    own: &Path,
) -> Result<TlsValues, EnvironmentError> {
    let files = authority.write(leaf, own, "sidecar")?;
    let both = own.join("sidecar.pem");
    tare_files::create_private(&both, leaf.pem().as_bytes())
        .map_err(EnvironmentError::io("write a certificate"))?;
    let path = |path: &Path| path.display().to_string();
    Ok(TlsValues {
        certificate: path(&files.certificate),
        key: path(&files.key),
        both: path(&both),
        authority: path(&files.authority),
    })
}

fn values(
    deployment: &LocalDeployment,
    pod: &Pod,
    dir: &str,
    logs: &Path,
    tls: Option<TlsValues>,
) -> SidecarValues {
    let (topology, mesh) = (&deployment.topology, &deployment.mesh);
    let sides = Sides::of(mesh);
    let service = pod.service.as_ref().filter(|_| pod.has_inbound(sides));
    let inbound = service.map(|service| {
        let callers = pod.callers.iter().map(|&i| &topology.pods[i].identity);
        let mut callers: Vec<String> = callers.filter_map(|id| name_of(id)).collect();
        // The replicas of a caller have the same name.
        callers.dedup();
        if callers.is_empty() {
            callers.push(NOBODY.to_owned());
        }
        InboundValues {
            listen: pod.inbound().to_string(),
            application: pod.application().to_string(),
            protocol: service.protocol,
            callers,
        }
    });
    let routes = topology.routes(pod, sides).into_iter();
    let outbound = routes.map(|route| OutboundValues {
        tls: tls.is_some() && route.identity.is_some(),
        service: route.authority,
        listen: route.listen.to_string(),
        protocol: route.protocol,
        servers: route.addresses.iter().map(ToString::to_string).collect(),
    });
    SidecarValues {
        name: pod.name.clone(),
        dir: dir.to_owned(),
        workers: mesh.settings.concurrency,
        access_log: mesh
            .settings
            .access_log
            .then(|| access_log(logs, pod).display().to_string()),
        inbound,
        outbound: outbound.collect(),
        tls,
    }
}

/// Writes the configuration of a sidecar into its directory, and beside the results of the trial. It contains paths of keys, never
/// keys.
fn write_files(
    deployment: &LocalDeployment,
    proxy: &ProxyProgram,
    values: &SidecarValues,
    own: &Path,
    name: &str,
) -> Result<(), EnvironmentError> {
    let rendered = proxy.render(values);
    let rendered = rendered.map_err(|e| EnvironmentError::start(name, e))?;
    for (file, text) in rendered {
        for path in [
            own.join(file),
            deployment.config.join(format!("{name}-{file}")),
        ] {
            let doing = format!("write {}", path.display());
            fs::write(&path, &text).map_err(EnvironmentError::io(doing))?;
        }
    }
    Ok(())
}

/// Asks a sidecar what it has carried. One that does not tell its sides apart counts as inbound if it has that side.
pub(super) async fn carried(
    counters: &ProxyCounters,
    socket: &Path,
    has_inbound: bool,
) -> Result<Carried, ProbeError> {
    let text = answer(counters, socket).await?;
    let sum = |pattern: &Option<String>| match pattern {
        Some(pattern) => sum_of_matches(pattern, &text),
        None => Ok(0),
    };
    let (mut inbound, mut outbound) = (sum(&counters.inbound)?, sum(&counters.outbound)?);
    match has_inbound {
        true => inbound += sum(&counters.all)?,
        false => outbound += sum(&counters.all)?,
    }
    Ok(Carried::of_requests([
        (INBOUND, inbound),
        (OUTBOUND, outbound),
    ]))
}

async fn answer(counters: &ProxyCounters, socket: &Path) -> Result<String, ProbeError> {
    let mut stream = UnixStream::connect(socket).await?;
    if let Some(path) = &counters.get {
        let response = probe::get(stream, "sidecar", path, Limits::PROOF).await?;
        return match response.status {
            200 => Ok(response.text()),
            status => Err(ProbeError::Answer(format!("{path}: status {status}"))),
        };
    }
    let sent = counters.send.clone().unwrap_or_default() + "\n";
    let exchange = async {
        stream.write_all(sent.as_bytes()).await?;
        let mut text = String::new();
        let most = Limits::PROOF.body_bytes_max as u64;
        stream.take(most).read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    match tokio::time::timeout(Limits::PROOF.within, exchange).await {
        Ok(text) => Ok(text?),
        Err(_) => Err(ProbeError::Answer(format!(
            "no answer to {:?}",
            sent.trim()
        ))),
    }
}

/// The sum of the first groups of all matches.
fn sum_of_matches(pattern: &str, text: &str) -> Result<u64, ProbeError> {
    let wrong = |found: String| ProbeError::Answer(format!("the pattern `{pattern}` {found}"));
    let regex = Regex::new(&format!("(?m){pattern}")).map_err(|e| wrong(e.to_string()))?;
    let mut found = regex.captures_iter(text).peekable();
    if found.peek().is_none() {
        return Ok(0);
    }
    let number = |captures: regex::Captures<'_>| captures.get(1)?.as_str().parse::<u64>().ok();
    let numbers: Option<Vec<u64>> = found.map(number).collect();
    let numbers = numbers.ok_or_else(|| wrong("has no group with a number".to_owned()))?;
    Ok(numbers.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    #[test]
    fn numbers_of_all_matches_are_added() {
        let text =
            "# name,side,n\noutbound_1,FRONTEND,12\noutbound_2,FRONTEND,30\nto_1,BACKEND,5\n";
        let sum = |pattern: &str| sum_of_matches(pattern, text).map_err(|e| e.to_string());
        assert_eq!(sum(r"^outbound_\d+,FRONTEND,(\d+)"), Ok(42));
        assert_eq!(sum(r"^inbound,FRONTEND,(\d+)"), Ok(0));
        assert!(sum(r"^outbound_1,(\w+)").is_err());
        assert!(sum("(").is_err());
    }

    #[tokio::test]
    async fn a_proxy_is_asked_on_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut sent = [0; 10];
            stream.read_exact(&mut sent).await.unwrap();
            stream.write_all(b"in 3\nout 4\n").await.unwrap();
            String::from_utf8(sent.to_vec()).unwrap()
        });
        let pattern = |side: &str| Some(format!("^{side} (\\d+)"));
        let counters = ProxyCounters {
            socket: String::new(),
            send: Some("show stat".to_owned()),
            get: None,
            inbound: pattern("in"),
            outbound: pattern("out"),
            all: None,
        };
        let carried = carried(&counters, &socket, true).await.unwrap();
        assert_eq!(serving.await.unwrap(), "show stat\n");
        let of = |side| carried.of(side).requests;
        assert_eq!((of(INBOUND), of(OUTBOUND)), (3, 4));
    }
}
