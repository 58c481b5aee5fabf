//! What the control plane counts itself, read by a probe before and after the changes.

use std::collections::BTreeMap;

use tare_plan::KubernetesSettings;
use tare_plan::mesh::ControlPlaneMetric;
use tare_records::churn::ChurnMetric;
use tare_records::probe::ProbeRequest;

use super::super::probe::{self, Prober};
use super::super::prove::STATISTICS_WITHIN;
use crate::api::ApiClient;
use crate::api::kinds::POD;
use crate::objects::Pod;
use tare_run::environment::EnvironmentError;

/// Longest text of a sum.
const SUM_BYTES_MAX: usize = 64;

/// The values of a metric in each pod: its counters, and what they are divided by, by namespace and name of the pod.
pub(super) type Values = BTreeMap<(String, String), (f64, f64)>;

/// Reads metrics. Fails with what was found.
pub(super) async fn read(
    api: &ApiClient,
    settings: &KubernetesSettings,
    prober: &mut Prober,
    metrics: &[ControlPlaneMetric],
) -> Result<Values, String> {
    let failed = |error: EnvironmentError| error.to_string();
    let (mut requests, mut keys) = (Vec::new(), Vec::new());
    for metric in metrics {
        let namespace = Some(metric.namespace.as_str());
        let pods = api.list::<Pod>(POD, namespace, &metric.selector).await;
        for pod in pods.map_err(|e| failed(e.into()))?.iter() {
            let Some(address) = pod.address(metric.port) else {
                continue;
            };
            for counters in [&metric.counters, &metric.per] {
                let within = STATISTICS_WITHIN;
                let host = address.clone();
                let request =
                    probe::get(address.clone(), host, metric.path(), within, SUM_BYTES_MAX);
                requests.push(ProbeRequest {
                    counters: Some(counters.clone()),
                    is_sum: true,
                    ..request
                });
            }
            keys.push((metric.name.clone(), pod.key()));
        }
    }
    let results = prober.send(api, settings, requests, 0);
    let results = results.await.map_err(failed)?;
    let mut values = Values::new();
    for (key, pair) in keys.into_iter().zip(results.chunks_exact(2)) {
        let value = |result: &tare_records::probe::ProbeResult| match result {
            Ok(answer) if answer.status == 200 => answer.body.parse::<f64>().ok(),
            _ => None,
        };
        let (counted, per) = value(&pair[0])
            .zip(value(&pair[1]))
            .ok_or_else(|| format!("{} of {}: {}", key.0, key.1, probe::words(&pair[0])))?;
        values.insert(key, (counted, per));
    }
    Ok(values)
}

/// The growth of a metric; `None` if no pod has both values, if a pod has started again, or if there is nothing to divide
/// by.
pub(super) fn growth(
    metric: &ControlPlaneMetric,
    before: &Values,
    after: &Values,
) -> Option<ChurnMetric> {
    let of_metric = after.iter().filter(|((name, _), _)| *name == metric.name);
    let mut total: Option<(f64, f64)> = None;
    for (key, now) in of_metric {
        let then = before.get(key)?;
        let (counted, per) = (now.0 - then.0, now.1 - then.1);
        if counted < 0.0 || per < 0.0 {
            return None;
        }
        let so_far = total.unwrap_or_default();
        total = Some((so_far.0 + counted, so_far.1 + per));
    }
    let (counted, per) = total?;
    let value = match metric.per.is_empty() {
        true => counted,
        false if per > 0.0 => counted / per,
        false => return None,
    };
    Some(ChurnMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, f64, f64)]) -> Values {
        let value = |(pod, counted, per): &(&str, f64, f64)| {
            (("pushes".to_owned(), (*pod).to_owned()), (*counted, *per))
        };
        all.iter().map(value).collect()
    }

    #[test]
    fn the_growth_of_all_pods_is_added_and_divided() {
        let mut metric = ControlPlaneMetric {
            name: "pushes".into(),
            ..ControlPlaneMetric::default()
        };
        let before = values(&[("a", 10.0, 1.0), ("b", 0.0, 0.0)]);
        let after = values(&[("a", 13.0, 2.0), ("b", 3.0, 3.0)]);
        let value = |m: &ControlPlaneMetric, b, a| growth(m, b, a).map(|g| g.value);
        assert_eq!(value(&metric, &before, &after), Some(6.0));
        metric.per = vec!["count".into()];
        assert_eq!(value(&metric, &before, &after), Some(1.5));
        assert_eq!(
            value(&metric, &before, &before),
            None,
            "nothing to divide by"
        );
        // A pod that started again, and one that is new.
        assert_eq!(value(&metric, &after, &before), None);
        let fewer = values(&[("a", 10.0, 1.0)]);
        assert_eq!(value(&metric, &fewer, &after), None);
    }
}
