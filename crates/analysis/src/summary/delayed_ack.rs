//! Notes on differences of about 40 ms, which come from the application and not from a mesh.
//!
//! Linux delays an acknowledgement by 40 ms (`TCP_DELACK_MIN`) if there is nothing to send with it.
//! An application that writes head and body of a response separately, without TCP_NODELAY, waits
//! for that acknowledgement before it sends the body (Nagle's algorithm). Whether it has to wait
//! depends on who receives: the generator, or a proxy. Source: RFC 896, RFC 1122 section 4.2.3.2;
//! Linux, include/net/tcp.h.

use tare_plan::{Figure, Plan};
use tare_records::summary::Cell;

use crate::figures;

/// Differences within these bounds are most likely this delay: it ends with a tick of the kernel,
/// and the proxies add their own time. In nanoseconds.
const DELAY_NS: std::ops::RangeInclusive<u64> = 38_000_000..=47_000_000;

/// The notes on the meshes whose latency differs from that of the baseline by about 40 ms.
pub(super) fn notes(plan: &Plan, cells: &[Cell]) -> Vec<String> {
    let cell = |mesh: &str, load: &str| cells.iter().find(|c| c.mesh == mesh && c.load == load);
    let mut notes = Vec::new();
    for mesh in plan.meshes.iter().filter(|m| m.name != plan.baseline) {
        for load in &plan.loads {
            let both = cell(&plan.baseline, &load.name).zip(cell(&mesh.name, &load.name));
            let Some((baseline, of)) = both else { continue };
            let quantiles = baseline
                .latency
                .iter()
                .filter(|q| q.supported && q.name != Figure::Max);
            let pairs = quantiles.filter_map(|q| {
                let same = of
                    .latency
                    .iter()
                    .find(|other| other.name == q.name && other.supported);
                Some((q.name, q.value_ns, same?.value_ns))
            });
            let found = differs(pairs).map(|(name, words)| {
                format!(
                    "{name} of {} at {} is {words} that of {}: about 40 ms, for which Linux delays an acknowledgement. \
                     The application most likely writes head and body of a response separately, without TCP_NODELAY. \
                     Set TCP_NODELAY in it, or write both at once, before you ascribe the difference to the mesh",
                    mesh.name, load.name, plan.baseline
                )
            });
            notes.extend(found);
        }
    }
    notes
}

/// The first of these percentiles, of the baseline and of a mesh, that differs by the delay, and how.
fn differs(mut pairs: impl Iterator<Item = (Figure, u64, u64)>) -> Option<(Figure, String)> {
    pairs.find_map(|(name, baseline_ns, ns)| {
        let difference_ns = baseline_ns.abs_diff(ns);
        let side = if ns > baseline_ns { "above" } else { "below" };
        let words = format!("{} {side}", figures::duration(difference_ns as f64));
        DELAY_NS.contains(&difference_ns).then_some((name, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell of `mesh` with this median.
    fn cell(mesh: &str, ms: u64, supported: bool) -> Cell {
        let value_ns = ms * 1_000_000;
        serde_json::from_value(serde_json::json!({
            "mesh": mesh, "load": "100rps", "rate_rps": 100.0, "trials_used": [], "trials_failed": [],
            "counts": tare_records::load::Counts::default(),
            "verdict": tare_records::verdict::Verdict::default(),
            "latency": [{
                "name": "p50", "q": 0.5, "value_ns": value_ns, "runs_ns": [], "supported": supported,
                "pooled": {"value_ns": value_ns}
            }],
            "spectrum": [], "service_time": [], "lateness": [], "planes": {}, "endpoints": [], "named": []
        }))
        .unwrap()
    }

    #[test]
    fn the_mesh_that_differs_is_named() {
        let text = "meshes: [bare, envoy]\nload: {rate: 100}\nrepeats: 2";
        let plan = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new())).unwrap();
        assert_eq!((&*plan.baseline, &*plan.loads[0].name), ("bare", "100rps"));
        let of = |supported| {
            notes(
                &plan,
                &[cell("bare", 5, true), cell("envoy", 46, supported)],
            )
        };
        let [note] = &of(true)[..] else {
            panic!("{:?}", of(true));
        };
        let expected = "p50 of envoy at 100rps is 41.0 ms above that of bare: about 40 ms";
        assert!(note.starts_with(expected), "{note}");
        assert_eq!(of(false), Vec::<String>::new());
    }

    #[test]
    fn only_a_difference_of_about_40_ms_is_noted() {
        let of = |pairs: &[(u64, u64)]| {
            let pairs = pairs
                .iter()
                .map(|(a, b)| (Figure::P50, a * 1_000_000, b * 1_000_000));
            differs(pairs).map(|(_, words)| words)
        };
        assert_eq!(of(&[(2, 3), (5, 46)]).unwrap(), "41.0 ms above");
        assert_eq!(of(&[(44, 2)]).unwrap(), "42.0 ms below");
        assert_eq!(of(&[(2, 3), (44, 45), (10, 40), (10, 60), (0, 80)]), None);
        assert_eq!(of(&[]), None);
    }
}
