//! Names and labels of all objects that a run creates.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels or annotations of an object.
pub(crate) type Labels = BTreeMap<String, String>;

/// Label of all objects of a run.
pub(crate) const RUN: &str = "tare.run/id";
/// Label of all objects of a trial.
pub(crate) const TRIAL: &str = "tare.run/trial";
/// Label of the namespace of `tare observe` and `tare doctor --deep`, which install nothing, beside [`RUN`].
pub(crate) const OBSERVATION: &str = "tare.run/observation";
/// Label and taint of the node that is reserved for generators; its value is the run.
pub(crate) const GENERATOR: &str = "tare.run/generator";
/// Label of a pod: `application`, `generator`, `agent`, `probe`, `node-check`, `server` or `watcher`.
pub(crate) const ROLE: &str = "tare.run/role";
/// Label of a pod: the instance of the application.
pub(crate) const INSTANCE: &str = "tare.run/instance";
/// Label of a pod whose service has several replicas: their number.
pub(crate) const REPLICAS: &str = "tare.run/replicas";
/// Label of a pod of the user's application: the object that it belongs to, such as a Deployment.
pub(crate) const SERVICE_LABEL: &str = "tare.run/service";
/// Annotation of a pod of the user's application: the names of its own containers, without those of a mesh.
pub(crate) const OWN_CONTAINERS: &str = "tare.run/containers";
/// Label of all objects that tare creates.
pub(crate) const MANAGED: &str = "app.kubernetes.io/managed-by";
/// Port of every application.
pub(crate) const PORT: u16 = 8080;
/// Name of tare's container in each pod.
pub(crate) const CONTAINER: &str = "tare";

/// The name of a manifest.
pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Whether labels or annotations have all wanted ones.
pub(crate) fn has_labels(labels: &Labels, wanted: &Labels) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

/// Labels of an object of a run.
pub(crate) fn run_labels(run: &str) -> Labels {
    with(Labels::new(), &[(MANAGED, "tare"), (RUN, run)])
}

/// These labels and more.
pub(crate) fn with(mut labels: Labels, more: &[(&str, &str)]) -> Labels {
    let more = more.iter();
    labels.extend(more.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    labels
}

/// Names of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    prefix: String,
    /// Value of [`RUN`]: eight hexadecimal digits.
    pub(crate) run: String,
}

impl Names {
    /// Names of the run with this id, the name of its directory.
    pub(crate) fn new(prefix: &str, id: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            run: short(id),
        }
    }

    /// Names of the run whose ledger is in this namespace.
    pub(crate) fn of_namespace(namespace: &str) -> Self {
        let (prefix, run) = namespace.rsplit_once('-').unwrap_or(("tare", namespace));
        Self {
            prefix: prefix.to_owned(),
            run: run.to_owned(),
        }
    }

    /// The run's own namespace, which holds its ledger.
    pub(crate) fn namespace(&self) -> String {
        format!("{}-{}", self.prefix, self.run)
    }

    /// Label selector of the objects of all trials.
    pub(crate) fn trials_selector(&self) -> String {
        format!("{RUN}={},{TRIAL}", self.run)
    }

    pub(crate) fn trial(&self, index: u32) -> TrialNames {
        TrialNames {
            run: self.run.clone(),
            trial: format!("{index:03}"),
            base: format!("{}-{}-t{index:03}", self.prefix, self.run),
        }
    }
}

/// Names of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialNames {
    pub(crate) run: String,
    pub(crate) trial: String,
    base: String,
}

impl TrialNames {
    /// Namespace of an instance of the application.
    pub(crate) fn instance(&self, index: u32) -> String {
        format!("{}-{index}", self.base)
    }

    /// Namespace of the generators.
    pub(crate) fn load(&self) -> String {
        format!("{}-load", self.base)
    }

    /// Namespace with some of the services without pods.
    pub(crate) fn churn(&self, index: u32) -> String {
        format!("{}-churn-{index}", self.base)
    }

    /// Namespace of the agents and the probes, which is never part of a mesh.
    pub(crate) fn agents(&self) -> String {
        format!("{}-agents", self.base)
    }

    pub(crate) fn labels(&self) -> Labels {
        with(run_labels(&self.run), &[(TRIAL, &self.trial)])
    }

    /// Label selector of all objects of the trial.
    pub(crate) fn selector(&self) -> String {
        format!("{RUN}={},{TRIAL}={}", self.run, self.trial)
    }
}

/// Hashes an id to eight hexadecimal digits.
///
/// Source: Fowler, Noll, Vo; FNV-1a, 32 bits.
fn short(id: &str) -> String {
    let hash = id.bytes().fold(0x811c_9dc5_u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_labels_and_differ_between_runs() {
        let names = Names::new("tare", "20260101-120000-quick");
        let trial = names.trial(7);
        let longest = names.trial(9_999).instance(999);
        assert!(longest.len() < 63, "{longest}");
        assert!(trial.load().starts_with(&names.namespace()));
        assert_ne!(names.run, Names::new("tare", "20260101-120001-quick").run);
        assert!(trial.selector().contains("tare.run/trial=007"));
    }
}
