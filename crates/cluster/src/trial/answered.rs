//! Proves that the user's application answers requests from where the load comes: from the namespace of the generators, in
//! the mesh like them. With strict mutual TLS only such a request is answered; and a policy of the application that refuses
//! the load would otherwise be measured as a mesh that fails.

use std::time::Duration;

use tare_records::probe::{ProbeAnswer, ProbeRequest, ProbeResult};

use super::deploy::Inputs;
use super::deployment::Deployment;
use super::pod_log::last_output;
use super::probe::{self, Place};
use crate::application::gets;
use crate::objects::Pod;
use tare_run::environment::EnvironmentError;
use tare_run::instances;

/// How long an endpoint of a ready application may fail.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The same with a sidecar, which starts at the same time as the probe.
const ANSWERS_WITH_SIDECAR_WITHIN: Duration = Duration::from_secs(30);
/// Time limit of one request to an endpoint.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 200;
/// Answer of an Envoy whose policy refuses a request. Linkerd answers with an empty body.
const REFUSED_BY_ENVOY: &str = "RBAC: access denied";

/// A request that must be allowed.
struct Asked {
    request: ProbeRequest,
    /// Namespace of its instance, and its service.
    namespace: String,
    service: String,
    /// Whether it is an endpoint of the load; otherwise any answer of the application will do.
    is_of_load: bool,
}

/// Requests each endpoint of the mix that a GET tests, and of services without one a path, from each instance.
pub(super) async fn prove(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let all = requests(inputs, deployment);
    let requests = all.iter().map(|asked| asked.request.clone()).collect();
    let join = deployment.join().cloned();
    let place = Place::OfGenerators(join.as_ref());
    let prober = &mut deployment.prober;
    let sent = prober.send_from(inputs.api, inputs.settings, place, requests, 0);
    let results = sent.await?;
    let has_mesh = deployment.section().is_some();
    for (asked, result) in all.iter().zip(&results) {
        if !is_allowed(result, asked.is_of_load, has_mesh) {
            return Err(error(inputs, deployment, asked, result).await);
        }
    }
    let count = results.len();
    deployment.answered = Some(format!("{count} of {count} requests were answered"));
    Ok(())
}

fn requests(inputs: Inputs<'_>, deployment: &Deployment) -> Vec<Asked> {
    let workload = inputs.workload();
    let within = match deployment.sidecar() {
        Some(_) => ANSWERS_WITH_SIDECAR_WITHIN,
        None => ANSWERS_WITHIN,
    };
    let mut all = Vec::new();
    for index in 0..deployment.instances {
        let instance = instances::name(&workload.graph, index);
        for (service, front) in &deployment.fronts {
            let key = (instance.clone(), service.clone());
            let Some(target) = deployment.targets.get(&key) else {
                continue;
            };
            let of_load = gets(workload).filter(|e| e.service == *service);
            let mut paths: Vec<(&str, bool)> = of_load.map(|e| (e.path.as_str(), true)).collect();
            if paths.is_empty() {
                paths.push((&front.path, false));
            }
            all.extend(paths.into_iter().map(|(path, is_of_load)| {
                let (address, host) = (target.connect.clone(), target.authority.clone());
                let request = probe::get(address, host, path, ANSWER_WITHIN, ANSWER_BYTES_MAX);
                Asked {
                    request: ProbeRequest {
                        retry_ns: within.as_nanos() as u64,
                        ..request
                    },
                    namespace: deployment.names.instance(index),
                    service: service.clone(),
                    is_of_load,
                }
            }));
        }
    }
    all
}

/// Whether a request was let through. The answer to a path that is not of the load may be any of
/// the application's, but not that of a proxy whose policy refuses it, or that has no upstream.
fn is_allowed(result: &ProbeResult, is_of_load: bool, has_mesh: bool) -> bool {
    match result {
        Ok(ProbeAnswer { status, .. }) if is_of_load => *status < 400,
        Ok(ProbeAnswer { status, body, .. }) => {
            let is_refusal = body.trim().is_empty() || body.contains(REFUSED_BY_ENVOY);
            let is_of_proxy = (502..=504).contains(status) || (*status == 403 && is_refusal);
            !(has_mesh && is_of_proxy)
        }
        Err(_) => false,
    }
}

async fn error(
    inputs: Inputs<'_>,
    deployment: &Deployment,
    asked: &Asked,
    result: &ProbeResult,
) -> EnvironmentError {
    let front = deployment.fronts.get(&asked.service);
    let mut pods = deployment.pods.iter();
    let pod = pods.find(|pod| {
        pod.namespace() == asked.namespace && front.is_some_and(|front| front.has(pod))
    });
    let own = pod.and_then(|pod| {
        let all = pod.containers();
        let own = all.iter().find(|c| pod.is_own(c.name()))?;
        Some((pod, own.name().to_owned()))
    });
    let output = match own {
        Some((pod, container)) => last_output(inputs.api, pod, &container).await,
        None => String::new(),
    };
    let title = pod.map_or_else(|| asked.service.clone(), Pod::title);
    let (path, words) = (&asked.request.path, probe::words(result));
    let mut found = format!("GET {path}: {words}{output}");
    let is_refused = match result {
        Ok(answer) => answer.status == 403,
        Err(_) => true,
    };
    if is_refused {
        let namespace = deployment.names.load();
        found += &format!(
            "; the request came from the namespace of the generators, {namespace}, as the load does: if a policy of the \
             application refuses it, allow that namespace (in Istio `namespaces: [\"{}-*\"]`, in a NetworkPolicy the label \
             `app.kubernetes.io/managed-by: tare`), or add the policy to `exclude`",
            inputs.settings.namespace_prefix
        );
    }
    EnvironmentError::start(title, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::probe::{FailureKind, ProbeFailure};

    #[test]
    fn a_refusal_by_a_policy_is_not_an_answer_of_the_application() {
        let with = |status, body: &str| {
            Ok(ProbeAnswer {
                status,
                body: body.to_owned(),
                is_cut: false,
                unix_ns: 0,
            })
        };
        let of = |status| with(status, "");
        for has_mesh in [true, false] {
            assert!(is_allowed(&of(200), true, has_mesh) && is_allowed(&of(302), true, has_mesh));
            for status in [403, 404, 500, 503] {
                assert!(!is_allowed(&of(status), true, has_mesh), "{status}");
            }
        }
        for (status, body, expected) in [
            (404, "", true),
            (405, "", true),
            (500, "", true),
            (403, "", false),
            (403, "RBAC: access denied", false),
            // Spring Security.
            (403, "{\"status\":403,\"error\":\"Forbidden\"}", true),
            (503, "", false),
        ] {
            let answer = with(status, body);
            assert_eq!(
                is_allowed(&answer, false, true),
                expected,
                "{status} {body}"
            );
            assert!(
                is_allowed(&answer, false, false),
                "{status} {body}: no mesh"
            );
        }
        let reset = Err(ProbeFailure {
            kind: FailureKind::Reset,
            found: String::new(),
        });
        for has_mesh in [true, false] {
            assert!(!is_allowed(&reset, true, has_mesh) && !is_allowed(&reset, false, has_mesh));
        }
    }
}
