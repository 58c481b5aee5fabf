//! Requests that the sidecars received, by their own counters, which a probe pod reads several times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tare_plan::KubernetesSettings;
use tare_plan::mesh::ProofSource;
use tare_records::observation::{Part, Requests};
use tare_records::probe::ProbeResult;
use tokio::time::Instant;

use super::find::ObservedContainer;
use super::usage::{Usages, ratio};
use crate::api::kinds::NAMESPACE;
use crate::api::{ApiClient, ApiError};
use crate::ledger::delete_namespaces;
use crate::objects::manifests;
use crate::objects::names::{Names, OBSERVATION, RUN, run_labels, with};
use crate::sampling::readings::ContainerKey;
use crate::trial::probe;
use crate::trial::probe::Prober;
use crate::trial::{Events, pull_secrets};
use tare_files::unix_ns;

/// Number of times between two readings of the counters, and the shortest such time.
pub(super) const TIMES: u32 = 10;
pub(super) const TIME_MIN: Duration = Duration::from_secs(20);
/// Time limit of a request for counters.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of an answer, which is one number.
const NUMBER_BYTES_MAX: usize = 64;
/// Maximum number of sidecars that one probe pod asks: a ConfigMap holds their addresses.
const SIDECARS_MAX: usize = 1000;

/// When a counter was read, in nanoseconds of Unix time, and the requests so far; by container of a sidecar.
type Counts = BTreeMap<ContainerKey, (i64, f64)>;

