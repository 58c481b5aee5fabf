//! The figures that tare states, each with its name, its unit and its margin. A new figure is one entry here, and the
//! computation of its value in `tare_analysis::compare::figures`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds. Those of latencies come from histograms, whose buckets limit their resolution.
    Ns,
    /// Bytes.
    Bytes,
    /// Requests per second.
    Rps,
    /// Cores in use.
    Cores,
    /// A number of events.
    Count,
    /// No unit: the figure is a ratio.
    #[serde(rename = "")]
    Ratio,
}

impl Unit {
    /// The name in files.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Bytes => "bytes",
            Self::Rps => "rps",
            Self::Cores => "cores",
            Self::Count => "count",
            Self::Ratio => "",
        }
    }
}

/// Which of the margins of a plan applies to a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Margin {
    P50,
    /// That of higher percentiles, and of all that has none of its own.
    P99,
    Cpu,
    Memory,
}

/// What is known of a figure, whatever its value.
struct Entry {
    id: &'static str,
    label: &'static str,
    phrase: &'static str,
    unit: Unit,
    margin: Margin,
}

/// Declares the figures: the name in files, the head of a column, the name in a sentence, unit and margin.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident: $id:literal, $label:literal, $phrase:literal, $unit:ident, $margin:ident;)*) => {
        /// A figure of a trial, or of a mesh under a load.
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum Figure {
            $($(#[$doc])* #[serde(rename = $id)] $name,)*
        }

        impl Figure {
            /// All figures.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            const fn entry(self) -> Entry {
                match self {
                    $(Self::$name => Entry {
                        id: $id,
                        label: $label,
                        phrase: $phrase,
                        unit: Unit::$unit,
                        margin: Margin::$margin,
                    },)*
                }
            }
        }
    };
}

figures! {
    /// Mean latency.
    Mean: "latency", "mean", "mean latency", Ns, P99;
    /// Median latency.
    P50: "p50", "p50", "the median", Ns, P50;
    /// Median latency, divided by that of the baseline in the same block.
    RatioP50: "ratio_p50", "p50, ratio", "the ratio of the medians", Ratio, P50;
    /// 90th percentile of the latency.
    P90: "p90", "p90", "p90", Ns, P99;
    /// 99th percentile of the latency.
    P99: "p99", "p99", "p99", Ns, P99;
    /// 99th percentile of the latency, divided by that of the baseline in the same block.
    RatioP99: "ratio_p99", "p99, ratio", "the ratio of p99", Ratio, P99;
    /// 99.9th percentile of the latency.
    P99_9: "p99.9", "p99.9", "p99.9", Ns, P99;
    /// 99.99th percentile of the latency.
    P99_99: "p99.99", "p99.99", "p99.99", Ns, P99;
    /// Largest latency.
    Max: "max", "max", "the maximum", Ns, P99;
    /// CPU time of applications and proxies per request.
    Cpu: "cpu", "CPU per request", "CPU per request", Ns, Cpu;
    /// CPU time of the proxies per request.
    ProxyCpu: "proxy_cpu", "proxy CPU per request", "proxy CPU per request", Ns, Cpu;
    /// Busy time of the whole machine per request.
    MachineCpu: "machine_cpu", "machine CPU per request", "CPU of the machine per request", Ns, Cpu;
    /// Busy time of the machines that run the application per request, on a cluster. Of a mesh that works in the kernel,
    /// it takes the place of the figures of processes, which lack this work.
    NodeCpu: "node_cpu", "node CPU per request", "CPU of the application's nodes per request", Ns, Cpu;
    /// Memory of the proxies.
    Memory: "memory", "proxy memory", "memory of the proxies", Bytes, Memory;
    /// Instructions of applications and proxies per request, where the machine has hardware counters.
    Instructions: "instructions", "instructions per request", "instructions per request", Count, Cpu;
    /// Cycles of applications and proxies per request, where the machine has hardware counters.
    Cycles: "cycles", "cycles per request", "cycles per request", Count, Cpu;
    /// Highest rate that meets the objectives.
    Capacity: "capacity", "capacity", "capacity", Rps, P99;
    /// Responses per second of a closed loop.
    Throughput: "throughput", "throughput", "throughput", Rps, P99;
    /// Responses per second within the objectives, during an overload.
    Goodput: "goodput", "goodput", "goodput", Rps, P99;
    /// Time until a change of endpoints has arrived everywhere.
    Convergence: "convergence", "convergence", "time until a change has arrived everywhere", Ns, P99;
    /// Time until a pod is ready.
    PodReady: "pod_ready", "pod ready", "time until a pod is ready", Ns, P99;
    /// CPU of the control plane, with churn.
    ControlCpu: "control_cpu", "control plane CPU", "CPU of the control plane", Cores, P99;
    /// Memory of the control plane, with churn.
    ControlMemory: "control_memory", "control plane memory", "memory of the control plane", Bytes, Memory;
    /// CPU of all proxies, in cores.
    DataPlaneCpu: "data_plane_cpu", "data plane CPU", "CPU of the data plane", Cores, Cpu;
    /// Memory of all proxies.
    DataPlaneMemory: "data_plane_memory", "data plane memory", "memory of the data plane", Bytes, Memory;
    /// Memory of the proxy that uses most.
    LargestProxyMemory: "largest_proxy_memory", "largest proxy memory", "memory of the largest proxy", Bytes, Memory;
    /// CPU of the control plane, in cores.
    ControlPlaneCpu: "control_plane_cpu", "control plane CPU", "CPU of the control plane", Cores, Cpu;
    /// Memory of the control plane.
    ControlPlaneMemory: "control_plane_memory", "control plane memory", "memory of the control plane", Bytes, Memory;
}

