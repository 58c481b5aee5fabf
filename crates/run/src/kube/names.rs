//! Names and labels of everything that a run makes.

use serde_json::{Value, json};

/// Label of all objects of a run.
pub(super) const RUN: &str = "tare.run/id";
/// Label of all objects of a trial.
pub(super) const TRIAL: &str = "tare.run/trial";
/// Label and taint of a reserved node; its value is the run.
pub(super) const GENERATOR: &str = "tare.run/generator";
/// Label of a pod: what it is.
pub(super) const ROLE: &str = "tare.run/role";
/// Label of a pod: which instance.
pub(super) const INSTANCE: &str = "tare.run/instance";
/// Label of everything that tare makes.
pub(super) const MANAGED: &str = "app.kubernetes.io/managed-by";
/// Port of every application.
pub(super) const PORT: u16 = 8080;
/// Name of tare's container in each pod.
pub(super) const CONTAINER: &str = "tare";

/// Names of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    prefix: String,
    /// Short and unique: the value of [`RUN`].
    pub(super) run: String,
}

impl Names {
    /// `id` is that of the run's directory.
    pub(super) fn new(prefix: &str, id: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            run: short(id),
        }
    }

    /// The namespace that lives as long as the run, with its ledger.
    pub(super) fn base(&self) -> String {
        format!("{}-{}", self.prefix, self.run)
    }

    pub(super) fn of_trial(&self, index: u32) -> TrialNames {
        TrialNames {
            run: self.run.clone(),
            trial: format!("{index:03}"),
            base: format!("{}-{}-t{index:03}", self.prefix, self.run),
        }
    }
}

/// Names of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrialNames {
    pub(super) run: String,
    pub(super) trial: String,
    base: String,
}

impl TrialNames {
    pub(super) fn instance(&self, index: u32) -> String {
        format!("{}-{index}", self.base)
    }

    /// Namespace of the generators.
    pub(super) fn load(&self) -> String {
        format!("{}-load", self.base)
    }

    /// Namespace of the agents: never meshed.
    pub(super) fn agents(&self) -> String {
        format!("{}-agents", self.base)
    }

    pub(super) fn labels(&self) -> Value {
        json!({MANAGED: "tare", RUN: self.run, TRIAL: self.trial})
    }

    /// Selects all of the trial.
    pub(super) fn selector(&self) -> String {
        format!("{RUN}={},{TRIAL}={}", self.run, self.trial)
    }
}

/// Eight hexadecimal digits of a name.
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
    fn names_are_labels_and_different_for_each_run() {
        let names = Names::new("tare", "20260101-120000-quick");
        let trial = names.of_trial(7);
        let longest = names.of_trial(9_999).instance(999);
        assert!(longest.len() < 63, "{longest}");
        assert!(trial.load().starts_with(&names.base()));
        assert_ne!(names.run, Names::new("tare", "20260101-120001-quick").run);
        assert!(trial.selector().contains("tare.run/trial=007"));
    }
}
