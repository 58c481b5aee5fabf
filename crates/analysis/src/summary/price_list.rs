//! The price list of features, from the comparisons with the baseline.

use std::collections::BTreeMap;

use tare_plan::mesh::{DataPlaneKind, Feature, Mesh};
use tare_plan::{Figure, Load, Plan};
use tare_records::summary::{Estimate, FeaturePrice, MeshComparison, Price, PriceList};
use tare_records::trial::Proof;
use tare_records::worker::Plane;
use tare_stats::effect::Effect;
use tare_stats::moderate::Prior;

use super::answers::disturbed_unequally;
use super::cell::estimate;
use super::comparisons::{primary, prior};
use super::proxy_cpu::hops;
use crate::compare::figures::{comparable, pairs, value};
use crate::compare::stopping;
use crate::trials::{self, Trial};

/// The price list of a plan; `None` if no mesh has a feature.
pub(super) fn of(
    plan: &Plan,
    trials: &[Trial<'_>],
    comparisons: &[MeshComparison],
    disturbed_equally_p: Option<f64>,
) -> Option<PriceList> {
    let load = primary(plan).filter(|load| load.is_open() && plan.has_features())?;
    let mut meshes = plan.meshes.iter().filter(|m| m.name == plan.baseline);
    // Against anything else than sidecars without a feature, a price would be that of the sidecars, too.
    let plain = |m: &&Mesh| m.data_plane == DataPlaneKind::EnvoySidecar && m.feature.is_none();
    let reference = meshes.find(plain)?;
    let no_answer = disturbed_unequally(disturbed_equally_p);
    let mut list = List {
        plan,
        trials,
        load,
        reference,
        answered: no_answer.is_none(),
        confidence: stopping::level(plan).different,
        priors: BTreeMap::new(),
    };
    list.priors = list.priors();
    let mut features: Vec<FeaturePrice> = list
        .priced()
        .filter_map(|mesh| Some(list.feature(mesh, mesh.feature.as_deref()?, comparisons)))
        .collect();
    let added = |f: &FeaturePrice| {
        let cpu = f.cpu.as_ref().and_then(|p| p.added.as_ref());
        cpu.map_or(f64::NEG_INFINITY, |e| e.value)
    };
    features.sort_by(|a, b| added(b).total_cmp(&added(a)));
    Some(PriceList {
        reference: plan.baseline.clone(),
        load: load.name.clone(),
        no_answer: no_answer.map(str::to_owned),
        reference_hop_ns: list.of_reference(Figure::ProxyCpu),
        reference_proxy_bytes: list.of_reference(Figure::Memory),
        features,
    })
}

/// The figures with a price.
const PRICED: [Figure; 4] = [Figure::P50, Figure::P99, Figure::ProxyCpu, Figure::Memory];

/// Whether a figure is of one kind in all these trials.
fn of_one_kind<'a, 'b: 'a>(
    figure: Figure,
    trials: impl IntoIterator<Item = &'a Trial<'b>>,
) -> bool {
    let mut trials = trials.into_iter();
    let first = trials.next();
    first.is_none_or(|a| comparable(figure, a, a) && trials.all(|b| comparable(figure, a, b)))
}

