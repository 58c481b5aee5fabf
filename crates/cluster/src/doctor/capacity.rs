//! What the nodes have free, against what the pods of a trial request.

use std::ops::{Add, Mul, Sub};

use serde_json::Value;
use tare_plan::Quantity;

use super::{Check, failed, passed};
use crate::api::ApiError;
use crate::api::kinds::POD;
use crate::objects::names::RUN;
use crate::objects::{Metadata, parts};
use crate::preview::Preview;

/// An amount of what pods request of a node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Amount {
    cores: f64,
    memory_bytes: f64,
    pods: f64,
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            cores: self.cores + other.cores,
            memory_bytes: self.memory_bytes + other.memory_bytes,
            pods: self.pods + other.pods,
        }
    }
}

impl Sub for Amount {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + other * -1.0
    }
}

impl Mul<f64> for Amount {
    type Output = Self;
    fn mul(self, by: f64) -> Self {
        Self {
            cores: self.cores * by,
            memory_bytes: self.memory_bytes * by,
            pods: self.pods * by,
        }
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = self.memory_bytes / f64::from(1 << 30);
        write!(
            f,
            "{:.0} pods, {:.1} cores and {gib:.1} GiB",
            self.pods, self.cores
        )
    }
}

impl Amount {
    /// The requests of a pod: those of its containers and its sidecars (init containers that are restarted) together, or of
    /// its largest other init container if that is more, and its overhead.
    ///
    /// Source: Kubernetes documentation, Sidecar Containers, "Resource sharing within containers".
    pub(super) fn of_pod(spec: &Value) -> Self {
        let list = |name: &str| spec[name].as_array().into_iter().flatten();
        let is_sidecar = |c: &&Value| c["restartPolicy"] == "Always";
        let requests = |container: &Value, key: &str| {
            let resources = &container["resources"];
            // The API server sets missing requests to the limits.
            let set = [&resources["requests"][key], &resources["limits"][key]];
            set.into_iter().find(|v| !v.is_null()).map_or(0.0, quantity)
        };
        let of = |key: &str| {
            let own = list("containers").chain(list("initContainers").filter(is_sidecar));
            let own: f64 = own.map(|c| requests(c, key)).sum();
            let init = list("initContainers").filter(|c| !is_sidecar(c));
            let largest = init.map(|c| requests(c, key)).fold(0.0, f64::max);
            own.max(largest) + quantity(&spec["overhead"][key])
        };
        Self {
            cores: of("cpu"),
            memory_bytes: of("memory"),
            pods: 1.0,
        }
    }

    /// Whether it is at most as much. The tolerance is that of the sums.
    fn fits(self, free: Self) -> bool {
        const TOLERANCE: f64 = 1e-6;
        // Requests that are zero fit on a node that others have overcommitted.
        let fits = |wanted: f64, free: f64| wanted <= 0.0 || wanted <= free + TOLERANCE;
        fits(self.cores, free.cores)
            && fits(self.memory_bytes, free.memory_bytes)
            && fits(self.pods, free.pods)
    }
}

/// Reads a quantity; 0 if it is none.
fn quantity(value: &Value) -> f64 {
    let read = value.as_str().and_then(Quantity::read);
    read.or(value.as_f64()).unwrap_or(0.0)
}

/// What a trial requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    /// Each kind of pod of the application, and the number of such pods in all instances.
    pub(super) application: Vec<(Amount, f64)>,
    pub(super) generator: Amount,
    pub(super) agent: Amount,
}

parts! {
    /// A pod on a node. Its specification is read as that of a manifest.
    struct Occupant {
        metadata: Metadata,
        spec: Value,
        status: OccupantStatus,
    }

    struct OccupantStatus {
        phase: String,
    }
}

/// What a node has free, and whether it may be reserved for generators.
type Free = (Amount, bool);

/// Compares the demand of the largest trial with what the nodes have free. The proxies of meshes are not included.
pub(super) async fn check(
    preview: &Preview<'_>,
    demand: &Demand,
) -> Result<Option<Check>, ApiError> {
    let pods: Vec<Occupant> = preview.api.list(POD, None, "").await?;
    let mut free = Vec::new();
    for node in &preview.nodes {
        if node.allocatable.is_empty() {
            continue;
        }
        let quantity = |name: &str| {
            let quantity = node.allocatable.get(name);
            quantity.and_then(|q| Quantity::read(q)).unwrap_or(0.0)
        };
        let all = Amount {
            cores: quantity("cpu"),
            memory_bytes: quantity("memory"),
            pods: quantity("pods"),
        };
        let on_node = pods.iter().filter(|pod| {
            pod.spec["nodeName"] == node.name.as_str()
                && !["Succeeded", "Failed"].contains(&pod.status.phase.as_str())
                && pod.metadata.label(RUN).is_empty()
        });
        let used: Amount = on_node.map(|pod| Amount::of_pod(&pod.spec)).sum();
        // Each node has an agent, and a probe now and then.
        let left = all - used - demand.agent * 2.0;
        free.push((left, node.is_for_generators));
    }
    if free.is_empty() {
        return Ok(None);
    }
    Ok(Some(judge(
        preview.settings.generators,
        preview.reserved_count(),
        free,
        demand,
    )))
}

