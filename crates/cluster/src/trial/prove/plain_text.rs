//! Proves how the application treats plain text. A probe, which is outside the mesh, sends requests to the application's
//! port. Strict mutual TLS must refuse them; otherwise they must be answered.
//!
//! A refusal proves something only if the same probe reaches the pod at all. So it also requests the statistics of the
//! pod's own proxy, or of the proxy of its node, which serve plain text: the *control*.

use std::time::Duration;

use tare_records::probe::{FailureKind, ProbeRequest, ProbeResult};
use tare_records::trial::Proof;

use super::super::deployment::Deployment;
use super::super::probe;
use super::counters::{Statistics, unreachable};
use crate::application::Front;
use crate::objects::Pod;
use tare_run::environment::proof;

/// Maximum number of pods of the called services that receive a request in plain text.
const PODS_MAX: usize = 2;
/// Time limit of a request to a server of tare.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// Time limit of a request to the application of the user, which may be slow.
const ANSWER_OF_USER_WITHIN: Duration = Duration::from_secs(30);
const BODY_BYTES_MAX: usize = 200;

/// The pods that receive a request, each with its service and its address.
fn tested(deployment: &Deployment) -> Vec<(&Pod, &Front, String)> {
    let pods = deployment.pods.iter();
    let pods = pods.filter_map(|pod| {
        let front = deployment.front(pod)?;
        Some((pod, front, pod.address(front.port_of(pod)?)?))
    });
    pods.take(PODS_MAX).collect()
}

/// Returns the requests in plain text.
pub(super) fn requests(deployment: &Deployment) -> Vec<ProbeRequest> {
    let request = |(pod, front, address): (&Pod, &Front, String)| {
        let within = match front.of_user {
            true => ANSWER_OF_USER_WITHIN,
            false => ANSWER_WITHIN,
        };
        let host = deployment.authority(pod);
        probe::get(address, host, &front.path, within, BODY_BYTES_MAX)
    };
    tested(deployment).into_iter().map(request).collect()
}

/// What became of a request in plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    Refused,
    /// Neither: the request failed for a reason that is not the peer's.
    Failed,
}

/// A proxy with strict mutual TLS refuses with the status 403, resets or closes the connection, or does not respond.
/// Servers of tare answer this request with 200, the application of the user with any status.
fn outcome(result: &ProbeResult, of_user: bool, is_strict: bool) -> Outcome {
    match result {
        Ok(answer) if is_strict && answer.status == 403 => Outcome::Refused,
        Ok(answer) if of_user || (200..300).contains(&answer.status) => Outcome::Answered,
        Ok(_) => Outcome::Refused,
        Err(failure) if failure.kind == FailureKind::Other => Outcome::Failed,
        Err(_) => Outcome::Refused,
    }
}

/// Returns the proof from the results of [`requests`] and the statistics that the same probe read.
pub(super) fn prove(
    deployment: &Deployment,
    results: &[ProbeResult],
    statistics: &Statistics,
) -> Proof {
    let is_strict = deployment.is_strict();
    let tested = tested(deployment);
    let of = |(pod, front, _): &(&Pod, &Front, String), result: &ProbeResult| {
        let words = format!("{}: {}", pod.title(), probe::words(result));
        (outcome(result, front.of_user, is_strict), words)
    };
    let outcomes: Vec<(Outcome, String)> =
        tested.iter().zip(results).map(|(t, r)| of(t, r)).collect();
    let count = |wanted| outcomes.iter().filter(|(o, _)| *o == wanted).count();
    let (answered, refused) = (count(Outcome::Answered), count(Outcome::Refused));
    let failed = count(Outcome::Failed);
    let mut seen = match outcomes.is_empty() {
        true => "found no pod of the called services with an address and a port".to_owned(),
        false => format!("{answered} answered, {refused} refused"),
    };
    if failed > 0 {
        seen += &format!(", {failed} failed");
    }
    if let Some((_, first)) = outcomes.iter().find(|(o, _)| *o != Outcome::Answered) {
        seen += &format!(" ({first})");
    }
    if !is_strict {
        let holds = answered == outcomes.len() && answered > 0;
        if !holds && results.iter().all(Result::is_err) && statistics.none_answered() {
            seen += &format!("; {}", unreachable(&deployment.names));
        }
        return proof("plain text from outside the mesh is answered", holds, seen);
    }
    let controls = tested
        .iter()
        .map(|(pod, ..)| control(deployment, pod, statistics));
    let controls: Result<Vec<String>, String> = controls.collect();
    let reached = controls.is_ok();
    let control = controls.map_or_else(Some, |all| all.into_iter().next());
    if let Some(control) = control {
        seen += &format!("; {control}");
    }
    let holds = reached && refused == outcomes.len() && refused > 0;
    proof("plain text from outside the mesh is refused", holds, seen)
}

/// Returns what the control of a pod answered, or why a refusal by the pod proves nothing.
fn control(deployment: &Deployment, pod: &Pod, statistics: &Statistics) -> Result<String, String> {
    let Some(source) = deployment.section().and_then(|s| s.proof.as_ref()) else {
        return Err(
            "not proven: nothing shows that the probe pod reaches other pods, because the mesh has no `proof`; \
             add the port and the path of its proxies' statistics"
                .to_owned(),
        );
    };
    let (result, of) = match source.of_node_proxies {
        false => (statistics.of_pod(&pod.key()), "its proxy".to_owned()),
        true => {
            let of = format!("the node proxy on {}", pod.node());
            (statistics.on_node(pod.node()), of)
        }
    };
    let port = source.port;
    match result {
        Some(Ok(answer)) => Ok(format!(
            "the same probe pod reached port {port} of {of}: status {}",
            answer.status
        )),
        Some(Err(failure)) => Err(format!(
            "not proven: the same probe pod did not reach port {port} of {of} either ({}); {}",
            failure.found,
            unreachable(&deployment.names)
        )),
        None => Err(format!(
            "not proven: found no address of {of}, expected one to show that the probe pod reaches other pods"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::probe::{ProbeAnswer, ProbeFailure};

    #[test]
    fn an_error_of_the_users_application_is_an_answer_in_plain_text() {
        let status = |status| {
            Ok(ProbeAnswer {
                status,
                body: String::new(),
                is_cut: false,
                unix_ns: 0,
            })
        };
        for is_strict in [false, true] {
            for code in [200, 404, 503] {
                let of_user = outcome(&status(code), true, is_strict);
                assert_eq!(of_user, Outcome::Answered, "{code}");
            }
            assert_eq!(outcome(&status(503), false, is_strict), Outcome::Refused);
            assert_eq!(outcome(&status(200), false, is_strict), Outcome::Answered);
        }
        assert_eq!(outcome(&status(403), true, true), Outcome::Refused);
        let answered = outcome(&status(403), true, false);
        assert_eq!(answered, Outcome::Answered, "no proxy refuses");
    }

    #[test]
    fn a_missing_route_is_not_a_refusal() {
        let failure = |kind| {
            Err(ProbeFailure {
                kind,
                found: String::new(),
            })
        };
        for kind in [
            FailureKind::Refused,
            FailureKind::Reset,
            FailureKind::Timeout,
            FailureKind::NotHttp,
        ] {
            assert_eq!(outcome(&failure(kind), true, true), Outcome::Refused);
        }
        let other = outcome(&failure(FailureKind::Other), true, true);
        assert_eq!(other, Outcome::Failed);
    }
}