struct List<'a, 'b> {
    plan: &'a Plan,
    trials: &'a [Trial<'b>],
    load: &'a Load,
    /// The mesh without the features.
    reference: &'a Mesh,
    /// Whether outcomes are stated.
    answered: bool,
    confidence: f64,
    /// [`Self::priors`].
    priors: BTreeMap<Figure, Prior>,
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
        let [p50, p99, cpu, memory] = PRICED.map(|what| self.price(mesh, comparison?, what));
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
            p50,
            p99,
            cpu,
            memory,
            proofs: proofs(&mesh.name, &Feature::claim_on(&mesh.name)),
            off: off.into_iter().next(),
        }
    }

    fn price(&self, mesh: &Mesh, comparison: &MeshComparison, figure: Figure) -> Option<Price> {
        let ratio = comparison.ratio(figure)?;
        Some(Price {
            ratio: ratio.value,
            low: ratio.low,
            high: ratio.high,
            outcome: self.answered.then_some(ratio.outcome),
            added: self.added(mesh, figure),
        })
    }

    /// The typical difference over the blocks. `None` if the trials have several kinds of the figure: the difference would
    /// be one of kinds.
    fn added(&self, mesh: &Mesh, figure: Figure) -> Option<Estimate> {
        let pairs = self.pairs(mesh);
        let runs = self.differences(mesh, figure, &pairs)?;
        let one_kind = of_one_kind(figure, pairs.into_iter().flat_map(|(a, b)| [a, b]));
        let effect = Effect::moderated(&runs, 0.0, self.priors.get(&figure).copied());
        let ends = effect.as_ref().map(|e| e.interval(self.confidence));
        let (low, high) = ends.unzip();
        let value = effect.map_or(*runs.first()?, |e| e.estimate());
        one_kind.then_some(Estimate {
            value,
            low,
            high,
            runs,
        })
    }

    fn pairs(&self, mesh: &Mesh) -> Vec<(&Trial<'_>, &Trial<'_>)> {
        let (reference, load) = (&self.reference.name, &self.load.name);
        pairs(self.trials, &mesh.name, reference, load, |t| t.is_used())
    }

    /// What a mesh adds to a figure in each block; `None` if its scale is unknown.
    fn differences(
        &self,
        mesh: &Mesh,
        figure: Figure,
        pairs: &[(&Trial<'_>, &Trial<'_>)],
    ) -> Option<Vec<f64>> {
        let own = self.scale(mesh, figure)?;
        let other = self.scale(self.reference, figure)?;
        let difference = |(a, b): &(&Trial<'_>, &Trial<'_>)| {
            Some(value(figure, a)? * own - value(figure, b)? * other)
        };
        Some(pairs.iter().filter_map(difference).collect())
    }

    /// The variance of what features add to each figure, as all of them show it.
    fn priors(&self) -> BTreeMap<Figure, Prior> {
        let of = |figure: Figure| {
            let each = self.priced().filter_map(|mesh| {
                let pairs = self.pairs(mesh);
                let differences = self.differences(mesh, figure, &pairs)?;
                Some((pairs, differences))
            });
            Some((figure, prior(each)?))
        };
        PRICED.into_iter().filter_map(of).collect()
    }

    /// The meshes with a price: all but the reference.
    fn priced(&self) -> impl Iterator<Item = &Mesh> {
        let meshes = self.plan.meshes.iter();
        meshes.filter(|m| m.name != self.reference.name)
    }

    /// The figure of the reference itself.
    fn of_reference(&self, figure: Figure) -> Option<Estimate> {
        let scale = self.scale(self.reference, figure)?;
        let used = trials::used(self.trials, &self.reference.name, &self.load.name);
        let each = used.iter().filter_map(|t| Some(value(figure, t)? * scale));
        estimate(&each.collect::<Vec<_>>(), self.confidence)
            .filter(|_| of_one_kind(figure, used.iter().copied()))
    }

    /// By what a figure is multiplied: CPU is divided by the passes of a request through proxies, memory by
    /// their number. `None` if that is unknown.
    fn scale(&self, mesh: &Mesh, figure: Figure) -> Option<f64> {
        match figure {
            Figure::ProxyCpu => Some(1.0 / hops(self.plan, mesh)?),
            Figure::Memory => {
                let used = trials::used(self.trials, &mesh.name, &self.load.name);
                let of =
                    |t: &&Trial<'_>| Some(t.resources()?.planes.get(&Plane::DataPlane)?.processes);
                let proxies = used.iter().find_map(of)?;
                (proxies > 0).then(|| 1.0 / f64::from(proxies))
            }
            _ => Some(1.0),
        }
    }
}