/// `reserved` of the nodes are for the generators only.
fn judge(generators: u32, reserved: usize, mut free: Vec<Free>, demand: &Demand) -> Check {
    free.sort_by(|(a, _), (b, _)| b.cores.total_cmp(&a.cores));
    let total: Amount = free.iter().map(|(amount, _)| *amount).sum();
    let count = free.len();
    // Nodes are chosen at random for each block; in the worst case the largest ones.
    let candidates = free.iter().filter(|(_, is_candidate)| *is_candidate);
    let candidates: Vec<Amount> = candidates.map(|(amount, _)| *amount).collect();
    let generators = demand.generator * f64::from(generators);
    let needed: Amount = demand.application.iter().map(|(a, n)| *a * *n).sum();
    let (for_application, place) = match reserved {
        0 => (total - generators, "beside the generators"),
        _ => (
            total - candidates.iter().take(reserved).copied().sum(),
            "beside the nodes of the generators",
        ),
    };
    let remedy = "use more or larger nodes, fewer `workload.instances`, or smaller `kubernetes.pod.resources`";
    if !needed.fits(for_application) {
        let text = format!(
            "the application requests {needed}; {place}, the {count} nodes have free {for_application}; {remedy}"
        );
        return failed("capacity", text);
    }
    let largest = demand.application.iter().map(|(a, _)| *a);
    let largest = largest.chain([demand.generator]);
    if let Some(pod) = largest
        .into_iter()
        .find(|pod| !free.iter().any(|(f, _)| pod.fits(*f)))
    {
        let text = format!("a pod that requests {pod} fits on no node; {remedy}");
        return failed("capacity", text);
    }
    if reserved > 0 {
        let on_each = demand.generator * (generators.pods / reserved as f64).ceil();
        if !candidates.iter().all(|f| on_each.fits(*f)) {
            let text = format!(
                "the generators of a node request {on_each}, more than a node that may be reserved for them has free; {remedy}"
            );
            return failed("capacity", text);
        }
    }
    passed(
        "capacity",
        format!(
            "the {count} nodes have free {total}; the largest trial requests {}, without the proxies of meshes",
            needed + generators
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_texts_or_numbers_and_no_other_value_counts() {
        let quantities = [
            (json!("100m"), 0.1),
            (json!(1.5), 1.5),
            (json!("some"), 0.0),
            (Value::Null, 0.0),
        ];
        for (value, expected) in quantities {
            assert!((quantity(&value) - expected).abs() < 1e-9, "{value}");
        }
    }

    fn amount(cores: f64, pods: f64) -> Amount {
        Amount {
            cores,
            memory_bytes: 0.0,
            pods,
        }
    }

    #[test]
    fn a_pod_requests_the_sum_of_its_containers_or_its_largest_init_container() {
        let request = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}});
        let mut spec = json!({"containers": [request("1"), request("500m"), {}]});
        assert!((Amount::of_pod(&spec).cores - 1.5).abs() < 1e-9);
        spec["initContainers"] = json!([request("3")]);
        let found = Amount::of_pod(&spec);
        assert!((found.cores - 3.0).abs() < 1e-9 && found.memory_bytes == 2097152.0);
        spec["initContainers"][0]["restartPolicy"] = "Always".into();
        spec["containers"][2] = json!({"resources": {"limits": {"cpu": "250m"}}});
        spec["overhead"] = json!({"cpu": "50m"});
        assert!((Amount::of_pod(&spec).cores - 4.8).abs() < 1e-9);
    }

    #[test]
    fn the_nodes_of_the_generators_are_left_to_them() {
        let demand = |cores: f64, pods: f64| Demand {
            application: vec![(amount(cores, 1.0), pods)],
            generator: amount(1.0, 1.0),
            agent: Amount::default(),
        };
        let nodes = |large| vec![(amount(2.0, 10.0), true), (amount(4.0, 10.0), large)];
        let good = |demand: &Demand| judge(1, 1, nodes(true), demand);
        assert_eq!(good(&demand(0.5, 4.0)).good, Some(true));
        let over = good(&demand(0.5, 5.0));
        assert_eq!(over.good, Some(false));
        let start = "the application requests 5 pods, 2.5 cores";
        assert!(over.found.starts_with(start), "{over:?}");
        let pods = good(&demand(0.0, 11.0));
        assert_eq!(pods.good, Some(false), "pods have a limit, too");
        // The large node cannot be that of the generators.
        let small = judge(1, 1, nodes(false), &demand(0.5, 8.0));
        assert_eq!(small.good, Some(true));
        let three = judge(3, 1, nodes(false), &demand(0.5, 1.0));
        assert!(
            three
                .found
                .starts_with("the generators of a node request 3 pods"),
            "{three:?}"
        );
        let shared = |demand: &Demand| judge(1, 0, nodes(true), demand);
        assert_eq!(shared(&demand(0.5, 10.0)).good, Some(true));
        let large = shared(&demand(4.5, 1.0));
        assert!(large.found.contains("fits on no node"), "{large:?}");
    }
}