impl Figure {
    /// The percentiles that a summary states, with their quantiles from 0 to 1. The maximum comes after them.
    pub const PERCENTILES: [(Self, f64); 5] = [
        (Self::P50, 0.5),
        (Self::P90, 0.9),
        (Self::P99, 0.99),
        (Self::P99_9, 0.999),
        (Self::P99_99, 0.9999),
    ];

    /// Figures of processes and containers. They lack what a mesh does in the kernel.
    pub const OF_PROCESSES: [Self; 4] =
        [Self::Cpu, Self::ProxyCpu, Self::Instructions, Self::Cycles];

    /// The CPU of a comparison: of several, the first that both meshes have.
    pub const CPU: [Self; 3] = [Self::ProxyCpu, Self::Cpu, Self::NodeCpu];

    /// The name in files and options.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.entry().id
    }

    /// The head of a column.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.entry().label
    }

    /// The name in a sentence.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        self.entry().phrase
    }

    /// The unit of its values in files.
    #[must_use]
    pub const fn unit(self) -> Unit {
        self.entry().unit
    }

    pub(crate) const fn margin(self) -> Margin {
        self.entry().margin
    }

    /// Whether more of it is better: a rate, not a cost.
    #[must_use]
    pub fn is_rate(self) -> bool {
        self.unit() == Unit::Rps
    }

    /// The latency that it is, or of which it is the ratio to the baseline; `None` of other figures.
    #[must_use]
    pub fn percentile(self) -> Option<Self> {
        match self {
            Self::RatioP50 => Some(Self::P50),
            Self::RatioP99 => Some(Self::P99),
            _ => self.q().map(|_| self),
        }
    }

    /// The quantile of a percentile, from 0 to 1; `None` of other figures.
    #[must_use]
    pub fn q(self) -> Option<f64> {
        let known = Self::PERCENTILES.into_iter().chain([(Self::Max, 1.0)]);
        known.into_iter().find(|(f, _)| *f == self).map(|(_, q)| q)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_one_name_in_files_and_in_code() {
        for figure in Figure::ALL {
            let json = serde_json::to_value(figure).unwrap();
            assert_eq!(json, figure.id());
            assert_eq!(serde_json::from_value::<Figure>(json).unwrap(), *figure);
        }
        assert!(serde_json::from_value::<Figure>("p98".into()).is_err());
        for figure in Figure::ALL {
            assert_eq!(
                serde_json::to_value(figure.unit()).unwrap(),
                figure.unit().id()
            );
        }
    }

    #[test]
    fn ratios_belong_to_their_percentile() {
        assert_eq!(Figure::RatioP99.percentile(), Some(Figure::P99));
        assert_eq!(Figure::Max.percentile(), Some(Figure::Max));
        assert_eq!(Figure::Cpu.percentile(), None);
        assert!(Figure::Capacity.is_rate() && !Figure::Memory.is_rate());
    }
}
