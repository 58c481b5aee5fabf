//! Requests that the sidecars received, by their own counters, which a probe pod reads several times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tare_model::mesh::{ProofSource, sum_of_counters};
use tare_model::observation::{Part, Requests};
use tare_model::plan::KubernetesSettings;

use super::find::Found;
use super::usage::{Usages, estimate};
use crate::environment::EnvironmentError;
use crate::kube::api::kinds::NAMESPACE;
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::ledger::delete_namespaces;
use crate::kube::objects::manifests;
use crate::kube::objects::names::{MANAGED, Names, RUN};
use crate::kube::sampling::readings::ContainerKey;
use crate::kube::trial::Events;
use crate::kube::trial::probe::{self, Prober};
use crate::now::unix_ns;

/// Number of times between two readings of the counters, and the shortest such time.
pub(super) const TIMES: u32 = 10;
pub(super) const TIME_MIN: Duration = Duration::from_secs(20);
/// Time limit of a request for counters, and maximum size of the counters of one sidecar.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const LINES_BYTES_MAX: usize = 256 << 10;

/// Requests so far, by container of a sidecar.
type Counts = BTreeMap<ContainerKey, f64>;

/// The namespaces of the probe pods of an observation, and the readings of the counters.
pub(super) struct Counters<'a> {
    api: &'a ApiClient,
    settings: &'a KubernetesSettings,
    sources: BTreeMap<String, ProofSource>,
    names: Names,
    prober: Prober,
    readings: Vec<(i64, Counts)>,
    pub(super) notes: Vec<String>,
}

impl<'a> Counters<'a> {
    /// Creates the namespaces. `sources` has the counters by name of the sidecar container.
    pub(super) async fn begin(
        api: &'a ApiClient,
        settings: &'a KubernetesSettings,
        sources: BTreeMap<String, ProofSource>,
    ) -> Result<Self, ApiError> {
        let names = Names::new(
            &settings.namespace_prefix,
            &format!("observe-{}", unix_ns()),
        );
        let of_probes = names.trial(0);
        let counters = Self {
            api,
            settings,
            sources,
            prober: Prober::new(of_probes.clone(), Events::default()),
            names,
            readings: Vec::new(),
            notes: Vec::new(),
        };
        // `tare clean` finds an interrupted observation by this namespace.
        let own = json!({MANAGED: "tare", RUN: counters.names.run});
        for (name, labels) in [
            (counters.names.namespace(), own),
            (of_probes.agents(), of_probes.labels()),
        ] {
            let namespace = manifests::namespace(&name, labels, None, false);
            if let Err(error) = api.apply(NAMESPACE, &namespace).await {
                let _ = counters.end().await;
                return Err(error);
            }
        }
        Ok(counters)
    }

    /// Reads the counters of all sidecars.
    pub(super) async fn read(
        &mut self,
        found: &BTreeMap<ContainerKey, Found>,
    ) -> Result<(), EnvironmentError> {
        let mut keys = Vec::new();
        let mut requests = Vec::new();
        for (key, sidecar) in found.iter().filter(|(_, f)| f.part == Part::Sidecars) {
            let Some((source, address)) = self
                .sources
                .get(&key.2)
                .and_then(|s| Some((s, sidecar.address(s.port)?)))
            else {
                continue;
            };
            let host = address.clone();
            let mut request =
                probe::get(address, host, &source.path, ANSWER_WITHIN, LINES_BYTES_MAX);
            request.counters = Some(source.counters.clone());
            requests.push(request);
            keys.push((key.clone(), source.counters.clone()));
        }
        let total = requests.len();
        let results = self.prober.send(self.api, self.settings, requests).await?;
        let mut counts = Counts::new();
        let mut failed = None;
        for ((key, counters), result) in keys.into_iter().zip(&results) {
            match result {
                Ok(answer) if answer.status == 200 => {
                    counts.insert(key, sum_of_counters(&answer.body, &counters));
                }
                other => failed = Some((key, probe::words(other))),
            }
        }
        if let Some((key, why)) = failed.filter(|_| self.notes.is_empty()) {
            self.notes.push(format!(
                "{} of {total} sidecars gave no counters, such as {}/{}: {why}",
                total - counts.len(),
                key.0,
                key.1
            ));
        }
        self.readings.push((unix_ns() as i64, counts));
        Ok(())
    }

    /// Removes the namespaces. Returns what could not be removed.
    pub(super) async fn end(&self) -> Vec<String> {
        match delete_namespaces(self.api, &format!("{RUN}={}", self.names.run)).await {
            Ok(events) => events.iter().map(ToString::to_string).collect(),
            Err(error) => vec![format!("not removed: {error}; run `tare clean`")],
        }
    }

