//! Published figures with their sources, to show next to those of a run. They were measured on
//! other machines, with other load generators, years ago.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Identifier, such as `linkerd-2021-05`.
    pub id: String,
    /// Authors, subject, date.
    pub title: String,
    /// Address; absent for talks.
    pub url: Option<String>,
    /// The machines and the load, in a sentence without its full stop.
    pub setting: String,
    /// Which of [`crate::summary::MethodSummary::method`] made the figures; absent
    /// if it is unknown, or another one.
    pub method: Option<String>,
    /// The figures that were published as numbers.
    pub figures: Vec<PublishedFigure>,
}

/// One published number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// Mesh and version, such as `linkerd edge-19.5.2`; `bare` without a mesh.
    pub mesh: String,
    /// Planned rate; absent for a figure that belongs to no rate.
    pub rate_rps: Option<f64>,
    /// `p50`, `p99`, `p99.9`, `max` (`ms`); `data_plane_memory`, `proxy_memory`,
    /// `largest_proxy_memory`, `control_plane_memory` (`MB`); `data_plane_cpu`,
    /// `control_plane_cpu`, `cpu` (both), `proxy_cpu` (`cores`); `proxy_cpu_time`,
    /// `control_plane_cpu_time` (`ms`); `throughput` (`rps`); others in words.
    pub what: String,
    /// `ms`, `MB`, `cores`, `rps`, `%`, `times`.
    pub unit: String,
    /// The number, or a bound.
    pub value: f64,
    /// Whether the number is exact or a bound.
    pub bound: Bound,
}

/// Whether a published number is exact or a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Exact.
    #[default]
    Exact,
    /// Published as "over" the number.
    Over,
    /// Published as "under" the number.
    Under,
}

impl Bound {
    /// The words in front of the number.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Over => "over ",
            Self::Under => "under ",
        }
    }
}

static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
    // The document is part of the program, and a test reads it.
    serde_json::from_str(include_str!("../../../../data/published.json")).unwrap_or_default()
});

/// All publications, oldest first.
#[must_use]
pub fn published() -> &'static [Published] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_are_there_with_their_sources() {
        assert!(published().len() >= 5);
        for source in published() {
            let url = source.url.as_deref().unwrap_or("https://");
            assert!(url.starts_with("https://"), "{}", source.id);
            assert!(!source.title.is_empty() && !source.setting.is_empty());
            assert!(!source.figures.is_empty(), "{}", source.id);
            for figure in &source.figures {
                let units = ["ms", "MB", "cores", "rps", "%", "times"];
                assert!(units.contains(&figure.unit.as_str()), "{figure:?}");
                assert!(figure.value > 0.0, "{figure:?}");
            }
        }
        let find = |id: &str, mesh: &str, rate: f64, what: &str| {
            let source = published().iter().find(|p| p.id == id)?;
            let same =
                |f: &&PublishedFigure| f.mesh == mesh && f.rate_rps == Some(rate) && f.what == what;
            source.figures.iter().find(same).map(|f| f.value)
        };
        let p99 = |mesh| find("kinvolk-2019", mesh, 500.0, "p99");
        assert_eq!(p99("linkerd edge-19.5.2"), Some(6.7));
        assert_eq!(p99("bare"), Some(3.1));
        let p50 = find("linkerd-2021-05", "istio 1.10.0", 2000.0, "p50");
        assert_eq!(p50, Some(21.0));
        let max = find("kinvolk-2019", "linkerd edge-19.5.2", 600.0, "max");
        assert_eq!(max, Some(3000.0));
    }
}
