//! Observes an installed mesh under the cluster's own traffic. It only reads; to read the counters of the proxies, it
//! creates one pod at a time in a namespace of its own.

mod find;
mod requests;
mod state;
mod usage;

use std::collections::BTreeSet;
use std::time::Duration;

use tare_plan::KubernetesSettings;
use tare_plan::mesh::MeshParts;
use tare_records::observation::Observation;
use tokio::sync::watch;

use self::requests::Counters;
use self::state::State;
use super::api::kinds::{
    CONFIG_MAP, NAMESPACE, NODE_PROXY, POD, POD_LOG, SECRET, pull_secrets_role_yaml, rule_yaml,
};
use super::api::kubeconfig;
use tare_run::environment::EnvironmentError;

/// What to observe.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the parts of the meshes run that may be installed.
    pub parts: Vec<MeshParts>,
    /// Namespaces whose sidecars are observed; empty for all.
    pub namespaces: Vec<String>,
    /// How long to observe.
    pub duration: Duration,
    /// Whether to read the request counters of the sidecars, from a probe pod.
    pub requests: bool,
}

/// How far an observation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observing {
    /// Time since the first values.
    pub elapsed: Duration,
    /// Number of observed containers.
    pub containers: usize,
    /// Number of nodes with such containers.
    pub nodes: usize,
}

/// Returns the role that an observation needs, as YAML for `kubectl apply -f -`.
#[must_use]
pub fn observe_role_yaml(settings: &KubernetesSettings, requests: bool) -> String {
    let mut text = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-observe\nrules:\n",
    );
    let list = ["list"].as_slice();
    let mut rules = vec![(NODE_PROXY, NODE_PROXY.verbs, NODE_PROXY.why)];
    if !requests {
        rules.push((POD, list, "finds the pods of the mesh"));
    } else {
        let why = "finds the pods of the mesh; the namespaces and pods that read the counters of the proxies";
        rules.extend([POD, NAMESPACE, CONFIG_MAP, POD_LOG].map(|kind| (kind, kind.verbs, why)));
        if !settings.image_pull_secrets.is_empty() {
            rules.push((SECRET, SECRET.verbs, SECRET.why));
        }
    }
    text.extend(
        rules
            .iter()
            .map(|(kind, verbs, why)| rule_yaml(kind, verbs, why)),
    );
    if requests {
        text += &pull_secrets_role_yaml(settings, "tare-observe-pull-secrets");
    }
    text
}

/// Reads CPU and memory of the installed meshes from the kubelets. Ends early, with the result until then, when `stop`
/// becomes true.
///
/// # Errors
/// If the cluster or all kubelets do not respond, no part of a mesh is found, or the observed time is too short.
pub async fn observe(
    settings: &KubernetesSettings,
    options: &Options,
    mut stop: watch::Receiver<bool>,
    progress: &mut dyn FnMut(Observing),
) -> Result<Observation, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let found = find::find(&api, options).await?;
    let mut state = State::new(found);
    if state.found.is_empty() {
        return Err(nothing_found(options));
    }
    let mut counters = match options.requests {
        true => Some(Counters::begin(&api, settings, state.sources(options)?).await?),
        false => None,
    };
    let observed = state
        .watch(&api, options, counters.as_mut(), &mut stop, progress)
        .await;
    if let Some(counters) = &mut counters {
        state.notes.append(&mut counters.notes);
        state.notes.extend(counters.end().await);
    }
    if let Err(error) = observed {
        // What could not be removed must not be lost with the values.
        state.notes.insert(0, error.to_string());
        return Err(EnvironmentError::start(
            "the observation",
            state.notes.join("; "),
        ));
    }
    state.result(kubeconfig::server(settings)?, counters.as_ref())
}

fn nothing_found(options: &Options) -> EnvironmentError {
    let sidecars = options.parts.iter().filter_map(|p| p.sidecar.as_deref());
    let sidecars: BTreeSet<&str> = sidecars.collect();
    let sidecars: Vec<&str> = sidecars.into_iter().collect();
    let place = match options.namespaces.is_empty() {
        true => String::new(),
        false => format!(" in {}", options.namespaces.join(", ")),
    };
    EnvironmentError::missing(
        format!(
            "found no part of a mesh: no running pod{place} has a container {}, and no control plane runs where it is \
             expected",
            sidecars.join(" or ")
        ),
        "name the sidecar with --sidecar CONTAINER, and the control plane with --control-plane NAMESPACE/SELECTOR",
    )
}