    /// Requests and CPU per request of these sidecars; absent if they have no counters.
    pub(super) fn of(
        &self,
        keys: &BTreeSet<&ContainerKey>,
        usages: &Usages,
        (from, until): (i64, i64),
    ) -> Option<Requests> {
        of(&self.readings, keys, usages, (from, until))
    }
}

fn of(
    readings: &[(i64, Counts)],
    keys: &BTreeSet<&ContainerKey>,
    usages: &Usages,
    (from, until): (i64, i64),
) -> Option<Requests> {
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for pair in readings.windows(2) {
        let [(start, before), (end, after)] = pair else {
            continue;
        };
        if *start < from || *end > until {
            continue;
        }
        // A counter that went back belongs to a sidecar that has started again.
        let grown: Vec<(&ContainerKey, f64)> = keys
            .iter()
            .filter_map(|key| Some((*key, after.get(*key)? - before.get(*key)?)))
            .filter(|(_, growth)| *growth >= 0.0)
            .collect();
        if grown.is_empty() {
            continue;
        }
        let requests: f64 = grown.iter().map(|(_, growth)| growth).sum();
        let rate = requests * 1e9 / (end - start) as f64;
        rates.push(rate);
        if requests > 0.0 {
            let cores = usages.cores(grown.iter().map(|(key, _)| *key), &[(*start, *end)]);
            costs.push(cores[0] / rate * 1000.0);
        }
    }
    (!rates.is_empty()).then(|| Requests {
        per_second: estimate(rates),
        cpu_cores_per_krps: (!costs.is_empty()).then(|| estimate(costs)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::sampling::readings::ContainerReading;

    const S: i64 = 1_000_000_000;

    fn key(pod: &str) -> ContainerKey {
        ("n".into(), pod.into(), "istio-proxy".into())
    }

    #[test]
    fn cpu_is_that_of_the_sidecars_that_were_counted_at_both_readings() {
        let mut usages = Usages::default();
        for t in (1000..=1120).step_by(10) {
            for (pod, cores) in [("a", 0.5), ("b", 0.25)] {
                let reading = ContainerReading {
                    unix_ns: t * S,
                    started_unix_ns: 10 * S,
                    cpu_ns: ((t - 10) as f64 * cores * 1e9) as u64,
                    working_set_bytes: None,
                    rss_bytes: None,
                };
                usages.add(&key(pod), reading);
            }
        }
        let counts =
            |all: &[(&str, f64)]| -> Counts { all.iter().map(|(pod, n)| (key(pod), *n)).collect() };
        let readings = [
            // Before the first reading of the CPU: left out.
            (990 * S, counts(&[("a", 0.0), ("b", 0.0)])),
            (1000 * S, counts(&[("a", 5000.0), ("b", 100.0)])),
            // b did not answer.
            (1030 * S, counts(&[("a", 8000.0)])),
            (1060 * S, counts(&[("a", 11_000.0), ("b", 200.0)])),
            // b has started again.
            (1090 * S, counts(&[("a", 14_000.0), ("b", 10.0)])),
            (1120 * S, counts(&[("a", 17_000.0), ("b", 1510.0)])),
        ];
        let (a, b) = (key("a"), key("b"));
        let of = |keys: &[&ContainerKey]| {
            of(
                &readings,
                &keys.iter().copied().collect(),
                &usages,
                (1000 * S, 1120 * S),
            )
        };
        let close = |found: &[f64], expected: &[f64]| {
            let near = |(x, y): (&f64, &f64)| (x - y).abs() < 1e-6;
            assert!(
                found.len() == expected.len() && found.iter().zip(expected).all(near),
                "{found:?}"
            );
        };
        let both = of(&[&a, &b]).unwrap();
        close(&both.per_second.runs, &[100.0, 100.0, 100.0, 150.0]);
        close(
            &both.cpu_cores_per_krps.unwrap().runs,
            &[5.0, 5.0, 5.0, 5.0],
        );
        let b = of(&[&b]).unwrap();
        close(&b.per_second.runs, &[50.0]);
        close(&b.cpu_cores_per_krps.unwrap().runs, &[5.0]);
        assert_eq!(of(&[&key("c")]), None);
    }

    #[test]
    fn sidecars_without_requests_have_no_cost() {
        let readings = [
            (0, Counts::from([(key("a"), 7.0)])),
            (20 * S, Counts::from([(key("a"), 7.0)])),
        ];
        let found = of(
            &readings,
            &[&key("a")].into(),
            &Usages::default(),
            (0, 20 * S),
        )
        .unwrap();
        assert_eq!(
            (found.per_second.value, found.cpu_cores_per_krps),
            (0.0, None)
        );
    }
}
