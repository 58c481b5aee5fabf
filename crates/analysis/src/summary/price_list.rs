//! The price list of features, from the comparisons with the baseline.

use tare_model::mesh::{Feature, Mesh};
use tare_model::plan::{Load, Plan};
use tare_model::summary::{Estimate, FeaturePrice, MeshComparison, Price, PriceList};
use tare_model::trial::Proof;
use tare_model::worker::Plane;
use tare_stats::effect::mean_interval;

use super::comparisons::primary;
use super::proxy_cpu::hops;
use crate::compare::figures::{FIGURES, pairs};
use crate::compare::stopping;
use crate::trials::{self, Trial};

/// The price list of a plan; `None` if no mesh has a feature.
pub(super) fn of(
    plan: &Plan,
    trials: &[Trial<'_>],
    comparisons: &[MeshComparison],
) -> Option<PriceList> {
    let load = primary(plan).filter(|load| load.has_rate() && plan.has_features())?;
    let list = List {
        plan,
        trials,
        load,
        confidence: stopping::level(plan).different,
    };
    let priced = plan.meshes.iter().filter(|m| m.name != plan.baseline);
    let mut features: Vec<FeaturePrice> = priced
        .filter_map(|mesh| Some(list.feature(mesh, mesh.feature.as_deref()?, comparisons)))
        .collect();
    let added = |f: &FeaturePrice| {
        let cpu = f.cpu.as_ref().and_then(|p| p.added.as_ref());
        cpu.map_or(f64::NEG_INFINITY, |e| e.value)
    };
    features.sort_by(|a, b| added(b).total_cmp(&added(a)));
    let reference = plan.meshes.iter().find(|m| m.name == plan.baseline)?;
    let used = trials::used(trials, &plan.baseline, &load.name);
    let estimate = |what: &str| {
        let scale = list.scale(reference, what)?;
        let of = |t: &&Trial<'_>| Some(value(t, what)? * scale);
        list.estimate(&used.iter().filter_map(of).collect::<Vec<_>>())
    };
    Some(PriceList {
        reference: plan.baseline.clone(),
        load: load.name.clone(),
        reference_request_ns: estimate("proxy_cpu"),
        reference_proxy_bytes: estimate("memory"),
        features,
    })
}

/// A figure of a trial, by its name in `Ratio::what`.
fn value(trial: &Trial<'_>, what: &str) -> Option<f64> {
    let figure = FIGURES.iter().find(|f| f.what == what)?;
    figure.value(trial)
}

struct List<'a, 'b> {
    plan: &'a Plan,
    trials: &'a [Trial<'b>],
    load: &'a Load,
    confidence: f64,
}

impl List<'_, '_> {
    fn feature(
        &self,
        mesh: &Mesh,
        feature: &Feature,
        comparisons: &[MeshComparison],
    ) -> FeaturePrice {
        let comparison = comparisons.iter().find(|c| {
            c.load == self.load.name && c.mesh == mesh.name && c.reference == self.plan.baseline
        });
        let price = |what| self.price(mesh, comparison?, what);
        let proofs = |mesh: &str, claim: &str| -> Vec<String> {
            let used = trials::used(self.trials, mesh, &self.load.name);
            let proofs = used.first().map_or(&[][..], |t| &t.result.proofs);
            let of_feature = |p: &&Proof| p.claim.starts_with(claim);
            let words = |p: &Proof| {
                let what = p.claim[claim.len()..].trim_start_matches(": ");
                match what {
                    "" => p.seen.clone(),
                    what => format!("{what}: {}", p.seen),
                }
            };
            proofs.iter().filter(of_feature).map(words).collect()
        };
        let off = proofs(&self.plan.baseline, &Feature::claim_off(&mesh.name));
        FeaturePrice {
            mesh: mesh.name.clone(),
            title: mesh.title.clone(),
            nothing: feature.is_nothing(),
            p50: price("p50"),
            p99: price("p99"),
            cpu: price("proxy_cpu"),
            memory: price("memory"),
            proofs: proofs(&mesh.name, &Feature::claim_on(&mesh.name)),
            off: off.into_iter().next(),
        }
    }

    fn price(&self, mesh: &Mesh, comparison: &MeshComparison, what: &str) -> Option<Price> {
        let ratio = comparison.ratio(what)?;
        let added = self.scale(mesh, what).and_then(|scale| {
            let name = &self.load.name;
            let pairs = pairs(self.trials, &mesh.name, &self.plan.baseline, name, |t| {
                t.is_used()
            });
            let difference = |(a, b): &(&Trial<'_>, &Trial<'_>)| {
                Some((value(a, what)? - value(b, what)?) * scale)
            };
            self.estimate(&pairs.iter().filter_map(difference).collect::<Vec<_>>())
        });
        Some(Price {
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            outcome: ratio.outcome,
            added,
        })
    }

    /// By what a figure is multiplied: CPU is divided by the passes of a request through proxies, memory by
    /// their number. `None` if that is unknown.
    fn scale(&self, mesh: &Mesh, what: &str) -> Option<f64> {
        match what {
            "proxy_cpu" => Some(1.0 / hops(self.plan, mesh)?),
            "memory" => {
                let used = trials::used(self.trials, &mesh.name, &self.load.name);
                let of =
                    |t: &&Trial<'_>| Some(t.resources()?.planes.get(&Plane::DataPlane)?.processes);
                let proxies = used.iter().find_map(of)?;
                (proxies > 0).then(|| 1.0 / f64::from(proxies))
            }
            _ => Some(1.0),
        }
    }

    /// The mean with its interval, which may go below 0.
    fn estimate(&self, values: &[f64]) -> Option<Estimate> {
        let (value, half) = mean_interval(values, self.confidence)?;
        Some(Estimate {
            value,
            low: half.map(|h| value - h),
            high: half.map(|h| value + h),
            runs: values.to_vec(),
        })
    }
}