/// The namespaces of the probe pods of an observation, and the readings of the counters.
pub(super) struct Counters<'a> {
    api: &'a ApiClient,
    settings: &'a KubernetesSettings,
    sources: BTreeMap<String, ProofSource>,
    names: Names,
    prober: Prober,
    /// When the last reading began.
    last: Option<Instant>,
    attempts: u32,
    readings: Vec<Counts>,
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
            last: None,
            attempts: 0,
            readings: Vec::new(),
            notes: Vec::new(),
        };
        // `tare clean` finds an interrupted observation by this namespace.
        let own = with(run_labels(&counters.names.run), &[(OBSERVATION, "true")]);
        let own = manifests::namespace(&counters.names.namespace(), own, None, false);
        let labels = manifests::namespace_labels(&of_probes, settings);
        let probes = manifests::namespace(&of_probes.agents(), labels, None, false);
        let created = async {
            api.apply(NAMESPACE, &own).await?;
            api.apply(NAMESPACE, &probes).await?;
            pull_secrets::copy(api, settings, &of_probes.labels(), &[of_probes.agents()]).await
        };
        if let Err(error) = created.await {
            let _ = counters.end().await;
            return Err(error);
        }
        Ok(counters)
    }

    /// Time since the last reading began; `None` before the first one.
    pub(super) fn since_last(&self) -> Option<Duration> {
        self.last.map(|last| last.elapsed())
    }

    /// Whether the counters were read, or could not be read, two times.
    pub(super) fn has_interval(&self) -> bool {
        self.attempts > 1
    }

    /// Reads the counters of these sidecars. An error is a note: the observation goes on.
    pub(super) async fn read<'k>(
        &mut self,
        found: impl Iterator<Item = (&'k ContainerKey, &'k ObservedContainer)>,
    ) {
        self.last = Some(Instant::now());
        self.attempts += 1;
        let mut keys = Vec::new();
        let mut requests = Vec::new();
        for (key, sidecar) in found.filter(|(_, f)| f.part == Part::Sidecars) {
            let Some((source, address)) = self
                .sources
                .get(&key.2)
                .and_then(|s| Some((s, sidecar.address(s.port)?)))
            else {
                continue;
            };
            let host = address.clone();
            let mut request =
                probe::get(address, host, &source.path, ANSWER_WITHIN, NUMBER_BYTES_MAX);
            request.counters = Some(source.counters.clone());
            request.is_sum = true;
            requests.push(request);
            keys.push(key.clone());
        }
        let total = requests.len();
        let mut counts = Counts::new();
        let mut failed = None;
        for (keys, requests) in keys.chunks(SIDECARS_MAX).zip(requests.chunks(SIDECARS_MAX)) {
            let sent = self
                .prober
                .send(self.api, self.settings, requests.to_vec(), 0);
            let results = match sent.await {
                Ok(results) => results,
                Err(error) => {
                    self.notes
                        .push(format!("a reading of the counters failed: {error}"));
                    return;
                }
            };
            for (key, result) in keys.iter().zip(&results) {
                match count(result) {
                    Some(counted) => {
                        counts.insert(key.clone(), counted);
                    }
                    None => failed = Some((key.clone(), probe::words(result))),
                }
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
        self.readings.push(counts);
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

/// The time and the number of an answer; `None` if it is not complete.
fn count(result: &ProbeResult) -> Option<(i64, f64)> {
    let answer = result.as_ref().ok()?;
    let is_good = answer.status == 200 && !answer.is_cut;
    let number = answer.body.parse().ok().filter(|_| is_good)?;
    Some((i64::try_from(answer.unix_ns).ok()?, number))
}

fn of(
    readings: &[Counts],
    keys: &BTreeSet<&ContainerKey>,
    usages: &Usages,
    (from, until): (i64, i64),
) -> Option<Requests> {
    let (mut seconds, mut requests, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for pair in readings.windows(2) {
        let [before, after] = pair else {
            continue;
        };
        let (mut count, mut used, mut time, mut sidecars) = (0.0, 0.0, 0.0, 0.0);
        for key in keys {
            let Some(((start, first), (end, last))) = before.get(*key).zip(after.get(*key)) else {
                continue;
            };
            // A counter that went back belongs to a sidecar that has started again.
            if *start < from || *end > until || end <= start || last < first {
                continue;
            }
            let seconds = (end - start) as f64 / 1e9;
            count += last - first;
            used += usages.cores(std::iter::once(*key), &[(*start, *end)])[0] * seconds;
            time += seconds;
            sidecars += 1.0;
        }
        if sidecars > 0.0 {
            seconds.push(time / sidecars);
            requests.push(count);
            cpu.push(used);
        }
    }
    let per_second = ratio(&requests, &seconds)?;
    let thousands: Vec<f64> = requests.iter().map(|n| n / 1000.0).collect();
    Some(Requests {
        per_second,
        cpu_cores_per_krps: ratio(&cpu, &thousands),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::readings::ContainerReading;
    use tare_records::probe::ProbeAnswer;

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
        let counts = |t: i64, all: &[(&str, f64)]| -> Counts {
            all.iter().map(|(pod, n)| (key(pod), (t * S, *n))).collect()
        };
        let readings = [
            // Before the first reading of the CPU: left out.
            counts(990, &[("a", 0.0), ("b", 0.0)]),
            counts(1000, &[("a", 5000.0), ("b", 100.0)]),
            // b did not answer.
            counts(1030, &[("a", 8000.0)]),
            counts(1060, &[("a", 11_000.0), ("b", 200.0)]),
            // b has started again.
            counts(1090, &[("a", 14_000.0), ("b", 10.0)]),
            counts(1120, &[("a", 17_000.0), ("b", 1510.0)]),
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
            Counts::from([(key("a"), (0, 7.0))]),
            Counts::from([(key("a"), (20 * S, 7.0))]),
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

    #[test]
    fn only_a_complete_answer_has_a_count() {
        let answer = |status, body: &str, is_cut| {
            let body = body.to_owned();
            let unix_ns = 5;
            Ok(ProbeAnswer {
                status,
                body,
                is_cut,
                unix_ns,
            })
        };
        assert_eq!(count(&answer(200, "7", false)), Some((5, 7.0)));
        for incomplete in [
            answer(200, "7", true),
            answer(503, "7", false),
            answer(200, "", false),
        ] {
            assert_eq!(count(&incomplete), None, "{incomplete:?}");
        }
    }
}
